package metrics

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
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
	Replica      int             `json:"replica,omitempty"`
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
	Reasoned     bool            `json:"reasoned,omitempty"`
	Visible      int             `json:"first_visible,omitempty"`
	Reasoning    int             `json:"reasoning_tokens,omitempty"`
	PromptTokens *int            `json:"prompt_tokens,omitempty"`
	OutputTokens *int            `json:"output_tokens,omitempty"`
	CachedTokens int             `json:"cached_tokens,omitempty"`
	TokenSource  TokenSource     `json:"token_source,omitempty"`
	ServerTiming *ServerTiming   `json:"server_timing,omitempty"`
	Status       int             `json:"status,omitempty"`
	Outcome      Outcome         `json:"outcome"`
	Error        string          `json:"error,omitempty"`
	Reused       bool            `json:"reused"`
	Connect      time.Duration   `json:"connect_ns,omitempty"`
	NoDone       bool            `json:"no_done,omitempty"`
	NotStreamed  bool            `json:"not_streamed,omitempty"`
	Mismatch     bool            `json:"usage_mismatch,omitempty"`
	BadUsage     int             `json:"bad_usage,omitempty"`
	BadTiming    int             `json:"bad_timing,omitempty"`
	Redialed     int             `json:"redialed,omitempty"`
	Clamped      int             `json:"clamped,omitempty"`
	Discarded    int             `json:"discarded,omitempty"`
	NoStamp      int             `json:"no_stamp,omitempty"`
	Trailing     int             `json:"trailing_bytes,omitempty"`
	Undrained    bool            `json:"undrained,omitempty"`
}

