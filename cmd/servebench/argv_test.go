package main

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// words splits a row of a table at spaces; rows with spaces in a word use a slice.
func words(line string) []string { return strings.Fields(line) }

func TestCommandLinesAreReadAsArgparseReadsThem(t *testing.T) {
	for _, row := range []struct {
		reading string
		args    []string
		want    []string // in the order of the flag table
	}{
		{"nothing is nothing", nil, nil},
		{"value as its own word", words("--num-prompts 5"), words("--num-prompts=5")},
		{"value behind =", words("--num-prompts=5"), words("--num-prompts=5")},
		{"only the first = separates", words("--label a=b=c --tokenizer=x=y"), words("--tokenizer=x=y --label=a=b=c")},
		{"_ stands for - in names and is kept in values", words("--num_prompts 5 --dataset_path=my_file"), words("--dataset-path=my_file --num-prompts=5")},
		{"mixed _ and -", words("--ready_check-timeout_sec 1"), words("--ready-check-timeout-sec=1")},
		{"empty value", []string{"--label", "", "--result-dir="}, words("--result-dir= --label=")},
		{"the order of the flags does not show", words("--label x --seed 1"), words("--seed=1 --label=x")},

		{"negative number as a value", words("--seed -1 --custom-output-len -1"), words("--seed=-1 --custom-output-len=-1")},
		{"negative fraction", words("--presence-penalty -.5 --frequency-penalty -1.5"), words("--frequency-penalty=-1.5 --presence-penalty=-.5")},
		{"negative number with an exponent", words("--temperature -1e-3"), words("--temperature=-1e-3")},
		{"text that begins with - needs =", words("--label=-x"), words("--label=-x")},
		{"- alone is a value", words("--records -"), words("--records=-")},
		{"a word with a space is a value", []string{"--label", "-x y"}, []string{"--label=-x y"}},
		{"JSON is left as it is", []string{"--extra-body", `{"a_b": -1, "c": [1,2]}`}, []string{`--extra-body={"a_b": -1, "c": [1,2]}`}},

		{"switch", words("--ignore-eos --num-prompts 5"), words("--num-prompts=5 --ignore-eos=true")},
		{"switch with =true and =false", words("--ignore-eos=false --disable-tqdm=true"), words("--ignore-eos=false --disable-tqdm=true")},
		{"--stream=false", words("--stream=false"), words("--stream=false")},

		{"list up to the next flag", words("--metadata a=1 b=2 --seed 3"), words("--seed=3 --metadata=a=1 --metadata=b=2")},
		{"list with negative numbers", words("--metadata -1 x=1"), words("--metadata=-1 --metadata=x=1")},
		{"list behind = has one value", words("--goodput=ttft:100"), words("--goodput=ttft:100")},
		{"commas do not split", words("--header X=a,b"), words("--header=X=a,b")},
		{"empty list where * allows it", words("--header --seed 1"), words("--seed=1")},

		{"last one wins", words("--seed 1 --seed 2"), words("--seed=2")},
		{"last list wins whole", words("--header A=1 B=2 --header C=3"), words("--header=C=3")},
		{"an empty last list wins too", words("--header A=1 --header"), nil},
		{"one that repeats adds up", words("--replica-url http://a:1 --seed 1 --replica-url=http://b:2"), words("--seed=1 --replica-url=http://a:1 --replica-url=http://b:2")},
		{"and is a list too", words("--replica-url http://a:1 http://b:2 --replica-url http://c:3"), words("--replica-url=http://a:1 --replica-url=http://b:2 --replica-url=http://c:3")},
		{"switch and its =false", words("--insecure --insecure=false"), words("--insecure=false")},

		{"shortened name", words("--num-p 5"), words("--num-prompts=5")},
		{"shortened name with _ and =", words("--num_p=5"), words("--num-prompts=5")},
		{"exact name wins over longer ones", words("--tokenizer x --sim"), words("--tokenizer=x --sim=true")},
		{"vLLM's name wins over ours: max-concurrency, not max-event-bytes", words("--max 5"), words("--max-concurrency=5")},
		{"our name is found where vLLM has none", words("--rec x"), words("--records=x")},

		{"-- may end the line", words("--seed 1 --"), words("--seed=1")},

		{"Python integers: leading zeros are decimal, _ groups", words("--num-prompts 010 --seed 1_000"), words("--num-prompts=10 --seed=1000")},
		{"Python integers: sign and spaces", []string{"--seed", " +7 "}, words("--seed=7")},
		{"Python floats", words("--request-rate inf --top-p .5 --min-p 1. --temperature 1_0e-1"), words("--request-rate=inf --temperature=10e-1 --top-p=.5 --min-p=1.")},
	} {
		got, err := normalize(row.args, serveFlags())
		if err != nil {
			t.Errorf("%s: normalize(%q): %v", row.reading, row.args, err)
			continue
		}
		if diff := cmp.Diff(row.want, got.Words); diff != "" {
			t.Errorf("%s: normalize(%q) (-want +got):\n%s", row.reading, row.args, diff)
		}
	}
}

