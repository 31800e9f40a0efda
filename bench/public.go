package bench

import (
	"os"
	"os/user"
	"slices"
	"strings"

	"github.com/servebench/servebench/manifest"
)

// Redactor knows what must not be published of a run: its secrets, this machine and
// its user, the machines of the servers.
func (c *Config) Redactor() *manifest.Redactor {
	names, numbers := c.addresses()
	red := &manifest.Redactor{
		Secrets:   slices.Concat(c.Target.Secrets(), numbers, c.PrivateTexts),
		HostNames: append(slices.Clone(c.PrivateNames), names...),
	}
	for _, l := range c.Declared.Launch {
		red.Secrets = append(red.Secrets, l.Secrets()...)
	}
	if h, err := os.UserHomeDir(); err == nil {
		red.Home = h
	}
	if h, err := os.Hostname(); err == nil {
		red.HostNames = append(red.HostNames, h)
	}
	if u, err := user.Current(); err == nil {
		red.UserNames = append(red.UserNames, u.Username)
	}
	return red
}

// published is a manifest without what must not be published, wherever it came from,
// and with a list of the places where something was taken out, there or before.
func published(m *manifest.Run, red *manifest.Redactor) *manifest.Run {
	clean, places, err := manifest.Clean(red, m)
	if err != nil {
		return m // NaN: Encode says where, and nothing is written
	}
	list := []map[string]any{}
	for _, p := range places {
		// Without the slash in front, which makes a local path of a pointer.
		list = append(list, map[string]any{"path": strings.TrimPrefix(p.Path, "/"), "kinds": p.Kinds})
	}
	if clean.Measurement.Extensions == nil {
		clean.Measurement.Extensions = map[string]any{}
	}
	clean.Measurement.Extensions["servebench.redactions"] = list
	return clean
}

// hide takes out of the texts of a result what must not be published. A name that
// holds nothing of the kind stays as vLLM would write it, a path of a model too.
// Texts that the server generated are its own and stay.
func (r *Result) hide(o *object) {
	red := r.redactor()
	for key, value := range o.values {
		if s, ok := value.(string); ok {
			o.values[key] = red.Hide(s)
		}
	}
}

// hidden is a value of an argument without what must not be published.
func hidden(red *manifest.Redactor, value any) any {
	switch v := value.(type) {
	case string:
		return red.Hide(v)
	case []string:
		v = slices.Clone(v)
		for i := range v {
			v[i] = red.Hide(v[i])
		}
		return v
	case []any:
		v = slices.Clone(v)
		for i := range v {
			v[i] = hidden(red, v[i])
		}
		return v
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, value := range v {
			out[red.Hide(key)] = hidden(red, value)
		}
		return out
	}
	return value
}
