package openai

import (
	"bytes"

	"github.com/servebench/servebench/metrics"
)

// The keys of a simulator's own times, as they stand behind another member. Inside of
// a text their quotes would be escaped.
var (
	sentKey    = []byte(`,"sent_ns":`)
	arrivedKey = []byte(`,"arrived_ns":`)
)

// takeTruth keeps the times that an event tells: that of its writing where it is one
// of the arrivals, which has choices; 0 is none. They are looked for here and not in
// the scan, which costs nothing more where nobody asks.
func (k *call) takeTruth(data []byte, choices bool) {
	t := k.rec.Truth
	if t == nil {
		t = &metrics.Truth{Sent: make([]int64, 0, cap(k.rec.Arrivals))}
		k.rec.Truth = t
	}
	if choices {
		t.Sent = append(t.Sent, stampBehind(data, sentKey))
	}
	if t.Arrived == 0 {
		t.Arrived = stampBehind(data, arrivedKey)
	}
}

// stampBehind reads the digits behind the last key; 0 without it, and where they are
// no positive int64.
func stampBehind(data, key []byte) int64 {
	i := bytes.LastIndex(data, key)
	if i < 0 {
		return 0
	}
	n := int64(0)
	for _, c := range data[i+len(key):] {
		if c < '0' || c > '9' {
			break
		}
		if n > (1<<63-1-9)/10 {
			return 0
		}
		n = n*10 + int64(c-'0')
	}
	return n
}
