package runfile

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Experiment is an experiment file, with the runs it stands for.
type Experiment struct {
	About   About   `json:"experiment" required:"yes" help:"what the experiment is, for readers"`
	Base    Run     `json:"base,omitzero" help:"a run file that every point inherits"`
	Restart string  `json:"restart,omitempty" choices:"on_change,per_point" help:"on_change keeps a server for the following points whose server is the same; per_point starts it anew for each"`
	Order   string  `json:"order,omitempty" choices:"interleaved,as_written" help:"interleaved takes trial 1 of all points of a server, then trial 2; as_written a point's trials one after the other"`
	Groups  []Group `json:"groups" required:"yes" help:"the points, in the order of the manifest"`

	// Points and Aggregates are what the groups stand for.
	Points     []Point     `json:"-"`
	Aggregates []Aggregate `json:"-"`
	// Warnings are of what is doubtful.
	Warnings []string `json:"-"`
}

// About is what the experiment's author says.
type About struct {
	ID             string         `json:"id" required:"yes" help:"begins the names of the experiment's own files"`
	Title          string         `json:"title" required:"yes" help:"one line"`
	Summary        string         `json:"summary,omitempty" help:"a paragraph"`
	Objective      string         `json:"objective,omitempty" help:"what is to be found out"`
	Methodology    string         `json:"methodology,omitempty" help:"how"`
	Conclusions    string         `json:"conclusions,omitempty" help:"what was found; may be added later"`
	Limitations    []string       `json:"limitations,omitempty" help:"what the numbers do not say"`
	Tags           []string       `json:"tags,omitempty" help:"words to find it by"`
	License        string         `json:"license,omitempty" choices:"CC-BY-4.0,CC0-1.0" help:"SPDX id"`
	Visibility     string         `json:"visibility,omitempty" choices:"public,private" help:"private unless given"`
	PublisherNotes PublisherNotes `json:"publisher_notes,omitzero" help:"remarks of the publisher"`
	Artifacts      []Evidence     `json:"artifacts,omitempty" help:"further files that belong to the experiment"`
}

// PublisherNotes are remarks of the publisher.
type PublisherNotes struct {
	Warnings     []string `json:"warnings,omitempty" help:"in sentences"`
	OmittedFiles []string `json:"omitted_files,omitempty" help:"names of files that are not published"`
	DataAffirmed bool     `json:"public_data_license_affirmed,omitempty" help:"the prompts may be published under their license"`
}

// Evidence is a file that the author adds.
type Evidence struct {
	File      string `json:"file" required:"yes" help:"path, relative to this file"`
	Kind      string `json:"kind" required:"yes" help:"in snake_case, such as methodology_markdown"`
	ID        string `json:"id" required:"yes" help:"of the artifact"`
	MediaType string `json:"media_type,omitempty" help:"told by the file's ending unless given"`
}

// Group is a row of points.
type Group struct {
	Group     string           `json:"group" required:"yes" help:"name of the group"`
	ID        string           `json:"id" required:"yes" help:"template of the points' ids"`
	Name      string           `json:"name" required:"yes" help:"template of the points' names"`
	Points    []map[string]any `json:"points,omitempty" help:"one point each: words for the templates, and set: {KEY: VALUE}"`
	Vary      map[string][]any `json:"vary,omitempty" help:"values for keys of the run file, such as bench.max-concurrency: [1, 2]; several keys are their product"`
	Set       map[string]any   `json:"set,omitempty" help:"keys of the run file that are the same in the whole group; null takes the base's away"`
	Repeat    int              `json:"repeat,omitempty" min:"1" max:"1000" help:"trials of each point; 1 unless given"`
	Screening bool             `json:"screening,omitempty" help:"the points take no part in the comparison"`
	Restart   string           `json:"restart,omitempty" choices:"on_change,per_point" help:"of this group; the experiment's unless given"`
	OnFailure OnFailure        `json:"on_failure,omitzero" help:"what to do with a point that failed"`
	Aggregate *Derived         `json:"aggregate,omitempty" help:"a run that is computed from others; the group has no points then"`
}

