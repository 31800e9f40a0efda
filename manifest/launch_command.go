package manifest

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

const visibleDevices = "CUDA_VISIBLE_DEVICES"

// Environ is what was set for the server: by Env, and by assignments in front of
// the command, which go before.
func (l Launched) Environ() map[string]string {
	env := maps.Clone(l.Env)
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, parseLaunch(l.Args).env)
	return env
}

// Secrets are the values of variables and options that are named after a secret,
// whatever the program, which may turn up elsewhere, as in a server's log; also
// those of variables that an option sets (docker's -e), of headers and in JSON.
// Short ones are left out: they may be common words.
func (l Launched) Secrets() (secrets []string) {
	add := func(value string) {
		const shortest = 8
		if len(value) >= shortest && !slices.Contains(secrets, value) {
			secrets = append(secrets, value)
		}
	}
	for name, value := range sorted(l.Environ()) {
		if secretVariable(name) {
			add(value)
		} else {
			secretsInside(plainFlag, value, add)
		}
	}
	c := &commandRedactor{}
	for _, word := range parseLaunch(l.Args).argv {
		if c.takesValue(word) {
			secretsInside(c.kind, word, add)
			continue
		}
		name, value, _ := strings.Cut(word, "=")
		c.kind, c.open = kindOfFlag(flagName(name)), true
		secretsInside(c.kind, value, add)
	}
	return secrets
}

// secretsInside calls add with what is secret in a flag's value.
func secretsInside(kind flagKind, value string, add func(string)) {
	if kind == secretFlag {
		add(value)
		return
	}
	if name, content, ok := cutPair(value); ok && (kind == headerFlag || secretVariable(name)) {
		content = strings.TrimSpace(content)
		add(content)
		_, credentials, _ := strings.Cut(content, " ") // behind Bearer or Basic
		add(credentials)
	}
	var members any
	if strings.HasPrefix(strings.TrimSpace(value), "{") && json.Unmarshal([]byte(value), &members) == nil {
		secretMembers(members, false, add)
	}
}

// secretMembers calls add with the texts of JSON whose keys name a secret.
func secretMembers(value any, secret bool, add func(string)) {
	switch value := value.(type) {
	case string:
		if secret {
			add(value)
		}
	case []any:
		for _, v := range value {
			secretMembers(v, secret, add)
		}
	case map[string]any:
		for key, v := range sorted(value) {
			secretMembers(v, secret || isSecretKey(key), add)
		}
	}
}

// Launch returns a line of runtime.launch_command: what started one server, as
// [Redactor.Command] has it, with CUDA_VISIBLE_DEVICES in front and no other
// variable; those that may be public are in safe_environment. The script of a
// shell's -c is the command. The kinds are those of [Redactor.String].
func (r *Redactor) Launch(l Launched) (string, []string) {
	argv := slices.Clone(parseLaunch(l.Args).argv)
	for i := range max(0, len(argv)-1) {
		base := baseName(argv[i])
		if base == "vllm" && argv[i+1] == "serve" || base == "servebench" && argv[i+1] == "sim" {
			argv[i] = base
		}
	}
	line, kinds := r.Command(argv)
	if devices := l.Environ()[visibleDevices]; devices != "" {
		clean, more := r.String(devices)
		line, kinds = visibleDevices+"="+quote(clean)+" "+line, append(kinds, more...)
	}
	slices.Sort(kinds)
	return line, slices.Compact(kinds)
}

// SafeEnvironment returns the variables of servers that may be public: always
// CUDA_VISIBLE_DEVICES, of several servers with commas between, and those that
// allow names, where * at the end stands for any rest. A variable that is named
// after a secret is never among them, nor one that differs between servers; of
// both, where allow names them, a warning tells. The map is nil without servers.
func (r *Redactor) SafeEnvironment(launched []Launched, allow []string) (map[string]string, []string) {
	if len(launched) == 0 {
		return nil, nil
	}
	values := make(map[string][]string)
	for _, l := range launched {
		for name, value := range l.Environ() {
			if name == visibleDevices || allowed(name, allow) {
				values[name] = append(values[name], value)
			}
		}
	}
	safe, warnings := map[string]string{}, []string(nil)
	for name, set := range sorted(values) {
		value := set[0]
		differ := slices.ContainsFunc(set, func(v string) bool { return v != value })
		switch {
		case name == visibleDevices:
			value = strings.Join(set, ",")
		case secretVariable(name):
			warnings = append(warnings, "The variable "+name+" is left out: it is named after a secret.")
			continue
		case differ || len(set) != len(launched):
			warnings = append(warnings, "The variable "+name+" is left out: it is not the same for all servers.")
			continue
		}
		if clean, _ := r.String(value); clean != "" && variableName(name) {
			safe[name] = clean
		}
	}
	return safe, warnings
}

func allowed(name string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		stem, open := strings.CutSuffix(p, "*")
		return p == name || open && strings.HasPrefix(name, stem)
	})
}

// secretVariable is the schema's rule, and ours for names of secrets.
func secretVariable(name string) bool {
	for _, word := range []string{"SECRET", "PASSWORD", "API_KEY", "CREDENTIAL"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return strings.HasSuffix(name, "_TOKEN") || isSecretName(name)
}

// variableName matches the schema's ^[A-Z][A-Z0-9_]*$.
func variableName(name string) bool {
	return name != "" && name[0] >= 'A' && name[0] <= 'Z' && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == ""
}
