package sim

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// defaultDimensions is the length of a vector where "dimensions" asks for none: that of the captured model.
const defaultDimensions = 64

// maxDimensions bounds it, and with maxBody the memory of an answer.
const maxDimensions = 1 << 16

// pooling is one accepted request for vectors or scores.
type pooling struct {
	model      string
	tokens     int   // of all prompts
	lengths    []int // of each, in tokens
	prompts    int
	dimensions int
	format     string   // float, base64, bytes or bytes_only
	documents  []string // of a reranking, else nil
	top        int      // of its results; 0: all

	// How vectors are written.
	prefix, object, key string
	infinity            bool
}

// pool answers a request for vectors or scores, which decode reads.
func (s *Server) pool(w http.ResponseWriter, r *http.Request, decode func(*fields) (*pooling, *apiError)) {
	body := readBody(w, r)
	if body == nil {
		return
	}
	received := time.Now()
	f, bad := decodeFields(body)
	var p *pooling
	if bad == nil {
		p, bad = decode(f)
	}
	if bad != nil {
		bad.write(w)
		return
	}
	number := s.requests.Add(1) - 1
	id := fmt.Sprintf("%016x", mix(s.cfg.Seed, number))
	if given := r.Header.Get("X-Request-Id"); given != "" {
		id = given
	}
	// The answer is ready before it is due.
	send := s.answerPool(p, id, number)
	if s.runPool(r.Context(), received, p, number) != nil {
		return // the client is gone
	}
	s.pooled.Add(1)
	send(w)
}

// runPool holds a slot for as long as a first token takes. The error says that the client went away.
func (s *Server) runPool(ctx context.Context, received time.Time, p *pooling, number uint64) error {
	if s.engine != nil {
		return s.engine.pool(ctx, received, p.lengths)
	}
	waited, err := s.slots.acquire(ctx)
	if err != nil {
		return err
	}
	defer s.slots.release()
	if waited {
		received = time.Now()
	}
	s.queried.Add(uint64(p.tokens))
	if err := s.cfg.pace(received, number, p.tokens).wait(ctx); err != nil {
		return err
	}
	s.promptTokens.Add(uint64(p.tokens))
	return nil
}

// newPooling reads what all of them have.
func (s *Server) newPooling(f *fields) (*pooling, *apiError) {
	p := &pooling{model: f.text("model", s.modelName()), format: f.text("encoding_format", "float"), dimensions: defaultDimensions}
	if n, ok := f.integer("dimensions"); ok {
		p.dimensions = n
	}
	if invalid := f.err(); invalid != nil {
		return nil, invalid
	}
	switch p.format {
	case "float", "base64", "bytes", "bytes_only":
	default:
		f.problem("body.encoding_format", "'literal_error'", "\"Input should be 'float', 'base64', 'bytes' or 'bytes_only'\"", pythonValue(f.raw["encoding_format"]))
		return nil, f.err()
	}
	switch {
	case !s.serves(p.model):
		// These endpoints say less than the others.
		return nil, &apiError{http.StatusNotFound, fmt.Sprintf("The model `%s` does not exist.", p.model), "NotFoundError", ""}
	case p.dimensions < 1 || p.dimensions > maxDimensions:
		return nil, badValue("dimensions", p.dimensions, "dimensions must be from 1 to %d, got %d.", maxDimensions, p.dimensions)
	}
	return p, nil
}

func (s *Server) decodeEmbedding(f *fields) (*pooling, *apiError) {
	// vLLM lists what each of the five forms of a request lacks.
	return s.decodeVectors(f, "embd-", "embedding", "embedding", "input", "messages", "messages", "messages", "input", "messages", "input")
}

func (s *Server) decodePooling(f *fields) (*pooling, *apiError) {
	return s.decodeVectors(f, "pooling-", "pooling", "data", "input", "messages", "data")
}

// decodeInfinity reads a request for an Infinity server: a text or several, or the URL of an image.
func (s *Server) decodeInfinity(f *fields) (*pooling, *apiError) {
	p, bad := s.decodeVectors(f, "infinity-", "embedding", "embedding", "input")
	if p != nil {
		p.infinity = true
	}
	return p, bad
}