// OnFailure says what to do with a point that failed.
type OnFailure struct {
	Retry       int    `json:"retry,omitempty" min:"0" help:"further attempts"`
	Continue    *bool  `json:"continue,omitempty" help:"false ends the experiment; true unless given"`
	Replacement string `json:"replacement,omitempty" help:"id of the point that stands in its place, or previous_completed"`
}

// Derived is what a computed run is made of.
type Derived struct {
	Sum        any      `json:"sum" required:"yes" help:"{group: NAME}, or a list of points' ids, whose requests per second are added"`
	Derivation string   `json:"derivation,omitempty" help:"how, in words"`
	Warnings   []string `json:"warnings,omitempty" help:"of the computed run"`
}

// Setting is a value that sets a point apart.
type Setting struct {
	Key   string
	Value any
}

// Point is one run of an experiment.
type Point struct {
	ID, Name, Group string
	Screening       bool
	Repeat          int // 1 or more
	Restart         bool
	OnFailure       OnFailure
	Vary            []Setting
	Run             *Run
	// At is where the group stands, FILE:LINE:COLUMN.
	At string
	// Digest is that of all that decides on the numbers: the run without labels
	// and what is for publishing. The flags are as they are written.
	Digest string
}

// Aggregate is a run that is computed from points.
type Aggregate struct {
	ID, Name, Group string
	Sum             []string // ids
	Derivation      string
	Warnings        []string
}

// Bounds of an experiment.
const (
	maxPoints = 1000
	maxRepeat = 1000
)

var experimentShape = sync.OnceValue(func() *shape { return structShape(reflect.TypeFor[Experiment]()) })

// ParseExperiment reads an experiment file and computes its points. Paths are
// relative to the folder of name. The error has a line for each mistake.
func ParseExperiment(name string, data []byte, o Options) (*Experiment, error) {
	root, err := parseYAML(name, data)
	if err != nil {
		return nil, err
	}
	if root.kind != mapNode {
		return nil, fmt.Errorf("%v: %s; want the keys of an experiment file, such as experiment and groups", root.at, root.kind.noun())
	}
	if root.get("groups") == nil && root.get("bench") != nil {
		return nil, fmt.Errorf("%s: a run file; want an experiment file here, and servebench serve -f for this one", name)
	}
	c := newChecker(o)
	v := c.value(root, experimentShape(), "")
	if len(c.errs) > 0 {
		return nil, c.err()
	}
	var e Experiment
	if err := decode(v, &e); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for i, a := range e.About.Artifacts {
		e.About.Artifacts[i].File = beside(name, a.File)
	}
	x := expander{c: newChecker(o), e: &e, base: canonicalBench(root.get("base")), ids: map[string]string{}, digests: map[string]string{}}
	x.id(root.get("experiment").get("id").at, e.About.ID, "experiment.id")
	x.ids = map[string]string{} // a point may have the experiment's
	for i, g := range root.get("groups").items {
		if e.Groups[i].Aggregate == nil {
			x.group(g, &e.Groups[i])
		}
	}
	for i, g := range root.get("groups").items {
		if e.Groups[i].Aggregate != nil {
			x.aggregate(g, &e.Groups[i])
		}
	}
	x.files()
	if len(e.Points) == 0 && len(x.c.errs) == 0 {
		x.c.failf(root.get("groups").at, "groups has no point; want one at least")
	}
	if err := x.c.err(); err != nil {
		return nil, err
	}
	return &e, nil
}

// canonicalBench writes the flags' names with dashes, so that a path finds them.
func canonicalBench(base *node) *node {
	b := base.get("bench")
	if b == nil || b.kind != mapNode {
		return base
	}
	flags := *b
	flags.entries = slices.Clone(b.entries)
	for i := range flags.entries {
		flags.entries[i].key = dashes(flags.entries[i].key)
	}
	out := *base
	out.entries = slices.Clone(base.entries)
	for i, e := range out.entries {
		if e.key == "bench" {
			out.entries[i].value = &flags
		}
	}
	return &out
}

