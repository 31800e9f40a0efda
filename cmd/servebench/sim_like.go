package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/servebench/servebench/bench/sim"
)

// likeness is what a manifest says of a run, as far as a simulator can be like it.
type likeness struct {
	sim.Published
	Model       string // the subject's identifier
	MaxModelLen int    // tokens; 0 where the manifest does not say
}

// fit is the engine that behaves as the server of the run did, or comes nearest to it:
// the doubt then says how far it is off. A process makes each fit once.
func (l *likeness) fit() (e sim.Engine, doubt, err error) {
	f, err := knownFits.of(l.Published)
	if len(f.Off) > 0 {
		doubt = &sim.MisfitError{Off: f.Off}
	}
	return f.Engine, doubt, err
}

// readLike reads the run that name stands for: the file of a run manifest, in the
// envelope of the publishing site or without, or FILE#ID for one run of an experiment.
// The error names the file and every field that is missing.
func (t *terminal) readLike(name string) (*likeness, error) {
	file, id, split := name, "", false
	if i := strings.LastIndexByte(name, '#'); i >= 0 {
		file, id, split = name[:i], name[i+1:], true
	}
	if _, err := os.Stat(name); err == nil {
		file, id, split = name, "", false // the name of the file has a #
	}
	data, err := t.read(file)
	if err != nil {
		return nil, err
	}
	return likeOf(file, id, split, data)
}

// likeOf reads the run that data, the content of file, holds: that of the id where split
// is set.
func likeOf(file, id string, split bool, data []byte) (*likeness, error) {
	name := file
	if split {
		name += "#" + id
	}
	if !gjson.ValidBytes(data) {
		return nil, fmt.Errorf("%s is not JSON; want a manifest of kind run or experiment", file)
	}
	doc := gjson.ParseBytes(data)
	if inner := doc.Get("manifest"); inner.IsObject() && !doc.Get("schema_version").Exists() {
		doc = inner
	}
	r := &likeReader{name: name, run: doc}
	switch kind := doc.Get("kind").String(); {
	case kind == "run" && split && doc.Get("client_run_id").String() != id:
		return nil, fmt.Errorf("%s: client_run_id is %s, the only run there is; want the file without #", name, quoteWord(doc.Get("client_run_id").String()))
	case kind == "run":
	case kind == "experiment":
		var err error
		if r.run, err = runOf(doc, file, id); err != nil {
			return nil, err
		}
		r.shared = doc.Get("shared")
	default:
		return nil, fmt.Errorf("%s: kind is %s; want a manifest of kind run or experiment", file, quoteWord(kind))
	}
	l := r.read()
	return l, errors.Join(r.errs...)
}

// runOf finds a run of an experiment.
func runOf(doc gjson.Result, file, id string) (gjson.Result, error) {
	const shown = 6
	var ids []string
	for _, run := range doc.Get("runs").Array() {
		if this := run.Get("client_run_id").String(); this == id && id != "" {
			return run, nil
		} else if run.Get("status").String() == "completed" {
			ids = append(ids, this)
		}
	}
	what := "is an experiment"
	if id != "" {
		what = "has no run " + quoteWord(id)
	}
	more := ""
	if len(ids) > shown {
		more, ids = fmt.Sprintf(" or %d more", len(ids)-shown), ids[:shown]
	}
	return gjson.Result{}, fmt.Errorf("%s %s; want %s#ID, where ID is one of %s%s", file, what, file, printable(strings.Join(ids, ", ")), more)
}

// likeReader reads one run, and the workload that an experiment's runs share.
type likeReader struct {
	name        string
	run, shared gjson.Result
	errs        []error
}

func (r *likeReader) badf(path, format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf("%s: %s %s", r.name, path, fmt.Sprintf(format, args...)))
}

// get is a field of the run or, where the run does not have it, of what all runs share.
func (r *likeReader) get(path string) gjson.Result {
	if v := r.run.Get(path); v.Exists() {
		return v
	}
	return r.shared.Get(path)
}

