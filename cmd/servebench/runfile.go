package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/servebench/servebench/bench"
	"github.com/servebench/servebench/bench/runfile"
	"github.com/servebench/servebench/bench/server"
	"github.com/servebench/servebench/bench/sweep"
	"github.com/servebench/servebench/manifest"
)

// This file is `serve -f`: a run file becomes the same words that a command line
// has, and what no flag says goes into the configuration.

// runFileFlag is the flag that names a run file; -f is short for it.
const runFileFlag = "run-file"

// fileFlags are the flags as the section bench knows them.
var fileFlags = sync.OnceValue(func() (out []runfile.Flag) {
	kinds := map[kind]string{kindInt: "whole", kindFloat: "number", kindJSON: "json"}
	for _, s := range serveFlags() {
		if s.Name == runFileFlag {
			continue
		}
		f := runfile.Flag{
			Name: s.Name, Help: s.Help, Default: s.Default, Kind: kinds[s.Kind], Choices: s.offered(),
			Switch: s.Arity == arityNone || s.Arity == arityToggle, Several: s.Arity == arityMany || s.Arity == aritySome,
			Object: s.Keys || s.Kind == kindJSON,
		}
		if s.Unset != "" {
			f.Default = ""
			f.Help += "; " + s.Unset + " unless given"
		}
		if s.Use == refused {
			f.Help += "; not supported: " + s.Why
		}
		out = append(out, f)
	}
	return out
})

func fileOptions() runfile.Options { return runfile.Options{Flags: fileFlags(), Read: readSmall} }

// readRun reads a run file, or a manifest that holds one.
func (t *terminal) readRun(path string) (*runfile.Run, error) {
	data, err := t.read(path)
	if err != nil {
		return nil, err
	}
	return runfile.ParseRun(shownFile(path), data, fileOptions())
}

// shownFile is the name of a file in messages; paths in standard input are
// relative to the working directory either way.
func shownFile(path string) string {
	if path == standardInput {
		return "stdin"
	}
	return path
}

// given is a command line that was read: the flags it has, and their words.
type given struct {
	words []string
	flags []string
}

// given is what was read.
func (p parsedArgs) given() given { return given{p.Words, p.Given} }

// has tells whether one of the flags is there.
func (g given) has(names ...string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return slices.Contains(g.flags, n) })
}

// is tells whether a switch is on.
func (g given) is(name string) bool { return slices.Contains(g.words, "--"+name+"=true") }

// target are the flags that say which server is measured.
var target = []string{"base-url", "host", "port", "replica-url"}

// resolveRun makes options of a run file and the command line, whose flags go
// before the file's. r may be nil. All mistakes are reported at once.
func (t *terminal) resolveRun(ctx context.Context, r *runfile.Run, line given) (*options, error) {
	words, places, err := merged(r, line)
	if err != nil {
		return nil, &exitError{code: exitUsage, err: err}
	}
	var o *options
	err = t.withOptions(ctx, words, func(_ context.Context, read *options) error { o = read; return nil })
	if err != nil {
		return nil, relocated(err, places)
	}
	o.places, o.start = places, startServers
	shown := runfile.Run{}
	if r != nil {
		full, err := o.apply(r, line)
		if err != nil {
			return nil, &exitError{code: exitUsage, err: err}
		}
		shown = *full
	}
	if o.config.RunFile, err = o.runFile(shown, words); err != nil {
		return nil, err
	}
	return o, nil
}

// merged are the words of both, in canonical form, and where those of the file
// stand.
func merged(r *runfile.Run, line given) (words []string, places map[string]string, err error) {
	if r == nil {
		return line.words, nil, nil
	}
	places = map[string]string{}
	var typed []string
	for _, g := range r.Given() {
		places[g.Name] = g.At
		typed = append(typed, g.Words...)
	}
	file, err := normalize(typed, serveFlags())
	if err != nil {
		return nil, nil, located(err, places)
	}
	over := overridden(r, line)
	for _, w := range file.Words {
		if !slices.Contains(over, wordFlag(w)) {
			words = append(words, w)
		}
	}
	for _, name := range over {
		delete(places, name)
	}
	return append(words, line.words...), places, nil
}