// expander makes points of groups.
type expander struct {
	c       *checker
	e       *Experiment
	base    *node
	ids     map[string]string // in lower case, to where they are from
	digests map[string]string // to the id of the first point
	full    bool
}

// change is one value that a point sets.
type change struct {
	key   string
	at    place
	value *node
	apart bool // it sets the point apart
}

// group makes the points of one group.
func (x *expander) group(g *node, spec *Group) {
	if spec.Repeat > maxRepeat {
		x.c.failf(g.get("repeat").at, "repeat is %d; want %d at most", spec.Repeat, maxRepeat)
	}
	specs := []*node{{at: g.at, kind: mapNode}}
	if p := g.get("points"); p != nil {
		specs = p.items
	}
	common := x.changes(g.get("set"), false)
	number := 0
	for _, s := range specs {
		own := x.changes(s.get("set"), true)
		for _, varied := range x.product(g.get("vary")) {
			number++
			if len(x.e.Points) >= maxPoints {
				if !x.full {
					x.c.failf(g.at, "more than %d points; want fewer", maxPoints)
				}
				x.full = true
				return
			}
			x.point(g, s, spec, slices.Concat(common, own, varied), number)
		}
	}
}

// changes are the keys of a mapping of settings.
func (x *expander) changes(n *node, apart bool) (out []change) {
	if n == nil {
		return nil
	}
	if n.kind != mapNode {
		x.c.failf(n.at, "set is %s; want a mapping of keys such as bench.max-concurrency", n.kind.noun())
		return nil
	}
	for _, e := range n.entries {
		out = append(out, change{e.key, e.at, e.value, apart})
	}
	return out
}

// product are all choices of one value for each key.
func (x *expander) product(n *node) [][]change {
	out := [][]change{nil}
	if n == nil {
		return out
	}
	for _, e := range n.entries {
		if len(e.value.items) == 0 {
			x.c.failf(e.at, "vary.%s has no values; want a list of them", e.key)
		}
		var next [][]change
		for _, before := range out {
			for _, v := range e.value.items {
				if len(next) > maxPoints {
					return next // group says that they are too many
				}
				next = append(next, append(slices.Clip(before), change{e.key, v.at, v, true}))
			}
		}
		out = next
	}
	return out
}

// point makes one point.
func (x *expander) point(g, s *node, spec *Group, changes []change, number int) {
	run, ok := x.merge(changes)
	if !ok {
		return
	}
	c := newChecker(x.c.opts)
	r, err := decodeRun(run, c.opts)
	if err != nil {
		x.fail(err)
		return
	}
	p := Point{
		Group: spec.Group, Screening: spec.Screening, Repeat: max(1, spec.Repeat), OnFailure: spec.OnFailure,
		Restart: spec.Restart == "per_point" || spec.Restart == "" && x.e.Restart == "per_point",
		Run:     r, At: g.at.String(), Digest: digest(r),
	}
	names := x.names(r, s, changes, number)
	p.ID, p.Name = x.template(g, "id", spec.ID, names, "-"), x.template(g, "name", spec.Name, names, ", ")
	for _, ch := range changes {
		if ch.apart {
			p.Vary = append(p.Vary, Setting{ch.key, ch.value.plain()})
		}
	}
	x.id(g.get("id").at, p.ID, "the id")
	if n := len([]rune(p.Name)); n > 200 {
		x.c.failf(g.get("name").at, "the name %q has %d characters; want 200 at most", clip(p.Name), n)
	}
	if first, twice := x.digests[p.Digest]; twice {
		x.e.Warnings = append(x.e.Warnings, fmt.Sprintf("%s: the points %s and %s are the same measurement under two ids (rule X19); repeat: 2 makes trials of one point", p.At, first, p.ID))
	} else {
		x.digests[p.Digest] = p.ID
	}
	x.e.Points = append(x.e.Points, p)
}

// fail takes the lines of an error that is located already.
func (x *expander) fail(err error) {
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if !slices.ContainsFunc(x.c.errs, func(e error) bool { return e.Error() == line }) {
			x.c.errs = append(x.c.errs, errors.New(line))
		}
	}
}

