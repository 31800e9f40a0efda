package sim_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/servebench/servebench/bench/sim"
)

// tiny is a simulator with the name and the limit of the server that was captured.
var tiny = sim.Config{Model: "tiny", MaxModelLen: 8192}

// The values that cannot be the same on two servers; everything else is compared byte for byte.
var masks = []struct {
	re *regexp.Regexp
	to string
}{
	{regexp.MustCompile(`"id":"(cmpl|chatcmpl|modelperm)-[0-9a-f]{16}"`), `"id":"$1-ID"`},
	{regexp.MustCompile(`"created":\d+`), `"created":N`},
	{regexp.MustCompile(`"(item_)?id":"(resp|msg)_[0-9a-f]{16}"`), `"${1}id":"$2-ID"`},
	{regexp.MustCompile(`"id":"(embd|pooling|score)-[0-9a-f]{16}"`), `"id":"$1-ID"`},
	{regexp.MustCompile(`"(created_at|sequence_number)":\d+`), `"$1":N`},
	{regexp.MustCompile(`"delta":"([^"\\]|\\.)+"`), `"delta":"T"`},
	{regexp.MustCompile(`"(embedding|data)":\[[-\d.,e]+\]`), `"$1":[V]`},
	{regexp.MustCompile(`"(embedding|data)":"[A-Za-z0-9+/=]{344}"`), `"$1":"256 bytes"`},
	{regexp.MustCompile(`"relevance_score":0\.\d+`), `"relevance_score":S`},
	{regexp.MustCompile(`"text":"([^"\\]|\\.)+"`), `"text":"T"`},
	{regexp.MustCompile(`"content":"([^"\\]|\\.)+"`), `"content":"T"`},
	{regexp.MustCompile(`"(tokens|token_ids|prompt_token_ids)":\[[\d,]+\]`), `"$1":[IDS]`},
	{regexp.MustCompile(`"token_strs":\[.*?\]\}`), `"token_strs":[STRS]}`},
	{regexp.MustCompile(`"system_fingerprint":"[^"]+"`), `"system_fingerprint":"F"`},
	{regexp.MustCompile(`"root":"[^"]+"`), `"root":"R"`},
	{regexp.MustCompile(`"owned_by":"[^"]+"`), `"owned_by":"O"`},
	// Only with vLLM's --enable-per-request-metrics, which one capture ran with.
	{regexp.MustCompile(`,"metrics":\{[^}]*\}`), ``},
}

// The chat templates differ, and so do the lengths of chat prompts.
var chatCounts = regexp.MustCompile(`"(prompt_tokens|input_tokens|total_tokens|count)":\d+`)

// shape is a body's form: masked, and with runs of equal events made one, because vLLM now and then merges two tokens.
func shape(body string, chat bool) []string {
	for _, m := range masks {
		body = m.re.ReplaceAllString(body, m.to)
	}
	if chat {
		body = chatCounts.ReplaceAllString(body, `"$1":N`)
	}
	return slices.Compact(strings.Split(strings.TrimSpace(body), "\n\n"))
}

