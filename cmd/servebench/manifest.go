package main

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/servebench/servebench/bench"
	"github.com/servebench/servebench/bench/server"
	"github.com/servebench/servebench/manifest"
)

const (
	// standardInput is how standard input is named, and shown.
	standardInput = "-"
	// shownProblems is how much is said of one file. Who has more wrong has one
	// thing wrong.
	shownProblems = 200
)

var (
	publishableFlag = &cli.BoolFlag{Name: "publishable", Usage: "the publishable profile: every presence rule of the published references"}
	publishFlag     = &cli.BoolFlag{Name: "publish", Usage: "also what must be declared before publication"}
	referencesFlag  = &cli.BoolFlag{Name: "strict-references", Usage: "reject each value that no published reference has"}
	nameFlag        = &cli.StringSliceFlag{Name: "name", Usage: "another name of a person or machine to take out, of four letters or more; may be repeated"}
)

// publicationHint is where what is missing for publication comes from.
const publicationHint = "subject comes from a subject file (servebench config init subject), environment from a host file (servebench env), " +
	"notes, license and those of artifacts from the section publish of a run file, publisher_notes from that of an experiment, all of it from --set where a result is imported: docs/manifest.md, Publication"

// secretVariables hold what no manifest may show.
var secretVariables = []string{"OPENAI_API_KEY", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "VLLM_API_KEY", "SERVEBENCH_SIM_API_KEY"}

// manifestCommand is `servebench manifest`.
func manifestCommand(t *terminal) *cli.Command {
	return &cli.Command{
		Name:            "manifest",
		Usage:           "validate, verify, show, redact and import manifests; print their schema",
		Description:     "Files are named after the flags; - or none is standard input. Exit 0: all is well, 2: a file cannot be read, 4: a manifest is invalid or contradicts itself.",
		HideHelpCommand: true,
		OnUsageError:    wrongFlag,
		Subcommands: []*cli.Command{
			manifestSubcommand("validate", "hold files against the schema", "FILE...", func(c *cli.Context) error { return validateFiles(c, t) }, publishableFlag, referencesFlag),
			manifestSubcommand("verify", "check that numbers, facts and artifacts agree", "FILE...", func(c *cli.Context) error { return verifyFiles(c, t) }, publishFlag, leakFlag, nameFlag),
			manifestSubcommand("show", "show a manifest on one screen", "FILE...", func(c *cli.Context) error { return showFiles(c, t) }),
			manifestSubcommand("redact", "print a manifest without what must not be public; say on stderr what that was", "FILE", func(c *cli.Context) error { return redactFile(c, t) }, nameFlag, leakFlag),
			manifestSubcommand("import", "make a manifest of a result JSON of vllm bench serve, checked, with what is declared", "RESULT.json", func(c *cli.Context) error { return importFile(c, t) }, importFlags...),
			manifestSubcommand("schema", "print the JSON Schema", "", func(c *cli.Context) error { return printSchema(c, t) }, publishableFlag),
		},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return usagef("manifest %s is no command; want %s", quoteWord(c.Args().First()), strings.Join(subcommandNames(c.Command), ", "))
			}
			return cli.ShowSubcommandHelp(c)
		},
	}
}

func manifestSubcommand(name, usage, args string, action cli.ActionFunc, flags ...cli.Flag) *cli.Command {
	return &cli.Command{
		Name: name, Usage: usage, ArgsUsage: args, Flags: flags, HideHelpCommand: true, OnUsageError: wrongFlag,
		Action: action,
	}
}

func wrongFlag(_ *cli.Context, err error, _ bool) error {
	return &exitError{code: exitUsage, err: err}
}

func subcommandNames(c *cli.Command) (names []string) {
	for _, s := range c.Subcommands {
		names = append(names, s.Name)
	}
	return names
}

