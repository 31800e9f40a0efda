package server

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/servebench/servebench/manifest"
)

// captured runs a capture over the pieces of a log, as they would be read.
func captured(t testing.TB, limit int64, expressions []string, pieces ...string) *capture {
	f, err := os.Create(filepath.Join(t.TempDir(), "server.log"))
	if err != nil {
		t.Fatal(err)
	}
	c := &capture{file: f, limit: limit, warn: watchFor(expressions), done: make(chan struct{})}
	readers := make([]io.Reader, len(pieces))
	for i, p := range pieces {
		readers[i] = strings.NewReader(p)
	}
	c.run(io.MultiReader(readers...))
	<-c.done
	return c
}

// TestWhyVLLMEnded: category and message from logs of vLLM 0.32 on the CPU, as
// SanitizedLog left them.
func TestWhyVLLMEnded(t *testing.T) {
	for _, c := range []struct {
		log               string
		code              int
		version           string // which argparse does not live to say
		category, message string // the message's beginning
	}{
		{"badflag", 2, "", "bad_argument", "vllm: error: unrecognized arguments: --max-num-batched-tokenz 2048"},
		{"badvalue", 1, "0.32.0", "bad_argument", "Value error, max_num_batched_tokens (16) is smaller than max_model_len (8192)."},
		{"toolong", 1, "0.32.0", "bad_argument", "Value error, User-specified max_model_len (100000000) is greater than the derived max_model_len"},
		{"kvlong", 1, "0.32.0", "kv_cache_allocation", "ValueError: To serve at least one request with the model's max seq len (9000000), (4.29 GiB KV cache is needed"},
		{"nomem", 1, "0.32.0", "kv_cache_allocation", "ValueError: Available memory on node 0 (21.75/23.54 GiB) on kv cache allocation is less than requested memory"},
		{"nomodel", 1, "0.32.0", "model_not_found", "huggingface_hub.errors.LocalEntryNotFoundError: Cannot find an appropriate cached snapshot folder"},
		{"portbusy", 1, "0.32.0", "port_in_use", "OSError: [Errno 98] Address already in use"},
	} {
		t.Run(c.log, func(t *testing.T) {
			log, err := os.ReadFile("testdata/vllm-" + c.log + ".log")
			if err != nil {
				t.Fatal(err)
			}
			got := captured(t, logBytes, nil, string(log))
			category, message := got.diag.cause(&c.code, got.last)
			if category != c.category || !strings.HasPrefix(message, c.message) {
				t.Errorf("%s: %s\nwant %s: %s…", category, message, c.category, c.message)
			}
			if got.version() != c.version {
				t.Errorf("version %q, want %q", got.version(), c.version)
			}
			if utf8.RuneCountInString(message) > 301 {
				t.Errorf("the message has %d characters", utf8.RuneCountInString(message))
			}
		})
	}
}

