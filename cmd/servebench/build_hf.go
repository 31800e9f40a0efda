//go:build hf

package main

const tokenizerBuild = "with the local tokenizer"