func TestMistakesAreNamedWithWhatWouldBeRight(t *testing.T) {
	for _, row := range []struct {
		reading string
		args    []string
		want    string
	}{
		{"switch with a word", words("--ignore-eos false --num-prompts 5"),
			`--ignore-eos takes no word, got "false"; write --ignore-eos, or leave it out`},
		{"own switch that is on by default", words("--stream false"),
			`--stream takes no word, got "false"; write --stream, or --stream=false`},
		{"switch with another value", words("--disable-tqdm=1"),
			`--disable-tqdm is a switch, got ="1"; write --disable-tqdm, or --disable-tqdm=false`},
		{"one dash", words("-num-prompts 5"), `"-num-prompts" has one dash; write --num-prompts`},
		{"one dash with _ and =", words("-num_prompts=5"), `"-num_prompts" has one dash; write --num-prompts`},
		{"one dash help", words("-help"), `"-help" has one dash; write --help`},
		{"short flag", words("-p 8000"), `unknown flag "-p"`},
		{"stray word first", words("llama --seed 1"), `unexpected word "llama" before the first flag`},
		{"stray word after a value", words("--label my run here --seed 1"),
			`unexpected word "run" after --label; --label takes one value, with quotes around it if it holds spaces`},
		{"list continued after =", words("--metadata=a=1 b=2"),
			`unexpected word "b=2" after --metadata; several values are written --metadata VALUE VALUE, without =`},
		{"word after --", words("--seed 1 -- x"), `unexpected word "x" after --`},
		{"dash of a word processor", words("–seed 1"),
			`unexpected word "–seed" before the first flag; its dash is not the one of the keyboard: flags begin with --`},
		{"typing mistake", words("--num-promts 5"), `unknown flag "--num-promts"; did you mean --num-prompts?`},
		{"typing mistake with _", words("--request_rte=5"), `unknown flag "--request_rte"; did you mean --request-rate?`},
		{"nothing near", words("--xylophone"), `unknown flag "--xylophone"`},
		{"--no- of a switch without it", words("--no-insecure"), `unknown flag "--no-insecure"; write --insecure=false`},
		{"ambiguous name", words("--num 5"), `"--num" is short for more than one flag; one of --num-prompts, --num-warmups, --num-runs`},
		{"ambiguous with help", words("--he A=1"), `"--he" is short for more than one flag; one of --help, --header`},
		{"value missing at the end", words("--model"), `--model needs a value`},
		{"value missing before a flag", words("--model --seed 1"), `--model needs a value`},
		{"value missing before --", words("--model --"), `--model needs a value`},
		{"value that looks like a flag", words("--label -x"), `--label needs a value; write --label=VALUE if the value begins with -`},
		{"list without its one value", words("--goodput --seed 1"), `--goodput needs a value`},
		{"short for several", words("--ramp-up-st linear"), `"--ramp-up-st" is short for more than one flag; one of --ramp-up-strategy, --ramp-up-start-rps`},
		{"flag with a value that means something", words("--asr-max-audio-len-sec 30"), `--asr-max-audio-len-sec "30" is not supported: audio is not sent; leave it out`},
		{"flag without a default", words("--bfcl-categories simple"), `--bfcl-categories "simple" is not supported: requests carry no tool schemas of BFCL; leave it out`},
		{"value of vLLM's that is not here", words("--tokenizer-mode mistral"),
			`--tokenizer-mode mistral is not supported: tokenizers are read from tokenizer.json, not from mistral_common's files; want one of auto, hf`},
		{"data set that is not here", words("--dataset-name custom_audio"),
			`--dataset-name custom_audio is not supported: audio is not sent; want one of sharegpt, burstgpt, random, random-mm, random-rerank, hf, custom, custom_image, prefix_repetition, spec_bench, speed_bench, timed_trace, sonnet`},
		{"value that nobody knows", words("--lora-assignment first"), `--lora-assignment: "first" is unknown; want one of random, round-robin`},
		{"no JSON", words("--chat-template-kwargs {a:1}"), `--chat-template-kwargs: "{a:1}" is not JSON`},
		{"key without its value", words("--extra-body.a"), `"--extra-body.a" needs a value; write --extra-body.KEY=VALUE if the value begins with -`},
		{"key before a flag", words("--extra-body.a --seed 1"), `"--extra-body.a" needs a value; write --extra-body.KEY=VALUE if the value begins with -`},
		{"key with what JSON has not", words("--chat-template-kwargs.a NaN"), `--chat-template-kwargs.KEY: NaN is no JSON number`},
		{"key of text that is broken", words("--chat-template-kwargs.a \xff"), `--chat-template-kwargs.KEY: a key or value is not UTF-8`},
		{"key of a flag without JSON", words("--seed.x 1"), `--seed holds no JSON object, so it has no keys; write --seed`},
		{"key of nothing", words("--sede.x 1"), `unknown flag "--sede.x"; did you mean --seed?`},
		{"all mistakes at once", words("--seed x --modle y --port"),
			"--seed: \"x\" is not a whole number\nunknown flag \"--modle\"; did you mean --model?\n--port needs a value"},

		{"text for a whole number", words("--num-prompts 1e3"), `--num-prompts: "1e3" is not a whole number`},
		{"hexadecimal is not Python's int()", words("--num-prompts 0x10"), `--num-prompts: "0x10" is not a whole number`},
		{"a whole number beyond 64 bits", words("--seed 99999999999999999999"), `--seed: "99999999999999999999" is out of range`},
		{"NaN", words("--temperature nan"), `--temperature: "nan" is not a number`},
		{"a float beyond float64", words("--request-rate 1e999"), `--request-rate: "1e999" is out of range`},
		{"a wrong value counts even if a later one wins", words("--seed x --seed 1"), `--seed: "x" is not a whole number`},
		{"empty number", []string{"--port="}, `--port: "" is not a whole number`},
		{"control characters are escaped", []string{"--seed", "1\x1b[2J\n\u202e\xff"}, `--seed: "1\x1b[2J\n\u202e\xff" is not a whole number`},
		{"control characters in a name", []string{"--\x1b[2J"}, `unknown flag "--\x1b[2J"`},
	} {
		got, err := normalize(row.args, serveFlags())
		if err == nil {
			t.Errorf("%s: normalize(%q) = %q, want an error", row.reading, row.args, got.Words)
			continue
		}
		if diff := cmp.Diff(row.want, err.Error()); diff != "" {
			t.Errorf("%s: normalize(%q) (-want +got):\n%s", row.reading, row.args, diff)
		}
		if _, ok := errors.AsType[usageError](err); !ok {
			t.Errorf("%s: error is a %T without a usageError", row.reading, err)
		}
	}
}

