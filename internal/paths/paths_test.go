package paths

import (
	"slices"
	"testing"
)

func TestOf(t *testing.T) {
	got, err := of([]byte(`{"a":{"x.y":1,"b":null},"l":[{"c":1},{"d":[2]}],"e":[],"s":"t"}`))
	want := []string{"a", "a.b", "a.x.y", "e", "l", "l[]", "l[].c", "l[].d", "l[].d[]", "s"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q %v, want %q", got, err, want)
	}
	if _, err := of([]byte("{")); err == nil {
		t.Error("no error for what is no JSON")
	}
}

func TestMissing(t *testing.T) {
	c := Comparison{
		Renamed: map[string]string{"old": "new", "gone": "nowhere"},
		Excused: map[string]string{"site": "the site's", "never": "not there at all"},
	}
	missing, unneeded, err := c.Missing([]byte(`{"old":1,"gone":1,"site":{"id":1},"sites":2,"a":{"b":1}}`), []byte(`{"new":1,"a":{}}`))
	if err != nil || !slices.Equal(missing, []string{"a.b", "nowhere", "sites"}) || !slices.Equal(unneeded, []string{"never"}) {
		t.Errorf("missing %q, unneeded %q, %v", missing, unneeded, err)
	}
}
