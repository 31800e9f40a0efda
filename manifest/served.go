package manifest

import (
	"errors"
	"strings"
)

// Served is the runtime that the commands say which started a server, a line for
// each replica; empty lines and those that begin with # are none. What is not known
// from them, such as the engine's version, is left out. The commands are redacted.
// The error is of a text without a command of `vllm serve`.
func (r *Redactor) Served(text string) (Runtime, error) {
	var lines []string
	for line := range strings.SplitSeq(strings.ReplaceAll(text, "\\\n", " "), "\n") {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			lines = append(lines, line)
		}
	}
	rt := Runtime{Engine: "vllm", SafeEnvironment: map[string]string{}}
	var engines []Launched
	var devices []string
	for _, line := range lines {
		l := Launched{Args: SplitWords(line)}
		said, _ := ParseLaunch(l.Args)
		if said.Engine == "" {
			continue // a proxy, say
		}
		if len(engines) == 0 {
			degrees := said.Parallelism
			rt.Engine, rt.Parallelism = said.Engine, &degrees
			if len(said.Parameters) > 0 {
				rt.Parameters = &Parameters{Server: said.Parameters}
			}
		}
		engines = append(engines, l)
		if d := l.Environ()["CUDA_VISIBLE_DEVICES"]; d != "" {
			devices = append(devices, d)
		}
	}
	if len(engines) == 0 {
		return Runtime{}, errors.New("no line starts a server; want a command such as vllm serve MODEL")
	}
	if len(devices) > 0 {
		rt.SafeEnvironment["CUDA_VISIBLE_DEVICES"] = strings.Join(devices, ",")
	}
	rt.Parallelism.Replicas = len(engines)
	rt.LaunchCommand, _ = r.script(strings.Join(lines, "\n"))
	return rt, nil
}
