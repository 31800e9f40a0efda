package sim

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// maxBody bounds a request's body: a prompt of a million tokens fits.
	maxBody = 64 << 20
	// drainTime is how long Serve lets running requests finish.
	drainTime = 5 * time.Second
)

// Serve answers the connections of l until ctx ends or l fails, and closes l. When ctx ends it accepts no more, lets
// running requests finish for at most 5 seconds, then cuts those that are left, and returns nil; a failing listener's
// error is returned. In either case no connection and no handler is left when it returns. One Server can serve several
// listeners.
func (s *Server) Serve(ctx context.Context, l net.Listener) error { return s.serve(ctx, l, nil) }

// ServeTLS is Serve for HTTPS, with cert. Clients that check it must know it.
func (s *Server) ServeTLS(ctx context.Context, l net.Listener, cert tls.Certificate) error {
	return s.serve(ctx, l, &tls.Config{Certificates: []tls.Certificate{cert}})
}

func (s *Server) serve(ctx context.Context, l net.Listener, config *tls.Config) error {
	address := l.Addr()
	if s.cfg.Truth {
		l = arrivals{l}
	}
	if config != nil {
		l = tls.NewListener(l, config)
	}
	var open sync.WaitGroup
	srv := &http.Server{
		Handler: s,
		// No timeouts: a load generator opens connections long before it uses them and keeps them idle between runs, and
		// an answer takes as long as the config says. Requests do not inherit ctx, whose end must not cut them.
		ErrorLog: log.New(io.Discard, "", 0),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			ctx = withArrival(ctx, c)
			if a, ok := c.(*arrivalConn); ok {
				c = a.Conn // what is written goes past the one that looks at reads
			}
			if sender := NewSender(c); sender != nil {
				return WithSender(ctx, sender)
			}
			return ctx
		},
		// StateNew is reported by the accepting goroutine, so no Add can follow the end of srv.Serve.
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				open.Add(1)
			case http.StateClosed, http.StateHijacked:
				open.Done()
			}
		},
	}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(l) }()

	var err error
	select {
	case err = <-failed:
		err = fmt.Errorf("serve %s: %w", address, err)
		_ = srv.Close() // the listener's error is the one to report
	case <-ctx.Done():
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
		defer cancel()
		if srv.Shutdown(grace) != nil {
			_ = srv.Close() // nothing to report: the listener is closed and the connections are cut
		}
		<-failed
	}
	open.Wait()
	return err
}

// route is a path's handlers by method, and the methods as the Allow header lists them.
type route struct {
	allow  string
	handle map[string]http.HandlerFunc
}

func (s *Server) routing() map[string]route {
	get := func(h http.HandlerFunc) route {
		return route{"GET", map[string]http.HandlerFunc{http.MethodGet: h}}
	}
	post := func(h http.HandlerFunc) route {
		return route{"POST", map[string]http.HandlerFunc{http.MethodPost: h}}
	}
	empty := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }
	generate := func(of api) route {
		return post(func(w http.ResponseWriter, r *http.Request) { s.generate(w, r, of) })
	}
	pool := func(decode func(*fields) (*pooling, *apiError)) route {
		return post(func(w http.ResponseWriter, r *http.Request) { s.pool(w, r, decode) })
	}
	return map[string]route{
		"/v1/models":           get(s.models),
		"/v1/completions":      generate(ofCompletion),
		"/v1/chat/completions": generate(ofChat),
		"/v1/responses":        generate(ofResponse),
		"/v1/embeddings":       pool(s.decodeEmbedding),
		"/embeddings":          pool(s.decodeInfinity),
		"/pooling":             pool(s.decodePooling),
		"/rerank":              pool(s.decodeRerank),
		"/v1/rerank":           pool(s.decodeRerank),
		"/v2/rerank":           pool(s.decodeRerank),
		"/start_profile":       post(empty),
		"/stop_profile":        post(empty),
		"/tokenize":            post(s.tokenize),
		"/detokenize":          post(s.detokenize),
		"/reset_prefix_cache": post(func(w http.ResponseWriter, _ *http.Request) {
			if s.engine != nil {
				s.engine.reset()
			}
			w.WriteHeader(http.StatusOK)
		}),
		"/version": get(func(w http.ResponseWriter, _ *http.Request) {
			writeJSON(w, http.StatusOK, []byte(`{"version":"`+Version+`"}`))
		}),
		"/metrics": get(s.metrics),
		"/health":  get(empty),
		"/ping":    {"GET, POST", map[string]http.HandlerFunc{http.MethodGet: empty, http.MethodPost: empty}},
	}
}

