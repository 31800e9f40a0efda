package bench

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/servebench/servebench/manifest"
)

// serving is what is known of how the servers were started.
type serving struct {
	engines  []manifest.Launch // one for each command that starts an engine
	replicas int               // 0 where nobody said
	warnings []string
}

// served reads the launch commands. It depends on the configuration alone.
func (c *Config) served() *serving {
	s := &serving{}
	for _, l := range c.Declared.Launch {
		launch, warnings := manifest.ParseLaunch(l.Args)
		for _, w := range warnings {
			if !slices.Contains(s.warnings, w) { // replicas repeat each other
				s.warnings = append(s.warnings, w)
			}
		}
		if launch.Engine != "" {
			launch.Env = l.Environ()
			s.engines = append(s.engines, launch)
		}
	}
	s.replicas = len(s.engines)
	if urls := 1 + len(c.Replicas); urls > 1 && urls > s.replicas {
		if s.replicas > 0 {
			s.warnf("%d servers are measured and the commands of %d are known.", urls, s.replicas)
		}
		s.replicas = urls
	}
	return s
}

func (s *serving) warnf(format string, args ...any) {
	s.warnings = append(s.warnings, fmt.Sprintf(format, args...))
}

// first is what the first command says; of no command, nothing.
func (s *serving) first() manifest.Launch {
	if len(s.engines) == 0 {
		return manifest.Launch{}
	}
	return s.engines[0]
}

// parameters are the engine's arguments on which all commands agree.
func (s *serving) parameters() map[string]any {
	all := maps.Clone(s.first().Parameters)
	for _, e := range s.engines[min(1, len(s.engines)):] {
		for _, key := range slices.Sorted(maps.Keys(all)) {
			if v, ok := e.Parameters[key]; !ok || !reflect.DeepEqual(v, all[key]) {
				delete(all, key)
				s.warnf("The parameter %s is left out: it is not the same for all replicas.", key)
			}
		}
	}
	return all
}

// parallelism is that of one engine, and how many there are; nil where neither
// is known.
func (s *serving) parallelism() *manifest.Parallelism {
	p := s.first().Parallelism
	p.Replicas = s.replicas
	for _, e := range s.engines {
		same := e.Parallelism
		same.Replicas = s.replicas
		if same != p {
			s.warnf("The replicas differ in parallelism: that of the first is given.")
			break
		}
	}
	if p == (manifest.Parallelism{}) {
		return nil
	}
	return &p
}

// devices are those that the engines use: of the devices each sees the first
// ones, as many as its ranks are. The indices are nil where they are not numbers,
// count is 0 where nobody said.
func (s *serving) devices() (indices []int, count int) {
	known := true
	for _, e := range s.engines {
		p := e.Parallelism
		ranks := max(1, p.Data) * max(1, p.Tensor) * max(1, p.Pipeline)
		visible, ok := e.Env["CUDA_VISIBLE_DEVICES"]
		if !ok && len(s.engines) > 1 {
			return nil, 0 // nobody knows which of them share a device
		}
		ids := strings.Split(visible, ",")
		if !ok || visible == "" {
			ids, known = make([]string, ranks), false
		}
		if len(ids) < ranks {
			s.warnf("CUDA_VISIBLE_DEVICES has %d devices for %d ranks.", len(ids), ranks)
		}
		for _, id := range ids[:min(len(ids), ranks)] {
			count++
			var n int
			if _, err := fmt.Sscanf(strings.TrimSpace(id)+" end", "%d end", &n); err != nil || n < 0 || slices.Contains(indices, n) {
				known = false
				continue
			}
			indices = append(indices, n)
		}
	}
	if !known {
		indices = nil
	}
	return indices, count
}

// topology says in a sentence what the commands show.
func (s *serving) topology(count int, balanced bool) string {
	if len(s.engines) == 0 || count == 0 {
		return ""
	}
	gpus := fmt.Sprintf("%d GPUs", count)
	if count == 1 {
		gpus = "one GPU"
	}
	if s.replicas == 1 {
		return "One server engine on " + gpus + "."
	}
	text := fmt.Sprintf("%d independent server engines on %s", s.replicas, gpus)
	if balanced {
		text += "; the client sends requests to them in turn"
	}
	return text + "."
}

// Forms that the schema asks for.
var (
	versionForm  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.+_-]*$`)
	variableForm = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	tokenForm    = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
	variantForm  = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	licenseForm  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.+-]*$`)
	commitForm   = regexp.MustCompile(`^[0-9a-f]{40}$`)
)

// runtime describes the serving engine.
func (d *document) runtime() manifest.Runtime {
	r, c := d.r, &d.r.Config.Declared
	rt := manifest.Runtime{
		// A server that never answered is what its command says.
		Engine:          cmp.Or(r.Engine.Name, d.serving.first().Engine, "unknown"),
		Version:         cmp.Or(r.Engine.Version, d.fits("version of the engine", c.EngineVersion, versionForm)),
		Parallelism:     d.serving.parallelism(),
		BuildIdentifier: d.fits("build_identifier", c.BuildIdentifier, versionForm),
	}
	rt.Parameters = d.parameters(&rt)
	var lines []string
	for _, l := range c.Launch {
		line, _ := d.red.Launch(l)
		lines = append(lines, line)
	}
	rt.LaunchCommand = strings.Join(lines, "\n")
	var warnings []string
	rt.SafeEnvironment, warnings = d.red.SafeEnvironment(c.Launch, c.SafeEnvironment)
	d.warnings = append(d.warnings, warnings...)
	ext := map[string]any{}
	if v := d.fits("label variant", c.Labels["variant"], variantForm); v != "" {
		ext["runpile.server_variant"] = v
	}
	if models := d.auxiliaryModels(); len(models) > 0 {
		ext["runpile.auxiliary_models"] = models
	}
	if cache := d.r.Engine.Cache; cache != nil && !d.r.Simulated() {
		ext["servebench.kv_cache"] = cache
	}
	maps.Copy(ext, rt.Extensions)
	if rt.Extensions = ext; len(ext) == 0 {
		rt.Extensions = nil
	}
	return rt
}