// jsonNumber reads a number, also one that is written as text or as {"value": number}.
func jsonNumber(v gjson.Result) (f float64, ok bool) {
	if v.IsObject() {
		v = v.Get("value")
	}
	switch v.Type {
	case gjson.Number:
		f, ok = v.Num, true
	case gjson.String:
		var err error
		f, err = strconv.ParseFloat(v.Str, 64)
		ok = err == nil
	}
	return f, ok && !math.IsNaN(f) && !math.IsInf(f, 0)
}

// rawWord is a value as it stands in the file.
func rawWord(v gjson.Result) string { return clip(printable(v.Raw), shownBytes) }

// most bounds what is read, so that no sum overflows.
const most = 1 << 30

// count reads a whole number from 1.
func (r *likeReader) count(path string, v gjson.Result, why string) int {
	f, ok := jsonNumber(v)
	switch {
	case !v.Exists() || v.Type == gjson.Null:
		r.badf(path, "is missing; %s", why)
	case !ok || f < 1 || f > most || f != math.Trunc(f):
		r.badf(path, "is %s; want a whole number from 1", rawWord(v))
	default:
		return int(f)
	}
	return 1
}

func (r *likeReader) read() *likeness {
	l := &likeness{Model: r.get("subject.identifier").String()}
	if !r.run.Get("results").IsObject() {
		status := r.run.Get("outcome").String() + r.run.Get("status").String() // a run has the one, a run of an experiment the other
		r.badf("results", "is missing, the run is %s; want a completed run with results", quoteWord(status))
		return l
	}
	p := &l.Published
	p.InputTokens, p.OutputTokens = r.tokens("workload.input_tokens"), r.tokens("workload.output_tokens")
	p.Concurrency = r.count("workload.concurrency", r.get("workload.concurrency"), "only a closed loop can be fitted")
	done := r.get("results.successful_requests")
	p.Requests = r.count("results.successful_requests", done, "throughput is counted by it")
	p.Replicas = 1
	if v := r.get("runtime.parallelism.replicas"); v.Exists() {
		p.Replicas = r.count("runtime.parallelism.replicas", v, "")
	}
	p.Streaming = r.get("workload.streaming").Bool()
	seconds, ok := jsonNumber(r.get("results.duration_seconds"))
	if !ok || seconds <= 0 || seconds > 1e7 {
		r.badf("results.duration_seconds", "is missing or no number of seconds; want the duration of the timed run")
	}
	p.Duration = time.Duration(seconds * float64(time.Second))
	p.TTFT, p.ITL = r.latency("time_to_first_token"), r.latency("inter_token")
	p.TPOT, p.E2E = r.latency("time_per_output_token"), r.latency("end_to_end")
	if p.Streaming && p.TTFT == nil {
		r.badf("results.latency_ms.time_to_first_token", "is missing; want it of a run that streamed")
	}
	for _, key := range []string{`servebench\.speculative_accept_length`, `runpile\.speculative_accept_length`} {
		if v, ok := jsonNumber(r.get("measurement.extensions." + key)); ok && p.AcceptLength == 0 {
			p.AcceptLength = v
		}
	}
	r.server(l)
	return l
}

// tokens is the length of every prompt or answer; of lengths that differ it is their mean.
func (r *likeReader) tokens(path string) int {
	v := r.get(path)
	switch kind := v.Get("kind").String(); {
	case v.Get("value").Exists() || !v.Exists():
		return r.count(path+".value", v.Get("value"), "want the number of tokens")
	case v.Get("mean").Exists():
		mean, _ := jsonNumber(v.Get("mean"))
		return r.count(path+".mean", gjson.Parse(strconv.FormatFloat(math.Round(mean), 'f', -1, 64)), "")
	case v.Get("min").Exists() && v.Get("max").Exists():
		low, _ := jsonNumber(v.Get("min"))
		high, _ := jsonNumber(v.Get("max"))
		return r.count(path, gjson.Parse(strconv.FormatFloat(math.Round((low+high)/2), 'f', -1, 64)), "")
	default:
		r.badf(path, "of kind %s has no value, mean, min or max; want the number of tokens", quoteWord(kind))
		return 1
	}
}

