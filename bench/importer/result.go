package importer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Split returns the results in a file: one object over any lines, or several of
// --append-result, a line each. Python's NaN and Infinity, which are no JSON, are
// read as null and "inf". The error has the line.
func Split(data []byte) ([][]byte, error) {
	plain := withoutPython(data)
	d := json.NewDecoder(bytes.NewReader(plain))
	var results [][]byte
	for {
		var raw json.RawMessage
		err := d.Decode(&raw)
		if err == io.EOF {
			break
		}
		if err != nil {
			from := int(d.InputOffset())
			from = len(plain) - len(bytes.TrimLeft(plain[from:], " \t\r\n"))
			line := 1 + bytes.Count(plain[:from], []byte("\n"))
			return nil, fmt.Errorf("the result from line %d: %w; want the result JSON of vllm bench serve", line, err)
		}
		results = append(results, raw)
	}
	if len(results) == 0 {
		return nil, errors.New("the file is empty; want the result JSON of vllm bench serve")
	}
	return results, nil
}

// withoutPython replaces the words that Python's json writes for numbers that JSON
// does not have.
func withoutPython(data []byte) []byte {
	if !bytes.Contains(data, []byte("NaN")) && !bytes.Contains(data, []byte("Infinity")) {
		return data
	}
	var out bytes.Buffer
	inString := false
	for i := 0; i < len(data); i++ {
		c := data[i]
		switch {
		case inString && c == '\\' && i+1 < len(data):
			out.WriteByte(c)
			i++
			c = data[i]
		case c == '"':
			inString = !inString
		case inString:
		case bytes.HasPrefix(data[i:], []byte("NaN")):
			out.WriteString("null")
			i += len("NaN") - 1
			continue
		case bytes.HasPrefix(data[i:], []byte("-Infinity")):
			out.WriteString("null")
			i += len("-Infinity") - 1
			continue
		case bytes.HasPrefix(data[i:], []byte("Infinity")):
			out.WriteString(`"inf"`)
			i += len("Infinity") - 1
			continue
		}
		out.WriteByte(c)
	}
	return out.Bytes()
}

// result is a result file, read as far as it matters.
type result struct {
	keys   []string // in order
	values map[string]any
	errs   []error

	duration                  float64
	completed, failed         int64
	input, output             int64
	inputLens, outputLens     []float64 // of successful requests; nil without arrays
	ttfts, latencies          []float64 // seconds
	itls                      []float64 // seconds, of all
	hasItls, hasTTFTs, hasE2E bool
	multiToken                []float64 // seconds per token of requests with several
}

// computed are keys that the manifest has elsewhere, or that are too long for it.
var computed = map[string]bool{
	"duration": true, "completed": true, "failed": true, "total_input_tokens": true, "total_output_tokens": true, "request_throughput": true, "output_throughput": true,
	"total_token_throughput": true, "input_lens": true, "output_lens": true, "ttfts": true, "itls": true, "latencies": true, "start_times": true, "queue_times": true,
	"generated_texts": true, "errors": true, "failed_requests": true, "rps_change_events": true, "servebench": true, "tpots": true,
}

func parse(text []byte) (*result, error) {
	r := &result{values: map[string]any{}}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("a result is a JSON object")
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		name := key.(string)
		if _, twice := r.values[name]; twice {
			return nil, fmt.Errorf("%s: is there twice", name)
		}
		var value any
		if err := d.Decode(&value); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		r.keys, r.values[name] = append(r.keys, name), value
	}
	r.counts()
	if r.errs == nil {
		r.arrays()
	}
	return r, errors.Join(r.errs...)
}

func decode(text []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return d.Decode(to)
}

func (r *result) badf(key, format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf("%s: %s", key, fmt.Sprintf(format, args...)))
}

func (r *result) has(key string) bool { return r.values[key] != nil }

func (r *result) text(key string) string {
	s, _ := r.values[key].(string)
	return s
}

// number is a finite number; false where the key is absent, null or infinite. Text
// that is a number is one: metadata is text.
func (r *result) number(key string) (float64, bool) {
	switch v := r.values[key].(type) {
	case json.Number:
		f, err := v.Float64()
		if err != nil {
			r.badf(key, "%.40s is beyond float64", string(v))
		}
		return f, err == nil
	case string:
		f, err := strconv.ParseFloat(v, 64)
		return f, err == nil && !math.IsInf(f, 0) && !math.IsNaN(f)
	}
	return 0, false
}

