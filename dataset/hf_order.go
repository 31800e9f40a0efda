package dataset

import (
	"fmt"
	"iter"

	"github.com/servebench/servebench/dataset/nprand"
)

// How datasets 5.2 shuffles a stream: shuffle(seed, buffer_size=1000,
// max_buffer_input_shards=10).
const (
	shuffleBuffer = 1000
	shuffleShards = 10
	shuffleBatch  = shuffleBuffer / shuffleShards

	maxShuffled = 1 << 27 // rows in one permutation, 1 GB
)

// hubRow is a row of a data set of several files.
type hubRow struct{ shard, row int }

// inOrder yields the rows as the files have them. count tells how many rows a
// file has; it is asked only about files that are reached.
func inOrder(shards int, count func(int) (int, error)) iter.Seq2[hubRow, error] {
	return func(yield func(hubRow, error) bool) {
		for s := range shards {
			n, err := count(s)
			if err != nil {
				yield(hubRow{}, err)
				return
			}
			for r := range n {
				if !yield(hubRow{s, r}, nil) {
					return
				}
			}
		}
	}
}

// wholeShuffle is datasets.Dataset.shuffle(seed): a permutation of all rows.
func wholeShuffle(shards int, count func(int) (int, error), seed uint64) iter.Seq2[hubRow, error] {
	return func(yield func(hubRow, error) bool) {
		ends, total := make([]int, shards), 0
		for s := range shards {
			n, err := count(s)
			if err != nil {
				yield(hubRow{}, err)
				return
			}
			if total += n; total > maxShuffled {
				yield(hubRow{}, fmt.Errorf("no-stream: a split of more than %d rows; want it without this flag", maxShuffled))
				return
			}
			ends[s] = total
		}
		for _, row := range nprand.NewGenerator(seed).Permutation(total) {
			s := 0
			for row >= ends[s] {
				s++
			}
			if s > 0 {
				row -= ends[s-1]
			}
			if !yield(hubRow{s, row}, nil) {
				return
			}
		}
	}
}

// streamShuffle is datasets.IterableDataset.shuffle(seed): the files in another
// order, up to ten of them read in turns of a hundred rows into a buffer; of a
// full buffer, shuffled, half is yielded and half stays.
func streamShuffle(shards int, count func(int) (int, error), seed uint64) iter.Seq2[hubRow, error] {
	return func(yield func(hubRow, error) bool) {
		rng := nprand.NewGenerator(seed)
		order := nprand.NewGenerator(seed).Permutation(shards)
		var buffer []hubRow
		shuffle := func() {
			mixed := make([]hubRow, len(buffer))
			for i, j := range rng.Permutation(len(buffer)) {
				mixed[i] = buffer[j]
			}
			buffer = mixed
		}
		flush := func(n int) bool {
			for _, p := range buffer[:n] {
				if !yield(p, nil) {
					return false
				}
			}
			buffer = buffer[n:]
			return true
		}
		for batch, err := range hubTurns(order, count) {
			if err != nil {
				yield(hubRow{}, err)
				return
			}
			if buffer = append(buffer, batch...); len(buffer) < shuffleBuffer {
				continue
			}
			shuffle()
			if !flush(len(buffer) - shuffleBuffer/2) {
				return
			}
		}
		shuffle()
		flush(len(buffer))
	}
}

// hubTurns deals the files, in order, out to at most ten readers, each of which
// has a run of them; the readers yield their batches in turn until all are done.
func hubTurns(order []int, count func(int) (int, error)) iter.Seq2[[]hubRow, error] {
	return func(yield func([]hubRow, error) bool) {
		readers := make([]hubReader, min(len(order), shuffleShards))
		for i := range readers { // the first ones have one more where it does not divide
			n := (len(order) + len(readers) - i - 1) / (len(readers) - i)
			readers[i].shards, order = order[:n], order[n:]
		}
		for more := true; more; {
			more = false
			for i := range readers {
				batch, err := readers[i].next(count)
				if len(batch) == 0 && err == nil {
					continue
				}
				if !yield(batch, err) || err != nil {
					return
				}
				more = true
			}
		}
	}
}

// hubReader reads a run of files.
type hubReader struct {
	shards []int
	row    int
}

// next returns the next rows, a full batch unless the files end.
func (r *hubReader) next(count func(int) (int, error)) (batch []hubRow, err error) {
	for len(r.shards) > 0 && len(batch) < shuffleBatch {
		n, err := count(r.shards[0])
		if err != nil {
			return nil, err
		}
		for ; r.row < n && len(batch) < shuffleBatch; r.row++ {
			batch = append(batch, hubRow{r.shards[0], r.row})
		}
		if r.row >= n {
			r.shards, r.row = r.shards[1:], 0
		}
	}
	return batch, nil
}
