package main

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/servebench/servebench/bench/sim"
)

// simOptions is the command line of sim, read.
type simOptions struct {
	config     sim.Config
	host, port string
	cert       *tls.Certificate // nil speaks plain HTTP
	untilEOF   bool             // end with standard input
	like       string           // a manifest to fit the engine to
	ignored    []string         // flags that were given and have no effect, with dashes
	faults     faults

	given map[string][]string
	specs map[string]flagSpec
	errs  []error
}

// faults are what the simulator is told to do wrong.
type faults struct {
	start bool   // fail to start
	with  string // and say so; "" is some message
	over  []limit
	delay time.Duration
	after int // requests until the process ends; 0 is never
}

// limit is a flag whose value above Most lets the start fail.
type limit struct {
	Flag string
	Most float64
}

// readSim reads canonical words. All mistakes are reported at once, and nothing is
// fitted yet: call fit, then engineFlags.
func readSimOptions(parsed parsedArgs) (*simOptions, error) {
	o := &simOptions{given: map[string][]string{}, specs: map[string]flagSpec{}}
	for _, s := range simFlags() {
		o.specs[s.Name] = s
	}
	for _, w := range parsed.Words {
		name, value, _ := strings.Cut(strings.TrimPrefix(w, "--"), "=")
		o.given[name] = append(o.given[name], value)
		if o.specs[name].Use == accepted && len(o.given[name]) == 1 {
			o.ignored = append(o.ignored, "--"+name)
		}
	}
	o.like = o.text("like")
	o.host = cmp.Or(o.text("host"), o.specs["host"].Default)
	o.port = strconv.Itoa(int(o.between("port", 0, 65535)))
	if o.text("port") == "" && parsed.Worded {
		o.port = "8000"
	}
	o.untilEOF = o.on("until-eof", false)
	o.readModel()
	o.readCertificate()
	c := &o.config
	c.Jitter, c.Truth = o.between("jitter", 0, 1), o.on("truth", false)
	c.PerRequestMetrics = o.on("enable-per-request-metrics", false)
	c.Seed = uint64(int64(o.number("seed")))
	c.MaxModelLen = max(int(o.between("max-model-len", -1, 1<<30)), 0)
	c.PromptTokensDetails = o.on("enable-prompt-tokens-details", false)
	c.TokensPerChunk = int(o.between("tokens-per-chunk", 1, 1<<20))
	c.ReasoningTokens = int(o.between("reasoning-tokens", 0, 1<<20))
	if o.has("stream-interval") {
		if o.has("tokens-per-chunk") {
			o.badf("stream-interval", "--tokens-per-chunk is the same; want one of the two")
		}
		c.TokensPerChunk = int(o.between("stream-interval", 1, 1<<20))
	}
	o.readTiming(parsed.Worded)
	o.readFaults()
	return o, errors.Join(o.errs...)
}

// readCertificate reads or makes what HTTPS is spoken with.
func (o *simOptions) readCertificate() {
	cert, key, own := o.text("ssl-certfile"), o.text("ssl-keyfile"), o.on("tls", false)
	var c tls.Certificate
	var err error
	switch {
	case own && cert+key != "":
		o.badf("tls", "makes a certificate, and --ssl-certfile or --ssl-keyfile names one; want one of the two")
		return
	case cert == "" && key != "":
		o.badf("ssl-keyfile", "is the key of a certificate; want --ssl-certfile with it")
		return
	case own:
		c, err = sim.SelfSigned(time.Now(), o.host)
	case cert != "":
		if c, err = tls.LoadX509KeyPair(cert, cmp.Or(key, cert)); err != nil {
			o.badf("ssl-certfile", "%v; want a certificate and its key as PEM", err)
			return
		}
	default:
		return
	}
	if err != nil {
		o.badf("tls", "%v", err)
		return
	}
	o.cert = &c
}