// whole is a whole number, or def where the key is absent or null.
func (r *result) whole(key string, def int64) int64 {
	if !r.has(key) {
		return def
	}
	f, ok := r.number(key)
	if !ok || f != math.Trunc(f) || f < 0 || f > 1<<53 {
		r.badf(key, "%v; want a whole number, 0 or more", r.values[key])
		return def
	}
	return int64(f)
}

// counts reads what every result has.
func (r *result) counts() {
	need := func(key string) int64 {
		if !r.has(key) {
			r.badf(key, "is missing; want the result JSON of vllm bench serve")
		}
		return r.whole(key, 0)
	}
	r.completed = need("completed")
	r.input = need("total_input_tokens")
	r.output = r.whole("total_output_tokens", 0) // pooled requests have none
	asked := r.whole("num_prompts", r.completed)
	r.failed = r.whole("failed", max(0, asked-r.completed))
	d, ok := r.number("duration")
	if !ok || !(d > 0) {
		r.badf("duration", "%v; want seconds above 0", r.values["duration"])
	}
	r.duration = d
}

// list is an array of numbers, nil where there is none.
func (r *result) list(key string, value any) []float64 {
	all, ok := value.([]any)
	if value != nil && !ok {
		r.badf(key, "want an array of numbers")
	}
	var out []float64
	for i, v := range all {
		n, ok := v.(json.Number)
		f, err := n.Float64()
		if !ok || err != nil || f < 0 {
			r.badf(fmt.Sprintf("%s[%d]", key, i), "%.40v; want a number, 0 or more", v)
			return nil
		}
		out = append(out, f)
	}
	return out
}

// arrays reads the columns of --save-detailed, of which latencies is always there in
// Python's file, and keeps the rows of successful requests.
func (r *result) arrays() {
	input, output := r.list("input_lens", r.values["input_lens"]), r.list("output_lens", r.values["output_lens"])
	ttfts, latencies := r.list("ttfts", r.values["ttfts"]), r.list("latencies", r.values["latencies"])
	itls, _ := r.values["itls"].([]any)
	if len(itls) == 0 {
		itls = nil
	}
	n := 0
	for _, c := range []struct {
		key  string
		rows int
	}{{"input_lens", len(input)}, {"output_lens", len(output)}, {"ttfts", len(ttfts)}, {"latencies", len(latencies)}, {"itls", len(itls)}} {
		if c.rows > 0 && n > 0 && c.rows != n {
			r.badf(c.key, "%d rows, but another array has %d", c.rows, n)
		}
		n = max(n, c.rows)
	}
	errs, _ := r.values["errors"].([]any)
	if r.errs != nil || n == 0 {
		return
	}
	ok := func(i int) bool {
		if len(errs) == n {
			return errs[i] == ""
		}
		return (output == nil || output[i] > 0) && (latencies == nil || latencies[i] > 0)
	}
	var rows []int
	for i := range n {
		if ok(i) {
			rows = append(rows, i)
		}
	}
	if int64(len(rows)) != r.completed {
		r.badf("completed", "%d, but %d of the %d rows of the arrays are successful requests", r.completed, len(rows), n)
		return
	}
	pick := func(column []float64) (out []float64) {
		for _, i := range rows {
			if column != nil {
				out = append(out, column[i])
			}
		}
		return out
	}
	r.inputLens, r.outputLens, r.ttfts, r.latencies = pick(input), pick(output), pick(ttfts), pick(latencies)
	r.hasTTFTs, r.hasE2E, r.hasItls = ttfts != nil, latencies != nil, itls != nil
	for _, i := range rows {
		if itls != nil {
			r.itls = append(r.itls, r.list(fmt.Sprintf("itls[%d]", i), itls[i])...)
		}
		if ttfts != nil && latencies != nil && output != nil && output[i] > 1 {
			r.multiToken = append(r.multiToken, (latencies[i]-ttfts[i])/(output[i]-1))
		}
	}
	r.sums()
}

// sums holds the totals against the arrays.
func (r *result) sums() {
	check := func(key string, stated int64, lens []float64) {
		sum := 0.0
		for _, n := range lens {
			sum += n
		}
		if lens != nil && sum != float64(stated) {
			r.badf(key, "%d, but the lengths of the successful requests add up to %v", stated, sum)
		}
	}
	if _, pooled := r.values["total_input_sequences"]; !pooled {
		check("total_input_tokens", r.input, r.inputLens)
	}
	check("total_output_tokens", r.output, r.outputLens)
}

// metricKey tells whether a key is a statistic of one of the metrics.
func metricKey(key string) bool {
	return strings.HasSuffix(key, "_ms") && slices.ContainsFunc([]string{"mean_", "median_", "std_", "p"}, func(s string) bool { return strings.HasPrefix(key, s) })
}