// What other versions, and the simulator, say of theirs.
func TestVersionInLog(t *testing.T) {
	for line, want := range map[string]string{
		"INFO 12-01 03:53:30 [servebench-sim] servebench-sim 0.3.0, in the place of vllm 0.32.0":       "0.3.0",
		"(APIServer pid=7) INFO 08-26 10:00:00 [api_server.py:1882] vLLM API server version 0.11.0rc2": "0.11.0rc2",
		"INFO 08-26 10:00:00 [core.py:77] Initializing a V1 LLM engine (v0.11.0) with config: x":       "0.11.0",
		"INFO 08-26 10:00:00 [x.py:1] Using FlashAttention version 3":                                  "",
		"    vLLM API server version 9": "",
	} {
		if got := captured(t, logBytes, nil, line+"\n").version(); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// TestCause: messages that no CPU gives, from vLLM's and other sources, and what
// goes before what.
func TestCause(t *testing.T) {
	engine := "(EngineCore_DP0 pid=12) ERROR 08-26 10:00:00 [core.py:708] "
	for _, c := range []struct {
		name, log         string
		code              int
		category, message string
	}{
		{"no room for the cache", engine + "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`\n" +
			"RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}\n", 1,
			"kv_cache_allocation", "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`"},
		{"out of memory", engine + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n" +
			"RuntimeError: Engine core initialization failed. See root cause above.\n", 1,
			"out_of_memory", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."},
		{"another process has the memory", "ValueError: Free memory on device cuda:0 (1.0/31.3 GiB) on startup is less than desired GPU memory utilization (0.9, 28.2 GiB).\n", 1,
			"out_of_memory", "ValueError: Free memory on device cuda:0 (1.0/31.3 GiB) on startup is less than desired GPU memory utilization (0.9, 28.2 GiB)."},
		{"the cache goes before memory", "torch.OutOfMemoryError: CUDA out of memory\nValueError: No available memory for the cache blocks.\n", 1,
			"kv_cache_allocation", "ValueError: No available memory for the cache blocks."},
		{"an unknown repository", "OSError: nobody/none is not a local folder and is not a valid model identifier listed on 'https://huggingface.co/models'\n", 1,
			"model_not_found", "OSError: nobody/none is not a local folder and is not a valid model identifier listed on 'https://huggingface.co/models'"},
		{"the exception before its echo", "ValueError: this\n" + engine + "RuntimeError: that\nException: WorkerProc initialization failed due to an exception in a background process. See stack trace for root cause.\n" +
			"RuntimeError: Engine core initialization failed. See root cause above.\n", 1, "other", "RuntimeError: that"},
		{"only an echo", "RuntimeError: Engine core initialization failed. See root cause above.\ngoodbye\n", 1, "other", "RuntimeError: Engine core initialization failed. See root cause above."},
		{"a shell's", "sh: 1: vllm: not found\n", 127, "command_not_found", "sh: 1: vllm: not found"},
		{"exit code 2 alone", "what is that\n", 2, "bad_argument", "what is that"},
		{"Go's flags", "flag provided but not defined: -x\nUsage of sim:\n", 2, "bad_argument", "flag provided but not defined: -x"},
		{"nothing known", "bye\n\n", 3, "other", "bye"},
		{"silence", "", 0, "other", ""},
		{"colours", "\x1b[31mValueError: red\x1b[0m\n", 1, "other", "ValueError: red"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := captured(t, logBytes, nil, c.log)
			category, message := got.diag.cause(&c.code, got.last)
			if category != c.category || message != c.message {
				t.Errorf("%s: %q\nwant %s: %q", category, message, c.category, c.message)
			}
		})
	}
}

func TestWarningsAreCountedOnce(t *testing.T) {
	uncalibrated := "(EngineCore pid=5) WARNING 08-26 10:00:00 [kv_cache.py:202] Using uncalibrated q_scale 1.0 and/or prob_scale 1.0 with fp8 attention.\n"
	c := captured(t, logBytes, []string{`w1/w3`, `odd`}, uncalibrated+"odd one\nfine\nod", "d two\n", uncalibrated+"Engine 000: Running: 1 reqs, Preemptions: 4, GPU KV cache usage: 99.0%\nodd three")
	want := []string{
		"the server's log says, first of 3 such lines: odd one",
		"the server's log says, first of 2 such lines: Using uncalibrated q_scale 1.0 and/or prob_scale 1.0 with fp8 attention.",
		"the server's log says: Engine 000: Running: 1 reqs, Preemptions: 4, GPU KV cache usage: 99.0%",
	}
	if d := cmp.Diff(want, c.warn.take()); d != "" {
		t.Error(d)
	}
}

// TestWarningsOfRuns: what a run made the server say is no word about the next one.
func TestWarningsOfRuns(t *testing.T) {
	w := watchFor([]string{"odd", "full"})
	w.see("odd scales", fold("odd scales"))
	w.ready()
	for i, c := range []struct {
		lines []string
		want  []string
	}{
		{[]string{"full at 1", "full at 2"}, []string{"the server's log says: odd scales", "the server's log says, first of 2 such lines: full at 1"}},
		{nil, []string{"the server's log says: odd scales", "the server's log said during an earlier run, first of 2 such lines: full at 1"}},
		{[]string{"odd step", "full at 3"}, []string{"the server's log says, first of 2 such lines: odd scales", "the server's log says: full at 3", "the server's log said during an earlier run, first of 2 such lines: full at 1"}},
		{nil, []string{"the server's log says: odd scales", "the server's log said during an earlier run: odd step", "the server's log said during an earlier run, first of 3 such lines: full at 1"}},
	} {
		for _, l := range c.lines {
			w.see(l, fold(l))
		}
		if d := cmp.Diff(c.want, w.take()); d != "" {
			t.Errorf("run %d: %s", i+1, d)
		}
	}
}

// TestCaptureIsBounded: a line without end, a log without end, bytes that are no
// text.
func TestCaptureIsBounded(t *testing.T) {
	long := strings.Repeat("x", 3*tailBytes)
	c := captured(t, 10, []string{"needle"}, long+"needle\n", "\xff\xfe needle\n", long, "\nValueError: end\n")
	if c.kept != 10 || c.lost != int64(2*len(long)+len("needle\n\xff\xfe needle\n\nValueError: end\n")-10) {
		t.Errorf("kept %d, lost %d", c.kept, c.lost)
	}
	if data, err := os.ReadFile(c.file.Name()); string(data) != "xxxxxxxxxx" {
		t.Errorf("the file has %q (%v)", data, err)
	}
	if got, want := c.warn.take(), []string{"the server's log says: \ufffd\ufffd needle"}; !cmp.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want) // what is beyond lineBytes is not looked at
	}
	if c.diag.raised != "ValueError: end" || !strings.HasPrefix(c.complaint(), "the server's log was cut after 10 bytes") {
		t.Errorf("%q, %q", c.diag.raised, c.complaint())
	}
	// A feed brings 32 KiB more before the tail is cut.
	if cap(c.pending) > 2*lineBytes || len(c.tail) > 2*tailBytes+32<<10 {
		t.Errorf("pending has %d bytes, tail %d", cap(c.pending), len(c.tail))
	}
	if end := c.end(); string(end) != "ValueError: end\n" {
		t.Errorf("the end is %d bytes: …%q", len(end), end[max(0, len(end)-40):]) // the line before is not whole
	}
}

