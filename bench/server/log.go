package server

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"sync"
	"unicode/utf8"
)

const (
	tailBytes = 64 << 10 // kept of the end of a log
	tailLines = 200      // of them at most
	lineBytes = 4 << 10  // of a line are looked at
	logBytes  = 64 << 20 // of a log are kept on disk
)

// capture takes what one replica writes: into a file, of which no more than
// logBytes are kept, and line by line past the expressions that say what a line
// means. Its memory is bounded whatever comes. One goroutine runs it; the other
// methods are safe for concurrent use.
type capture struct {
	file    *os.File
	limit   int64         // bytes to keep in file
	warn    *warnings     // of the whole group
	done    chan struct{} // closed when the last writer has gone
	pending []byte        // a line without its end, lineBytes at most
	skip    bool          // pending is full: the rest of the line is not looked at
	kept    int64         // bytes in file

	mu   sync.Mutex // guards all below
	tail []byte     // the last tailBytes, and as many again
	last string     // the last line with anything on it
	diag diagnosis
	lost int64 // bytes that file did not take
	err  error // of the first write that failed
}

// run reads until the last writer has gone, or the pipe was closed, and closes
// the file.
func (c *capture) run(r io.Reader) {
	defer close(c.done)
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		c.keep(buf[:n])
		c.feed(buf[:n])
		if err != nil {
			break
		}
	}
	c.line(plain(c.pending))
	if err := c.file.Close(); err != nil {
		c.fail(0, err)
	}
}

// keep writes p to the file, as far as the limit lets it.
func (c *capture) keep(p []byte) {
	room := min(int64(len(p)), c.limit-c.kept)
	n, err := c.file.Write(p[:room])
	c.kept += int64(n)
	if n < len(p) {
		c.fail(int64(len(p)-n), err)
	}
}

func (c *capture) fail(lost int64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost += lost
	if c.err == nil {
		c.err = err
	}
}

// feed takes p apart into lines. A carriage return ends one too: progress bars
// overwrite themselves.
func (c *capture) feed(p []byte) {
	c.mu.Lock()
	c.tail = append(c.tail, p...)
	// One byte more than is shown: it tells whether the first line is whole.
	if over := len(c.tail) - tailBytes - 1; over > tailBytes {
		c.tail = slices.Delete(c.tail, 0, over)
	}
	c.mu.Unlock()
	for len(p) > 0 {
		end := bytes.IndexAny(p, "\r\n")
		part := p
		if end >= 0 {
			part = p[:end]
		}
		if room := lineBytes - len(c.pending); !c.skip {
			c.skip = len(part) > room
			c.pending = append(c.pending, part[:min(room, len(part))]...)
		}
		if end < 0 {
			return
		}
		c.line(plain(c.pending))
		c.pending, c.skip = c.pending[:0], false
		p = p[end+1:]
	}
}

// line looks at one line, without control characters.
func (c *capture) line(s string) {
	if s == "" {
		return
	}
	folded := fold(s)
	c.warn.see(s, folded)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = s
	c.diag.see(s, folded)
}

// end is the last lines of the log, as they are.
func (c *capture) end() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return lastLines(c.tail, tailBytes, tailLines)
}

// version is the engine's, as far as the log has said it.
func (c *capture) version() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.diag.version
}

// lastLines are the last lines of data, bytes and lines at most; the first is
// whole unless it alone is too long.
func lastLines(data []byte, maxBytes, maxLines int) []byte {
	if over := len(data) - maxBytes; over > 0 {
		cut := data[over-1:]
		if at := bytes.IndexByte(cut, '\n'); at >= 0 && at+1 < len(cut) {
			data = cut[at+1:]
		} else {
			data = cut[1:]
		}
	}
	at := len(data)
	for n := 0; at > 0; at-- {
		if data[at-1] == '\n' && at < len(data) {
			if n++; n == maxLines {
				break
			}
		}
	}
	return bytes.Clone(data[at:])
}

// complaint says what of the log could not be kept, or is "".
func (c *capture) complaint() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err != nil:
		return fmt.Sprintf("%d bytes of the server's log were not kept: %v", c.lost, c.err)
	case c.lost > 0:
		return fmt.Sprintf("the server's log was cut after %d bytes, and %d were not kept; their lines were still looked at", c.limit, c.lost)
	}
	return ""
}

