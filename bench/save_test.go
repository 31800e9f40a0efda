package bench

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Runs that end at the same time each add a line to a file that was not there.
func TestAppendsAtATime(t *testing.T) {
	const runs, files = 8, 50
	for n := range files {
		path := filepath.Join(t.TempDir(), "all.json")
		var wg sync.WaitGroup
		for range runs {
			wg.Go(func() {
				if err := appendLine(path, []byte("{}")); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		data, err := os.ReadFile(path)
		if want := strings.Repeat("{}\n", runs-1) + "{}"; err != nil || string(data) != want {
			t.Fatalf("file %d: %q, %v; want %q", n, data, err, want)
		}
	}
}
