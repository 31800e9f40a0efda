//go:build unix

package main

import (
	"fmt"
	"syscall"
)

// spareDescriptors are what the program needs beside its connections.
const spareDescriptors = 64

// checkDescriptors tells before the run whether there are descriptors for the
// connections that will be open at once. Go has raised the soft limit to the hard
// one at start.
func (o *options) checkDescriptors() error {
	c := &o.config
	n := c.MaxConcurrency
	if n == 0 && c.Rate.IsInf() {
		n = c.Dataset.Prompts
	}
	ends := 1
	if o.sim != nil {
		ends = 2 // the simulator's are in this process
	}
	most, ok := mostFiles()
	if !ok {
		return nil // then the requests will tell
	}
	// Each replica gets as many connections as may be in flight at it.
	servers := 1 + len(c.Replicas)
	open := min(n, (max(c.Dataset.Prompts, 1)+servers-1)/servers) * servers
	if need := uint64(open*ends + spareDescriptors); need > most {
		return fmt.Errorf("%d requests in flight need %d open files, and the limit is %d; raise it (ulimit -n), or lower --max-concurrency", n, need, most)
	}
	return nil
}

// mostFiles is how many files may be open at once.
func mostFiles() (n uint64, ok bool) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, false
	}
	return uint64(limit.Max), true
}

// openStreams is how many connections can be open at once beside all else; 0 where
// nobody knows.
func openStreams() int {
	most, ok := mostFiles()
	if !ok {
		return 0
	}
	return int(max(1, min(most, 1<<20)-min(most, spareDescriptors)))
}
