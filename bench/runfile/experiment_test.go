package runfile

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// judge has a group of each kind.
const judge = `experiment: {id: judge, title: T, artifacts: [{file: m.md, kind: methodology_markdown, id: notes}]}
base:
  bench: {dataset_name: random, random-input-len: 6000, random-output-len: 1, num-prompts: 500, max_concurrency: 8, temperature: 0}
  subject: {identifier: u/m}
  server: {command: [vllm, serve, "{model}", --max-num-batched-tokens, "{max_num_batched_tokens}", --kv, "{kv}"], devices: [0]}
  vars: {max_num_batched_tokens: 10240, kv: fp8}
restart: per_point
groups:
  - {group: checkpoint, id: "checkpoint-{tag}-c8", name: "{label} checkpoint, {model}", points: [{tag: n, label: NV IDIA, set: {subject: n.yaml}}, {tag: u, label: Unsloth}]}
  - {group: concurrency, id: "concurrency-{max-concurrency}", name: "c={concurrency}, {input}->{output} at {rate}", vary: {bench.max-concurrency: [1, 8]}}
  - {group: budget, id: "b-{max_num_batched_tokens}-{kv}", name: "{n} {letter}", vary: {vars.max_num_batched_tokens: [2048, 12288], vars.kv: [auto, fp8]}, on_failure: {retry: 1, continue: true, replacement: previous_completed}}
  - {group: gpu_device, id: "gpu-{device}", name: "devices {devices}", vary: {server.devices: [[0], [1, 2]]}, set: {bench.num-prompts: 200, server.env.A: b}, restart: on_change}
  - {group: repetition, id: "v-{letter}", name: V, repeat: 3, points: [{letter: x, set: {bench.temperature: null}}], screening: true, set: {deadline: 10s}}
  - {group: replica_aggregate, id: four, name: Four, aggregate: {sum: {group: gpu_device}}}
  - {group: replica_aggregate, id: two, name: Two, aggregate: {sum: [gpu-0, concurrency-1], derivation: by hand}}
`

func expand(t *testing.T, text string) (*Experiment, error) {
	t.Helper()
	return ParseExperiment("conf/e.yaml", []byte(text), Options{Flags: known, Read: files{"conf/n.yaml": "identifier: nvidia/m\n"}.read})
}

func TestParseExperiment(t *testing.T) {
	e, err := expand(t, judge)
	if err != nil {
		t.Fatal(err)
	}
	type row struct{ ID, Name, Group string }
	var got []row
	byID := map[string]Point{}
	for _, p := range e.Points {
		got = append(got, row{p.ID, p.Name, p.Group})
		byID[p.ID] = p
	}
	want := []row{
		{"checkpoint-n-c8", "NV IDIA checkpoint, nvidia/m", "checkpoint"}, {"checkpoint-u-c8", "Unsloth checkpoint, u/m", "checkpoint"},
		{"concurrency-1", "c=1, 6000->1 at inf", "concurrency"}, {"concurrency-8", "c=8, 6000->1 at inf", "concurrency"},
		{"b-2048-auto", "1 a", "budget"}, {"b-2048-fp8", "2 b", "budget"}, {"b-12288-auto", "3 c", "budget"}, {"b-12288-fp8", "4 d", "budget"},
		{"gpu-0", "devices 0", "gpu_device"}, {"gpu-1-2", "devices 1, 2", "gpu_device"}, {"v-x", "V", "repetition"},
	}
	// {letter} of the last group is the point's own word; v-x has it.
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if p := byID["checkpoint-n-c8"]; p.Run.Subject.Identifier != "nvidia/m" || !p.Restart || p.Repeat != 1 || p.Vary[0].Key != "subject" {
		t.Errorf("%+v", p)
	}
	if p := byID["gpu-1-2"]; p.Restart || p.Run.Server.Env["A"] != "b" || len(p.Run.Server.Devices) != 2 || len(p.Vary) != 1 {
		t.Errorf("%+v", p)
	}
	if p := byID["v-x"]; !p.Screening || p.Repeat != 3 || p.Run.Deadline != Duration(10*time.Second) || p.Run.Bench["temperature"] != nil {
		t.Errorf("%+v", p)
	}
	if p := byID["b-2048-auto"]; p.OnFailure.Retry != 1 || p.OnFailure.Replacement != "previous_completed" || p.Run.Vars["kv"] != "auto" || p.Run.Vars["max_num_batched_tokens"] != "2048" {
		t.Errorf("%+v", p)
	}
	// The same run under two ids is told (rule X19).
	if len(e.Warnings) != 1 || !strings.Contains(e.Warnings[0], "the points checkpoint-u-c8 and concurrency-8 are the same measurement") {
		t.Errorf("%q", e.Warnings)
	}
	wantSums := []Aggregate{
		{ID: "four", Name: "Four", Group: "replica_aggregate", Sum: []string{"gpu-0", "gpu-1-2"}},
		{ID: "two", Name: "Two", Group: "replica_aggregate", Sum: []string{"gpu-0", "concurrency-1"}, Derivation: "by hand"},
	}
	if diff := cmp.Diff(wantSums, e.Aggregates); diff != "" {
		t.Error(diff)
	}
	if e.About.Artifacts[0].File != "conf/m.md" {
		t.Error(e.About.Artifacts)
	}
}

