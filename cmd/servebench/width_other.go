//go:build !unix

package main

import "io"

// hasWidth tells whether a terminal knows its width.
func hasWidth(io.Writer) bool { return true }
