package dataset

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"testing"
	"unicode/utf8"
)

// What the reader accepts it also accepts in its plainest spelling, with the
// same result; and it never panics.
func FuzzReadRows(f *testing.F) {
	for _, seed := range []string{
		"", "\n\r\n", "{\"prompt\": \"a\"}", "\ufeff{\"prompt\": \"a\", \"output_tokens\": 12.0}\r\n\n{\"prompt\":\"\\ud83d\\ude00\"}",
		`{"prompt": "\ud83d"}`, `{"prompt": "\\ud83d\u0000", "output_tokens": null}`, `{"output_tokens": -1e5, "prompt": "x"}`,
		"null", "[]", "{\"prompt\": \"\xff\"}", `{"prompt": 1}`, `{"prompt": "a"} x`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		rows, err := fuzzRows(data)
		if err != nil {
			return
		}
		var plain bytes.Buffer
		for i := range rows {
			if r := &rows[i]; r.prompt == "" || !utf8.ValidString(r.prompt) || r.output < 0 {
				t.Fatalf("accepted %+v", *r)
			}
			line := map[string]any{"prompt": rows[i].prompt}
			if rows[i].output > 0 {
				line["output_tokens"] = rows[i].output
			}
			if err := json.NewEncoder(&plain).Encode(line); err != nil {
				t.Fatal(err)
			}
			rows[i].line = i + 1
		}
		back, err := fuzzRows(plain.Bytes())
		if err != nil || !reflect.DeepEqual(back, rows) {
			t.Fatalf("%+v became %+v: %v", rows, back, err)
		}
	})
}

func fuzzRows(data []byte) (rows []row, err error) {
	err = scanLines(context.Background(), bytes.NewReader(data), "f", func(line int, object map[string]json.RawMessage) error {
		r, err := customRow(object)
		r.line = line
		rows = append(rows, r)
		return err
	})
	return rows, err
}
