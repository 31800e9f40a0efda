package chat

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// renderPy is the moment that testdata/render.py fixes.
func renderPy() time.Time { return time.Date(2024, 7, 26, 9, 5, 7, 123456000, time.Local) }

// conversationCase is a row of conversations.json.
type conversationCase struct {
	Name     string
	Messages []struct {
		Role, Content string
		Times         int
	}
	Kwargs json.RawMessage
}

func (c conversationCase) messages() []Message {
	var messages []Message
	for _, m := range c.Messages {
		messages = append(messages, Message{m.Role, strings.Repeat(m.Content, max(m.Times, 1))})
	}
	return messages
}

// golden is what Python gave.
type golden struct {
	Text, SHA256, Raised, Error *string
}

// check says how got differs, and whether we refuse what Python renders.
func (g golden) check(text string, err error) (problem string) {
	digest := sha256.Sum256([]byte(text))
	switch {
	case g.Raised != nil && err == nil:
		return "no error; want the template's: " + *g.Raised
	case g.Raised != nil && !strings.HasSuffix(err.Error(), "the template refuses: "+*g.Raised):
		return "error " + err.Error() + "; want the template's: " + *g.Raised
	case g.Error != nil && err == nil:
		return "no error; Python raises " + *g.Error + "; got " + clip(text)
	case g.Raised != nil || g.Error != nil:
		return ""
	case err != nil:
		return "error: " + err.Error()
	case g.Text != nil && text != *g.Text:
		return "got  " + clip(text) + "\nwant " + clip(*g.Text)
	case g.SHA256 != nil && hex.EncodeToString(digest[:]) != *g.SHA256:
		return "other text of " + clip(text)
	case g.Text == nil && g.SHA256 == nil:
		return "the golden says nothing"
	}
	return ""
}

func clip(text string) string {
	b, _ := json.Marshal(text)
	if len(b) > 1500 {
		b = b[:1500]
	}
	return string(b)
}

func readJSON(t testing.TB, path string, v any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, v)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestRealTemplates: the templates of testdata/real, and those of the folder that
// CHAT_TEMPLATES names, give transformers' text. testdata/render.py makes the
// golden.json of a folder.
func TestRealTemplates(t *testing.T) {
	folders, err := filepath.Glob("testdata/real/*")
	if err != nil || len(folders) == 0 {
		t.Fatalf("no templates (%v)", err)
	}
	if more := os.Getenv("CHAT_TEMPLATES"); more != "" {
		found, err := filepath.Glob(filepath.Join(more, "*", "golden.json"))
		if err != nil || len(found) == 0 {
			t.Fatalf("CHAT_TEMPLATES=%s: no golden.json in its folders (%v)", more, err)
		}
		for _, f := range found {
			folders = append(folders, filepath.Dir(f))
		}
	}
	var cases []conversationCase
	readJSON(t, "testdata/conversations.json", &cases)
	for _, folder := range folders {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			var want map[string]json.RawMessage
			readJSON(t, filepath.Join(folder, "golden.json"), &want)
			template, err := Open(folder)
			if err != nil && !errors.Is(err, ErrNone) {
				t.Fatal(err)
			}
			template.now = renderPy
			var special map[string]string
			if err := json.Unmarshal(want["special"], &special); err != nil {
				t.Fatal(err)
			}
			if !maps.Equal(template.special, special) {
				t.Errorf("special tokens %q, want %q", template.special, special)
			}
			for _, c := range cases {
				var g golden
				if err := json.Unmarshal(want[c.Name], &g); err != nil {
					t.Fatalf("%s: %v", c.Name, err)
				}
				kwargs, err := Kwargs(c.Kwargs)
				if err != nil {
					t.Fatal(err)
				}
				text, err := template.Render(c.messages(), kwargs)
				if problem := g.check(text, err); problem != "" {
					t.Errorf("%s: %s", c.Name, problem)
				}
			}
		})
	}
}
