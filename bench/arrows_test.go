package bench_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// arrows says which of our packages each package may import; "" is the module's
// root. Everything beyond it is an effect that has crept into a fact.
var arrows = map[string][]string{
	"bench":           {"dataset", "tokenize", "tokenize/remote", "loadgen", "loadgen/openai", "metrics", "manifest", "manifest/probe"},
	"bench/sim":       {},
	"bench/report":    {"manifest", "metrics"},
	"loadgen":         {"dataset/nprand", "metrics"},
	"loadgen/openai":  {"loadgen", "loadgen/sse", "loadgen/rxtime", "dataset", "metrics"},
	"loadgen/sse":     {},
	"loadgen/rxtime":  {},
	"dataset":         {"tokenize", "dataset/nprand"},
	"dataset/nprand":  {},
	"tokenize":        {},
	"tokenize/remote": {"tokenize"},
	"metrics":         {"metrics/stat"},
	"metrics/stat":    {},
	"manifest":        {"metrics"},
	"manifest/probe":  {"manifest", "metrics"},
}

// TestArrows holds the table of docs/design.md against what is imported.
func TestArrows(t *testing.T) {
	const module = "github.com/servebench/servebench/"
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, module+"...").Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		pkg := strings.TrimPrefix(words[0], module)
		if strings.HasPrefix(pkg, "cmd/") || strings.Contains(pkg, "/internal/") {
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
