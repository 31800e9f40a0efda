package main

import (
	"fmt"
	"io"
	"strings"
)

// helpTexts says what each flag does, its default in brackets.
var helpTexts = map[string]string{
	"label":                   "first part of the default result file's name, and a key of the result",
	"backend":                 "vllm, openai (both completions) or openai-chat [openai]",
	"base-url":                "URL of the server; overrides --host and --port",
	"host":                    "host of the server [127.0.0.1]",
	"port":                    "port of the server [8000]",
	"endpoint":                "path of the API [follows the backend]",
	"header":                  "KEY=VALUE ... to send with every request; never shown",
	"insecure":                "do not check the server's certificate",
	"model":                   "the model's id [the first of the server's list]",
	"served-model-name":       "the name to send instead of --model",
	"tokenizer":               "folder, tokenizer.json or id in the local hub cache [that of --model, else the server counts]",
	"skip-tokenizer-init":     "use no tokenizer at all",
	"dataset-name":            "random or custom [random]",
	"dataset-path":            "the JSONL file of a custom data set",
	"num-prompts":             "timed requests [1000]; custom: 0 takes all rows",
	"seed":                    "seed of prompts and arrivals [0]",
	"input-len":               "sets --random-input-len",
	"output-len":              "sets --random-output-len and --custom-output-len",
	"random-input-len":        "prompt tokens [1024]",
	"random-output-len":       "tokens to generate [128]",
	"random-range-ratio":      `spread of both lengths, or {"input": a, "output": b} [0.0]`,
	"random-prefix-len":       "tokens of a prefix that all prompts share, added to the input [0]",
	"custom-output-len":       "tokens to generate, -1 for each line's output_tokens [256]",
	"skip-chat-template":      "send custom prompts as they are",
	"disable-shuffle":         "keep the file's order",
	"no-oversample":           "do not repeat rows of a file that has too few",
	"request-rate":            "requests a second, or inf for a closed loop [inf]",
	"burstiness":              "shape of the gamma distribution of gaps; 1 is Poisson, inf constant [1.0]",
	"max-concurrency":         "most requests in flight [no limit]",
	"num-warmups":             "untimed requests before [0]",
	"ready-check-timeout-sec": "try request 0 for so long before starting [no check]",
	"ignore-eos":              "ask for all tokens; always on for random",
	"temperature":             "sampling temperature [the server's]",
	"top-p":                   "sampling parameter", "top-k": "sampling parameter", "min-p": "sampling parameter",
	"frequency-penalty":  "sampling parameter",
	"presence-penalty":   "sampling parameter",
	"repetition-penalty": "sampling parameter",
	"logprobs":           "log probabilities to ask for (completions)",
	"extra-body":         "JSON object merged over each request's body",
	"request-id-prefix":  "x-request-id is this and the request's number [bench-<random>-]",
	"save-result":        "write the result, and beside it manifest, records and histograms",
	"save-detailed":      "with arrays of every request in the result, generated texts among them",
	"append-result":      "append the result to its file as a line",
	"metadata":           "KEY=VALUE ... for the result",
	"result-dir":         "folder of the result file [.]",
	"result-filename":    "name of the result file",
	"percentile-metrics": "metrics to show and save: ttft,tpot,itl,e2el,client_queue_time,e2el_including_client_queue [ttft,tpot,itl]",
	"metric-percentiles": "percentiles to show and save [99]",
	"goodput":            "METRIC:MS ... bounds on ttft, tpot, e2el",
	"disable-tqdm":       "show no progress",

	"sim":                  "start the embedded simulator and benchmark it",
	"sim-ttft":             "its time to first token [50ms]",
	"sim-itl":              "its time between tokens [10ms]",
	"sim-per-prompt-token": "added to the time to first token for each prompt token [0s]",
	"sim-jitter":           "spread of its times, 0 to 1 [0]",
	"sim-slots":            "requests it serves at once, 0 for no limit [0]",
	"sim-tokens-per-chunk": "tokens in an event after the first [1]",
	"sim-seed":             "seed of its jitter [0]",
	"manifest":             "write the manifest here",
	"subject":              "YAML file that declares the model for the manifest",
	"records":              "write the request records here",
	"prompt-form":          "text or token-ids (completions) [text]",
	"timeout-stall":        "end a stream without an event for so long; 0 never [600s]",
	"timeout-total":        "end a request after so long; 0 never [6h]",
	"timeout-connect":      "give up connecting after so long; 0 never [10s]",
	"timeout-headers":      "end a request without response headers after so long [never]",
	"stream":               "--stream=false asks for answers in one piece",
	"strict-openai":        "send only OpenAI's own parameters",
	"pacing":               "sleep or hybrid (sleep, then spin where a core is free) [hybrid]",
	"warmup-prompts":       "distinct prompts of their own, or first: request 0 again, as vLLM does [distinct]",
	"dry-run":              "show the plan and the body of request 0; send nothing",
	"no-kernel-stamps":     "take the time of reading for arrivals",
	"max-event-bytes":      "longest event of a stream [16 MiB]",
	"drain":                "after a first interrupt, time for requests in flight to end [10s]",
}

// printHelp lists the flags, or those that topic occurs in; "all" adds those of
// vLLM that are refused.
func printHelp(w io.Writer, specs []flagSpec, topic string) error {
	var b strings.Builder
	if topic == "" || topic == "all" {
		b.WriteString("servebench serve: run one benchmark against an OpenAI-compatible server.\n\n" +
			"Takes the flags of `vllm bench serve` (as argparse reads them), and its own.\n" +
			"OPENAI_API_KEY goes to every request to the server.\n")
	}
	shown := 0
	for _, own := range []bool{false, true} {
		title := map[bool]string{false: "Flags of `vllm bench serve`:", true: "Own flags:"}[own]
		for _, s := range specs {
			text := helpTexts[s.Name]
			if s.Why != "" {
				text = "refused: " + s.Why
			}
			if s.Own != own || !matches(s, text, topic) {
				continue
			}
			if title != "" {
				fmt.Fprintf(&b, "\n%s\n", title)
				title = ""
			}
			fmt.Fprintf(&b, "  --%-26s %s\n", s.Name, text)
			shown++
		}
	}
	if shown == 0 {
		return usagef("no flag has %s in its name or text; servebench serve --help lists all", quoteWord(topic))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func matches(s flagSpec, text, topic string) bool {
	switch topic {
	case "":
		return s.Why == ""
	case "all":
		return true
	}
	return strings.Contains(s.Name, topic) || strings.Contains(strings.ToLower(text), topic)
}
