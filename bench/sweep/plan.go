package sweep

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/servebench/servebench/bench"
	"github.com/servebench/servebench/bench/server"
)

// Step is one trial of a point, in the order in which trials are run.
type Step struct {
	Number, Of int // from 1, among all trials of the experiment
	Point      *Point
	Trial      int  // from 1
	Attempt    int  // from 1; 0 in a plan
	Starts     bool // a server is started for it
}

// config is the configuration of one trial. Those of a point with several are told
// apart by the label repetition_index, unless the file has its own, and each has a
// salt of its own, if one was asked for.
func (s Step) config() bench.Config {
	cfg := s.Point.Config
	if _, ok := cfg.Declared.Labels["repetition_index"]; s.Point.Repeat > 1 && !ok {
		labels := map[string]string{"repetition_index": strconv.Itoa(s.Trial)}
		maps.Copy(labels, cfg.Declared.Labels)
		cfg.Declared.Labels = labels
	}
	cfg.Salt = s.salt()
	return cfg
}

// salt is the trial's own: with one for all, the second would find the prompts of
// the first in the cache. The same text gives the same salts in another sweep;
// each run draws its own where none is written.
func (s Step) salt() string {
	text := s.Point.Config.Salt
	if text == "" || text == bench.AutoSalt || s.Point.ExactSalt {
		return text
	}
	key := []string{text, s.Point.ID, strconv.Itoa(s.Trial)}
	if s.Attempt > 1 { // the one before has sent prompts too
		key = append(key, strconv.Itoa(s.Attempt))
	}
	sum := sha256.Sum256([]byte(strings.Join(key, "\x00")))
	return hex.EncodeToString(sum[:10])
}

// order is that of an experiment's trials. Points follow each other as they
// are written. Among neighbours that need no server start between them, or each
// need one, trials are interleaved: the first of every point, then the second, and
// so on, so that a machine that drifts does not tell points apart.
func order(e Experiment) []Step {
	var steps []Step
	for from := 0; from < len(e.Points); {
		to := from + 1
		for !e.AsWritten && to < len(e.Points) && joined(&e.Points[to-1], &e.Points[to]) {
			to++
		}
		block := e.Points[from:to]
		for trial, some := 1, true; some; trial++ {
			some = false
			for i := range block {
				if trial <= block[i].repeat() {
					steps = append(steps, Step{Point: &block[i], Trial: trial})
					some = true
				}
			}
		}
		from = to
	}
	for i := range steps {
		steps[i].Number, steps[i].Of = i+1, len(steps)
	}
	return markStarts(steps)
}

// joined tells whether trials of both points can be interleaved without more server
// starts than there are anyway.
func joined(a, b *Point) bool {
	if a.restarts() != b.restarts() {
		return false
	}
	return a.restarts() || sameServer(a.Server, b.Server)
}

// markStarts finds out before which steps a server starts.
func markStarts(steps []Step) []Step {
	var running *server.Config
	for i := range steps {
		p := steps[i].Point
		steps[i].Starts = p.Server != nil && (p.Restart || !sameServer(running, p.Server))
		running = p.Server
	}
	return steps
}

func (p *Point) restarts() bool { return p.Server != nil && p.Restart }

func (p *Point) repeat() int { return max(1, p.Repeat) }

// sameServer tells whether one server serves for both.
func sameServer(a, b *server.Config) bool {
	if a == nil || b == nil {
		return a == b
	}
	return bytes.Equal(jsonOf(a), jsonOf(b))
}

// jsonOf is v in JSON, where that cannot fail: plain data.
func jsonOf(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("plain data is no JSON: %v", err))
	}
	return b
}

// digest is p.Digest or made of what decides on the results. How often the point
// is repeated is no part of it: an experiment can be resumed with more trials.
func (p *Point) digest() string {
	if p.Digest != "" {
		return p.Digest
	}
	c := p.Config
	c.RequestIDPrefix = ""
	if p.Server != nil { // the start decides on it
		c.Target.BaseURL, c.Replicas, c.Declared.Launch = "", nil, nil
	}
	sum := sha256.Sum256(jsonOf(map[string]any{"config": c, "server": p.Server, "restart": p.Restart, "deadline": p.Deadline}))
	return hex.EncodeToString(sum[:])
}

// Estimate is how long something takes: Low to High, beside Runs runs and Starts
// server starts of which nothing is known.
type Estimate struct {
	Low, High    time.Duration
	Runs, Starts int
}

