package dataset

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestParseBuckets(t *testing.T) {
	a, b := Bucket{256, 256, 1, .5}, Bucket{720, 1280, 16, 0}
	for text, want := range map[string][]Bucket{
		"{(256, 256, 1): 0.5, (720, 1280, 16): 0.0}":              {a, b},
		" {\n(256,256,1):.5,\t(720,1280,16,):0,}\n":               {a, b},
		`{"(256, 256, 1)": 5e-1, '720, 1280, 16': "0"}`:           {a, b},
		"{(256, 256, 1): 1, (720, 1280, 16): 0, (256,256,1): .5}": {a, b},             // the place is the first one's
		"{(-1, 0, 2): -3.5}":                                      {{-1, 0, 2, -3.5}}, // Validate refuses it
		"{}":                                                      nil,
	} {
		got, err := ParseBuckets(text)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v; want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"":                                  `column 1: no "{"`,
		"[]":                                `column 1: no "{"`,
		"{256: 1}":                          "column 2: no key in brackets",
		"{(256, 256): 1}":                   `column 11: no ","`,
		"{(256, 256, 1, 1): 1}":             `column 16: no ")"`,
		"{(256, x, 1): 1}":                  "column 8: no whole number",
		"{(256, 2.5, 1): 1}":                `column 9: no ","`,
		"{(1, 1, 1) 1}":                     `column 12: no ":"`,
		"{(1, 1, 1): }":                     "column 13: no probability",
		"{(1, 1, 1): nan}":                  "column 13: no probability",
		"{(1, 1, 1): 1e999}":                "column 13: no probability",
		"{(1, 1, 1): 1":                     `column 14: no "}"`,
		`{"(1, 1, 1): 1}`:                   `column 12: no "\""`,
		"{(1, 1, 1): 1} x":                  "column 16: text after the end",
		"{(99999999999999999999, 1, 1): 1}": "column 3: no whole number",
	} {
		_, err := ParseBuckets(text)
		if err == nil || !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), "; want {(height") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// What is accepted is accepted in Python's plainest spelling, with the same
// result.
func FuzzParseBuckets(f *testing.F) {
	for _, seed := range []string{
		"{(256, 256, 1): 0.5, (720, 1280, 1): 0.5, (720, 1280, 16): 0.0}", `{"(1,2,3)": .5, '4,5,6': "7"}`, "{", "{(", "{\"", "{}",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		buckets, err := ParseBuckets(text)
		if err != nil {
			return
		}
		var plain []string
		for _, b := range buckets {
			if math.IsNaN(b.Probability) || math.IsInf(b.Probability, 0) {
				t.Fatalf("accepted %v", b)
			}
			plain = append(plain, fmt.Sprintf("(%d, %d, %d): %v", b.Height, b.Width, b.Frames, b.Probability))
		}
		back, err := ParseBuckets("{" + strings.Join(plain, ", ") + "}")
		if err != nil || !slices.Equal(back, buckets) {
			t.Fatalf("%v became %v: %v", buckets, back, err)
		}
	})
}

func FuzzTraceLines(f *testing.F) {
	for _, seed := range []string{
		"", "\n\r\n", "\ufeff" + `{"t": 0, "i": 1, "o": 1, "h": [1, "a", -0]}` + "\r\n", `{"t": "1.5", "i": 1e1, "o": 0, "h": null}`,
		`{"t": -1, "i": 1, "o": 1}`, `{"t": 1, "i": 1, "o": 1, "h": [1.5]}`, "null", "[]", "{\"t\": \"\xff\"}",
		`{"t": 1e308, "i": 16777217, "o": 1}`, `{"t": 1, "i": 1, "o": 1, "h": ["\ud800"]}`,
	} {
		f.Add([]byte(seed))
	}
	keys := Trace{Timestamp: "t", InputLength: "i", OutputLength: "o", HashIDs: "h"}
	read := func(data []byte) (rows []traceRow, err error) {
		return rows, scanLines(context.Background(), bytes.NewReader(data), "f", func(_ int, object map[string]json.RawMessage) error {
			row, err := keys.row(object)
			rows = append(rows, row)
			return err
		})
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		rows, err := read(data)
		if err != nil {
			return
		}
		var plain bytes.Buffer
		for _, r := range rows {
			if !(r.at >= 0 && r.at <= math.MaxFloat64) || r.input < 1 || r.output < 0 || r.input > maxLen || r.output > maxLen {
				t.Fatalf("accepted %+v", r)
			}
			hashes, err := hashTexts(orList(r.hashes))
			if err != nil || slices.ContainsFunc(hashes, func(h string) bool { return !utf8.ValidString(h) }) {
				t.Fatalf("hash ids %q: %v", r.hashes, err)
			}
			line, _ := json.Marshal(map[string]any{"t": r.at, "i": r.input, "o": r.output, "h": orList(r.hashes)})
			plain.Write(append(line, '\n'))
		}
		back, err := read(plain.Bytes())
		if err != nil || len(back) != len(rows) {
			t.Fatalf("%d rows became %d: %v", len(rows), len(back), err)
		}
		for i := range rows {
			a, _ := hashTexts(orList(rows[i].hashes))
			b, _ := hashTexts(orList(back[i].hashes))
			if rows[i].at != back[i].at || rows[i].input != back[i].input || rows[i].output != back[i].output || !slices.Equal(a, b) {
				t.Fatalf("%+v became %+v", rows[i], back[i])
			}
		}
	})
}

func FuzzImageRow(f *testing.F) {
	for _, seed := range []string{
		`{"prompt": "a", "image_files": ["b", "https://c"]}`, `{"content": [{"type": "text", "text": "a"}, {"type": "image", "image": "b"}]}`,
		`{"content": [{"type": "image_url", "image_url": {"url": "a", "detail": {"x": [1]}}}], "output_tokens": 3}`,
		`{"content": [null]}`, `{"content": null}`, `{"prompt": null, "image_files": null}`, `{"content": [{"type": "image_url", "image_url": null}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		object, err := parseObject(data)
		if err != nil {
			return
		}
		row, err := parseImageRow(object)
		if err != nil {
			return
		}
		if len(row.content) == 0 {
			t.Fatalf("accepted %+v", row)
		}
		m := &imageMaker{spec: Spec{OutputLen: 1}}
		r, err := m.request(context.Background(), row)
		if err != nil {
			return // an address that is none
		}
		if row.mixed != json.Valid(r.Messages) {
			t.Fatalf("messages %q of %+v", r.Messages, row)
		}
		if !row.mixed {
			return
		}
		// A part as it is sent is read as the same part.
		var sent []struct{ Content json.RawMessage }
		if err := json.Unmarshal(r.Messages, &sent); err != nil || len(sent) != 1 {
			t.Fatalf("messages %q: %v", r.Messages, err)
		}
		back, err := parseContent(sent[0].Content)
		if err != nil || len(back) != len(row.content) {
			t.Fatalf("%q: %v", sent[0].Content, err)
		}
		for i, part := range back {
			if part.text != row.content[i].text || (part.image == "") != (row.content[i].image == "") {
				t.Fatal(cmp.Diff(row.content[i].text, part.text))
			}
		}
	})
}
