package dataset

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/jpeg"
	"maps"
	"math"
	"slices"

	"github.com/servebench/servebench/dataset/nprand"
	"github.com/servebench/servebench/tokenize"
)

// maxPixels bounds one image; a JPEG cannot be wider or higher than maxSide.
const (
	maxPixels = 1 << 26
	maxSide   = 1<<16 - 1
)

func (s Spec) validateMedia(bad *problems) {
	bad.lengths(s)
	if s.BatchSize > 1 {
		bad.addf("random-batch-size: %d prompts cannot share a request with images; want 1", s.BatchSize)
	}
	if s.TokenIDs {
		bad.addf("prompt-form: a chat with images cannot be token ids; want text")
	}
	s.Media.validate(bad)
}

func (m Media) validate(bad *problems) {
	before := len(*bad)
	bad.whole("random-mm-base-items-per-request", int64(m.Items), 0, 1<<16)
	if !(m.ItemsRatio >= 0 && m.ItemsRatio <= 1) {
		bad.addf("random-mm-num-mm-items-range-ratio: %v is out of range; want 0 <= ratio <= 1", m.ItemsRatio)
	}
	for modality, limit := range m.Limit {
		bad.whole("random-mm-limit-mm-per-prompt: "+modality, int64(limit), 0, 1<<16)
	}
	for _, b := range m.Buckets {
		switch {
		case b.Height < 1 || b.Width < 1 || b.Frames < 1 || b.Height > maxSide || b.Width > maxSide || b.Height*b.Width > maxPixels:
			bad.addf("random-mm-bucket-config: (%d, %d, %d) is no size; want sides from 1 to %d, %d pixels at most and 1 frame",
				b.Height, b.Width, b.Frames, maxSide, maxPixels)
		case !(b.Probability >= 0 && b.Probability <= math.MaxFloat64/float64(len(m.Buckets))):
			bad.addf("random-mm-bucket-config: probability %v of (%d, %d, %d) is out of range; want 0 or more",
				b.Probability, b.Height, b.Width, b.Frames)
		}
	}
	if len(*bad) > before {
		return
	}
	buckets := normalized(m.Buckets)
	if len(buckets) == 0 {
		bad.addf("random-mm-bucket-config: no size has a probability; want one above 0 at least")
		return
	}
	for _, b := range buckets {
		if _, ok := m.Limit[b.modality()]; !ok {
			bad.addf("random-mm-limit-mm-per-prompt: no %q, which random-mm-bucket-config has; want a limit", b.modality())
			return
		}
	}
	least, most := m.counts(buckets)
	if least > most {
		bad.addf("random-mm-limit-mm-per-prompt: %d items at most, of %d at least; want a higher limit or fewer items", most, least)
	}
	videos := func(b Bucket) bool { return b.modality() == "video" }
	if most > 0 && m.Limit["video"] > 0 && slices.ContainsFunc(buckets, videos) {
		bad.addf(`random-mm-bucket-config: videos are not made here; want probability 0 for more than 1 frame, or a limit of "video": 0`)
	}
}

func (b Bucket) modality() string {
	if b.Frames > 1 {
		return "video"
	}
	return "image"
}

// normalized leaves buckets of probability 0 out and scales the others to a sum
// of 1, in vLLM's order of operations.
func normalized(buckets []Bucket) (out []Bucket) {
	total := 0.
	for _, b := range buckets {
		if b.Probability > 0 {
			total += b.Probability
			out = append(out, b)
		}
	}
	for i := range out {
		out[i].Probability /= total
	}
	return out
}

// counts is the closed interval of items in a request.
func (m Media) counts(buckets []Bucket) (least, most int64) {
	limit := int64(0)
	for modality, n := range m.Limit {
		if slices.ContainsFunc(buckets, func(b Bucket) bool { return b.modality() == modality }) {
			limit += int64(n)
		}
	}
	least, most = span(m.Items, m.ItemsRatio)
	return max(0, least), min(limit, most)
}

// mediaItem is an image before its pixels are drawn.
type mediaItem struct {
	height, width int
	rng           nprand.Generator // where the pixels begin
}

