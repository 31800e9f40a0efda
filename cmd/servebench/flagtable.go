package main

import "slices"

// This file is the one place for what a flag of `servebench serve` is. The normaliser,
// urfave/cli, defaults, help, completion and notes all read the table. When vLLM
// changes, testdata/flags.py writes its flags anew and the test names the rows that
// differ.

// arity says which words a flag takes.
type arity int

const (
	arityOne    arity = iota // --x VALUE or --x=VALUE
	arityNone                // a switch: --x, or --x=true and --x=false
	arityToggle              // a switch that also has --no-x
	arityMany                // --x and the words up to the next flag, or none (nargs="*")
	aritySome                // like arityMany, with at least one word (nargs="+")
	arityMaybe               // --x, or --x VALUE or --x=VALUE (nargs="?")
	arityInline              // --x or --x=VALUE, never the word behind it
)

// kind says how the value of a flag is written. Numbers are checked by the normaliser
// because Go's flag package reads them in its own way: 010 as eight, NaN as a number.
type kind int

const (
	kindText  kind = iota
	kindInt        // as Python's int(): decimal, may be 1_000
	kindFloat      // as Python's float(), without NaN
	kindJSON       // valid JSON, decoded where it is used
	kindFile       // text that names a file
	kindDir        // text that names a folder

	kindSize       // an int that may end in k, M, ... as vLLM reads it
	kindSizeOrAuto // that, or auto, which becomes -1
	kindConfig     // JSON whose numbers may end like that
)

// use says what becomes of a flag of vLLM.
type use int

const (
	works    use = iota
	accepted     // taken, without effect: Why says so when it is given
	refused      // taken with its default only: Why is the reason
)

// flagSpec is one flag.
type flagSpec struct {
	Name  string // without dashes
	Group string // a title of groups
	Arity arity
	Kind  kind
	// Repeats says that a further occurrence adds to the ones before, where else
	// the last one counts.
	Repeats bool
	// List lets several values be given with commas between: a run for each.
	List bool
	// Keys lets the value be given key by key, as JSON: --x.key VALUE.
	Keys bool
	// Default is the value that stands for the flag when it is not given, as it
	// would be typed; "" is none, and off for a switch.
	Default string
	// Unset is what help says of a flag that is not given, in place of Default.
	Unset string
	// Choices are vLLM's, OwnChoices what is taken beside them. Refused are those
	// of them that are not supported, with the reason.
	Choices, OwnChoices []string
	Refused             map[string]string
	Help                string // one line
	More                string // further sentences, for --help=all
	Use                 use
	Why                 string
	// Sets are the data sets that read the flag; nil stands for all.
	Sets   []string
	Secret bool // values may hold credentials and are never shown
	Own    bool // vLLM does not have it

	// Aliases are further names, Short those behind a single dash.
	Aliases, Short []string
	// Word lets a word that belongs to no flag be the value.
	Word bool
	// None makes "" and None stand for no value.
	None bool
	// Type is argparse's word for the kind of the value.
	Type string
}

// choices are all values the flag has, the refused ones among them.
func (s flagSpec) choices() []string { return slices.Concat(s.Choices, s.OwnChoices) }

// offered are the values to choose from.
func (s flagSpec) offered() []string {
	return slices.DeleteFunc(s.choices(), func(v string) bool { return s.refusal(v) != "" })
}

// refusal is the reason for refusing a choice, "" for the others.
func (s flagSpec) refusal(value string) string { return s.Refused[value] }

// group is a part of the help.
type group struct {
	Title string
	// Aliases are further words for --help: vLLM's titles, and short ones.
	Aliases []string
}

