package edit

import "testing"

func TestDistanceIsLevenshtein(t *testing.T) {
	for _, row := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"abc", "", 3},
		{"", "abc", 3},
		{"kitten", "sitting", 3}, // the textbook example
		{"sunday", "saturday", 3},
		{"seed", "seed", 0},
	} {
		if got := Distance(row.a, row.b); got != row.want {
			t.Errorf("Distance(%q, %q) = %d, want %d", row.a, row.b, got, row.want)
		}
	}
}
