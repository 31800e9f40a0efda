package dataset

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"hash/maphash"
	"runtime"
	"strconv"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/servebench/servebench/tokenize"
)

// Set is a loaded data set. It is not changed after Load and may be read
// concurrently.
type Set struct {
	// Requests are the timed requests in sending order.
	Requests []Request
	// Warmups are the requests to send before the clock starts.
	Warmups []Request
	// Generator names what made the prompts; another algorithm gets another
	// name:
	//   - "vllm-random": vLLM's random data set, text;
	//   - "servebench-vocab-ids-1": the token ids from which vLLM's random
	//     data set starts, not adjusted;
	//   - "servebench-words-1": English words, where no vocabulary is known;
	//   - "servebench-ids-1": token ids of [1000, 20000), where none is known;
	//   - "custom-jsonl": a file's rows in vLLM's order.
	Generator string
	// Synthetic is true where the prompts were made and not read.
	Synthetic bool
	// Warnings are doubts about the set, for people.
	Warnings []string
}

func (s *Set) warnf(format string, args ...any) {
	s.Warnings = append(s.Warnings, fmt.Sprintf(format, args...))
}

// Load makes the data set that s describes.
//
// tok may be nil. A tokenizer that knows its vocabulary gives random sets vLLM's
// prompts and custom sets their token counts. With any other the prompts are
// words, counted through tok (many calls at a time), or unconfirmed where tok is
// nil: InputTokens is then what was asked for. A custom set with TokenIDs needs
// a tokenizer of either kind.
//
// Load uses all cores, and returns early with the context's error when ctx ends.
// An error in a file names it as s.Path does, with the line.
func Load(ctx context.Context, s Spec, tok tokenize.Tokenizer) (*Set, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if s.Name == "custom" {
		return loadCustom(ctx, s, tok)
	}
	return loadRandom(ctx, s, tok)
}

// derive is the seed of a generator that is independent of the spec's own: the
// FNV-1a hash of "purpose:seed". Warm-ups use the purpose "warmup", words
// "words" followed by the request's number.
func derive(purpose string, seed uint64) uint64 {
	h := fnv.New64a()
	h.Write(strconv.AppendUint([]byte(purpose+":"), seed, 10))
	return h.Sum64()
}

// addWarmups sets set.Warmups as s asks: copies of the first request, or what
// prompts returns. A warm-up that equals a timed prompt would warm its cache
// entries, so it is warned about.
func addWarmups(s Spec, set *Set, prompts func() ([]Request, error)) (err error) {
	switch {
	case s.Warmups == 0:
		return nil
	case s.WarmupFirst:
		for range s.Warmups {
			set.Warmups = append(set.Warmups, set.Requests[0])
		}
		return nil
	}
	if set.Warmups, err = prompts(); err != nil {
		return err
	}
	own, same := make(map[uint64]bool, s.Warmups), 0
	seed := maphash.MakeSeed()
	for _, w := range set.Warmups {
		own[w.hash(seed)] = true
	}
	for _, r := range set.Requests {
		if h := r.hash(seed); own[h] {
			delete(own, h)
			same++
		}
	}
	if same > 0 {
		set.warnf("%d warm-up prompts of %d equal a timed prompt, which may come from the server's prefix cache", same, s.Warmups)
	}
	return nil
}

// hash tells prompts apart, be they text or ids.
func (r Request) hash(seed maphash.Seed) uint64 {
	if r.Tokens == nil {
		return maphash.String(seed, r.Prompt)
	}
	var h maphash.Hash
	h.SetSeed(seed)
	var word [8]byte
	for _, id := range r.Tokens {
		binary.LittleEndian.PutUint64(word[:], uint64(id))
		h.Write(word[:])
	}
	return h.Sum64()
}

// parallel calls f for 0..n-1 from up to workers goroutines and waits for them.
// After an error, or when ctx ends, no further calls start.
func parallel(ctx context.Context, workers, n int, f func(ctx context.Context, i int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	var taken atomic.Int64
	for range min(workers, n) {
		g.Go(func() error {
			for i := int(taken.Add(1)) - 1; i < n; i = int(taken.Add(1)) - 1 {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				if err := f(ctx, i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

func cores() int { return runtime.GOMAXPROCS(0) }