// items draws the sizes of one request's images as vLLM does: a count, then for
// each a size and its pixels. A modality that is full is left out from when it
// is drawn once more.
func (m Media) items(rng *nprand.Generator) (items []mediaItem) {
	buckets := normalized(m.Buckets)
	least, most := m.counts(buckets)
	n := int(rng.Integers(least, most+1, 1)[0])
	used := map[string]int{}
	for len(items) < n {
		p := make([]float64, len(buckets))
		for i, b := range buckets {
			p[i] = b.Probability
		}
		b := buckets[rng.Choice(p)]
		if used[b.modality()] < m.Limit[b.modality()] {
			used[b.modality()]++
			items = append(items, mediaItem{b.Height, b.Width, *rng})
			rng.SkipBytes(3 * b.Height * b.Width)
			continue
		}
		full := b.modality()
		buckets = normalized(slices.DeleteFunc(slices.Clone(buckets), func(b Bucket) bool { return b.modality() == full }))
		if len(buckets) == 0 {
			break // not reached: n is within the limits together
		}
	}
	return items
}

// pixels draws the image's red, green and blue, row by row.
func (it mediaItem) pixels() []byte {
	rgb := make([]byte, 3*it.height*it.width)
	it.rng.Bytes(rgb)
	return rgb
}

// part encodes the image as JPEG of quality 75, as vLLM's PIL does: the same
// pixels and tables, another encoder.
func (it mediaItem) part() (json.RawMessage, error) {
	rgb := it.pixels()
	img := image.NewRGBA(image.Rect(0, 0, it.width, it.height))
	for i, j := 0, 0; j < len(rgb); i, j = i+4, j+3 {
		img.Pix[i], img.Pix[i+1], img.Pix[i+2], img.Pix[i+3] = rgb[j], rgb[j+1], rgb[j+2], 0xff
	}
	var file bytes.Buffer
	if err := jpeg.Encode(&file, img, &jpeg.Options{Quality: 75}); err != nil {
		return nil, fmt.Errorf("encode image of %d x %d: %w", it.height, it.width, err)
	}
	return imagePart(dataAddress("image/jpeg", file.Bytes()), nil), nil
}

// dataAddress is a data URL of this MIME type.
func dataAddress(kind string, file []byte) string {
	head := "data:" + kind + ";base64,"
	out := append(make([]byte, 0, len(head)+base64.StdEncoding.EncodedLen(len(file))), head...)
	return string(base64.StdEncoding.AppendEncode(out, file))
}

// imagePart is a chat's part with an image, and what stands beside its address.
func imagePart(address string, options map[string]json.RawMessage) json.RawMessage {
	out := appendJSON([]byte(`{"type":"image_url","image_url":{"url":`), address)
	for _, key := range slices.Sorted(maps.Keys(options)) {
		out = append(appendJSON(append(out, ','), key), ':')
		out = append(out, options[key]...)
	}
	return append(out, `}}`...)
}

// appendJSON appends a string in JSON, with < > & as they are.
func appendJSON(out []byte, s string) []byte {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string
	return append(out, bytes.TrimSuffix(text.Bytes(), []byte("\n"))...)
}

// loadMedia is vLLM's RandomMultiModalDataset for images: random prompts, and
// behind each of them images of random pixels.
func loadMedia(ctx context.Context, s Spec, t Tools) (*Set, error) {
	set := &Set{Synthetic: true}
	gen, err := s.mediaMaker(t.Tokenizer, &set.Generator)
	if err != nil {
		return nil, err
	}
	return s.generate(ctx, set, gen, t.Emit, s.Warmups)
}

func (s Spec) mediaMaker(tok tokenize.Tokenizer, name *string) (generator, error) {
	v, known := vocabularyOf(tok)
	if !known {
		*name = "servebench-random-mm-words-1"
		return &mediaWords{wordPrompts{spec: s, tok: tok}}, nil
	}
	*name = "vllm-random-mm"
	// Here vLLM leaves out all that is marked special, so that no text holds the
	// place of an image.
	v.Special = v.Control
	g, err := newVocabularyPrompts(s, tok, v)
	if g == nil {
		return nil, err
	}
	return &mediaPrompts{vocabularyPrompts: g}, nil // an empty text is fine beside images
}

