package openai

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/servebench/servebench/loadgen"
	"github.com/servebench/servebench/loadgen/rxtime"
	"github.com/servebench/servebench/metrics"
)

const vllmEvent = `{"id":"cmpl-ad6df3ca4737d212","object":"text_completion","created":1796068298,"model":"tiny","choices":[{"index":0,"text":" onChangeText","logprobs":null,"finish_reason":null,"stop_reason":null,"prompt_token_ids":null,"token_ids":null}]}`

func BenchmarkScan(b *testing.B) {
	p := []byte(vllmEvent)
	b.SetBytes(int64(len(p)))
	b.ReportAllocs()
	var ev event
	for b.Loop() {
		if err := scan(p, &ev); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkScanResponse(b *testing.B) {
	p := []byte(replyDelta)
	b.SetBytes(int64(len(p)))
	b.ReportAllocs()
	var ev event
	for b.Loop() {
		if err := scanResponse(p, nil, &ev); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzScan(f *testing.F) {
	for _, s := range []string{vllmEvent, `{}`, `[1]`, `{"a":[{"b":"\u00e9\n"}],"usage":{"completion_tokens":2.0}}`, `{"error":{"x":1}}`, `-0.1e+5`, `01`, `"\x"`, `{"a":1,}`, "{\"a\":\"\n\"}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		var ev event
		err := scan(p, &ev)
		// Depth apart, both must agree on what is JSON.
		if valid := json.Valid(p); (err == nil) != valid && len(p) < maxDepth {
			t.Fatalf("scan says %v, encoding/json says %v", err, valid)
		}
	})
}

// ready returns a call in the middle of a stream, on a connection of which one
// byte was read.
func ready(t testing.TB) *call {
	t.Helper()
	client, server := net.Pipe()
	t.Cleanup(func() { client.Close(); server.Close() })
	rx := rxtime.New(client, false)
	go server.Write([]byte("x"))
	if _, err := rx.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	c := newClient(t, Config{})
	t.Cleanup(c.Close)
	clock := loadgen.StartClock()
	k := &call{c: c, clock: clock, req: &loadgen.Request{}, rec: &metrics.Record{}, conn: &conn{Conn: rx, rx: rx}, usage: noUsage}
	k.watch = startWatch(&c.cfg, clock, func() {})
	t.Cleanup(k.watch.stop)
	k.expect(4096)
	return k
}

// rewind makes room for more events.
func (k *call) rewind() {
	k.rec.Arrivals, k.rec.RxDelay, k.rec.NotBearing = k.rec.Arrivals[:0], k.rec.RxDelay[:0], k.rec.NotBearing[:0]
}

func TestEventsOfAResponseAllocateNothing(t *testing.T) {
	k := ready(t)
	k.c.responses = true
	p := []byte(strings.Repeat("event: response.output_text.delta\n"+event1(replyDelta), 3) + event1(replyEnd))
	if n := testing.AllocsPerRun(100, func() {
		k.rewind()
		k.done = false
		if err := k.feed(p); err != nil {
			t.Fatal(err)
		}
		if !k.done || len(k.rec.Arrivals) != 3 {
			t.Fatalf("%d events, done %v", len(k.rec.Arrivals), k.done)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestEventsAllocateNothing(t *testing.T) {
	k := ready(t)
	for _, events := range []string{event1(vllmEvent), strings.Repeat(event1(vllmEvent), 10), ": k\n\n", usageEvent(`{"completion_tokens":1}`), delta(`"content":"x"`)} {
		p := []byte(events)
		if n := testing.AllocsPerRun(100, func() {
			k.rewind()
			if err := k.feed(p); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%v allocations in %.60q", n, events)
		}
	}
}

// BenchmarkEvent is the whole path of an event, from the bytes of a read to the
// record.
func BenchmarkEvent(b *testing.B) {
	for _, n := range []int{1, 10} {
		b.Run(fmt.Sprintf("in_a_read=%d", n), func(b *testing.B) {
			k := ready(b)
			p := []byte(strings.Repeat(event1(vllmEvent), n))
			b.ReportAllocs()
			for b.Loop() {
				k.rewind()
				if err := k.feed(p); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/event")
		})
	}
}

// BenchmarkDo is a request with 64 events over a loopback socket, server
// included.
func BenchmarkDo(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	response := []byte(stream(strings.Repeat(event1(vllmEvent), 64), last("c"), doneEvent))
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		for p := (&peer{conn, bufio.NewReader(conn)}); p.next() != nil; {
			conn.Write(response)
		}
	}()
	c := newClient(b, Config{BaseURL: "http://" + l.Addr().String()})
	defer c.Close()
	b.ReportAllocs()
	for b.Loop() {
		if r := do(b.Context(), c); r.Outcome != metrics.OK {
			b.Fatal(sum(r))
		}
	}
}
