package report

import (
	"bytes"
	"strings"
	"testing"
)

// What is left of a page is what a run says, on the lines where it says it.
func TestWithoutLibrary(t *testing.T) {
	var page bytes.Buffer
	if err := Comparison(&page, Page{Title: "canary of a title"}, sweepPoints()); err != nil {
		t.Fatal(err)
	}
	got := WithoutLibrary(page.Bytes())
	if n := page.Len() - len(got); n < len(echarts())-strings.Count(echarts(), "\n") {
		t.Errorf("%d bytes are gone, want the library's %d", n, len(echarts()))
	}
	if !bytes.Contains(got, []byte("canary of a title")) || bytes.Count(got, []byte("\n")) != bytes.Count(page.Bytes(), []byte("\n")) {
		t.Errorf("%d lines of %d, the title among them: %v", bytes.Count(got, []byte("\n")), bytes.Count(page.Bytes(), []byte("\n")), bytes.Contains(got, []byte("canary of a title")))
	}
	if plain := []byte("no page\n"); !bytes.Equal(WithoutLibrary(plain), plain) {
		t.Error("another file is changed")
	}
}
