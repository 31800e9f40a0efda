package sweep

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// An experiment says of each trial that completed how sure its numbers are; a trial
// whose manifest does not say is left out.
func TestExperimentSaysHowSureItsRunsAre(t *testing.T) {
	c := newCampaign()
	c.complete(c.point("judged", "g", nil), 500, 2)
	c.complete(c.point("unjudged", "g", nil), 500, 3)
	ext := c.outcomes[0].Trials[0].Manifest.Measurement.Extensions
	ext["servebench.verdict"] = "SUSPECT"
	ext["servebench.no_throughput"] = "too short"
	ext["servebench.saturation"] = map[string]any{"over_saturated": true, "reason": "long"}
	doc, text := c.document(t)
	c.verify(t, text)
	want := map[string]any{"judged": []map[string]any{{"trial": 1, "verdict": "SUSPECT", "no_throughput": "too short", "over_saturated": true}}}
	if diff := cmp.Diff(want, doc.Extensions["servebench.certainty"]); diff != "" {
		t.Error(diff)
	}
}
