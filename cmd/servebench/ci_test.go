package main

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// Each test that make test leaves to the run without the race detector is there, in
// one package that this run has: a name that is mistyped would leave out nothing, one
// that is gone is not missed.
func TestSlowTestsAreThere(t *testing.T) {
	script, err := os.ReadFile("../../.ci/test.sh")
	if err != nil {
		t.Fatal(err)
	}
	list := regexp.MustCompile(`(?m)^slow='([^']+)'$`).FindSubmatch(script)
	if list == nil {
		t.Fatal("the list is gone")
	}
	plain := regexp.MustCompile(`(?m)CGO_ENABLED=0 go test (.*)$`).FindSubmatch(script)
	for name := range strings.SplitSeq(string(list[1]), "|") {
		out, _ := exec.CommandContext(t.Context(), "grep", "-rl", "--include=*_test.go", "^func "+name+"(", "../..").Output()
		files := strings.Fields(string(out))
		if len(files) != 1 {
			t.Errorf("%s is in %q, want one file", name, files)
			continue
		}
		dir := "./" + strings.TrimPrefix(files[0][:strings.LastIndex(files[0], "/")], "../../")
		covered := false
		for pattern := range strings.FieldsSeq(string(plain[1])) {
			tree, whole := strings.CutSuffix(pattern, "/...")
			covered = covered || dir == strings.TrimSuffix(pattern, "/") || whole && (dir == tree || strings.HasPrefix(dir, tree+"/"))
		}
		if !covered {
			t.Errorf("%s of %s is run nowhere", name, dir)
		}
	}
}
