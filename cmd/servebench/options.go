package main

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/servebench/servebench/bench"
	"github.com/servebench/servebench/bench/report"
	"github.com/servebench/servebench/bench/sim"
	"github.com/servebench/servebench/dataset"
	"github.com/servebench/servebench/loadgen"
	"github.com/servebench/servebench/loadgen/openai"
	"github.com/servebench/servebench/manifest"
)

// options is the command line of serve, read.
type options struct {
	config bench.Config
	sim    *sim.Config // nil: a server of the user's

	saving, detailed, appending bool
	dir, filename               string
	manifest, records           string
	selected                    []string
	quiet, dryRun               bool
	started                     time.Time
}

// reader reads values and collects what is wrong with them.
type reader struct {
	c    *cli.Context
	errs []error
}

func (r *reader) badf(flag, format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf("--%s: %s", flag, fmt.Sprintf(format, args...)))
}

func (r *reader) text(flag, def string) string {
	if r.c.IsSet(flag) {
		return r.c.String(flag)
	}
	return def
}

func (r *reader) whole(flag string, def int) int {
	if !r.c.IsSet(flag) {
		return def
	}
	v, err := strconv.Atoi(r.c.String(flag))
	if err != nil {
		r.badf(flag, "%s is not a whole number", quoteWord(r.c.String(flag)))
	}
	return v
}

func (r *reader) bounded(flag string, def, low, high int) int {
	v := r.whole(flag, def)
	if v < low || v > high {
		r.badf(flag, "%d; want %d to %d", v, low, high)
		return def
	}
	return v
}

func (r *reader) optionalInt(flag string) *int {
	if !r.c.IsSet(flag) {
		return nil
	}
	v := r.whole(flag, 0)
	return &v
}

func (r *reader) number(flag string, def float64) float64 {
	if !r.c.IsSet(flag) {
		return def
	}
	v, err := strconv.ParseFloat(r.c.String(flag), 64)
	if err != nil || math.IsNaN(v) {
		r.badf(flag, "%s is not a number", quoteWord(r.c.String(flag)))
	}
	return v
}

func (r *reader) optionalNumber(flag string) *float64 {
	if !r.c.IsSet(flag) {
		return nil
	}
	v := r.number(flag, 0)
	if math.IsInf(v, 0) {
		r.badf(flag, "%v is not finite", v)
	}
	return &v
}

// duration reads 500ms, 10s or a number of seconds.
func (r *reader) duration(flag string, def time.Duration) time.Duration {
	if !r.c.IsSet(flag) {
		return def
	}
	s := r.c.String(flag)
	d, err := time.ParseDuration(s)
	if sec, ferr := strconv.ParseFloat(s, 64); ferr == nil && (sec == 0 || sec >= 1e-6 && sec < 1e9) {
		d, err = time.Duration(sec*float64(time.Second)), nil
	}
	if err != nil || d < 0 {
		r.badf(flag, "%s is not a duration; want 500ms, 10s, 5m or a number of seconds", quoteWord(s))
	}
	return d
}

// limit is a duration in which 0 means none.
func (r *reader) limit(flag string) time.Duration {
	if d := r.duration(flag, -1); d > 0 {
		return d
	} else if d == 0 {
		return -1
	}
	return 0 // the default
}

func (r *reader) choice(flag, def string, among ...string) string {
	v := r.text(flag, def)
	if !slices.Contains(among, v) {
		r.badf(flag, "%s is unknown; want %s", quoteWord(v), strings.Join(among, " or "))
	}
	return v
}

// pairs reads KEY=VALUE words; secret keeps values out of messages.
func (r *reader) pairs(flag string, secret bool) (out [][2]string) {
	for _, w := range r.c.StringSlice(flag) {
		k, v, ok := strings.Cut(w, "=")
		if !ok || k == "" {
			shown := "a word"
			if !secret {
				shown = quoteWord(w)
			}
			r.badf(flag, "%s is not KEY=VALUE", shown)
			continue
		}
		out = append(out, [2]string{k, v})
	}
	return out
}

