package main

import (
	_ "embed"
	"encoding/json"
	"slices"
	"strings"
	"sync"
)

// This file is the one place for what a flag of `servebench sim` is: our own, those of
// `vllm serve` that do something here, and the rest of vLLM's, which are taken without
// effect. vLLM's come from the snapshot of its parser.

//go:embed testdata/serveflags.json
var serveFlagsJSON []byte

// serveFlagsVersion is the vLLM whose flags are taken.
const serveFlagsVersion = "0.32.0"

// parserFlag is a flag in the snapshot that testdata/serveflags.py writes.
type parserFlag struct {
	Names   []string // with dashes; of the positional argument its name alone
	Group   string
	Nargs   any // as argparse has it: absent, 0, "?", "*" or "+"
	Toggle  bool
	Kind    string // int, float, size, size-or-auto, json or text
	Type    string // argparse's word for it
	Keys    bool   // text that may also be JSON, given key by key
	None    bool
	Choices []string
}

// spec is the flag as the normaliser takes it. ok is false for the positional one.
func (f parserFlag) spec() (s flagSpec, ok bool) {
	s = flagSpec{Group: inSimIgnored, Use: accepted, Keys: f.Keys, None: f.None, Type: f.Type, Choices: f.Choices}
	for _, name := range f.Names {
		long, isLong := strings.CutPrefix(name, "--")
		switch {
		case f.Toggle && strings.HasPrefix(long, "no-") && s.Name != "":
		case isLong && s.Name == "":
			s.Name = long
		case isLong:
			s.Aliases = append(s.Aliases, long)
		case strings.HasPrefix(name, "-"):
			s.Short = append(s.Short, name[1:])
		}
	}
	switch nargs := f.Nargs; {
	case f.Toggle:
		s.Arity = arityToggle
	case nargs == 0.0:
		s.Arity = arityNone
	case nargs == "?":
		s.Arity = arityMaybe
	case nargs == "*":
		s.Arity = arityMany
	case nargs == "+":
		s.Arity = aritySome
	}
	switch f.Kind {
	case "int":
		s.Kind = kindInt
	case "float":
		s.Kind = kindFloat
	case "size":
		s.Kind = kindSize
	case "size-or-auto":
		s.Kind = kindSizeOrAuto
	case "json":
		s.Kind, s.Keys = kindConfig, true
	}
	return s, s.Name != ""
}

// Titles of the groups of sim's help.
const (
	inSimServer  = "Simulator"
	inSimFixed   = "Fixed timing"
	inSimEngine  = "Engine model"
	inSimFailing = "Failing on purpose"
	inSimVLLM    = "Flags of vllm serve that have an effect"
	inSimIgnored = "Flags of vllm serve without an effect"
)

var simGroups = []group{
	{inSimServer, []string{"simulator"}},
	{inSimFixed, []string{"fixed", "timing"}},
	{inSimEngine, []string{"engine", "model"}},
	{inSimFailing, []string{"failing", "fail"}},
	{inSimVLLM, []string{"vllm"}},
	{inSimIgnored, []string{"ignored"}},
}