func TestLastLines(t *testing.T) {
	for _, c := range []struct {
		data         string
		bytes, lines int
		want         string
	}{
		{"", 10, 2, ""},
		{"a\nb\nc\n", 10, 2, "b\nc\n"},
		{"a\nb\nc", 10, 2, "b\nc"},
		{"a\nb\n", 10, 5, "a\nb\n"},
		{"aaaa\nb\nc\n", 5, 9, "b\nc\n"}, // aaaa is not whole
		{"aa\nb\nc\n", 4, 9, "b\nc\n"},   // the cut is at a line's beginning
		{"aaaaaaaa", 3, 9, "aaa"},
	} {
		if got := string(lastLines([]byte(c.data), c.bytes, c.lines)); got != c.want {
			t.Errorf("%q, %d bytes, %d lines: %q, want %q", c.data, c.bytes, c.lines, got, c.want)
		}
	}
}

func TestSanitizedLog(t *testing.T) {
	red := &manifest.Redactor{Secrets: []string{"canary-key-1"}, Home: "/home/ann", HostNames: []string{"gpubox7"}, UserNames: []string{"annabel"}}
	log := "\x1b[1;32mINFO\x1b[0m start on gpubox7\r\n" +
		"Loading:  0%\rLoading: 50%\rLoading: 100%\n" +
		"model=/home/ann/models/x key=canary-key-1 at 192.168.1.7:80\n" +
		"INFO Received request cmpl-1: prompt: 'Tell me about\\nher', params: x\n" +
		"Request 1 JSON body: {\"messages\": [{\"content\": \"her\"}]}\n" +
		"Value error, bad [type=value_error, input_value='her', input_type=str]\n" +
		"Avg prompt throughput: 12.0 tokens/s, prompt_tokens: 5\n" +
		"\xff\x00\x07tab\there\u2028\x9b\n" +
		"by annabel"
	want := "INFO start on <redacted>\n" +
		"Loading: 100%\n" +
		"model=<local-path> key=<redacted> at <lan-address>:80\n" +
		"[a line with a prompt left out]\n" +
		"[a line with a prompt left out]\n" +
		"Value error, bad [type=value_error, input_value=…\n" +
		"Avg prompt throughput: 12.0 tokens/s, prompt_tokens: 5\n" +
		"\ufffdtab here\ufffd\n" +
		"by <redacted>\n"
	if d := cmp.Diff(want, string(SanitizedLog([]byte(log), red))); d != "" {
		t.Error(d)
	}
}