// merge puts the changes over the base.
func (x *expander) merge(changes []change) (*node, bool) {
	run := x.base
	if run == nil {
		run = &node{kind: mapNode, at: place{file: changesFile(changes)}}
	}
	ok := true
	for _, ch := range changes {
		path := strings.Split(ch.key, ".")
		if path[0] == "bench" && len(path) > 1 {
			path = []string{"bench", dashes(strings.Join(path[1:], "."))}
		}
		if len(path) > 2 && slices.Contains([]string{"vars", "labels"}, path[0]) {
			path = []string{path[0], strings.Join(path[1:], ".")}
		}
		value := ch.value
		if value.kind == nullNode {
			value = nil // takes the base's away
		}
		if whole := slices.Contains([]string{"bench", "server", "vars", "labels"}, ch.key); whole && value != nil {
			x.c.failf(ch.at, "%s would take the place of the whole section; want keys of it, such as %s.KEY", ch.key, ch.key)
			ok = false
			continue
		}
		next, err := run.with(path, ch.at, value)
		if err != nil {
			x.fail(err)
			ok = false
			continue
		}
		run = next
	}
	return run, ok
}

func changesFile(changes []change) string {
	for _, ch := range changes {
		return ch.at.file
	}
	return ""
}

// names are the values for the templates of a point's id and name; lists are
// joined by \x00, for the template to write in its own way.
func (x *expander) names(r *Run, s *node, changes []change, number int) map[string]string {
	model, _ := r.Bench["model"].(string)
	out := r.names(model)
	x.loadNames(r, out)
	out["n"], out["letter"] = fmt.Sprint(number), letter(number)
	if r.Server != nil && len(r.Server.Devices) > 0 {
		out["device"] = strings.Trim(strings.ReplaceAll(fmt.Sprint(r.Server.Devices), " ", "\x00"), "[]")
	}
	for _, ch := range changes {
		if ch.value.kind != mapNode && ch.value.kind != nullNode {
			out[ch.key[strings.LastIndexByte(ch.key, '.')+1:]] = words(ch.value)
		}
	}
	for _, e := range s.entries {
		if e.key == "set" {
			continue
		}
		if e.value.kind == mapNode || e.value.kind == listNode || e.value.kind == nullNode {
			x.c.failf(e.value.at, "%s is %s; want a word for the templates, and set: {…} for keys of the run file", e.key, e.value.kind.noun())
			continue
		}
		out[e.key] = e.value.text
	}
	return out
}

func words(n *node) string {
	if n.kind != listNode {
		return n.text
	}
	all := make([]string, len(n.items))
	for i, item := range n.items {
		all[i] = words(item)
	}
	return strings.Join(all, "\x00")
}

// letter counts a, b, … z, aa, ab, …
func letter(n int) string {
	s := ""
	for ; n > 0; n = (n - 1) / 26 {
		s = string(rune('a'+(n-1)%26)) + s
	}
	return s
}

// loadNames are what a run's flags say of its load.
func (x *expander) loadNames(r *Run, out map[string]string) {
	set := r.Bench["dataset-name"]
	if set == nil {
		set = x.c.flags["dataset-name"].Default
	}
	first := func(name string, flags ...string) {
		for _, f := range flags {
			if v, ok := r.Bench[f]; ok {
				out[name] = fmt.Sprint(v)
				return
			}
		}
		last := x.c.flags[flags[len(flags)-1]]
		if last.Default != "" {
			out[name] = last.Default
		}
	}
	first("concurrency", "max-concurrency")
	first("rate", "request-rate")
	dataset := strings.ReplaceAll(fmt.Sprint(set), "_", "-")
	first("input", "input-len", dataset+"-input-len")
	first("output", "output-len", dataset+"-output-len")
}

// template fills in a group's id or name.
func (x *expander) template(g *node, key, text string, names map[string]string, between string) string {
	joined := make(map[string]string, len(names))
	for k, v := range names {
		joined[k] = strings.ReplaceAll(v, "\x00", between)
	}
	s, err := fill(text, joined, nil)
	if err != nil {
		x.c.failf(g.get(key).at, "%s: %v", key, err)
	}
	return s
}

