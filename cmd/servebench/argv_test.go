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
		{"only the first = separates", words("--label a=b=c --tokenizer=x=y"), words("--label=a=b=c --tokenizer=x=y")},
		{"_ stands for - in names and is kept in values", words("--num_prompts 5 --dataset_path=my_file"), words("--num-prompts=5 --dataset-path=my_file")},
		{"mixed _ and -", words("--ready_check-timeout_sec 1"), words("--ready-check-timeout-sec=1")},
		{"empty value", []string{"--label", "", "--result-dir="}, words("--label= --result-dir=")},
		{"the order of the flags does not show", words("--seed 1 --label x"), words("--label=x --seed=1")},

		{"negative number as a value", words("--seed -1 --custom-output-len -1"), words("--seed=-1 --custom-output-len=-1")},
		{"negative fraction", words("--presence-penalty -.5 --frequency-penalty -1.5"), words("--frequency-penalty=-1.5 --presence-penalty=-.5")},
		{"negative number with an exponent", words("--temperature -1e-3"), words("--temperature=-1e-3")},
		{"text that begins with - needs =", words("--label=-x"), words("--label=-x")},
		{"- alone is a value", words("--records -"), words("--records=-")},
		{"a word with a space is a value", []string{"--label", "-x y"}, []string{"--label=-x y"}},
		{"JSON is left as it is", []string{"--extra-body", `{"a_b": -1, "c": [1,2]}`}, []string{`--extra-body={"a_b": -1, "c": [1,2]}`}},

		{"switch", words("--ignore-eos --num-prompts 5"), words("--ignore-eos=true --num-prompts=5")},
		{"switch with =true and =false", words("--ignore-eos=false --disable-tqdm=true"), words("--disable-tqdm=true --ignore-eos=false")},
		{"--stream=false", words("--stream=false"), words("--stream=false")},

		{"list up to the next flag", words("--metadata a=1 b=2 --seed 3"), words("--metadata=a=1 --metadata=b=2 --seed=3")},
		{"list with negative numbers", words("--metadata -1 x=1"), words("--metadata=-1 --metadata=x=1")},
		{"list behind = has one value", words("--goodput=ttft:100"), words("--goodput=ttft:100")},
		{"commas do not split", words("--header X=a,b"), words("--header=X=a,b")},
		{"empty list where * allows it", words("--header --seed 1"), words("--seed=1")},

		{"last one wins", words("--seed 1 --seed 2"), words("--seed=2")},
		{"last list wins whole", words("--header A=1 B=2 --header C=3"), words("--header=C=3")},
		{"an empty last list wins too", words("--header A=1 --header"), nil},
		{"switch and its =false", words("--insecure --insecure=false"), words("--insecure=false")},

		{"shortened name", words("--num-p 5"), words("--num-prompts=5")},
		{"shortened name with _ and =", words("--num_p=5"), words("--num-prompts=5")},
		{"exact name wins over longer ones", words("--tokenizer x --sim"), words("--tokenizer=x --sim=true")},
		{"vLLM's name wins over ours: max-concurrency, not max-event-bytes", words("--max 5"), words("--max-concurrency=5")},
		{"our name is found where vLLM has none", words("--rec x"), words("--records=x")},

		{"-- may end the line", words("--seed 1 --"), words("--seed=1")},

		{"Python integers: leading zeros are decimal, _ groups", words("--num-prompts 010 --seed 1_000"), words("--seed=1000 --num-prompts=10")},
		{"Python integers: sign and spaces", []string{"--seed", " +7 "}, words("--seed=7")},
		{"Python floats", words("--request-rate inf --top-p .5 --min-p 1. --temperature 1_0e-1"), words("--request-rate=inf --top-p=.5 --min-p=1. --temperature=10e-1")},
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
		{"ambiguous name", words("--num 5"), `"--num" is short for more than one flag; one of --num-warmups, --num-prompts`},
		{"ambiguous with help", words("--he A=1"), `"--he" is short for more than one flag; one of --help, --header`},
		{"value missing at the end", words("--model"), `--model needs a value`},
		{"value missing before a flag", words("--model --seed 1"), `--model needs a value`},
		{"value missing before --", words("--model --"), `--model needs a value`},
		{"value that looks like a flag", words("--label -x"), `--label needs a value; write --label=VALUE if the value begins with -`},
		{"list without its one value", words("--goodput --seed 1"), `--goodput needs a value`},
		{"refused flag", words("--lora-modules a b --seed 1"), `--lora-modules is not supported yet: requests are not spread over LoRA adapters`},
		{"refused flag twice is one mistake", words("--hf-split a --hf-split b"), `--hf-split is not supported yet: Hugging Face datasets are not read`},
		{"refused flag by a short name", words("--ramp-up-st linear --ramp-up-e 5"),
			"\"--ramp-up-st\" is short for more than one flag; one of --ramp-up-strategy, --ramp-up-start-rps\n" +
				"--ramp-up-end-rps is not supported yet: the request rate is constant during a run"},
		{"refused switch in its --no- form", words("--no-self-timed"), `--no-self-timed is not supported yet: the timed_trace dataset is missing`},
		{"refused flag without its value", words("--hf-name"), `--hf-name is not supported yet: Hugging Face datasets are not read`},
		{"dotted JSON", words("--extra-body.chat_template_kwargs.enable_thinking false"),
			`--extra-body.KEY is not supported yet; give the whole object: --extra-body '{"KEY": VALUE}'`},
		{"dotted name of a flag without JSON", words("--seed.x 1"), `unknown flag "--seed.x"; did you mean --seed?`},
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
		words("--extra-body.key=" + secret),
		words("--extra-body.key " + secret),
		words("--header A=1 -- " + secret),
	} {
		_, err := normalize(args, serveFlags())
		if err == nil {
			t.Errorf("normalize(%q) found no mistake", args)
		} else if strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("normalize(%q) shows the secret: %v", args, err)
		}
	}
	got, err := normalize(words("--header A="+secret+" --header B="+secret), serveFlags())
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

