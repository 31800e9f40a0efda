package dataset

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"
)

// cut reads all elements.
func cut(in io.Reader) (elements []string, err error) {
	a := newArrayReader(in, "f")
	for {
		object, _, err := a.next()
		if errors.Is(err, io.EOF) {
			return elements, nil
		}
		if err != nil {
			return nil, err
		}
		elements = append(elements, string(object))
	}
}

// The reader of arrays accepts what encoding/json does and gives the same
// elements, wherever the file is cut into reads; what vLLM looks for in them is
// found as encoding/json finds it.
func FuzzJSONArray(f *testing.F) {
	for _, seed := range []string{
		"", "[]", " [ ] ", "[{}]", "\ufeff[{\"a\": \"]\\\\\\\"}\"} ,\r\n{\"b\": [[{}]]}]\n", `[{}{}]`, `[{},]`, `[,{}]`, `[{}] x`, `{}`,
		`[1]`, `[{"a": "` + "\xff" + `"}]`, `[{"a"}]`, `[{]}`, `[{"a": 01}]`, `[{"a": "\u12"}]`, "[{\"a\": \"\n\"}]", `[{"a": NaN}]`,
		`[{"conversations": [{}, {}], "conv\u0065rsations": [1]}]`, `[{"conversations": [1, 2]}]`, `[{"conversations": null}]`,
		"[" + strings.Repeat(`{"a":`, 600) + "1" + strings.Repeat("}", 600) + "]",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := cut(bytes.NewReader(data))
		slow, slowErr := cut(iotest.OneByteReader(bytes.NewReader(data)))
		if !slices.Equal(got, slow) || fmt.Sprint(err) != fmt.Sprint(slowErr) {
			t.Fatalf("%q, %v in one piece, %q, %v a byte at a time", got, err, slow, slowErr)
		}
		var raw []json.RawMessage
		plain := bytes.TrimPrefix(data, []byte(byteOrderMark))
		right := json.Unmarshal(plain, &raw) == nil && raw != nil
		var want []string
		for _, r := range raw {
			want = append(want, string(r))
			right = right && r[0] == '{' && utf8.Valid(r)
		}
		switch {
		case err != nil && strings.Contains(err.Error(), "nested deeper"):
		case right != (err == nil):
			t.Fatalf("%v, but encoding/json says %v", err, right)
		case right && !slices.Equal(got, want):
			t.Fatalf("%q, want %q", got, want)
		}
		for _, object := range got {
			sameTurns(t, []byte(object))
		}
	})
}

func sameTurns(t *testing.T, object []byte) {
	two, err := hasTwoTurns(object)
	var plain map[string]json.RawMessage
	if err := json.Unmarshal(object, &plain); err != nil {
		t.Fatal(err)
	}
	raw, ok := plain["conversations"]
	var turns []json.RawMessage
	list := ok && json.Unmarshal(raw, &turns) == nil && turns != nil
	if (err != nil) != (ok && !list) || two != (len(turns) >= 2) {
		t.Fatalf("%s: %v, %v; want %v, %d turns", object, two, err, list, len(turns))
	}
	var x turn
	if answer, err := x.parse(object); err == nil && !utf8.ValidString(x.prompt+answer) {
		t.Fatalf("accepted %q, %q", x.prompt, answer)
	}
}

// What the reader of BurstGPT accepts has the columns, and reads back from its
// plainest spelling.
func FuzzBurstGPT(f *testing.F) {
	const header = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
	for _, seed := range []string{
		"", header, header + "1,GPT-4,5,6,11,x\n", "\ufeff" + header + "1,GPT-4,5.0,\"6\",11,x\r\n\n2,ChatGPT,x,y,z,\n",
		header + "1,GPT-4,5\n", header + "1,GPT-4,-5,6,1,x\n", header + "1,GPT-4,5,NaN,1,x\n", header + "1,GPT-4,,,,\n",
		"a,b\n1,2\n", header + "1,GPT-4,\"5,6,11,x\n", header + "1,\xff,5,6,11,x\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		rows, all, err := scanBursts(context.Background(), bytes.NewReader(data), "f")
		if err != nil {
			return
		}
		if all < len(rows) {
			t.Fatalf("%d of %d rows", len(rows), all)
		}
		var plain bytes.Buffer
		w := csv.NewWriter(&plain)
		_ = w.Write([]string{inputColumn, outputColumn, modelColumn})
		for _, b := range rows {
			if b.input < 0 || b.output < 1 || max(b.input, b.output) > maxLen {
				t.Fatalf("accepted %+v", b)
			}
			_ = w.Write([]string{strconv.Itoa(b.input), strconv.Itoa(b.output), "GPT-4"})
		}
		w.Flush()
		back, _, err := scanBursts(context.Background(), &plain, "f")
		if err != nil || !slices.Equal(back, rows) {
			t.Fatalf("%+v became %+v: %v", rows, back, err)
		}
	})
}

