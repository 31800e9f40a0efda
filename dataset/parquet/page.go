package parquet

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
)

// maxPage bounds what a page unpacks to: a few bytes of zstd may stand for all of
// memory. Writers make pages of 1 MB, or of one value that is larger.
const maxPage = 1 << 29

// Kinds of pages.
const (
	dataPage       = 0
	indexPage      = 1
	dictionaryPage = 2
	dataPageV2     = 3
)

// Encodings.
const (
	plain           = 0
	plainDictionary = 2
	rle             = 3
	rleDictionary   = 8
)

var encodingNames = map[int64]string{
	0: "PLAIN", 2: "PLAIN_DICTIONARY", 3: "RLE", 4: "BIT_PACKED", 5: "DELTA_BINARY_PACKED",
	6: "DELTA_LENGTH_BYTE_ARRAY", 7: "DELTA_BYTE_ARRAY", 8: "RLE_DICTIONARY", 9: "BYTE_STREAM_SPLIT",
}

var codecNames = map[int64]string{3: "lzo", 4: "brotli", 5: "lz4", 7: "lz4_raw"}

// pageHeader is the part of a page's header that reading needs.
type pageHeader struct {
	kind                     int64
	uncompressed, compressed int64
	crc                      uint32
	hasCRC                   bool
	values                   int64
	encoding                 int64
	def, rep                 int64 // encodings of the levels of a page of version 1
	defBytes, repBytes       int64 // of version 2
	plainV2                  bool  // version 2, values not compressed
}

func readPageHeader(in source) (h pageHeader, err error) {
	t := &thrift{in: in}
	h.def, h.rep = rle, rle
	t.fields(func(id int64, wire byte) {
		switch {
		case id == 1 && wire == thriftI32:
			h.kind = t.int()
		case id == 2 && wire == thriftI32:
			h.uncompressed = t.int()
		case id == 3 && wire == thriftI32:
			h.compressed = t.int()
		case id == 4 && wire == thriftI32:
			h.crc, h.hasCRC = uint32(t.int()), true
		case (id == 5 || id == 7 || id == 8) && wire == thriftStruct:
			t.fields(func(field int64, wire byte) { t.pageField(&h, id, field, wire) })
		default:
			t.skip(wire)
		}
	})
	return h, t.err
}

// pageField reads a field of the header's part for data pages of version 1 (5),
// dictionary pages (7) or data pages of version 2 (8).
func (t *thrift) pageField(h *pageHeader, part, field int64, wire byte) {
	if part == 8 && field == 7 {
		h.plainV2 = wire == thriftFalse
		return
	}
	if wire != thriftI32 {
		t.skip(wire)
		return
	}
	v := t.int()
	switch {
	case field == 1:
		h.values = v
	case part != 8 && field == 2, part == 8 && field == 4:
		h.encoding = v
	case part == 5 && field == 3:
		h.def = v
	case part == 5 && field == 4:
		h.rep = v
	case part == 8 && field == 5:
		h.defBytes = v
	case part == 8 && field == 6:
		h.repBytes = v
	}
}

// pages reads the pages of a chunk one after the other.
type pages struct {
	leaf *node
	meta chunk
	in   *bufio.Reader
	left int64 // bytes of the chunk that follow
	seen int64 // values of the pages so far

	dict     func() ([]any, error) // decodes the dictionary, once
	hasDict  bool
	dictVals []any
}

func newPages(in io.ReaderAt, leaf *node, c chunk) *pages {
	section := io.NewSectionReader(in, c.start(), c.compressed)
	return &pages{leaf: leaf, meta: c, in: bufio.NewReaderSize(section, int(min(64<<10, c.compressed))), left: c.compressed}
}

// counted counts the bytes that a header takes.
type counted struct {
	*bufio.Reader
	n int64
}

func (c *counted) ReadByte() (byte, error) {
	c.n++
	return c.Reader.ReadByte()
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	return n, err
}

func (c *counted) Discard(n int) (int, error) {
	n, err := c.Reader.Discard(n)
	c.n += int64(n)
	return n, err
}

// next returns the header of the next data page, whose body is still to be read
// or skipped; dictionaries on the way are taken in.
func (p *pages) next() (h pageHeader, err error) {
	for {
		if p.seen == p.meta.values {
			return h, io.EOF
		}
		head := &counted{Reader: p.in}
		if h, err = readPageHeader(head); err != nil {
			return h, fmt.Errorf("page header: %w", noEOF(err))
		}
		p.left -= head.n
		if h.compressed < 0 || h.compressed > p.left || h.uncompressed < 0 {
			return h, fmt.Errorf("damaged: a page of %d bytes, %d unpacked, where %d are left", h.compressed, h.uncompressed, p.left)
		}
		if h.uncompressed > maxPage {
			return h, fmt.Errorf("a page of %d bytes unpacked; want %d at most", h.uncompressed, maxPage)
		}
		switch h.kind {
		case dataPage, dataPageV2:
			if h.values < 0 || h.values > p.meta.values-p.seen {
				return h, fmt.Errorf("damaged: a page of %d values where %d are left", h.values, p.meta.values-p.seen)
			}
			p.seen += h.values
			return h, nil
		case dictionaryPage:
			err = p.takeDictionary(h)
		default:
			err = p.skip(h)
		}
		if err != nil {
			return h, err
		}
	}
}