// Labels and what is for publishing decide on no number; a variable does where
// something reads it.
func TestDigest(t *testing.T) {
	const base = "experiment: {id: e, title: T}\nbase: {server: {command: [a, '{used}']}, vars: {used: 1, unused: 1}}\ngroups:\n- {group: g, id: 'p{n}', name: N, points: [{}, "
	for set, same := range map[string]bool{
		"labels.variant: x": true, "publish.name: x": true, "vars.unused: 2": true, "vars.used: 2": false, "bench.num-prompts: 5": false, "deadline: 1s": false,
	} {
		e, err := expand(t, base+"{set: {"+set+"}}]}\n")
		if err != nil {
			t.Fatal(err)
		}
		if got := e.Points[0].Digest == e.Points[1].Digest; got != same {
			t.Errorf("%s: the same %v, want %v", set, got, same)
		}
	}
}

func TestParseExperimentErrors(t *testing.T) {
	const head = "experiment: {id: e, title: T}\nbase: {bench: {model: m}, subject: n.yaml}\ngroups:\n"
	for _, c := range []struct{ text, want string }{
		{"groups: []\n", "e.yaml:1:1: experiment is missing"},
		{"experiment: {title: T}\ngroups: []\n", "experiment.id is missing"},
		{head + "[]\n", "groups has no point"},
		{"experiment: {id: a b, title: T}\ngroups: [{group: g, id: a, name: N}]\n", `experiment.id "a b" is none; want 1 to 96 letters`},
		{head + "- {group: g, id: a}\n", "groups[0].name is missing"},
		{head + "- {group: g, id: 'a/{n}', name: N}\n", `e.yaml:4:18: the id "a/1" is none; want 1 to 96 letters`},
		{head + "- {group: g, id: a, name: N, vary: {bench.num-prompts: [1, 2]}}\n", "e.yaml:4:18: the id a is given twice, first to a point of the group at conf/e.yaml:4:18; want a template with what varies"},
		{head + "- {group: g, id: a, name: N}\n- {group: h, id: A, name: N}\n", "the id A is given twice"},
		{head + "- {group: g, id: '{nam}', name: N, points: [{name: x}]}\n", "e.yaml:4:18: id: {nam} has no value; did you mean {name}?"},
		{head + "- {group: g, id: a, name: '{concurrency}'}\n", "name: {concurrency} has no value"},
		{head + "- {group: g, id: a, name: N, vary: {bench.max-concurency: [1]}}\n", "e.yaml:4:60: bench.max-concurency is no flag of servebench serve; did you mean bench.max-concurrency?"},
		{head + "- {group: g, id: a, name: N, vary: {bench.num-prompts: 1}}\n", `groups[0].vary.bench.num-prompts is "1"; want a list`},
		{head + "- {group: g, id: a, name: N, vary: {bench.num-prompts: []}}\n", "vary.bench.num-prompts has no values"},
		{head + "- {group: g, id: a, name: N, set: {bench: {num-prompts: 1}}}\n", "bench would take the place of the whole section; want keys of it, such as bench.KEY"},
		{head + "- {group: g, id: a, name: N, set: {subject.revision: x}}\n", "e.yaml:4:36: nothing can be set below text, which conf/e.yaml:2:36 has"},
		{head + "- {group: g, id: a, name: N, set: {nonsense: x}}\n", "e.yaml:4:36: nonsense is no key that is known"},
		{head + "- {group: g, id: a, name: N, points: [{set: 3}]}\n", "set is a number; want a mapping of keys"},
		{head + "- {group: g, id: a, name: N, points: [{tag: [a]}]}\n", "tag is a list; want a word for the templates"},
		{head + "- {group: g, id: a, name: N, points: [3]}\n", "groups[0].points[0] is \"3\"; want a mapping"},
		{head + "- {group: g, id: a, name: N, repeat: 2}\n- {group: g, id: a-trial-2, name: N}\n", "the id a-trial-2 is also the name of a trial of a"},
		{head + "- {group: g, id: a, name: N, repeat: 1001}\n", "repeat is 1001; want 1000 at most"},
		{head + "- {group: g, id: a, name: N}\n- {group: s, id: s, name: S, aggregate: {sum: [a, b]}}\n", `e.yaml:5:51: aggregate.sum: no point has the id "b"`},
		{head + "- {group: g, id: a, name: N}\n- {group: s, id: s, name: S, aggregate: {sum: {group: x}}}\n", `aggregate.sum: no group of points is called "x"`},
		{head + "- {group: g, id: a, name: N}\n- {group: s, id: a, name: S, aggregate: {sum: [a]}}\n", "the id a is given twice"},
		{head + "- {group: g, id: a, name: N}\n- {group: s, id: s, name: S, repeat: 2, aggregate: {sum: 3}}\n", "repeat beside aggregate: a computed run has no points"},
		{head + "- {group: g, id: a, name: N}\n- {group: s, id: s, name: S, aggregate: {sum: 3}}\n", "aggregate.sum is a number; want {group: NAME}"},
		{head + "- {group: g, id: '{n}', name: N, vary: {bench.num-prompts: [" + strings.Repeat("1,", 101) + "1], bench.label: [" + strings.Repeat("1,", 101) + "1]}}\n", "more than 1000 points"},
		{"bench: {}\n", "a run file; want an experiment file here, and servebench serve -f for this one"},
	} {
		_, err := expand(t, c.text)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.150q: %v\nwant %s", c.text, err, c.want)
		}
	}
}

func FuzzParseExperiment(f *testing.F) {
	f.Add([]byte(judge))
	f.Add(Starter(KindExperiment))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4<<10 {
			return
		}
		e, err := ParseExperiment("e.yaml", data, Options{Flags: known})
		if err != nil {
			return
		}
		ids := map[string]bool{}
		for _, p := range e.Points {
			if ids[p.ID] || !idForm.MatchString(p.ID) || p.Run == nil {
				t.Errorf("point %q", p.ID)
			}
			ids[p.ID] = true
		}
	})
}
