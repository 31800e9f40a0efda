package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/urfave/cli/v2"

	"github.com/servebench/servebench/bench"
	"github.com/servebench/servebench/manifest"
	"github.com/servebench/servebench/manifest/probe"
)

// envCommand is `servebench env`: a host file of this machine.
func envCommand(t *terminal) *cli.Command {
	return &cli.Command{
		Name:            "env",
		Usage:           "print what this machine is, for the manifests of runs whose server runs here",
		Description:     "`servebench env > host.yaml` on the server's machine makes the host file of a run file (host: host.yaml). Nothing in it names the machine or its users.",
		HideHelpCommand: true,
		OnUsageError:    wrongFlag,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "python", Usage: "the `PATH` of the server's Python: its version and a digest of its packages go in too"},
		},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return usagef("unexpected word %s", quoteWord(c.Args().First()))
			}
			return printHost(c, t)
		},
	}
}

func printHost(c *cli.Context, t *terminal) error {
	env, warnings := probe.Host(c.Context)
	for _, w := range warnings {
		t.notef("%s", w)
	}
	var packages map[string]string
	if python := c.String("python"); python != "" {
		var err error
		if env.VirtualEnvironment, packages, err = probe.Python(c.Context, python); err != nil {
			return usagef("--python: %w", err)
		}
	}
	text, err := hostFile(env, packages)
	if err != nil {
		return err
	}
	if _, err := t.out.Write(text); err != nil {
		return &exitError{code: exitUnsaved, err: err}
	}
	return nil
}

// hostFile writes an environment as YAML that [manifest.ParseHost] reads, with
// comments on what nobody but the user knows.
func hostFile(env *manifest.Environment, packages map[string]string) ([]byte, error) {
	text, err := json.Marshal(env)
	if err != nil {
		return nil, err
	}
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		return nil, err
	}
	clean, err := json.Marshal(localRedactor(nil).Value(value))
	if err != nil {
		return nil, err
	}
	public := new(manifest.Environment)
	if err := json.Unmarshal(clean, public); err != nil {
		return nil, err
	}
	body, err := yaml.Marshal(public)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# The machine that servers run on, as servebench %s env found it there: the\n", bench.Version)
	b.WriteString("# environment of manifests. In a run file: host: host.yaml\n#\n# By hand, where it is known:\n")
	if public.Topology == "" {
		b.WriteString("# topology: a sentence on engines, GPUs and what is in front of them; without it\n#   one is made of the launch commands.\n")
	}
	switch unknown := slices.ContainsFunc(public.Accelerators, func(a manifest.Accelerator) bool { return a.Interconnect == "" }); {
	case len(public.Accelerators) == 0:
		b.WriteString("# accelerators: none were found, as nvidia-smi is not here or lists none. Of others:\n" +
			"#   [{count: 1, model: ..., vendor: AMD, driver: \"6.4.1\", architecture: ..., memory_bytes_per_device: ...}]\n")
	case unknown:
		b.WriteString("# interconnect in each of accelerators: how its devices are connected.\n")
	}
	b.WriteString("# The count of accelerators is that of all devices here; a manifest has those in use,\n# by CUDA_VISIBLE_DEVICES of the launch commands.\n")
	if line := dependencies(packages); line != "" {
		b.WriteString("#\n# In a run file, of this Python: server: {dependencies: {" + line + "}}\n")
	}
	b.Write(body)
	if _, err := manifest.ParseHost("host file", []byte(b.String())); err != nil {
		return nil, fmt.Errorf("what was found does not fit the manifest: %w", err)
	}
	return []byte(b.String()), nil
}

// dependencies lists the packages that decide on an engine's speed, by the names
// of the references.
func dependencies(packages map[string]string) string {
	var found []string
	for _, p := range [][2]string{{"vllm", "vllm"}, {"pytorch", "torch"}, {"flashinfer", "flashinfer-python"}, {"transformers", "transformers"}, {"triton", "triton"}} {
		if version := packages[p[1]]; version != "" {
			found = append(found, p[0]+": "+fmt.Sprintf("%q", version))
		}
	}
	return strings.Join(found, ", ")
}
