package stored

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tidwall/gjson"
)

// arrays are the members of a result that have an entry for each request: a history
// needs none of them.
var arrays = []string{"input_lens", "output_lens", "ttfts", "itls", "latencies", "start_times", "queue_times", "generated_texts", "errors"}

// Keep makes the text that a history keeps of a run, one JSON object: the result, the
// manifest of the same run, or both; one of them may be nil. Arrays with an entry for
// each request are left out. name is a file name that is the same for the same run and
// sorts by its time.
func Keep(result, manifest []byte) (name string, text []byte, err error) {
	var out struct {
		Version  int             `json:"servebench_baseline"`
		Result   json.RawMessage `json:"result,omitempty"`
		Manifest json.RawMessage `json:"manifest,omitempty"`
	}
	out.Version = 1
	if result != nil {
		var members map[string]json.RawMessage
		if err := json.Unmarshal(result, &members); err != nil {
			return "", nil, err
		}
		for _, a := range arrays {
			delete(members, a)
		}
		if out.Result, err = json.Marshal(members); err != nil {
			return "", nil, err
		}
	}
	if manifest != nil {
		var b bytes.Buffer
		if err := json.Compact(&b, manifest); err != nil {
			return "", nil, err
		}
		out.Manifest = b.Bytes()
	}
	if text, err = json.Marshal(out); err != nil {
		return "", nil, err
	}
	run, err := read(gjson.ParseBytes(text))
	if err != nil {
		return "", nil, err
	}
	sum := sha256.Sum256(text)
	return fmt.Sprintf("%s-%s.json", run.At.UTC().Format("20060102T150405Z"), hex.EncodeToString(sum[:6])), append(text, '\n'), nil
}

// readKept reads what Keep made.
func readKept(doc gjson.Result) (Run, error) {
	if doc.Get("servebench_baseline").Int() != 1 {
		return Run{}, errors.New("servebench_baseline: a later version wrote this; want 1")
	}
	result, manifest := doc.Get("result"), doc.Get("manifest")
	if !result.IsObject() && !manifest.IsObject() {
		return Run{}, errors.New("neither result nor manifest is in it")
	}
	if !result.IsObject() {
		return read(manifest)
	}
	r, err := read(result)
	if err != nil || !manifest.IsObject() {
		return r, err
	}
	m, err := read(manifest)
	if err != nil {
		return Run{}, err
	}
	r.Describe(&m)
	return r, nil
}
