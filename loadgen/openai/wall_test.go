package openai

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/servebench/servebench/loadgen"
	"github.com/servebench/servebench/metrics"
)

// On real sockets the wall clock is set by an hour while a stream is under way, so
// that the kernel's stamps are of another clock than the reads. Every arrival lies
// between its writing and the end of the request, on the monotonic clock.
func TestWallClockIsSet(t *testing.T) {
	for _, set := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(fmt.Sprint(set), func(t *testing.T) {
			const events = 6
			var wall atomic.Int64
			var c *Client
			clock, started := loadgen.StartClock(), make(chan struct{})
			wrote := make(chan time.Duration, events)
			url := loopback(t, func(p *peer) {
				<-started
				p.next()
				p.send(streamHead)
				for i := range events {
					wrote <- clock.Now()
					p.send(chunk(map[bool]string{false: token("a"), true: last("c")}[i == events-1]))
					if i > 0 {
						continue
					}
					for c.Events.Load() == 0 && clock.Now() < 10*time.Second {
						runtime.Gosched() // the first event is read by the old clock
					}
					wall.Store(int64(set))
				}
				p.send(chunk(doneEvent) + lastChunk)
			})
			c = newClient(t, Config{BaseURL: url, Wall: func(now time.Time) time.Time {
				return now.Add(time.Duration(wall.Load()))
			}})
			defer c.Close()
			close(started)
			var r metrics.Record
			c.Do(t.Context(), clock, &loadgen.Request{Body: []byte(`{}`), OutputTokens: events}, &r)
			if r.Outcome != metrics.OK || len(r.Arrivals) != events {
				t.Fatalf("%s", sum(r))
			}
			for i, at := range r.Arrivals {
				if from := <-wrote; at < from || at > r.Done {
					t.Errorf("event %d arrived at %v, was written at %v, and all ended at %v", i, at, from, r.Done)
				}
				if i > 0 && r.RxDelay[i] != 0 {
					t.Errorf("event %d: a delay of %v by two clocks", i, r.RxDelay[i])
				}
			}
		})
	}
}
