package parquet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Read returns the values of a column in the given rows, which must ascend.
//
// A value is nil, a bool, an int64, a float64, a string, a []byte, a []any (a
// list), or a map[string]any (a group; a map is a list of groups of key and
// value). Pages without wanted rows are skipped where that can be known.
func (f *File) Read(ctx context.Context, column string, rows []int) ([]any, error) {
	top := f.column(column)
	if top == nil {
		return nil, fmt.Errorf("no column %s", column)
	}
	out := make([]any, 0, len(rows))
	first := 0
	for i, g := range f.groups {
		n := 0
		for n < len(rows) && rows[n] < first+int(g.rows) {
			n++
		}
		if n > 0 {
			vals, err := f.readGroup(ctx, top, g, rows[:n], first)
			if err != nil {
				return nil, fmt.Errorf("column %s, row group %d: %w", column, i, err)
			}
			out = append(out, vals...)
		}
		first, rows = first+int(g.rows), rows[n:]
	}
	if len(rows) > 0 {
		return nil, fmt.Errorf("row %d of %d", rows[0], f.rows)
	}
	return out, nil
}

func (f *File) column(name string) *node {
	for _, n := range f.root.children {
		if n.name == name {
			return n
		}
	}
	return nil
}

// maxValues bounds the values of one row, and maxHeld those of all rows that are
// read at once, of one leaf: runs make many of few bytes.
const (
	maxValues = 1 << 20
	maxHeld   = 1 << 24
)

// entry is one value of a leaf with its levels (Dremel's striping).
type entry struct {
	def, rep int
	value    any
}

// readGroup reads each leaf below top for the wanted rows and puts them together.
func (f *File) readGroup(ctx context.Context, top *node, g rowGroup, rows []int, first int) ([]any, error) {
	out := make([]any, len(rows))
	leaves := top.leaves(nil)
	if len(leaves) == 0 {
		return out, nil // a group without fields
	}
	stripes := make([][][]entry, len(leaves))
	for i, leaf := range leaves {
		var err error
		if stripes[i], err = f.readLeaf(ctx, leaf, g.chunks[leaf.leaf], rows, first); err != nil {
			if leaf != top {
				err = fmt.Errorf("%s: %w", leaf.path(), err)
			}
			return nil, err
		}
	}
	for r := range rows {
		a := assembly{first: leaves[0].leaf}
		for i := range leaves {
			a.rest = append(a.rest, stripes[i][r])
		}
		out[r] = a.value(top)
		if a.err != nil || slices.ContainsFunc(a.rest, func(e []entry) bool { return len(e) > 0 }) {
			return nil, fmt.Errorf("row %d: damaged: %w", rows[r], errors.Join(errUneven, a.err))
		}
	}
	return out, nil
}

var errUneven = errors.New("the fields of a group have different numbers of values")

// readLeaf returns the entries of each wanted row.
func (f *File) readLeaf(ctx context.Context, leaf *node, c chunk, rows []int, first int) ([][]entry, error) {
	out := make([][]entry, len(rows))
	in := newPages(f.in, leaf, c)
	row, wanted := first-1, 0 // the row of the value before, the first row not passed
	held := 0
	for wanted < len(rows) {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		h, err := in.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if leaf.maxRep == 0 && rows[wanted] > row+int(h.values) {
			row += int(h.values)
			if err := in.skip(h); err != nil {
				return nil, err
			}
			continue
		}
		p, err := in.open(h)
		if err != nil {
			return nil, err
		}
		for p.left > 0 && wanted < len(rows) {
			if p.left%(1<<20) == 0 && ctx.Err() != nil { // one page may have 2^31 values
				return nil, context.Cause(ctx)
			}
			if row, wanted, err = p.step(rows, row, wanted, out); err != nil {
				return nil, err
			}
			if held+p.taken > maxHeld {
				return nil, fmt.Errorf("more than %d values in %d rows", maxHeld, min(wanted+1, len(rows)))
			}
		}
		held += p.taken
	}
	if last := rows[len(rows)-1]; row < last {
		return nil, fmt.Errorf("damaged: values for %d rows; want row %d", row+1-first, last-first)
	}
	return out, nil
}

// step reads one value, into the row it belongs to if that is wanted. It returns
// that row and the first wanted row that is not complete; len(rows) where all are.
func (p *page) step(rows []int, row, wanted int, out [][]entry) (int, int, error) {
	def, rep, err := p.levels()
	if err != nil {
		return row, wanted, err
	}
	if rep == 0 {
		row++
		for wanted < len(rows) && rows[wanted] < row {
			wanted++
		}
	}
	here := wanted < len(rows) && rows[wanted] == row
	e := entry{def: def, rep: rep}
	switch {
	case def < p.leaf.maxDef:
	case here:
		e.value, err = p.values.next()
	default:
		err = p.values.skip()
	}
	if here {
		if len(out[wanted]) == maxValues {
			return row, wanted, fmt.Errorf("more than %d values in one row", maxValues)
		}
		out[wanted] = append(out[wanted], e)
		p.taken++
		if p.leaf.maxRep == 0 {
			wanted++ // nothing more belongs to this row
		}
	}
	return row, wanted, err
}

// assembly puts a row together from the entries of its leaves.
type assembly struct {
	first int // the number of the leaf that rest begins with
	rest  [][]entry
	err   error
}

// head is the next entry of the first leaf below n: it tells what of n is there.
func (a *assembly) head(n *node) (entry, bool) {
	for n.leaf < 0 {
		if len(n.children) == 0 {
			return entry{}, false
		}
		n = n.children[0]
	}
	rest := a.rest[n.leaf-a.first]
	if len(rest) == 0 {
		return entry{}, false
	}
	return rest[0], true
}

// drop takes one entry from each leaf below n.
func (a *assembly) drop(n *node) (last entry) {
	for _, leaf := range n.leaves(nil) {
		rest := &a.rest[leaf.leaf-a.first]
		if len(*rest) == 0 {
			a.err = errUneven
			return entry{}
		}
		last, *rest = (*rest)[0], (*rest)[1:]
	}
	return last
}

// value reads n once: all its elements where it is repeated.
func (a *assembly) value(n *node) any {
	if n.repeated {
		return a.list(n, n)
	}
	return a.single(n)
}

// list reads the elements of a repeated node.
func (a *assembly) list(repeated, element *node) any {
	out := []any{}
	e, ok := a.head(repeated)
	if !ok || a.err != nil {
		a.err = errUneven
		return out
	}
	if e.def < repeated.maxDef {
		a.drop(repeated)
		return out
	}
	for more := true; more && a.err == nil; {
		if element == repeated {
			out = append(out, a.present(element))
		} else {
			out = append(out, a.value(element))
		}
		e, ok = a.head(repeated)
		more = ok && e.rep == repeated.maxRep
	}
	return out
}

// single reads one value of n.
func (a *assembly) single(n *node) any {
	if n.optional {
		e, ok := a.head(n)
		if !ok {
			a.err = errUneven
			return nil
		}
		if e.def < n.maxDef {
			a.drop(n)
			return nil
		}
	}
	return a.present(n)
}

// present reads a value that is known to be there.
func (a *assembly) present(n *node) any {
	if a.err != nil {
		return nil
	}
	if n.leaf >= 0 {
		return a.drop(n).value
	}
	if repeated, element := n.inner(); repeated != nil {
		return a.list(repeated, element)
	}
	out := make(map[string]any, len(n.children))
	for _, c := range n.children {
		out[c.name] = a.value(c)
	}
	return out
}