// readOptions reads the command line. All mistakes are reported at once.
func readOptions(c *cli.Context) (*options, error) {
	r := &reader{c: c}
	o := &options{
		saving: c.Bool("save-result"), detailed: c.Bool("save-detailed"), appending: c.Bool("append-result"),
		dir: r.text("result-dir", ""), filename: r.text("result-filename", ""),
		manifest: r.text("manifest", ""), records: r.text("records", ""),
		quiet: c.Bool("disable-tqdm"), dryRun: c.Bool("dry-run"),
	}
	o.config = bench.Config{
		Backend: r.text("backend", "openai"),
		Model:   r.text("model", ""), ServedModel: r.text("served-model-name", ""),
		Tokenizer: r.text("tokenizer", ""), NoTokenizer: c.Bool("skip-tokenizer-init"),
		Stream: c.Bool("stream"), Strict: c.Bool("strict-openai"), Logprobs: r.optionalInt("logprobs"),
		Rate:           loadgen.Number(r.number("request-rate", math.Inf(1))),
		Burstiness:     loadgen.Number(r.number("burstiness", 1)),
		MaxConcurrency: r.whole("max-concurrency", 0),
		Pacing:         loadgen.Pacing(r.choice("pacing", "hybrid", "sleep", "hybrid")),
		ReadyTimeout:   time.Duration(r.bounded("ready-check-timeout-sec", 0, 0, 7*86400)) * time.Second,
		Grace:          r.duration("drain", 10*time.Second),
		Label:          r.text("label", ""), Metadata: r.pairs("metadata", false),
		RequestIDPrefix: r.text("request-id-prefix", randomPrefix()),
		Sampling: openai.Sampling{
			Temperature: r.optionalNumber("temperature"), TopP: r.optionalNumber("top-p"), TopK: r.optionalInt("top-k"),
			MinP: r.optionalNumber("min-p"), FrequencyPenalty: r.optionalNumber("frequency-penalty"),
			PresencePenalty: r.optionalNumber("presence-penalty"), RepetitionPenalty: r.optionalNumber("repetition-penalty"),
		},
	}
	r.positive("max-concurrency", o.config.MaxConcurrency)
	// 0 stands for a default inside, so it is refused here.
	if o.config.Rate == 0 || o.config.Burstiness == 0 {
		r.badf(map[bool]string{true: "request-rate", false: "burstiness"}[o.config.Rate == 0], "0; want a number above 0, or inf")
	}
	o.config.Target = r.target(o.config.API())
	o.config.Dataset = r.dataset()
	o.config.IgnoreEOS = c.Bool("ignore-eos") || o.config.Dataset.Name == "random"
	o.readOutput(r)
	o.readSim(r)
	o.check(r)
	return o, errors.Join(r.errs...)
}

// positive refuses 0 and less where a flag was given.
func (r *reader) positive(flag string, v int) {
	if r.c.IsSet(flag) && v < 1 {
		r.badf(flag, "%s; want 1 or more", r.c.String(flag))
	}
}

func randomPrefix() string {
	var b [4]byte
	rand.Read(b[:]) // never fails
	return "bench-" + hex.EncodeToString(b[:]) + "-"
}

