package sim

import (
	"container/list"
)

// block is one block of the KV cache. Blocks are only told apart where there is a prefix cache.
type block struct {
	hash uint64 // of all tokens up to the block's end; valid where kept
	kept bool   // in the table: a later prompt can hit it
	refs int
	idle *list.Element // its place among the idle blocks; nil while in use
}

// blockPool is the KV cache: how many blocks are in use and, with a prefix cache, which tokens the others still hold. As
// in vLLM a block is kept as soon as its last token is scheduled, a request's blocks are let go from the last to the
// first, and the one longest idle is evicted.
type blockPool struct {
	size    int // blocks
	tokens  int // of a block
	caching bool

	free  int // blocks that no request holds, kept or not
	made  int // of the size blocks, those that exist as values
	spare []*block
	idle  list.List // of *block: kept and unused, the first to be evicted in front
	table map[uint64]*block
}

func newBlockPool(size, tokens int, caching bool) *blockPool {
	return &blockPool{size: size, tokens: tokens, caching: caching, free: size, table: map[uint64]*block{}}
}

// need is the number of blocks of n tokens.
func (p *blockPool) need(n int) int { return (n + p.tokens - 1) / p.tokens }

// lookup returns the kept blocks that s begins with. The last token is always computed again: its output is needed.
func (p *blockPool) lookup(s *sequence) []*block {
	if !p.caching || s.prompt == nil {
		return nil
	}
	n := (s.tokens() - 1) / p.tokens
	s.hashTo(n, p.tokens)
	for i, h := range s.hashes[:n] {
		if p.table[h] == nil {
			n = i
			break
		}
	}
	hits := make([]*block, n)
	for i := range hits {
		hits[i] = p.table[s.hashes[i]]
	}
	return hits
}

// fits says whether s fits with all its tokens, beginning with hits. vLLM asks that of a request before it runs.
func (p *blockPool) fits(s *sequence, hits []*block) bool {
	need := p.need(s.tokens()) - len(hits)
	for _, b := range hits {
		if b.refs == 0 {
			need++ // it leaves the free ones too
		}
	}
	return need <= p.free
}

// share gives hits to s, which holds nothing yet.
func (p *blockPool) share(s *sequence, hits []*block) {
	for _, b := range hits {
		if b.refs == 0 {
			p.idle.Remove(b.idle)
			b.idle = nil
			p.free--
		}
		b.refs++
	}
	s.held = append(s.held[:0], hits...)
	s.blocks = len(hits)
}

// grow gives s room for n tokens in all, or changes nothing and says false.
func (p *blockPool) grow(s *sequence, n int) bool {
	more := p.need(n) - s.blocks
	if more > p.free {
		return false
	}
	if more <= 0 {
		return true
	}
	p.free -= more
	s.blocks += more
	for ; p.caching && more > 0; more-- {
		b := p.take()
		b.refs = 1
		s.held = append(s.held, b)
	}
	return true
}

// take returns an unused block: one that holds nothing or else the one longest idle. There is one.
func (p *blockPool) take() *block {
	if n := len(p.spare); n > 0 {
		b := p.spare[n-1]
		p.spare = p.spare[:n-1]
		return b
	}
	if p.made < p.size {
		p.made++
		return &block{}
	}
	b := p.idle.Remove(p.idle.Front()).(*block)
	b.idle = nil
	delete(p.table, b.hash)
	b.kept = false
	return b
}

// keep makes the full blocks among the first n tokens of s known to later requests.
func (p *blockPool) keep(s *sequence, n int) {
	if !p.caching || s.prompt == nil {
		return
	}
	full := n / p.tokens
	s.hashTo(full, p.tokens)
	for i := s.keptBlocks; i < full; i++ {
		b, h := s.held[i], s.hashes[i]
		if p.table[h] == nil { // of two requests with the same tokens the first one's block stays
			b.hash, b.kept = h, true
			p.table[h] = b
		}
	}
	s.keptBlocks = max(s.keptBlocks, full)
}

// release takes all blocks from s.
func (p *blockPool) release(s *sequence) {
	if !p.caching {
		p.free += s.blocks
	}
	for i := len(s.held) - 1; i >= 0; i-- {
		b := s.held[i]
		b.refs--
		switch {
		case b.refs > 0:
			continue
		case b.kept:
			b.idle = p.idle.PushBack(b)
		default:
			p.spare = append(p.spare, b)
		}
		p.free++
	}
	s.held, s.blocks, s.keptBlocks = s.held[:0], 0, 0
}

// reset empties the prefix cache; like vLLM's it does so only while no request holds a block.
func (p *blockPool) reset() {
	if p.free < p.size {
		return
	}
	for e := p.idle.Front(); e != nil; e = e.Next() {
		b := e.Value.(*block)
		b.kept, b.idle = false, nil
		p.spare = append(p.spare, b)
	}
	p.idle.Init()
	clear(p.table)
}

// hashTo makes sure that the hashes of the first n blocks of size tokens are there. Each covers all tokens before it
// and the salt.
func (s *sequence) hashTo(n, size int) {
	for i := len(s.hashes); i < n; i++ {
		h := s.salt
		if i > 0 {
			h = s.hashes[i-1]
		}
		for k := i * size; k < (i+1)*size; k++ {
			h = mix(h, uint64(s.token(k)))
		}
		s.hashes = append(s.hashes, h)
	}
}
