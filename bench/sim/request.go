package sim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// api is which of the endpoints that generate a request came to.
type api int

const (
	ofCompletion api = iota
	ofChat
	ofResponse
)

// generation is one accepted request for tokens.
type generation struct {
	api          api
	model        string // as the answer names it
	promptTokens int
	promptIDs    []int32 // only with returnIDs or a prefix cache
	maxTokens    int
	salt         string // of the prefix cache

	stream          bool
	includeUsage    bool
	continuousUsage bool
	returnIDs       bool
	echo            echo // of a response
}

// prompt is text, or token ids where ids is not nil.
type prompt struct {
	text string
	ids  []int32
}

func (p prompt) tokens() int {
	if p.ids != nil {
		return len(p.ids)
	}
	return countTokens(p.text)
}

func (p prompt) tokenIDs() []int32 {
	if p.ids != nil {
		return p.ids
	}
	return tokenize(p.text)
}

// decodeGeneration reads a body of one of the endpoints that generate. The order of the checks is vLLM's: JSON,
// types, single parameters, then the prompt's length. Parameters it does not know, and those that would shape the text
// (sampling, stop, logprobs, tools), are ignored.
func (s *Server) decodeGeneration(body []byte, of api) (*generation, *apiError) {
	f, bad := decodeFields(body)
	if bad != nil {
		return nil, bad
	}
	g := &generation{api: of, model: f.text("model", s.modelName()), maxTokens: defaultMaxTokens}
	g.stream = f.flag("stream", false)
	if n, ok := f.maxTokens(of); ok {
		g.maxTokens = n
	}
	choices, several := 1, false
	temperature, heated := f.number("temperature")
	if of == ofResponse {
		g.echo = f.echo(temperature, heated)
	} else {
		g.returnIDs = f.flag("return_token_ids", false)
		choices, several = f.integer("n")
		f.streamOptions(g)
	}
	g.salt = f.text("cache_salt", "")
	p, bad := f.prompt(of)
	if invalid := f.err(); invalid != nil {
		return nil, invalid
	}
	switch {
	case bad != nil:
		return nil, bad
	case f.has("cache_salt") && g.salt == "":
		return nil, badRequest("cache_salt", "Parameter 'cache_salt' must be a non-empty string if provided. (parameter=cache_salt)")
	case utf8.RuneCountInString(g.salt) > 128 || strings.ContainsAny(g.salt, "@/\\\x00"):
		return nil, badRequest("cache_salt", "Parameter 'cache_salt' must be at most 128 characters and must not contain '@', '/', '\\\\', or NUL. (parameter=cache_salt)")
	case f.has("stream_options") && !g.stream && of != ofResponse:
		return nil, badRequest("stream_options", "Stream options can only be defined when `stream=True`. (parameter=stream_options)")
	case !s.serves(g.model):
		return nil, s.unknownModel(g.model)
	case several && choices != 1:
		return nil, badValue("n", choices, "n must be 1 on this server, got %d.", choices)
	case heated && temperature < 0:
		return nil, badValue("temperature", pythonFloat(temperature), "temperature must be non-negative, got %s.", pythonFloat(temperature))
	case g.maxTokens < 1:
		return nil, badValue("max_tokens", g.maxTokens, "max_tokens must be at least 1, got %d.", g.maxTokens)
	}
	return g, s.measure(g, p)
}

// measure counts the prompt and checks that it and the answer fit the model.
func (s *Server) measure(g *generation, p prompt) *apiError {
	limit := s.cfg.MaxModelLen
	if g.maxTokens > limit {
		return badValue("max_tokens", g.maxTokens,
			"max_tokens=%d cannot be greater than max_model_len=%d. Please request fewer output tokens.", g.maxTokens, limit)
	}
	if g.promptTokens = p.tokens(); g.promptTokens > limit {
		// vLLM stops counting one past the limit.
		return badValue("input_tokens", limit+1, "This model's maximum context length is %d tokens. However, your prompt "+
			"contains at least %d input tokens, which exceeds this limit even without any output tokens. Please reduce the "+
			"length of the input prompt.", limit, limit+1)
	}
	if total := g.promptTokens + g.maxTokens; total > limit {
		// vLLM stops counting the prompt where it leaves no room for max_tokens.
		least := limit - g.maxTokens + 1
		return badValue("input_tokens", least, "This model's maximum context length is %d tokens. However, you requested %d "+
			"output tokens and your prompt contains at least %d input tokens, for a total of at least %d tokens. Please "+
			"reduce the length of the input prompt or the number of requested output tokens.",
			limit, g.maxTokens, least, least+g.maxTokens)
	}
	if g.returnIDs || s.cfg.Engine != nil && s.cfg.Engine.PrefixCaching {
		g.promptIDs = p.tokenIDs()
	}
	return nil
}

