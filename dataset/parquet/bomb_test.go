package parquet_test

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/servebench/servebench/dataset/parquet"
)

// compact writes Thrift's compact protocol; a field's number is below 15.
type compact struct {
	bytes.Buffer
	last int64
}

func (c *compact) field(id int64, wire byte) *compact {
	c.WriteByte(byte(id-c.last)<<4 | wire)
	c.last = id
	return c
}

func (c *compact) number(v int64) *compact {
	c.Write(binary.AppendVarint(nil, v))
	return c
}

func (c *compact) text(s string) *compact {
	c.Write(binary.AppendUvarint(nil, uint64(len(s))))
	c.WriteString(s)
	return c
}

// list begins a list; sub is a struct of its own, with its end.
func (c *compact) list(n int, wire byte) *compact {
	c.WriteByte(0xf0 | wire)
	c.Write(binary.AppendUvarint(nil, uint64(n)))
	return c
}

func (c *compact) sub(s *compact) *compact {
	c.Write(s.Bytes())
	c.WriteByte(0)
	return c
}

const i32, i64, binaryWire, listWire, structWire = 5, 6, 8, 9, 12

// one writes a file of one column with one page.
func one(repeated bool, codec, rows, values int64, unpacked int64, body []byte) []byte {
	header := new(compact)
	header.field(1, i32).number(0).field(2, i32).number(unpacked).field(3, i32).number(int64(len(body)))
	header.field(5, structWire).sub(new(compact).field(1, i32).number(values).field(2, i32).number(0).
		field(3, i32).number(3).field(4, i32).number(3))
	header.WriteByte(0)
	page := append(header.Bytes(), body...)

	repetition := int64(0)
	if repeated {
		repetition = 2
	}
	schema := new(compact).list(2, structWire).
		sub(new(compact).field(4, binaryWire).text("root").field(5, i32).number(1)).
		sub(new(compact).field(1, i32).number(6).field(3, i32).number(repetition).field(4, binaryWire).text("x"))
	meta := new(compact).field(1, i32).number(6).field(4, i32).number(codec).field(5, i64).number(values).
		field(6, i64).number(unpacked).field(7, i64).number(int64(len(page))).field(9, i64).number(4)
	group := new(compact).field(1, listWire).list(1, structWire).
		sub(new(compact).field(2, i64).number(4).field(3, structWire).sub(meta)).field(3, i64).number(rows)
	footer := new(compact).field(1, i32).number(1).field(2, listWire)
	footer.Write(schema.Bytes())
	footer.field(3, i64).number(rows).field(4, listWire).list(1, structWire).sub(group)
	footer.WriteByte(0)
	return end(append([]byte("PAR1"), page...), footer.Bytes())
}

func end(file, footer []byte) []byte {
	file = append(file, footer...)
	file = binary.LittleEndian.AppendUint32(file, uint32(len(footer)))
	return append(file, "PAR1"...)
}

// Few bytes that stand for very many values cost no memory of that size.
func TestBombs(t *testing.T) {
	// Rows of 2^20 values each, all of them empty lists' places in runs.
	const each, rows = 1 << 20, 100
	var levels []byte
	for range rows {
		levels = append(binary.AppendUvarint(levels, 1<<1), 0)
		levels = append(binary.AppendUvarint(levels, (each-1)<<1), 1)
	}
	body := append(binary.LittleEndian.AppendUint32(nil, uint32(len(levels))), levels...)
	nothing := append(binary.AppendUvarint(nil, each*rows<<1), 0)
	body = append(append(binary.LittleEndian.AppendUint32(body, uint32(len(nothing))), nothing...), 0)
	groups := new(compact).field(1, i32).number(1).field(4, listWire).list(1<<23, structWire)
	groups.Write(make([]byte, 1<<23+1))
	for name, c := range map[string]struct {
		file []byte
		want string
	}{
		"many values":     {one(true, 0, rows, each*rows, int64(len(body)), body), "more than 16777216 values in 17 rows"},
		"a large page":    {one(false, 6, 1, 1, 1<<40, []byte{1}), "a page of 1099511627776 bytes unpacked; want 536870912 at most"},
		"many row groups": {end([]byte("PAR1"), groups.Bytes()), "more than 4194304 columns and row groups"},
	} {
		f, err := parquet.Open(bytes.NewReader(c.file), int64(len(c.file)))
		if err == nil {
			_, err = f.Read(t.Context(), "x", all(f.Rows()))
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want ...%s", name, err, c.want)
		}
	}
	// One that is right, to show that the others fail for what they are.
	plain := one(false, 0, 1, 1, 7, []byte("\x03\x00\x00\x00abc"))
	f, err := parquet.Open(bytes.NewReader(plain), int64(len(plain)))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := f.Read(t.Context(), "x", []int{0}); err != nil || string(got[0].([]byte)) != "abc" {
		t.Errorf("%q, error %v", got, err)
	}
}
