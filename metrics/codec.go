package metrics

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"time"
)

// line is a record as it stands in NAME.requests.jsonl: integers in nanoseconds
// from schedule zero, no prompt, no text. What did not happen is absent.
type line struct {
	Seq          int             `json:"seq"`
	ID           string          `json:"id,omitempty"`
	Due          time.Duration   `json:"due_ns"`
	Slot         time.Duration   `json:"slot_ns"`
	Sent         time.Duration   `json:"sent_ns"`
	Headers      *time.Duration  `json:"headers_ns,omitempty"`
	First        *time.Duration  `json:"first_ns,omitempty"`
	Done         time.Duration   `json:"done_ns"`
	Arrivals     []time.Duration `json:"arrivals_ns"`
	RxDelay      []time.Duration `json:"rx_delay_ns"`
	Tokens       []int           `json:"tokens,omitempty"`
	NotBearing   []int           `json:"not_bearing,omitempty"`
	PromptTokens *int            `json:"prompt_tokens,omitempty"`
	OutputTokens *int            `json:"output_tokens,omitempty"`
	CachedTokens int             `json:"cached_tokens,omitempty"`
	TokenSource  TokenSource     `json:"token_source,omitempty"`
	Status       int             `json:"status,omitempty"`
	Outcome      Outcome         `json:"outcome"`
	Error        string          `json:"error,omitempty"`
	Reused       bool            `json:"reused"`
	Connect      time.Duration   `json:"connect_ns,omitempty"`
	NoDone       bool            `json:"no_done,omitempty"`
	NotStreamed  bool            `json:"not_streamed,omitempty"`
	Mismatch     bool            `json:"usage_mismatch,omitempty"`
	BadUsage     int             `json:"bad_usage,omitempty"`
	Redialed     int             `json:"redialed,omitempty"`
	Clamped      int             `json:"clamped,omitempty"`
	Discarded    int             `json:"discarded,omitempty"`
	NoStamp      int             `json:"no_stamp,omitempty"`
	Trailing     int             `json:"trailing_bytes,omitempty"`
	Undrained    bool            `json:"undrained,omitempty"`
}

// MarshalJSON writes the record file's form of r.
func (r *Record) MarshalJSON() ([]byte, error) {
	l := line{
		Seq: r.Seq, ID: r.ID, Due: r.Due, Slot: r.Slot, Sent: r.Sent, Done: r.Done,
		Arrivals: r.Arrivals, RxDelay: r.RxDelay, Tokens: r.Tokens, NotBearing: r.NotBearing,
		CachedTokens: r.CachedTokens, TokenSource: r.TokenSource,
		Status: r.Status, Outcome: r.Outcome, Error: r.Error, Reused: r.Reused, Connect: r.Connect,
		NoDone: r.NoDone, NotStreamed: r.NotStreamed, Mismatch: r.UsageMismatch, BadUsage: r.BadUsage,
		Redialed: r.Redialed, Clamped: r.Clamped, Discarded: r.Discarded, NoStamp: r.NoStamp,
		Trailing: r.Trailing, Undrained: r.Undrained,
	}
	if l.Arrivals == nil {
		l.Arrivals, l.RxDelay = []time.Duration{}, []time.Duration{}
	}
	if r.Status != 0 {
		l.Headers = &r.Headers
	}
	if len(r.Arrivals) > 0 {
		l.First = &r.Arrivals[0]
	}
	if r.PromptTokens > 0 {
		l.PromptTokens = &r.PromptTokens
	}
	if r.TokenSource != "" {
		l.OutputTokens = &r.OutputTokens
	}
	return json.Marshal(&l)
}

// UnmarshalJSON reads what MarshalJSON wrote. Unknown keys are ignored: a later
// version may write more.
func (r *Record) UnmarshalJSON(data []byte) error {
	var l line
	if err := json.Unmarshal(data, &l); err != nil {
		return err
	}
	if len(l.RxDelay) != len(l.Arrivals) || (l.Tokens != nil && len(l.Tokens) != len(l.Arrivals)) {
		return fmt.Errorf("request %d: arrivals_ns, rx_delay_ns and tokens differ in length", l.Seq)
	}
	for i, k := range l.NotBearing {
		if k < 0 || k >= len(l.Arrivals) || (i > 0 && k <= l.NotBearing[i-1]) {
			return fmt.Errorf("request %d: not_bearing does not index arrivals_ns in order", l.Seq)
		}
	}
	*r = Record{
		Seq: l.Seq, ID: l.ID, Due: l.Due, Slot: l.Slot, Sent: l.Sent, Done: l.Done,
		Arrivals: l.Arrivals, RxDelay: l.RxDelay, Tokens: l.Tokens, NotBearing: l.NotBearing,
		CachedTokens: l.CachedTokens, TokenSource: l.TokenSource,
		Status: l.Status, Outcome: l.Outcome, Error: l.Error, Reused: l.Reused, Connect: l.Connect,
		NoDone: l.NoDone, NotStreamed: l.NotStreamed, UsageMismatch: l.Mismatch, BadUsage: l.BadUsage,
		Redialed: l.Redialed, Clamped: l.Clamped, Discarded: l.Discarded, NoStamp: l.NoStamp,
		Trailing: l.Trailing, Undrained: l.Undrained,
	}
	if l.Headers != nil {
		r.Headers = *l.Headers
	}
	if l.PromptTokens != nil {
		r.PromptTokens = *l.PromptTokens
	}
	if l.OutputTokens != nil {
		r.OutputTokens = *l.OutputTokens
	}
	return nil
}

// WriteRecords writes one JSON object a line.
func WriteRecords(w io.Writer, records []Record) error {
	buf := bufio.NewWriterSize(w, 1<<16)
	for i := range records {
		b, err := records[i].MarshalJSON()
		if err != nil {
			return fmt.Errorf("request %d: %w", records[i].Seq, err)
		}
		buf.Write(b)
		if err := buf.WriteByte('\n'); err != nil {
			return err
		}
	}
	return buf.Flush()
}

// ReadRecords yields the records of a file that WriteRecords wrote. An error
// ends the sequence and names the line.
func ReadRecords(r io.Reader) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		dec := json.NewDecoder(r)
		for n := 1; ; n++ {
			rec := new(Record)
			switch err := dec.Decode(rec); err {
			case nil:
				if !yield(rec, nil) {
					return
				}
			case io.EOF:
				return
			default:
				yield(nil, fmt.Errorf("line %d: %w", n, err))
				return
			}
		}
	}
}