// simOwnFlags are those that vLLM does not have.
var simOwnFlags = []flagSpec{
	{Name: "like", Group: inSimServer, Kind: kindFile, Help: "behave as the server of this run manifest did; FILE#ID is one run of an experiment",
		More: "The engine model is fitted to the published results. Flags go before what is fitted."},
	{Name: "truth", Group: inSimServer, Arity: arityNone, Help: "put the time of writing into each event as sent_ns (CLOCK_MONOTONIC)",
		More: "The first event also tells when the request had arrived, as arrived_ns: by the kernel's stamp, where there is one."},
	{Name: "tls", Group: inSimServer, Arity: arityNone, Help: "speak HTTPS, with a certificate made at the start; clients need --insecure",
		More: "It is valid for localhost, the loopback addresses and --host, for a week. --ssl-certfile brings another."},
	{Name: "until-eof", Group: inSimServer, Arity: arityNone, Help: "end also when standard input does",
		More: "So that a program that starts the simulator need not live to end it."},
	{Name: "jitter", Group: inSimServer, Kind: kindFloat, Default: "0", Help: "spread of the times, 0 to 1",
		More: "The standard deviation of a log-normal factor of mean 1: on each wait and gap with fixed timing, on each step of the engine model."},
	{Name: "reasoning-tokens", Group: inSimServer, Kind: kindInt, Default: "0", Help: "first tokens of a chat's answer that are reasoning"},

	{Name: "ttft", Group: inSimFixed, Default: "50ms", Help: "time to first token", More: "Token k of a request with n prompt tokens is due ttft + n*per-prompt-token + k*itl after it was admitted."},
	{Name: "itl", Group: inSimFixed, Default: "10ms", Help: "time between tokens"},
	{Name: "per-prompt-token", Group: inSimFixed, Default: "0s", Help: "added to the time to first token for each prompt token"},
	{Name: "slots", Group: inSimFixed, Kind: kindInt, Default: "0", Help: "requests served at once; 0 is no limit"},
	{Name: "tokens-per-chunk", Group: inSimFixed, Kind: kindInt, Default: "1", Help: "tokens in an event after the first, as --stream-interval"},

	{Name: "decode-ms", Group: inSimEngine, Kind: kindFloat, Default: "10", Help: "B: milliseconds that every step takes",
		More: "A step in which s requests decode with c tokens of context together, and p prompt tokens are computed, takes B + s*Q + c/C + p/P, and D where drafts are verified."},
	{Name: "per-sequence", Group: inSimEngine, Default: "0s", Help: "Q: added for each request that decodes in the step"},
	{Name: "context-rate", Group: inSimEngine, Kind: kindFloat, Default: "0", Unset: "0, no time", Help: "C: context tokens of decoding requests that a step reads in a second"},
	{Name: "prefill-rate", Group: inSimEngine, Kind: kindFloat, Default: "20000", Help: "P: prompt tokens computed in a second; 0 is no time"},
	{Name: "overhead", Group: inSimEngine, Default: "0s", Help: "time of a request outside of the engine"},
	{Name: "frontend", Group: inSimEngine, Default: "0s", Help: "time to hand a request to the engine, one at a time"},
	{Name: "idle-delay", Group: inSimEngine, Default: "0s", Help: "time from a request that finds the engine idle to its first step"},
	{Name: "acceptance", Group: inSimEngine, Default: "0.6", Help: "a: probability that a draft token is accepted, if those before it are",
		More: "With k draft tokens a step makes 1 + a + ... + a^k tokens on average. SHARE:A,SHARE:A are kinds of requests, in shares of the requests. It needs --speculative-config or --spec-tokens."},
	{Name: "draft-overhead", Group: inSimEngine, Default: "0s", Help: "D: added to a step that verifies drafts"},
	{Name: "kv-tokens", Group: inSimEngine, Kind: kindSize, Default: "0", Unset: "room for all", Help: "size of the KV cache in tokens"},
	{Name: "kv-bytes-per-token", Group: inSimEngine, Kind: kindSize, Default: "131072", Help: "what a token takes of --kv-cache-memory-bytes",
		More: "2 (K and V) * layers * KV heads * head size * bytes of a number: 131072 for 32 layers, 8 heads, 128 and 16 bits."},
	{Name: "time-scale", Group: inSimEngine, Kind: kindFloat, Default: "1", Help: "multiplies all times of the engine: 0.1 is ten times as fast"},

	{Name: "fail-start", Group: inSimFailing, Arity: arityInline, Help: "do not start: log --fail-start=MESSAGE as vLLM logs an error, exit 1"},
	{Name: "fail-start-over", Group: inSimFailing, Help: "FLAG=N,...: run out of memory for the KV cache where the value of FLAG is above N, exit 1",
		More: "FLAG is a flag of vLLM that takes a number, such as max-num-batched-tokens."},
	{Name: "start-delay", Group: inSimFailing, Default: "0s", Help: "wait so long before starting, or failing to"},
	{Name: "fail-after", Group: inSimFailing, Kind: kindInt, Default: "0", Unset: "never", Help: "answer so many requests for tokens and exit 1 when another comes",
		More: "Answers that are under way break off. Warm-ups and readiness checks count."},
}

