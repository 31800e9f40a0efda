package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/servebench/servebench/bench/sim"
)

// simulate is `servebench sim`: the simulator as a server of its own, started as
// `vllm serve` is. args are the words after it. What vLLM's parser would refuse ends
// with its words and exit code 2, what its engine would with its log and exit code 1.
func simulate(ctx context.Context, args []string, t *terminal) error {
	parsed, err := normalize(args, simFlags())
	if err != nil {
		return t.refuse(err)
	}
	if parsed.Help {
		return printSimHelp(t.out, parsed.Topic)
	}
	for _, w := range parsed.Warnings {
		t.notef("warning: %s", w)
	}
	o, err := readSimOptions(parsed)
	if err != nil {
		return &exitError{code: exitUsage, err: err, hint: "servebench sim --help lists the flags"}
	}
	return o.run(ctx, t)
}

// refuse says what is wrong with a command line as argparse does, and then as we do.
func (t *terminal) refuse(err error) error {
	theirs, unknown := "", ""
	var hints []string
	for _, e := range parts(err) {
		var u usageError
		if !errors.As(e, &u) {
			continue
		}
		hints = append(hints, u.Error())
		if words, ok := strings.CutPrefix(u.Theirs, unrecognizedPrefix); ok {
			unknown += " " + words
		} else if theirs == "" {
			theirs = u.Theirs
		}
	}
	// argparse ends at the first bad value, and complains about words it has no use
	// for when it has read all.
	if theirs == "" && unknown != "" {
		theirs = strings.TrimSuffix(unrecognizedPrefix, " ") + unknown
	}
	if theirs == "" {
		return &exitError{code: exitUsage, err: err, hint: "servebench sim --help lists the flags"}
	}
	fmt.Fprintf(t.err, "usage: servebench sim [MODEL] [flags]\nservebench sim: error: %s\n", clip(printable(theirs), 2000))
	return &exitError{code: exitUsage, hint: strings.Join(hints, " | ")}
}

// logf writes a line of the server's log, in the form of vLLM's.
func (t *terminal) logf(level, format string, args ...any) {
	fmt.Fprintf(t.err, "%s %s [servebench-sim] %s\n", level, time.Now().Format("01-02 15:04:05"), printable(fmt.Sprintf(format, args...)))
}

// run starts the server and lets it run until ctx ends.
func (o *simOptions) run(ctx context.Context, t *terminal) error {
	t.logf("INFO", "servebench-sim %s, in the place of vllm %s", sim.Version, serveFlagsVersion)
	if len(o.ignored) > 0 {
		t.logf("INFO", "ignored: %s", strings.Join(o.ignored, ", "))
	}
	if err := o.fit(t); err != nil {
		return err
	}
	// From here on: a signal that comes while the engine is fitted ends the process.
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	select {
	case <-time.After(o.faults.delay):
	case <-ctx.Done():
		return nil
	}
	if err := o.start(t); err != nil {
		return err
	}
	l, err := net.Listen("tcp", net.JoinHostPort(o.host, o.port))
	if err != nil {
		return &exitError{code: exitUsage, err: fmt.Errorf("--host, --port: %w", err)}
	}
	scheme := "http"
	if o.cert != nil {
		scheme = "https"
	}
	if o.untilEOF {
		var end func()
		ctx, end = untilEOF(ctx)
		defer end()
	}
	fmt.Fprintf(t.out, "listening on %s://%s\n", scheme, l.Addr())
	fmt.Fprintf(t.err, "INFO:     Started server process [%d]\nINFO:     Waiting for application startup.\nINFO:     Application startup complete.\n", os.Getpid())
	if o.faults.after > 0 {
		return o.serveSome(ctx, l)
	}
	if o.cert != nil {
		return sim.New(o.config).ServeTLS(ctx, l, *o.cert)
	}
	return sim.New(o.config).Serve(ctx, l)
}

// untilEOF is ctx, canceled too when standard input ends. The goroutine that waits for
// that ends with the process: a read of standard input cannot be called off.
func untilEOF(ctx context.Context) (context.Context, func()) {
	ctx, end := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		end()
	}()
	return ctx, end
}

// fit makes the engine like that of the manifest, with the flags laid over it.
func (o *simOptions) fit(t *terminal) error {
	if o.like == "" {
		return nil
	}
	l, err := t.readLike(o.like)
	if err != nil {
		return &exitError{code: exitUsage, err: fmt.Errorf("--like: %w", err)}
	}
	e, doubt, err := l.fit()
	if err != nil {
		return &exitError{code: exitUsage, err: fmt.Errorf("--like: %s: %w", o.like, err)}
	}
	if doubt != nil {
		t.logf("WARNING", "like %s: %v", o.like, doubt)
	}
	*o.config.Engine = e
	o.setEngine(o.config.Engine)
	if o.config.MaxModelLen == 0 {
		o.config.MaxModelLen = l.MaxModelLen
	}
	if o.config.Model == "" {
		o.config.Model = l.Model
	}
	words := engineFlags(*o.config.Engine)
	if o.config.MaxModelLen > 0 {
		words = append(words, "--max-model-len", fmt.Sprint(o.config.MaxModelLen))
	}
	t.logf("INFO", "like %s: %s", o.like, strings.Join(words, " "))
	return nil
}