func (p *pages) skip(h pageHeader) error {
	p.left -= h.compressed
	_, err := p.in.Discard(int(h.compressed))
	return noEOF(err)
}

// body reads the bytes of a page and checks them against its checksum, if it
// has one.
func (p *pages) body(h pageHeader) ([]byte, error) {
	p.left -= h.compressed
	body := make([]byte, h.compressed)
	if _, err := io.ReadFull(p.in, body); err != nil {
		return nil, noEOF(err)
	}
	if h.hasCRC && crc32.ChecksumIEEE(body) != h.crc {
		return nil, errors.New("damaged: the checksum of a page is wrong")
	}
	return body, nil
}

func (p *pages) takeDictionary(h pageHeader) error {
	if p.hasDict {
		return errors.New("damaged: two dictionaries")
	}
	if h.encoding != plain && h.encoding != plainDictionary {
		return fmt.Errorf("dictionary encoded as %s; want PLAIN", name(encodingNames, h.encoding))
	}
	body, err := p.body(h)
	if err != nil {
		return err
	}
	p.hasDict = true
	// Unpacked when a page needs it: often none of a chunk's rows is wanted.
	p.dict = func() ([]any, error) {
		if p.dictVals != nil {
			return p.dictVals, nil
		}
		data, err := unpack(p.meta.codec, body, h.uncompressed)
		if err != nil {
			return nil, err
		}
		if h.values < 0 || h.values > int64(len(data))*8+1 {
			return nil, fmt.Errorf("damaged: a dictionary of %d values in %d bytes", h.values, len(data))
		}
		in := plainValues{leaf: p.leaf, data: data}
		vals := make([]any, 0, h.values)
		for range h.values {
			v, err := in.next()
			if err != nil {
				return nil, fmt.Errorf("dictionary: %w", err)
			}
			vals = append(vals, v)
		}
		p.dictVals = vals
		return vals, nil
	}
	return nil
}

// page is a data page ready to be read value by value.
type page struct {
	leaf   *node
	left   int64
	taken  int     // values that were wanted
	def    *hybrid // nil where every value is there
	rep    *hybrid // nil where nothing is repeated
	values values
}

// open unpacks a data page.
func (p *pages) open(h pageHeader) (*page, error) {
	body, err := p.body(h)
	if err != nil {
		return nil, err
	}
	out := &page{leaf: p.leaf, left: h.values}
	if h.kind == dataPageV2 {
		body, err = p.openV2(out, h, body)
	} else {
		body, err = p.openV1(out, h, body)
	}
	if err != nil {
		return nil, err
	}
	switch {
	case h.encoding == plain:
		out.values = &plainValues{leaf: p.leaf, data: body}
	case h.encoding == rleDictionary || h.encoding == plainDictionary:
		out.values = &dictValues{pages: p, body: body}
	case h.encoding == rle && p.leaf.physical == boolean:
		if out.values, err = newRLEBooleans(body); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("encoded as %s, which is not read here; want PLAIN or a dictionary, as pyarrow writes", name(encodingNames, h.encoding))
	}
	return out, nil
}

func (p *pages) openV1(out *page, h pageHeader, body []byte) ([]byte, error) {
	body, err := unpack(p.meta.codec, body, h.uncompressed)
	if err != nil {
		return nil, err
	}
	levels := func(highest int, encoding int64) (*hybrid, error) {
		if highest == 0 {
			return nil, nil
		}
		if encoding != rle {
			return nil, fmt.Errorf("levels encoded as %s; want RLE", name(encodingNames, encoding))
		}
		if len(body) < 4 || int64(uint32At(body)) > int64(len(body)-4) {
			return nil, errors.New("damaged: levels longer than their page")
		}
		n := int(uint32At(body))
		h := newHybrid(body[4:4+n], width(highest))
		body = body[4+n:]
		return h, nil
	}
	if out.rep, err = levels(p.leaf.maxRep, h.rep); err != nil {
		return nil, err
	}
	out.def, err = levels(p.leaf.maxDef, h.def)
	return body, err
}

