package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/servebench/servebench/manifest"
)

// The commands of the three published runs, with `servebench serve` in place of
// `vllm bench serve`, paths and port filled in and --tokenizer left out, run
// unchanged and give a manifest without a failed rule that describes the
// workload as the published one does. C1 and C2 have nothing to hold against
// each other where the target is simulated.
func TestReferenceCommands(t *testing.T) {
	binary := build(t)
	target := simulate(t, binary)
	for i := range 3 {
		t.Run(strconv.Itoa(i+1), func(t *testing.T) {
			published := reference(t, i+1)
			dir := t.TempDir()
			words := reword(t, published.Measurement.BenchmarkCommand, target, dir)
			c := exec.CommandContext(t.Context(), binary, words...)
			c.Dir, c.Env = dir, environment()
			began := time.Now()
			if out, err := c.CombinedOutput(); err != nil {
				t.Fatalf("servebench %s: %v\n%s", strings.Join(words, " "), err, out)
			}
			t.Logf("%v", time.Since(began).Round(time.Millisecond))
			checkReference(t, dir, words, published)
		})
	}
}

// build makes the pure-Go binary.
func build(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "servebench")
	c := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", binary, "github.com/servebench/servebench/cmd/servebench")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return binary
}

// environment keeps keys, proxies and hub caches of this machine out.
func environment() (env []string) {
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		if name != "OPENAI_API_KEY" && !strings.HasSuffix(strings.ToUpper(name), "_PROXY") && !strings.HasPrefix(name, "HF_") {
			env = append(env, e)
		}
	}
	return env
}

// simulate starts the simulator and stops it after the test.
func simulate(t *testing.T, binary string) *url.URL {
	t.Helper()
	// Not t.Context: that ends before the cleanup that stops it in order.
	c := exec.Command(binary, "sim", "--ttft", "1ms", "--itl", "50us")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGTERM)
		if err := c.Wait(); err != nil {
			t.Errorf("servebench sim: %v", err)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(strings.TrimSpace(strings.TrimPrefix(line, "listening on ")))
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// reference is a published manifest, out of its envelope.
func reference(t *testing.T, n int) *manifest.Run {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("../../../manifest/testdata/seed-run-%d.json", n))
	if err != nil {
		t.Fatal(err)
	}
	var envelope struct{ Manifest manifest.Run }
	if err := json.Unmarshal(data, &envelope); err != nil {
		t.Fatal(err)
	}
	return &envelope.Manifest
}

// reword makes a published command one of this machine. The published ones have
// no quotes.
func reword(t *testing.T, line string, target *url.URL, dir string) (words []string) {
	t.Helper()
	rest, ok := strings.CutPrefix(line, "vllm bench serve ")
	if !ok {
		t.Fatalf("%q is no vllm bench serve", line)
	}
	words = append(words, "serve")
	for flag, fields := "", strings.Fields(rest); len(fields) > 0; fields = fields[1:] {
		word := fields[0]
		if strings.HasPrefix(word, "--") {
			flag = word
		}
		switch {
		case flag == "--tokenizer":
			continue
		case word == flag:
		case flag == "--base-url":
			word = target.String()
		case flag == "--port":
			word = target.Port()
		case word == "<EXACT_SYNTHETIC_DATASET>":
			word = filepath.Join(dir, "data.jsonl")
			if err := os.WriteFile(word, fixedRows(256, 1024), 0o666); err != nil {
				t.Fatal(err)
			}
		case word == "<local-path>":
			word = dir
		}
		words = append(words, word)
	}
	return words
}

// fixedRows is a JSONL file of n different prompts of as many tokens each: a word
// of up to six letters with a space before it is one to the simulator.
func fixedRows(n, tokens int) []byte {
	var b strings.Builder
	for i := range n {
		b.WriteString(`{"prompt":"`)
		for j := range tokens {
			b.WriteByte(' ')
			for v := i*tokens + j; ; v /= 26 {
				b.WriteByte(byte('a' + v%26))
				if v < 26 {
					break
				}
			}
		}
		b.WriteString("\"}\n")
	}
	return []byte(b.String())
}

func checkReference(t *testing.T, dir string, words []string, published *manifest.Run) {
	t.Helper()
	name := words[slices.Index(words, "--result-filename")+1]
	if words[slices.Index(words, "--result-dir")+1] == "results" {
		dir = filepath.Join(dir, "results")
	}
	path := filepath.Join(dir, strings.TrimSuffix(name, ".json")+".manifest.json")
	for _, p := range verified(dir, path) {
		t.Error(p)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var ours manifest.Run
	if err := json.Unmarshal(data, &ours); err != nil {
		t.Fatal(err)
	}
	if ours.Outcome != manifest.Completed || ours.Results == nil || ours.Results.FailedRequests != 0 {
		t.Fatalf("outcome %s, results %+v", ours.Outcome, ours.Results)
	}
	if ours.Measurement.Extensions["servebench.simulated"] != true {
		t.Error("the manifest does not say that the target is simulated")
	}
	a, b := ours.Workload, published.Workload
	for _, f := range []struct {
		field      string
		have, want any
	}{
		{"request_count", a.RequestCount, b.RequestCount},
		{"concurrency", a.Concurrency, b.Concurrency},
		{"random_seed", a.RandomSeed, b.RandomSeed},
		{"request_rate_per_second", a.RequestRatePerSecond, b.RequestRatePerSecond},
		{"arrival_process", a.ArrivalProcess, b.ArrivalProcess},
		{"input_tokens", a.InputTokens, b.InputTokens},
		{"output_tokens", a.OutputTokens, b.OutputTokens},
		{"sampling.temperature", a.Sampling.Temperature, b.Sampling.Temperature},
		{"stopping.ignore_eos", a.Stopping.IgnoreEOS, b.Stopping.IgnoreEOS},
		{"stopping", max(a.Stopping.MaxTokens, a.Stopping.MaxOutputTokens), max(b.Stopping.MaxTokens, b.Stopping.MaxOutputTokens)},
		{"streaming", a.Streaming, b.Streaming},
	} {
		if !reflect.DeepEqual(f.have, f.want) {
			t.Errorf("workload.%s is %v, the published run has %v", f.field, show(f.have), show(f.want))
		}
	}
	// The third run's warm-ups were sent by hand, by no flag.
	if slices.Contains(words, "--num-warmups") && a.WarmupRequestCount != b.WarmupRequestCount {
		t.Errorf("workload.warmup_request_count is %d, the published run has %d", a.WarmupRequestCount, b.WarmupRequestCount)
	}
}

// show writes what a pointer points to.
func show(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}