// MarshalJSON writes the record file's form of r. It is a method of the value,
// so that no way of encoding a Record writes its text.
func (r Record) MarshalJSON() ([]byte, error) {
	l := line{
		Seq: r.Seq, ID: r.ID, Replica: r.Replica, Due: r.Due, Slot: r.Slot, Sent: r.Sent, Done: r.Done,
		Arrivals: r.Arrivals, RxDelay: r.RxDelay, Tokens: r.Tokens, NotBearing: r.NotBearing,
		CachedTokens: r.CachedTokens, TokenSource: r.TokenSource,
		Reasoned: r.Reasoned, Visible: r.Visible, Reasoning: r.ReasoningTokens,
		Status: r.Status, Outcome: r.Outcome, Error: r.Error, Reused: r.Reused, Connect: r.Connect,
		NoDone: r.NoDone, NotStreamed: r.NotStreamed, Mismatch: r.UsageMismatch, BadUsage: r.BadUsage,
		Redialed: r.Redialed, Clamped: r.Clamped, Discarded: r.Discarded, NoStamp: r.NoStamp,
		Trailing: r.Trailing, Undrained: r.Undrained,
		ServerTiming: r.ServerTiming, BadTiming: r.BadTiming,
	}
	if l.Arrivals == nil {
		l.Arrivals = []time.Duration{}
	}
	if l.RxDelay == nil {
		l.RxDelay = []time.Duration{}
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

// UnmarshalJSON reads what MarshalJSON wrote, and refuses what no run can have
// produced. Unknown keys are ignored: a later version may write more.
func (r *Record) UnmarshalJSON(data []byte) error {
	var l line
	if err := json.Unmarshal(data, &l); err != nil {
		return err
	}
	if err := l.check(); err != nil {
		return fmt.Errorf("request %d: %w", l.Seq, err)
	}
	*r = Record{
		Seq: l.Seq, ID: l.ID, Replica: l.Replica, Due: l.Due, Slot: l.Slot, Sent: l.Sent, Done: l.Done,
		Arrivals: some(l.Arrivals), RxDelay: some(l.RxDelay), Tokens: some(l.Tokens), NotBearing: some(l.NotBearing),
		CachedTokens: l.CachedTokens, TokenSource: l.TokenSource,
		Reasoned: l.Reasoned, Visible: l.Visible, ReasoningTokens: l.Reasoning,
		Status: l.Status, Outcome: l.Outcome, Error: l.Error, Reused: l.Reused, Connect: l.Connect,
		NoDone: l.NoDone, NotStreamed: l.NotStreamed, UsageMismatch: l.Mismatch, BadUsage: l.BadUsage,
		Redialed: l.Redialed, Clamped: l.Clamped, Discarded: l.Discarded, NoStamp: l.NoStamp,
		Trailing: l.Trailing, Undrained: l.Undrained,
		ServerTiming: l.ServerTiming, BadTiming: l.BadTiming,
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

// some is s, or nil where s is empty.
func some[T any](s []T) []T {
	if len(s) == 0 {
		return nil
	}
	return s
}

// countLimit is the end of the numbers that every JSON reader takes exactly: 104
// days of nanoseconds.
const countLimit = 1 << 53

// check tells what is wrong with a line that is well-formed JSON.
func (l *line) check() error {
	if len(l.RxDelay) != len(l.Arrivals) || len(l.Tokens) > 0 && len(l.Tokens) != len(l.Arrivals) {
		return fmt.Errorf("arrivals_ns, rx_delay_ns and tokens have %d, %d and %d entries", len(l.Arrivals), len(l.RxDelay), len(l.Tokens))
	}
	for i, k := range l.NotBearing {
		if k < 0 || k >= len(l.Arrivals) || (i > 0 && k <= l.NotBearing[i-1]) {
			return errors.New("not_bearing does not index arrivals_ns in order")
		}
	}
	if l.Visible != 0 && (!l.Reasoned || l.Visible < 0 || l.Visible >= len(l.Arrivals)) {
		return errors.New("first_visible is no index of arrivals_ns behind reasoning")
	}
	if l.First != nil && (len(l.Arrivals) == 0 || *l.First != l.Arrivals[0]) {
		return errors.New("first_ns is not the first of arrivals_ns")
	}
	if (l.Headers != nil) != (l.Status != 0) {
		return errors.New("one of headers_ns and status without the other")
	}
	if l.OutputTokens != nil && l.TokenSource == "" {
		return errors.New("output_tokens without a token_source")
	}
	return errors.Join(l.checkCounts(), l.checkOrder(), l.ServerTiming.check())
}

func (l *line) checkCounts() error {
	bad := func(name string, n int64) error {
		if n < 0 || n >= countLimit {
			return fmt.Errorf("%s is %d", name, n)
		}
		return nil
	}
	optional := func(name string, n *int) error {
		if n == nil {
			return nil
		}
		return bad(name, int64(*n))
	}
	errs := []error{
		bad("seq", int64(l.Seq)), bad("replica", int64(l.Replica)), bad("status", int64(l.Status)), bad("connect_ns", int64(l.Connect)),
		optional("prompt_tokens", l.PromptTokens), optional("output_tokens", l.OutputTokens), bad("cached_tokens", int64(l.CachedTokens)),
		bad("reasoning_tokens", int64(l.Reasoning)),
		bad("bad_usage", int64(l.BadUsage)), bad("redialed", int64(l.Redialed)), bad("clamped", int64(l.Clamped)),
		bad("bad_timing", int64(l.BadTiming)), bad("discarded", int64(l.Discarded)), bad("no_stamp", int64(l.NoStamp)), bad("trailing_bytes", int64(l.Trailing)),
	}
	for _, k := range l.Tokens {
		errs = append(errs, bad("a count in tokens", int64(k)))
	}
	for _, d := range l.RxDelay {
		errs = append(errs, bad("a time in rx_delay_ns", int64(d)))
	}
	return errors.Join(errs...)
}

// checkOrder holds the stamps against the order in which things happen.
func (l *line) checkOrder() error {
	type stamp struct {
		name string
		at   time.Duration
	}
	stamps := []stamp{{"due_ns", l.Due}, {"slot_ns", l.Slot}}
	if l.Outcome != "" && l.Outcome != Dropped {
		stamps = append(stamps, stamp{"sent_ns", l.Sent})
		if l.Headers != nil {
			stamps = append(stamps, stamp{"headers_ns", *l.Headers})
		}
		for _, at := range l.Arrivals {
			stamps = append(stamps, stamp{"arrivals_ns", at})
		}
		stamps = append(stamps, stamp{"done_ns", l.Done})
	} else if l.Sent != 0 || l.Done != 0 || l.Headers != nil || len(l.Arrivals) > 0 {
		return errors.New("times of a request that was not sent")
	}
	before := stamp{"schedule zero", 0}
	for _, s := range stamps {
		if s.at < before.at {
			return fmt.Errorf("%s is %d, before %s at %d", s.name, s.at, before.name, before.at)
		}
		if s.at >= countLimit {
			return fmt.Errorf("%s is %d, not a time of a run", s.name, s.at)
		}
		before = s
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

// lineMax bounds a line of a record file: the stream of a request of 6 h at 100
// events/s takes a fifth of it.
const lineMax = 256 << 20

// ReadRecords yields the records of a file that WriteRecords wrote, one a line;
// blank lines are skipped. An error ends the sequence and names the line.
func ReadRecords(r io.Reader) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		in := bufio.NewScanner(r)
		in.Buffer(make([]byte, 0, 1<<16), lineMax)
		n := 0
		for in.Scan() {
			n++
			text := bytes.TrimSpace(in.Bytes())
			if len(text) == 0 {
				continue
			}
			rec := new(Record)
			if err := decode(text, rec); err != nil {
				yield(nil, fmt.Errorf("line %d: %w", n, err))
				return
			}
			if !yield(rec, nil) {
				return
			}
		}
		if err := in.Err(); err != nil {
			yield(nil, fmt.Errorf("line %d: %w", n+1, err))
		}
	}
}

// decode wants an object: JSON's null would pass for an empty record.
func decode(text []byte, rec *Record) error {
	if text[0] != '{' {
		return errors.New("not a JSON object")
	}
	return rec.UnmarshalJSON(text)
}
