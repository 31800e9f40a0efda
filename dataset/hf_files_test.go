package dataset

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSplitsAreThoseOfDatasets(t *testing.T) {
	data, err := os.ReadFile("testdata/hub/files.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Card, Subset string
		Files        []string
		Splits       map[string][]string
	}
	if err := json.Unmarshal(data, &cases); err != nil || len(cases) < 9 {
		t.Fatal(len(cases), err)
	}
	for i, c := range cases {
		for split, want := range c.Splits {
			root := t.TempDir()
			all := c.Files
			if c.Card != "" {
				all = append(slices.Clone(all), "README.md")
			}
			if slices.Contains(all, "README.md") {
				if err := os.WriteFile(filepath.Join(root, "README.md"), []byte("---\n"+c.Card+"---\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			h := &hubFiles{where: "set", get: func(name string) (string, error) { return filepath.Join(root, name), nil }}
			if err := h.choose(all, c.Subset, split); err != nil {
				t.Errorf("case %d: %v", i, err)
				continue
			}
			if diff := cmp.Diff(want, h.names); diff != "" {
				t.Errorf("case %d, split %s (-datasets +ours): %s", i, split, diff)
			}
		}
	}
}

// A card that is read names patterns, and a pattern that is read names only
// files that there are.
func FuzzCard(f *testing.F) {
	f.Add([]byte("---\nconfigs:\n- config_name: a\n  default: true\n  data_files:\n  - split: train\n    path: [data/**, '[!a]?.parquet']\n---\n"))
	f.Add([]byte("---\nconfigs:\n- data_files: {test: x*}\n  data_dir: ../../x\n---"))
	f.Add([]byte("---\r\nconfigs: []\r\n---\r\n"))
	f.Add([]byte("---\n- &a [*a]\n---\n"))
	files := []string{"data/train-0.parquet", "b.parquet", "x/y/z.parquet"}
	f.Fuzz(func(t *testing.T, text []byte) {
		card, err := parseCard(text)
		if err != nil || len(card) == 0 {
			return
		}
		splits, err := fromCard(card, slices.Clone(files), "")
		if err != nil {
			return
		}
		for _, names := range splits {
			for _, n := range names {
				if !slices.Contains(files, n) {
					t.Errorf("%q is no file", n)
				}
			}
		}
	})
}
