package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// commandNames are the words that may follow servebench.
var commandNames = []string{"serve", "sweep", "gate", "sim", "selftest", "manifest", "compare", "baseline", "config", "hdr", "env", "completion", "help", "version"}

// helpNames are those that help knows more about.
var helpNames = []string{"serve", "sweep", "gate", "sim", "selftest", "manifest", "compare", "baseline", "config", "hdr", "env", "completion"}

// shells are those that completion writes a script for.
var shells = []string{"bash", "zsh", "fish"}

// completionCommand is `servebench completion`.
func completionCommand(t *terminal) *cli.Command {
	return &cli.Command{
		Name:            "completion",
		Usage:           "print the completion script of a shell: bash, zsh or fish",
		Description:     "bash: source <(servebench completion bash). zsh: the same with zsh. fish: servebench completion fish | source.",
		HideHelpCommand: true,
		Action: func(c *cli.Context) error {
			shell := c.Args().First()
			if c.Args().Len() != 1 || !slices.Contains(shells, shell) {
				return usagef("completion: %s; want one of %s", quoteWord(strings.Join(c.Args().Slice(), " ")), strings.Join(shells, ", "))
			}
			return writeCompletion(t.out, shell, serveFlags(), simShownFlags(), furtherWords(t))
		},
	}
}

// sweepFlags are those of `servebench sweep` that serve does not have.
var sweepFlags = []flagSpec{
	{Name: "file", Kind: kindFile, Help: "the experiment file"},
	{Name: "resume", Arity: arityNone, Help: "go on where an earlier process has ended"},
	{Name: "only", Help: "ids of the points to run, with commas between"},
}

// flagsOfGate are those of `servebench gate`: its own, and those of serve, of which
// --strict is its own too.
func flagsOfGate(serve []flagSpec) []flagSpec {
	return slices.Concat(gateOwnFlags, slices.DeleteFunc(slices.Clone(serve), func(s flagSpec) bool { return s.Name == "strict" }))
}

// gateOwnFlags are those of `servebench gate` that it reads itself.
var gateOwnFlags = []flagSpec{
	{Name: "baseline-url", Help: "server A"},
	{Name: "candidate-url", Help: "server B"},
	{Name: "baseline-command", Help: "start server A for each of its runs"},
	{Name: "candidate-command", Help: "start server B for each of its runs"},
	{Name: "pairs", Help: "pairs of runs, 5 to 20"},
	{Name: "extend", Arity: arityNone, Help: "declare one extension by as many pairs"},
	{Name: "result", Kind: kindFile, Help: "the candidate's result"},
	{Name: "baseline", Kind: kindFile, Help: "one earlier result"},
	{Name: "history", Kind: kindDir, Help: "folder with at least 10 earlier results"},
	{Name: "require", Help: "a bound, such as p99_ttft < 500ms"},
	{Name: "primary", Help: "the metric that decides"},
	{Name: "effect", Help: "the loss to find"},
	{Name: "certain", Arity: arityNone, Help: "fail only where the whole interval is beyond the effect"},
	{Name: "cv", Help: "known coefficient of variation between runs"},
	{Name: "max-failures", Help: "share of requests that may fail"},
	{Name: "allow-difference", Help: "a fact that may differ"},
	{Name: "strict", Arity: arityNone, Help: "refuse runs that are SUSPECT"},
	{Name: "verdict", Kind: kindFile, Help: "write the verdict here as JSON"},
	{Name: "markdown", Kind: kindFile, Help: "write the verdict here as Markdown"},
	{Name: "junit", Kind: kindFile, Help: "write the verdict here as JUnit XML"},
	{Name: "html", Kind: kindFile, Help: "write the verdict here as a page"},
}

// selftestFlags are those of `servebench selftest`.
func selftestFlags() []flagSpec { return commandFlags(selftestCommand(nil)) }

