package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/servebench/servebench/bench"
	"github.com/servebench/servebench/bench/server"
	"github.com/servebench/servebench/manifest"
)

// serverGroup are servers that were started for a run.
type serverGroup interface {
	URLs() []string
	Launched() []manifest.Launched
	PIDs() []int        // of their living processes, where they are known
	Warnings() []string // lines of the logs that match a pattern
	Done() <-chan struct{}
	Err() error // why they ended, once Done is closed
	Stop(ctx context.Context) error
}

// starter starts the servers of a configuration and returns once they are ready.
type starter func(ctx context.Context, c server.Config) (serverGroup, error)

// startServers is the starter of the program.
func (t *terminal) startServers(ctx context.Context, c server.Config) (serverGroup, error) {
	g, err := t.launch(ctx, c)
	if err != nil {
		return nil, err // a nil *Group must not become an interface
	}
	return g, nil
}

// startGroup starts the run's servers and makes them the target. Without servers
// to start the group is nil.
func (o *options) startGroup(ctx context.Context, t *terminal) (serverGroup, error) {
	if o.server == nil {
		return nil, nil
	}
	o.config.Declared.Launch = o.server.Launched() // until it has started
	t.notef("starting the server: %s", clip(publicServerCommand(&o.config, o.server), 300))
	group, err := o.start(ctx, *o.server)
	if err != nil {
		return nil, err
	}
	o.aim(group)
	t.notef("the server is ready")
	return group, nil
}

// publicServerCommand is the command of a run's server as it may be shown.
func publicServerCommand(c *bench.Config, s *server.Config) string {
	line := publicCommand(publicRedactor(c, s), s.Command, s.Host)
	// The names that only a start fills in need no quotes for people.
	return strings.NewReplacer("'{servebench}'", "servebench", "'{port}'", "{port}").Replace(line)
}

// aim makes a group the target of the run.
func (o *options) aim(group serverGroup) {
	urls := group.URLs()
	o.config.Target.BaseURL, o.config.Replicas = urls[0], slices.Clone(urls[1:])
	o.config.Declared.Launch, o.config.ServerPIDs = group.Launched(), group.PIDs()
}

// endWait is how long after its connections break a server's end may become known:
// its log is read first.
const endWait = time.Second

// endGroup ends the servers: in order, or at once when ctx ends.
func endGroup(ctx context.Context, group serverGroup, t *terminal) {
	if group == nil {
		return
	}
	if err := group.Stop(ctx); err != nil {
		t.notef("ending the server: %v", err)
	}
}

// settle tells in the result of a run what its servers left. It returns why they
// ended by themselves, if they did.
func (o *options) settle(ctx context.Context, group serverGroup, res *bench.Result) error {
	if group == nil {
		return nil
	}
	var died error
	patience := time.Duration(0)
	if res == nil || res.Failure != nil || res.Summary.Failed > 0 {
		patience = endWait
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-group.Done():
	case <-ctx.Done():
	case <-late.C:
	}
	select { // two may have come at a time
	case <-group.Done():
		if died = group.Err(); died == nil {
			died = errors.New("exit 0")
		}
	default:
	}
	if res == nil {
		return died
	}
	red := o.redactor()
	for _, w := range group.Warnings() {
		w, _ = red.String(w)
		res.Warnings = append(res.Warnings, w)
	}
	if died != nil {
		f := server.Ended(died)
		f.MessageSanitized, _ = red.String(f.MessageSanitized)
		res.Warnings = append(res.Warnings, "T"+f.MessageSanitized[1:])
		if res.Outcome != manifest.Completed || res.Summary.Failed > 0 {
			res.Outcome, res.Failure = manifest.Failed, &f
		}
	}
	return died
}

// withLog adds the end of a server's log, as it may be published, to the files of
// a run. err is why the server ended.
func (o *options) withLog(f bench.Files, err error, name, id string) (bench.Files, []byte) {
	start, ok := errors.AsType[*server.StartError](err)
	if !ok || len(start.LogTail) == 0 {
		return f, nil
	}
	tail := server.SanitizedLog(start.LogTail, o.redactor())
	if stem := stemOf(f); stem != "" && len(tail) > 0 {
		f.Pages = append(f.Pages, bench.Page{
			Path: stem + name, Kind: "server_log_text", MediaType: "text/plain", ID: id,
			Write: func(w io.Writer) error { _, err := w.Write(tail); return err },
		})
	}
	return f, tail
}

// stemOf is what the names of the files beside a result or manifest begin with.
func stemOf(f bench.Files) string {
	switch {
	case f.Result != "":
		return withoutExt(f.Result)
	case f.Manifest != "":
		return strings.TrimSuffix(withoutExt(f.Manifest), ".manifest")
	}
	return ""
}

// notStarted saves the record of a run whose server did not start.
func (o *options) notStarted(ctx context.Context, err error, interrupted bool, s *stopState, t *terminal) error {
	failure := manifest.Failure{Stage: "runtime_startup", Category: "other", MessageSanitized: err.Error()}
	said := &o.config.Declared
	said.Launch = o.server.Launched()
	start, is := errors.AsType[*server.StartError](err)
	switch {
	case interrupted:
		failure.Category, failure.MessageSanitized = "interrupted", "interrupted while the server started"
	case is:
		failure, said.EngineVersion = start.Failure(), start.Version
	}
	if is && start.Launched != nil {
		said.Launch = start.Launched
	}
	failure.MessageSanitized, _ = o.redactor().String(failure.MessageSanitized)
	res := bench.NotRun(context.WithoutCancel(ctx), o.config, failure)
	files, tail := o.withLog(o.files(o.expectedModel(), nil), err, ".startup.log", "startup-log")
	for _, line := range lastLines(tail, 10) {
		t.notef("server log: %s", clip(line, 500))
	}
	saved, saveErr := res.Save(files)
	for _, f := range saved {
		t.notef("saved %s", f)
	}
	var leakErr error
	if o.failOnLeak {
		leakErr = t.failOnLeak(saved, o.redactor())
	}
	switch {
	case leakErr != nil && saveErr == nil:
		return leakErr
	case saveErr != nil:
		t.fail(saveErr)
		return &exitError{code: exitUnsaved, err: errors.New("not everything could be saved")}
	case interrupted:
		return &exitError{code: s.code(), err: errors.New("interrupted while the server started")}
	}
	return &exitError{code: exitTarget, err: fmt.Errorf("the server did not start: %s", res.Failure.MessageSanitized), hint: startHint(res.Failure.Category, files, len(tail) > 0)}
}

// expectedModel is the model where no server told its name for it.
func (o *options) expectedModel() string {
	if o.config.Model == "" && o.config.Subject != nil {
		return o.config.Subject.Identifier
	}
	return o.config.Model
}

// startHint is what to look at after a start that failed.
func startHint(category string, files bench.Files, logged bool) string {
	var hints []string
	if logged {
		if stem := stemOf(files); stem != "" {
			hints = append(hints, stem+".startup.log has more of the server's log")
		} else {
			hints = append(hints, "--save-result keeps the server's log")
		}
	}
	if category == "timeout" {
		hints = append(hints, "server.ready_timeout is how long a start may take")
	}
	return strings.Join(hints, "; ")
}

func lastLines(text []byte, n int) []string {
	if len(text) == 0 {
		return nil
	}
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return lines[max(0, len(lines)-n):]
}