// wordFlag is the flag of a canonical word.
func wordFlag(w string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(w, "--"), "=")
	return name
}

// overridden are the file's flags that the command line puts away: those it has
// itself, and those that name another target than it does.
func overridden(r *runfile.Run, line given) []string {
	out := slices.Clone(line.flags)
	if line.is("sim") {
		out = append(out, target...)
	}
	if line.has(target...) {
		out = append(out, target...)
		for _, g := range r.Given() {
			if g.Name == "sim" || strings.HasPrefix(g.Name, "sim-") {
				out = append(out, g.Name)
			}
		}
	}
	return out
}

// apply puts what no flag says into the options, and returns the run with its
// templates filled in.
func (o *options) apply(r *runfile.Run, line given) (*runfile.Run, error) {
	c := &o.config
	starts := r.Server.Starts()
	var errs []error
	switch {
	case starts && line.has(target...):
		o.remarks = append(o.remarks, "the command line names a server: the section server of the run file is not used")
		starts = false
	case starts && len(namedTarget(o.places)) > 0:
		name := namedTarget(o.places)[0]
		errs = append(errs, fmt.Errorf("%s: bench.%s names a server, and the section server starts one; want one of the two, or server.managed: false", o.places[name], name))
	case !starts && r.Sim.Like != "":
		o.remarks = append(o.remarks, "sim has no effect without a section server to stand in for")
	}
	sim := starts && o.sim != nil
	full, err := r.Resolve(c.Model, sim)
	if err != nil {
		errs = append(errs, err)
	}
	if o.subject != "" && r.Subject != nil && !line.has("subject") {
		errs = append(errs, fmt.Errorf("%s: bench.subject and subject are both given; want the second alone", o.places["subject"]))
	}
	if c.Subject == nil {
		c.Subject = r.Subject
	}
	if starts && err == nil {
		if sim {
			o.sim, c.Target.APIKey = nil, ""
			errs = append(errs, inProcessSim(line, o.places)...)
		}
		if o.server, err = full.Config(); err != nil {
			errs = append(errs, err)
		} else if err := o.server.Validate(); err != nil {
			errs = append(errs, sectionErrors(r, err))
		}
	}
	o.declare(full, line)
	o.deadline = time.Duration(r.Deadline)
	if r.Server.Starts() && !starts {
		full.Server = nil // another one was measured
	} else if full.Server != nil && sim {
		if full, err = r.Resolve(c.Model, false); err != nil { // what can be run again
			errs = append(errs, err)
		}
	}
	return full, errors.Join(errs...)
}

// namedTarget are the flags of the file that name a server.
func namedTarget(places map[string]string) []string {
	return slices.DeleteFunc(slices.Clone(target), func(f string) bool { return places[f] == "" })
}

// inProcessSim complains about flags of the simulator in this process, where it is
// started as a server of its own.
func inProcessSim(line given, places map[string]string) (errs []error) {
	for _, f := range slices.Sorted(maps.Keys(places)) {
		if strings.HasPrefix(f, "sim-") {
			errs = append(errs, fmt.Errorf("%s: bench.%s is for the simulator without a section server; want sim.args", places[f], f))
		}
	}
	for _, f := range line.flags {
		if strings.HasPrefix(f, "sim-") {
			errs = append(errs, fmt.Errorf("--%s: is for the simulator without a section server; want sim.args in the run file", f))
		}
	}
	return errs
}

// sectionErrors puts places before the errors of the server's package, which
// begin with server.KEY.
func sectionErrors(r *runfile.Run, err error) error {
	var errs []error
	for l := range strings.SplitSeq(err.Error(), "\n") {
		key, _, _ := strings.Cut(l, ":")
		errs = append(errs, fmt.Errorf("%s: %s", r.At(key), l))
	}
	return errors.Join(errs...)
}