// commandFlags are a command's flags, as far as completion needs them.
func commandFlags(c *cli.Command) (out []flagSpec) {
	for _, f := range c.Flags {
		s := flagSpec{Name: f.Names()[0], Arity: arityOne}
		if d, ok := f.(cli.DocGenerationFlag); ok {
			s.Help = d.GetUsage()
			if !d.TakesValue() {
				s.Arity = arityNone
			}
		}
		if text, ok := f.(*cli.StringFlag); ok && text.TakesFile {
			s.Kind = kindFile
		}
		out = append(out, s)
	}
	return out
}

// subcommand is a word behind a command, with its flags.
type subcommand struct {
	name, help string
	flags      []flagSpec
	files      bool     // takes files
	words      []string // or one of these
}

// commandWords are the words behind a command that has commands of its own.
type commandWords struct {
	name string
	subs []subcommand
}

// furtherWords are those behind `servebench manifest`, `config` and `baseline`.
func furtherWords(t *terminal) (out []commandWords) {
	for _, parent := range []*cli.Command{manifestCommand(t), configCommand(t), baselineCommand(t)} {
		w := commandWords{name: parent.Name}
		for _, c := range parent.Subcommands {
			s := subcommand{name: c.Name, help: c.Usage, flags: commandFlags(c)}
			if list, ok := strings.CutPrefix(c.ArgsUsage, "["); ok { // [run|experiment]
				s.words = strings.Split(strings.TrimSuffix(list, "]"), "|")
			} else {
				s.files = c.ArgsUsage != ""
			}
			w.subs = append(w.subs, s)
		}
		out = append(out, w)
	}
	return out
}

func namesOf(subs []subcommand) (names []string) {
	for _, s := range subs {
		names = append(names, s.name)
	}
	return names
}