// mediaPrompts are vLLM's: one generator for lengths, padding and pixels, one
// request after the other.
type mediaPrompts struct {
	*vocabularyPrompts
	// draw replaces mediaItem.part in tests.
	draw func(mediaItem) (json.RawMessage, error)
}

func (g *mediaPrompts) prompts(ctx context.Context, seed uint64, n int, emit func(int, *Request) error) ([]Request, error) {
	rng := nprand.NewGenerator(seed)
	in, out := g.spec.lengths(rng, g.input, n)
	starts := g.starts(rng.Integers(0, g.size, n))
	prefix := pick(rng, g.allowed, g.spec.PrefixLen)
	// Used for one attempt at a time, padding draws no more than it hands out.
	a := adjuster{tok: g.tok, padding: padding{rng: rng, size: g.size}}
	prefix, err := a.adjustPrefix(ctx, prefix)
	if err != nil {
		return nil, err
	}
	reqs := make([]Request, n)
	for i := range reqs {
		reqs[i].OutputTokens = int(out[i])
	}
	b := mediaBlock{adjuster: &a, texts: make([]attempt, min(n, 64*cores()))}
	for first := 0; first < n; first += len(b.texts) {
		b.texts = b.texts[:min(len(b.texts), n-first)]
		err := parallel(ctx, cores(), len(b.texts), func(ctx context.Context, i int) error {
			ids := g.run(prefix, starts[first+i], int(in[first+i]))
			b.texts[i] = attempt{ids: ids, target: g.spec.PrefixLen + int(in[first+i]), left: corrections}
			return b.texts[i].advance(ctx, g.tok)
		})
		if err != nil {
			return nil, err
		}
		if err := b.finish(ctx, g.spec.Media, rng); err != nil {
			return nil, err
		}
		err = parallel(ctx, cores(), len(b.texts), func(_ context.Context, i int) error {
			r := &reqs[first+i]
			r.Prompt, r.InputTokens = b.texts[i].text, len(b.texts[i].ids)
			return addParts(first+i, r, b.items[i], g.draw, emit)
		})
		if err != nil {
			return nil, err
		}
	}
	g.excess += a.excess
	return reqs, nil
}

// mediaBlock is as many requests as are worked on together.
type mediaBlock struct {
	*adjuster
	texts []attempt
	items [][]mediaItem
}

// finish makes what depends on the requests before: padding, then the images'
// sizes. Pixels are skipped here and drawn by whoever encodes them.
func (b *mediaBlock) finish(ctx context.Context, m Media, rng *nprand.Generator) error {
	b.items = b.items[:0]
	for i := range b.texts {
		text := &b.texts[i]
		if err := text.finish(ctx, b.tok, &b.padding, 0); err != nil {
			return err
		}
		b.padding.discard(text.drawn)
		b.excess += len(text.ids) - text.target
		b.items = append(b.items, m.items(rng))
	}
	return nil
}

// addParts encodes the images of request i and hands it on.
func addParts(i int, r *Request, items []mediaItem, draw func(mediaItem) (json.RawMessage, error), emit func(int, *Request) error) error {
	if draw == nil {
		draw = mediaItem.part
	}
	for _, it := range items {
		part, err := draw(it)
		if err != nil {
			return err
		}
		r.Parts = append(r.Parts, part)
	}
	if emit == nil {
		return nil
	}
	return emit(i, r)
}

// mediaWords are words where the vocabulary is unknown; each request's images
// have a generator of their own.
type mediaWords struct{ wordPrompts }

func (g *mediaWords) prompts(ctx context.Context, seed uint64, n int, emit func(int, *Request) error) ([]Request, error) {
	return g.wordPrompts.prompts(ctx, seed, n, func(i int, r *Request) error {
		own := nprand.NewGenerator(derive(fmt.Sprintf("images %d", i), seed))
		return addParts(i, r, g.spec.Media.items(own), nil, emit)
	})
}