func TestSanitizedLogIsBounded(t *testing.T) {
	// A line has 10 bytes: 50 of them are a half at the beginning, and 50 at the
	// end; the 51st of the first half is not whole.
	var log bytes.Buffer
	for i := range 300 {
		fmt.Fprintf(&log, "line %04d\n", i)
	}
	out := string(sanitized(log.Bytes(), &manifest.Redactor{}, 1005))
	if !strings.HasPrefix(out, "line 0000\n") || !strings.Contains(out, "\nline 0049\n[200 lines left out]\nline 0250\n") || !strings.HasSuffix(out, "\nline 0299\n") {
		t.Error(out)
	}
	long := SanitizedLog([]byte(strings.Repeat("é", longLine)+"\n"+strings.Repeat("é", lineBytes)), &manifest.Redactor{})
	if want := "[a line of more than 32 KiB left out]\n" + strings.Repeat("é", lineBytes/2) + "…\n"; string(long) != want {
		t.Errorf("long lines become %d bytes, want %d", len(long), len(want))
	}
	// A tail may begin in the middle of a secret.
	tail := lastLines([]byte("canary-of-the-server"+strings.Repeat("x", tailBytes-10)+"\n"), tailBytes, tailLines)
	if got := string(SanitizedLog(tail, &manifest.Redactor{Secrets: []string{"canary-of-the-server"}})); got != "[a line of more than 32 KiB left out]\n" {
		t.Errorf("%.40q of %d bytes is published of a line that was cut", got, len(got))
	}
}

// FuzzLog: whatever a server writes, in whatever pieces, the looks at it end,
// are bounded, and find the same; what is published is plain text.
func FuzzLog(f *testing.F) {
	f.Add([]byte("a\rb\nValueError: x\n\x1b[31m\xff"), 3)
	f.Add([]byte("(EngineCore pid=1) ERROR 01-01 00:00:00 [a.py:1] torch.OutOfMemoryError: CUDA out of memory\n"), 50)
	f.Fuzz(func(t *testing.T, log []byte, cut int) {
		cut = max(0, min(cut, len(log)))
		whole := captured(t, 100, nil, string(log))
		apart := captured(t, 100, nil, string(log[:cut]), string(log[cut:]))
		if whole.diag != apart.diag || whole.last != apart.last || !bytes.Equal(whole.end(), apart.end()) {
			t.Errorf("in one piece %+v %q, in two %+v %q", whole.diag, whole.last, apart.diag, apart.last)
		}
		for _, s := range []string{whole.diag.why, whole.diag.raised, whole.last} {
			if !utf8.ValidString(s) || strings.ContainsFunc(s, isControl) {
				t.Errorf("%q is no plain text", s)
			}
		}
		out := SanitizedLog(log, &manifest.Redactor{})
		if !utf8.Valid(out) || strings.ContainsFunc(strings.ReplaceAll(string(out), "\n", ""), isControl) {
			t.Errorf("%q is published", out)
		}
		if again := SanitizedLog(out, &manifest.Redactor{}); !bytes.Equal(again, out) {
			t.Errorf("again: %q, first %q", again, out)
		}
	})
}
