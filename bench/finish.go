package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/servebench/servebench/loadgen/openai"
	"github.com/servebench/servebench/manifest"
	"github.com/servebench/servebench/manifest/probe"
	"github.com/servebench/servebench/metrics"
)

// finish turns the records into numbers.
func (s *session) finish(ctx context.Context) (*Result, error) {
	s.cfg.Progress.enter("results", 0)
	r := s.res
	s.countTokens(context.WithoutCancel(ctx))
	r.Config = s.cfg
	r.Summary = metrics.Summarize(r.Records, r.options())
	if r.Config.ServerTiming {
		r.ServerSide = metrics.CompareServer(r.Records, r.Config.Percentiles)
	}
	r.Duration = r.Summary.Last
	r.Warnings = append(r.Warnings, r.Plan.Warnings...)
	s.describeHost(ctx)
	issued := r.Summary.Completed + r.Summary.Failed
	r.Stopped = (ctx.Err() != nil || s.stopped()) && (issued < len(r.Records) || r.Summary.Outcomes[metrics.Canceled] > 0)
	if r.Stopped {
		r.Warnings = append(r.Warnings, fmt.Sprintf("Interrupted after %d of %d requests.", r.Summary.Completed, len(r.Records)))
	}
	if s.internal != nil {
		r.panics = 1 // it ends the run, so there is no second one
		r.Warnings = append(r.Warnings, "An internal error of servebench ended the run.")
	}
	r.PrefixCache = r.prefixCache()
	r.Warnings = append(r.Warnings, r.doubts()...)
	if r.Summary.Completed > 0 {
		r.judge()
	}
	switch {
	case r.Summary.Completed == 0 && s.internal != nil:
		return r.fail(&TargetError{"timed_run", "internal_error", errors.New("an internal error of servebench ended the run")}), s.internal
	case r.Summary.Completed == 0 && r.Stopped:
		stage := "timed_run"
		if issued == 0 {
			stage = "preparation"
		}
		return r.fail(&TargetError{stage, "interrupted", errors.New("interrupted before any request completed")}), nil
	case r.Summary.Completed == 0:
		first := firstFailure(r.Records)
		err := &TargetError{"timed_run", category(first), fmt.Errorf("all %d requests failed, the first with: %s", issued, describe(first))}
		return r.fail(err), err
	case r.Stopped:
		r.Outcome = manifest.Interrupted
	default:
		r.Outcome = manifest.Completed
	}
	r.redact()
	return r, s.internal
}

// fail makes r the result of a failed run.
func (r *Result) fail(e *TargetError) *Result {
	r.Outcome = manifest.Failed
	r.Failure = &manifest.Failure{Stage: e.Stage, Category: e.Category, MessageSanitized: e.Error()}
	r.redact()
	return r
}

func (s *session) stopped() bool {
	select {
	case <-s.cfg.Stop:
		return true
	default:
		return false
	}
}

// redact cleans what servers said of what is ours: records and results are
// files to be published.
func (r *Result) redact() {
	red := r.redactor()
	for i, w := range r.Warnings {
		r.Warnings[i], _ = red.String(w)
	}
	if r.Failure != nil {
		r.Failure.MessageSanitized, _ = red.String(r.Failure.MessageSanitized)
	}
	r.Accounting.Why, _ = red.String(r.Accounting.Why) // it may quote a server
	known := map[string]string{"": ""}                 // failures repeat themselves
	for i := range r.Records {
		rec := &r.Records[i]
		clean, ok := known[rec.Error]
		if !ok {
			clean, _ = red.String(rec.Error)
			known[rec.Error] = clean
		}
		rec.Error = clean
	}
	if prefix := r.Config.RequestIDPrefix; red.Hide(prefix) != prefix {
		for i := range r.Records {
			r.Records[i].ID = red.Hide(r.Records[i].ID)
		}
	}
}

// countTokens counts the texts whose tokens the server did not.
func (s *session) countTokens(ctx context.Context) {
	for i := range s.res.Records {
		r := &s.res.Records[i]
		counted := r.TokenSource != "" && r.TokenSource != metrics.FromChunks
		if r.Outcome == metrics.OK && !counted && s.tok != nil && r.Text != "" {
			if ids, err := s.tok.Encode(ctx, r.Text, false); err == nil {
				r.OutputTokens, r.TokenSource = len(ids), metrics.FromTokenizer
			}
		}
		if s.cfg.Target.Text != openai.TextAlways {
			r.Text = ""
		}
	}
}

// failed makes the result of a run that did not come to its first timed request.
func (s *session) failed(ctx context.Context, err error) (*Result, error) {
	r := s.res
	var target *TargetError
	isTarget := errors.As(err, &target)
	if !isTarget && ctx.Err() == nil {
		return nil, err // a mistake of the user's
	}
	r.Config = s.cfg
	r.Warnings = append(r.Warnings, r.Plan.Warnings...)
	r.Summary = metrics.Summarize(nil, r.options())
	s.describeHost(ctx)
	if r.Stopped = ctx.Err() != nil; r.Stopped {
		return r.fail(&TargetError{"preparation", "interrupted", errors.New("interrupted before the first timed request")}), nil
	}
	return r.fail(target), target
}

// NotRun is the result of a run that could not begin, such as that of a server that
// did not start: it has no records, and the failure f. c must be valid.
func NotRun(ctx context.Context, c Config, f manifest.Failure) *Result {
	s := &session{cfg: c.withDefaults(), res: &Result{Plan: &Plan{}, Start: time.Now()}}
	r := s.res
	r.Config = s.cfg
	r.Summary = metrics.Summarize(nil, r.options())
	if e := s.cfg.served().first().Engine; e == "servebench-sim" {
		r.Engine = probe.Server{Name: e, Version: s.cfg.Declared.EngineVersion, Simulated: true}
		r.Warnings = append(r.Warnings, "The target is a simulator, which stands in for the declared server.")
	}
	s.describeHost(ctx)
	r.Outcome, r.Failure = manifest.Failed, &f
	r.redact()
	return r
}

// CheckDeclared tells before a run whether what was declared lets a manifest of it be
// written at all. c must be valid.
func CheckDeclared(c Config) error {
	s := &session{cfg: c.withDefaults(), res: &Result{Plan: &Plan{}, Start: time.Now()}}
	r := s.res
	r.Config = s.cfg
	r.Summary = metrics.Summarize(nil, r.options())
	r.Outcome, r.Failure = manifest.Failed, &manifest.Failure{Stage: "preparation", Category: "other", MessageSanitized: "not run"}
	_, err := manifest.Encode(r.Manifest([]byte("{}"), nil))
	return err
}

// category is the class of a failure in snake case.
func category(r *metrics.Record) string {
	if r.Outcome == metrics.HTTP {
		return fmt.Sprintf("http_%d", r.Status)
	}
	return string(r.Outcome)
}

// describe says in a line how a request failed.
func describe(r *metrics.Record) string {
	if r.Outcome == metrics.HTTP {
		return fmt.Sprintf("HTTP %d: %s", r.Status, r.Error)
	}
	if r.Error == string(r.Outcome) {
		return r.Error
	}
	return fmt.Sprintf("%s: %s", r.Outcome, r.Error)
}

func firstFailure(records []metrics.Record) *metrics.Record {
	for i := range records {
		if o := records[i].Outcome; o != "" && o != metrics.OK {
			return &records[i]
		}
	}
	return &metrics.Record{Outcome: metrics.Dropped, Error: "no request was sent"}
}