func TestSecretsAreNeverShown(t *testing.T) {
	const secret = "sk-s3cr3t"
	for _, args := range [][]string{
		words("--header=Authorization=Bearer " + secret),
		words("--header=A=1 Bearer -" + secret),
		words("--header Authorization=Bearer -" + secret),
		words("--hedaer=Authorization=" + secret),
		words("--hedaer Authorization=Bearer " + secret),
		words("-header=Authorization=" + secret),
		words("-H Authorization:Bearer " + secret),
		words("-HAuthorization:" + secret),
		words("--extra-body={key: " + secret),
		words("--extra-body {key: " + secret),
		words("--extra-body.key=" + secret + "\xff"),
		words("--extra-body.key " + secret + " more"),
		words("--extra-body.k --extra-body={" + secret),
		words("--header A=1 -- " + secret),
		{"-HAuthorization: Bearer " + secret},
		{"--hedaer=Authorization: Bearer " + secret},
		{"-header=Authorization: Bearer " + secret},
	} {
		_, err := normalize(args, serveFlags())
		if err == nil {
			t.Errorf("normalize(%q) found no mistake", args)
		} else if strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("normalize(%q) shows the secret: %v", args, err)
		}
	}
	got, err := normalize(words("--header A="+secret+" --header B="+secret+" --extra-body {} --extra-body.k ["+secret+" --extra-body.k "+secret), serveFlags())
	if err != nil || strings.Contains(strings.Join(got.Warnings, "\n"), "s3cr3t") {
		t.Errorf("warnings show the secret or err: %q, %v", got.Warnings, err)
	}
}

