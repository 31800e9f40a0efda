// Package runfile reads the YAML files that say what to benchmark: a run, and an
// experiment of many. It checks everything that can be known without a server,
// reports all mistakes at once with their lines, and computes the runs of an
// experiment. It reads no file itself but through the reader it is given.
package runfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/tidwall/gjson"

	"github.com/servebench/servebench/manifest"
)

// Options are what a file is read with.
type Options struct {
	// Flags are those of `servebench serve`, the keys of the section bench.
	Flags []Flag
	// Read reads a file that another names. nil reads none, and a path is then
	// an error.
	Read func(path string) ([]byte, error)
}

// Bench has the flags as they are written, by name with dashes.
type Bench map[string]any

// Run is a run file. The zero value is one that says nothing. Paths are
// resolved, and what a file names by a path is read: a Run written as JSON is a
// run file again that needs no other file but the simulator's.
type Run struct {
	Bench           Bench                    `json:"bench,omitempty" help:"the flags of servebench serve, without dashes; paths in here are relative to the working directory, as on the command line"`
	Subject         *manifest.Subject        `json:"subject,omitempty" file:"yes" help:"the model: path of a subject file, relative to this file, or its fields"`
	Host            *manifest.Environment    `json:"host,omitempty" file:"yes" help:"the server's host: path of a file that servebench env wrote, relative to this file, or its fields"`
	Environment     Surroundings             `json:"environment,omitzero" help:"what no probe sees of the host"`
	Server          *Server                  `json:"server,omitempty" help:"the server to start; without it the one at bench.base-url is measured as it is"`
	Vars            map[string]Scalar        `json:"vars,omitempty" help:"values for {name} in server.command, server.env and publish.name"`
	Sim             Sim                      `json:"sim,omitzero" help:"the simulator that takes the server's place with --sim"`
	Labels          map[string]Scalar        `json:"labels,omitempty" help:"labels of a campaign: variant, profile_id, repetition_index, or any other"`
	PrefixBehavior  *manifest.PrefixBehavior `json:"prefix_behavior,omitempty" help:"condition of the prefix cache"`
	AuxiliaryModels []map[string]any         `json:"auxiliary_models,omitempty" help:"further models the server loads, such as a draft model"`
	LoadBalancer    *manifest.LoadBalancer   `json:"load_balancer,omitempty" help:"the proxy in front of the replicas, where there is one"`
	Telemetry       Telemetry                `json:"telemetry,omitzero" help:"what to watch while the timed requests run"`
	Publish         Publish                  `json:"publish,omitzero" help:"what makes a manifest fit to be published"`
	Deadline        Duration                 `json:"deadline,omitempty" help:"ends the timed requests after so long; the run is then interrupted"`

	given  []Given
	places map[string]place
	notes  []string
}

// Surroundings are what people say of the server's host.
type Surroundings struct {
	Topology           string                       `json:"topology,omitempty" help:"a sentence on how engines and devices belong together"`
	Interconnect       string                       `json:"interconnect,omitempty" help:"how the devices are connected, such as single device or PCIe 5.0 x16"`
	VirtualEnvironment *manifest.VirtualEnvironment `json:"virtual_environment,omitempty" help:"the Python environment of the server"`
}

// Server is a server that the tool starts, or that it only tells of.
type Server struct {
	Command         Command           `json:"command,omitempty" help:"the server's command; {model} {revision}, vars and labels are filled in, {port} {host} {device} {replica} {servebench} at the start"`
	Env             map[string]Scalar `json:"env,omitempty" help:"environment variables to set for it"`
	Dir             string            `json:"dir,omitempty" help:"folder to run it in, relative to this file"`
	Devices         []int             `json:"devices,omitempty" help:"indices of GPUs, shared out over the replicas as CUDA_VISIBLE_DEVICES"`
	Host            string            `json:"host,omitempty" help:"address to listen on; 127.0.0.1 unless given"`
	Port            int               `json:"port,omitempty" min:"0" max:"65535" help:"port of the first replica, the others follow; without it free ports are taken"`
	Replicas        int               `json:"replicas,omitempty" min:"1" max:"256" help:"how many to start; 1 unless given"`
	ReadyPath       string            `json:"ready_path,omitempty" help:"path that answers 200 once the server is ready; /health unless given"`
	ReadyTimeout    Duration          `json:"ready_timeout,omitempty" help:"how long a start may take; 20m unless given"`
	StopTimeout     Duration          `json:"stop_timeout,omitempty" help:"how long the server may take to end before it is killed; 30s unless given"`
	LogWarnings     []string          `json:"log_warnings,omitempty" help:"regular expressions; a line of the log that matches becomes a warning of the manifest"`
	SafeEnv         []string          `json:"safe_env,omitempty" help:"variables whose values may be published; * at the end stands for any rest"`
	BuildIdentifier string            `json:"build_identifier,omitempty" help:"build of the engine, such as vllm-0.23.0-cu129"`
	Dependencies    map[string]Scalar `json:"dependencies,omitempty" help:"versions of the engine's packages"`
	Parameters      map[string]any    `json:"parameters,omitempty" help:"engine arguments that the command does not show"`
	Managed         *bool             `json:"managed,omitempty" help:"false starts nothing: command only tells how the server was started"`
}

