package dataset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
)

// loadCustom is vLLM's CustomDataset.
func loadCustom(ctx context.Context, s Spec, t Tools) (*Set, error) {
	rows, err := s.customRows(ctx)
	if err != nil {
		return nil, err
	}
	p, err := newPrompter(s, t, false)
	if err != nil {
		return nil, err
	}
	return p.sample(ctx, rows, &Set{Generator: "custom-jsonl"})
}

// customRows reads all rows of the file and checks each of them.
func (s Spec) customRows(ctx context.Context) (rows []row, err error) {
	err = jsonLines(ctx, s.Path, func(line int, object map[string]json.RawMessage) error {
		r, err := customRow(object)
		switch {
		case err != nil:
			return err
		case s.OutputLen != -1:
			r.output = s.OutputLen
		case r.output == 0:
			return errors.New("no output_tokens; want a number of tokens in every line, or custom-output-len")
		}
		r.line = line
		rows = append(rows, r)
		return nil
	})
	if err == nil && len(rows) == 0 {
		err = fmt.Errorf(`%s: no rows; want lines like {"prompt": "text"}`, s.Path)
	}
	return rows, err
}

func customRow(object map[string]json.RawMessage) (r row, err error) {
	r.prompt, err = textUnder(object, "prompt")
	switch {
	case err != nil:
		return r, err
	case r.prompt == "":
		return r, errors.New("prompt is empty; want some text")
	}
	if raw, ok := object["output_tokens"]; ok {
		r.output, err = parseOutput(raw)
	}
	return r, err
}

// parseOutput reads output_tokens; 0 stands for null, which is as good as none.
func parseOutput(raw []byte) (int, error) {
	switch c := raw[0]; {
	case c == 'n':
		return 0, nil
	case c != '-' && (c < '0' || c > '9'):
		return 0, fmt.Errorf("output_tokens is %s; want a whole number", jsonKind(raw))
	}
	n, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || n != math.Trunc(n) || n < 1 || n > maxLen {
		return 0, fmt.Errorf("output_tokens is %.40s; want a whole number from 1 to %d", raw, maxLen)
	}
	return int(n), nil
}