// fields is a JSON object whose members are read one by one, collecting what vLLM's own validation would say about them.
type fields struct {
	raw      map[string]json.RawMessage
	problems []string // as vLLM prints them
	param    string   // where the first of them is
}

// decodeFields never returns a nil *fields without an error. Keys are matched exactly and the last of equal keys wins,
// as in Python.
func decodeFields(body []byte) (*fields, *apiError) {
	f := &fields{}
	err := json.Unmarshal(body, &f.raw)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		at := int(syntax.Offset)
		if at > 0 && syntax.Error() != "unexpected end of JSON input" {
			at-- // Go counts the bytes read, Python names the one it stopped at
		}
		loc := "body." + strconv.Itoa(at)
		f.problem(loc, "'json_invalid'", "'JSON decode error'", "'<dict of 0 items>', 'ctx': {'error': "+pythonString(pythonSyntax(syntax.Error()))+"}")
		return nil, f.err()
	}
	if err != nil || f.raw == nil {
		f.problem("body", "'model_attributes_type'", "'Input should be a valid dictionary or object to extract fields from'", pythonValue(body))
		return nil, f.err()
	}
	return f, nil
}

// has says whether a field is there and not null.
func (f *fields) has(name string) bool {
	raw, ok := f.raw[name]
	return ok && string(raw) != "null"
}

func (f *fields) problem(loc, kind, msg, input string) {
	if f.param == "" {
		f.param = loc
	}
	f.problems = append(f.problems, "  {'type': "+kind+", 'loc': '"+loc+"', 'msg': "+msg+", 'input': "+input+"}")
}

// err is the 400 that reports every problem at once, or nil.
func (f *fields) err() *apiError {
	switch len(f.problems) {
	case 0:
		return nil
	case 1:
		return &apiError{400, "1 validation error:\n" + f.problems[0], "Bad Request", f.param}
	}
	return &apiError{400, fmt.Sprintf("%d validation errors:\n%s", len(f.problems), strings.Join(f.problems, "\n")), "Bad Request", f.param}
}

// text is a string, or fallback where there is none.
func (f *fields) text(name, fallback string) string {
	if !f.has(name) {
		return fallback
	}
	var v string
	if json.Unmarshal(f.raw[name], &v) != nil {
		f.problem("body."+name, "'string_type'", "'Input should be a valid string'", pythonValue(f.raw[name]))
		return fallback
	}
	return v
}

func (f *fields) flag(name string, fallback bool) bool {
	if !f.has(name) {
		return fallback
	}
	// pydantic's lax reading of a boolean, as far as clients use it.
	switch string(f.raw[name]) {
	case "true", "1", `"true"`:
		return true
	case "false", "0", `"false"`:
		return false
	}
	f.problem("body."+name, "'bool_parsing'", "'Input should be a valid boolean, unable to interpret input'", pythonValue(f.raw[name]))
	return fallback
}

// integer also takes 5.0 and "5", as pydantic does.
func (f *fields) integer(name string) (int, bool) {
	if !f.has(name) {
		return 0, false
	}
	raw := f.raw[name]
	text, quoted := strings.CutPrefix(strings.TrimSuffix(string(raw), `"`), `"`)
	if n, err := strconv.Atoi(text); err == nil {
		return n, true
	}
	if v, err := strconv.ParseFloat(text, 64); err == nil && !quoted && v == math.Trunc(v) && math.Abs(v) < 1<<53 {
		return int(v), true
	}
	switch c := raw[0]; {
	case quoted:
		f.problem("body."+name, "'int_parsing'", "'Input should be a valid integer, unable to parse string as an integer'", pythonValue(raw))
	case c == '-' || (c >= '0' && c <= '9'):
		f.problem("body."+name, "'int_from_float'", "'Input should be a valid integer, got a number with a fractional part'", pythonValue(raw))
	default:
		f.problem("body."+name, "'int_type'", "'Input should be a valid integer'", pythonValue(raw))
	}
	return 0, false
}

func (f *fields) number(name string) (float64, bool) {
	if !f.has(name) {
		return 0, false
	}
	raw := f.raw[name]
	text, quoted := strings.CutPrefix(strings.TrimSuffix(string(raw), `"`), `"`)
	v, err := strconv.ParseFloat(text, 64)
	switch {
	case err == nil && !math.IsNaN(v):
		return v, true
	case quoted:
		f.problem("body."+name, "'float_parsing'", "'Input should be a valid number, unable to parse string as a number'", pythonValue(raw))
	default:
		f.problem("body."+name, "'float_type'", "'Input should be a valid number'", pythonValue(raw))
	}
	return 0, false
}