// readModel reads names and keys.
func (o *simOptions) readModel() {
	c := &o.config
	names := slices.DeleteFunc(slices.Clone(o.given["served-model-name"]), func(s string) bool { return s == "" })
	if len(names) == 0 && o.text("model") != "" {
		names = []string{o.text("model")}
	}
	for _, m := range o.given["lora-modules"] {
		name, _, ok := strings.Cut(m, "=")
		if gjson.Valid(m) {
			name, ok = gjson.Get(m, "name").String(), true
		}
		if !ok || name == "" {
			o.badf("lora-modules", "%s; want NAME=PATH", quoteWord(m))
			continue
		}
		if len(names) == 0 {
			o.badf("lora-modules", "adapts no model; want MODEL with it")
			break
		}
		names = append(names, name)
	}
	if len(names) > 0 {
		c.Model, c.Aliases = names[0], names[1:]
	}
	keys := slices.DeleteFunc(slices.Clone(o.given["api-key"]), func(s string) bool { return s == "" })
	if len(keys) == 0 {
		keys = []string{cmp.Or(os.Getenv("SERVEBENCH_SIM_API_KEY"), os.Getenv("VLLM_API_KEY"))}
	}
	c.APIKey, c.MoreKeys = keys[0], keys[1:]
}

// readTiming decides between the two kinds of timing. Flags of the fixed one go before
// vLLM's, which are without effect then; ours for the engine cannot be mixed with them.
func (o *simOptions) readTiming(worded bool) {
	c := &o.config
	fixed := o.first(func(s flagSpec) bool { return s.Group == inSimFixed && s.Name != "tokens-per-chunk" })
	own := o.first(func(s flagSpec) bool { return s.Group == inSimEngine || s.Name == "like" })
	theirs := o.first(func(s flagSpec) bool { return slices.Contains(engineFlagNames, s.Name) })
	switch {
	case fixed != "" && own != "":
		o.badf(fixed, "is about fixed timing, and --%s about the engine model; want one of the two", own)
	case own != "" || fixed == "" && (theirs != "" || worded):
		e := defaultEngine()
		o.setEngine(&e) // to find what is wrong before anything is fitted
		c.Engine = &e
	default:
		c.TTFT, c.ITL, c.PerPromptToken = o.duration("ttft"), o.duration("itl"), o.duration("per-prompt-token")
		c.Slots = int(o.between("slots", 0, 1<<30))
		for _, name := range engineFlagNames {
			if o.has(name) {
				o.ignored = append(o.ignored, "--"+name)
			}
		}
	}
}

// engineFlagNames are vLLM's flags that only the engine model looks at.
var engineFlagNames = []string{"max-num-seqs", "max-num-batched-tokens", "enable-chunked-prefill", "enable-prefix-caching", "block-size",
	"num-gpu-blocks-override", "kv-cache-memory-bytes", "kv-cache-dtype", "gpu-memory-utilization", "speculative-config", "spec-tokens"}

// first is the first flag in the table that was given and that pick takes, or "".
func (o *simOptions) first(pick func(flagSpec) bool) string {
	for _, s := range simFlags() {
		if o.has(s.Name) && pick(s) {
			return s.Name
		}
	}
	return ""
}

// defaultEngine is an engine nobody has told otherwise.
func defaultEngine() sim.Engine {
	return sim.Engine{ChunkedPrefill: true, PrefixCaching: true, StepBase: 10 * time.Millisecond, PrefillRate: 20000}
}

// setEngine lays the flags that were given over e.
func (o *simOptions) setEngine(e *sim.Engine) {
	const most = 1 << 30
	whole := func(flag string, low int, into *int) {
		if o.text(flag) != "" && o.has(flag) {
			*into = int(o.between(flag, float64(low), most))
		}
	}
	length := func(flag string, into *time.Duration) {
		if o.has(flag) {
			*into = o.duration(flag)
		}
	}
	number := func(flag string, low, high float64, into *float64) {
		if o.has(flag) {
			*into = o.between(flag, low, high)
		}
	}
	whole("max-num-seqs", 1, &e.MaxNumSeqs)
	whole("max-num-batched-tokens", 1, &e.MaxNumBatchedTokens)
	whole("block-size", 1, &e.BlockSize)
	e.ChunkedPrefill = o.on("enable-chunked-prefill", e.ChunkedPrefill)
	e.PrefixCaching = o.on("enable-prefix-caching", e.PrefixCaching)
	number("gpu-memory-utilization", 0, 1, &e.GPUMemoryUtilization)
	if o.has("kv-cache-dtype") {
		e.CacheDtype = o.text("kv-cache-dtype")
	}
	if o.has("decode-ms") {
		e.StepBase = time.Duration(math.Round(o.between("decode-ms", 0, 1e6) * 1e6))
	}
	length("per-sequence", &e.PerSequence)
	number("context-rate", 0, 1e15, &e.ContextRate)
	number("prefill-rate", 0, 1e15, &e.PrefillRate)
	length("overhead", &e.Overhead)
	length("frontend", &e.Frontend)
	length("idle-delay", &e.IdleDelay)
	length("draft-overhead", &e.DraftOverhead)
	number("time-scale", 1e-6, 1000, &e.TimeScale)
	o.setCache(e)
	o.setDrafts(e)
}

