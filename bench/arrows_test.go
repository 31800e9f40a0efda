package bench_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// arrows says which of our packages each package may import. Everything beyond
// it is an effect that has crept into a fact. The programs below cmd and internal
// may import all.
var arrows = map[string][]string{
	"bench":           {"dataset", "dataset/hub", "dataset/nprand", "tokenize", "tokenize/chat", "tokenize/remote", "loadgen", "loadgen/openai", "metrics", "manifest", "manifest/probe"},
	"bench/runfile":   {"internal/edit", "manifest", "bench/server"},
	"bench/selftest":  {"bench", "dataset", "loadgen/openai", "metrics", "metrics/stat"},
	"bench/server":    {"manifest"},
	"bench/sim":       {},
	"bench/sweep":     {"bench", "bench/server", "manifest"},
	"bench/importer":  {"manifest", "metrics/stat"},
	"bench/gate":      {"metrics/stat"},
	"bench/stored":    {"bench/gate", "bench/importer", "metrics/stat"},
	"bench/compare":   {"bench/gate", "bench/stored", "metrics/stat"},
	"bench/report":    {"bench/gate", "metrics", "metrics/stat"},
	"loadgen":         {"dataset/nprand", "metrics"},
	"loadgen/openai":  {"loadgen", "loadgen/sse", "loadgen/rxtime", "dataset", "metrics"},
	"loadgen/sse":     {},
	"loadgen/rxtime":  {},
	"dataset":         {"tokenize", "dataset/nprand", "dataset/parquet"},
	"dataset/hub":     {"dataset"},
	"dataset/nprand":  {},
	"dataset/parquet": {},
	"tokenize":        {},
	"tokenize/chat":   {"tokenize"},
	"tokenize/remote": {"tokenize"},
	"metrics":         {"metrics/stat", "metrics/internal/radix"},
	"metrics/stat":    {"metrics/internal/radix"},
	"manifest":        {},
	"manifest/probe":  {"manifest", "metrics"},
}

// TestArrows holds the table against what is imported, in the build with the
// local tokenizer too.
func TestArrows(t *testing.T) {
	const module = "github.com/servebench/servebench/"
	out, err := exec.Command("go", "list", "-tags", "hf", "-f", `{{.ImportPath}} {{join .Imports " "}}`, module+"...").Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		pkg := strings.TrimPrefix(words[0], module)
		if strings.HasPrefix(pkg, "cmd/") || strings.Contains("/"+pkg, "/internal/") {
			continue
		}
		may, known := arrows[pkg]
		if !known {
			t.Errorf("package %s is not in the table", pkg)
			continue
		}
		seen++
		for _, imp := range words[1:] {
			own, ok := strings.CutPrefix(imp, module)
			if ok && !slices.Contains(may, own) {
				t.Errorf("%s must not import %s", pkg, own)
			}
			if imp == "flag" || imp == "os/signal" {
				t.Errorf("%s must not import %s: only cmd talks to people and signals", pkg, imp)
			}
		}
	}
	if seen != len(arrows) {
		t.Errorf("%d packages of %d were seen", seen, len(arrows))
	}
}

// TestOnlyCmdTalks: no package but the programs prints, exits or reads flags.
func TestOnlyCmdTalks(t *testing.T) {
	for pkg := range arrows {
		files, err := filepath.Glob("../" + pkg + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no files (%v)", pkg, err)
		}
		for _, f := range files {
			src, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			for _, word := range []string{"fmt.Print", "os.Exit(", "log.Print", "log.Fatal", "os.Args", "os.Stdout", "os.Stderr"} {
				if !strings.HasSuffix(f, "_test.go") && strings.Contains(string(src), word) {
					t.Errorf("%s has %s", f, word)
				}
			}
		}
	}
}