func (f *fields) streamOptions(g *generation) {
	if !f.has("stream_options") {
		return
	}
	inner := fields{}
	if json.Unmarshal(f.raw["stream_options"], &inner.raw) != nil {
		f.problem("body.stream_options", "'model_attributes_type'",
			"'Input should be a valid dictionary or object to extract fields from'", pythonValue(f.raw["stream_options"]))
		return
	}
	g.includeUsage = inner.flag("include_usage", false)
	// vLLM looks at the continuous flag only beside the other one.
	g.continuousUsage = inner.flag("continuous_usage_stats", false) && g.includeUsage
	for _, p := range inner.problems {
		f.problems = append(f.problems, strings.Replace(p, "'loc': 'body.", "'loc': 'body.stream_options.", 1))
	}
	if f.param == "" && inner.param != "" {
		f.param = "body.stream_options." + strings.TrimPrefix(inner.param, "body.")
	}
}

// maxTokens is the length asked for, under the name that the endpoint knows.
func (f *fields) maxTokens(of api) (n int, ok bool) {
	if of == ofResponse {
		return f.integer("max_output_tokens")
	}
	n, ok = f.integer("max_tokens")
	if of == ofChat {
		if c, also := f.integer("max_completion_tokens"); also {
			return c, true
		}
	}
	return n, ok
}

// missing is the problem of a required member that is not there.
func (f *fields) missing(name string) {
	f.problem("body."+name, "'missing'", "'Field required'", fmt.Sprintf("'<dict of %d items>'", len(f.raw)))
}

func (f *fields) prompt(of api) (prompt, *apiError) {
	switch of {
	case ofChat:
		if !f.has("messages") {
			f.missing("messages")
			return prompt{}, nil
		}
		return f.messages("messages", true)
	case ofResponse:
		return f.responseInput()
	}
	var p prompt
	var bad *apiError
	if f.has("prompt") {
		p, bad = f.promptValue("prompt", f.raw["prompt"], true)
	}
	if bad == nil && p.text == "" && len(p.ids) == 0 && len(f.problems) == 0 {
		bad = badRequest("prompt", "Either prompt or prompt_embeds must be provided and non-empty. (parameter=prompt)")
	}
	return p, bad
}

// promptValue reads a string, a list of ids, or, where nested is set, a list that holds one of the two.
func (f *fields) promptValue(name string, raw json.RawMessage, nested bool) (prompt, *apiError) {
	wrong := func() (prompt, *apiError) {
		f.problem("body."+name, "'string_type'", "'Input should be a valid string'", pythonValue(raw))
		return prompt{}, nil
	}
	switch raw[0] {
	case '"':
		var p prompt
		_ = json.Unmarshal(raw, &p.text) // a valid JSON value that starts with a quote is a string
		return p, nil
	case '[':
	default:
		return wrong()
	}
	first := bytes.TrimLeft(raw[1:], " \t\r\n")[0]
	if nested && (first == '"' || first == '[') {
		var list []json.RawMessage
		_ = json.Unmarshal(raw, &list) // and one that starts with a bracket a list
		if len(list) != 1 {
			return prompt{}, badRequest("prompt", fmt.Sprintf("This server takes one prompt per request, got %d. (parameter=prompt)", len(list)))
		}
		return f.promptValue(name, list[0], false)
	}
	ids, ok, bad := decodeIDs(raw)
	if bad == nil && !ok {
		return wrong()
	}
	return prompt{ids: ids}, bad
}

// tokenList reads a required list of ids.
func (f *fields) tokenList(name string) ([]int32, *apiError) {
	if !f.has(name) {
		f.missing(name)
		return nil, f.err()
	}
	ids, ok, bad := decodeIDs(f.raw[name])
	if bad == nil && !ok {
		f.problem("body."+name, "'list_type'", "'Input should be a valid list of integers'", pythonValue(f.raw[name]))
		bad = f.err()
	}
	return ids, bad
}