func TestARepeatedFlagIsWarnedAbout(t *testing.T) {
	got, err := normalize(words("--seed 1 --header A=1 --seed 2 --label x --see 3 --header B=2"), serveFlags())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"--header is given 2 times: only the values after the last one count",
		"--seed is given 3 times: the last one counts",
	}
	if diff := cmp.Diff(want, got.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func TestHelpIsAskedForFromAnywhereBeforeTheEnd(t *testing.T) {
	for _, row := range []struct {
		line  string
		asked bool
		topic string
	}{
		{"-h", true, ""},
		{"--help", true, ""},
		{"--help=all", true, "all"},
		{"--help=Num_Prompts", true, "num-prompts"},
		{"--hel=all", true, "all"},
		{"--help=a\x1b", true, `a\x1b`},
		{"--seed 1 --help", true, ""},
		{"--unknown stray words --model --help=seed", true, "seed"},
		{"--seed 1", false, ""},
		{"-- --help", false, ""},
		{"--label=--help", false, ""},
	} {
		got, err := normalize(words(row.line), serveFlags())
		if row.asked && err != nil {
			t.Errorf("%q: %v", row.line, err)
		}
		if got.Help != row.asked || got.Topic != row.topic {
			t.Errorf("%q: help %v %q, want %v %q", row.line, got.Help, got.Topic, row.asked, row.topic)
		}
	}
}

func TestAToggleHasANoForm(t *testing.T) {
	specs := []flagSpec{{Name: "fast", Arity: arityToggle}, {Name: "seed", Arity: arityOne}}
	for line, want := range map[string]string{
		"--fast":              "--fast=true",
		"--no-fast":           "--fast=false",
		"--no_f":              "--fast=false",
		"--fast=false":        "--fast=false",
		"--no-fast --fast":    "--fast=true",
		"--no-fast --seed -1": "--fast=false --seed=-1",
	} {
		got, err := normalize(words(line), specs)
		if diff := cmp.Diff(words(want), got.Words); diff != "" || err != nil {
			t.Errorf("%q: %v (-want +got):\n%s", line, err, diff)
		}
	}
	for line, want := range map[string]string{
		"--no-fast=true": `--no-fast takes no value, got ="true"; write --no-fast`,
		"--no-fast x":    `--no-fast takes no word, got "x"; write --no-fast, or leave it out`,
		"-no-fast":       `"-no-fast" has one dash; write --no-fast`,
	} {
		if _, err := normalize(words(line), specs); err == nil || err.Error() != want {
			t.Errorf("%q: error %v, want %s", line, err, want)
		}
	}
}

// typed turns canonical words back into a line that a user could write: the repeated
// words of a list become one flag, since of two equal flags only the last counts.
func wordsTyped(canonical []string) []string {
	var out []string
	for i := 0; i < len(canonical); {
		name, _, _ := strings.Cut(canonical[i], "=")
		j := i + 1
		for j < len(canonical) && strings.HasPrefix(canonical[j], name+"=") {
			j++
		}
		if j == i+1 {
			out = append(out, canonical[i])
		} else {
			out = append(out, name)
			for _, w := range canonical[i:j] {
				out = append(out, strings.TrimPrefix(w, name+"="))
			}
		}
		i = j
	}
	return out
}

// flagGroups cuts a line without mistakes into one group for each flag and the words it
// takes; everything from -- on is dropped.
func flagGroups(args []string, names flagNames) [][]string {
	var groups [][]string
	for _, arg := range args {
		switch names.classify(arg).form {
		case formEnd:
			return groups
		case formFlag, formDotted:
			groups = append(groups, []string{arg})
		default:
			groups[len(groups)-1] = append(groups[len(groups)-1], arg)
		}
	}
	return groups
}

func FuzzNormalize(f *testing.F) {
	for _, line := range []string{
		"--num-prompts 5 --seed=-1", "--metadata a=1 b=2 --header A=1 --header",
		"--ignore-eos false", "-num-prompts 5", "--help=all", "--num 5", "--max 3 --rec -",
		"--goodput ttft:100 tpot:50 -- x", "--extra-body.a.b 1", "--extra-body {} --extra-b.l+=x,y --extra-body.a {\"b\":[1]}",
		"--tokenizer-mode mistral --asr-max-audio-len-sec inf", "--stream=false --stream",
		"--seed -1 -2", "--=x", "--_ -_ - -- -", "--label -0x1 --top-p 1_0.5e-3", "--no_self",
		"--header=A=1 B", "– —x --\x00\xff",
	} {
		f.Add(strings.ReplaceAll(line, " ", "\x00"))
	}
	specs := serveFlags()
	names := newFlagNames(specs)
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Split(line, "\x00") // a word cannot hold NUL
		before := slices.Clone(args)
		got, err := normalize(args, specs)
		if !slices.Equal(args, before) {
			t.Fatalf("normalize changed its argument %q to %q", before, args)
		}
		if err != nil {
			for text := range strings.SplitSeq(err.Error(), "\n") {
				if text == "" || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
					t.Fatalf("normalize(%q): message %q", args, text)
				}
			}
			return
		}
		if got.Help {
			if got.Words != nil || got.Warnings != nil {
				t.Fatalf("normalize(%q): help with words %q", args, got.Words)
			}
			return
		}
		again, err := normalize(wordsTyped(got.Words), specs)
		if err != nil || !slices.Equal(again.Words, got.Words) || again.Warnings != nil {
			t.Fatalf("not idempotent: %q, then %q, %q, %v", got.Words, again.Words, again.Warnings, err)
		}
		// Equal flags and keys must keep their order, so only lines without them are turned.
		dotted := slices.ContainsFunc(args, func(a string) bool { return names.classify(a).form == formDotted })
		if got.Warnings == nil && !dotted {
			groups := flagGroups(args, names)
			slices.Reverse(groups)
			turned, err := normalize(slices.Concat(groups...), specs)
			if err != nil || !slices.Equal(turned.Words, got.Words) {
				t.Fatalf("order matters: %q, turned %q, %v", got.Words, turned.Words, err)
			}
		}
	})
}
