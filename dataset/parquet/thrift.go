package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Wire types of Thrift's compact protocol.
const (
	thriftStop   = 0
	thriftTrue   = 1
	thriftFalse  = 2
	thriftByte   = 3
	thriftI16    = 4
	thriftI32    = 5
	thriftI64    = 6
	thriftDouble = 7
	thriftBinary = 8
	thriftList   = 9
	thriftSet    = 10
	thriftMap    = 11
	thriftStruct = 12
)

// maxDepth bounds nesting, in the metadata and in schemas; real files use a few
// levels.
const maxDepth = 40

// source is what metadata is read from: a footer in memory or a column chunk.
type source interface {
	io.Reader
	io.ByteReader
	Discard(n int) (int, error)
}

// thrift reads the compact protocol. Its methods return zero values after the
// first error, which is kept in err: callers check once, at the end.
type thrift struct {
	in    source
	depth int
	kept  int // elements that the caller keeps
	err   error
}

// maxKept bounds what a footer lists: columns, row groups, chunks. An element may
// be one byte there, and is a hundred in memory.
const maxKept = 1 << 22

// keep counts an element.
func (t *thrift) keep() {
	if t.kept++; t.kept > maxKept {
		t.failf("more than %d columns and row groups", maxKept)
	}
}

func (t *thrift) failf(format string, args ...any) {
	if t.err == nil {
		t.err = fmt.Errorf(format, args...)
	}
}

func (t *thrift) byte() byte {
	if t.err != nil {
		return 0
	}
	b, err := t.in.ReadByte()
	if err != nil {
		t.err = noEOF(err)
	}
	return b
}

func (t *thrift) uvarint() uint64 {
	var v uint64
	for shift := 0; shift < 64; shift += 7 {
		b := t.byte()
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return v
		}
	}
	t.failf("a number of more than 64 bits")
	return 0
}

// int reads an i16, i32 or i64.
func (t *thrift) int() int64 {
	v := t.uvarint()
	return int64(v>>1) ^ -int64(v&1)
}

// text reads a binary of at most limit bytes.
func (t *thrift) text(limit uint64) string {
	n := t.uvarint()
	if n > limit {
		t.failf("a name of %d bytes", n)
	}
	if t.err != nil {
		return ""
	}
	buf := make([]byte, n)
	if _, err := io.ReadFull(t.in, buf); err != nil {
		t.err = noEOF(err)
	}
	return string(buf)
}

// fields calls field for each field of a struct; field must read the value, or
// skip it.
func (t *thrift) fields(field func(id int64, wire byte)) {
	if t.depth++; t.depth > maxDepth {
		t.failf("metadata nested more than %d levels deep", maxDepth)
	}
	defer func() { t.depth-- }()
	var id int64
	for t.err == nil {
		head := t.byte()
		wire := head & 15
		if wire == thriftStop {
			return
		}
		if delta := int64(head >> 4); delta != 0 {
			id += delta
		} else {
			id = t.int()
		}
		field(id, wire)
	}
}

// list calls element for each element of a list.
func (t *thrift) list(element func(wire byte)) {
	head := t.byte()
	n := uint64(head >> 4)
	if n == 15 {
		n = t.uvarint()
	}
	for ; n > 0 && t.err == nil; n-- {
		element(head & 15)
	}
}

// skip reads over a value.
func (t *thrift) skip(wire byte) {
	switch wire {
	case thriftTrue, thriftFalse: // the value is in the wire type
	case thriftByte:
		t.byte()
	case thriftI16, thriftI32, thriftI64:
		t.uvarint()
	case thriftDouble:
		t.discard(8)
	case thriftBinary:
		t.discard(t.uvarint())
	case thriftList, thriftSet:
		t.list(t.skipElement)
	case thriftMap:
		n := t.uvarint()
		if n == 0 {
			return
		}
		kinds := t.byte()
		for ; n > 0 && t.err == nil; n-- {
			t.skipElement(kinds >> 4)
			t.skipElement(kinds & 15)
		}
	case thriftStruct:
		t.fields(func(_ int64, wire byte) { t.skip(wire) })
	default:
		t.failf("unknown type %d in the metadata", wire)
	}
}

// skipElement differs from skip in booleans, which take a byte in a list.
func (t *thrift) skipElement(wire byte) {
	if wire == thriftTrue || wire == thriftFalse {
		wire = thriftByte
	}
	t.skip(wire)
}

func (t *thrift) discard(n uint64) {
	if n > 1<<30 {
		t.failf("a value of %d bytes in the metadata", n)
	}
	if t.err != nil {
		return
	}
	if _, err := t.in.Discard(int(n)); err != nil {
		t.err = noEOF(err)
	}
}

// noEOF makes an end inside a value an error that does not read as a good end.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// uint32At is a little endian number in the first bytes of b.
func uint32At(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }
