// Package parquet reads columns of Parquet files.
//
// It reads what data sets of the hub consist of: nested columns of strings,
// numbers, booleans and bytes, plain or with dictionaries, uncompressed or with
// snappy, gzip or zstd. Other encodings are errors that name them. A damaged
// file is an error that names the column, never a panic, and costs memory in
// proportion to the file and not to a number found in it.
//
// Note: parquet-go (v0.25, v0.32) was tried first. One changed byte made it
// allocate 4 GB, or print a warning and return other strings; its newer releases
// add 6 MB to the program.
package parquet

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

const (
	magic     = "PAR1"
	maxFooter = 1 << 28
	maxName   = 1 << 12
	// maxRows is far beyond what a benchmark draws from; with it row numbers and
	// their sums fit an int anywhere.
	maxRows = 1 << 31
)

// Column is a column of the schema's first level.
type Column struct {
	Name string
	// Type is for people: "string", "list of {role: string, content: string}".
	Type string
}

// File is an open Parquet file. It may be read concurrently where its reader
// may.
type File struct {
	in     io.ReaderAt
	rows   int64
	root   *node
	leaves int
	groups []rowGroup
}

// rowGroup is a run of rows with one chunk for each leaf of the schema.
type rowGroup struct {
	rows   int64
	chunks []chunk
}

// chunk says where the values of a leaf are.
type chunk struct {
	physical     int64
	codec        int64
	values       int64
	compressed   int64
	data, dict   int64 // offsets of the first pages; dict 0 where there is none
	uncompressed int64
	elsewhere    bool // in another file
}

// Open reads the footer of a file of size bytes. The reader must stay usable
// while the File is used.
func Open(in io.ReaderAt, size int64) (*File, error) {
	tail := make([]byte, 8)
	if size < 12 {
		return nil, errors.New("no Parquet file: shorter than 12 bytes")
	}
	if _, err := in.ReadAt(tail, size-8); err != nil {
		return nil, noEOF(err)
	}
	if string(tail[4:]) != magic {
		return nil, fmt.Errorf("no Parquet file, or cut short: it does not end in %s", magic)
	}
	length := int64(uint32At(tail))
	if length > size-12 || length > maxFooter {
		return nil, fmt.Errorf("damaged: a footer of %d bytes in a file of %d", length, size)
	}
	footer := make([]byte, length)
	if _, err := in.ReadAt(footer, size-8-length); err != nil {
		return nil, noEOF(err)
	}
	f := &File{in: in}
	if err := f.parse(footer); err != nil {
		return nil, fmt.Errorf("damaged footer: %w", err)
	}
	return f, f.check(size)
}

// Rows is the number of rows.
func (f *File) Rows() int { return int(f.rows) }

// Columns lists the columns in the file's order.
func (f *File) Columns() []Column {
	out := make([]Column, len(f.root.children))
	for i, n := range f.root.children {
		out[i] = Column{n.name, n.describe()}
	}
	return out
}

func (f *File) parse(footer []byte) error {
	t := &thrift{in: bufio.NewReader(bytes.NewReader(footer))}
	var elements []element
	t.fields(func(id int64, wire byte) {
		switch {
		case id == 2 && wire == thriftList:
			t.list(func(byte) { elements = append(elements, t.element()) })
		case id == 3 && wire == thriftI64:
			f.rows = t.int()
		case id == 4 && wire == thriftList:
			t.list(func(byte) { f.groups = append(f.groups, t.rowGroup()) })
		default:
			t.skip(wire)
		}
	})
	if t.err != nil {
		return t.err
	}
	var err error
	f.root, f.leaves, err = tree(elements)
	return err
}

func (t *thrift) rowGroup() (g rowGroup) {
	t.keep()
	t.fields(func(id int64, wire byte) {
		switch {
		case id == 1 && wire == thriftList:
			t.list(func(byte) { g.chunks = append(g.chunks, t.chunk()) })
		case id == 3 && wire == thriftI64:
			g.rows = t.int()
		default:
			t.skip(wire)
		}
	})
	return g
}

func (t *thrift) chunk() (c chunk) {
	t.keep()
	t.fields(func(id int64, wire byte) {
		switch {
		case id == 1:
			c.elsewhere = true
			t.skip(wire)
		case id == 3 && wire == thriftStruct:
			t.fields(func(id int64, wire byte) { t.chunkMeta(&c, id, wire) })
		default:
			t.skip(wire)
		}
	})
	return c
}

func (t *thrift) chunkMeta(c *chunk, id int64, wire byte) {
	fields := map[int64]*int64{1: &c.physical, 4: &c.codec, 5: &c.values, 6: &c.uncompressed, 7: &c.compressed, 9: &c.data, 11: &c.dict}
	if p := fields[id]; p != nil && (wire == thriftI32 || wire == thriftI64) {
		*p = t.int()
		return
	}
	t.skip(wire)
}

// check holds the footer's numbers against each other, so that reading can rely
// on them.
func (f *File) check(size int64) error {
	var rows int64
	leaves := f.root.leaves(nil)
	for i, g := range f.groups {
		if g.rows < 0 || g.rows > maxRows || len(g.chunks) != f.leaves {
			return fmt.Errorf("damaged footer: row group %d has %d rows and %d columns; want %d columns", i, g.rows, len(g.chunks), f.leaves)
		}
		rows += g.rows
		if rows > maxRows {
			return fmt.Errorf("more than %d rows", int64(maxRows))
		}
		for _, leaf := range leaves {
			if err := g.chunks[leaf.leaf].check(leaf, g.rows, size); err != nil {
				return fmt.Errorf("damaged footer: column %s, row group %d: %w", leaf.path(), i, err)
			}
		}
	}
	if rows != f.rows {
		return fmt.Errorf("damaged footer: %d rows, but row groups of %d", f.rows, rows)
	}
	return nil
}

func (c chunk) check(leaf *node, rows, size int64) error {
	switch start := c.start(); {
	case c.elsewhere:
		return errors.New("its data is in another file")
	case c.physical != leaf.physical:
		return fmt.Errorf("type %d; the schema has %d", c.physical, leaf.physical)
	case rows == 0 && c.values != 0, c.values < rows || leaf.maxRep == 0 && c.values != rows || c.values > maxRows:
		return fmt.Errorf("%d values in %d rows", c.values, rows)
	case rows == 0: // some writers give no place to nothing
	case start < 4 || c.compressed < 0 || start > size || c.compressed > size-start:
		return fmt.Errorf("%d bytes at offset %d in a file of %d", c.compressed, start, size)
	}
	return nil
}

// start is the offset of the chunk's first page. Some writers note a dictionary
// behind the data where there is none.
func (c chunk) start() int64 {
	if c.dict > 0 && c.dict < c.data {
		return c.dict
	}
	return c.data
}

// node is a node of the schema.
type node struct {
	name           string
	parent         *node
	children       []*node
	optional       bool
	repeated       bool
	list, isMap    bool
	text           bool
	physical       int64
	width          int64 // of a fixed_len_byte_array
	leaf           int   // number of the leaf, -1 for a group
	maxDef, maxRep int
}

// Physical types.
const (
	boolean = iota
	int32Type
	int64Type
	int96
	float
	double
	byteArray
	fixedLen
)

var physicalNames = []string{"boolean", "int32", "int64", "int96", "float", "double", "bytes", "bytes"}

// element is a node as the footer lists it, parents before their children.
type element struct {
	node     node
	children int64
}