// openV2: the levels stand before the values and are never compressed.
func (p *pages) openV2(out *page, h pageHeader, body []byte) ([]byte, error) {
	levels := h.repBytes + h.defBytes
	if h.repBytes < 0 || h.defBytes < 0 || levels > int64(len(body)) || levels > h.uncompressed {
		return nil, fmt.Errorf("damaged: levels of %d bytes in a page of %d", levels, len(body))
	}
	if p.leaf.maxRep > 0 {
		out.rep = newHybrid(body[:h.repBytes], width(p.leaf.maxRep))
	}
	if p.leaf.maxDef > 0 {
		out.def = newHybrid(body[h.repBytes:levels], width(p.leaf.maxDef))
	}
	if h.plainV2 {
		return body[levels:], nil
	}
	return unpack(p.meta.codec, body[levels:], h.uncompressed-levels)
}

// levels returns the levels of the next value. Where def is the leaf's highest
// the value is there, and must be taken from p.values or skipped.
func (p *page) levels() (def, rep int, err error) {
	p.left--
	if p.rep != nil {
		if rep, err = p.rep.level(p.leaf.maxRep); err != nil {
			return 0, 0, err
		}
	}
	if p.def == nil {
		return p.leaf.maxDef, rep, nil
	}
	def, err = p.def.level(p.leaf.maxDef)
	return def, rep, err
}

// values are a page's values without nulls.
type values interface {
	next() (any, error)
	skip() error
}

var errShort = errors.New("damaged: a page with fewer values than it says")

// plainValues are values one after the other.
type plainValues struct {
	leaf *node
	data []byte
	bit  uint8
}

func (p *plainValues) take(n int) ([]byte, error) {
	if n < 0 || n > len(p.data) {
		return nil, errShort
	}
	out := p.data[:n]
	p.data = p.data[n:]
	return out, nil
}

// raw returns the bytes of the next value, of any type but boolean.
func (p *plainValues) raw() ([]byte, error) {
	switch p.leaf.physical {
	case int32Type, float:
		return p.take(4)
	case int64Type, double:
		return p.take(8)
	case int96:
		return p.take(12)
	case fixedLen:
		return p.take(int(p.leaf.width))
	}
	n, err := p.take(4)
	if err != nil {
		return nil, err
	}
	if uint32At(n) > math.MaxInt32 {
		return nil, errShort
	}
	return p.take(int(uint32At(n)))
}

func (p *plainValues) skip() error {
	var err error
	if p.leaf.physical == boolean {
		_, err = p.boolean()
	} else {
		_, err = p.raw()
	}
	return err
}

func (p *plainValues) boolean() (bool, error) {
	if len(p.data) == 0 {
		return false, errShort
	}
	v := p.data[0]>>p.bit&1 == 1
	if p.bit++; p.bit == 8 {
		p.bit, p.data = 0, p.data[1:]
	}
	return v, nil
}

func (p *plainValues) next() (any, error) {
	if p.leaf.physical == boolean {
		return p.boolean()
	}
	raw, err := p.raw()
	if err != nil {
		return nil, err
	}
	switch p.leaf.physical {
	case int32Type:
		return int64(int32(uint32At(raw))), nil
	case int64Type:
		return int64(binary.LittleEndian.Uint64(raw)), nil
	case float:
		return float64(math.Float32frombits(uint32At(raw))), nil
	case double:
		return math.Float64frombits(binary.LittleEndian.Uint64(raw)), nil
	}
	if p.leaf.text {
		return string(raw), nil
	}
	return bytes.Clone(raw), nil
}

// dictValues are numbers of a dictionary's values. The dictionary is decoded
// when the first of them is wanted.
type dictValues struct {
	pages *pages
	body  []byte
	index *hybrid
	dict  []any
}

func (d *dictValues) start() error {
	if d.index != nil {
		return nil
	}
	if !d.pages.hasDict {
		return errors.New("damaged: no dictionary before a page that uses one")
	}
	if len(d.body) == 0 || d.body[0] > 32 {
		return errors.New("damaged: a page without the width of its numbers")
	}
	var err error
	d.index = newHybrid(d.body[1:], int(d.body[0]))
	d.dict, err = d.pages.dict()
	return err
}

func (d *dictValues) skip() error {
	if err := d.start(); err != nil {
		return err
	}
	_, err := d.index.next()
	return err
}

func (d *dictValues) next() (any, error) {
	if err := d.start(); err != nil {
		return nil, err
	}
	i, err := d.index.next()
	if err != nil {
		return nil, err
	}
	if int64(i) >= int64(len(d.dict)) {
		return nil, fmt.Errorf("damaged: value %d of a dictionary of %d", i, len(d.dict))
	}
	return d.dict[i], nil
}

// rleBooleans are booleans as runs.
type rleBooleans struct{ *hybrid }