// Starts tells whether the server is ours to start.
func (s *Server) Starts() bool { return s != nil && (s.Managed == nil || *s.Managed) }

// Sim says how the simulator takes a server's place.
type Sim struct {
	Like string   `json:"like,omitempty" help:"manifest whose server the simulator imitates, relative to this file"`
	Args []Scalar `json:"args,omitempty" help:"further words of servebench sim"`
}

// Telemetry is what to watch.
type Telemetry struct {
	GPU           bool     `json:"gpu,omitempty" help:"ask nvidia-smi while the timed requests run"`
	Interval      Duration `json:"interval,omitempty" help:"how often; 1s unless given"`
	Devices       []int    `json:"devices,omitempty" help:"indices of GPUs; server.devices unless given"`
	EngineMetrics *bool    `json:"engine_metrics,omitempty" help:"false leaves the server's /metrics alone"`
}

// Publish is what the author decides on.
type Publish struct {
	Name               string   `json:"name,omitempty" help:"name of the run: a template with {subject.identifier} {variant} {input} {output} {concurrency} {rate}, vars and labels"`
	Notes              string   `json:"notes,omitempty" help:"sentences for readers"`
	Visibility         string   `json:"visibility,omitempty" choices:"public,private" help:"of the run; private unless given"`
	License            string   `json:"license,omitempty" choices:"CC-BY-4.0,CC0-1.0" help:"SPDX id"`
	ArtifactVisibility string   `json:"artifact_visibility,omitempty" choices:"public,private" help:"of the files; private unless given"`
	DatasetLicense     string   `json:"dataset_license,omitempty" help:"SPDX id of the prompts' license"`
	Warnings           []string `json:"warnings,omitempty" help:"further warnings of the manifest"`
}

// Given are the flags of the section bench, in the order of the file.
func (r *Run) Given() []Given { return slices.Clone(r.given) }

// Notes say what of a manifest's run file cannot be used.
func (r *Run) Notes() []string { return slices.Clone(r.notes) }

// At is the place of a key with dots, FILE:LINE:COLUMN, or of the file.
func (r *Run) At(key string) string {
	for {
		if p, ok := r.places[key]; ok {
			return p.String()
		}
		i := strings.LastIndexByte(key, '.')
		if i < 0 {
			return r.places[""].String()
		}
		key = key[:i]
	}
}

// ParseRun reads a run file. name is for messages, and paths are relative to its
// folder. A servebench manifest, in the publishing site's envelope or not, is
// taken too: the run file in it is read. The error has a line for each mistake.
func ParseRun(name string, data []byte, o Options) (*Run, error) {
	if inner, ok, err := inManifest(name, data); err != nil {
		return nil, err
	} else if ok {
		n, err := parseJSON(name, inner)
		if err != nil {
			return nil, err
		}
		n, notes := unredacted(n, "")
		r, err := decodeRun(n, o)
		if err != nil {
			return nil, err
		}
		r.notes = notes
		return r, nil
	}
	n, err := parseYAML(name, data)
	if err != nil {
		return nil, err
	}
	if n.get("groups") != nil || n.get("experiment") != nil {
		return nil, fmt.Errorf("%s: an experiment; want a run file here, and servebench sweep -f for this one", name)
	}
	return decodeRun(n, o)
}

// extension is the member of a manifest that holds the run file.
const extension = "measurement.extensions.servebench\\.run_file"