func (t *thrift) element() (e element) {
	t.keep()
	e.node.physical = -1
	t.fields(func(id int64, wire byte) {
		number := wire == thriftI32
		switch {
		case id == 1 && number:
			e.node.physical = t.int()
		case id == 2 && number:
			e.node.width = t.int()
		case id == 3 && number:
			repetition := t.int()
			e.node.optional, e.node.repeated = repetition == 1, repetition == 2
		case id == 4 && wire == thriftBinary:
			e.node.name = t.text(maxName)
		case id == 5 && number:
			e.children = t.int()
		case id == 6 && number: // converted type: the older annotation
			switch t.int() {
			case 0, 4, 19: // UTF8, ENUM, JSON
				e.node.text = true
			case 1, 2: // MAP, MAP_KEY_VALUE
				e.node.isMap = true
			case 3:
				e.node.list = true
			}
		case id == 10 && wire == thriftStruct: // logical type, a union
			t.fields(func(id int64, wire byte) {
				switch id {
				case 1, 4, 12: // STRING, ENUM, JSON
					e.node.text = true
				case 2:
					e.node.isMap = true
				case 3:
					e.node.list = true
				}
				t.skip(wire)
			})
		default:
			t.skip(wire)
		}
	})
	return e
}

// tree turns the footer's list into a tree.
func tree(elements []element) (root *node, leaves int, err error) {
	rest := elements
	var build func(parent *node, depth int) (*node, error)
	build = func(parent *node, depth int) (*node, error) {
		if len(rest) == 0 || depth > maxDepth {
			return nil, errors.New("a schema that ends early or is nested too deep")
		}
		e := rest[0]
		rest = rest[1:]
		n := &e.node
		n.parent, n.leaf = parent, -1
		if parent != nil {
			n.maxDef, n.maxRep = parent.maxDef, parent.maxRep
			if n.optional || n.repeated {
				n.maxDef++
			}
			if n.repeated {
				n.maxRep++
			}
		}
		if e.children == 0 && parent != nil {
			if n.physical < 0 || n.physical > fixedLen || n.physical == fixedLen && (n.width < 0 || n.width > 1<<20) {
				return nil, fmt.Errorf("column %s of type %d, width %d", n.path(), n.physical, n.width)
			}
			n.leaf = leaves
			leaves++
			return n, nil
		}
		for range e.children {
			child, err := build(n, depth+1)
			if err != nil {
				return nil, err
			}
			n.children = append(n.children, child)
		}
		return n, nil
	}
	if root, err = build(nil, 0); err != nil {
		return nil, 0, err
	}
	if len(rest) > 0 {
		return nil, 0, fmt.Errorf("a schema with %d nodes too many", len(rest))
	}
	return root, leaves, nil
}

// leaves appends the leaves below n, in order.
func (n *node) leaves(to []*node) []*node {
	if n.leaf >= 0 {
		return append(to, n)
	}
	for _, c := range n.children {
		to = c.leaves(to)
	}
	return to
}

func (n *node) path() string {
	if n.parent == nil || n.parent.parent == nil {
		return n.name
	}
	return n.parent.path() + "." + n.name
}

// inner is the node whose values are the elements of a list: lists are written
// as group { repeated group { element } }, older ones as group { repeated element }.
func (n *node) inner() (repeated, element *node) {
	if !(n.list || n.isMap) || len(n.children) != 1 || !n.children[0].repeated {
		return nil, nil
	}
	repeated = n.children[0]
	if n.list && len(repeated.children) == 1 && repeated.name != "array" && repeated.name != n.name+"_tuple" {
		return repeated, repeated.children[0]
	}
	return repeated, repeated
}

func (n *node) describe() string {
	var s string
	switch _, element := n.inner(); {
	case element != nil && element.repeated:
		return "list of " + element.single()
	case element != nil:
		return "list of " + element.describe()
	default:
		s = n.single()
	}
	if n.repeated {
		return "list of " + s
	}
	return s
}

// single describes one value of n, where it is repeated.
func (n *node) single() string {
	switch {
	case n.leaf >= 0 && n.text:
		return "string"
	case n.leaf >= 0:
		return physicalNames[n.physical]
	}
	parts := make([]string, len(n.children))
	for i, c := range n.children {
		parts[i] = c.name + ": " + c.describe()
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
