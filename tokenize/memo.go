//go:build hf && cgo

package tokenize

import (
	"encoding/binary"
	"hash/maphash"
	"math"
	"sync"
	"sync/atomic"
)

const (
	// maxPiece bounds what is remembered: longer pieces hardly come twice.
	maxPiece = 1 << 10
	// maxRecords is how many bytes the records of a memo take at most, a power of
	// two. Random prompts of 200,000 tokens need a third of it; in other texts the
	// frequent words come before it is full.
	maxRecords = 16 << 20
)

// A memo encodes a text piece by piece, and each piece only once: random prompts
// are runs of consecutive tokens, so that the same pieces come again and again.
// It is safe for concurrent use; readers take no lock.
type memo struct {
	anchors anchors
	plain   func(text string) ([]int, error)
	seed    maphash.Seed
	full    atomic.Bool
	table   atomic.Pointer[memoTable]
	mu      sync.Mutex // held by writers of the table
}

func newMemo(a anchors, plain func(string) ([]int, error)) *memo {
	m := &memo{anchors: a, plain: plain, seed: maphash.MakeSeed()}
	m.table.Store(&memoTable{slots: make([]atomic.Uint64, 1<<12), records: make([]byte, 1<<16)})
	return m
}

// encode returns what plain does.
func (m *memo) encode(text string) (ids []int, err error) {
	ids = make([]int, 0, len(text)/4+16)
	missed := 0 // so many bytes before at are left to the library, in one call
	for at := 0; at < len(text); {
		piece := text[at : at+m.anchors.first(text[at:])]
		at += len(piece)
		hash := maphash.String(m.seed, piece)
		record, known := m.table.Load().find(hash, piece)
		if !known && (len(piece) > maxPiece || m.full.Load()) {
			missed += len(piece)
			continue
		}
		if missed > 0 {
			before := at - len(piece)
			if ids, err = m.appendPlain(ids, text[before-missed:before]); err != nil {
				return nil, err
			}
			missed = 0
		}
		if known {
			for ; len(record) > 0; record = record[4:] {
				ids = append(ids, int(binary.LittleEndian.Uint32(record)))
			}
			continue
		}
		old := len(ids)
		if ids, err = m.appendPlain(ids, piece); err != nil {
			return nil, err
		}
		m.remember(hash, piece, ids[old:])
	}
	if missed > 0 {
		return m.appendPlain(ids, text[len(text)-missed:])
	}
	return ids, nil
}

func (m *memo) appendPlain(ids []int, text string) ([]int, error) {
	more, err := m.plain(text)
	return append(ids, more...), err
}

// remember stores the ids of a piece, if there is room.
func (m *memo) remember(hash uint64, piece string, ids []int) {
	size := recordHead + len(piece) + 4*len(ids)
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.table.Load()
	if _, known := t.find(hash, piece); known || m.full.Load() || len(ids) > math.MaxUint16 {
		return
	}
	if t.used+size > len(t.records) || 2*t.count >= len(t.slots) {
		if len(t.records) >= maxRecords {
			m.full.Store(true)
			return
		}
		t = t.grown(m.seed)
		m.table.Store(t)
	}
	t.add(hash, piece, ids)
}

// memoTable is a hash table with open addressing. It holds no pointers, so that
// the garbage collector need not look at its hundreds of thousands of entries.
type memoTable struct {
	// A slot is 0, or the upper half of the hash above the place of the record
	// plus one. It is set after its record, which then never changes: who has
	// read the slot may read the record.
	slots []atomic.Uint64
	// A record is the length of the piece and the number of its ids, 2 bytes
	// each, then the piece, then the ids, 4 bytes each.
	records []byte
	// What of records is taken, and the number of slots that are; for writers.
	used, count int
}

const recordHead = 4

// find returns the ids of piece as they are in its record.
func (t *memoTable) find(hash uint64, piece string) (ids []byte, ok bool) {
	mask := uint64(len(t.slots) - 1)
	for at := hash & mask; ; at = (at + 1) & mask {
		slot := t.slots[at].Load()
		if slot == 0 {
			return nil, false
		}
		if slot>>32 != hash>>32 {
			continue
		}
		have, ids := t.record(slot)
		if string(have) == piece {
			return ids, true
		}
	}
}

// record returns what a slot points to.
func (t *memoTable) record(slot uint64) (piece, ids []byte) {
	r := t.records[uint32(slot)-1:]
	end := recordHead + int(binary.LittleEndian.Uint16(r))
	return r[recordHead:end], r[end : end+4*int(binary.LittleEndian.Uint16(r[2:]))]
}

// add stores a record, for which there must be room.
func (t *memoTable) add(hash uint64, piece string, ids []int) {
	place := t.used
	r := binary.LittleEndian.AppendUint16(t.records[:place], uint16(len(piece)))
	r = append(binary.LittleEndian.AppendUint16(r, uint16(len(ids))), piece...)
	for _, id := range ids {
		r = binary.LittleEndian.AppendUint32(r, uint32(id))
	}
	t.used = len(r)
	t.link(hash, place)
}

func (t *memoTable) link(hash uint64, place int) {
	mask := uint64(len(t.slots) - 1)
	at := hash & mask
	for t.slots[at].Load() != 0 {
		at = (at + 1) & mask
	}
	t.slots[at].Store(hash&^math.MaxUint32 | uint64(place+1))
	t.count++
}

// grown returns a table twice as large with what t has.
func (t *memoTable) grown(seed maphash.Seed) *memoTable {
	g := &memoTable{
		slots:   make([]atomic.Uint64, 2*len(t.slots)),
		records: make([]byte, 2*len(t.records)),
		used:    t.used,
	}
	copy(g.records, t.records[:t.used])
	for i := range t.slots {
		if slot := t.slots[i].Load(); slot != 0 {
			piece, _ := t.record(slot)
			g.link(maphash.Bytes(seed, piece), int(uint32(slot)-1))
		}
	}
	return g
}