// setCache sets the size of the KV cache. As in vLLM blocks go before bytes.
func (o *simOptions) setCache(e *sim.Engine) {
	block := float64(cmp.Or(e.BlockSize, 16))
	const most = 1 << 30 // tokens
	tokens := -1.0
	switch {
	case o.text("num-gpu-blocks-override") != "":
		tokens = o.between("num-gpu-blocks-override", 1, most/block) * block
	case o.text("kv-cache-memory-bytes") != "":
		tokens = o.between("kv-cache-memory-bytes", 1, 1<<60) / o.between("kv-bytes-per-token", 1, 1<<40)
		tokens = max(math.Floor(tokens/block), 1) * block
	}
	if o.has("kv-tokens") {
		if tokens >= 0 {
			o.badf("kv-tokens", "the size of the KV cache is given in two ways; want one of them")
		}
		tokens = o.between("kv-tokens", 0, most)
	}
	if tokens > most {
		o.badf("kv-cache-memory-bytes", "%.0f tokens of KV cache; want %d at most", tokens, most)
	} else if tokens >= 0 {
		e.KVTokens = int(tokens)
	}
}

// setDrafts sets speculation. vLLM refuses --spec-tokens with --speculative-config only
// where they differ, and so it is here.
func (o *simOptions) setDrafts(e *sim.Engine) {
	const most = 1 << 10
	drafts := -1
	if o.has("speculative-config") {
		text := o.text("speculative-config")
		n := gjson.Get(text, "num_speculative_tokens")
		switch {
		case text == "" || text == "null":
			drafts = 0
		case !gjson.Parse(text).IsObject():
			o.badf("speculative-config", "%s; want a JSON object", quoteWord(text))
		case n.Type != gjson.Number || n.Num != math.Trunc(n.Num) || n.Num < 1 || n.Num > most:
			o.badf("speculative-config", `wants "num_speculative_tokens" from 1 to %d`, most)
		default:
			drafts = int(n.Num)
		}
	}
	if o.has("spec-tokens") {
		n := int(o.between("spec-tokens", 1, most))
		if drafts > 0 && drafts != n {
			o.badf("spec-tokens", "%d, and --speculative-config says %d; want one of them", n, drafts)
		}
		drafts = n
	}
	if drafts >= 0 {
		e.SpeculativeTokens = drafts
	}
	switch {
	case e.SpeculativeTokens == 0:
		e.Acceptance = nil
		if o.has("acceptance") && o.like == "" {
			o.badf("acceptance", "is about draft tokens; want --spec-tokens or --speculative-config with it")
		}
	case o.has("acceptance") || len(e.Acceptance) == 0:
		e.Acceptance = o.acceptance(o.text("acceptance"))
	}
}

// acceptance reads A, or SHARE:A,SHARE:A.
func (o *simOptions) acceptance(text string) (kinds []sim.Acceptance) {
	for word := range strings.SplitSeq(text, ",") {
		share, rate, ok := strings.Cut(word, ":")
		if !ok {
			share, rate = "1", word
		}
		a := sim.Acceptance{}
		var errShare, errRate error
		a.Share, errShare = strconv.ParseFloat(strings.TrimSpace(share), 64)
		a.Rate, errRate = strconv.ParseFloat(strings.TrimSpace(rate), 64)
		if errShare != nil || errRate != nil || !(a.Share > 0 && a.Share <= 1e6) || !(a.Rate >= 0 && a.Rate <= 1) {
			o.badf("acceptance", "%s; want a probability from 0 to 1, or SHARE:PROBABILITY,...", quoteWord(word))
			return nil
		}
		kinds = append(kinds, a)
	}
	return kinds
}

