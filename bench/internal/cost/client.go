package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/servebench/servebench/bench"
	"github.com/servebench/servebench/dataset"
	"github.com/servebench/servebench/loadgen/openai"
)

// promptTokens are those of a prompt where prompts do not matter.
const promptTokens = 32

// serveArgs are the words after the binary for n requests at once.
func serveArgs(url string, n, tokens int) []string {
	return []string{
		"serve", "--base-url", url, "--model", "m", "--skip-tokenizer-init", "--disable-tqdm", "--temperature", "0",
		"--num-prompts", strconv.Itoa(n), "--random-input-len", strconv.Itoa(promptTokens), "--random-output-len", strconv.Itoa(tokens),
	}
}

// config is what serveArgs say.
func config(url string, n, tokens int) bench.Config {
	zero := 0.0
	return bench.Config{
		Backend: "openai", Model: "m", NoTokenizer: true, Stream: true, IgnoreEOS: true,
		Target:   openai.Config{BaseURL: url},
		Sampling: openai.Sampling{Temperature: &zero},
		Dataset:  dataset.Spec{Name: "random", Prompts: n, InputLen: promptTokens, OutputLen: tokens},
	}
}

// readBare is the role bare: the least that a client of net/http can do.
func readBare(ctx context.Context, url string, n, tokens int) error {
	plan, err := bench.Prepare(ctx, config(url, n, tokens))
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: n, DisableCompression: true}}
	defer client.CloseIdleConnections()
	runtime.GC()
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = readLines(ctx, client, url+"/v1/completions", plan.Requests[i].Body, tokens) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func readLines(ctx context.Context, client *http.Client, url string, body []byte, tokens int) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	arrivals := make([]time.Time, 0, tokens+2)
	for r := bufio.NewReader(res.Body); ; {
		line, err := r.ReadSlice('\n')
		if len(line) > 1 {
			arrivals = append(arrivals, time.Now())
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	if len(arrivals) < tokens {
		return fmt.Errorf("%d lines for %d tokens", len(arrivals), tokens)
	}
	return nil
}

// countAllocations is the role allocs: it prints the allocations of one run.
func countAllocations(ctx context.Context, stdout io.Writer, url string, n, tokens int) error {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	res, err := bench.Run(ctx, config(url, n, tokens))
	if err != nil {
		return err
	}
	runtime.ReadMemStats(&after)
	if res.Summary.Completed != n {
		return fmt.Errorf("%d of %d requests completed", res.Summary.Completed, n)
	}
	return json.NewEncoder(stdout).Encode(after.Mallocs - before.Mallocs)
}