// target reads where the server is.
func (r *reader) target(api openai.API) openai.Config {
	port := r.bounded("port", 8000, 1, 65535)
	base := strings.TrimRight(r.text("base-url", "http://"+net.JoinHostPort(strings.Trim(r.text("host", "127.0.0.1"), "[]"), strconv.Itoa(port))), "/")
	if u, err := url.Parse(base); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		r.badf("base-url", "not a URL such as http://127.0.0.1:8000")
	} else if u.RawQuery != "" || u.Fragment != "" {
		r.badf("base-url", "has a query or a fragment; want http://HOST:PORT, and --header for credentials")
	} else if strings.HasSuffix(u.Path, "/v1") && !r.c.IsSet("endpoint") {
		r.badf("base-url", "ends in /v1, which the endpoint %s begins with; want the part before it", api.Path())
	}
	endpoint := r.text("endpoint", api.Path())
	if strings.Contains(endpoint, "://") {
		r.badf("endpoint", "%s is a URL; want the path, and --base-url for the rest", quoteWord(endpoint))
	}
	if !strings.HasPrefix(endpoint, "/") {
		endpoint = "/" + endpoint
	}
	chat := strings.HasSuffix(endpoint, "chat/completions")
	if api == openai.Chat && !chat || api == openai.Completions && (chat || !strings.HasSuffix(endpoint, "completions")) {
		r.badf("endpoint", "%s does not fit the backend; want %s, or leave it out", quoteWord(endpoint), api.Path())
	}
	cfg := openai.Config{
		BaseURL: base, Endpoint: endpoint, APIKey: os.Getenv("OPENAI_API_KEY"), Insecure: r.c.Bool("insecure"),
		ConnectTimeout: r.limit("timeout-connect"), HeadersTimeout: r.limit("timeout-headers"),
		StallTimeout: r.limit("timeout-stall"), TotalTimeout: r.limit("timeout-total"),
		NoKernelStamps: r.c.Bool("no-kernel-stamps"),
	}
	if r.c.IsSet("max-event-bytes") {
		cfg.MaxEventBytes = r.bounded("max-event-bytes", 0, 1024, 1<<30)
	}
	for _, kv := range r.pairs("header", true) {
		if cfg.Header == nil {
			cfg.Header = map[string]string{}
		}
		if !headerName(kv[0]) || !headerValue(kv[1]) {
			r.badf("header", "a name or value that HTTP does not allow")
			continue
		}
		cfg.Header[kv[0]] = kv[1]
	}
	if !headerValue(cfg.APIKey) {
		r.errs = append(r.errs, errors.New("OPENAI_API_KEY: holds a character that HTTP does not allow in a header, perhaps the end of a line"))
	}
	if !headerValue(r.text("request-id-prefix", "")) {
		r.badf("request-id-prefix", "holds a character that HTTP does not allow in a header")
	}
	return cfg
}

// headerName and headerValue hold RFC 9110's rules for fields.
func headerName(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		alnum := c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		return !alnum && !strings.ContainsRune("!#$%&'*+-.^_`|~", c)
	})
}

func headerValue(s string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f })
}

func (r *reader) dataset() dataset.Spec {
	c := r.c
	s := dataset.Spec{
		Name: r.choice("dataset-name", "random", "random", "custom"), Path: r.text("dataset-path", ""),
		Prompts: r.whole("num-prompts", 1000), Seed: int64(r.whole("seed", 0)),
		InputLen: r.whole("random-input-len", 1024), OutputLen: r.whole("random-output-len", 128), PrefixLen: r.whole("random-prefix-len", 0),
		DisableShuffle: c.Bool("disable-shuffle"), NoOversample: c.Bool("no-oversample"),
		TokenIDs: r.choice("prompt-form", "text", "text", "token-ids") == "token-ids",
		Warmups:  r.whole("num-warmups", 0), WarmupFirst: r.choice("warmup-prompts", "distinct", "distinct", "first") == "first",
	}
	if c.IsSet("input-len") {
		s.InputLen = r.whole("input-len", 0)
	}
	if s.Name == "custom" {
		s.OutputLen = r.whole("custom-output-len", 256)
	}
	if c.IsSet("output-len") {
		s.OutputLen = r.whole("output-len", 0)
	}
	s.RangeRatio = r.ratio()
	return s
}

// ratio reads a number, or {"input": a, "output": b}.
func (r *reader) ratio() dataset.Ratio {
	s := r.text("random-range-ratio", "0.0")
	if v, err := strconv.ParseFloat(s, 64); err == nil {
		return dataset.Ratio{Input: v, Output: v}
	}
	var m map[string]float64
	if err := json.Unmarshal([]byte(s), &m); err != nil || len(m) != 2 {
		r.badf("random-range-ratio", `%s; want a number from 0 to below 1, or {"input": 0.2, "output": 0.1}`, quoteWord(s))
		return dataset.Ratio{}
	}
	in, okIn := m["input"]
	out, okOut := m["output"]
	if !okIn || !okOut {
		r.badf("random-range-ratio", `want the keys "input" and "output"`)
	}
	return dataset.Ratio{Input: in, Output: out}
}

