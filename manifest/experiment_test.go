package manifest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Nothing of the reference is lost on its way through the types.
func TestExperimentRoundTrip(t *testing.T) {
	e := parse[Experiment](t, readFile(t, "seed-experiment.json"))
	data, err := Encode(&e)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(document(t, "seed-experiment"), parse[map[string]any](t, data)); diff != "" {
		t.Error(diff)
	}
	again, err := Encode(&e)
	if err != nil || string(again) != string(data) {
		t.Errorf("other bytes the second time, or %v", err)
	}
}

func TestEncodeExperimentWritesEmptyLists(t *testing.T) {
	e := parse[Experiment](t, readFile(t, "seed-experiment.json"))
	e.Artifacts, e.Runs[24].Artifacts = nil, nil
	data, err := Encode(&e)
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Artifacts json.RawMessage
		Runs      []struct{ Artifacts json.RawMessage }
	}
	if err := json.Unmarshal(data, &doc); err != nil || string(doc.Artifacts) != "[]" || string(doc.Runs[24].Artifacts) != "[]" || e.Runs[24].Artifacts != nil {
		t.Errorf("%s, %s, %v", doc.Artifacts, doc.Runs[24].Artifacts, err)
	}
}

// The example of RFC 9562, appendix A.6.
func TestSubmissionID(t *testing.T) {
	at := time.UnixMilli(0x017F22E279B0)
	got := SubmissionID(at, [10]byte{0x0C, 0xC3, 0x18, 0xC4, 0xDC, 0x0C, 0x0C, 0x07, 0x39, 0x8F})
	if want := "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// What nobody knew may be absent from a run of an experiment in the base profile,
// and not in the other.
func TestExperimentOfUnknownServer(t *testing.T) {
	doc := document(t, "seed-experiment")
	for _, gone := range []string{
		"/shared/environment", "/runs/0/environment", "/runs/0/runtime/version", "/runs/0/runtime/parameters", "/runs/0/runtime/parallelism",
		"/runs/0/subject/architecture", "/runs/0/subject/quantization", "/runs/0/subject/parameter_count_total", "/runs/0/subject/parameter_count_active",
		"/runs/0/subject/modalities", "/runs/0/workload/tokenizer", "/runs/0/workload/prefix_behavior",
	} {
		edit(t, doc, gone, "remove", nil)
	}
	data := marshal(t, doc)
	if _, err := Validate(data); err != nil {
		t.Error(err)
	}
	if _, err := (Profile{Publishable: true}).Validate(data); err == nil {
		t.Error("publishable too")
	}
}