func newRLEBooleans(body []byte) (rleBooleans, error) {
	if len(body) < 4 || int64(uint32At(body)) > int64(len(body)-4) {
		return rleBooleans{}, errShort
	}
	return rleBooleans{newHybrid(body[4:4+uint32At(body)], 1)}, nil
}

func (b rleBooleans) next() (any, error) {
	v, err := b.hybrid.next()
	return v == 1, err
}

func (b rleBooleans) skip() error {
	_, err := b.hybrid.next()
	return err
}

// hybrid reads Parquet's mixture of runs and bit-packed groups of eight.
type hybrid struct {
	data   []byte
	width  int
	run    uint64 // values left in this run
	value  uint32 // of a run
	packed []byte // of bit-packed groups
	bit    int    // position in packed
}

func newHybrid(data []byte, width int) *hybrid { return &hybrid{data: data, width: width} }

func (h *hybrid) level(highest int) (int, error) {
	v, err := h.next()
	if err == nil && int64(v) > int64(highest) {
		err = fmt.Errorf("damaged: a level of %d where %d is the highest", v, highest)
	}
	return int(v), err
}

func (h *hybrid) next() (uint32, error) {
	if h.width == 0 {
		return 0, nil
	}
	for h.run == 0 {
		if err := h.start(); err != nil {
			return 0, err
		}
	}
	h.run--
	if h.packed == nil {
		return h.value, nil
	}
	var v uint64
	for i, shift := h.bit>>3, -(h.bit & 7); shift < h.width; i, shift = i+1, shift+8 {
		b := uint64(h.packed[i])
		if shift < 0 {
			v |= b >> -shift
		} else {
			v |= b << shift
		}
	}
	h.bit += h.width
	return uint32(v & (1<<h.width - 1)), nil
}

// start reads the head of the next run.
func (h *hybrid) start() error {
	head, n := binary.Uvarint(h.data)
	if n <= 0 {
		return errShort
	}
	h.data = h.data[n:]
	if head&1 == 0 {
		bytes := (h.width + 7) / 8
		if len(h.data) < bytes {
			return errShort
		}
		h.run, h.value, h.packed = head>>1, 0, nil
		for i := range bytes {
			h.value |= uint32(h.data[i]) << (8 * i)
		}
		h.data = h.data[bytes:]
		return nil
	}
	// The last group may be cut short, as some writers do.
	groups := min(head>>1, uint64(len(h.data)))
	size := min(groups*uint64(h.width), uint64(len(h.data)))
	h.run = min(groups*8, size*8/uint64(h.width))
	if h.run == 0 {
		return errShort
	}
	h.packed, h.bit, h.data = h.data[:size], 0, h.data[size:]
	return nil
}

// width is the number of bits of levels up to highest.
func width(highest int) int {
	n := 0
	for ; highest > 0; highest >>= 1 {
		n++
	}
	return n
}

// unpack undoes a page's compression. The memory it takes grows with what there
// is to unpack and not with size, which may be damaged.
func unpack(codec int64, body []byte, size int64) ([]byte, error) {
	var out []byte
	var err error
	switch codec {
	case 0:
		out = body
	case 1:
		out, err = unsnappy(body, size)
	case 2:
		var in *gzip.Reader
		if in, err = gzip.NewReader(bytes.NewReader(body)); err == nil {
			out, err = readUpTo(in, size)
		}
	case 6:
		var in *zstd.Decoder
		if in, err = zstd.NewReader(bytes.NewReader(body), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(128<<20)); err == nil {
			defer in.Close()
			out, err = readUpTo(in, size)
		}
	default:
		return nil, fmt.Errorf("compressed with %s, which is not read here; want snappy, zstd, gzip or none", name(codecNames, codec))
	}
	if err == nil && int64(len(out)) != size {
		err = fmt.Errorf("%d bytes; want %d", len(out), size)
	}
	if err != nil {
		return nil, fmt.Errorf("damaged: unpack page: %w", err)
	}
	return out, nil
}

func unsnappy(body []byte, size int64) ([]byte, error) {
	if size == 0 && len(body) == 0 {
		return nil, nil
	}
	n, err := snappy.DecodedLen(body)
	if err != nil {
		return nil, err
	}
	// Three bytes of snappy stand for at most 64.
	if int64(n) != size || n > 22*len(body)+64 {
		return nil, fmt.Errorf("%d bytes out of %d; want %d", n, len(body), size)
	}
	return snappy.Decode(nil, body)
}

func readUpTo(in io.Reader, size int64) ([]byte, error) {
	var buf bytes.Buffer
	_, err := buf.ReadFrom(io.LimitReader(in, size+1))
	return buf.Bytes(), err
}

func name(names map[int64]string, v int64) string {
	if s, ok := names[v]; ok {
		return s
	}
	return fmt.Sprintf("number %d", v)
}