// simVLLMFlags are vLLM's that have an effect, with what the snapshot does not say.
var simVLLMFlags = []flagSpec{
	{Name: "model", Word: true, Unset: "any", Help: "MODEL, as a word: the model's name, the only one served"},
	{Name: "served-model-name", Unset: "MODEL", Help: "the names it is served by"},
	{Name: "lora-modules", Help: "NAME=PATH ... of adapters: their names are served too"},
	{Name: "host", Default: "127.0.0.1", Help: "address to listen on"},
	{Name: "port", Unset: "8000 with MODEL, else a free one", Help: "port to listen on; 0 takes a free one"},
	{Name: "api-key", Secret: true, Unset: "SERVEBENCH_SIM_API_KEY or VLLM_API_KEY", Help: "KEY ... that requests must have one of"},
	{Name: "ssl-certfile", Help: "speak HTTPS, with the certificates of this PEM file"},
	{Name: "ssl-keyfile", Unset: "in --ssl-certfile", Help: "PEM file with the certificate's key"},
	{Name: "max-model-len", Default: "0", Unset: "131072", Help: "most tokens of prompt and answer"},
	{Name: "seed", Default: "0", Help: "seed of the jitter and of drafts"},
	{Name: "stream-interval", Default: "1", Help: "tokens in an event after the first"},
	{Name: "max-num-seqs", Unset: "256", Help: "requests that run at once"},
	{Name: "max-num-batched-tokens", Unset: "2048", Help: "tokens computed in one step"},
	{Name: "enable-chunked-prefill", Unset: "on", Help: "compute a prompt over several steps"},
	{Name: "enable-prefix-caching", Unset: "on", Help: "keep blocks for prompts that begin alike"},
	{Name: "enable-prompt-tokens-details", Help: "tell in the usage how much of a prompt came from the prefix cache"},
	{Name: "block-size", Unset: "16", Help: "tokens of a block of the KV cache"},
	{Name: "num-gpu-blocks-override", Help: "KV cache in blocks: blocks * block-size tokens"},
	{Name: "kv-cache-memory-bytes", Help: "KV cache in bytes: bytes / kv-bytes-per-token tokens"},
	{Name: "kv-cache-dtype", Help: "shown in /metrics"},
	{Name: "gpu-memory-utilization", Help: "shown in /metrics"},
	{Name: "enable-per-request-metrics", Help: "tell in each answer how long it took by the simulator's own times"},
	{Name: "speculative-config", Help: "its num_speculative_tokens are the draft tokens of a step; None turns them off"},
	{Name: "spec-tokens", Help: "the same number alone"},
	{Name: "config", Use: refused, Why: "vLLM's file of flags is not read: write them on the command line"},
	{Name: "headless", Use: refused, Why: "nothing would answer"},
	{Name: "grpc", Use: refused, Why: "only HTTP is spoken"},
	{Name: "uds", Use: refused, Why: "only TCP is listened on"},
}

// simFlags returns every flag of `servebench sim`: ours, vLLM's with an effect, and
// the rest of vLLM's.
var simFlags = sync.OnceValue(func() []flagSpec {
	var snapshot struct {
		VLLM  string
		Flags []parserFlag
	}
	if err := json.Unmarshal(serveFlagsJSON, &snapshot); err != nil || snapshot.VLLM != serveFlagsVersion {
		panic("testdata/serveflags.json: no snapshot of vLLM " + serveFlagsVersion) // it is part of the binary
	}
	all := slices.Clone(simOwnFlags)
	for i := range all {
		all[i].Own = true
		all[i].Type = map[kind]string{kindInt: "int", kindFloat: "float", kindSize: "human_readable_int"}[all[i].Kind]
	}
	var effective, ignored []flagSpec
	known := map[string]flagSpec{}
	for _, f := range snapshot.Flags {
		s, ok := f.spec()
		if !ok {
			continue
		}
		known[s.Name] = s
		s.Secret = s.Name == "hf-token"
		if s.Name == "optimization-level" {
			s.Short = []string{"O"} // vLLM reads it before argparse does
		}
		if !slices.ContainsFunc(simVLLMFlags, func(o flagSpec) bool { return o.Name == s.Name }) {
			ignored = append(ignored, s)
		}
	}
	for _, o := range simVLLMFlags {
		s, ok := known[o.Name]
		if !ok {
			panic("vllm serve has no --" + o.Name)
		}
		s.Group, s.Use, s.Why = inSimVLLM, o.Use, o.Why
		s.Word, s.Secret, s.Default, s.Unset, s.Help = o.Word, o.Secret, o.Default, o.Unset, o.Help
		effective = append(effective, s)
	}
	return slices.Concat(all, effective, ignored)
})

// simShownFlags are those that help and completion show: all that do something.
func simShownFlags() []flagSpec {
	return slices.DeleteFunc(slices.Clone(simFlags()), func(s flagSpec) bool { return s.Group == inSimIgnored || s.Use == refused })
}