// decodeIDs reads a list of ids, never nil; ok is false where raw, a valid JSON value, is none. Splitting by hand
// and not with encoding/json halves the cost of a request with 4,096 ids (BenchmarkRequest: 2.3 to 1.1 ms on a busy machine).
func decodeIDs(raw json.RawMessage) (ids []int32, ok bool, bad *apiError) {
	if raw[0] != '[' {
		return nil, false, nil
	}
	ids = make([]int32, 0, len(raw)/6)
	inside := bytes.TrimSpace(raw[1 : len(raw)-1])
	if len(inside) == 0 {
		return ids, true, nil
	}
	for item := range bytes.SplitSeq(inside, []byte(",")) {
		id, err := strconv.ParseInt(string(bytes.TrimSpace(item)), 10, 64)
		if err != nil { // a text, a fraction, null, or part of an inner list
			return nil, false, nil
		}
		if id < 0 || id >= vocabSize {
			return nil, false, &apiError{400, fmt.Sprintf("Token id %d is out of vocabulary", id), "BadRequestError", ""}
		}
		ids = append(ids, int32(id))
	}
	return ids, true, nil
}

// messages renders a chat, the member of that name, by the template in the package comment.
func (f *fields) messages(name string, generationPrompt bool) (prompt, *apiError) {
	var list []struct {
		Role    string
		Content json.RawMessage
	}
	if err := json.Unmarshal(f.raw[name], &list); err != nil {
		f.problem("body."+name, "'list_type'", "'Input should be a valid list of messages'", pythonValue(f.raw[name]))
		return prompt{}, nil
	}
	if len(list) == 0 {
		return prompt{}, badRequest(name, name+" must not be empty. (parameter="+name+")")
	}
	var b strings.Builder
	for i, m := range list {
		if m.Role == "" {
			f.problem(fmt.Sprintf("body.%s.%d.role", name, i), "'missing'", "'Field required'", "'<dict>'")
		}
		b.WriteString(" " + m.Role + ":")
		if !writeContent(&b, m.Content) {
			f.problem(fmt.Sprintf("body.%s.%d.content", name, i), "'string_type'",
				"'Input should be a valid string or a list of text parts'", pythonValue(m.Content))
		}
		b.WriteByte('\n')
	}
	if generationPrompt {
		b.WriteString(" assistant:")
	}
	return prompt{text: b.String()}, nil
}

// writeContent writes the text of a message's content; it reports false where that is neither text nor absent.
func writeContent(b *strings.Builder, raw json.RawMessage) bool {
	if len(raw) == 0 || string(raw) == "null" {
		return true
	}
	if raw[0] == '"' {
		var text string
		_ = json.Unmarshal(raw, &text)
		b.WriteString(text)
		return true
	}
	var parts []struct {
		Type  string
		Text  *string
		Image struct{ URL string } `json:"image_url"`
		Video struct{ URL string } `json:"video_url"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return false
	}
	for _, p := range parts {
		switch {
		case p.Image.URL != "" && p.Type == "image_url", p.Video.URL != "" && p.Type == "video_url":
			// Nobody looks at it, and it counts as no token.
		case p.Text == nil:
			return false
		case p.Type == "text", p.Type == "input_text", p.Type == "output_text": // the latter two are the Responses API's
			b.WriteString(*p.Text)
		default:
			return false
		}
	}
	return true
}

// pythonValue is how vLLM's errors show an input: containers by their size, the rest by its repr.
func pythonValue(raw []byte) string {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return "None"
	}
	switch v := v.(type) {
	case string:
		return pythonString(v)
	case bool:
		if v {
			return "True"
		}
		return "False"
	case []any:
		return fmt.Sprintf("'<list of %d items>'", len(v))
	case map[string]any:
		return fmt.Sprintf("'<dict of %d items>'", len(v))
	case nil:
		return "None"
	}
	return string(bytes.TrimSpace(raw))
}

// pythonString is repr(s), cut to a length an error can carry.
func pythonString(s string) string {
	if r := []rune(s); len(r) > 100 {
		s = string(r[:100]) + "..."
	}
	s = strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(s)
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		return `"` + s + `"`
	}
	return "'" + strings.ReplaceAll(s, "'", `\'`) + "'"
}

// pythonFloat is repr(v) for the sizes parameters have: a whole number keeps its ".0".
func pythonFloat(v float64) string {
	s := strconv.FormatFloat(v, 'g', -1, 64)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return s
}

// pythonSyntax is the reason Python's json module gives where Go's gives msg.
func pythonSyntax(msg string) string {
	for _, known := range [...]struct{ of, reason string }{
		{"object key string", "Expecting property name enclosed in double quotes"},
		{"after object key:value pair", "Expecting ',' delimiter"},
		{"after array element", "Expecting ',' delimiter"},
		{"after object key", "Expecting ':' delimiter"},
		{"after top-level value", "Extra data"},
		{"escape code", "Invalid \\escape"},
		{"string literal", "Invalid control character at"},
	} {
		if strings.Contains(msg, known.of) {
			return known.reason
		}
	}
	return "Expecting value"
}
