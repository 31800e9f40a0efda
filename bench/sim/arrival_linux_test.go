package sim

import (
	"context"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// An arrival is when the kernel had the bytes, before anybody looked for them. Linux
// begins to stamp some time after the first socket asked, and the two clocks behind a
// stamp can be torn apart, so a few are tried.
func TestArrivalIsTheKernels(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	peer, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	accepted, err := arrivals{l}.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	c := accepted.(*arrivalConn)
	for try := 0; ; try++ {
		before := monotonicNow()
		if _, err := peer.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if err := c.kernel.raw.Control(func(fd uintptr) {
			for { // until it is there to be read
				n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
				if n == 1 || err != nil && err != unix.EINTR {
					return
				}
			}
		}); err != nil {
			t.Fatal(err)
		}
		in := monotonicNow()
		if n, err := c.Read(make([]byte, 8)); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		end := monotonicNow()
		at := c.last.Load()
		if at < before || at > end {
			t.Fatalf("arrived at %d, written after %d and read before %d", at, before, end)
		}
		if at <= in {
			return
		}
		if try == 10000 {
			t.Fatalf("arrived at %d, and was there to be read at %d", at, in)
		}
	}
}

func TestReadStampRefusesWhatIsNone(t *testing.T) {
	for _, oob := range [][]byte{nil, {1}, make([]byte, 16), make([]byte, 64)} {
		if got := readStamp(oob); got != 0 {
			t.Errorf("%v: %d", oob, got)
		}
	}
}

// The first event of an answer tells when its request arrived, on a connection that
// is used again too, and no other does.
func TestFirstEventTellsTheArrival(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- New(Config{Truth: true}).Serve(ctx, l) }()
	client := &http.Client{Transport: &http.Transport{}}
	stamp := regexp.MustCompile(`"(sent|arrived)_ns":(\d+)`)
	for path, body := range map[string]string{
		"/v1/completions":      `{"prompt":"a","max_tokens":3,"stream":true}`,
		"/v1/chat/completions": `{"messages":[{"role":"user","content":"a"}],"max_tokens":3,"stream":true}`,
		"/v1/responses":        `{"input":"a","max_output_tokens":3,"stream":true}`,
	} {
		for range 2 {
			before := monotonicNow()
			res, err := client.Post("http://"+l.Addr().String()+path, "application/json", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(res.Body)
			res.Body.Close()
			if err != nil {
				t.Fatal(err)
			}
			found := stamp.FindAllStringSubmatch(string(text), -1)
			if len(found) < 4 || found[1][1] != "arrived" || strings.Count(string(text), `"arrived_ns"`) != 1 {
				t.Fatalf("%s: %s", path, text)
			}
			arrived, err := strconv.ParseInt(found[1][2], 10, 64)
			sent, err2 := strconv.ParseInt(found[0][2], 10, 64)
			if err != nil || err2 != nil || arrived < before || arrived > sent {
				t.Errorf("%s: arrived at %d, asked for after %d, answered at %d", path, arrived, before, sent)
			}
		}
	}
	client.CloseIdleConnections()
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