// inManifest finds the run file in a manifest.
func inManifest(name string, data []byte) ([]byte, bool, error) {
	trimmed := bytes.TrimSpace(data)
	if len(trimmed) == 0 || trimmed[0] != '{' || len(data) > manifest.MaxBytes || !json.Valid(trimmed) {
		return nil, false, nil
	}
	doc := gjson.ParseBytes(trimmed)
	if inner := doc.Get("manifest"); inner.IsObject() && !doc.Get("schema_version").Exists() {
		doc = inner
	}
	if !doc.Get("schema_version").Exists() {
		return nil, false, nil
	}
	found := doc.Get(extension)
	if !found.IsObject() {
		return nil, false, fmt.Errorf("%s: a manifest without measurement.extensions[\"servebench.run_file\"]; want a run file, or a manifest that servebench serve wrote", name)
	}
	if len(found.Raw) > maxBytes {
		return nil, false, fmt.Errorf("%s: a run file of %d bytes in the manifest; want %d at most", name, len(found.Raw), maxBytes)
	}
	return []byte(found.Raw), true, nil
}

// placeholder is what a redaction leaves.
var placeholder = regexp.MustCompile(`<(?:redacted|local-path|lan-address)>`)

// unredacted takes out what a redaction has made useless, and says so. A
// command keeps its words: the server may be there already.
func unredacted(n *node, path string) (*node, []string) {
	if n.kind != mapNode || path == "server.command" {
		return n, nil
	}
	out := *n
	out.entries = nil
	var notes []string
	for _, e := range n.entries {
		key := join(path, e.key)
		if key != "server.command" && lost(e.value) {
			notes = append(notes, fmt.Sprintf("%s was taken out of the manifest; give it again where it matters", key))
			continue
		}
		value, more := unredacted(e.value, key)
		notes = append(notes, more...)
		out.entries = append(out.entries, entry{e.key, e.at, value})
	}
	return &out, notes
}

func lost(n *node) bool {
	return n.kind == textNode && placeholder.MatchString(n.text) || slices.ContainsFunc(n.items, lost)
}

var runShape = sync.OnceValue(func() *shape { return structShape(reflect.TypeFor[Run]()) })

func newChecker(o Options) *checker {
	c := &checker{opts: o, flags: map[string]Flag{}}
	for _, f := range o.Flags {
		c.flags[f.Name] = f
	}
	return c
}

func decodeRun(n *node, o Options) (*Run, error) {
	c := newChecker(o)
	if n.kind != mapNode {
		return nil, fmt.Errorf("%v: %s; want the keys of a run file, such as bench", n.at, n.kind.noun())
	}
	v := c.value(n, runShape(), "")
	c.server(n.get("server"))
	if len(c.errs) > 0 {
		return nil, c.err()
	}
	var r Run
	if err := decode(v, &r); err != nil {
		return nil, fmt.Errorf("%v: %w", n.at, err)
	}
	r.given = c.given
	r.places = map[string]place{"": {file: n.at.file}}
	placesOf(n, "", r.places)
	r.resolvePaths()
	return &r, nil
}

// server checks what the shape cannot say.
func (c *checker) server(n *node) {
	if n == nil || n.kind != mapNode {
		return
	}
	if cmd := n.get("command"); cmd == nil || cmd.kind == listNode && len(cmd.items) == 0 || cmd.kind == textNode && strings.TrimSpace(cmd.text) == "" {
		c.failf(n.at, "server.command is missing; want the command that starts the server, such as [vllm, serve, \"{model}\", --port, \"{port}\"]")
	}
	if e := n.get("log_warnings"); e != nil {
		for i, item := range e.items {
			if _, err := regexp.Compile(item.text); err != nil {
				c.failf(item.at, "server.log_warnings[%d]: %v", i, err)
			}
		}
	}
	if e := n.get("devices"); e != nil {
		for i, item := range e.items {
			if strings.HasPrefix(item.text, "-") {
				c.failf(item.at, "server.devices[%d] is %s; want 0 or more", i, item.text)
			}
		}
	}
}

// decode puts plain values into a Go value.
func decode(v, into any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	return d.Decode(into)
}

func placesOf(n *node, path string, into map[string]place) {
	for _, e := range n.entries {
		key := e.key
		if path == "bench" {
			key = dashes(key)
		}
		into[join(path, key)] = e.value.at
		placesOf(e.value, join(path, key), into)
	}
}