// metricFlags are the names that --percentile-metrics takes.
var metricFlags = []string{"ttft", "tpot", "itl", "e2el", "client_queue_time", "e2el_including_client_queue"}

func (o *options) readOutput(r *reader) {
	for name := range strings.SplitSeq(r.text("percentile-metrics", "ttft,tpot,itl"), ",") {
		name = strings.TrimSpace(name)
		if !slices.Contains(metricFlags, name) {
			r.badf("percentile-metrics", "%s is no metric; want some of %s", quoteWord(name), strings.Join(metricFlags, ","))
			continue
		}
		o.selected = append(o.selected, name)
	}
	for word := range strings.SplitSeq(r.text("metric-percentiles", "99"), ",") {
		p, err := strconv.ParseFloat(strings.TrimSpace(word), 64)
		if err != nil || !(p >= 0 && p <= 100) {
			r.badf("metric-percentiles", "%s; want numbers from 0 to 100, such as 50,90,99", quoteWord(word))
			continue
		}
		if !slices.Contains(o.config.Percentiles, p) {
			o.config.Percentiles = append(o.config.Percentiles, p)
		}
	}
	for _, word := range r.c.StringSlice("goodput") {
		name, value, ok := strings.Cut(word, ":")
		ms, err := strconv.ParseFloat(value, 64)
		if !ok || err != nil || math.IsNaN(ms) {
			r.badf("goodput", "%s; want KEY:MILLISECONDS, such as ttft:200", quoteWord(word))
			continue
		}
		if o.config.Goodput == nil {
			o.config.Goodput = map[string]float64{}
		}
		o.config.Goodput[name] = ms
	}
	if s := r.text("extra-body", ""); s != "" {
		o.config.Extra = json.RawMessage(s)
		if err := openai.CheckExtra(o.config.Extra); err != nil {
			r.badf("extra-body", "%v", err)
			o.config.Extra = nil
		}
	}
	if o.detailed {
		o.config.Target.Text = openai.TextAlways
	}
	if path := r.text("subject", ""); path != "" {
		data, err := readSmall(path)
		if err == nil {
			o.config.Subject, err = manifest.ParseSubject(path, data)
		}
		if err != nil {
			r.badf("subject", "%v", err)
		}
	}
}

// readSmall reads a file that people write by hand.
func readSmall(path string) ([]byte, error) {
	const most = 1 << 20
	st, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !st.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no regular file; want a YAML file", path)
	case st.Size() > most:
		return nil, fmt.Errorf("%s has %d bytes; want %d at most", path, st.Size(), most)
	}
	return os.ReadFile(path)
}

func (o *options) readSim(r *reader) {
	given := slices.DeleteFunc(r.c.FlagNames(), func(n string) bool { return !strings.HasPrefix(n, "sim-") })
	if !r.c.Bool("sim") {
		if len(given) > 0 {
			r.badf(given[0], "says how the simulator behaves; want --sim with it")
		}
		return
	}
	for _, f := range []string{"base-url", "host", "port"} {
		if r.c.IsSet(f) {
			r.badf(f, "names a server, but --sim benchmarks the simulator; want one of the two")
		}
	}
	o.sim = &sim.Config{
		TTFT: r.duration("sim-ttft", defaultSim.TTFT), ITL: r.duration("sim-itl", defaultSim.ITL),
		PerPromptToken: r.duration("sim-per-prompt-token", 0), Jitter: r.number("sim-jitter", 0),
		Seed: uint64(r.whole("sim-seed", 0)), Slots: r.whole("sim-slots", 0), TokensPerChunk: r.whole("sim-tokens-per-chunk", 1),
	}
	// The key is for a server; the simulator in this process has none.
	o.config.Target.APIKey = ""
}

// check looks at flags that go together.
func (o *options) check(r *reader) {
	c := &o.config
	if c.Dataset.Name == "custom" && c.API() == openai.Completions && !r.c.Bool("skip-chat-template") {
		r.badf("dataset-name", "custom on a completions backend renders a chat template, which is not supported yet; add --skip-chat-template, or use --backend openai-chat, where the server renders it")
	}
	if c.API() == openai.Chat && c.Logprobs != nil {
		r.badf("logprobs", "chat takes none here, as in vLLM's client; want a completions backend, or --extra-body")
	}
	if c.Tokenizer != "" && c.NoTokenizer {
		r.badf("tokenizer", "named beside --skip-tokenizer-init; want one of the two")
	}
}