// fits returns a value if the schema takes it, else "" and a warning.
func (d *document) fits(what, value string, form *regexp.Regexp) string {
	if value != "" && !form.MatchString(value) {
		d.warnf("The %s %q is left out: it does not fit the manifest, which wants %s.", what, value, form)
		return ""
	}
	return value
}

// parameters are the engine's arguments: of the commands, of the engine's own
// word, and as declared, each going before the one ahead of it.
func (d *document) parameters(rt *manifest.Runtime) *manifest.Parameters {
	c := &d.r.Config.Declared
	server := d.serving.parameters()
	if server == nil {
		server = map[string]any{}
	}
	if q, ok := server["runtime_weight_quantization"]; ok && d.quantizedCheckpoint() {
		delete(server, "runtime_weight_quantization")
		server["quantization"] = q
	}
	d.hear(server, rt)
	for key, value := range c.Parameters {
		if d.fits("parameter", key, variableForm) != "" {
			server[key] = value
		}
	}
	p := &manifest.Parameters{}
	if len(server) > 0 {
		p.Server, _ = d.red.Value(plain(server)).(map[string]any)
	}
	for name, version := range c.Dependencies {
		if d.fits("dependency", name, variableForm) != "" && d.fits("version of "+name, version, versionForm) != "" {
			if p.Dependencies == nil {
				p.Dependencies = map[string]string{}
			}
			p.Dependencies[name] = version
		}
	}
	if b := c.LoadBalancer; b != nil && d.fits("type of the load balancer", b.Type, tokenForm) != "" {
		p.LoadBalancer = b
	}
	if p.Server == nil && p.Dependencies == nil && p.LoadBalancer == nil {
		return nil
	}
	return p
}

// hear takes over what the engine itself told. Where that is not what its
// command says, it is what was measured: the engine's word goes in, a warning
// tells and an extension keeps that it was heard. The simulator knows nothing of
// the engine that it stands in for.
func (d *document) hear(server map[string]any, rt *manifest.Runtime) {
	heard := map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(d.r.Engine.Parameters)) {
		said, asked := d.r.Engine.Parameters[key], server[key]
		switch {
		case asked == nil:
			server[key] = said
		case d.r.Simulated() || sameArgument(said, asked):
		default:
			d.warnf("The launch command has %s %v, and the server says %v.", key, asked, said)
			server[key], heard[key] = said, said
		}
	}
	if len(heard) > 0 {
		rt.Extensions = map[string]any{manifest.EngineParameters: heard}
	}
}

// sameArgument compares what an engine says with what it was told: numbers by
// value; fp8 is short for e4m3.
func sameArgument(said, asked any) bool {
	text := func(v any) string { return strings.Replace(fmt.Sprint(v), "fp8_e4m3", "fp8", 1) }
	return text(said) == text(asked)
}

// quantizedCheckpoint tells that the subject's weights come quantised, so that a
// --quantization is not done at run time.
func (d *document) quantizedCheckpoint() bool {
	q := d.subject.Quantization
	return q != nil && q.Checkpoint != ""
}

// auxiliaryModels are further checkpoints that the engine loads. Repository and
// revision are those of --speculative-config, unless declared; what the local hub
// cache holds of them tells weight and format. The schema wants all five.
func (d *document) auxiliaryModels() (models []map[string]any) {
	launch := d.serving.first()
	for _, declared := range d.r.Config.Declared.AuxiliaryModels {
		m, _ := d.red.Value(plain(declared)).(map[string]any)
		fill := func(key string, value any) {
			if m[key] == nil && !reflect.ValueOf(value).IsZero() {
				m[key] = value
			}
		}
		fill("repository", launch.SpeculativeModel)
		if m["repository"] == launch.SpeculativeModel {
			fill("revision", launch.SpeculativeModelRevision)
		}
		for _, c := range d.r.checkpoints {
			if c.name == m["repository"] && (m["revision"] == nil || c.commit == m["revision"]) {
				fill("revision", c.commit)
				fill("weight_bytes", float64(c.weightBytes))
				fill("quantization", c.format)
			}
		}
		var lacks []string
		for _, key := range []string{"role", "repository", "revision", "quantization", "weight_bytes"} {
			if m[key] == nil {
				lacks = append(lacks, key)
			}
		}
		if len(lacks) > 0 {
			d.warnf("The auxiliary model %v is left out: nobody told its %s.", cmp.Or(m["repository"], any("(unnamed)")), strings.Join(lacks, ", "))
			continue
		}
		models = append(models, m)
	}
	return models
}

// validate holds what has few values to them.
func (p *Publish) validate() (errs []error) {
	for _, f := range []struct {
		key, value string
		want       []string
	}{
		{"visibility", p.Visibility, []string{"public", "private"}},
		{"artifact_visibility", p.ArtifactVisibility, []string{"public", "private"}},
		{"license", p.License, []string{"CC-BY-4.0", "CC0-1.0"}},
	} {
		if f.value != "" && !slices.Contains(f.want, f.value) {
			errs = append(errs, fmt.Errorf("publish.%s: %q; want %s", f.key, f.value, strings.Join(f.want, " or ")))
		}
	}
	return errs
}