// String is for people: "about 4m0s", "4m0s to 6m0s and 2 server starts".
func (e Estimate) String() string {
	var parts []string
	low, high := round(e.Low), round(e.High)
	switch {
	case low != high:
		parts = append(parts, fmt.Sprintf("%v to %v", low, high))
	case low > 0:
		parts = append(parts, fmt.Sprintf("about %v", low))
	}
	for _, n := range []struct {
		count int
		what  string
	}{{e.Runs, "run"}, {e.Starts, "server start"}} {
		if n.count > 1 {
			n.what += "s"
		}
		if n.count > 0 {
			parts = append(parts, fmt.Sprintf("%d %s of unknown length", n.count, n.what))
		}
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, " and ")
}

func round(d time.Duration) time.Duration {
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Second)
}

// sample is what is known of a trial that was run.
type sample struct {
	point       string
	requests    int
	concurrency int           // at most in flight
	closed      bool          // a closed loop
	timed       time.Duration // the timed requests
	took        time.Duration // all but the server's start
}

// past is what an experiment has measured of itself.
type past struct {
	samples []sample
	starts  []time.Duration
}

// estimate tells how long steps take. A trial takes as long as those of its point
// before it. Else an open loop takes as long as its schedule; a closed loop as long
// as the requests that were measured let expect; and what comes before the timed
// requests as long as it took on average.
func (k past) estimate(steps []Step) Estimate {
	var e Estimate
	var overhead time.Duration
	for _, s := range k.samples {
		overhead += (s.took - s.timed) / time.Duration(len(k.samples))
	}
	for _, s := range steps {
		if s.Starts && len(k.starts) == 0 {
			e.Starts++
		} else if s.Starts {
			mean := average(k.starts)
			e.Low, e.High = e.Low+mean, e.High+mean
		}
		low, high, ok := k.trial(s.Point, overhead)
		if !ok {
			e.Runs++
			continue
		}
		e.Low, e.High = e.Low+low, e.High+high
	}
	return e
}

func average(list []time.Duration) (mean time.Duration) {
	for _, d := range list {
		mean += d / time.Duration(len(list))
	}
	return mean
}

func (k past) trial(p *Point, overhead time.Duration) (low, high time.Duration, ok bool) {
	var own []time.Duration
	for _, s := range k.samples {
		if s.point == p.ID {
			own = append(own, s.took)
		}
	}
	if len(own) > 0 {
		mean := average(own)
		return mean, mean, true
	}
	c := &p.Config
	n := c.Dataset.Prompts
	switch {
	case n <= 0 || c.Ramp != nil || c.Traced():
		return 0, 0, false
	case !p.closed():
		low = time.Duration(float64(n) / float64(c.Rate) * float64(time.Second))
		high = low
	default:
		if low, high, ok = k.closedLoop(n, concurrency(p)); !ok {
			return 0, 0, false
		}
	}
	if p.Deadline > 0 {
		low, high = min(low, p.Deadline), min(high, p.Deadline)
	}
	return low + overhead, high + overhead, true
}

// closed tells whether requests have no due times of their own.
func (p *Point) closed() bool {
	c := &p.Config
	return (c.Rate == 0 || c.Rate.IsInf()) && c.Ramp == nil && !c.Traced()
}

func concurrency(p *Point) int {
	n := p.Config.Dataset.Prompts
	if c := p.Config.MaxConcurrency; c > 0 {
		return max(1, min(c, n))
	}
	return max(1, n)
}

// closedLoop bounds the time of n requests, c at a time. A request takes no less than
// the fastest that was measured; and more at a time do not take longer over all than
// fewer, or, where none was measured with fewer, each no longer than the slowest.
func (k past) closedLoop(n, c int) (low, high time.Duration, ok bool) {
	var least, most, whole float64 // seconds of a request; seconds for a request of the whole
	fewer := 0
	for _, s := range k.samples {
		if s.requests == 0 || s.timed <= 0 || !s.closed {
			continue // an open loop's time is its schedule's
		}
		each := s.timed.Seconds() / float64(s.requests)
		latency := each * float64(s.concurrency)
		if !ok || latency < least {
			least = latency
		}
		most, ok = max(most, latency), true
		if s.concurrency <= c && (s.concurrency > fewer || s.concurrency == fewer && each > whole) {
			fewer, whole = s.concurrency, each
		}
	}
	if !ok {
		return 0, 0, false
	}
	seconds := func(f float64) time.Duration { return time.Duration(f * float64(time.Second)) }
	low = seconds(least * float64(n) / float64(c))
	high = seconds(most * float64(n) / float64(c))
	if fewer > 0 {
		high = seconds(whole * float64(n))
	}
	return low, max(low, high), true
}