// writeCompletion writes a script that completes commands, flags, choices and files.
func writeCompletion(w io.Writer, shell string, serve, sim []flagSpec, further []commandWords) error {
	var b strings.Builder
	switch shell {
	case "bash":
		bashCompletion(&b, serve, sim, further)
	case "zsh":
		zshCompletion(&b, serve, sim, further)
	default:
		fishCompletion(&b, serve, sim, further)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// spellings are all names of a flag, with their dashes.
func (s flagSpec) spellings() []string {
	if s.Arity == arityToggle {
		return []string{"--" + s.Name, "--no-" + s.Name}
	}
	return []string{"--" + s.Name}
}

func spellings(flags []flagSpec) (out []string) {
	for _, s := range flags {
		out = append(out, s.spellings()...)
	}
	return append(out, "--"+helpName)
}

// bashCompletion keeps to what bash 3.2 (macOS) knows. Bash cuts --x=y into three words.
func bashCompletion(b *strings.Builder, serve, sim []flagSpec, further []commandWords) {
	b.WriteString(`# servebench completion for bash: source <(servebench completion bash)
_servebench() {
  local cur prev words files
  COMPREPLY=()
  cur=${COMP_WORDS[COMP_CWORD]}
  prev=${COMP_WORDS[COMP_CWORD-1]}
  if [[ $cur == = ]]; then
    cur=
  elif [[ $prev == = ]]; then
    prev=${COMP_WORDS[COMP_CWORD-2]}
  fi
  if [[ $prev == --* ]]; then prev=${prev//_/-}; fi
  if [[ $cur == --* ]]; then cur=${cur//_/-}; fi
`)
	fmt.Fprintf(b, "  if ((COMP_CWORD == 1)); then\n    words='%s --help --version'\n  else\n    case ${COMP_WORDS[1]}:$prev in\n", strings.Join(commandNames, " "))
	var files, dirs, none []string
	for _, c := range []struct {
		name  string
		flags []flagSpec
	}{{"serve:", serve}, {"gate:", gateOwnFlags}, {"sim:", sim}, {"selftest:", selftestFlags()}} {
		for _, s := range c.flags {
			for _, name := range s.spellings() {
				switch {
				case s.Arity == arityNone || s.Arity == arityToggle || s.Arity == arityMany || s.Arity == arityInline:
				case len(s.offered()) > 0:
					fmt.Fprintf(b, "    %s%s) words='%s' ;;\n", c.name, name, strings.Join(s.offered(), " "))
				case s.Kind == kindFile:
					files = append(files, c.name+name)
				case s.Kind == kindDir:
					dirs = append(dirs, c.name+name)
				default:
					none = append(none, c.name+name)
				}
			}
		}
	}
	files, none = append(files, "sweep:-f", "sweep:--file"), append(none, "sweep:--only")
	fmt.Fprintf(b, "    %s) files=-f ;;\n    %s) files=-d ;;\n    %s) return ;;\n", strings.Join(files, "|"), strings.Join(dirs, "|"), strings.Join(none, "|"))
	fmt.Fprintf(b, "    serve:*|help:serve) words='%s' ;;\n    sweep:*|help:sweep) words='-f %s' ;;\n    gate:*|help:gate) words='%s' ;;\n    sim:*) words='%s' ;;\n    selftest:*) words='%s' ;;\n",
		strings.Join(spellings(serve), " "), strings.Join(spellings(slices.Concat(sweepFlags, serve)), " "), strings.Join(spellings(flagsOfGate(serve)), " "), strings.Join(spellings(sim), " "), strings.Join(spellings(selftestFlags()), " "))
	for _, w := range further {
		bashSubcommands(b, w.name, w.subs)
	}
	b.WriteString("    compare:--format) words='text markdown csv json' ;;\n    compare:*)\n      case $cur in\n      -*) words='--format --all --no-color --help' ;;\n      *) files=-f ;;\n      esac ;;\n")
	b.WriteString("    hdr:*)\n      case $cur in\n      -*) words='--json --out --help' ;;\n      *) files=-f ;;\n      esac ;;\n")
	fmt.Fprintf(b, "    completion:completion) words='%s' ;;\n    help:help) words='%s' ;;\n    esac\n  fi\n", strings.Join(shells, " "), strings.Join(helpNames, " "))
	b.WriteString(`  if [[ -n $files ]]; then
    local IFS=$'\n'
    compopt -o filenames 2>/dev/null
    COMPREPLY=($(compgen $files -- "$cur"))
    return
  fi
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -F _servebench servebench
`)
}

// bashSubcommands completes the words behind a command: files or words, or flags behind
// a dash.
func bashSubcommands(b *strings.Builder, of string, subs []subcommand) {
	fmt.Fprintf(b, "    %[1]s:%[1]s) words='%[2]s --help' ;;\n    %[1]s:*)\n      case ${COMP_WORDS[2]}:$prev:$cur in\n", of, strings.Join(namesOf(subs), " "))
	for _, s := range subs {
		for _, f := range s.flags {
			switch {
			case f.Kind == kindFile:
				fmt.Fprintf(b, "      %s:--%s:*) files=-f ;;\n", s.name, f.Name)
			case f.Arity == arityOne:
				fmt.Fprintf(b, "      %s:--%s:*) return ;;\n", s.name, f.Name)
			}
		}
		switch {
		case len(s.words) > 0:
			fmt.Fprintf(b, "      %s:*) words='%s' ;;\n", s.name, strings.Join(append(s.words, spellings(s.flags)...), " "))
		case s.files:
			fmt.Fprintf(b, "      %s:*:-*) words='%s' ;;\n      %s:*) files=-f ;;\n", s.name, strings.Join(spellings(s.flags), " "), s.name)
		default:
			fmt.Fprintf(b, "      %s:*) words='%s' ;;\n", s.name, strings.Join(spellings(s.flags), " "))
		}
	}
	b.WriteString("      esac ;;\n")
}

// zshCompletion describes the flags to _arguments.
func zshCompletion(b *strings.Builder, serve, sim []flagSpec, further []commandWords) {
	b.WriteString(`#compdef servebench
# servebench completion for zsh: source <(servebench completion zsh), or a file
# _servebench in a folder of $fpath
_servebench() {
  local context state line
  typeset -A opt_args
`)
	fmt.Fprintf(b, "  _arguments -C '1:command:(%s)' '*::argument:->rest'\n  [[ $state == rest ]] || return\n  case $line[1] in\n", strings.Join(commandNames, " "))
	for _, c := range []struct {
		name  string
		flags []flagSpec
	}{{"serve", serve}, {"sweep", slices.Concat(sweepFlags, serve)}, {"gate", flagsOfGate(serve)}, {"sim", sim}, {"selftest", selftestFlags()}} {
		fmt.Fprintf(b, "  %s)\n    _arguments \\\n", c.name)
		for _, s := range c.flags {
			for _, name := range s.spellings() {
				fmt.Fprintf(b, "      %s \\\n", zshQuote(zshSpec(s, name)))
			}
		}
		fmt.Fprintf(b, "      '--help[list the flags]'\n    ;;\n")
	}
	for _, w := range further {
		zshSubcommands(b, w.name, w.subs)
	}
	b.WriteString("  compare) _arguments '--format=[form of the table]:form:(text markdown csv json)' '--all[every figure]' '--no-color[no colour]' '*:file:_files' '--help[list the flags]' ;;\n")
	b.WriteString("  hdr) _arguments '--json[print JSON]' '--out[write the merged log here]:file:_files' '*:file:_files' '--help[list the flags]' ;;\n")
	fmt.Fprintf(b, "  completion) _arguments '1:shell:(%s)' ;;\n  help) _arguments '1:command:(%s)' ;;\n  esac\n}\n", strings.Join(shells, " "), strings.Join(helpNames, " "))
	b.WriteString("if [[ $funcstack[1] == _servebench ]]; then\n  _servebench \"$@\"\nelse\n  compdef _servebench servebench\nfi\n")
}

func zshSubcommands(b *strings.Builder, of string, subs []subcommand) {
	fmt.Fprintf(b, "  %[1]s)\n    _arguments -C '1:command:(%[2]s)' '*::argument:->%[1]s'\n    [[ $state == %[1]s ]] || return\n    case $line[1] in\n", of, strings.Join(namesOf(subs), " "))
	for _, s := range subs {
		fmt.Fprintf(b, "    %s) _arguments \\\n", s.name)
		for _, f := range s.flags {
			fmt.Fprintf(b, "      %s \\\n", zshQuote(zshSpec(f, "--"+f.Name)))
		}
		if s.files {
			b.WriteString("      '*:file:_files' \\\n")
		}
		if len(s.words) > 0 {
			fmt.Fprintf(b, "      '1:kind:(%s)' \\\n", strings.Join(s.words, " "))
		}
		b.WriteString("      '--help[list the flags]' ;;\n")
	}
	b.WriteString("    esac ;;\n")
}

// zshSpec is one flag for _arguments: --x=[what it does]:value:(choices).
func zshSpec(s flagSpec, name string) string {
	text := strings.NewReplacer("[", "(", "]", ")", ":", `\:`).Replace(s.Help)
	switch {
	case s.Arity == arityNone || s.Arity == arityToggle || s.Arity == arityInline:
		return fmt.Sprintf("*%s[%s]", name, text)
	case s.Arity == arityMany || s.Arity == aritySome:
		return fmt.Sprintf("*%s[%s]:*-*:value:", name, text)
	case len(s.offered()) > 0:
		return fmt.Sprintf("*%s=[%s]:value:(%s)", name, text, strings.Join(s.offered(), " "))
	case s.Kind == kindFile:
		return fmt.Sprintf("*%s=[%s]:file:_files", name, text)
	case s.Kind == kindDir:
		return fmt.Sprintf("*%s=[%s]:folder:_files -/", name, text)
	}
	return fmt.Sprintf("*%s=[%s]:value: ", name, text)
}

func zshQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func fishCompletion(b *strings.Builder, serve, sim []flagSpec, further []commandWords) {
	b.WriteString("# servebench completion for fish: servebench completion fish | source\n")
	b.WriteString("complete -c servebench -f\n")
	fmt.Fprintf(b, "complete -c servebench -n __fish_use_subcommand -a '%s'\n", strings.Join(commandNames, " "))
	for _, c := range []struct {
		name  string
		flags []flagSpec
	}{{"serve", serve}, {"sweep", slices.Concat(sweepFlags, serve)}, {"gate", flagsOfGate(serve)}, {"sim", sim}, {"selftest", selftestFlags()}} {
		for _, s := range c.flags {
			for _, name := range s.spellings() {
				fmt.Fprintf(b, "complete -c servebench -n '__fish_seen_subcommand_from %s' -l %s%s -d %s\n",
					c.name, strings.TrimPrefix(name, "--"), fishValue(s), fishQuote(s.Help))
			}
		}
		fmt.Fprintf(b, "complete -c servebench -n '__fish_seen_subcommand_from %s' -l help -d 'list the flags'\n", c.name)
	}
	b.WriteString("complete -c servebench -n '__fish_seen_subcommand_from compare' -F\ncomplete -c servebench -n '__fish_seen_subcommand_from compare' -l format -x -a 'text markdown csv json' -d 'form of the table'\n" +
		"complete -c servebench -n '__fish_seen_subcommand_from compare' -l all -d 'every figure'\ncomplete -c servebench -n '__fish_seen_subcommand_from compare' -l no-color -d 'no colour'\n")
	b.WriteString("complete -c servebench -n '__fish_seen_subcommand_from hdr' -F\ncomplete -c servebench -n '__fish_seen_subcommand_from hdr' -l json -d 'print JSON'\n" +
		"complete -c servebench -n '__fish_seen_subcommand_from hdr' -l out -r -F -d 'write the merged log here'\n")
	fmt.Fprintf(b, "complete -c servebench -n '__fish_seen_subcommand_from completion' -a '%s'\n", strings.Join(shells, " "))
	fmt.Fprintf(b, "complete -c servebench -n '__fish_seen_subcommand_from help' -a '%s'\n", strings.Join(helpNames, " "))
	for _, w := range further {
		fishSubcommands(b, w.name, w.subs)
	}
}

func fishSubcommands(b *strings.Builder, of string, subs []subcommand) {
	names := strings.Join(namesOf(subs), " ")
	for _, s := range subs {
		fmt.Fprintf(b, "complete -c servebench -n '__fish_seen_subcommand_from %s; and not __fish_seen_subcommand_from %s' -a %s -d %s\n", of, names, s.name, fishQuote(s.help))
		in := "'__fish_seen_subcommand_from " + of + "; and __fish_seen_subcommand_from " + s.name + "'"
		for _, f := range s.flags {
			fmt.Fprintf(b, "complete -c servebench -n %s -l %s%s -d %s\n", in, f.Name, fishValue(f), fishQuote(f.Help))
		}
		if s.files {
			fmt.Fprintf(b, "complete -c servebench -n %s -F\n", in)
		}
		if len(s.words) > 0 {
			fmt.Fprintf(b, "complete -c servebench -n %s -a %s\n", in, fishQuote(strings.Join(s.words, " ")))
		}
	}
}

// fishValue says what a flag's value is: -x takes no file names, -r -F does.
func fishValue(s flagSpec) string {
	switch {
	case s.Arity == arityNone || s.Arity == arityToggle || s.Arity == arityInline:
		return ""
	case len(s.offered()) > 0:
		return " -x -a " + fishQuote(strings.Join(s.offered(), " "))
	case s.Kind == kindFile:
		return " -r -F"
	case s.Kind == kindDir:
		return " -x -a '(__fish_complete_directories)'"
	}
	return " -x"
}

func fishQuote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(s) + "'"
}