// TestEveryFlagOfVLLMIsEitherImplementedOrRefused holds the table against the two lists
// it was made from: names of vLLM 0.32.0, read from its argparse calls, by nargs.
func TestEveryFlagOfVLLMIsEitherImplementedOrRefused(t *testing.T) {
	implemented := words(`backend base-url host port endpoint header insecure model
		served-model-name tokenizer skip-tokenizer-init dataset-name dataset-path num-prompts
		seed input-len output-len random-input-len random-output-len random-range-ratio
		random-prefix-len custom-output-len skip-chat-template disable-shuffle no-oversample
		request-rate burstiness max-concurrency num-warmups ready-check-timeout-sec ignore-eos
		temperature top-p top-k min-p frequency-penalty presence-penalty repetition-penalty
		logprobs extra-body request-id-prefix save-result save-detailed append-result metadata
		result-dir result-filename label percentile-metrics metric-percentiles goodput
		disable-tqdm`)
	refused := words(`tokenizer-mode use-beam-search probe-request-rate profile self-timed
		no-self-timed lora-modules lora-assignment ramp-up-strategy ramp-up-start-rps
		ramp-up-end-rps chat-template-kwargs plot-timeline timeline-itl-thresholds
		plot-dataset-stats trust-remote-code no-stream enable-multimodal-chat
		custom-ensure-client-side-data spec-bench-output-len spec-bench-category
		sharegpt-output-len timed-trace-chunk-hash-size timed-trace-sec-multiplier
		timed-trace-label-timestamp timed-trace-label-input-length
		timed-trace-label-output-length timed-trace-label-hash-ids blazedit-min-distance
		blazedit-max-distance asr-max-audio-len-sec asr-min-audio-len-sec hf-subset hf-split
		hf-name hf-output-len bfcl-categories prefix-repetition-prefix-len
		prefix-repetition-suffix-len prefix-repetition-num-prefixes
		prefix-repetition-output-len speed-bench-dataset-subset speed-bench-output-len
		speed-bench-category random-batch-size no-reranker random-mm-base-items-per-request
		random-mm-num-mm-items-range-ratio random-mm-limit-mm-per-prompt
		random-mm-bucket-config`)
	switches := words(`use-beam-search disable-tqdm profile save-result save-detailed
		append-result ignore-eos skip-tokenizer-init insecure plot-timeline plot-dataset-stats
		trust-remote-code no-stream no-oversample skip-chat-template enable-multimodal-chat
		disable-shuffle custom-ensure-client-side-data no-reranker`)
	arities := map[string]arity{"self-timed": arityToggle, "header": arityMany,
		"metadata": arityMany, "goodput": aritySome, "lora-modules": aritySome}
	for _, name := range switches {
		arities[name] = arityNone
	}

	// 52 implemented + 50 refused = 101 flags of vLLM and --no-self-timed.
	if n := len(implemented) + len(refused); n != 102 || len(vllmFlags) != 101 {
		t.Errorf("%d names and %d flags, want 102 and 101", n, len(vllmFlags))
	}
	var gotImplemented, gotRefused []string
	for _, spec := range vllmFlags {
		want, ok := arities[spec.Name]
		if !ok {
			want = arityOne
		}
		if spec.Arity != want || spec.Own {
			t.Errorf("--%s: arity %d, own %v; want arity %d of vLLM", spec.Name, spec.Arity, spec.Own, want)
		}
		if spec.Why == "" {
			gotImplemented = append(gotImplemented, spec.Name)
			continue
		}
		gotRefused = append(gotRefused, spec.Name)
		if spec.Arity == arityToggle {
			gotRefused = append(gotRefused, "no-"+spec.Name)
		}
	}
	sameSet := func(reading string, want, got []string) {
		slices.Sort(want)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", reading, diff)
		}
	}
	sameSet("implemented", implemented, gotImplemented)
	sameSet("refused", refused, gotRefused)
}

