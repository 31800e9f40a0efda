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

// Decoding reads the counters of speculative decoding and of diffusion from the
// server's /metrics, each summed over engines; nil where the server has none. It
// fails in nothing, is bounded in time, and is safe for concurrent use.
func Decoding(ctx context.Context, client *http.Client, baseURL string, header http.Header) (*metrics.Speculation, *metrics.Diffusion) {
	base := strings.TrimSuffix(strings.TrimRight(baseURL, "/"), "/v1")
	a := get(ctx, client, base+"/metrics", "/metrics", header, metricsBody)
	return readSpeculation(a.body), readDiffusion(a.body)
}

// counters yields the counters whose names begin with prefix: the rest of the
// name, the labels in braces, and the value where it is a count.
func counters(body []byte, prefix string, yield func(name, labels string, n int64)) {
	lines := bufio.NewScanner(bytes.NewReader(body))
	lines.Buffer(nil, metricsBody+1)
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), prefix)
		if !ok {
			continue
		}
		// The value is the last word: a label may hold spaces.
		name, text, _ := strings.Cut(rest, "{")
		name, _, _ = strings.Cut(name, " ")
		f, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		if err == nil && f >= 0 && f < 1<<53 {
			yield(name, text, int64(f))
		}
	}
}

func readSpeculation(body []byte) (s *metrics.Speculation) {
	counters(body, "vllm:spec_decode_num_", func(name, text string, n int64) {
		if s == nil {
			s = new(metrics.Speculation)
		}
		switch name {
		case "drafts_total":
			s.Drafts += n
		case "draft_tokens_total":
			s.DraftTokens += n
		case "accepted_tokens_total":
			s.Accepted += n
		case "accepted_tokens_per_pos_total":
			pos, err := strconv.Atoi(labels(text)["position"])
			if err != nil || pos < 0 || pos >= maxDraft {
				return
			}
			for len(s.AcceptedAt) <= pos {
				s.AcceptedAt = append(s.AcceptedAt, 0)
			}
			s.AcceptedAt[pos] += n
		}
	})
	return s
}

func readDiffusion(body []byte) (d *metrics.Diffusion) {
	counters(body, "vllm:diffusion", func(name, _ string, n int64) {
		if !strings.HasSuffix(name, "_total") {
			return
		}
		if d == nil {
			d = new(metrics.Diffusion)
		}
		switch {
		case strings.Contains(name, "num_denoising_steps"):
			d.Steps += n
		case strings.Contains(name, "num_canvas_positions"):
			d.Positions += n
		case strings.Contains(name, "num_committed_tokens"):
			d.Committed += n
		}
	})
	return d
}
