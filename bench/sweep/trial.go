package sweep

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/servebench/servebench/bench"
	"github.com/servebench/servebench/bench/server"
	"github.com/servebench/servebench/manifest"
)

// Kinds of artifacts, see manifest/schema.md.
const (
	kindManifest = "runpile_run_manifest_json"
	kindResult   = "benchmark_result_json"
	kindLog      = "server_log_text"
)

// attempt runs a trial once and saves it. The error is one that ends the experiment.
func (r *runner) attempt(ctx context.Context, s Step) (*trialState, *bench.Result, error) {
	begin := time.Now()
	starts := len(r.state.Starts)
	res, page, end, err := r.run(ctx, s)
	if err != nil {
		return nil, nil, err
	}
	t, err := r.save(s, res, page)
	if err != nil {
		if r.Ended != nil { // the numbers are known all the same
			r.Ended(s, res, r.left(s))
		}
		return nil, nil, fmt.Errorf("point %s: %w: %w", s.Point.ID, ErrUnsaved, err)
	}
	t.Again = end == byUser
	t.Took = time.Since(begin).Seconds()
	for _, v := range r.state.Starts[starts:] {
		t.Took -= v
	}
	t.Requests, t.Concurrency, t.Closed = len(res.Records), concurrency(s.Point), s.Point.closed()
	if t.Status == manifest.Failed && !t.Again {
		t.Failures = []manifest.Failure{*t.Manifest.Failure}
	}
	return t, res, nil
}

// run makes the server run and measures it; a server that does not start is a
// result too. The page is its log.
func (r *runner) run(ctx context.Context, s Step) (*bench.Result, *bench.Page, ending, error) {
	srv, err := r.ensure(ctx, s)
	if err == nil {
		return r.measure(ctx, s, srv)
	}
	if r.over(ctx) {
		return nil, nil, byUser, ErrInterrupted
	}
	cfg := s.config()
	cfg.Declared.Launch = s.Point.Server.Launched()
	var start *server.StartError
	if !errors.As(err, &start) {
		res, err := r.mistake(ctx, s, cfg, "runtime_startup", err)
		return res, nil, byItself, err
	}
	cfg.Declared.EngineVersion = start.Version
	if start.Launched != nil {
		cfg.Declared.Launch = start.Launched
	}
	res := bench.NotRun(ctx, cfg, start.Failure())
	res.Failure.MessageSanitized, _ = r.redactor(s, res).String(res.Failure.MessageSanitized)
	return res, r.logPage(s, res, "startup", start.LogTail), byItself, nil
}

// mistake is what becomes of a mistake in the configuration of a run: it ends an
// experiment that has measured nothing yet.
func (r *runner) mistake(ctx context.Context, s Step, cfg bench.Config, stage string, err error) (*bench.Result, error) {
	if len(r.state.past().samples) == 0 {
		return nil, fmt.Errorf("point %s: %w", s.Point.ID, err)
	}
	return bench.NotRun(ctx, cfg, manifest.Failure{Stage: stage, Category: "configuration", MessageSanitized: err.Error()}), nil
}

// ending is what ended a run before its time.
type ending int

const (
	byItself ending = iota
	byUser
	byDeadline
	byServer // which ended
)

// measure runs the benchmark against a server; nil is one that is not ours.
func (r *runner) measure(ctx context.Context, s Step, srv Server) (*bench.Result, *bench.Page, ending, error) {
	cfg := s.config()
	var gone <-chan struct{}
	if srv != nil {
		urls := srv.URLs()
		cfg.Target.BaseURL, cfg.Replicas = urls[0], urls[1:]
		cfg.Declared.Launch, cfg.ServerPIDs = srv.Launched(), srv.PIDs()
		gone = srv.Done()
	}
	res, end, err := r.watched(ctx, s, cfg, gone)
	if res == nil {
		if ctx.Err() != nil {
			return nil, nil, byUser, ErrInterrupted
		}
		res, err = r.mistake(ctx, s, cfg, "preparation", err)
		return res, nil, byItself, err
	}
	var target *bench.TargetError
	if err != nil && !errors.As(err, &target) {
		r.note("point %s: %v", s.Point.ID, err)
	}
	end = settle(res, s, srv, end, r.redactor(s, res))
	if end == byUser && len(res.Records) == 0 {
		return nil, nil, byUser, ErrInterrupted // nothing was measured
	}
	if w := r.repeated(stem(s.Point, s.Trial), cfg.Target.BaseURL, withoutCache(cfg.Declared.Launch), res); w != "" {
		r.warn(s, res, []string{w})
	}
	var page *bench.Page
	if srv != nil {
		r.warn(s, res, srv.Warnings())
		page = r.logPage(s, res, "server", r.newLog(srv))
	}
	return res, page, end, nil
}

