package dataset

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/servebench/servebench/dataset/nprand"
)

// orderGolden is testdata/hub/order.json; order.py there says how it was made.
type orderGolden struct {
	Orders []struct {
		Name   string
		Counts []int
		Seed   uint64
		Stream bool
		First  []int
		SHA256 string
	}
	Permutations []struct {
		N    int
		Seed uint64
		Want []int
	}
}

func readOrders(t *testing.T) (golden orderGolden) {
	t.Helper()
	data, err := os.ReadFile("testdata/hub/order.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &golden); err != nil {
		t.Fatal(err)
	}
	return golden
}

func TestOrderIsThatOfDatasets(t *testing.T) {
	for _, c := range readOrders(t).Orders {
		count := func(s int) (int, error) { return c.Counts[s], nil }
		order := wholeShuffle(len(c.Counts), count, c.Seed)
		if c.Stream {
			order = streamShuffle(len(c.Counts), count, c.Seed)
		}
		var first []int
		sum := sha256.New()
		for p, err := range order {
			if err != nil {
				t.Fatal(err)
			}
			row := p.row
			for _, n := range c.Counts[:p.shard] {
				row += n
			}
			if len(first) < len(c.First) {
				first = append(first, row)
			}
			fmt.Fprintf(sum, "%d\n", row)
		}
		if diff := cmp.Diff(c.First, first); diff != "" || hex.EncodeToString(sum.Sum(nil)) != c.SHA256 {
			t.Errorf("%s, seed %d, stream %v (-datasets +ours): %s", c.Name, c.Seed, c.Stream, diff)
		}
	}
}

func TestPermutationIsNumpys(t *testing.T) {
	for _, c := range readOrders(t).Permutations {
		got := nprand.NewGenerator(c.Seed).Permutation(c.N)
		if diff := cmp.Diff(c.Want, got[:min(50, c.N)]); diff != "" || len(got) != c.N {
			t.Errorf("permutation of %d, seed %d (-numpy +ours): %s", c.N, c.Seed, diff)
		}
	}
}

// A stream opens no more files than it must, and stops where one is broken.
func TestOrderAsksOnlyForFilesThatAreReached(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		order func(int, func(int) (int, error)) iter.Seq2[hubRow, error]
		rows  int
		want  int // files asked for
	}{
		"in order":                  {inOrder, 150, 2},
		"stream, 10 of 25 files":    {func(n int, f func(int) (int, error)) iter.Seq2[hubRow, error] { return streamShuffle(n, f, 0) }, 150, 10},
		"whole, all":                {func(n int, f func(int) (int, error)) iter.Seq2[hubRow, error] { return wholeShuffle(n, f, 0) }, 150, 25},
		"in order, to a broken one": {inOrder, 9999, 25},
	} {
		asked := map[int]bool{}
		count := func(s int) (int, error) {
			asked[s] = true
			if len(asked) == 25 && c.rows == 9999 {
				return 0, broken
			}
			return 120, nil
		}
		n := 0
		var err error
		for _, err = range c.order(25, count) {
			if n++; n == c.rows {
				break
			}
		}
		if len(asked) != c.want || (c.rows == 9999) != errors.Is(err, broken) {
			t.Errorf("%s: %d files were asked for, want %d; error %v", name, len(asked), c.want, err)
		}
	}
}