func TestAnswersHaveTheShapeOfTheCaptures(t *testing.T) {
	perFour := tiny
	perFour.TokensPerChunk = 4
	best := tiny
	best.Seed = 3 // under which the first document is the best
	for _, c := range []struct {
		path, name string
		config     sim.Config
	}{
		{"/v1/completions", "comp_stream_continuous", tiny},
		{"/v1/completions", "comp_stream_nousage", tiny},
		{"/v1/completions", "comp_token_ids_in", tiny},
		{"/v1/completions", "comp_max_tokens_1", tiny},
		{"/v1/completions", "comp_nonstream", tiny},
		{"/v1/completions", "comp_unknown_param", tiny},
		{"/v1/completions", "interval4_stream", perFour},
		{"/v1/chat/completions", "chat_stream_continuous", tiny},
		{"/v1/chat/completions", "chat_stream_usage", tiny},
		{"/v1/chat/completions", "chat_token_ids", tiny},
		{"/v1/chat/completions", "chat_max_tokens_1", tiny},
		{"/v1/chat/completions", "chat_nonstream", tiny},
		{"/v1/responses", "responses_stream", tiny},
		{"/tokenize", "tokenize_chat", tiny},
		{"/v1/embeddings", "embeddings_ids", tiny},
		{"/v1/embeddings", "embeddings_chat", tiny},
		{"/v1/embeddings", "embeddings", tiny},
		{"/v1/embeddings", "embeddings_batch", tiny},
		{"/v1/embeddings", "embeddings_base64", tiny},
		{"/pooling", "pooling", tiny},
		{"/pooling", "pooling_batch", tiny},
		{"/pooling", "pooling_base64", tiny},
		{"/v1/rerank", "rerank", best},
		{"/rerank", "rerank_plain", best},
		{"/detokenize", "detokenize", tiny},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, header, body := capture(t, c.name)
			got := call(t, sim.New(c.config), http.MethodPost, c.path, readFile(t, c.name+".req.json"))
			if want := fmt.Sprintf("HTTP/1.1 %d %s", got.Code, http.StatusText(got.Code)); want != status {
				t.Errorf("status %s, vLLM %s", want, status)
			}
			if g, w := got.Header().Get("Content-Type"), header.Get("Content-Type"); g != w {
				t.Errorf("content type %q, vLLM %q", g, w)
			}
			chat := strings.Contains(c.name, "chat") || c.path == "/v1/responses"
			g, w := shape(got.Body.String(), chat), shape(body, chat)
			if c.name == "detokenize" { // the texts of the two vocabularies have nothing in common
				g, w = []string{g[0][:11]}, []string{w[0][:11]}
			}
			if !slices.Equal(g, w) {
				t.Errorf("shape differs\n got %s\nvLLM %s", strings.Join(g, "\n     "), strings.Join(w, "\n     "))
			}
		})
	}
}

func TestFixedAnswersAreVLLMsBytes(t *testing.T) {
	for _, c := range []struct{ method, path, name string }{
		{"POST", "/v1/completions", "err_400_json"},
		{"POST", "/v1/completions", "err_400_empty_prompt"},
		{"POST", "/v1/chat/completions", "err_400_no_messages"},
		{"POST", "/v1/completions", "err_400_stream_options"},
		{"POST", "/v1/completions", "err_400_temperature"},
		{"POST", "/v1/completions", "err_400_too_long"},
		{"POST", "/v1/chat/completions", "err_400_chat_too_long"},
		{"POST", "/v1/completions", "err_400_too_long_sum"},
		{"POST", "/v1/completions", "err_404_model"},
		{"POST", "/v1/chat/completions", "err_404_model_chat"},
		{"POST", "/v1/completions", "err_422_type"},
		{"POST", "/v1/completions", "comp_max_tokens_0"},
		{"POST", "/v1/responses", "err_responses_no_input"},
		{"POST", "/v1/responses", "err_responses_zero"},
		{"POST", "/v1/responses", "err_responses_temperature"},
		{"POST", "/v1/responses", "err_responses_model"},
		{"POST", "/v1/responses", "err_responses_too_long"},
		{"POST", "/v1/embeddings", "err_embeddings_no_input"},
		{"POST", "/v1/embeddings", "err_embeddings_empty"},
		{"POST", "/v1/embeddings", "err_embeddings_model"},
		{"POST", "/v1/embeddings", "err_embeddings_too_long"},
		{"POST", "/pooling", "err_pooling_no_input"},
		{"POST", "/pooling", "err_pooling_model"},
		{"POST", "/v1/rerank", "err_rerank_no_documents"},
		{"POST", "/v1/rerank", "err_rerank_empty"},
		{"POST", "/version", "err_405"},
		{"GET", "/server_info", "notfound_path"},
		{"GET", "/health", "health"},
		{"GET", "/ping", "ping"},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, header, body := capture(t, c.name)
			request := ""
			switch {
			case strings.HasPrefix(c.path, "/v1/") && strings.HasSuffix(c.name, "s_too_long"):
				request = `{"model":"tiny","input":"` + strings.Repeat("hi ", 9000) + `"}` // not kept beside the answer
			case c.method == "POST":
				request = readFile(t, c.name+".req.json")
			}
			got := call(t, sim.New(tiny), c.method, c.path, request)
			if want := fmt.Sprintf("HTTP/1.1 %d %s", got.Code, http.StatusText(got.Code)); want != status {
				t.Errorf("status %s, vLLM %s", want, status)
			}
			for _, name := range []string{"Content-Type", "Allow"} {
				if g, w := got.Header().Get(name), header.Get(name); g != w {
					t.Errorf("%s %q, vLLM %q", name, g, w)
				}
			}
			if got.Body.String() != strings.TrimSuffix(body, "\n") {
				t.Errorf("body differs\n got %s\nvLLM %s", got.Body, body)
			}
		})
	}
}