// start does what a server does before it listens, and fails where it would.
func (o *simOptions) start(t *terminal) error {
	if e := o.config.Engine; e != nil && e.KVTokens > 0 && o.text("max-model-len") == "-1" {
		o.config.MaxModelLen = min(e.KVTokens, autoModelLen) // auto: what fits
	}
	if o.faults.start {
		message := o.faults.with
		if message == "" {
			message = "RuntimeError: told to fail by --fail-start"
		}
		return t.failStart(message)
	}
	for _, l := range o.faults.over {
		if v, ok := o.value(l.Flag); ok && v > l.Most {
			t.logf("INFO", "--%s is %v, above the %v of --fail-start-over", l.Flag, v, l.Most)
			return t.failStart("ValueError: " + noCacheMemory)
		}
	}
	err := o.config.Validate()
	if small, ok := errors.AsType[*sim.KVTooSmallError](err); ok {
		return t.failStart("ValueError: " + o.cacheTooSmall(small))
	}
	switch e := o.config.Engine; {
	case err != nil && e != nil:
		// The flags are right one by one: it is their sum that no engine starts with.
		return t.failStart("ValueError: " + err.Error())
	case err != nil:
		return &exitError{code: exitUsage, err: err}
	case e != nil && e.KVTokens > 0 && o.config.MaxModelLen > 0:
		t.logf("INFO", "GPU KV cache size: %s tokens, Maximum concurrency for %s tokens per request: %.2fx",
			thousands(e.KVTokens), thousands(o.config.MaxModelLen), float64(e.KVTokens)/float64(o.config.MaxModelLen))
	}
	return nil
}

// autoModelLen is the longest request where nothing is said of it.
const autoModelLen = 131072

// noCacheMemory is what vLLM says when nothing is left for the KV cache.
const noCacheMemory = "No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine " +
	"(this flag also controls CPU memory reservation on the CPU backend, despite its name). " + moreOnMemory

const moreOnMemory = "See https://docs.vllm.ai/en/latest/configuration/conserving_memory/ for more details."

// cacheTooSmall is what vLLM says when one request does not fit in the KV cache.
func (o *simOptions) cacheTooSmall(e *sim.KVTooSmallError) string {
	gib := func(tokens int) float64 { return float64(tokens) * o.number("kv-bytes-per-token") / (1 << 30) }
	return fmt.Sprintf("To serve at least one request with the model's max seq len (%d), (%.2f GiB KV cache is needed, which is larger than the "+
		"available KV cache memory (%.2f GiB). Based on the available memory, the estimated maximum model length is %d. Try increasing "+
		"`gpu_memory_utilization` (which also controls CPU memory on the CPU backend) or decreasing `max_model_len` when initializing the engine. ",
		e.MaxModelLen, gib(e.MaxModelLen), gib(e.KVTokens), e.KVTokens) + moreOnMemory
}

// failStart writes the log of a vLLM whose engine does not start.
func (t *terminal) failStart(message string) error {
	t.logf("ERROR", "EngineCore failed to start.")
	for line := range strings.SplitSeq(message, "\n") {
		t.logf("ERROR", "%s", line)
	}
	fmt.Fprintln(t.err, "RuntimeError: Engine core initialization failed. See root cause above.")
	return &exitError{code: exitInternal}
}

// value is what a flag that takes a number is set to, by the command line or by what
// the engine is like.
func (o *simOptions) value(flag string) (v float64, ok bool) {
	if o.has(flag) && o.text(flag) != "-1" {
		return o.number(flag), true
	}
	e := o.config.Engine
	if e == nil {
		return 0, false
	}
	switch flag {
	case "max-num-batched-tokens":
		v = float64(e.MaxNumBatchedTokens)
	case "max-num-seqs":
		v = float64(e.MaxNumSeqs)
	case "max-model-len":
		v = float64(o.config.MaxModelLen)
	}
	return v, v > 0
}

// serveSome serves until more requests for tokens have come than the server is told to
// answer. Then it breaks off as a process that dies does.
func (o *simOptions) serveSome(ctx context.Context, l net.Listener) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var seen atomic.Int64
	inner := sim.New(o.config)
	died := make(chan struct{})
	counting := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && slices.Contains(generating, r.URL.Path) {
			switch n := seen.Add(1); {
			case n == int64(o.faults.after)+1:
				close(died)
				fallthrough
			case n > int64(o.faults.after):
				panic(http.ErrAbortHandler) // the connection ends without an answer
			}
		}
		inner.ServeHTTP(w, r)
	})
	srv := &http.Server{Handler: counting, ErrorLog: log.New(io.Discard, "", 0)}
	if o.cert != nil {
		l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{*o.cert}})
	}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(l) }()
	var err error
	select {
	case <-died:
		err = &exitError{code: exitInternal, err: fmt.Errorf("ended after %d requests, as --fail-after says", o.faults.after)}
	case e := <-failed:
		return fmt.Errorf("serve %s: %w", l.Addr(), e)
	case <-ctx.Done():
	}
	_ = srv.Close() // cuts what runs, and there is nobody to tell
	<-failed
	return err
}

// generating are the paths that ask for tokens.
var generating = []string{"/v1/completions", "/v1/chat/completions", "/v1/responses"}

// thousands writes n with commas.
func thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