// ServeHTTP answers one request. It is safe for concurrent use. A stream ends early, and its slot is free again, as soon
// as the request's context ends.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h["Server"] = serverHeader
	if id := r.Header.Get("X-Request-Id"); id != "" {
		h.Set("X-Request-Id", id)
	}
	// As in vLLM the key is asked for before anything else is looked at, so a wrong path under /v1 is a 401 too.
	if !s.authorized(r) {
		writeJSON(w, http.StatusUnauthorized, []byte(`{"error":"Unauthorized"}`))
		return
	}
	route, ok := s.routes[r.URL.Path]
	if !ok {
		writeJSON(w, http.StatusNotFound, []byte(`{"detail":"Not Found"}`))
		return
	}
	handle, ok := route.handle[r.Method]
	if !ok {
		h.Set("Allow", route.allow)
		writeJSON(w, http.StatusMethodNotAllowed, []byte(`{"detail":"Method Not Allowed"}`))
		return
	}
	handle(w, r)
}

var serverHeader = []string{serverName}

func keyDigest(header string) [32]byte { return sha256.Sum256([]byte(header)) }

func (s *Server) authorized(r *http.Request) bool {
	if s.cfg.APIKey == "" {
		return true
	}
	path := r.URL.Path
	if !strings.HasPrefix(path, "/v1/") && path != "/tokenize" && path != "/detokenize" {
		return true
	}
	got := keyDigest(r.Header.Get("Authorization"))
	good := 0
	for _, key := range s.keys {
		good |= subtle.ConstantTimeCompare(got[:], key[:])
	}
	return good == 1
}

// apiError is one of vLLM's error bodies. An empty param is null.
type apiError struct {
	status               int
	message, kind, param string
}

func badRequest(param, message string) *apiError {
	return &apiError{http.StatusBadRequest, message, "BadRequestError", param}
}

// badValue is badRequest with vLLM's ending that repeats the parameter and its value.
func badValue(param string, value any, format string, args ...any) *apiError {
	return badRequest(param, fmt.Sprintf(format, args...)+fmt.Sprintf(" (parameter=%s, value=%v)", param, value))
}

func (s *Server) unknownModel(name string) *apiError {
	message := fmt.Sprintf("The model `%s` does not exist. Valid aliases: %s.", name, strings.Join(append([]string{s.cfg.Model}, s.cfg.Aliases...), ", "))
	return &apiError{http.StatusNotFound, message, "NotFoundError", "model"}
}

func (e *apiError) write(w http.ResponseWriter) {
	b := append([]byte(`{"error":{"message":`), quoted(e.message)...)
	b = append(append(b, `,"type":`...), quoted(e.kind)...)
	b = append(b, `,"param":`...)
	if e.param == "" {
		b = append(b, "null"...)
	} else {
		b = append(b, quoted(e.param)...)
	}
	b = append(b, `,"code":`...)
	b = strconv.AppendInt(b, int64(e.status), 10)
	writeJSON(w, e.status, append(b, "}}"...))
}

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client is gone: there is nobody to tell
}

// quoted is s as a JSON string, with <, > and & as they are, as Python writes them.
func quoted(s string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string always encodes
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// readBody returns nil where it has answered already or the client is gone.
func readBody(w http.ResponseWriter, r *http.Request) []byte {
	var b bytes.Buffer
	if n := r.ContentLength; n > 0 && n <= maxBody {
		b.Grow(int(n) + bytes.MinRead) // ReadFrom wants that much room even to see the end
	}
	_, err := b.ReadFrom(http.MaxBytesReader(w, r.Body, maxBody))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		(&apiError{http.StatusRequestEntityTooLarge, "Request body is larger than 64 MiB", "Request Entity Too Large", ""}).write(w)
		return nil
	}
	if err != nil {
		return nil
	}
	if b.Len() == 0 {
		return []byte{} // not nil: an empty body gets the JSON error
	}
	return b.Bytes()
}

