package probe

import (
	"bufio"
	"bytes"
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/servebench/servebench/metrics"
)

// maxDraft bounds the positions of a draft that are counted.
const maxDraft = 1024

// Speculation reads the counters of speculative decoding from the server's
// /metrics, summed over engines; nil where the server has none. It fails in
// nothing, is bounded in time, and is safe for concurrent use.
func Speculation(ctx context.Context, client *http.Client, baseURL string, header http.Header) *metrics.Speculation {
	base := strings.TrimSuffix(strings.TrimRight(baseURL, "/"), "/v1")
	a := get(ctx, client, base+"/metrics", "/metrics", header, metricsBody)
	return readSpeculation(a.body)
}

func readSpeculation(body []byte) (s *metrics.Speculation) {
	lines := bufio.NewScanner(bytes.NewReader(body))
	lines.Buffer(nil, metricsBody+1)
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), "vllm:spec_decode_num_")
		if !ok {
			continue
		}
		// The value is the last word: a label may hold spaces.
		name, _, _ := strings.Cut(rest, "{")
		name, _, _ = strings.Cut(name, " ")
		f, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		if err != nil || !(f >= 0 && f < 1<<53) {
			continue
		}
		if s == nil {
			s = new(metrics.Speculation)
		}
		switch n := int64(f); name {
		case "drafts_total":
			s.Drafts += n
		case "draft_tokens_total":
			s.DraftTokens += n
		case "accepted_tokens_total":
			s.Accepted += n
		case "accepted_tokens_per_pos_total":
			_, text, _ := strings.Cut(rest, "{")
			pos, err := strconv.Atoi(labels(text)["position"])
			if err != nil || pos < 0 || pos >= maxDraft {
				continue
			}
			for len(s.AcceptedAt) <= pos {
				s.AcceptedAt = append(s.AcceptedAt, 0)
			}
			s.AcceptedAt[pos] += n
		}
	}
	return s
}
