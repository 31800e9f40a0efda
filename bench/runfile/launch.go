package runfile

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/servebench/servebench/bench/server"
	"github.com/servebench/servebench/manifest"
)

// templateName is a name in braces. The braces of JSON begin no name.
var templateName = regexp.MustCompile(`\{([A-Za-z_][A-Za-z0-9_.-]*)\}`)

// atStart are the names that only a server's start fills in.
var atStart = []string{"port", "host", "device", "devices", "replica", "servebench"}

// nameLater are the names of publish.name that only the run's end fills in.
var nameLater = []string{"subject.identifier", "variant", "input", "output", "concurrency", "rate", "model", "revision"}

// names are the values for templates. model is the one the client asks for,
// used where no subject is declared.
func (r *Run) names(model string) map[string]string {
	out := map[string]string{}
	for k, v := range r.Labels {
		out[k] = string(v)
	}
	if model != "" {
		out["model"] = model
	}
	if s := r.Subject; s != nil {
		out["model"], out["subject.identifier"] = s.Identifier, s.Identifier
		if s.Revision != "" {
			out["revision"] = s.Revision
		}
	}
	for k, v := range r.Vars {
		out[k] = string(v)
	}
	return out
}

// fill replaces the names in braces, but for those in later. A name that is not
// known is an error.
func fill(text string, names map[string]string, later []string) (string, error) {
	var unknown []string
	out := templateName.ReplaceAllStringFunc(text, func(match string) string {
		name := match[1 : len(match)-1]
		if v, ok := lookUp(names, name); ok {
			return v
		}
		if !slices.Contains(later, name) {
			unknown = append(unknown, name)
		}
		return match
	})
	if unknown == nil {
		return out, nil
	}
	known := slices.Concat(slices.Sorted(maps.Keys(names)), later)
	hint := "; want one of " + strings.Join(known, ", ")
	if near := nearest(unknown[0], known); near != "" {
		hint = fmt.Sprintf("; did you mean {%s}?", near)
	}
	return out, fmt.Errorf("{%s} has no value%s", unknown[0], hint)
}

// lookUp takes - and _ for the same where there is no exact name.
func lookUp(names map[string]string, name string) (string, bool) {
	if v, ok := names[name]; ok {
		return v, true
	}
	for k, v := range names {
		if dashes(k) == dashes(name) {
			return v, true
		}
	}
	return "", false
}

// Resolve fills in the templates of the server and of the published name, as far
// as they are known before a start; with sim the simulator takes the server's
// place. It returns a copy; the error has a line for each mistake.
func (r *Run) Resolve(model string, sim bool) (*Run, error) {
	out := *r
	names := r.names(model)
	var errs []error
	fillAt := func(key, text string, later []string) string {
		s, err := fill(text, names, later)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %s: %w", r.At(key), key, err))
		}
		return s
	}
	if r.Publish.Name != "" {
		out.Publish.Name = fillAt("publish.name", r.Publish.Name, nameLater)
	}
	if r.Server != nil {
		s := *r.Server
		s.Command = nil
		for _, w := range r.Server.Command {
			s.Command = append(s.Command, fillAt("server.command", w, atStart))
		}
		s.Env = map[string]Scalar{}
		for _, k := range slices.Sorted(maps.Keys(r.Server.Env)) {
			s.Env[k] = Scalar(fillAt("server.env."+k, string(r.Server.Env[k]), atStart))
		}
		if sim && s.Starts() {
			if err := s.simulate(r.Sim); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", r.At("server.command"), err))
			}
		}
		out.Server = &s
	}
	return &out, errors.Join(errs...)
}

// simulate puts `servebench sim` where the command has what starts the server.
func (s *Server) simulate(sim Sim) error {
	i := slices.Index(s.Command, "serve")
	if i < 0 {
		return errors.New("server.command has no word serve; --sim puts the simulator in the place of the words up to it")
	}
	words := []string{"{servebench}", "sim"}
	if sim.Like != "" {
		words = append(words, "--like", sim.Like)
	}
	for _, a := range sim.Args {
		words = append(words, string(a))
	}
	s.Command = append(words, s.Command[i+1:]...)
	return nil
}

// Config is what to start, of a run that is resolved. A word that was taken out
// of a manifest cannot be started.
func (r *Run) Config() (*server.Config, error) {
	s := r.Server
	if !s.Starts() {
		return nil, nil
	}
	for _, w := range s.Command {
		if p := placeholder.FindString(w); p != "" {
			return nil, fmt.Errorf("%s: server.command holds %s, which was taken out of the manifest; want a run file with the whole command, or --base-url of a server that runs", r.At("server.command"), p)
		}
	}
	return s.config(), nil
}

func (s *Server) config() *server.Config {
	return &server.Config{
		Command: s.Command, Env: texts(s.Env), Dir: s.Dir, Devices: s.Devices, Host: s.Host, Port: s.Port, Replicas: s.Replicas,
		ReadyPath: s.ReadyPath, ReadyTimeout: time.Duration(s.ReadyTimeout), StopTimeout: time.Duration(s.StopTimeout), LogWarnings: s.LogWarnings,
	}
}

// Launched are the commands of a server that somebody else started, as far as
// the file tells them, one for each replica.
func (r *Run) Launched() []manifest.Launched {
	s := r.Server
	if s == nil || s.Starts() {
		return nil
	}
	return s.config().Launched()
}

func texts(m map[string]Scalar) map[string]string {
	if m == nil {
		return nil
	}
	out := make(map[string]string, len(m))
	for k, v := range m {
		out[k] = string(v)
	}
	return out
}