func (s *Server) decodeVectors(f *fields, prefix, object, key string, needs ...string) (*pooling, *apiError) {
	p, bad := s.newPooling(f)
	if bad != nil {
		return nil, bad
	}
	p.prefix, p.object, p.key = prefix, object, key
	var inputs []prompt
	switch {
	case f.has("messages") && slices.Contains(needs, "messages"):
		var one prompt
		one, bad = f.messages("messages", false)
		inputs = []prompt{one}
	case f.has("input"):
		inputs, bad = f.inputs()
	default:
		for _, name := range needs {
			f.missing(name)
		}
	}
	if invalid := f.err(); invalid != nil {
		return nil, invalid
	}
	if bad != nil {
		return nil, bad
	}
	if len(inputs) == 0 {
		return nil, badRequest("", "You must pass at least one prompt")
	}
	return p, s.measurePool(f, p, inputs)
}

// inputs reads a prompt or a list of prompts, each a text or token ids.
func (f *fields) inputs() ([]prompt, *apiError) {
	raw := f.raw["input"]
	if raw[0] == '[' {
		first := bytes.TrimLeft(raw[1:], " \t\r\n")[0]
		if first == '"' || first == '[' {
			var list []json.RawMessage
			_ = json.Unmarshal(raw, &list) // valid JSON that starts with a bracket is a list
			out := make([]prompt, 0, len(list))
			for _, item := range list {
				p, bad := f.promptValue("input", item, false)
				if bad != nil {
					return nil, bad
				}
				out = append(out, p)
			}
			return out, nil
		}
		if first == ']' {
			return nil, nil
		}
	}
	p, bad := f.promptValue("input", raw, false)
	return []prompt{p}, bad
}

// measurePool counts the prompts, each of which has to fit the model or is cut where the request allows it.
func (s *Server) measurePool(f *fields, p *pooling, inputs []prompt) *apiError {
	limit, cut := s.cfg.MaxModelLen, false
	if n, ok := f.integer("truncate_prompt_tokens"); ok {
		cut = true
		if n >= 0 {
			limit = min(limit, n)
		}
	}
	if invalid := f.err(); invalid != nil {
		return invalid
	}
	p.prompts = len(inputs)
	for _, in := range inputs {
		n := in.tokens()
		if n > limit && !cut {
			return badValue("input_tokens", limit+1, "This model's maximum context length is %d tokens. However, your prompt "+
				"contains at least %d input tokens, which exceeds this limit even without any output tokens. Please reduce the "+
				"length of the input prompt.", limit, limit+1)
		}
		p.tokens += min(n, limit)
		p.lengths = append(p.lengths, min(n, limit))
	}
	return nil
}

// decodeRerank reads a query and its documents. As with a model that embeds, the query is counted once.
func (s *Server) decodeRerank(f *fields) (*pooling, *apiError) {
	p, bad := s.newPooling(f)
	if bad != nil {
		return nil, bad
	}
	query := f.text("query", "")
	if !f.has("query") {
		f.missing("query")
	}
	if !f.has("documents") {
		f.missing("documents")
	} else if raw := f.raw["documents"]; raw[0] == '"' {
		p.documents = []string{f.text("documents", "")}
	} else if json.Unmarshal(raw, &p.documents) != nil {
		f.problem("body.documents", "'string_type'", "'Input should be a text or a list of texts'", pythonValue(raw))
	}
	p.top, _ = f.integer("top_n")
	if invalid := f.err(); invalid != nil {
		return nil, invalid
	}
	if len(p.documents) == 0 {
		return nil, badRequest("", "At least one text_pair element must be given")
	}
	inputs := []prompt{{text: query}}
	for _, d := range p.documents {
		inputs = append(inputs, prompt{text: d})
	}
	return p, s.measurePool(f, p, inputs)
}