func TestOwnFlagsDoNotClashWithVLLM(t *testing.T) {
	seen := map[string]bool{helpName: true}
	for _, spec := range serveFlags() {
		if seen[spec.Name] {
			t.Errorf("--%s is there twice", spec.Name)
		}
		if spec.Own && spec.Why != "" {
			t.Errorf("--%s is ours and refused", spec.Name)
		}
		seen[spec.Name] = true
	}
	for _, spec := range ownFlags {
		if !spec.Own {
			t.Errorf("--%s is not marked as ours", spec.Name)
		}
	}
}

func TestEveryRefusedFlagIsRefusedByName(t *testing.T) {
	for _, spec := range vllmFlags {
		if spec.Why == "" {
			continue
		}
		_, err := normalize([]string{"--" + spec.Name, "1"}, serveFlags())
		want := "--" + spec.Name + " is not supported yet: " + spec.Why
		if err == nil || err.Error() != want {
			t.Errorf("--%s: error %v, want %s", spec.Name, err, want)
		}
	}
}

func TestEditDistanceIsLevenshtein(t *testing.T) {
	for _, row := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"abc", "", 3},
		{"", "abc", 3},
		{"kitten", "sitting", 3}, // the textbook example
		{"sunday", "saturday", 3},
		{"seed", "seed", 0},
	} {
		if got := editDistance(row.a, row.b); got != row.want {
			t.Errorf("editDistance(%q, %q) = %d, want %d", row.a, row.b, got, row.want)
		}
	}
}

// typed turns canonical words back into a line that a user could write: the repeated
// words of a list become one flag, since of two equal flags only the last counts.
func typed(canonical []string) []string {
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
		case formFlag:
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
		"--goodput ttft:100 tpot:50 -- x", "--extra-body.a.b 1", "--stream=false --stream",
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
		again, err := normalize(typed(got.Words), specs)
		if err != nil || !slices.Equal(again.Words, got.Words) || again.Warnings != nil {
			t.Fatalf("not idempotent: %q, then %q, %q, %v", got.Words, again.Words, again.Warnings, err)
		}
		// Equal flags must keep their order, so only lines without them are turned.
		if got.Warnings == nil {
			groups := flagGroups(args, names)
			slices.Reverse(groups)
			turned, err := normalize(slices.Concat(groups...), specs)
			if err != nil || !slices.Equal(turned.Words, got.Words) {
				t.Fatalf("order matters: %q, turned %q, %v", got.Words, turned.Words, err)
			}
		}
	})
}
