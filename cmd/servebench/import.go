package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/google/renameio/v2"
	"github.com/urfave/cli/v2"

	"github.com/servebench/servebench/bench"
	"github.com/servebench/servebench/bench/importer"
	"github.com/servebench/servebench/manifest"
)

// importFlags are those of `servebench manifest import`.
var importFlags = []cli.Flag{
	&cli.StringFlag{Name: "subject", TakesFile: true, Usage: "YAML file that declares the model"},
	&cli.StringFlag{Name: "host", TakesFile: true, Usage: "YAML file of the server's machine, as servebench env writes it"},
	&cli.StringSliceFlag{Name: "launch-command", Usage: "command that started the server; once for each replica"},
	&cli.StringFlag{Name: "launch", TakesFile: true, Usage: "file with such commands, a line for each replica"},
	&cli.StringSliceFlag{Name: "set", Usage: "KEY=VALUE of the manifest, such as workload.random_seed=0; may be repeated"},
	&cli.StringFlag{Name: "o", TakesFile: true, Usage: "write the manifest here and not to stdout; of several results each with its id in the name"},
	nameFlag,
}

// importFile makes manifests of a file of results.
func importFile(c *cli.Context, t *terminal) error {
	if c.Args().Len() > 1 {
		return usagef("manifest import: %d files; want one, or none for standard input", c.Args().Len())
	}
	name := standardInput
	if c.Args().Present() {
		name = c.Args().First()
	}
	o, err := importOptions(c)
	if err != nil {
		return &exitError{code: exitUsage, err: err}
	}
	if err := replaceable(c.String("o")); err != nil {
		return usagef("-o: %v", err)
	}
	data, err := t.read(name)
	if err != nil {
		return &exitError{code: exitUsage, err: err}
	}
	results, err := importer.Split(data)
	if err != nil {
		return &exitError{code: exitInvalid, err: fmt.Errorf("%s: %w", name, err)}
	}
	if len(results) > 1 && c.String("o") == "" {
		return usagef("%s: %d results; want -o FILE.manifest.json, which gets a run's id into the name of each", name, len(results))
	}
	bad := 0
	for i, result := range results {
		where := name
		if len(results) > 1 {
			where = fmt.Sprintf("%s: result %d", name, i+1)
		} else {
			o.Artifacts = resultArtifact(name, data)
		}
		m, err := importer.Run(result, o)
		if err != nil {
			bad++
			t.fail(prefixed(where, err))
			continue
		}
		if err := t.writeImported(c.String("o"), len(results) > 1, m); err != nil {
			return &exitError{code: exitUnsaved, err: err}
		}
	}
	if bad > 0 {
		return &exitError{code: exitInvalid, err: fmt.Errorf("manifest import: %d of %s could not be imported", bad, count(len(results), "result"))}
	}
	return nil
}

// prefixed puts the file's name before each line of an error.
func prefixed(name string, err error) error {
	return errors.New(name + ": " + strings.ReplaceAll(err.Error(), "\n", "\n"+name+": "))
}

func (t *terminal) writeImported(to string, several bool, m *manifest.Run) error {
	doc, err := manifest.Encode(m)
	if err != nil {
		return err
	}
	for _, w := range m.Warnings {
		t.notef("warning: %s", w)
	}
	if to == "" {
		_, err := t.out.Write(doc)
		return err
	}
	if several {
		stem, ok := strings.CutSuffix(to, ".manifest.json")
		if !ok {
			stem = strings.TrimSuffix(to, ".json")
		}
		to = stem + "." + m.ClientRunID + ".manifest.json"
	}
	if err := renameio.WriteFile(to, doc, 0o666, renameio.WithTempDir(filepath.Dir(to))); err != nil {
		return fmt.Errorf("%s: %w", to, err)
	}
	t.notef("saved %s, with %s", to, count(len(m.Warnings), "warning"))
	return nil
}

func importOptions(c *cli.Context) (importer.Options, error) {
	o := importer.Options{
		Set: c.StringSlice("set"), Redactor: localRedactor(c.StringSlice(nameFlag.Name)), At: time.Now(), Version: bench.Version,
	}
	var errs []error
	read := func(flag string, f func(name string, data []byte) error) {
		name := c.String(flag)
		if name == "" {
			return
		}
		data, err := readSmall(name)
		if err == nil {
			err = f(name, data)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w", flag, err))
		}
	}
	read("subject", func(name string, data []byte) (err error) {
		o.Subject, err = manifest.ParseSubject(name, data)
		return err
	})
	read("host", func(name string, data []byte) (err error) {
		o.Environment, err = manifest.ParseHost(name, data)
		return err
	})
	launch := strings.Join(c.StringSlice("launch-command"), "\n")
	read("launch", func(_ string, data []byte) error {
		if launch != "" {
			return errors.New("and --launch-command; want one of them")
		}
		launch = string(data)
		return nil
	})
	if launch != "" {
		rt, err := o.Redactor.Served(launch)
		if err != nil {
			errs = append(errs, fmt.Errorf("--launch-command: %w", err))
		}
		o.Runtime = rt
	}
	return o, errors.Join(errs...)
}

// fileForm is what the schema takes for the name of an artifact.
var fileForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+@=-]*$`)

// resultArtifact is the file that was imported, where it has a name that fits.
func resultArtifact(name string, data []byte) []manifest.Artifact {
	base := filepath.Base(name)
	if name == standardInput || !fileForm.MatchString(base) || filepath.Ext(base) != ".json" {
		return nil
	}
	sum := sha256.Sum256(data)
	return []manifest.Artifact{{
		Kind: "vllm_bench_serve_json", SHA256: hex.EncodeToString(sum[:]), Filename: base, MediaType: "application/json", SizeBytes: int64(len(data)),
		Visibility: "private", ClientArtifactID: "result", RawRequestsIncluded: bytes.Contains(data, []byte(`"itls"`)),
	}}
}