// notes are said before the run.
func (o *options) notes() (out []string) {
	c := &o.config
	if c.Sampling.Temperature == nil {
		out = append(out, "no --temperature: the server's default decides how tokens are chosen")
	}
	if !o.saving && !o.appending && (o.filename != "" || o.dir != "") {
		out = append(out, "no --save-result: --result-dir and --result-filename save nothing")
	}
	if c.Subject != nil && !o.saving && !o.appending && o.manifest == "" {
		out = append(out, "no --save-result and no --manifest: --subject is not used")
	}
	if o.dryRun && c.Model == "" {
		out = append(out, "no --model: a run takes the server's name for it, so its bodies and their digest differ")
	}
	if c.Strict {
		f := openai.Format{Sampling: c.Sampling, IgnoreEOS: c.IgnoreEOS}
		if names := f.Foreign(); len(names) > 0 {
			out = append(out, "--strict-openai: not sent: "+strings.Join(names, ", "))
		}
	}
	return out
}

// files says what to write where; model may be unknown before the run.
func (o *options) files(model string) bench.Files {
	var f bench.Files
	if o.saving || o.appending {
		name := o.filename
		if name == "" {
			name = o.defaultName(model)
		}
		if o.dir != "" && !filepath.IsAbs(name) {
			name = filepath.Join(o.dir, name)
		}
		f = bench.Beside(name)
	}
	f.Manifest, f.Records = cmp.Or(o.manifest, f.Manifest), cmp.Or(o.records, f.Records)
	f.Append, f.Selected, f.Detailed = o.appending, o.selected, o.detailed
	return f
}

// defaultName is vLLM's name for a result file.
func (o *options) defaultName(model string) string {
	c := &o.config
	name := fmt.Sprintf("%s-%sqps", cmp.Or(c.Label, c.Backend), c.Rate)
	if c.MaxConcurrency > 0 {
		name += fmt.Sprintf("-concurrency%d", c.MaxConcurrency)
	}
	if o.started.IsZero() {
		o.started = time.Now()
	}
	return slug(fmt.Sprintf("%s-%s-%s", name, filepath.Base(model), o.started.Format("20060102-150405"))) + ".json"
}

// slug makes a file name of text that may come from a server or hold a slash.
func slug(s string) string {
	s = strings.Map(func(c rune) rune {
		if c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || strings.ContainsRune("._+=@-", c) {
			return c
		}
		return '_'
	}, s)
	s = strings.TrimLeft(s, ".-")
	return s[:min(len(s), 200)]
}

// table is what is shown of a result.
func (o *options) table(res *bench.Result, saved []string) *report.Table {
	c := &res.Config
	t := &report.Table{
		Simulated: res.Simulated(), MaxConcurrency: c.MaxConcurrency, Seconds: res.Duration.Seconds(),
		Summary: res.Summary, Percentiles: c.Percentiles, Files: slices.Clone(saved), Speculation: res.Speculation,
	}
	rates := res.Rates()
	t.RequestRate, t.OutputRate, t.TotalRate = rates.Requests, rates.OutputTokens, rates.TotalTokens
	if !c.Rate.IsInf() {
		t.Rate = float64(c.Rate)
	}
	if len(c.Goodput) > 0 {
		t.Goodput = &rates.Good
	}
	for _, name := range metricFlags {
		if d, ok := res.Metric(name); ok && slices.Contains(o.selected, name) {
			t.Sections = append(t.Sections, report.SectionOf(name, d))
		}
	}
	for _, m := range res.OwnMetrics() {
		if m.Same {
			continue // vLLM's table has just said it
		}
		t.Own = append(t.Own, report.Row{Label: m.Label, Dist: m.Dist})
	}
	for _, w := range res.Warnings {
		t.Warnings = append(t.Warnings, printable(w))
	}
	for i := range t.Files {
		t.Files[i] = printable(t.Files[i])
	}
	return t
}