// answerPool makes the answer and returns what sends it.
func (s *Server) answerPool(p *pooling, id string, number uint64) func(http.ResponseWriter) {
	r := rand.New(rand.NewPCG(s.cfg.Seed, ^number)) // the jitter's is seeded by the number
	if p.documents != nil {
		body := p.ranking(id, r)
		return func(w http.ResponseWriter) { writeJSON(w, http.StatusOK, body) }
	}
	if p.format == "float" || p.format == "base64" {
		body := p.vectors(p.prefix+id, r)
		return func(w http.ResponseWriter) { writeJSON(w, http.StatusOK, body) }
	}
	var body []byte
	for range p.prompts {
		body = p.binary(body, r)
	}
	about := p.metadata(p.prefix + id)
	return func(w http.ResponseWriter) {
		if p.format == "bytes" {
			w.Header().Set("Metadata", about)
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = w.Write(body) // the client is gone: there is nobody to tell
	}
}

// number is one element of a vector: about as large as that of a vector of length 1.
func (p *pooling) number(r *rand.Rand) float32 {
	return float32(r.NormFloat64() / math.Sqrt(float64(p.dimensions)))
}

func (p *pooling) binary(b []byte, r *rand.Rand) []byte {
	for range p.dimensions {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(p.number(r)))
	}
	return b
}

// vectors is the body of embeddings and poolings.
func (p *pooling) vectors(id string, r *rand.Rand) []byte {
	var b []byte
	created := time.Now().Unix()
	if !p.infinity {
		b = fmt.Appendf(b, `{"id":%s,"object":"list","created":%d,"model":%s,"data":[`, quoted(id), created, quoted(p.model))
	} else {
		b = fmt.Appendf(b, `{"object":"list","data":[`)
	}
	for i := range p.prompts {
		if i > 0 {
			b = append(b, ',')
		}
		if !p.infinity {
			b = fmt.Appendf(b, `{"index":%d,"object":"%s","%s":`, i, p.object, p.key)
			b = append(p.vector(b, r), '}')
		} else {
			b = append(b, `{"object":"embedding","embedding":`...)
			b = fmt.Appendf(p.vector(b, r), `,"index":%d}`, i)
		}
	}
	if p.infinity {
		return fmt.Appendf(b, `],"model":%s,"usage":{"prompt_tokens":%d,"total_tokens":%d},"id":%s,"created":%d}`,
			quoted(p.model), p.tokens, p.tokens, quoted(id), created)
	}
	return fmt.Appendf(b, `],"usage":{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":0,"prompt_tokens_details":null,"completion_tokens_details":null}}`,
		p.tokens, p.tokens)
}

func (p *pooling) vector(b []byte, r *rand.Rand) []byte {
	if p.format == "base64" {
		b = append(b, '"')
		b = base64.StdEncoding.AppendEncode(b, p.binary(nil, r))
		return append(b, '"')
	}
	for i := range p.dimensions {
		b = append(b, "[,"[min(i, 1)])
		b = strconv.AppendFloat(b, float64(p.number(r)), 'g', -1, 64)
	}
	return append(b, ']')
}

// metadata is the header that goes with vectors in bytes, written as Python writes JSON.
func (p *pooling) metadata(id string) string {
	b := fmt.Appendf(nil, `{"id": %s, "created": %d, "model": %s, "data": [`, quoted(id), time.Now().Unix(), quoted(p.model))
	for i, size := 0, 4*p.dimensions; i < p.prompts; i++ {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = fmt.Appendf(b, `{"index": %d, "embed_dtype": "float32", "endianness": "native", "start": %d, "end": %d, "shape": [%d]}`, i, i*size, (i+1)*size, p.dimensions)
	}
	return string(fmt.Appendf(b, `], "usage": {"prompt_tokens": %d, "total_tokens": %d}}`, p.tokens, p.tokens))
}

// ranking is the body of a reranking, the best document first.
func (p *pooling) ranking(id string, r *rand.Rand) []byte {
	scores := make([]float64, len(p.documents))
	order := make([]int, len(p.documents))
	for i := range scores {
		scores[i], order[i] = r.Float64(), i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(scores[j], scores[i]) })
	if p.top > 0 {
		order = order[:min(p.top, len(order))]
	}
	b := fmt.Appendf(nil, `{"id":%s,"model":%s,"usage":{"prompt_tokens":%d,"total_tokens":%d},"results":[`, quoted("score-"+id), quoted(p.model), p.tokens, p.tokens)
	for k, i := range order {
		if k > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, `{"index":%d,"document":{"text":%s,"multi_modal":null},"relevance_score":`, i, quoted(p.documents[i]))
		b = append(strconv.AppendFloat(b, scores[i], 'g', -1, 64), '}')
	}
	return append(b, "]}"...)
}