// idForm is the schema's, shortened to leave room for what artifacts' ids end in.
var idForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,95}$`)

// id checks an id and that it is the only one: they are names of files, and
// some file systems do not tell small letters from capitals.
func (x *expander) id(at place, id, what string) {
	if strings.ContainsRune(id, '{') && templateName.MatchString(id) {
		return // told already
	}
	if !idForm.MatchString(id) {
		x.c.failf(at, "%s %q is none; want 1 to 96 letters, digits, dots, dashes and underscores, with a letter or digit first", what, clip(id))
		return
	}
	key := strings.ToLower(id)
	if first, twice := x.ids[key]; twice {
		x.c.failf(at, "%s %s is given twice, first to %s; want a template with what varies, such as {n}", what, id, first)
		return
	}
	x.ids[key] = "a point of the group at " + at.String()
}

// files looks for points whose trials are named like another point.
func (x *expander) files() {
	for _, p := range x.e.Points {
		for n := 1; p.Repeat > 1 && n <= p.Repeat && p.Repeat <= maxRepeat; n++ {
			id := fmt.Sprintf("%s-trial-%d", p.ID, n)
			if _, taken := x.ids[strings.ToLower(id)]; taken {
				x.c.errs = append(x.c.errs, fmt.Errorf("%s: the id %s is also the name of a trial of %s; want another", p.At, id, p.ID))
			}
		}
	}
}

// aggregate makes a computed run.
func (x *expander) aggregate(g *node, spec *Group) {
	for _, key := range []string{"points", "vary", "set", "repeat", "screening", "restart", "on_failure"} {
		if n := g.get(key); n != nil {
			x.c.failf(n.at, "%s beside aggregate: a computed run has no points; want one of the two", key)
		}
	}
	names := map[string]string{"n": "1", "letter": "a"}
	a := Aggregate{
		Group: spec.Group, Derivation: spec.Aggregate.Derivation, Warnings: spec.Aggregate.Warnings,
		ID: x.template(g, "id", spec.ID, names, "-"), Name: x.template(g, "name", spec.Name, names, ", "),
	}
	x.id(g.get("id").at, a.ID, "the id")
	sum := g.get("aggregate").get("sum")
	switch {
	case sum.kind == listNode:
		for _, item := range sum.items {
			if !slices.ContainsFunc(x.e.Points, func(p Point) bool { return p.ID == item.text }) {
				x.c.failf(item.at, "aggregate.sum: no point has the id %s", shown(item))
			}
			if slices.Contains(a.Sum, item.text) {
				x.c.failf(item.at, "aggregate.sum: %s is given twice", shown(item))
			}
			a.Sum = append(a.Sum, item.text)
		}
	case sum.kind == mapNode && len(sum.entries) == 1 && sum.get("group") != nil:
		group := sum.get("group")
		for _, p := range x.e.Points {
			if p.Group == group.text {
				a.Sum = append(a.Sum, p.ID)
			}
		}
		if len(a.Sum) == 0 {
			x.c.failf(group.at, "aggregate.sum: no group of points is called %s", shown(group))
		}
	default:
		x.c.failf(sum.at, "aggregate.sum is %s; want {group: NAME}, or a list of points' ids", sum.kind.noun())
	}
	if sum.kind == listNode && len(sum.items) == 0 {
		x.c.failf(sum.at, "aggregate.sum is empty; want points' ids")
	}
	x.e.Aggregates = append(x.e.Aggregates, a)
}

// digest identifies what decides on a run's numbers.
func digest(r *Run) string {
	bare := *r
	model, _ := r.Bench["model"].(string)
	if full, err := r.Resolve(model, false); err == nil {
		bare = *full // a variable that nothing reads decides on nothing
		bare.Vars = nil
	}
	bare.Labels, bare.Publish = nil, Publish{}
	b, err := json.Marshal(bare)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
