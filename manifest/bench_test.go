package manifest

import "testing"

// One document, the schema already compiled.
func BenchmarkValidate(b *testing.B) {
	data := readFile(b, "seed-run-3.json")
	for b.Loop() {
		if _, err := Validate(data); err != nil {
			b.Fatal(err)
		}
	}
}