// declare copies what the run file says of the server and for readers.
func (o *options) declare(r *runfile.Run, line given) {
	d := &o.config.Declared
	d.Environment = cmp.Or(d.Environment, r.Host)
	d.Topology, d.Interconnect, d.Virtual = r.Environment.Topology, r.Environment.Interconnect, r.Environment.VirtualEnvironment
	d.LoadBalancer, d.AuxiliaryModels, d.PrefixBehavior = r.LoadBalancer, r.AuxiliaryModels, r.PrefixBehavior
	d.Labels = plainTexts(r.Labels)
	d.Publish = bench.Publish(r.Publish)
	d.Launch = r.Launched()
	o.watch(r, line)
	if s := r.Server; s != nil {
		d.SafeEnvironment, d.BuildIdentifier = s.SafeEnv, s.BuildIdentifier
		d.Dependencies, d.Parameters = plainTexts(s.Dependencies), s.Parameters
	}
}

// watch copies what to watch; flags of the same, in the file or on the command
// line, go before it.
func (o *options) watch(r *runfile.Run, line given) {
	w, said := &o.config.Telemetry, r.Telemetry
	flag := func(name string) bool { return line.has(name) || o.places[name] != "" }
	if !flag("telemetry-gpu") {
		w.GPU = said.GPU
	}
	if !flag("telemetry-interval") {
		w.Interval = time.Duration(said.Interval)
	}
	if !flag("telemetry-devices") {
		w.Devices = said.Devices
		if w.Devices == nil && r.Server != nil {
			w.Devices = r.Server.Devices
		}
	}
	if e := said.EngineMetrics; e != nil && !flag("telemetry-engine-metrics") {
		w.NoEngineMetrics = !*e
	}
}

func plainTexts(m map[string]runfile.Scalar) map[string]string {
	if len(m) == 0 {
		return nil
	}
	out := make(map[string]string, len(m))
	for k, v := range m {
		out[k] = string(v)
	}
	return out
}

// located puts the file's places before mistakes in its flags.
func located(err error, places map[string]string) error {
	if len(places) == 0 {
		return err
	}
	var out []error
	for _, e := range parts(err) {
		var u usageError
		name := ""
		if errors.As(e, &u) {
			name = u.Flag
		}
		for l := range strings.SplitSeq(e.Error(), "\n") {
			out = append(out, errors.New(locatedLine(l, name, places)))
		}
	}
	return errors.Join(out...)
}

// parts are the errors of errors.Join.
func parts(err error) []error {
	if j, ok := err.(interface{ Unwrap() []error }); ok {
		return j.Unwrap()
	}
	return []error{err}
}

// leadingFlag is a flag that a message begins with.
var leadingFlag = regexp.MustCompile(`^(?:--)?([a-z0-9][a-z0-9-]*)\b`)

func locatedLine(l, name string, places map[string]string) string {
	if m := leadingFlag.FindStringSubmatch(l); m != nil && places[m[1]] != "" && (strings.HasPrefix(l, "--") || strings.HasPrefix(l[len(m[0]):], ":")) {
		return places[m[1]] + ": bench." + m[1] + l[len(m[0]):]
	}
	if name != "" && places[name] != "" {
		return places[name] + ": " + l
	}
	return l
}

// relocated is located for an error with an exit code.
func relocated(err error, places map[string]string) error {
	var e *exitError
	if !errors.As(err, &e) || e.err == nil {
		return err
	}
	return &exitError{code: e.code, err: located(e.err, places), hint: e.hint}
}

// unpublished are the flags that the resolved run file leaves out: they say
// where the server and the files are, or hold secrets.
var unpublished = []string{runFileFlag, "base-url", "host", "port", "replica-url", "header", "result-dir", "result-filename", "manifest", "records", "subject", "dry-run"}

// runFile is the resolved configuration as a run file in JSON, without what
// must not be published.
func (o *options) runFile(r runfile.Run, words []string) (json.RawMessage, error) {
	red := localRedactor(nil)
	red.Secrets = append(red.Secrets, o.config.Target.Secrets()...)
	r.Bench = publicFlags(red, words, o.config.Dataset.Name)
	r.Subject = o.config.Subject
	if r.Host == nil {
		r.Host = o.config.Declared.Environment
	}
	if r.Server != nil {
		r.Server = publicServer(red, *r.Server)
	}
	if r.Sim.Like != "" {
		r.Sim.Like = "<local-path>"
	}
	r.Vars = nil // filled in
	raw, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("the resolved run file: %w", err)
	}
	clean, _, err := red.Document(raw)
	if err != nil {
		return nil, fmt.Errorf("the resolved run file: %w", err)
	}
	return clean, nil
}