// Titles of groups that hold vLLM's flags, and of our own.
const (
	inConnection = "Connection"
	inModel      = "Model and tokenizer"
	inData       = "Data set"
	inRandom     = "Data sets random, random-mm and random-rerank"
	inImages     = "Data set random-mm"
	inCustom     = "Data sets custom and custom_image"
	inShareGPT   = "Data set sharegpt"
	inPrefix     = "Data set prefix_repetition"
	inSpecBench  = "Data set spec_bench"
	inSpeedBench = "Data set speed_bench"
	inTrace      = "Data set timed_trace"
	inHub        = "Data set hf"
	inLoad       = "Load"
	inSampling   = "Sampling"
	inOutput     = "Output"

	inOwnConnection = "Connection, own flags"
	inOwnData       = "Data sets, own flags"
	inOwnRun        = "Run and output, own flags"
	inSim           = "Simulator, own flags"
)

// groups in the order of the help.
var groups = []group{
	{inConnection, nil},
	{inModel, []string{"model", "tokenizer"}},
	{inData, []string{"dataset"}},
	{inRandom, []string{"random", "random dataset options"}},
	{inImages, []string{"random-mm", "random multimodal dataset options extended from random dataset"}},
	{inCustom, []string{"custom", "custom_image", "custom dataset options"}},
	{inShareGPT, []string{"sharegpt", "sharegpt dataset options"}},
	{inPrefix, []string{"prefix_repetition", "prefix repetition dataset options"}},
	{inSpecBench, []string{"spec_bench", "spec bench dataset options"}},
	{inSpeedBench, []string{"speed_bench", "speed bench dataset options"}},
	{inTrace, []string{"timed_trace", "timed-trace dataset options"}},
	{inHub, []string{"hf", "hf dataset options", "blazedit dataset options", "asr dataset options", "bfcl dataset options"}},
	{inLoad, nil},
	{inSampling, []string{"sampling parameters"}},
	{inOutput, nil},
	{inOwnConnection, nil},
	{inOwnData, []string{"sonnet"}},
	{inOwnRun, nil},
	{inSim, []string{"simulator", "sim"}},
}

// Data sets by what they have in common.
var (
	// setsRandom are made of random token ids.
	setsRandom = []string{"random", "random-mm", "random-rerank"}
	// setsUncounted do without a tokenizer.
	setsUncounted = []string{"random", "custom", "custom_image"}
	// setsLengths are those whose --output-len is general.
	setsLengths = []string{"random", "random-mm", "sharegpt", "sonnet", "custom", "custom_image", "hf", "spec_bench", "prefix_repetition"}
	// setsRendered put the chat template around a prompt, where that is not the
	// server's part. vLLM passes its flags for it to these alone.
	setsRendered = []string{"custom", "speed_bench", "hf", "sonnet"}
	// setsKwargs give the template arguments.
	setsKwargs = []string{"custom", "speed_bench", "sonnet"}
	// setsFiles sample the rows of a file.
	setsFiles = []string{"sharegpt", "sonnet", "burstgpt", "custom", "custom_image", "hf", "spec_bench", "speed_bench"}
)

// Reasons that several flags share.
const (
	whyAudio = "audio is not sent"
	whyCode  = "code that comes with a model is never run here"
)

// serveFlags returns every flag of `servebench serve`.
func serveFlags() []flagSpec { return flagTable }

