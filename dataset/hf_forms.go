package dataset

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// hubForm says how requests are made of the rows of a data set of the hub.
type hubForm struct {
	subset, split string // where none is asked for; no split stands for train
	wholeSubset   bool   // the data set's subsets are not chosen from
	columns       []string
	output        int  // tokens to ask for; 0 stands for the answer's
	template      bool // vLLM renders the chat template around the prompt
	image         bool // needs a chat endpoint
	bare          bool // the answer is counted without special tokens
	limit         hubLimit
	item          func(s Spec, r hubCells) (hubItem, error)
}

// hubLimit bounds lengths as vLLM's is_valid_sequence. Its zero value bounds
// nothing.
type hubLimit struct {
	prompt, total int
	always        bool // also where the length of answers is given
}

// allows reports whether a row is used; both lengths are at least 4 tokens.
func (l hubLimit) allows(prompt, output int) bool {
	return l == hubLimit{} || prompt >= 4 && output >= 4 && prompt <= l.prompt && prompt+output <= l.total
}

// hubItem is what a row gives.
type hubItem struct {
	prompt   string
	messages []hubMessage // in place of prompt
	parts    []json.RawMessage
	answer   string
	skip     string // why the row is not used; "" where it is
}

// hubMessage is a message of a chat, in the form that servers take.
type hubMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// hubCells are the columns of one row.
type hubCells map[string]any

// Reasons to leave a row out, for a warning.
const (
	skipEmpty  = "no prompt"
	skipAnswer = "no answer"
	skipTurns  = "fewer than two turns"
	skipLength = "a prompt or an answer of a length that vllm bench serve leaves out"
	skipEdit   = "an edit distance outside blazedit-min-distance and blazedit-max-distance"
	skipRole   = "a role that no chat has"
	skipImage  = "no image"
)

// at follows a path of keys and indices into a column. What is not there is nil.
func (r hubCells) at(column string, path ...any) any {
	v := r[column]
	for _, step := range path {
		switch step := step.(type) {
		case string:
			group, _ := v.(map[string]any)
			v = group[step]
		case int:
			list, _ := v.([]any)
			if step >= len(list) {
				return nil
			}
			v = list[step]
		}
	}
	return v
}

// text returns a text; "" where it is missing.
func (r hubCells) text(column string, path ...any) (string, error) {
	text, err := asText(r.at(column, path...))
	if err != nil {
		for _, step := range path {
			column += fmt.Sprintf(".%v", step)
		}
		return "", fmt.Errorf("column %s %w", column, err)
	}
	return text, nil
}

func asText(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", nil
	case string:
		if !utf8.ValidString(v) {
			return "", fmt.Errorf("is not UTF-8; want text")
		}
		return v, nil
	}
	return "", fmt.Errorf("is %s; want a string", cellKind(v))
}

func cellKind(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "a string"
	case []byte:
		return "bytes"
	case []any:
		return "a list"
	case map[string]any:
		return "a group"
	case bool:
		return "a boolean"
	}
	return "a number"
}