// A row of Spec-Bench or SPEED-Bench is read or refused, and what is read is text.
func FuzzBenchRows(f *testing.F) {
	for _, seed := range []string{
		`{"turns": ["a"]}`, `{"turns": []}`, `{"turns": "a"}`, `{"turns": [null]}`, `{"turns": ["\ud800"]}`,
		`{"messages": [{"content": "a"}]}`, `{"messages": [{"content": 1}]}`, `{"messages": [[]]}`, `{"messages": [null]}`,
		`{"messages": [{}]}`, `{"messages": null}`, `{}`, "null", "x",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		_ = scanLines(context.Background(), bytes.NewReader(data), "f", func(_ int, object map[string]json.RawMessage) error {
			for name, read := range map[string]func(map[string]json.RawMessage) (string, error){"turns": firstTurn, "messages": firstMessage} {
				text, err := read(object)
				switch {
				case err != nil:
				case !utf8.ValidString(text):
					t.Fatalf("accepted %q", text)
				case object[name] == nil:
					t.Fatalf("%q from an object without %s", text, name)
				}
			}
			return nil
		})
	})
}

// The lines of a poem are its text, with Python's line ends.
func FuzzPoem(f *testing.F) {
	for _, seed := range []string{"", "\n", "a", "a\nb", "a\r\nb\r\n", "a\rb\n\r", "\ufeffa", "\xff", "a\n\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		lines, err := poemLines(text, "f")
		if err != nil {
			return
		}
		joined := strings.Join(lines, "")
		if strings.Contains(joined, "\r") || !utf8.ValidString(joined) {
			t.Fatalf("lines %q", lines)
		}
		for i, line := range lines {
			if at := strings.IndexByte(line, '\n'); line == "" || at >= 0 && at != len(line)-1 || at < 0 && i != len(lines)-1 {
				t.Fatalf("line %d of %q", i, lines)
			}
		}
		back, err := poemLines(joined, "f")
		if err != nil && strings.TrimSpace(joined) != "" || err == nil && !strings.HasPrefix(joined, byteOrderMark) && !slices.Equal(back, lines) {
			t.Fatalf("%q became %q: %v", lines, back, err)
		}
	})
}

// The reader holds one element at a time, not the file.
func TestJSONArrayMemoryIsThatOfAnElement(t *testing.T) {
	const elements, size = 20000, 1000
	object := `{"a": "` + strings.Repeat("b", size) + `"}`
	in := io.MultiReader(strings.NewReader("["+object), strings.NewReader(strings.Repeat(","+object, elements-1)), strings.NewReader("]"))
	a := newArrayReader(in, "f")
	n := 0
	for ; ; n++ {
		if _, _, err := a.next(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if n != elements || cap(a.mem) > 2<<20 {
		t.Errorf("%d elements through %d bytes of memory", n, cap(a.mem))
	}
}

func TestJSONArrayElementTooLong(t *testing.T) {
	in := io.MultiReader(strings.NewReader("[{},\n"), strings.NewReader(`{"a": "`), strings.NewReader(strings.Repeat("b", maxLine+1)))
	if _, err := cut(in); err == nil || err.Error() != "f:2: element 2 is longer than 64 MiB; want a conversation" {
		t.Errorf("error %.200v", err)
	}
}

func BenchmarkJSONArray(b *testing.B) {
	text := strings.Repeat(`a \"word\" of many, `, 30)
	object := `{"id": "x", "conversations": [` + strings.Repeat(`{"from": "human", "value": "`+text+`"}, `, 9) + `{"from": "gpt", "value": ""}]}`
	data := []byte("[" + strings.Repeat(object+",\n", 2000) + object + "]")
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		a := newArrayReader(bytes.NewReader(data), "f")
		for {
			object, _, err := a.next()
			if err != nil {
				break
			}
			if two, err := hasTwoTurns(object); err != nil || !two {
				b.Fatal(two, err)
			}
		}
	}
}