// publicFlags are the flags that are not at their defaults, typed.
func publicFlags(red *manifest.Redactor, words []string, dataset string) runfile.Bench {
	out := runfile.Bench{}
	for _, w := range words {
		name := wordFlag(w)
		s := flagByName[name]
		value := strings.TrimPrefix(w, "--"+name+"=")
		if slices.Contains(unpublished, name) {
			continue
		}
		value = publicValue(red, name, value, dataset)
		switch {
		case s.Arity == arityMany || s.Arity == aritySome:
			list, _ := out[name].([]string)
			out[name] = append(list, value)
		case s.Arity == arityNone || s.Arity == arityToggle:
			if value != cmp.Or(s.Default, "false") || s.Arity == arityToggle {
				out[name] = value == "true"
			}
		case s.Default != "" && sameValue(s.Kind, value, s.Default):
		case s.Keys && json.Valid([]byte(value)):
			out[name] = json.RawMessage(value)
		default:
			out[name] = typed(s.Kind, value)
		}
	}
	return out
}

// publicValue is a flag's value as a published command line has it.
func publicValue(red *manifest.Redactor, name, value, dataset string) string {
	if json.Valid([]byte(value)) && flagByName[name].Keys {
		value = compacted(value)
	}
	line, kinds := red.Command([]string{"servebench", "--dataset-name=" + dataset, "--" + name + "=" + value})
	if len(kinds) == 0 {
		return value
	}
	words, err := runfile.Words(line)
	if err != nil || len(words) != 3 {
		return "<redacted>"
	}
	return strings.TrimPrefix(words[2], "--"+name+"=")
}

func compacted(text string) string {
	var v any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return text
	}
	b, err := json.Marshal(v)
	if err != nil {
		return text
	}
	return string(b)
}

// publicServer is the section server without what must not be published.
func publicServer(red *manifest.Redactor, s runfile.Server) *runfile.Server {
	if words, err := runfile.Words(publicCommand(red, s.Command, s.Host)); err == nil {
		s.Command = words
	} else {
		s.Command = runfile.Command{"<redacted>"}
	}
	env := map[string]runfile.Scalar{}
	for k, v := range s.Env {
		if !safeVariable(k, s.SafeEnv) {
			v = "<redacted>"
		}
		env[k] = v
	}
	s.Env, s.Dir = env, ""
	if s.Host != "127.0.0.1" && s.Host != "localhost" {
		s.Host = ""
	}
	return &s
}

// publicCommand is a server's command as it may be published. The address to
// listen on is known before the start; a name in braces would look like a host.
func publicCommand(red *manifest.Redactor, words []string, host string) string {
	known := make([]string, len(words))
	for i, w := range words {
		known[i] = strings.ReplaceAll(w, "{host}", cmp.Or(host, "127.0.0.1"))
	}
	line, _ := red.Command(known)
	return line
}

// shownCommand is a server's command on the screen before it is started, when its
// port and this program's path are not yet in it.
func shownCommand(words []string, host string) string {
	line := publicCommand(localRedactor(nil), words, host)
	line = strings.ReplaceAll(line, "'{servebench}'", "servebench")
	return strings.ReplaceAll(line, "'{port}'", "{port}")
}

// safeVariable tells whether a variable's value may be published.
func safeVariable(name string, safe []string) bool {
	return name == "CUDA_VISIBLE_DEVICES" || slices.ContainsFunc(safe, func(s string) bool {
		stem, any := strings.CutSuffix(s, "*")
		return s == name || any && strings.HasPrefix(name, stem)
	})
}

// experiment is an experiment file that was read.
type experiment struct {
	*sweep.Experiment
	// Order is interleaved or as_written.
	Order string
	// Options has those of each point, in the order of Experiment.Points: what to
	// save, and notes.
	Options  []*options
	Warnings []string
}