// texts reads several columns of text.
func (r hubCells) texts(columns ...string) ([]string, error) {
	out := make([]string, len(columns))
	for i, c := range columns {
		var err error
		if out[i], err = r.text(c); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// hubForms are vLLM's data sets of the hub, by id.
var hubForms = map[string]hubForm{
	"likaixin/InstructCoder": {columns: []string{"input", "instruction"}, output: 200, template: true, item: instructCoder},
	"philschmid/mt-bench":    {columns: []string{"turns"}, output: 256, template: true, item: oneText("turns", 0)},
	"openai/openai_humaneval": {split: "test", columns: []string{"prompt"}, output: 256, template: true,
		item: oneText("prompt")},
	"openai/gsm8k": {subset: "main", split: "test", columns: []string{"question"}, output: 256, template: true,
		item: oneText("question")},
	"vdaita/edit_5k_char":                  blazedit,
	"vdaita/edit_10k_char":                 blazedit,
	"Aeala/ShareGPT_Vicuna_unfiltered":     {columns: []string{"conversations"}, limit: hubLimit{prompt: 1024, total: 2048}, item: twoTurns},
	"AI-MO/aimo-validation-aime":           aimo,
	"AI-MO/NuminaMath-1.5":                 aimo,
	"AI-MO/NuminaMath-CoT":                 aimo,
	"zed-industries/zeta":                  {columns: []string{"events", "input", "output"}, item: nextEdit},
	"mgoin/mlperf-inference-llama2-data":   mlperf,
	"mgoin/mlperf-inference-llama3.1-data": mlperf,
	"lmarena-ai/VisionArena-Chat": {wholeSubset: true, columns: []string{"conversation", "images"}, output: 128, image: true,
		item: visionArena("conversation")},
	"lmarena-ai/vision-arena-bench-v0.1": {wholeSubset: true, columns: []string{"turns", "images"}, output: 128, image: true,
		item: visionArena("turns")},
	"Lin-Chen/MMStar": {split: "val", wholeSubset: true, columns: []string{"question", "image"}, output: 128, image: true, item: mmStar},
}

var (
	blazedit = hubForm{columns: []string{"code", "change_request", "norm_distance"}, output: 4000, template: true, item: edit}
	aimo     = hubForm{columns: []string{"problem", "solution"}, limit: hubLimit{prompt: 2048, total: 32000}, item: problem}
	mlperf   = hubForm{columns: []string{"system_prompt", "question", "output"}, template: true, bare: true,
		limit: hubLimit{prompt: 1024, total: 2048, always: true}, item: mlperfItem}
)

// notSent are vLLM's other data sets of the hub, with what they consist of.
var notSent = map[string]string{
	"yale-nlp/MMVU":                            "videos",
	"lmms-lab/LLaVA-OneVision-Data":            "conversations about images",
	"openslr/librispeech_asr":                  "audio",
	"facebook/voxpopuli":                       "audio",
	"LIUM/tedlium":                             "audio",
	"edinburghcstr/ami":                        "audio",
	"speechcolab/gigaspeech":                   "audio",
	"kensho/spgispeech":                        "audio",
	"ArtificialAnalysis/Earnings22-Cleaned-AA": "audio",
	"D4nt3/esb-datasets-earnings22-validation-tiny-filtered": "audio",
	"gorilla-llm/Berkeley-Function-Calling-Leaderboard":      "function calls, in a format of its own",
}

// hubForm finds the form of s: its prompt column's, else that of the data set
// whose form it has. The zero form stands for rows of an unknown form.
func (s Spec) hubForm() hubForm {
	if s.Hub.PromptColumn != "" {
		return s.columnForm(s.Hub.PromptColumn)
	}
	if f, ok := hubForms[s.Hub.Name]; ok {
		return f
	}
	return hubForms[s.Path]
}

func (s Spec) validateHub(bad *problems) {
	bad.whole("num-prompts", int64(s.Prompts), 1, maxCount)
	if s.OutputLen != -1 {
		bad.whole("hf-output-len", int64(s.OutputLen), 1, maxLen)
	}
	if s.Path == "" {
		bad.addf("dataset-path: missing; want the id of a data set of the hub, like openai/gsm8k, or a folder with .parquet files")
	}
	if strings.ContainsAny(s.Hub.Split, "[]+:%/") {
		bad.addf("hf-split: %q is no name; want the name of one split, without a part of it or a sum", s.Hub.Split)
	}
	for _, id := range []string{s.Hub.Name, s.Path} {
		if what := notSent[id]; what != "" && s.Hub.PromptColumn == "" {
			bad.addf("dataset-path: %s consists of %s, which are not sent from it; want another data set, or hf-prompt-column with its column of texts", id, what)
			break
		}
	}
	if _, ok := hubForms[s.Hub.Name]; !ok && s.Hub.Name != "" && notSent[s.Hub.Name] == "" && s.Hub.PromptColumn == "" {
		bad.addf("hf-name: the form of %q is not known; want one of %s, or hf-prompt-column", s.Hub.Name, strings.Join(slices.Sorted(maps.Keys(hubForms)), ", "))
	}
	if s.Hub.OutputColumn != "" && s.Hub.PromptColumn == "" {
		bad.addf("hf-output-column: has no meaning without hf-prompt-column; want both")
	}
	form := s.hubForm()
	if form.image && !s.Chat {
		bad.addf("dataset-path: %s has images, which only a chat endpoint takes; want a chat backend, or hf-prompt-column with its column of texts", s.Path)
	}
	if slices.Equal(form.columns, blazedit.columns) && !(s.Hub.MinDistance <= s.Hub.MaxDistance) {
		bad.addf("blazedit-min-distance: %v to %v holds no distance; want blazedit-min-distance <= blazedit-max-distance",
			s.Hub.MinDistance, s.Hub.MaxDistance)
	}
}

// oneText is a form whose prompt is a text of the row.
func oneText(column string, path ...any) func(Spec, hubCells) (hubItem, error) {
	return func(_ Spec, r hubCells) (hubItem, error) {
		prompt, err := r.text(column, path...)
		return hubItem{prompt: prompt}, err
	}
}

// Note: the fixed texts below are part of vLLM's prompts.

func instructCoder(_ Spec, r hubCells) (hubItem, error) {
	t, err := r.texts("input", "instruction")
	if err != nil || t[1] == "" {
		return hubItem{skip: skipEmpty}, err
	}
	return hubItem{prompt: t[0] + "\n\n" + t[1] + " Just output the code, do not include any explanation."}, nil
}

func edit(s Spec, r hubCells) (hubItem, error) {
	t, err := r.texts("code", "change_request")
	if err != nil {
		return hubItem{}, err
	}
	var distance float64
	switch v := r.at("norm_distance").(type) {
	case float64:
		distance = v
	case int64:
		distance = float64(v)
	default:
		return hubItem{}, fmt.Errorf("column norm_distance is %s; want a number", cellKind(v))
	}
	switch {
	case distance < s.Hub.MinDistance || distance > s.Hub.MaxDistance:
		return hubItem{skip: skipEdit}, nil
	case t[0] == "" && t[1] == "":
		return hubItem{skip: skipEmpty}, nil
	}
	return hubItem{prompt: "Given a code file, please apply the change requests and generate the new file.\n\nOriginal file:\n```python\n" +
		t[0] + "\n```\n\nChange request:\n" + t[1] + "\n\nPlease generate the new code file in the \"New file\" section below."}, nil
}

// twoTurns: the first turn is the prompt, the second the answer, whoever spoke.
func twoTurns(_ Spec, r hubCells) (hubItem, error) {
	if turns, _ := r.at("conversations").([]any); len(turns) < 2 {
		return hubItem{skip: skipTurns}, nil
	}
	prompt, err := r.text("conversations", 0, "value")
	if err != nil {
		return hubItem{}, err
	}
	answer, err := r.text("conversations", 1, "value")
	return hubItem{prompt: prompt, answer: answer}, err
}

func problem(_ Spec, r hubCells) (hubItem, error) {
	t, err := r.texts("problem", "solution")
	if err != nil {
		return hubItem{}, err
	}
	return hubItem{prompt: t[0], answer: t[1]}, nil
}

// nextEdit asks for what follows the mark of the region to edit; vLLM asks for
// the last character's tokens where there is no mark, this for the whole
// answer's.
func nextEdit(_ Spec, r hubCells) (hubItem, error) {
	t, err := r.texts("events", "input", "output")
	if err != nil || t[0] == "" && t[1] == "" {
		return hubItem{skip: skipEmpty}, err
	}
	answer := t[2]
	if i := strings.Index(answer, "<|editable_region_start|>"); i > 0 {
		answer = answer[i:]
	}
	return hubItem{prompt: "### Instruction:\nYou are a code completion assistant and your task is to analyze user edits and then rewrite an excerpt that " +
		"the user provides, suggesting the appropriate edits within the excerpt, taking into account the cursor location.\n\n### User Edits:\n\n" +
		t[0] + "\n\n### User Excerpt:\n\n" + t[1] + "\n\n### Response:\n\n", answer: answer}, nil
}

func mlperfItem(_ Spec, r hubCells) (hubItem, error) {
	t, err := r.texts("system_prompt", "question", "output")
	if err != nil || t[1] == "" {
		return hubItem{skip: skipEmpty}, err
	}
	return hubItem{messages: []hubMessage{{"system", t[0]}, {"user", t[1]}}, answer: t[2]}, nil
}

func visionArena(column string) func(Spec, hubCells) (hubItem, error) {
	return func(_ Spec, r hubCells) (hubItem, error) {
		prompt, err := r.text(column, 0, 0, "content")
		if err != nil {
			return hubItem{}, err
		}
		return withImage(prompt, r.at("images", 0))
	}
}

func mmStar(_ Spec, r hubCells) (hubItem, error) {
	question, err := r.text("question")
	if err != nil {
		return hubItem{}, err
	}
	question, _, _ = strings.Cut(question, "Options:")
	return withImage(strings.TrimSpace(question), r.at("image"))
}

// withImage sends the image as the data set has it; vLLM's client encodes it
// again, as a JPEG.
func withImage(prompt string, image any) (hubItem, error) {
	group, _ := image.(map[string]any)
	data, ok := group["bytes"].([]byte)
	if !ok {
		data, ok = image.([]byte)
	}
	if !ok || len(data) == 0 {
		return hubItem{skip: skipImage}, nil
	}
	kind, ok := imageKind(data)
	if !ok {
		return hubItem{skip: skipImage}, nil
	}
	return hubItem{prompt: prompt, parts: []json.RawMessage{imagePart(dataAddress(kind, data), nil)}}, nil
}

// columnForm is the form of a data set known by its columns: a text, or a list
// of a chat's messages. vLLM has nothing like it.
func (s Spec) columnForm(prompt string) hubForm {
	form := hubForm{template: true, output: columnOutput, columns: []string{prompt}}
	if s.Hub.OutputColumn != "" {
		form.output, form.columns = 0, append(form.columns, s.Hub.OutputColumn)
	}
	form.item = func(s Spec, r hubCells) (hubItem, error) {
		it, err := promptOf(r.dotted(prompt))
		if err != nil {
			return it, fmt.Errorf("column %s %w", prompt, err)
		}
		if s.Hub.OutputColumn == "" {
			return it, nil
		}
		if it.answer, err = asText(r.dotted(s.Hub.OutputColumn)); err != nil {
			return it, fmt.Errorf("column %s %w", s.Hub.OutputColumn, err)
		}
		return it, nil
	}
	return form
}

// columnOutput is asked for where a data set known by its columns has no answers:
// the default of a custom data set.
const columnOutput = 256

// dotted follows a.b.0.c; a column may have dots in its name.
func (r hubCells) dotted(path string) any {
	if v, ok := r[path]; ok {
		return v
	}
	column, rest, _ := strings.Cut(path, ".")
	var steps []any
	for step := range strings.SplitSeq(rest, ".") {
		if n, err := strconv.Atoi(step); err == nil && n >= 0 {
			steps = append(steps, n)
		} else {
			steps = append(steps, step)
		}
	}
	return r.at(column, steps...)
}

// promptOf reads a text or a conversation.
func promptOf(v any) (hubItem, error) {
	list, ok := v.([]any)
	if !ok {
		prompt, err := asText(v)
		return hubItem{prompt: prompt}, err
	}
	var out hubItem
	for i, e := range list {
		m, err := messageOf(e)
		if err != nil {
			return out, fmt.Errorf("element %d %w", i, err)
		}
		if m.Role == "" {
			return hubItem{skip: skipRole}, nil
		}
		out.messages = append(out.messages, m)
	}
	// What the model said last is the answer.
	for n := len(out.messages); n > 0 && out.messages[n-1].Role == "assistant"; n-- {
		out.messages = out.messages[:n-1]
	}
	if !slices.ContainsFunc(out.messages, hubMessage.asks) {
		out.skip = skipEmpty
	}
	return out, nil
}

// speakers are the names of roles in the older form of from and value.
var speakers = map[string]string{
	"human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant", "chatgpt": "assistant", "bing": "assistant",
	"bard": "assistant", "model": "assistant", "system": "system",
}

// messageOf reads {role, content} or {from, value}; a role that is not known is "".
func messageOf(v any) (m hubMessage, err error) {
	group, ok := v.(map[string]any)
	if !ok {
		return m, fmt.Errorf("is %s; want a message with role and content", cellKind(v))
	}
	role, content := "role", "content"
	if _, ok := group[role]; !ok {
		role, content = "from", "value"
	}
	if _, ok := group[content]; !ok {
		return m, fmt.Errorf("has neither role and content nor from and value; want a message")
	}
	if m.Role, err = asText(group[role]); err != nil {
		return m, fmt.Errorf("has a %s that %w", role, err)
	}
	if role == "from" {
		m.Role = speakers[strings.ToLower(m.Role)]
	}
	if m.Content, err = asText(group[content]); err != nil {
		return m, fmt.Errorf("has a %s that %w", content, err)
	}
	return m, nil
}
