//go:build !hf

package main

const tokenizerBuild = "without the local tokenizer: pure Go"
