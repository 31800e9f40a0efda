package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"text/template"
)

//go:embed parity.md.tmpl
var parityPage string

// parity is what docs/parity.md tells: every key of the result files of both
// clients for the same words on the same server.
type parity struct {
	Tables     []parityTable
	Tokenizers []prompted
}

type parityTable struct {
	Title string
	Words string // of the command, without the server
	Rows  []parityRow
}

type parityRow struct {
	Key, Ours, Theirs string
	Equal             bool
	Why               string // of a difference
}

// Why values of the two clients may differ.
const (
	whyRun    = "another run of the same load: no server is equally fast twice; the formula is the same"
	whyStamp  = "another run; and servebench takes the kernel's receive time of each event and starts the clock behind encoding and connecting"
	whyOwn    = "servebench's own: not vLLM's key"
	whyCounts = "the drafts depend on how requests met in batches"
)

// reasons say why the values of a key may differ. A key that differs without one
// fails the check.
var reasons = func() map[string]string {
	out := map[string]string{
		"date":                      "the moment of the run: servebench's is the start of the load, vLLM's its end",
		"duration":                  whyRun,
		"request_throughput":        whyRun,
		"request_goodput":           whyRun,
		"input_sequence_throughput": whyRun,
		"output_throughput":         whyRun,
		"total_token_throughput":    whyRun,
		"ttfts":                     whyStamp, "itls": whyStamp, "latencies": whyStamp,
		"start_times":             "servebench counts from the start of the load, vLLM from the start of its process' clock",
		"queue_times":             "another run; servebench counts from the due time, vLLM from the moment its task was made, which may be late",
		"max_output_tokens_per_s": whyRun, "max_concurrent_requests": whyRun,
		"generated_texts":                           "the model's arithmetic depends on how requests met in batches",
		"spec_decode_acceptance_rate":               whyCounts,
		"spec_decode_acceptance_length":             whyCounts,
		"spec_decode_num_drafts":                    whyCounts,
		"spec_decode_draft_tokens":                  whyCounts,
		"spec_decode_accepted_tokens":               whyCounts,
		"spec_decode_per_position_acceptance_rates": whyCounts,
		"probe_median_e2el_ms":                      whyStamp, "probe_p99_e2el_ms": whyStamp, "probe_max_e2el_ms": whyStamp,
		"probe_completed":   "servebench keeps the rate that was asked for, vLLM waits for an answer and then for a period",
		"rps_change_events": "the moments of the run",
	}
	for _, m := range []string{"ttft", "tpot", "itl", "e2el", "client_queue_time", "e2el_including_client_queue"} {
		for _, stat := range []string{"mean", "median", "std", "p50", "p90", "p95", "p99", "p99.9"} {
			out[stat+"_"+m+"_ms"] = whyStamp
		}
	}
	for _, k := range own {
		out[k] = whyOwn
	}
	return out
}()

// add makes a table of two results and returns the keys that differ for no
// reason that is known.
func (p *parity) add(title string, words []string, us, them result) (unexplained []string) {
	t := parityTable{Title: title, Words: strings.Join(words, " ")}
	keys := append([]string{}, them.keys...)
	for _, k := range us.keys {
		if _, ok := them.values[k]; !ok {
			keys = append(keys, k)
		}
	}
	for _, k := range keys {
		a, ok := us.values[k]
		b, ok2 := them.values[k]
		r := parityRow{Key: k, Ours: shown(a, ok), Theirs: shown(b, ok2)}
		r.Equal = ok && ok2 && string(compact(a)) == string(compact(b))
		if !r.Equal {
			if r.Why = reasons[k]; r.Why == "" {
				unexplained = append(unexplained, fmt.Sprintf("%s is %s, vLLM's is %s, and nothing says why", k, r.Ours, r.Theirs))
			}
		}
		t.Rows = append(t.Rows, r)
	}
	p.Tables = append(p.Tables, t)
	return unexplained
}

func compact(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		return []byte(err.Error())
	}
	return b
}

// shown is a value in a cell: a list by its length.
func shown(v any, there bool) string {
	switch x := v.(type) {
	case nil:
		if there {
			return "null"
		}
		return "–"
	case []any:
		return fmt.Sprintf("%d values", len(x))
	case map[string]any:
		return fmt.Sprintf("%d keys", len(x))
	case json.Number:
		if f, err := x.Float64(); err == nil && strings.Contains(string(x), ".") {
			return fmt.Sprintf("%.4g", f)
		}
		return string(x)
	}
	s := strings.NewReplacer("|", `\|`, "\n", " ", base(), "…").Replace(fmt.Sprint(v))
	return "`" + s[:min(len(s), 40)] + "`"
}

func (p *parity) write(path string) error {
	t, err := template.New("parity").Parse(parityPage)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, p); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o666)
}
