package main

import (
	"cmp"
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
	"github.com/servebench/servebench/bench/server"
	"github.com/servebench/servebench/bench/sim"
	"github.com/servebench/servebench/loadgen"
	"github.com/servebench/servebench/loadgen/openai"
	"github.com/servebench/servebench/manifest"
)

// options is the command line of serve, read.
type options struct {
	config bench.Config
	sim    *sim.Config // nil: a server of the user's
	like   *likeness   // of --sim-like; nil without

	saving, detailed, appending       bool
	dir, filename                     string
	manifest, records                 string
	selected                          []string
	quiet, dryRun, strict, failOnLeak bool
	plotTimeline, plotStats           bool
	thresholds                        [2]float64     // between times per token in the timeline, ms
	remarks                           []string       // on flags that were given and change nothing
	args                              map[string]any // vLLM's flags as its parser would have them
	started                           time.Time

	runs    int                     // --num-runs
	untilCI float64                 // --until-ci as a share; 0 is never
	at      func() (number, of int) // which of several runs is under way; nil: it is the only one

	// What a run file says beyond the flags.
	server      *server.Config    // to start; nil measures config.Target
	start       starter           // starts it
	deadline    time.Duration     // of the timed requests; 0 is none
	places      map[string]string // where the file's flags stand
	subject     string            // --subject
	prefixGiven bool              // --request-id-prefix was
}

// readOptions reads the command line. All mistakes are reported at once.
func readOptions(c *cli.Context) (*options, error) {
	r := newReader(c)
	o := &options{
		saving: r.on("save-result"), detailed: r.on("save-detailed"), appending: r.on("append-result"),
		dir: r.text("result-dir"), filename: r.text("result-filename"),
		manifest: r.text("manifest"), records: r.text("records"),
		quiet: r.on("disable-tqdm"), dryRun: r.on("dry-run"), failOnLeak: r.on("fail-on-leak"), strict: r.on("strict"),
		plotTimeline: r.on("plot-timeline"), plotStats: r.on("plot-dataset-stats"),
	}
	cfg := &o.config
	*cfg = bench.Config{
		Backend: r.text("backend"),
		Model:   r.text("model"), ServedModel: r.text("served-model-name"),
		Tokenizer: r.text("tokenizer"), NoTokenizer: r.on("skip-tokenizer-init"),
		TemplateKwargs: r.object("chat-template-kwargs"),
		Stream:         r.on("stream"), Strict: r.on("strict-openai"), Logprobs: r.optionalInt("logprobs"),
		MaxConcurrency: r.whole("max-concurrency"),
		Pacing:         loadgen.Pacing(r.text("pacing")),
		ReadyTimeout:   time.Duration(r.bounded("ready-check-timeout-sec", 0, 7*86400)) * time.Second,
		Grace:          r.duration("drain"),
		LoRA:           r.c.StringSlice("lora-modules"),
		ProbeRate:      r.number("probe-request-rate"), Profile: r.on("profile"),
		Label: r.text("label"), Metadata: r.pairs("metadata", false),
		RequestIDPrefix: r.prefix(),
		PrivateNames:    privateNames(), PrivateTexts: secretsOfEnvironment(),
		Extra: r.object("extra-body"),
		Sampling: openai.Sampling{
			Temperature: r.optionalNumber("temperature"), TopP: r.optionalNumber("top-p"), TopK: r.optionalInt("top-k"),
			MinP: r.optionalNumber("min-p"), FrequencyPenalty: r.optionalNumber("frequency-penalty"),
			PresencePenalty: r.optionalNumber("presence-penalty"), RepetitionPenalty: r.optionalNumber("repetition-penalty"),
		},
	}
	cfg.LoRARandom = len(cfg.LoRA) > 0 && r.text("lora-assignment") == "random"
	o.args = r.namespace()
	r.positive("max-concurrency", cfg.MaxConcurrency)
	cfg.Target = r.target(cfg.API())
	cfg.Replicas = r.replicas()
	cfg.ResetPrefixCache, cfg.Telemetry = r.on("reset-prefix-cache"), r.telemetry()
	cfg.Salt, cfg.TokenAccounting, cfg.ServerTiming = r.text("salt"), r.text("token-accounting"), r.on("server-timing")
	cfg.RawSamples = r.rawSamples()
	o.readRepeats(r)
	cfg.Dataset = r.dataset()
	o.readLoad(r)
	o.readOutput(r)
	o.readSim(r)
	o.check(r)
	o.remark(r)
	return o, errors.Join(r.errs...)
}