// defaultWarnings are lines after which vLLM's numbers, or its answers, are not
// what the configuration lets expect: each is part of a message in the source of
// vLLM 0.32, the preemption mode in that of 0.8.
var defaultWarnings = []string{
	// Scales that the checkpoint lacks: speed is measured, quality is not.
	`Using uncalibrated q_scale`,
	`Using KV cache scaling factor 1\.0`,
	`Checkpoint does not provide a q scaling factor`,
	// Scales of fused layers that should be one.
	`w1_weight_(?:scale_2|global_scale) must match w3_`,
	`In (?:NVFP4|FP8) linear, the .*(?:is|are|differs)`,
	`Found input_scales that are not equal`,
	// Kernels slower than the hardware's best.
	`(?:does not have native support for FP[48]|lacks native FP4 compute)`,
	`Using default (?:MoE|W8A8 Block FP8 kernel) config`,
	`Skipping CUDA graph capture|CUDAGraphMode\.\w+ is not supported`,
	`FlashInfer top-p/top-k sampling unavailable`,
	`Cannot use FA version`,
	// Not as asked for.
	`Disabling (?:prefix caching|chunked prefill)`,
	`Async scheduling .*(?:disabled|not supported)`,
	`min_p and logit_bias parameters won't work with spec`,
	`Default vLLM sampling parameters have been overridden`,
	// Work done twice under load.
	`Preemptions: [1-9]|is preempted by PreemptionMode`,
}

// warnings counts the lines that match expressions. It is safe for concurrent
// use.
type warnings struct {
	mu   sync.Mutex // guards what the entries have seen
	list []*pattern
}

// pattern is an expression and the lines that matched it: until the servers were
// ready, then during runs that are over, and since then.
type pattern struct {
	quick
	start, before, since tally
}

// tally is some lines and the first of them.
type tally struct {
	first string
	count int
}

func (t tally) plus(later tally) tally {
	if t.count == 0 {
		return later
	}
	t.count += later.count
	return t
}

// watchFor compiles the user's expressions, which are valid, and the default ones.
func watchFor(expressions []string) *warnings {
	w := &warnings{}
	for _, e := range slices.Concat(expressions, defaultWarnings) {
		w.list = append(w.list, &pattern{quick: quickly(regexp.MustCompile(e))})
	}
	return w
}

// see counts a line for the first expression that it matches; folded is fold(line).
func (w *warnings) see(line, folded string) {
	for _, p := range w.list {
		if !p.match(line, folded) {
			continue
		}
		w.mu.Lock()
		p.since = p.since.plus(tally{brief(line), 1})
		w.mu.Unlock()
		return
	}
}

// ready tells that what was seen so far is of the start.
func (w *warnings) ready() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.list {
		p.start, p.since = p.since, tally{}
	}
}

// take returns the warnings so far, in the order of the expressions. What was seen
// after the start is of an earlier run when it is taken again: a line about how the
// server works holds for the later ones too, one about its load does not, and nobody
// can tell them apart.
func (w *warnings) take() (texts []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.list {
		for _, t := range []struct {
			said string
			tally
		}{{"says", p.start.plus(p.since)}, {"said during an earlier run", p.before}} {
			switch {
			case t.count == 1:
				texts = append(texts, fmt.Sprintf("the server's log %s: %s", t.said, t.first))
			case t.count > 1:
				texts = append(texts, fmt.Sprintf("the server's log %s, first of %d such lines: %s", t.said, t.count, t.first))
			}
		}
		p.before, p.since = p.before.plus(p.since), tally{}
	}
	return texts
}

// ansi are the escape sequences of terminals: CSI, OSC and the short ones.
var ansi = regexp.MustCompile("\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?|[ -/]*[0-~])")

// plain is a line as text: valid UTF-8 without colours, control characters and
// space at its end. A tab is a space.
func plain(line []byte) string {
	if bytes.IndexByte(line, 0x1b) >= 0 {
		line = ansi.ReplaceAll(line, nil)
	}
	line = bytes.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case isControl(r) || r >= 0x80 && r < 0xa0 || r == 0x2028 || r == 0x2029:
			return -1
		}
		return r // RuneError too: it shows that a byte was none
	}, line)
	return string(bytes.TrimRight(line, " "))
}

// origin is what vLLM and Python's logging put before a message.
var origin = regexp.MustCompile(`^(?:\([^()]*\bpid=\d+\) ?)?(?:(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) [0-9-]+ [0-9:.,]+ \[[^\]]*\] ?)?`)

// brief is a line without where it comes from, 300 bytes at most.
func brief(line string) string {
	const most = 300
	line = origin.ReplaceAllString(line, "")
	if len(line) <= most {
		return line
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(line[cut]) {
		cut--
	}
	return line[:cut] + "…"
}