// latency reads the statistics of one metric; nil where it was not published.
func (r *likeReader) latency(metric string) *sim.Latency {
	path := "results.latency_ms." + metric
	v := r.get(path)
	if !v.IsObject() {
		return nil
	}
	l := &sim.Latency{}
	for key, into := range map[string]*time.Duration{"mean": &l.Mean, "p50": &l.P50, "p90": &l.P90, "p95": &l.P95, "p99": &l.P99, "stddev": &l.StdDev} {
		ms, ok := jsonNumber(v.Get(key))
		if v.Get(key).Exists() && (!ok || ms < 0 || ms > 1e9) {
			r.badf(path+"."+key, "is %s; want milliseconds", rawWord(v.Get(key)))
			continue
		}
		*into = time.Duration(ms * float64(time.Millisecond))
	}
	if l.Mean == 0 {
		r.badf(path+".mean", "is missing; want milliseconds")
	}
	return l
}

// draftTokens finds the draft tokens in a launch command, whatever its quotes.
var draftTokens = regexp.MustCompile(`num_speculative_tokens\\*"?\s*[:=]\s*(\d{1,4})|--spec[-_]tokens[ =](\d{1,4})`)

// server reads the settings of the scheduler and the cache. A run's parameters are
// server.*, an experiment's are vllm.*; where they are silent vLLM's defaults hold.
func (r *likeReader) server(l *likeness) {
	e := sim.Engine{ChunkedPrefill: true, PrefixCaching: true}
	find := func(names ...string) (string, gjson.Result) {
		for _, group := range []string{"server", "vllm"} {
			for _, name := range names {
				path := "runtime.parameters." + group + "." + name
				if v := r.get(path); v.Exists() && v.Type != gjson.Null {
					return path, v
				}
			}
		}
		return "", gjson.Result{}
	}
	whole := func(into *int, name string) {
		if path, v := find(name); v.Exists() {
			*into = r.count(path, v, "")
		}
	}
	whole(&e.MaxNumSeqs, "max_num_seqs")
	whole(&e.MaxNumBatchedTokens, "max_num_batched_tokens")
	whole(&e.BlockSize, "block_size")
	whole(&l.MaxModelLen, "max_model_len")
	if _, v := find("chunked_prefill", "enable_chunked_prefill"); v.Exists() {
		e.ChunkedPrefill = isTrue(v)
	}
	if _, v := find("prefix_caching", "enable_prefix_caching"); v.Exists() {
		e.PrefixCaching = isTrue(v)
	} else if v := r.get("workload.prefix_behavior.cache_enabled"); v.Exists() {
		e.PrefixCaching = isTrue(v)
	} else if v := r.get("workload.prefix_behavior.server_prefix_caching"); v.Exists() {
		e.PrefixCaching = isTrue(v)
	}
	if path, v := find("num_gpu_blocks_override"); v.Exists() {
		e.KVTokens = min(r.count(path, v, "")*max(e.BlockSize, 16), most)
	}
	if _, v := find("gpu_memory_utilization"); v.Exists() {
		if f, ok := jsonNumber(v); ok && f > 0 && f <= 1 {
			e.GPUMemoryUtilization = f
		}
	}
	if _, v := find("kv_cache_dtype"); v.Exists() {
		e.CacheDtype = v.String()
	}
	if path, v := find("speculative_config.num_speculative_tokens", "num_speculative_tokens", "spec_tokens"); v.Exists() {
		e.SpeculativeTokens = r.count(path, v, "")
	} else if m := draftTokens.FindStringSubmatch(r.get("runtime.launch_command").String() + r.get("runtime.command_sanitized").String()); m != nil {
		e.SpeculativeTokens, _ = strconv.Atoi(m[1] + m[2]) // digits
	}
	l.Published.Server = e
}

// isTrue reads a switch, also one that is written as text.
func isTrue(v gjson.Result) bool {
	return v.Bool() && !slices.Contains([]string{"false", "0", "no", "off"}, strings.ToLower(v.String()))
}
