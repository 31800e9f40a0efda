package chat

import (
	"os"
	"strings"
	"testing"
)

// TestConstructs: every construct of the template language gives Jinja2's text, or
// an error where Jinja2 has one.
func TestConstructs(t *testing.T) {
	var want map[string]golden
	readJSON(t, "testdata/constructs.golden.json", &want)
	all := constructs(t)
	if len(all) != len(want) {
		t.Errorf("%d constructs, %d goldens: run testdata/render.py", len(all), len(want))
	}
	variables := constructVariables(t)
	for name, source := range all {
		g, ok := want[name]
		if !ok {
			t.Errorf("%s: no golden", name)
			continue
		}
		text, err := renderSource(source, variables)
		if problem := g.check(text, err); problem != "" {
			t.Errorf("%s: %s", name, problem)
		}
	}
}

func renderSource(source string, variables map[string]any) (string, error) {
	p, err := compile(source)
	if err != nil {
		return "", err
	}
	return p.render(variables, &run{now: renderPy, maxSteps: maxSteps})
}

func constructs(t testing.TB) map[string]string {
	t.Helper()
	data, err := os.ReadFile("testdata/constructs.txt")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, block := range strings.Split(string(data), "\n=== ")[1:] {
		name, source, _ := strings.Cut(block, "\n")
		all[name] = source
	}
	return all
}

func constructVariables(t testing.TB) map[string]any {
	t.Helper()
	data, err := os.ReadFile("testdata/constructs.json")
	if err != nil {
		t.Fatal(err)
	}
	v, err := decode(data)
	if err != nil {
		t.Fatal(err)
	}
	variables := map[string]any{}
	for i, name := range v.(*dict).keys {
		variables[name.(string)] = v.(*dict).values[i]
	}
	return variables
}