// readRepeats reads how many runs there are to be.
func (o *options) readRepeats(r *reader) {
	o.runs = r.bounded("num-runs", 1, 1000)
	if !r.given("until-ci") {
		return
	}
	var err error
	if o.untilCI, err = share(r.text("until-ci")); err != nil || o.untilCI == 0 {
		r.badf("until-ci", "%s; want a share above 0%%, such as 2%%", quoteWord(r.text("until-ci")))
	}
	if o.runs < 2 {
		r.badf("until-ci", "goes with --num-runs, which says how many runs there are at most")
	}
}

// rawSamples reads how many samples are held exactly; 0 is the default.
func (r *reader) rawSamples() int {
	if !r.given("raw-samples") {
		return 0
	}
	return r.bounded("raw-samples", 1, 1<<40)
}

// readLoad reads when requests are sent.
func (o *options) readLoad(r *reader) {
	c := &o.config
	c.Rate, c.Burstiness = loadgen.Number(r.number("request-rate")), loadgen.Number(r.number("burstiness"))
	// 0 stands for a default inside, so it is refused here.
	if c.Rate == 0 || c.Burstiness == 0 {
		r.badf(map[bool]string{true: "request-rate", false: "burstiness"}[c.Rate == 0], "0; want a number above 0, or inf")
	}
	if r.given("ramp-up-strategy") {
		c.Ramp = &loadgen.Ramp{Strategy: r.text("ramp-up-strategy"), Start: r.number("ramp-up-start-rps"), End: r.number("ramp-up-end-rps")}
	}
	trace := c.Dataset.Name == "timed_trace"
	c.IgnoreTimes = trace && r.given("self-timed") && !r.c.Bool("self-timed")
	random := c.Dataset.Name == "random" || c.Dataset.Name == "random-mm"
	c.IgnoreEOS = r.on("ignore-eos") || trace || random && c.API().Generates()
}

// target reads where the server is.
func (r *reader) target(api openai.API) openai.Config {
	port := r.bounded("port", 1, 65535)
	base := cmp.Or(r.text("base-url"), "http://"+net.JoinHostPort(strings.Trim(r.text("host"), "[]"), strconv.Itoa(port)))
	flag := "base-url"
	if urls := r.c.StringSlice("replica-url"); len(urls) > 0 && !r.given("base-url") && !r.given("host") && !r.given("port") {
		flag, base = "replica-url", urls[0]
	}
	base = strings.TrimRight(base, "/")
	if u, err := url.Parse(base); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		r.badf(flag, "not a URL such as http://127.0.0.1:8000")
	} else if u.RawQuery != "" || u.Fragment != "" {
		r.badf(flag, "has a query or a fragment; want http://HOST:PORT, and --header for credentials")
	} else if strings.HasSuffix(u.Path, "/v1") && !r.given("endpoint") {
		r.badf(flag, "ends in /v1, which the endpoint %s begins with; want the part before it", api.Path())
	}
	cfg := openai.Config{
		BaseURL: base, Endpoint: r.endpoint(api), APIKey: os.Getenv("OPENAI_API_KEY"), Insecure: r.on("insecure"),
		ConnectTimeout: r.limit("timeout-connect"), HeadersTimeout: r.limit("timeout-headers"),
		StallTimeout: r.limit("timeout-stall"), TotalTimeout: r.limit("timeout-total"),
		NoKernelStamps: r.on("no-kernel-stamps"),
	}
	if r.given("max-event-bytes") {
		cfg.MaxEventBytes = r.bounded("max-event-bytes", 1024, 1<<30)
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
	if !headerValue(r.text("request-id-prefix")) {
		r.badf("request-id-prefix", "holds a character that HTTP does not allow in a header")
	}
	return cfg
}

// replicas are the servers beside the target, which is the first of them where
// nothing else names it.
func (r *reader) replicas() []string {
	urls := r.c.StringSlice("replica-url")
	if len(urls) > 0 && !r.given("base-url") && !r.given("host") && !r.given("port") {
		urls = urls[1:]
	}
	if len(urls) == 0 {
		return nil
	}
	return urls
}

// telemetry reads what is watched beside the load.
func (r *reader) telemetry() bench.Telemetry {
	t := bench.Telemetry{GPU: r.on("telemetry-gpu"), NoEngineMetrics: !r.on("telemetry-engine-metrics")}
	if r.given("telemetry-interval") {
		if t.Interval = r.duration("telemetry-interval"); t.Interval == 0 {
			r.badf("telemetry-interval", "0; want 100ms or more")
		}
	}
	if !r.given("telemetry-devices") {
		return t
	}
	for word := range strings.SplitSeq(r.text("telemetry-devices"), ",") {
		n, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil {
			r.badf("telemetry-devices", "%s; want indices with commas, such as 0,1", quoteWord(word))
			continue
		}
		t.Devices = append(t.Devices, n)
	}
	return t
}