// eachFile calls f for each file that was named, or for standard input. What
// cannot be read is told, and the rest done. f says whether all is well, and
// writes to w, which is the terminal but for a write that failed.
func eachFile(c *cli.Context, t *terminal, f func(w io.Writer, name string, data []byte) (bool, error)) error {
	names := c.Args().Slice()
	if len(names) == 0 {
		names = []string{standardInput}
	}
	var unread, bad int
	for _, name := range names {
		data, err := t.read(name)
		if err != nil {
			unread++
			t.notef("%v", err)
			continue
		}
		var out bytes.Buffer
		good, err := f(&out, name, data)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if !good {
			bad++
		}
		if _, err := t.out.Write(out.Bytes()); err != nil {
			return &exitError{code: exitUnsaved, err: fmt.Errorf("standard output: %w", err)}
		}
	}
	switch {
	case unread > 0:
		return usagef("%d of %d files could not be read", unread, len(names))
	case bad > 0:
		hint := ""
		if c.Bool(publishableFlag.Name) || c.Bool(publishFlag.Name) {
			hint = publicationHint
		}
		return &exitError{code: exitInvalid, err: fmt.Errorf("manifest %s: not passed by %d of %d", c.Command.Name, bad, len(names)), hint: hint}
	}
	return nil
}

// read reads a manifest, no further than one may be long.
func (t *terminal) read(name string) ([]byte, error) {
	in := io.Reader(os.Stdin)
	if name != standardInput {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		if st, err := file.Stat(); err == nil && st.IsDir() {
			return nil, fmt.Errorf("%s is a folder; want a manifest", name)
		}
		in = file
	}
	data, err := io.ReadAll(io.LimitReader(in, manifest.MaxBytes+1))
	if err != nil && !strings.Contains(err.Error(), name) {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return data, err
}

// where is a place in a file as editors know it.
func where(name string, line int) string {
	if line == 0 {
		return name
	}
	return fmt.Sprintf("%s:%d", name, line)
}

// sayf writes one line; whatever the document put into it stays on it.
func sayf(w io.Writer, format string, args ...any) {
	fmt.Fprintln(w, clip(printable(fmt.Sprintf(format, args...)), 2000))
}

// sayProblems writes a line for each problem.
func sayProblems(w io.Writer, name string, problems []manifest.Problem) {
	for i, p := range problems {
		if i == shownProblems {
			sayf(w, "%s: and %d more", name, len(problems)-i)
			return
		}
		text := p.Message
		if p.Path != "" {
			text = p.Path + ": " + text
		}
		sayf(w, "%s: %s", where(name, p.Line), text)
	}
}

// enveloped is a remark on an envelope that was there.
func enveloped(yes bool) string {
	if yes {
		return ", inside the publishing site's envelope"
	}
	return ""
}

func validateFiles(c *cli.Context, t *terminal) error {
	profile := manifest.Profile{Publishable: c.Bool(publishableFlag.Name), References: c.Bool(referencesFlag.Name)}
	return eachFile(c, t, func(w io.Writer, name string, data []byte) (bool, error) {
		report, err := profile.Check(data)
		if err != nil {
			return false, err
		}
		sayProblems(w, name, report.Problems)
		if n := len(report.Problems); n > 0 {
			sayf(w, "%s: invalid: %s, %s%s", name, count(n, "problem"), profile, enveloped(report.Enveloped))
			return false, nil
		}
		sayf(w, "%s: valid: kind %s, %s%s", name, report.Kind, profile, enveloped(report.Enveloped))
		return true, nil
	})
}

func verifyFiles(c *cli.Context, t *terminal) error {
	profile := manifest.Profile{Publishable: c.Bool(publishFlag.Name)}
	var red *manifest.Redactor
	if c.Bool(leakFlag.Name) {
		red = localRedactor(c.StringSlice(nameFlag.Name))
	}
	return eachFile(c, t, func(w io.Writer, name string, data []byte) (bool, error) {
		files, closeFiles, err := beside(name)
		if err != nil {
			return false, err
		}
		defer closeFiles()
		findings := profile.Verify(data, files)
		paths := make([]string, len(findings))
		number := make(map[manifest.Severity]int)
		for i, f := range findings {
			paths[i] = f.Path
			number[f.Severity]++
		}
		lines := manifest.Lines(data, paths)
		for i, f := range findings {
			if i == shownProblems {
				sayf(w, "%s: and %d more", name, len(findings)-i)
				break
			}
			sayf(w, "%s: %s", where(name, lines[i]), f)
		}
		unseen := ""
		if files == nil {
			unseen = "; artifacts unchecked, standard input has no folder"
		}
		verdict := "verified"
		if number[manifest.Fail] > 0 {
			verdict = "not verified"
		}
		sayf(w, "%s: %s: %s, %s%s", name, verdict, count(number[manifest.Fail], "failure"), count(number[manifest.Warn], "warning"), unseen)
		leaking := false
		if red != nil {
			inside := t.leaksIn(name, data, red)
			n, err := t.leaksBeside(files, data, red)
			if err != nil {
				return false, err
			}
			leaking = inside || n > 0
		}
		return number[manifest.Fail] == 0 && !leaking, nil
	})
}

// beside is the folder of a manifest, where its artifacts are, without a way
// out of it; nil for standard input.
func beside(name string) (fs.FS, func() error, error) {
	if name == standardInput {
		return nil, func() error { return nil }, nil
	}
	root, err := os.OpenRoot(filepath.Dir(name))
	if err != nil {
		return nil, nil, err
	}
	return root.FS(), root.Close, nil
}

// count is a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func printSchema(c *cli.Context, t *terminal) error {
	if c.Args().Present() {
		return usagef("manifest schema: unexpected word %s", quoteWord(c.Args().First()))
	}
	if _, err := t.out.Write(manifest.Profile{Publishable: c.Bool(publishableFlag.Name)}.Schema()); err != nil {
		return &exitError{code: exitUnsaved, err: fmt.Errorf("standard output: %w", err)}
	}
	return nil
}

