package dataset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
)

// maxImage bounds the file of one picture.
const maxImage = 64 << 20

func (s Spec) validateImages(bad *problems) {
	s.validateCustom(bad)
	if s.TokenIDs {
		bad.addf("prompt-form: a chat with images cannot be token ids; want text")
	}
}

// imageRow is one line of a custom_image file: a prompt with pictures behind it,
// or a whole content of texts and pictures in any order.
type imageRow struct {
	line    int
	prompt  string
	content []contentPart
	mixed   bool // content is all there is: there is no prompt
	output  int  // output_tokens; 0 where the line has none
}

// contentPart is a text, or a picture where image is set.
type contentPart struct {
	text    string
	image   string
	options map[string]json.RawMessage // of image_url beside its url
}

// loadImages is vLLM's CustomImageDataset, in the order of a custom data set.
func loadImages(ctx context.Context, s Spec, t Tools) (*Set, error) {
	rows, err := s.readImages(ctx)
	if err != nil {
		return nil, err
	}
	set := &Set{Generator: "custom-image-jsonl", Python: shuffle(s, rows)}
	wanted := s.Prompts
	if wanted <= 0 {
		wanted = len(rows)
	}
	timed, rest := rows[:min(wanted, len(rows))], rows[min(wanted, len(rows)):]
	order := make([]int, len(timed))
	for i := range order {
		order[i] = i
	}
	order = append(order, s.again(set, len(timed), wanted)...)
	m := &imageMaker{spec: s, tools: t}
	seen := newMemory(s, len(order))
	set.Requests = make([]Request, len(order))
	err = each(ctx, set.Requests, t.Emit, func(ctx context.Context, i int, r *Request) (err error) {
		if *r, err = m.request(ctx, timed[order[i]]); err == nil {
			seen.note(i, *r)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	err = seen.addWarmups(s, set, func() ([]Request, error) {
		rows := warmRows(s, set, timed, rest, imageRow.salted)
		warm := make([]Request, len(rows))
		return warm, each(ctx, warm, nil, func(ctx context.Context, i int, r *Request) (err error) {
			*r, err = m.request(ctx, rows[i])
			return err
		})
	})
	m.doubts(set)
	return set, err
}

// salted puts a text in front of all others.
func (r imageRow) salted(salt string) imageRow {
	if r.mixed {
		r.content = append([]contentPart{{text: salt}}, r.content...)
	} else {
		r.prompt = salt + r.prompt
	}
	return r
}

func (s Spec) readImages(ctx context.Context) (rows []imageRow, err error) {
	err = jsonLines(ctx, s.Path, func(line int, object map[string]json.RawMessage) error {
		row, err := parseImageRow(object)
		if err != nil {
			return err
		}
		if s.OutputLen == -1 && row.output == 0 {
			return errors.New("no output_tokens; want a number of tokens in every line, or custom-output-len")
		}
		row.line = line
		rows = append(rows, row)
		return nil
	})
	if err == nil && len(rows) == 0 {
		err = noRows(s.Path)
	}
	return rows, err
}

// parseImageRow reads one line; content goes before prompt and image_files, as
// in vLLM.
func parseImageRow(object map[string]json.RawMessage) (row imageRow, err error) {
	if raw, ok := object["output_tokens"]; ok {
		if row.output, err = parseOutput(raw); err != nil {
			return row, err
		}
	}
	if raw, ok := object["content"]; ok {
		row.mixed = true
		row.content, err = parseContent(raw)
		return row, err
	}
	prompt, ok1 := object["prompt"]
	files, ok2 := object["image_files"]
	if !ok1 || !ok2 {
		return row, errors.New(`no "content"; want it, or "prompt" and "image_files"`)
	}
	if row.prompt, err = parseText(prompt, "prompt"); err != nil {
		return row, err
	}
	list, err := jsonList("image_files", files)
	for i, raw := range list {
		var part contentPart
		if part.image, err = imageText(fmt.Sprintf("image_files[%d]", i), raw); err != nil {
			break
		}
		row.content = append(row.content, part)
	}
	return row, err
}

func jsonList(key string, raw json.RawMessage) (list []json.RawMessage, err error) {
	if list, err = parseList(raw, key); err == nil && len(list) == 0 {
		err = fmt.Errorf("%s is empty; want one item at least", key)
	}
	return list, err
}

func imageText(key string, raw json.RawMessage) (string, error) {
	text, err := parseText(raw, key)
	if err == nil && text == "" {
		err = fmt.Errorf("%s is empty; want a path or an address", key)
	}
	return text, err
}

func parseContent(raw json.RawMessage) ([]contentPart, error) {
	list, err := jsonList("content", raw)
	if err != nil {
		return nil, err
	}
	parts := make([]contentPart, len(list))
	for i, raw := range list {
		if parts[i], err = parsePart(raw); err != nil {
			return nil, fmt.Errorf("content[%d]: %w", i, err)
		}
	}
	return parts, nil
}

// parsePart reads {"type": "text", "text": …}, {"type": "image", "image": …} and
// {"type": "image_url", "image_url": … or {"url": …, …}}.
func parsePart(raw json.RawMessage) (part contentPart, err error) {
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) != nil || object == nil {
		return part, fmt.Errorf("is %s; want an object", jsonKind(raw))
	}
	var kind string
	if raw, ok := object["type"]; ok {
		if kind, err = parseText(raw, "type"); err != nil {
			return part, err
		}
	}
	value, ok := object[kind]
	switch {
	case kind != "text" && kind != "image" && kind != "image_url":
		return part, fmt.Errorf(`type is %.40q; want "text", "image" or "image_url"`, kind)
	case !ok:
		return part, fmt.Errorf("no %q; want the %s under this key", kind, kind)
	case kind == "text":
		part.text, err = parseText(value, kind)
		return part, err
	case kind == "image_url" && value[0] == '{':
		if err := json.Unmarshal(value, &part.options); err != nil {
			return part, fmt.Errorf("image_url: %w", err)
		}
		address, ok := part.options["url"]
		if !ok {
			return part, errors.New(`image_url has no "url"; want a string under this key`)
		}
		delete(part.options, "url")
		value, kind = address, "image_url.url"
	}
	part.image, err = imageText(kind, value)
	return part, err
}

// imageMaker turns rows into requests, on all cores.
type imageMaker struct {
	spec  Spec
	tools Tools

	mu      sync.Mutex
	absent  map[string]int // lines of local files that the server alone may have; guarded by mu
	distant int            // addresses that were to be fetched; guarded by mu
}

func (m *imageMaker) request(ctx context.Context, row imageRow) (Request, error) {
	r := Request{Prompt: row.prompt, OutputTokens: m.spec.OutputLen}
	if m.spec.OutputLen == -1 {
		r.OutputTokens = row.output
	}
	text := row.prompt
	for _, part := range row.content {
		text += part.text
		raw, err := m.part(part, row.line)
		if err != nil {
			return r, fmt.Errorf("%s:%d: %w", m.spec.Path, row.line, err)
		}
		r.Parts = append(r.Parts, raw)
	}
	if row.mixed {
		// A text may stand between pictures: Prompt comes before all of Parts.
		r.Messages = userMessage(r.Parts)
		r.Parts = nil
	}
	if _, local := vocabularyOf(m.tools.Tokenizer); !local {
		return r, nil
	}
	ids, err := m.tools.Tokenizer.Encode(ctx, text, true)
	if err != nil {
		return r, fmt.Errorf("%s:%d: encode prompt: %w", m.spec.Path, row.line, err)
	}
	r.InputTokens = len(ids)
	return r, nil
}

// userMessage is a chat of one user message with this content.
func userMessage(parts []json.RawMessage) json.RawMessage {
	out := []byte(`[{"role":"user","content":[`)
	for i, part := range parts {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, part...)
	}
	return append(out, `]}]`...)
}

func (m *imageMaker) part(p contentPart, line int) (json.RawMessage, error) {
	if p.image == "" {
		return append(appendJSON([]byte(`{"type":"text","text":`), p.text), '}'), nil
	}
	address, err := m.address(p.image, line)
	if err != nil {
		return nil, err
	}
	return imagePart(address, p.options), nil
}

// address is what the server gets: a URL as it is, a local file as file:// or,
// with Media.ClientSide, as what is in it.
func (m *imageMaker) address(image string, line int) (string, error) {
	path, local := image, true
	switch {
	case strings.HasPrefix(image, "data:image/"):
		return image, nil
	case strings.HasPrefix(image, "http://"), strings.HasPrefix(image, "https://"):
		if m.spec.Media.ClientSide {
			m.mu.Lock()
			m.distant++
			m.mu.Unlock()
		}
		return image, nil
	case strings.HasPrefix(image, "file://"):
		plain, err := url.PathUnescape(strings.TrimPrefix(image, "file://"))
		if err != nil {
			return "", fmt.Errorf("image %.200q: %w", image, err)
		}
		path, local = plain, false
	}
	if m.spec.Media.ClientSide {
		return readImage(path)
	}
	if _, err := os.Stat(path); err != nil {
		m.mu.Lock()
		if m.absent == nil {
			m.absent = map[string]int{}
		}
		if first := m.absent[path]; first == 0 || line < first {
			m.absent[path] = line
		}
		m.mu.Unlock()
	}
	if !local {
		return image, nil
	}
	// The server takes the rest of the address as an escaped path.
	return "file://" + strings.NewReplacer("%", "%25", "#", "%23", "?", "%3F").Replace(path), nil
}

func readImage(path string) (string, error) {
	// Before it is opened: a FIFO would wait for somebody to write.
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", fmt.Errorf("image: %w", err)
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("image %s: is no regular file; want a picture", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("image: %w", err)
	}
	defer f.Close()
	file, err := io.ReadAll(io.LimitReader(f, maxImage+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("image: %w", err)
	case len(file) > maxImage:
		return "", fmt.Errorf("image %s: larger than %d MiB; want a smaller one", path, maxImage>>20)
	}
	kind, ok := imageKind(file)
	if !ok {
		return "", fmt.Errorf("image %s: no picture that is known here; want PNG, JPEG, GIF, WebP, BMP, TIFF or AVIF", path)
	}
	return dataAddress(kind, file), nil
}

// imageKind names a picture's MIME type by its first bytes, as servers that open
// it do.
func imageKind(file []byte) (kind string, ok bool) {
	head := string(file[:min(len(file), 16)])
	for _, k := range []struct{ kind, at0, at8 string }{
		{"image/png", "\x89PNG\r\n\x1a\n", ""}, {"image/jpeg", "\xff\xd8\xff", ""}, {"image/gif", "GIF8", ""},
		{"image/webp", "RIFF", "WEBP"}, {"image/bmp", "BM", ""}, {"image/tiff", "II*\x00", ""}, {"image/tiff", "MM\x00*", ""},
	} {
		if strings.HasPrefix(head, k.at0) && (k.at8 == "" || len(head) >= 8 && strings.HasPrefix(head[8:], k.at8)) {
			return k.kind, true
		}
	}
	if len(head) >= 12 && head[4:8] == "ftyp" && strings.HasPrefix(head[8:], "avi") {
		return "image/avif", true
	}
	return "", false
}

func (m *imageMaker) doubts(set *Set) {
	if len(m.absent) > 0 {
		// The line and not the path: warnings go into manifests.
		set.warnf("%d image files, that of line %d for one, are not on this machine: the server must have them, or want custom-ensure-client-side-data",
			len(m.absent), slices.Min(slices.Collect(maps.Values(m.absent))))
	}
	if m.distant > 0 {
		set.warnf("%d images are sent as http addresses: the server fetches them, custom-ensure-client-side-data or not", m.distant)
	}
}