// endpoint is the backend's own, unless another is given. As in vLLM another must end
// like it.
func (r *reader) endpoint(api openai.API) string {
	if !r.given("endpoint") {
		return api.Path()
	}
	e := r.text("endpoint")
	if strings.Contains(e, "://") {
		r.badf("endpoint", "%s is a URL; want the path, and --base-url for the rest", quoteWord(e))
	}
	if !strings.HasPrefix(e, "/") {
		e = "/" + e
	}
	chat := strings.HasSuffix(e, "chat/completions")
	ending := strings.TrimPrefix(strings.TrimPrefix(api.Path(), "/v1"), "/")
	if !strings.HasSuffix(e, ending) || chat && api != openai.Chat {
		r.badf("endpoint", "%s does not fit --backend %s; want %s, or leave it out", quoteWord(e), r.text("backend"), api.Path())
	}
	return e
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

// metricFlags are the names that --percentile-metrics takes.
var metricFlags = bench.MetricNames()

func (o *options) readOutput(r *reader) {
	metrics := "ttft,tpot,itl"
	if !o.config.API().Generates() {
		metrics = "e2el"
	}
	for name := range strings.SplitSeq(cmp.Or(r.text("percentile-metrics"), metrics), ",") {
		name = strings.TrimSpace(name)
		if !slices.Contains(metricFlags, name) {
			r.badf("percentile-metrics", "%s is no metric; want some of %s", quoteWord(name), strings.Join(metricFlags, ","))
			continue
		}
		o.selected = append(o.selected, name)
	}
	for word := range strings.SplitSeq(r.text("metric-percentiles"), ",") {
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
	o.readThresholds(r)
	if o.detailed {
		o.config.Target.Text = openai.TextAlways
	}
	o.prefixGiven = r.given("request-id-prefix")
	o.subject = r.text("subject")
	if path := o.subject; path != "" {
		data, err := readSmall(path)
		if err == nil {
			o.config.Subject, err = manifest.ParseSubject(path, data)
		}
		if err != nil {
			r.badf("subject", "%v", err)
		}
	}
}

// readThresholds reads the bounds of the timeline's colours.
func (o *options) readThresholds(r *reader) {
	words := strings.Split(r.text("timeline-itl-thresholds"), ",")
	for i, w := range words {
		ms, err := strconv.ParseFloat(strings.TrimSpace(w), 64)
		if err != nil || !(ms >= 0) || math.IsInf(ms, 0) || len(words) != len(o.thresholds) {
			r.badf("timeline-itl-thresholds", "%s; want two numbers of milliseconds, such as 25,50", quoteWord(r.text("timeline-itl-thresholds")))
			return
		}
		o.thresholds[i] = ms
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
	if !r.on("sim") {
		if len(given) > 0 {
			r.badf(given[0], "says how the simulator behaves; want --sim with it")
		}
		return
	}
	for _, f := range []string{"base-url", "host", "port", "replica-url"} {
		if r.given(f) {
			r.badf(f, "names a server, but --sim benchmarks the simulator; want one of the two")
		}
	}
	o.sim = &sim.Config{
		TTFT: r.duration("sim-ttft"), ITL: r.duration("sim-itl"),
		PerPromptToken: r.duration("sim-per-prompt-token"), Jitter: r.number("sim-jitter"),
		Seed: uint64(r.whole("sim-seed")), Slots: r.whole("sim-slots"), TokensPerChunk: r.whole("sim-tokens-per-chunk"),
		PerRequestMetrics: r.on("server-timing"),
	}
	if name := r.text("sim-like"); name != "" {
		o.readLike(r, name)
	}
	// The key is for a server; the simulator in this process has none.
	o.config.Target.APIKey = ""
}

// readLike makes the simulator one that is like the server of a manifest. It is fitted
// when it starts.
func (o *options) readLike(r *reader, name string) {
	for _, f := range []string{"sim-ttft", "sim-itl", "sim-per-prompt-token", "sim-slots"} {
		if r.given(f) {
			r.badf(f, "is about fixed timing, and --sim-like about the engine model; want one of the two")
		}
	}
	l, err := (&terminal{}).readLike(name)
	if err != nil {
		r.errs = append(r.errs, fmt.Errorf("--sim-like: %w", err))
		return
	}
	o.like = l
	o.sim = &sim.Config{Jitter: o.sim.Jitter, Seed: o.sim.Seed, TokensPerChunk: o.sim.TokensPerChunk,
		PerRequestMetrics: o.sim.PerRequestMetrics, Model: l.Model, MaxModelLen: l.MaxModelLen}
}

// files says what to write where; model may be unknown before the run, as res is.
func (o *options) files(model string, res *bench.Result) bench.Files {
	var f bench.Files
	if o.saving || o.appending {
		f = bench.Beside(o.resultPath(model))
		if os.Getenv("SAVE_TO_PYTORCH_BENCHMARK_FORMAT") != "" {
			f.PyTorch, f.Args = withoutExt(f.Result)+".pytorch.json", o.args
		}
	}
	f.Manifest, f.Records = cmp.Or(o.manifest, f.Manifest), cmp.Or(o.records, f.Records)
	f.Pages = o.pages(model, res)
	f.Append, f.Selected, f.Detailed = o.appending, o.selected, o.detailed
	return f
}

// resultPath is where the result is, or would be.
func (o *options) resultPath(model string) string {
	name := o.filename
	if name == "" {
		name = o.defaultName(model)
	}
	if o.dir != "" && !filepath.IsAbs(name) {
		name = filepath.Join(o.dir, name)
	}
	return name
}

// defaultName is vLLM's name for a result file.
func (o *options) defaultName(model string) string {
	c, red := &o.config, o.redactor()
	first := cmp.Or(red.Hide(c.Label), c.Backend)
	name := fmt.Sprintf("%s-%sqps", first, c.Rate)
	if ramp := c.Ramp; ramp != nil {
		name = fmt.Sprintf("%s-%v", first, ramp)
	}
	if c.MaxConcurrency > 0 {
		name += fmt.Sprintf("-concurrency%d", c.MaxConcurrency)
	}
	if o.started.IsZero() {
		o.started = time.Now()
	}
	return slug(name+"-"+red.Hide(filepath.Base(model)), nameMax) + "-" + o.started.Format("20060102-150405") + ".json"
}

// redactor knows what must not be published of the run, of a server that is started
// for it and of this machine.
func (o *options) redactor() *manifest.Redactor { return publicRedactor(&o.config, o.server) }

// nameMax leaves room behind a label and a model of any length for the time and
// what the files beside the result end in.
const nameMax = 150

// slug makes a file name of text that may come from a server or hold a slash.
func slug(s string, most int) string {
	s = strings.Map(func(c rune) rune {
		if c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || strings.ContainsRune("._+=@-", c) {
			return c
		}
		return '_'
	}, s)
	s = strings.TrimLeft(s, ".-")
	return s[:min(len(s), most)]
}

// shownErrors is how many failed requests vLLM lists.
const shownErrors = 10

// table is what is shown of a result.
func (o *options) table(res *bench.Result, saved []string) *report.Table {
	c := &res.Config
	t := &report.Table{
		Simulated: res.Simulated(), MaxConcurrency: c.MaxConcurrency, Seconds: res.Duration.Seconds(),
		Summary: res.Summary, Analysis: res.Analysis, Verdict: res.Judgement, Health: res.Figures, Percentiles: c.Percentiles, Files: slices.Clone(saved), Speculation: res.Speculation,
	}
	rates := res.Rates()
	t.RequestRate, t.OutputRate, t.TotalRate = rates.Requests, rates.OutputTokens, rates.TotalTokens
	t.Pooled, t.SequenceRate = !c.API().Generates(), rates.Sequences
	if a := &res.Accounting; a.Asked != "chunks" && !t.Pooled {
		t.Accounting = printable(a.Used + ", as " + a.Why)
	}
	t.Probes, t.Diffusion = res.Probes, res.Diffusion
	for _, e := range res.Errors(shownErrors) {
		t.Errors = append(t.Errors, printable(e))
	}
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
		t.Own = append(t.Own, report.Row{Label: m.Label, Dist: m.Dist, Client: m.Client})
	}
	for _, m := range res.ServerMetrics() {
		t.Own = append(t.Own, report.Row{Label: m.Label, Dist: m.Dist})
	}
	for _, w := range res.Warnings {
		t.Warnings = append(t.Warnings, dashed(printable(w)))
	}
	for i := range t.Files {
		t.Files[i] = printable(t.Files[i])
	}
	return t
}