// redactFile prints one manifest, so that it can be written to a file, and
// lists what it took out.
func redactFile(c *cli.Context, t *terminal) error {
	if c.Args().Len() > 1 {
		return usagef("manifest redact: %d files; want one, or none for standard input", c.Args().Len())
	}
	r := localRedactor(c.StringSlice(nameFlag.Name))
	return eachFile(c, t, func(w io.Writer, name string, data []byte) (bool, error) {
		before, err := manifest.Profile{}.Check(data)
		if err != nil {
			return false, err
		}
		out, found, err := r.Document(data)
		if err != nil { // no JSON: nothing can be said of what is in it
			var said bytes.Buffer
			sayProblems(&said, name, before.Problems)
			_, err := t.err.Write(said.Bytes())
			return false, err
		}
		w.Write(out)
		for i, f := range found {
			if i == shownProblems {
				t.notef("%s: and %d more", name, len(found)-i)
				break
			}
			t.notef("%s: redacted %s: %s", where(name, f.Line), clip(f.Path, 1000), strings.Join(f.Kinds, ", "))
		}
		t.notef("%s: %s redacted", name, count(len(found), "place"))
		after, err := manifest.Profile{}.Check(out)
		if err != nil {
			return false, err
		}
		if len(after.Problems) > 0 && len(before.Problems) == 0 {
			t.notef("%s: no longer valid: a name was part of what the schema wants in a form of its own", name)
		} else if len(after.Problems) > 0 {
			t.notef("%s: not valid, before and after", name)
		}
		for i, p := range after.Problems {
			if i < shownProblems {
				t.notef("%s", clip(fmt.Sprintf("%s: %s: %s", name, p.Path, p.Message), 2000))
			}
		}
		leaking := c.Bool(leakFlag.Name) && t.leaksIn(name, out, r)
		return len(after.Problems) == 0 && !leaking, nil
	})
}

func secretsOfEnvironment() (secrets []string) {
	for _, name := range secretVariables {
		if secret := os.Getenv(name); secret != "" {
			secrets = append(secrets, secret)
		}
	}
	return secrets
}

// privateNames are further names that must not be published, such as those of the
// servers' machines, which nothing here can find out.
func privateNames() []string {
	return strings.FieldsFunc(os.Getenv("SERVEBENCH_PRIVATE_NAMES"), func(r rune) bool { return r == ',' || r == ' ' })
}

// publicRedactor knows what must not be published of a run, of the server that is
// started for it, if there is one, and of this machine.
func publicRedactor(c *bench.Config, s *server.Config) *manifest.Redactor {
	r := c.Redactor()
	r.Secrets = append(r.Secrets, secretsOfEnvironment()...)
	if s != nil {
		for _, l := range s.Launched() {
			r.Secrets = append(r.Secrets, l.Secrets()...)
		}
	}
	return r
}

// localRedactor knows the secrets and names of this machine and its user, and
// the names it is told.
func localRedactor(names []string) *manifest.Redactor {
	r := (&bench.Config{PrivateNames: append(privateNames(), names...)}).Redactor()
	r.Secrets = append(r.Secrets, secretsOfEnvironment()...)
	return r
}