// flagTable has the flags of a group together, in the order of the help.
var flagTable = []flagSpec{
	{Name: "backend", Group: inConnection, Default: "openai",
		Choices: []string{"vllm", "openai", "openai-chat", "openai-responses", "openai-audio", "openai-embeddings", "openai-embeddings-chat",
			"openai-embeddings-clip", "openai-embeddings-vlm2vec", "infinity-embeddings", "infinity-embeddings-clip", "vllm-pooling", "vllm-rerank"},
		Refused: map[string]string{"openai-audio": whyAudio, "openai-embeddings-vlm2vec": "the prompts of VLM2Vec are not made"},
		Help:    "form of the requests", More: "vllm and openai are both completions."},
	{Name: "base-url", Group: inConnection, Unset: "from --host and --port", Help: "URL of the server, without the endpoint"},
	{Name: "host", Group: inConnection, Default: "127.0.0.1", Help: "host of the server"},
	{Name: "port", Group: inConnection, Kind: kindInt, Default: "8000", Help: "port of the server"},
	{Name: "endpoint", Group: inConnection, Default: "/v1/completions", Unset: "the backend's", Help: "path of the API",
		More: "vLLM's own default is /v1/completions for every backend."},
	{Name: "header", Group: inConnection, Arity: arityMany, Secret: true, Help: "KEY=VALUE ... to send with every request; never shown"},
	{Name: "insecure", Group: inConnection, Arity: arityNone, Help: "do not check the server's certificate"},

	{Name: "model", Group: inModel, Unset: "the first the server lists", Help: "the model's id"},
	{Name: "served-model-name", Group: inModel, Unset: "--model", Help: "the model's name in requests"},
	{Name: "tokenizer", Group: inModel, Unset: "--model", Help: "folder, tokenizer.json or id in the local hub cache",
		More: "Where there is none for --model, the server counts."},
	{Name: "tokenizer-mode", Group: inModel, Default: "auto", OwnChoices: []string{"auto", "hf", "mistral", "deepseek_v32"},
		Refused: map[string]string{
			"mistral":      "tokenizers are read from tokenizer.json, not from mistral_common's files",
			"deepseek_v32": "its chat template is Python code of vLLM's",
		},
		Help: "where the tokenizer comes from", More: "auto and hf are the same here."},
	{Name: "trust-remote-code", Group: inModel, Arity: arityNone, Use: accepted, Why: whyCode, Help: "run code that comes with a tokenizer"},
	{Name: "skip-tokenizer-init", Group: inModel, Arity: arityNone, Help: "use no tokenizer at all"},

	{Name: "dataset-name", Group: inData, Default: "random",
		Choices: []string{"sharegpt", "burstgpt", "random", "random-mm", "random-rerank", "hf", "custom", "custom_audio", "custom_image",
			"prefix_repetition", "spec_bench", "speed_bench", "timed_trace"},
		OwnChoices: []string{"sonnet"}, Refused: map[string]string{"custom_audio": whyAudio},
		Help: "where prompts come from", More: "sonnet is an older vLLM's."},
	{Name: "dataset-path", Group: inData, Kind: kindFile, Help: "the data set's file or folder; its id on the hub for hf"},
	{Name: "num-prompts", Group: inData, Kind: kindInt, Default: "1000", Help: "timed requests; 0: all rows of custom, spec_bench, speed_bench"},
	{Name: "seed", Group: inData, Kind: kindInt, Default: "0", Help: "seed of prompts and arrivals"},
	{Name: "input-len", Group: inData, Kind: kindInt, Sets: slices.Concat(setsRandom, []string{"sonnet"}), Unset: "the data set's",
		Help: "prompt tokens: --random-input-len, --sonnet-input-len"},
	{Name: "output-len", Group: inData, Kind: kindInt, Sets: setsLengths, Unset: "the data set's",
		Help: "tokens to generate, for any data set but speed_bench", More: "Sets the data set's own --...-output-len; burstgpt and timed_trace have the rows' lengths."},
	{Name: "no-oversample", Group: inData, Arity: arityNone, Sets: setsFiles, Help: "do not repeat rows of a file that has too few"},
	{Name: "disable-shuffle", Group: inData, Arity: arityNone, Sets: slices.Concat(setsFiles, []string{"prefix_repetition"}), Help: "keep the file's order"},
	{Name: "skip-chat-template", Group: inData, Arity: arityNone, Sets: setsRendered, Help: "send prompts without the model's chat template around them"},
	{Name: "chat-template-kwargs", Group: inData, Kind: kindJSON, Keys: true, Sets: setsKwargs,
		Help: "JSON object of arguments to a chat template rendered here"},
	{Name: "enable-multimodal-chat", Group: inData, Arity: arityNone, Use: accepted, Why: "chat requests have the same content without it",
		Help: "make chat messages of prompts with images"},
	{Name: "request-id-prefix", Group: inData, Default: "bench-<random>-", Help: "x-request-id is this and the request's number"},

	{Name: "random-input-len", Group: inRandom, Kind: kindInt, Default: "1024", Sets: setsRandom, Help: "prompt tokens"},
	{Name: "random-output-len", Group: inRandom, Kind: kindInt, Default: "128", Sets: []string{"random", "random-mm"}, Help: "tokens to generate"},
	{Name: "random-range-ratio", Group: inRandom, Keys: true, Default: "0.0", Sets: setsRandom, Help: `spread of both lengths, or {"input": a, "output": b}`},
	{Name: "random-prefix-len", Group: inRandom, Kind: kindInt, Default: "0", Sets: []string{"random", "random-mm"},
		Help: "tokens of a prefix that all prompts share, on top"},
	{Name: "random-batch-size", Group: inRandom, Kind: kindInt, Default: "1", Sets: []string{"random", "random-rerank"}, Help: "prompts in one request for embeddings or reranking"},
	{Name: "no-reranker", Group: inRandom, Arity: arityNone, Sets: []string{"random-rerank"}, Help: "count query and documents for a model that only embeds"},

	{Name: "random-mm-base-items-per-request", Group: inImages, Kind: kindInt, Default: "1", Sets: []string{"random-mm"}, Help: "images in a request"},
	{Name: "random-mm-num-mm-items-range-ratio", Group: inImages, Kind: kindFloat, Default: "0.0", Sets: []string{"random-mm"}, Help: "spread of that number, 0 to 1"},
	{Name: "random-mm-limit-mm-per-prompt", Group: inImages, Kind: kindJSON, Keys: true, Default: `{"image": 255, "video": 1}`, Sets: []string{"random-mm"},
		Help: "most items of each kind"},
	{Name: "random-mm-bucket-config", Group: inImages, Keys: true, Default: "{(256, 256, 1): 0.5, (720, 1280, 1): 0.5, (720, 1280, 16): 0.0}",
		Sets: []string{"random-mm"}, Help: "{(height, width, frames): weight, ...}", More: "One frame is an image; only images are made."},

	{Name: "custom-output-len", Group: inCustom, Kind: kindInt, Default: "256", Sets: []string{"custom", "custom_image"},
		Help: "tokens to generate; -1 takes each line's output_tokens"},
	{Name: "custom-ensure-client-side-data", Group: inCustom, Arity: arityNone, Sets: []string{"custom_image"}, Help: "read images here and send them as data URLs"},

	{Name: "sharegpt-output-len", Group: inShareGPT, Kind: kindInt, Unset: "the answer's", Sets: []string{"sharegpt"}, Help: "tokens to generate"},

	{Name: "prefix-repetition-prefix-len", Group: inPrefix, Kind: kindInt, Default: "256", Sets: []string{"prefix_repetition"}, Help: "tokens of each prefix"},
	{Name: "prefix-repetition-suffix-len", Group: inPrefix, Kind: kindInt, Default: "256", Sets: []string{"prefix_repetition"}, Help: "tokens behind it"},
	{Name: "prefix-repetition-num-prefixes", Group: inPrefix, Kind: kindInt, Default: "10", Sets: []string{"prefix_repetition"}, Help: "how many prefixes the prompts share"},
	{Name: "prefix-repetition-output-len", Group: inPrefix, Kind: kindInt, Default: "128", Sets: []string{"prefix_repetition"}, Help: "tokens to generate"},

	{Name: "spec-bench-output-len", Group: inSpecBench, Kind: kindInt, Default: "256", Sets: []string{"spec_bench"}, Help: "tokens to generate"},
	{Name: "spec-bench-category", Group: inSpecBench, Unset: "all", Sets: []string{"spec_bench"}, Help: "take the questions of one category"},

	{Name: "speed-bench-dataset-subset", Group: inSpeedBench, Default: "qualitative",
		Choices: []string{"qualitative", "throughput_1k", "throughput_2k", "throughput_8k", "throughput_16k", "throughput_32k"},
		Sets:    []string{"speed_bench"}, Help: "which of its files"},
	{Name: "speed-bench-output-len", Group: inSpeedBench, Kind: kindInt, Default: "4096", Sets: []string{"speed_bench"}, Help: "tokens to generate"},
	{Name: "speed-bench-category", Group: inSpeedBench, Unset: "all", Sets: []string{"speed_bench"}, Help: "take the questions of one category"},

	{Name: "timed-trace-chunk-hash-size", Group: inTrace, Kind: kindInt, Default: "16", Sets: []string{"timed_trace"}, Help: "tokens that one hash id stands for"},
	{Name: "timed-trace-sec-multiplier", Group: inTrace, Kind: kindFloat, Default: "1", Sets: []string{"timed_trace"}, Help: "timestamps times this are seconds"},
	{Name: "timed-trace-label-timestamp", Group: inTrace, Default: "timestamp", Sets: []string{"timed_trace"}, Help: "key of the time"},
	{Name: "timed-trace-label-input-length", Group: inTrace, Default: "input_length", Sets: []string{"timed_trace"}, Help: "key of the prompt's length"},
	{Name: "timed-trace-label-output-length", Group: inTrace, Default: "output_length", Sets: []string{"timed_trace"}, Help: "key of the answer's length"},
	{Name: "timed-trace-label-hash-ids", Group: inTrace, Default: "hash_ids", Sets: []string{"timed_trace"}, Help: "key of the prompt's hash ids"},
	{Name: "self-timed", Group: inTrace, Arity: arityToggle, Unset: "on", Sets: []string{"timed_trace"},
		Help: "send by the trace's times; --no-self-timed by the rate"},

	{Name: "hf-subset", Group: inHub, Unset: "the data set's", Sets: []string{"hf"}, Help: "subset of the data set"},
	{Name: "hf-split", Group: inHub, Unset: "the data set's", Sets: []string{"hf"}, Help: "split of the data set"},
	{Name: "hf-name", Group: inHub, Unset: "--dataset-path", Sets: []string{"hf"}, Help: "the data set whose form a local --dataset-path has"},
	{Name: "hf-output-len", Group: inHub, Kind: kindInt, Unset: "the data set's", Sets: []string{"hf"}, Help: "tokens to generate"},
	{Name: "no-stream", Group: inHub, Arity: arityNone, Sets: []string{"hf"}, Help: "fetch the whole split before sampling",
		More: "It is about data sets; answers in one piece are --stream=false."},
	{Name: "blazedit-min-distance", Group: inHub, Kind: kindFloat, Default: "0.0", Sets: []string{"hf"}, Help: "least edit distance of a blazedit row, 0 to 1"},
	{Name: "blazedit-max-distance", Group: inHub, Kind: kindFloat, Default: "1.0", Sets: []string{"hf"}, Help: "greatest edit distance of a blazedit row"},
	{Name: "asr-min-audio-len-sec", Group: inHub, Kind: kindFloat, Default: "0.0", Use: refused, Why: whyAudio, Help: "shortest audio"},
	{Name: "asr-max-audio-len-sec", Group: inHub, Kind: kindFloat, Default: "inf", Use: refused, Why: whyAudio, Help: "longest audio"},
	{Name: "bfcl-categories", Group: inHub, Use: refused, Why: "requests carry no tool schemas of BFCL", Help: "categories of BFCL"},

	{Name: "request-rate", Group: inLoad, Kind: kindFloat, List: true, Default: "inf", Help: "requests a second; inf is a closed loop; 1,2,inf: a run for each"},
	{Name: "burstiness", Group: inLoad, Kind: kindFloat, Default: "1.0", Help: "shape of the gaps' gamma distribution: 1 is Poisson, inf constant"},
	{Name: "max-concurrency", Group: inLoad, Kind: kindInt, List: true, Unset: "no limit", Help: "most requests in flight; 1,2,4: a run for each"},
	{Name: "ramp-up-strategy", Group: inLoad, Choices: []string{"linear", "exponential"}, Unset: "constant", Help: "how the rate grows from request to request"},
	{Name: "ramp-up-start-rps", Group: inLoad, Kind: kindFloat, Help: "requests a second at the first request"},
	{Name: "ramp-up-end-rps", Group: inLoad, Kind: kindFloat, Help: "requests a second at the last one"},
	{Name: "num-warmups", Group: inLoad, Kind: kindInt, Default: "0", Help: "untimed requests before"},
	{Name: "ready-check-timeout-sec", Group: inLoad, Kind: kindInt, Default: "0", Unset: "no check", Help: "try request 0 for so long before starting"},
	{Name: "probe-request-rate", Group: inLoad, Kind: kindFloat, Default: "0.0", Help: "requests for one token a second, beside the load"},
	{Name: "lora-modules", Group: inLoad, Arity: aritySome, Help: "NAME ... of adapters to send in place of the model's"},
	{Name: "lora-assignment", Group: inLoad, Default: "random", Choices: []string{"random", "round-robin"}, Help: "how requests are given to adapters"},
	{Name: "profile", Group: inLoad, Arity: arityNone, Help: "start and stop the server's profiler"},
	{Name: "use-beam-search", Group: inLoad, Arity: arityNone, Use: accepted, Why: "vLLM's client never looks at it either", Help: "nothing"},

	{Name: "temperature", Group: inSampling, Kind: kindFloat, Unset: "the server's", Help: "sampling temperature"},
	{Name: "top-p", Group: inSampling, Kind: kindFloat, Unset: "the server's", Help: "sampling parameter"},
	{Name: "top-k", Group: inSampling, Kind: kindInt, Unset: "the server's", Help: "sampling parameter"},
	{Name: "min-p", Group: inSampling, Kind: kindFloat, Unset: "the server's", Help: "sampling parameter"},
	{Name: "frequency-penalty", Group: inSampling, Kind: kindFloat, Unset: "the server's", Help: "sampling parameter"},
	{Name: "presence-penalty", Group: inSampling, Kind: kindFloat, Unset: "the server's", Help: "sampling parameter"},
	{Name: "repetition-penalty", Group: inSampling, Kind: kindFloat, Unset: "the server's", Help: "sampling parameter"},
	{Name: "logprobs", Group: inSampling, Kind: kindInt, Help: "log probabilities to ask for (completions)"},
	{Name: "ignore-eos", Group: inSampling, Arity: arityNone, Help: "ask for all tokens; always so for random, random-mm, timed_trace"},
	{Name: "extra-body", Group: inSampling, Kind: kindJSON, Keys: true, Secret: true, Help: "JSON object merged over each request's body"},

	{Name: "save-result", Group: inOutput, Arity: arityNone, Help: "write the result, and beside it manifest, records and histograms"},
	{Name: "save-detailed", Group: inOutput, Arity: arityNone, Help: "with arrays of every request in the result, generated texts among them"},
	{Name: "append-result", Group: inOutput, Arity: arityNone, Help: "append the result to its file as a line"},
	{Name: "metadata", Group: inOutput, Arity: arityMany, Help: "KEY=VALUE ... for the result"},
	{Name: "result-dir", Group: inOutput, Kind: kindDir, Unset: ".", Help: "folder of the result file"},
	{Name: "result-filename", Group: inOutput, Kind: kindFile, Unset: "LABEL-RATEqps-MODEL-TIME.json", Help: "name of the result file"},
	{Name: "label", Group: inOutput, Unset: "the backend", Help: "first part of that name, and a key of the result"},
	{Name: "percentile-metrics", Group: inOutput, Unset: "ttft,tpot,itl; pooling: e2el", Help: "metrics to show and save",
		More: "Some of ttft, tpot, itl, e2el, client_queue_time, e2el_including_client_queue, with commas."},
	{Name: "metric-percentiles", Group: inOutput, Default: "99", Help: "percentiles to show and save, with commas"},
	{Name: "goodput", Group: inOutput, Arity: aritySome, Help: "METRIC:MS ... bounds on ttft, tpot, e2el"},
	{Name: "plot-timeline", Group: inOutput, Arity: arityNone, Help: "write a page with the timeline of all requests"},
	{Name: "timeline-itl-thresholds", Group: inOutput, Default: "25,50", Help: "two times between tokens in ms that colour the timeline"},
	{Name: "plot-dataset-stats", Group: inOutput, Arity: arityNone, Help: "write a page with the lengths of prompts and answers"},
	{Name: "disable-tqdm", Group: inOutput, Arity: arityNone, Help: "show no progress"},

	{Name: "replica-url", Group: inOwnConnection, Arity: aritySome, Repeats: true, Own: true, Help: "URL ... of further servers that get requests in turn",
		More: "May be repeated. --base-url is the first of them; without it (and --host, --port) the first of these is."},
	{Name: "reset-prefix-cache", Group: inOwnConnection, Arity: arityNone, Own: true, Help: "empty the server's prefix cache before the warm-up",
		More: "vLLM allows it when started with VLLM_SERVER_DEV_MODE=1."},
	{Name: "salt", Group: inOwnConnection, Own: true, Help: "TEXT: share no prefix cache with other salts; auto draws one",
		More: "vLLM gets it as cache_salt, other servers in the prompt, where a text is a few tokens longer for it."},
	{Name: "token-accounting", Group: inOwnConnection, Own: true, Default: "chunks", OwnChoices: []string{"chunks", "ids", "usage", "auto"},
		Help: "what to ask the server for, to know the tokens of each event"},
	{Name: "server-timing", Group: inOwnConnection, Arity: arityNone, Own: true, Help: "record the server's own timing of each request and report the difference"},
	{Name: "timeout-connect", Group: inOwnConnection, Own: true, Unset: "10s", Help: "give up connecting after so long; 0 never"},
	{Name: "timeout-headers", Group: inOwnConnection, Own: true, Unset: "never", Help: "end a request without response headers after so long"},
	{Name: "timeout-stall", Group: inOwnConnection, Own: true, Unset: "600s", Help: "end a stream without an event for so long; 0 never"},
	{Name: "timeout-total", Group: inOwnConnection, Own: true, Unset: "6h", Help: "end a request after so long; 0 never"},
	{Name: "stream", Group: inOwnConnection, Arity: arityNone, Own: true, Default: "true", Help: "--stream=false asks for answers in one piece"},
	{Name: "strict-openai", Group: inOwnConnection, Arity: arityNone, Own: true, Help: "send only OpenAI's own parameters"},
	{Name: "max-event-bytes", Group: inOwnConnection, Kind: kindInt, Own: true, Unset: "16 MiB", Help: "longest event of a stream"},
	{Name: "no-kernel-stamps", Group: inOwnConnection, Arity: arityNone, Own: true, Help: "take the time of reading for arrivals"},

	{Name: "prompt-form", Group: inOwnData, Own: true, Default: "text", OwnChoices: []string{"text", "token-ids"}, Help: "how prompts are sent (token-ids: completions)"},
	{Name: "warmup-prompts", Group: inOwnData, Own: true, Default: "distinct", OwnChoices: []string{"distinct", "first"},
		Help: "distinct ones of their own, or request 0 as in vLLM"},
	{Name: "sonnet-input-len", Group: inOwnData, Kind: kindInt, Own: true, Default: "550", Sets: []string{"sonnet"}, Help: "prompt tokens (an older vLLM's)"},
	{Name: "sonnet-output-len", Group: inOwnData, Kind: kindInt, Own: true, Default: "150", Sets: []string{"sonnet"}, Help: "tokens to generate (an older vLLM's)"},
	{Name: "sonnet-prefix-len", Group: inOwnData, Kind: kindInt, Own: true, Default: "200", Sets: []string{"sonnet"}, Help: "tokens all prompts begin with (an older vLLM's)"},
	{Name: "hf-prompt-column", Group: inOwnData, Own: true, Sets: []string{"hf"}, Help: "column with the prompts of a data set that vLLM does not know"},
	{Name: "hf-output-column", Group: inOwnData, Own: true, Sets: []string{"hf"}, Help: "column with the answers, whose lengths are asked for"},

	{Name: "pacing", Group: inOwnRun, Own: true, Default: "hybrid", OwnChoices: []string{"hybrid", "sleep"}, Help: "sleep, or sleep then spin where a core is free"},
	{Name: "num-runs", Group: inOwnRun, Kind: kindInt, Own: true, Default: "1", Help: "whole runs, each saved, with a summary of how they differ",
		More: "Servers of a run file are started anew for each. Else each run has a salt of its own, or the cache is emptied where --reset-prefix-cache is given."},
	{Name: "until-ci", Group: inOwnRun, Own: true, Unset: "never", Help: "SHARE, such as 2%: end --num-runs early once the output throughput is known to within it"},
	{Name: "drain", Group: inOwnRun, Own: true, Default: "10s", Help: "after a first interrupt, time for requests in flight to end"},
	{Name: "dry-run", Group: inOwnRun, Arity: arityNone, Own: true, Help: "show the plan and the body of request 0; send nothing"},
	{Name: "telemetry-gpu", Group: inOwnRun, Arity: arityNone, Own: true, Help: "watch this host's GPUs by nvidia-smi during the timed requests"},
	{Name: "telemetry-interval", Group: inOwnRun, Own: true, Unset: "1s", Help: "time between looks at the GPUs"},
	{Name: "telemetry-devices", Group: inOwnRun, Own: true, Unset: "all", Help: "indices of the GPUs, with commas, as nvidia-smi numbers them"},
	{Name: "telemetry-engine-metrics", Group: inOwnRun, Arity: arityNone, Own: true, Default: "true",
		Help: "=false reads no counters from the server's /metrics"},
	{Name: "manifest", Group: inOwnRun, Kind: kindFile, Own: true, Help: "write the manifest here"},
	{Name: "records", Group: inOwnRun, Kind: kindFile, Own: true, Help: "write the request records here"},
	{Name: "subject", Group: inOwnRun, Kind: kindFile, Own: true, Help: "YAML file that declares the model for the manifest"},
	{Name: "raw-samples", Group: inOwnRun, Kind: kindInt, Own: true, Unset: "64 Mi", Help: "samples of a metric held exactly; beyond it a histogram answers"},
	{Name: "strict", Group: inOwnRun, Arity: arityNone, Own: true, Help: "exit 4 unless the run's verdict is VALID"},
	{Name: "fail-on-leak", Group: inOwnRun, Arity: arityNone, Own: true, Help: "exit 4 where a written file holds a key, home folder, name or LAN address"},

	{Name: "run-file", Group: inOwnRun, Kind: kindFile, Own: true, Help: "-f FILE: YAML file with flags and all else of a run, or a manifest; other flags go before it"},

	{Name: "sim", Group: inSim, Arity: arityNone, Own: true, Help: "start the embedded simulator and benchmark it"},
	{Name: "sim-ttft", Group: inSim, Own: true, Default: "50ms", Help: "its time to first token"},
	{Name: "sim-itl", Group: inSim, Own: true, Default: "10ms", Help: "its time between tokens"},
	{Name: "sim-per-prompt-token", Group: inSim, Own: true, Default: "0s", Help: "added to the time to first token for each prompt token"},
	{Name: "sim-jitter", Group: inSim, Kind: kindFloat, Own: true, Default: "0", Help: "spread of its times, 0 to 1"},
	{Name: "sim-slots", Group: inSim, Kind: kindInt, Own: true, Default: "0", Help: "requests it serves at once, 0 for no limit"},
	{Name: "sim-tokens-per-chunk", Group: inSim, Kind: kindInt, Own: true, Default: "1", Help: "tokens in an event after the first"},
	{Name: "sim-like", Group: inSim, Kind: kindFile, Own: true, Help: "behave as the server of this manifest did; FILE#ID is one run of an experiment"},
	{Name: "sim-seed", Group: inSim, Kind: kindInt, Own: true, Default: "0", Help: "seed of its jitter"},
}

// flagByName finds a row of the table.
var flagByName = func() map[string]flagSpec {
	m := map[string]flagSpec{}
	for _, s := range flagTable {
		m[s.Name] = s
	}
	return m
}()