// repeated warns of prompts that the server was sent before: a cache of prefixes
// answers them faster. uncached is a server that has none.
func (r *runner) repeated(name, url string, uncached bool, res *bench.Result) string {
	if res.Plan == nil || res.Plan.SHA256 == "" || len(res.Records) == 0 {
		return ""
	}
	key := [3]string{url, res.Plan.SHA256, res.Config.Salt}
	before := r.sent[key]
	if before == "" {
		r.sent[key] = name
	}
	if before == "" || uncached || res.Config.ResetPrefixCache || res.Simulated() {
		return ""
	}
	return fmt.Sprintf("The run %s sent the same prompts to this server before: a prefix cache may hold them, and was not reset.", before)
}

// withoutCache tells whether all servers were started without a prefix cache.
func withoutCache(commands []manifest.Launched) bool {
	for _, c := range commands {
		if l, _ := manifest.ParseLaunch(c.Args); l.Parameters["prefix_caching"] != false {
			return false
		}
	}
	return len(commands) > 0
}

// endWait is how long after its connections break a server's end may become known:
// its log is read first.
const endWait = time.Second

func endsWithin(srv Server, patience time.Duration) bool {
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-srv.Done():
		return true
	case <-late.C:
	}
	select { // both may have come at a time
	case <-srv.Done():
		return true
	default:
		return false
	}
}

// settle makes the result say what ended it, and returns what that was.
func settle(res *bench.Result, s Step, srv Server, end ending, red *manifest.Redactor) ending {
	whole := res.Outcome == manifest.Completed && res.Summary.Failed == 0
	if srv != nil && !whole && end != byUser {
		patience := time.Duration(0)
		if res.Summary.Failed > 0 || res.Failure != nil {
			patience = endWait
		}
		if endsWithin(srv, patience) {
			end = byServer
		}
	}
	switch {
	case end == byServer && !whole:
		res.Outcome, res.Failure = manifest.Failed, exited(srv.Err(), red)
	case !res.Stopped:
		return byItself // it was over by then
	case end == byDeadline && res.Failure != nil: // nothing completed
		res.Failure.Category = "deadline"
		res.Failure.MessageSanitized = fmt.Sprintf("the deadline of %v ended the timed run before any request completed", s.Point.Deadline)
	case end == byDeadline:
		res.Warnings = append(res.Warnings, fmt.Sprintf("The deadline of %v ended the timed run.", s.Point.Deadline))
	}
	return end
}

// exited is the failure of a run whose server ended.
func exited(err error, red *manifest.Redactor) *manifest.Failure {
	f := server.Ended(err)
	f.MessageSanitized, _ = red.String(f.MessageSanitized)
	return &f
}

// warn adds the server's warnings to a result and its point, each once.
func (r *runner) warn(s Step, res *bench.Result, warnings []string) {
	st, red := r.point(s.Point), r.redactor(s, res)
	for _, w := range warnings {
		w, _ = red.String(w)
		for _, list := range []*[]string{&res.Warnings, &st.Warnings} {
			if !slices.Contains(*list, w) {
				*list = append(*list, w)
			}
		}
	}
}

// watched runs the benchmark until it is over, the user or the deadline ends it, or
// gone is closed.
func (r *runner) watched(ctx context.Context, s Step, cfg bench.Config, gone <-chan struct{}) (*bench.Result, ending, error) {
	var p *bench.Progress
	if r.Began != nil {
		p = r.Began(s)
	}
	if p == nil {
		p = &bench.Progress{}
	}
	stop, over := make(chan struct{}), make(chan struct{})
	cfg.Progress, cfg.Stop = p, stop
	late := make(chan struct{}) // the deadline has come
	var timer *time.Timer
	next := p.Entered
	p.Entered = func(phase string) {
		if phase == "run" && s.Point.Deadline > 0 {
			timer = time.AfterFunc(s.Point.Deadline, func() { close(late) })
		}
		if next != nil {
			next(phase)
		}
	}
	end := byItself
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-r.Stop:
			end = byUser
		case <-late:
			end = byDeadline
		case <-gone:
			end = byServer
		case <-over:
			return
		}
		close(stop)
		<-over
	})
	res, err := bench.Run(ctx, cfg)
	close(over)
	wg.Wait()
	if timer != nil {
		timer.Stop()
	}
	if ctx.Err() != nil {
		end = byUser
	}
	return res, end, err
}