func (o *simOptions) readFaults() {
	f := &o.faults
	f.start, f.with = o.has("fail-start"), o.text("fail-start")
	f.delay = o.duration("start-delay")
	f.after = int(o.between("fail-after", 0, math.MaxInt32))
	if o.has("fail-after") && f.after == 0 {
		o.badf("fail-after", "0; want 1 or more requests, or --fail-start")
	}
	if !o.has("fail-start-over") {
		return
	}
	for word := range strings.SplitSeq(o.text("fail-start-over"), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(word), "=")
		name = dashes(strings.TrimPrefix(name, "--"))
		most, err := strconv.ParseFloat(value, 64)
		if err != nil || math.IsNaN(most) {
			o.badf("fail-start-over", "%s; want FLAG=N, such as max-num-batched-tokens=8192", quoteWord(word))
			continue
		}
		if s, ok := o.specs[name]; !ok || !slices.Contains([]kind{kindInt, kindFloat, kindSize, kindSizeOrAuto}, s.Kind) {
			o.badf("fail-start-over", "--%s is no flag with a number; want one such as max-num-batched-tokens", quoteWord(name))
			continue
		}
		f.over = append(f.over, limit{name, most})
	}
}

// badf notes what is wrong with the value of a flag.
func (o *simOptions) badf(flag, format string, args ...any) {
	err := fmt.Errorf("--%s: %s", flag, fmt.Sprintf(format, args...))
	// Flags are laid over an engine before and after it is fitted.
	if !slices.ContainsFunc(o.errs, func(e error) bool { return e.Error() == err.Error() }) {
		o.errs = append(o.errs, err)
	}
}

func (o *simOptions) has(flag string) bool { return len(o.given[flag]) > 0 }

// text is the value of a flag, or its default.
func (o *simOptions) text(flag string) string {
	if v := o.given[flag]; len(v) > 0 {
		return v[0]
	}
	s, ok := o.specs[flag]
	if !ok {
		panic("no flag is called " + flag)
	}
	return s.Default
}

func (o *simOptions) on(flag string, unset bool) bool {
	if !o.has(flag) {
		return unset
	}
	return o.text(flag) == "true"
}

// number is 0 where there is neither a value nor a default.
func (o *simOptions) number(flag string) float64 {
	v, _ := strconv.ParseFloat(cmp.Or(o.text(flag), "0"), 64) // the normaliser has checked it
	return v
}

func (o *simOptions) between(flag string, low, high float64) float64 {
	v := o.number(flag)
	if o.has(flag) && !(v >= low && v <= high) {
		o.badf(flag, "%v; want %v to %v", v, low, high)
		return low
	}
	return v
}

func (o *simOptions) duration(flag string) time.Duration {
	text := o.text(flag)
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > 24*time.Hour {
		o.badf(flag, "%s; want a time of at most 24h, such as 50ms", quoteWord(text))
		return 0
	}
	return d
}

// engineFlags are the flags of e, so that the same engine can be had without a file.
func engineFlags(e sim.Engine) (words []string) {
	add := func(flag, value string, set bool) {
		if set {
			words = append(words, "--"+flag, value)
		}
	}
	whole := func(flag string, v int) { add(flag, strconv.Itoa(v), v != 0) }
	length := func(flag string, d time.Duration) { add(flag, d.String(), d != 0) }
	number := func(flag string, f float64, set bool) { add(flag, strconv.FormatFloat(f, 'g', -1, 64), set) }
	toggle := func(flag string, on bool) {
		if !on {
			flag = "no-" + flag
		}
		words = append(words, "--"+flag)
	}
	whole("max-num-seqs", e.MaxNumSeqs)
	whole("max-num-batched-tokens", e.MaxNumBatchedTokens)
	toggle("enable-chunked-prefill", e.ChunkedPrefill)
	toggle("enable-prefix-caching", e.PrefixCaching)
	whole("block-size", e.BlockSize)
	whole("kv-tokens", e.KVTokens)
	number("decode-ms", float64(e.StepBase)/1e6, true)
	length("per-sequence", e.PerSequence)
	number("context-rate", e.ContextRate, e.ContextRate != 0)
	number("prefill-rate", e.PrefillRate, true)
	length("overhead", e.Overhead)
	length("frontend", e.Frontend)
	length("idle-delay", e.IdleDelay)
	whole("spec-tokens", e.SpeculativeTokens)
	var kinds []string
	for _, a := range e.Acceptance {
		kinds = append(kinds, strconv.FormatFloat(a.Share, 'g', -1, 64)+":"+strconv.FormatFloat(a.Rate, 'g', -1, 64))
	}
	add("acceptance", strings.Join(kinds, ","), len(kinds) > 0)
	length("draft-overhead", e.DraftOverhead)
	number("time-scale", e.TimeScale, e.TimeScale != 0)
	number("gpu-memory-utilization", e.GPUMemoryUtilization, e.GPUMemoryUtilization != 0)
	add("kv-cache-dtype", e.CacheDtype, e.CacheDtype != "")
	return words
}