func (s *Server) models(w http.ResponseWriter, _ *http.Request) {
	var cards []byte
	for i, name := range append([]string{s.modelName()}, s.cfg.Aliases...) {
		if i > 0 {
			cards = append(cards, ',')
		}
		cards = fmt.Appendf(cards, `{"id":%s,"object":"model","created":%d,"owned_by":"%s","root":%s,"parent":null,"max_model_len":%d,`+
			`"permission":[{"id":"modelperm-%016x","object":"model_permission","created":%[2]d,"allow_create_engine":false,`+
			`"allow_sampling":true,"allow_logprobs":true,"allow_search_indices":false,"allow_view":true,"allow_fine_tuning":false,`+
			`"organization":"*","group":null,"is_blocking":false}]}`,
			quoted(name), s.created, serverName, quoted(s.modelName()), s.cfg.MaxModelLen, s.cfg.Seed)
	}
	writeJSON(w, http.StatusOK, fmt.Appendf(nil, `{"object":"list","data":[%s]}`, cards))
}

// tokenize answers /tokenize for a prompt or for messages. There are no special tokens, so add_special_tokens changes
// nothing.
func (s *Server) tokenize(w http.ResponseWriter, r *http.Request) {
	f, p, bad := s.tokenizeRequest(w, r)
	if f == nil && bad == nil {
		return
	}
	if bad != nil {
		bad.write(w)
		return
	}
	ids := p.tokenIDs()
	b := fmt.Appendf(nil, `{"count":%d,"max_model_len":%d,"tokens":`, len(ids), s.cfg.MaxModelLen)
	b = appendIDs(b, ids)
	b = append(b, `,"token_strs":`...)
	if !f.flag("return_token_strs", false) {
		writeJSON(w, http.StatusOK, append(b, "null}"...))
		return
	}
	for i, id := range ids {
		b = append(b, "[,"[min(i, 1)])
		b = append(b, quoted(tokenString(id))...)
	}
	if len(ids) == 0 {
		b = append(b, '[')
	}
	writeJSON(w, http.StatusOK, append(b, "]}"...))
}

// tokenizeRequest returns neither fields nor an error where nobody waits for an answer.
func (s *Server) tokenizeRequest(w http.ResponseWriter, r *http.Request) (*fields, prompt, *apiError) {
	body := readBody(w, r)
	if body == nil {
		return nil, prompt{}, nil
	}
	f, bad := decodeFields(body)
	if bad != nil {
		return nil, prompt{}, bad
	}
	if bad := s.checkModel(f); bad != nil {
		return nil, prompt{}, bad
	}
	f.flag("add_special_tokens", true)
	f.flag("return_token_strs", false)
	generationPrompt := f.flag("add_generation_prompt", true)
	var p prompt
	if f.has("messages") {
		p, bad = f.messages("messages", generationPrompt)
	} else {
		p.text = f.text("prompt", "")
		if !f.has("prompt") {
			f.missing("prompt")
		}
	}
	if invalid := f.err(); invalid != nil {
		bad = invalid
	}
	return f, p, bad
}

func (s *Server) checkModel(f *fields) *apiError {
	name := f.text("model", s.modelName())
	if invalid := f.err(); invalid != nil {
		return invalid
	}
	if !s.serves(name) {
		return s.unknownModel(name)
	}
	return nil
}

func (s *Server) detokenize(w http.ResponseWriter, r *http.Request) {
	body := readBody(w, r)
	if body == nil {
		return
	}
	f, bad := decodeFields(body)
	if bad == nil {
		bad = s.checkModel(f)
	}
	var ids []int32
	if bad == nil {
		ids, bad = f.tokenList("tokens")
	}
	if bad != nil {
		bad.write(w)
		return
	}
	b := append([]byte(`{"prompt":`), quoted(detokenize(ids))...)
	writeJSON(w, http.StatusOK, append(b, '}'))
}

func appendIDs(b []byte, ids []int32) []byte {
	b = append(b, '[')
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(id), 10)
	}
	return append(b, ']')
}