// resolveExperiment reads an experiment file. The words of the command line are
// flags of serve, which go before those of every point. All mistakes are
// reported at once.
func (t *terminal) resolveExperiment(ctx context.Context, path string, args []string) (*experiment, error) {
	parsed, err := normalize(args, serveFlags())
	if err != nil {
		return nil, &exitError{code: exitUsage, err: err}
	}
	data, err := t.read(path)
	if err != nil {
		return nil, &exitError{code: exitUsage, err: err}
	}
	return t.expand(ctx, shownFile(path), data, parsed.given())
}

// expand is resolveExperiment of a file's text.
func (t *terminal) expand(ctx context.Context, name string, data []byte, line given) (*experiment, error) {
	e, err := runfile.ParseExperiment(name, data, fileOptions())
	if err != nil {
		return nil, &exitError{code: exitUsage, err: err}
	}
	x := &experiment{Experiment: &sweep.Experiment{About: about(e)}, Order: cmp.Or(e.Order, "interleaved"), Warnings: e.Warnings}
	var errs []error
	for _, p := range e.Points {
		o, err := t.resolveRun(ctx, p.Run, line)
		if err == nil {
			err = o.valid()
		}
		if err != nil {
			for l := range strings.SplitSeq(err.Error(), "\n") {
				if !slices.ContainsFunc(errs, func(e error) bool { return e.Error() == l }) {
					errs = append(errs, errors.New(l))
				}
			}
			continue
		}
		x.Options = append(x.Options, o)
		x.Points = append(x.Points, point(&p, o))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, &exitError{code: exitUsage, err: err}
	}
	for _, a := range e.Aggregates {
		x.Aggregates = append(x.Aggregates, sweep.Aggregate(a))
	}
	return x, nil
}

// valid holds the options to the rules of the packages below.
func (o *options) valid() error {
	if err := o.config.Validate(); err != nil {
		return located(flagged(err), o.places)
	}
	return nil
}

func about(e *runfile.Experiment) sweep.About {
	a := e.About
	out := sweep.About{
		ID: a.ID, Title: a.Title, Summary: a.Summary, Objective: a.Objective, Methodology: a.Methodology, Conclusions: a.Conclusions,
		Limitations: a.Limitations, Tags: a.Tags, License: a.License, Visibility: a.Visibility,
		Warnings: a.PublisherNotes.Warnings, OmittedFiles: a.PublisherNotes.OmittedFiles, DataAffirmed: a.PublisherNotes.DataAffirmed,
		Environment: e.Base.Host,
	}
	for _, f := range a.Artifacts {
		out.ArtifactFiles = append(out.ArtifactFiles, sweep.File{Path: f.File, Kind: f.Kind, ID: f.ID, MediaType: f.MediaType})
	}
	return out
}

// point is a point as it is run.
func point(p *runfile.Point, o *options) sweep.Point {
	out := sweep.Point{
		ID: p.ID, Name: p.Name, Group: p.Group, Screening: p.Screening, Repeat: p.Repeat,
		Config: o.config, Server: o.server, Restart: p.Restart, Deadline: o.deadline,
		OnFailure: sweep.OnFailure{
			Retry: p.OnFailure.Retry, Stop: p.OnFailure.Continue != nil && !*p.OnFailure.Continue, Allow: p.OnFailure.Continue != nil && *p.OnFailure.Continue, Replacement: p.OnFailure.Replacement,
		},
		Digest: o.digest(),
	}
	for _, v := range p.Vary {
		out.Vary = append(out.Vary, sweep.Setting{Key: v.Key, Value: v.Value})
	}
	return out
}

// digest identifies what decides on a point's numbers: the configuration without
// labels, what is for publishing, and what is drawn anew for each run.
func (o *options) digest() string {
	c := o.config
	c.Declared.Labels, c.Declared.Publish = nil, bench.Publish{}
	if !o.prefixGiven {
		c.RequestIDPrefix = ""
	}
	b, err := json.Marshal(struct {
		Config   bench.Config
		Server   *server.Config
		Deadline time.Duration
	}{c, o.server, o.deadline})
	if err != nil {
		return "" // never the same as another
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
