package bench

import "testing"

// A server that says nothing of its total must not look like one that counts wrongly.
func TestSamplesAddUp(t *testing.T) {
	a, b := sample{events: 8, tokens: 8, total: 8}, sample{events: 8, tokens: 8, total: -1}
	if got := a.plus(a); got != (sample{events: 16, tokens: 16, total: 16}) {
		t.Errorf("%+v", got)
	}
	for _, got := range []sample{a.plus(b), b.plus(a), b.plus(b)} {
		if got != (sample{events: 16, tokens: 16, total: -1}) {
			t.Errorf("%+v", got)
		}
	}
}