// resolvePaths makes the paths of the file's own sections relative to the
// working directory.
func (r *Run) resolvePaths() {
	if r.Sim.Like != "" {
		r.Sim.Like = beside(r.places["sim.like"].file, r.Sim.Like)
	}
	if r.Server != nil && r.Server.Dir != "" {
		r.Server.Dir = beside(r.places["server.dir"].file, r.Server.Dir)
	}
}

// beside resolves a path that stands in a file.
func beside(file, path string) string {
	if filepath.IsAbs(path) || strings.HasPrefix(path, "~") {
		return path
	}
	return filepath.Join(filepath.Dir(file), path)
}

// file reads what a path names in place of the value itself.
func (c *checker) file(n *node, s *shape, path string) any {
	if c.opts.Read == nil {
		c.failf(n.at, "%s names a file, which cannot be read here", path)
		return nil
	}
	name := beside(n.at.file, n.text)
	data, err := c.opts.Read(name)
	if err != nil {
		c.failf(n.at, "%s: %v", path, err)
		return nil
	}
	if s.name == "Subject" {
		subject, err := manifest.ParseSubject(name, data)
		if err != nil {
			c.errs = append(c.errs, err)
			return nil
		}
		return subject
	}
	inner, err := parseYAML(name, data)
	if err != nil {
		c.errs = append(c.errs, err)
		return nil
	}
	plain := *s
	plain.file = false
	return c.value(inner, &plain, path)
}

// subject holds an inline subject to the rules of a subject file.
func (c *checker) subject(n *node, checked any, path string) any {
	b, err := json.Marshal(checked)
	if err != nil {
		return nil
	}
	const name = "subject"
	s, err := manifest.ParseSubject(name, b)
	if err == nil {
		return s
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		at, message := n.at, line
		if m := inSubject.FindStringSubmatch(line); m != nil {
			message = m[1]
			key, _, _ := strings.Cut(message, ":")
			at = n.find(strings.Split(key, "/"))
		}
		c.failf(at, "%s.%s", path, message)
	}
	return nil
}

var inSubject = regexp.MustCompile(`^subject:(?:\d+:(?:\d+:)?)? (.*)$`)

// find is the place a path leads to, as far as it leads.
func (n *node) find(path []string) place {
	at := n.at
	for _, key := range path {
		if i, err := strconv.Atoi(key); err == nil && n.kind == listNode && i >= 0 && i < len(n.items) {
			n = n.items[i]
		} else if n = n.get(key); n == nil {
			break
		}
		at = n.at
	}
	return at
}

// errUnbalanced is a text that no shell would split.
var errUnbalanced = errors.New("a quotation mark without its end")

// Words splits a text into words as a POSIX shell does, expanding nothing.
func Words(s string) ([]string, error) {
	words := []string{}
	var word strings.Builder
	inWord, escaped, quote := false, false, rune(0)
	for _, r := range s {
		switch {
		case escaped:
			escaped = false
			if r == '\n' && quote == 0 { // a line that goes on
				continue
			}
			if quote == '"' && !strings.ContainsRune("\"\\$`", r) {
				word.WriteByte('\\')
			}
			word.WriteRune(r)
			inWord = true
		case r == '\\' && quote != '\'':
			escaped = true
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, inWord = r, true
		case quote == 0 && strings.ContainsRune(" \t\r\n", r):
			if inWord {
				words = append(words, word.String())
			}
			word.Reset()
			inWord = false
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	if quote != 0 || escaped {
		return nil, errUnbalanced
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}

// KindOf tells the kinds of file apart by their keys. What can be read as none of
// them is a run file, whose reader says what is wrong.
func KindOf(data []byte) string {
	n, err := parseYAML("", data)
	switch {
	case err != nil:
		return KindRun
	case n.get("experiment") != nil || n.get("groups") != nil:
		return KindExperiment
	case n.has(runShape()):
		return KindRun
	case n.has(subjectShape):
		return KindSubject
	case n.has(hostShape):
		return KindHost
	}
	return KindRun
}

// What a subject file and a host file hold; their readers are those of manifest.
var (
	subjectShape = structShape(reflect.TypeFor[manifest.Subject]())
	hostShape    = structShape(reflect.TypeFor[manifest.Environment]())
)

// has tells whether a mapping has any of an object's fields.
func (n *node) has(s *shape) bool {
	return slices.ContainsFunc(s.fields, func(f field) bool { return n.get(f.key) != nil })
}