func TestModelListHasVLLMsShape(t *testing.T) {
	_, _, body := capture(t, "models")
	got := call(t, sim.New(tiny), "GET", "/v1/models", "").Body.String()
	if g, w := shape(got, false), shape(body, false); !slices.Equal(g, w) {
		t.Errorf("shape differs\n got %s\nvLLM %s", g, w)
	}
	var list struct {
		Data []struct {
			ID, Root    string
			OwnedBy     string `json:"owned_by"`
			MaxModelLen int    `json:"max_model_len"`
		}
	}
	if err := json.Unmarshal([]byte(got), &list); err != nil {
		t.Fatal(err)
	}
	if d := list.Data[0]; d.ID != "tiny" || d.Root != "tiny" || d.OwnedBy != "servebench-sim" || d.MaxModelLen != 8192 {
		t.Errorf("got %+v", d)
	}
}

// Every sample and comment of the captured families has to be there, in vLLM's order of families, up to the values. Our
// cache_config_info knows fewer labels.
func TestMetricsHaveVLLMsFamilies(t *testing.T) {
	value := regexp.MustCompile(` [\d.]+$`)
	labels := regexp.MustCompile(`(cache_config_info)\{.*\}`)
	form := func(text string) []string {
		lines := strings.Split(strings.TrimSpace(text), "\n")
		for i, line := range lines {
			if !strings.HasPrefix(line, "#") {
				lines[i] = labels.ReplaceAllString(value.ReplaceAllString(line, " V"), "$1{}")
			}
		}
		return lines
	}
	w := call(t, sim.New(tiny), "GET", "/metrics", "")
	got, want := form(w.Body.String()), form(readFile(t, "metrics.txt"))
	if !slices.Equal(got, want) {
		t.Errorf("differs\n got %s\nvLLM %s", strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
	if ct := w.Header().Get("Content-Type"); ct != "text/plain; version=1.0.0; charset=utf-8" {
		t.Errorf("content type %q", ct)
	}
}

func TestUnauthorizedIsVLLMsBytes(t *testing.T) {
	c := tiny
	c.APIKey = "sekret"
	s := sim.New(c)
	_, _, body := capture(t, "err_401_no_key")
	for _, r := range []struct {
		method, path, auth string
		status             int
	}{
		{"GET", "/v1/models", "", 401},
		{"GET", "/v1/models", "Bearer other", 401},
		{"GET", "/v1/models", "sekret", 401},
		{"GET", "/v1/models", "Bearer sekret", 200},
		{"GET", "/v1/no-such-path", "", 401},
		{"POST", "/v1/completions", "", 401},
		{"POST", "/tokenize", "", 401},
		{"POST", "/detokenize", "", 401},
		{"GET", "/health", "", 200},
		{"GET", "/metrics", "", 200},
		{"GET", "/version", "", 200},
	} {
		got := call(t, s, r.method, r.path, "", "Authorization", r.auth)
		if got.Code != r.status {
			t.Errorf("%s %s with %q: status %d, want %d", r.method, r.path, r.auth, got.Code, r.status)
		}
		if got.Code == 401 && got.Body.String() != body {
			t.Errorf("%s: body %s, vLLM %s", r.path, got.Body, body)
		}
	}
}

func TestRequestIDIsEchoedAndNamesTheAnswer(t *testing.T) {
	_, header, _ := capture(t, "script_request_id")
	got := call(t, sim.New(tiny), "POST", "/v1/chat/completions", readFile(t, "script_request_id.req.json"), "X-Request-Id", header.Get("X-Request-Id"))
	if id := got.Header().Get("X-Request-Id"); id != "mine-1" {
		t.Errorf("X-Request-Id %q, want mine-1", id)
	}
	if !strings.HasPrefix(got.Body.String(), `data: {"id":"chatcmpl-mine-1",`) {
		t.Errorf("body starts %.60s", got.Body)
	}
	if server := got.Header().Get("Server"); server != "servebench-sim" {
		t.Errorf("Server %q", server)
	}
}

func TestUnusableRequestsAreRefused(t *testing.T) {
	s := sim.New(tiny)
	for name, c := range map[string]struct {
		path, body, says string
	}{
		"n of 2":                   {"/v1/completions", `{"prompt":"hi","n":2}`, "n must be 1"},
		"two prompts":              {"/v1/completions", `{"prompt":["a","b"]}`, "one prompt per request, got 2"},
		"two lists of ids":         {"/v1/completions", `{"prompt":[[1],[2]]}`, "one prompt per request, got 2"},
		"id outside vocabulary":    {"/v1/completions", `{"prompt":[1285089880]}`, "Token id 1285089880 is out of vocabulary"},
		"negative id":              {"/v1/completions", `{"prompt":[-1]}`, "Token id -1 is out of vocabulary"},
		"null id":                  {"/v1/completions", `{"prompt":[1,null]}`, "string_type"},
		"fraction as id":           {"/v1/completions", `{"prompt":[1.5]}`, "string_type"},
		"object as prompt":         {"/v1/completions", `{"prompt":{}}`, "<dict of 0 items>"},
		"empty list":               {"/v1/completions", `{"prompt":[]}`, "must be provided and non-empty"},
		"no prompt":                {"/v1/completions", `{}`, "must be provided and non-empty"},
		"a list as body":           {"/v1/completions", `[]`, "valid dictionary"},
		"null as body":             {"/v1/completions", `null`, "valid dictionary"},
		"empty body":               {"/v1/completions", ``, "Expecting value"},
		"missing comma":            {"/v1/completions", `{"prompt":"a" "n":1}`, "Expecting ',' delimiter"},
		"two wrong types":          {"/v1/completions", `{"prompt":"a","max_tokens":1.5,"stream":"maybe"}`, "2 validation errors"},
		"model is a number":        {"/v1/completions", `{"model":1,"prompt":"a"}`, "string_type"},
		"text as temperature":      {"/v1/completions", `{"prompt":"a","temperature":"hot"}`, "float_parsing"},
		"list as stream_options":   {"/v1/completions", `{"prompt":"a","stream":true,"stream_options":[]}`, "stream_options"},
		"wrong option":             {"/v1/completions", `{"prompt":"a","stream":true,"stream_options":{"include_usage":7}}`, "body.stream_options.include_usage"},
		"negative max_tokens":      {"/v1/completions", `{"prompt":"a","max_tokens":-3}`, "at least 1, got -3"},
		"no room for max_tokens":   {"/v1/completions", `{"prompt":"a b","max_tokens":8191}`, "total of at least 8193 tokens"},
		"no messages":              {"/v1/chat/completions", `{"messages":[]}`, "must not be empty"},
		"message without a role":   {"/v1/chat/completions", `{"messages":[{"content":"a"}]}`, "messages.0.role"},
		"image part":               {"/v1/chat/completions", `{"messages":[{"role":"user","content":[{"type":"image_url"}]}]}`, "messages.0.content"},
		"image without a url":      {"/v1/chat/completions", `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{}}]}]}`, "messages.0.content"},
		"messages is text":         {"/v1/chat/completions", `{"messages":"hi"}`, "list_type"},
		"response without input":   {"/v1/responses", `{}`, "body.input"},
		"response to ids":          {"/v1/responses", `{"input":[1,2]}`, "list_type"},
		"response to nothing":      {"/v1/responses", `{"input":[]}`, "input must not be empty"},
		"response to a number":     {"/v1/responses", `{"input":7}`, "list_type"},
		"response to an image":     {"/v1/responses", `{"input":[{"role":"user","content":[{"type":"input_image","text":"x"}]}]}`, "input.0.content"},
		"text as top_p":            {"/v1/responses", `{"input":"a","top_p":"x"}`, "float_parsing"},
		"two wrong numbers":        {"/v1/responses", `{"input":"a","temperature":"x","presence_penalty":[]}`, "2 validation errors"},
		"no room for the response": {"/v1/responses", `{"input":"a","max_output_tokens":8190}`, "total of at least"},
		"embedding of a number":    {"/v1/embeddings", `{"input":7}`, "body.input"},
		"embedding of an object":   {"/v1/embeddings", `{"input":["a",{}]}`, "body.input"},
		"embedding of unknown ids": {"/v1/embeddings", `{"input":[[1],[-1]]}`, "Token id -1 is out of vocabulary"},
		"embedding without length": {"/v1/embeddings", `{"input":"a","dimensions":0}`, "dimensions must be from 1"},
		"embedding in hex":         {"/v1/embeddings", `{"input":"a","encoding_format":"hex"}`, "literal_error"},
		"embedding cut to a text":  {"/v1/embeddings", `{"input":"a","truncate_prompt_tokens":"x"}`, "int_parsing"},
		"embedding of no messages": {"/v1/embeddings", `{"messages":[]}`, "messages must not be empty"},
		"pooling of messages":      {"/embeddings", `{"messages":[{"role":"user","content":"a"}]}`, "body.input"},
		"rerank of objects":        {"/v1/rerank", `{"query":"a","documents":[{}]}`, "body.documents"},
		"rerank without a query":   {"/v2/rerank", `{"documents":["a"]}`, "body.query"},
		"tokenize without prompt":  {"/tokenize", `{}`, "Field required"},
		"tokenize other model":     {"/tokenize", `{"model":"x","prompt":"a"}`, "does not exist"},
		"detokenize without ids":   {"/detokenize", `{}`, "Field required"},
		"detokenize unknown id":    {"/detokenize", `{"tokens":[2147483647]}`, "out of vocabulary"},
		"detokenize text":          {"/detokenize", `{"tokens":"a"}`, "list_type"},
		"detokenize broken object": {"/detokenize", `{"tokens"}`, "Expecting ':' delimiter"},
	} {
		t.Run(name, func(t *testing.T) {
			got := call(t, s, "POST", c.path, c.body)
			want := 400
			if strings.Contains(c.says, "does not exist") {
				want = 404
			}
			var body struct {
				Error struct {
					Message, Type string
					Code          int
				}
			}
			if err := json.Unmarshal(got.Body.Bytes(), &body); err != nil {
				t.Fatalf("body %s: %v", got.Body, err)
			}
			if got.Code != want || body.Error.Code != want || !strings.Contains(body.Error.Message, c.says) {
				t.Errorf("status %d, body %s; want %d and %q", got.Code, got.Body, want, c.says)
			}
		})
	}
}

func TestUsageIsExact(t *testing.T) {
	s := sim.New(sim.Config{})
	for name, c := range map[string]struct {
		path, body         string
		prompt, completion int
	}{
		// " user:" 2, "Hi" 1, "\n" 1, " assistant:" is " assis" "tant" ":" 3
		"chat text":             {"/v1/chat/completions", `{"messages":[{"role":"user","content":"Hi"}],"max_tokens":5}`, 7, 5},
		"chat parts":            {"/v1/chat/completions", `{"messages":[{"role":"user","content":[{"type":"text","text":"H"},{"type":"text","text":"i"}]}],"max_completion_tokens":6,"max_tokens":5}`, 7, 6},
		"chat with an image":    {"/v1/chat/completions", `{"messages":[{"role":"user","content":[{"type":"text","text":"Hi"},{"type":"image_url","image_url":{"url":"data:x"}}]}],"max_tokens":5}`, 7, 5},
		"completion text":       {"/v1/completions", `{"prompt":"one two, three","max_tokens":3}`, 4, 3},
		"default length":        {"/v1/completions", `{"prompt":"one"}`, 1, 16},
		"one text in a list":    {"/v1/completions", `{"prompt":["one two"]}`, 2, 16},
		"ids":                   {"/v1/completions", `{"prompt":[5,6,7,151000]}`, 4, 16},
		"one list in a list":    {"/v1/completions", `{"prompt":[[5, 6,7]]}`, 3, 16},
		"whole number as float": {"/v1/completions", `{"prompt":"one","max_tokens":4.0}`, 1, 4},
		"number as text":        {"/v1/completions", `{"prompt":"one","max_tokens":"4"}`, 1, 4},
		"nulls are absent":      {"/v1/completions", `{"prompt":"one","max_tokens":null,"n":null,"stream":null,"temperature":null}`, 1, 16},
		"n of 1, ignored rest":  {"/v1/completions", `{"prompt":"one","n":1,"logprobs":2,"ignore_eos":true,"stop":["x"],"echo":false}`, 1, 16},
	} {
		t.Run(name, func(t *testing.T) {
			var whole struct {
				Usage   struct{ Prompt_tokens, Completion_tokens, Total_tokens int }
				Choices []struct {
					Text    string
					Message struct{ Content string }
				}
			}
			got := call(t, s, "POST", c.path, c.body)
			if err := json.Unmarshal(got.Body.Bytes(), &whole); err != nil || len(whole.Choices) != 1 {
				t.Fatalf("body %s: %v", got.Body, err)
			}
			u := whole.Usage
			if u.Prompt_tokens != c.prompt || u.Completion_tokens != c.completion || u.Total_tokens != c.prompt+c.completion {
				t.Errorf("usage %+v, want %d and %d", u, c.prompt, c.completion)
			}
			text := whole.Choices[0].Text + whole.Choices[0].Message.Content
			if n := len(tokenize(t, s, text)); n != c.completion {
				t.Errorf("/tokenize counts %d in the answer, usage says %d", n, c.completion)
			}
		})
	}
}

func TestAnyModelIsServedWithoutOne(t *testing.T) {
	s := sim.New(sim.Config{})
	for asked, named := range map[string]string{`"model":"a/b",`: `"model":"a/b"`, ``: `"model":"servebench-sim"`} {
		got := call(t, s, "POST", "/v1/completions", `{`+asked+`"prompt":"a"}`)
		if got.Code != 200 || !strings.Contains(got.Body.String(), named) {
			t.Errorf("%s: status %d, body %s", asked, got.Code, got.Body)
		}
	}
}

func TestConfigReportsEverythingWrong(t *testing.T) {
	if err := (sim.Config{}).Validate(); err != nil {
		t.Errorf("zero value: %v", err)
	}
	err := sim.Config{TTFT: -1, ITL: -1, PerPromptToken: -1, Jitter: 1.5, Slots: -1, TokensPerChunk: -1, MaxModelLen: -1, APIKey: "a b"}.Validate()
	for _, name := range []string{"ttft", "itl", "per_prompt_token", "jitter", "slots", "tokens_per_chunk", "max_model_len", "api_key"} {
		if err == nil || !strings.Contains(err.Error(), name+" must") {
			t.Errorf("%s is not in %v", name, err)
		}
	}
	if (sim.Config{ITL: 1 << 50}).Validate() == nil {
		t.Error("a request of 4,600 years is accepted")
	}
}

// The first tokens of a chat are reasoning where the server has a parser for it, in the members that vLLM's captures with
// --reasoning-parser have (reason_stream, reason_nonstream).
func TestReasoningComesFirst(t *testing.T) {
	config := sim.Config{ReasoningTokens: 3, TokensPerChunk: 2}
	body := func(more string) string {
		return `{"messages":[{"role":"user","content":"x"}],"max_tokens":6,"stream":true,` + more + `}`
	}
	part := regexp.MustCompile(`"delta":(\{[^}]*\}).*?"usage":\{"prompt_tokens":\d+,"total_tokens":\d+,"completion_tokens":(\d+)(.*?)\}[,}]`)
	text := regexp.MustCompile(`"(reasoning|content)":"( [a-z]+)+"`)
	got := call(t, sim.New(config), http.MethodPost, "/v1/chat/completions", body(`"stream_options":{"include_usage":true,"continuous_usage_stats":true}`)).Body.String()
	var events []string
	for _, m := range part.FindAllStringSubmatch(got, -1) {
		events = append(events, text.ReplaceAllString(m[1], `"$1":T`)+" "+m[2]+m[3])
	}
	want := []string{
		`{"role":"assistant","content":""} 0,"completion_tokens_details":{"reasoning_tokens":0`,
		`{"reasoning":T} 1,"completion_tokens_details":{"reasoning_tokens":1`,
		`{"reasoning":T} 3,"completion_tokens_details":{"reasoning_tokens":3`,
		`{"content":T} 5,"completion_tokens_details":{"reasoning_tokens":3`,
		`{"content":T} 6,"completion_tokens_details":{"reasoning_tokens":3`,
	}
	if !slices.Equal(events, want) {
		t.Errorf("events\n%s\nwant\n%s\nof %s", strings.Join(events, "\n"), strings.Join(want, "\n"), got)
	}
	if last := `"choices":[],"usage":{"prompt_tokens":7,"total_tokens":13,"completion_tokens":6,"completion_tokens_details":{"reasoning_tokens":3}}`; !strings.Contains(got, last) {
		t.Errorf("no %s in %s", last, got)
	}
	config.ReasoningTokens = 2
	got = call(t, sim.New(config), http.MethodPost, "/v1/chat/completions", body(`"stream_options":{"include_usage":true}`)).Body.String()
	if n := strings.Count(text.ReplaceAllString(got, `"$1":T`), `"delta":{"reasoning":T,"content":T}`); n != 1 {
		t.Errorf("%d events with both, want the second: %s", n, got)
	}
	got = call(t, sim.New(config), http.MethodPost, "/v1/chat/completions", strings.Replace(body(`"n":1`), "true", "false", 1)).Body.String()
	for _, want := range []string{`"content":T,"refusal"`, `"function_call":null,"reasoning":T}`, `"completion_tokens_details":{"reasoning_tokens":2}}`} {
		if !strings.Contains(text.ReplaceAllString(got, `"$1":T`), want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
	// Nothing but chats reasons.
	if got := call(t, sim.New(config), http.MethodPost, "/v1/completions", `{"prompt":"x","max_tokens":3,"stream":true}`).Body.String(); strings.Contains(got, "reasoning") {
		t.Error(got)
	}
}
