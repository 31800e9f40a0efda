package openai

import (
	"bytes"
	"fmt"
	"io"
	"net/http/httputil"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/servebench/servebench/loadgen"
	"github.com/servebench/servebench/metrics"
)

// viaStrip reads a chunked body as a stream does: cut into reads of size bytes,
// the rest left to net/http's reader where strip says so.
func viaStrip(body []byte, size int) (data []byte, err error) {
	var c chunks
	for at := 0; at < len(body); at += size {
		p := bytes.Clone(body[at:min(at+size, len(body))])
		got, rest, over, err := c.strip(p)
		data = append(data, got...)
		if err != nil {
			return data, err
		}
		if over {
			left := append(append(bytes.Clone(c.line[:c.held]), rest...), body[min(at+size, len(body)):]...)
			more, err := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(left)))
			return append(data, more...), err
		}
	}
	return data, io.ErrUnexpectedEOF
}

// FuzzChunks holds strip against net/http's reader of chunks.
func FuzzChunks(f *testing.F) {
	for _, s := range []string{
		"", "0\r\n\r\n", chunk("a") + lastChunk, chunk("abc") + chunk(strings.Repeat("x", 300)) + lastChunk, "5\r\nhello\r\n",
		"5;ext=1\r\nhello\r\n0\r\n\r\n", "5\nhello\r\n0\r\n\r\n", "5\r\nhelloX\n0\r\n\r\n", "0005\r\nhello\r\n00\r\n\r\n", "00000000000000005\r\nhello\r\n0\r\n\r\n",
		"g\r\nhello\r\n", "\r\n", "5 \r\nhello\r\n0\r\n\r\n", "5\r\r\nhello\r\n0\r\n\r\n", "A\r\n0123456789\r\n0\r\nTrailer: 1\r\n\r\n", "fffffff\r\nx", "1\r\na\r\r\n", "0009\r\n0000000000",
	} {
		f.Add([]byte(s), 3)
	}
	f.Fuzz(func(t *testing.T, body []byte, size int) {
		size = max(1, min(size, 4096))
		want, wantErr := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(body)))
		got, err := viaStrip(body, size)
		if !bytes.Equal(got, want) || (err == nil) != (wantErr == nil) {
			t.Errorf("%q in reads of %d:\ngot  %q, %v\nwant %q, %v", body, size, got, err, want, wantErr)
		}
		if err != nil && wantErr != nil && err.Error() != wantErr.Error() {
			t.Errorf("%q in reads of %d: error %v, want %v", body, size, err, wantErr)
		}
	})
}

// TestDirectIsTheSame: what a record holds does not depend on whether the stream
// was read past the transport, and the connection can be used again as often.
func TestDirectIsTheSame(t *testing.T) {
	responses := map[string]string{
		"extension":            streamHead + "29;a=b\r\n" + token("a")[:0x29] + "\r\n" + chunk(token("a")[0x29:]) + chunk(last("b")+doneEvent) + lastChunk,
		"size ends in LF":      streamHead + strings.Replace(chunk(last("a")+doneEvent), "\r\n", "\n", 1) + lastChunk,
		"bad size":             streamHead + chunk(token("a")) + "zz\r\n",
		"bad end of a chunk":   streamHead + chunk(token("a")) + "1\r\nxyz",
		"cut in a chunk":       streamHead + chunk(token("a")) + "50\r\ndata: ",
		"cut in a size":        streamHead + chunk(token("a")) + "5",
		"no last chunk":        streamHead + chunk(last("a")) + chunk(doneEvent),
		"trailer":              streamHead + chunk(last("a")) + chunk(doneEvent) + "0\r\nX-A: b\r\n\r\n",
		"announced trailer":    strings.Replace(streamHead, "\r\n\r\n", "\r\nTrailer: X-A\r\n\r\n", 1) + chunk(last("a")+doneEvent) + "0\r\nX-A: b\r\n\r\n",
		"after done":           streamHead + chunk(last("a")+doneEvent) + chunk(token("late")) + lastChunk,
		"done within a chunk":  streamHead + chunk(last("a")+doneEvent+token("late")+token("later")) + lastChunk,
		"100 first":            "HTTP/1.1 100 Continue\r\n\r\n" + stream(token("a"), last("b"), doneEvent),
		"a document in chunks": streamHead + chunk(`{"choices":[{"text":"a"`) + chunk(`,"finish_reason":"stop"}]}`) + lastChunk,
		"HTML in chunks":       streamHead + chunk("<html>") + chunk("no</html>") + lastChunk,
		"blank first":          streamHead + chunk("\n\n") + chunk(last("a")+doneEvent) + lastChunk,
		"empty":                streamHead + lastChunk,
		"a long event":         stream(token(strings.Repeat("x", 200<<10)), last("b"), doneEvent),
		"no chunks":            strings.Replace(streamHead, "Transfer-Encoding: chunked\r\n", "", 1) + last("a") + doneEvent,
	}
	files, err := filepath.Glob("../../testdata/vllm/*/*.txt")
	if err != nil || len(files) < 20 {
		t.Fatal(len(files), err)
	}
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && bytes.HasPrefix(b, []byte("HTTP/")) && bytes.Contains(b, []byte("\r\n\r\n")) {
			responses[filepath.Base(f)], _ = capture(t, filepath.Base(f))
		}
	}
	for name, response := range responses {
		t.Run(name, func(t *testing.T) {
			for _, cut := range []int{len(response), 97} {
				var sums [2]string
				for i, stamps := range []bool{false, true} {
					sums[i] = twice(t, Config{Text: TextAlways, NoKernelStamps: !stamps}, response, cut)
				}
				if sums[0] != sums[1] {
					t.Errorf("in pieces of %d\ndirect            %s\nby the transport  %s", cut, sums[1], sums[0])
				}
			}
		})
	}
}

// twice sends one request to a server that writes response in pieces, and another
// on the same connection where response has an end of its own; it sums them up.
func twice(t *testing.T, cfg Config, response string, cut int) string {
	t.Helper()
	ends := strings.HasSuffix(response, lastChunk)
	cfg.BaseURL = loopback(t, func(p *peer) {
		for p.next() != nil {
			for at := 0; at < len(response); at += cut {
				p.send(response[at:min(at+cut, len(response))])
			}
			if !ends {
				return
			}
		}
	})
	c := newClient(t, cfg)
	defer c.Close()
	first := sum(do(t.Context(), c))
	if !ends || !strings.HasPrefix(first, "ok") {
		return first // else the next request may or may not find the connection closed
	}
	two := do(t.Context(), c)
	return fmt.Sprint(first, " | ", sum(two), " reused: ", two.Reused)
}

// TestDirectIsUsed: else the tests above compare the transport with itself.
func TestDirectIsUsed(t *testing.T) {
	c := newClient(t, Config{BaseURL: loopback(t, answer(stream(last("a"), doneEvent)))})
	defer c.Close()
	if err := c.Open(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if len(c.ready) != 1 || !c.ready[0].rx.Streams() {
		t.Skip("this system has no streams")
	}
	k := &call{c: c, clock: loadgen.StartClock(), req: &loadgen.Request{Body: []byte("{}")}, rec: new(metrics.Record), cancel: func() {}}
	k.watch = startWatch(&c.cfg, k.clock, k.cancel)
	defer k.watch.stop()
	res, err := k.post(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if k.directBody(res) == nil {
		t.Error("the stream was to be read through the transport")
	}
}