// files are those of a trial, without its log.
func (r *runner) files(stem string) bench.Files {
	path := filepath.Join(r.Dir, stem)
	return bench.Files{
		Result: path + ".result.json", Manifest: path + ".manifest.json", Records: path + ".requests.jsonl", HDR: path + ".hdr",
		Selected: r.Selected, Detailed: r.Detailed,
	}
}

// endings are what the names of a trial's files end in; the manifest comes last.
var endings = []string{".result.json", ".requests.jsonl", ".hdr", ".startup.log", ".server.log", ".manifest.json"}

// save writes a trial's files, after those of an attempt before were set aside, and
// reads the manifest back.
func (r *runner) save(s Step, res *bench.Result, page *bench.Page) (*trialState, error) {
	name := stem(s.Point, s.Trial)
	aside, err := setAside(r.Dir, name)
	if err != nil {
		return nil, err
	}
	if aside != "" {
		st := r.point(s.Point)
		st.Warnings = append(st.Warnings, fmt.Sprintf("The files of an earlier attempt were set aside: %s.", aside))
	}
	f := r.files(name)
	if page != nil {
		f.Pages = append(f.Pages, *page)
	}
	if _, err := res.Save(f); err != nil {
		return nil, err
	}
	doc, err := os.ReadFile(f.Manifest)
	if err != nil {
		return nil, err
	}
	t := &trialState{}
	t.Status, t.StartedAt, t.Seconds = res.Outcome, res.Start.UTC(), res.Duration.Seconds()
	if err := json.Unmarshal(doc, &t.Manifest); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Manifest, err)
	}
	t.Artifacts = artifactsOf(name, t.Manifest, f.Manifest, doc)
	return t, nil
}

// artifactsOf are a trial's files as an experiment names them.
func artifactsOf(stem string, run *manifest.Run, path string, doc []byte) []manifest.Artifact {
	sum := sha256.Sum256(doc)
	visibility := "private"
	list := slices.Clone(run.Artifacts)
	for i := range list {
		a := &list[i]
		a.ClientArtifactID = stem + "-" + a.ClientArtifactID
		if filepath.Base(a.Filename) == stem+".result.json" {
			a.Kind = kindResult
		}
		visibility = a.Visibility
	}
	return append(list, manifest.Artifact{
		Kind: kindManifest, SHA256: hex.EncodeToString(sum[:]), Filename: filepath.Base(path), MediaType: "application/json",
		SizeBytes: int64(len(doc)), Visibility: visibility, ClientArtifactID: stem + "-manifest",
	})
}

// setAside renames the files of a trial that is run again, so that nothing measured
// is lost, and returns the stem of the new names, "" where there was nothing.
func setAside(dir, name string) (aside string, err error) {
	var there []string
	for _, e := range endings {
		if _, err := os.Lstat(filepath.Join(dir, name+e)); err == nil {
			there = append(there, e)
		}
	}
	if len(there) == 0 {
		return "", nil
	}
	for n := 1; ; n++ {
		aside = fmt.Sprintf("%s-attempt-%d", name, n)
		taken := slices.ContainsFunc(endings, func(e string) bool {
			_, err := os.Lstat(filepath.Join(dir, aside+e))
			return err == nil
		})
		if !taken {
			break
		}
	}
	for _, e := range there {
		from, to := filepath.Join(dir, name+e), filepath.Join(dir, aside+e)
		if e == ".manifest.json" {
			if err := renameInside(from, name, aside); err != nil {
				return "", err
			}
		}
		if err := os.Rename(from, to); err != nil {
			return "", err
		}
	}
	return aside, nil
}

// renameInside makes a manifest name its artifacts as they are called now. One that
// is no manifest is left as it is.
func renameInside(path, name, aside string) error {
	doc, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var run manifest.Run
	if json.Unmarshal(doc, &run) != nil {
		return nil
	}
	for i := range run.Artifacts {
		if rest, ok := strings.CutPrefix(run.Artifacts[i].Filename, name+"."); ok {
			run.Artifacts[i].Filename = aside + "." + rest
		}
	}
	doc, err = manifest.Encode(&run)
	if err != nil {
		return nil
	}
	return writeFile(path, doc)
}

// logPage is a server's log as a file of the run, nil where it said nothing.
func (r *runner) logPage(s Step, res *bench.Result, kind string, raw []byte) *bench.Page {
	clean := server.SanitizedLog(raw, r.redactor(s, res))
	if len(clean) == 0 {
		return nil
	}
	return &bench.Page{
		Path: filepath.Join(r.Dir, stem(s.Point, s.Trial)+"."+kind+".log"),
		Kind: kindLog, MediaType: "text/plain", ID: kind + "-log",
		Write: func(w io.Writer) error { _, err := w.Write(clean); return err },
	}
}
