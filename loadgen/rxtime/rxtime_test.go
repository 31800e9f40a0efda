package rxtime_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/servebench/servebench/loadgen/rxtime"
)

// pair returns the two ends of a loopback connection, the first one wrapped, and
// both for as long as the test runs.
func pair(t testing.TB, kernel bool) (*rxtime.Conn, *net.TCPConn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	peer, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	conn := rxtime.New(c, kernel)
	t.Cleanup(func() { conn.Close(); peer.Close() })
	return conn, peer.(*net.TCPConn)
}

// both runs a test with and without kernel stamps: but for the stamp there is no
// difference to be seen.
func both(t *testing.T, test func(t *testing.T, kernel bool)) {
	for _, kernel := range []bool{false, true} {
		t.Run(fmt.Sprintf("kernel=%v", kernel), func(t *testing.T) { test(t, kernel) })
	}
}

func write(t testing.TB, w io.Writer, s string) {
	t.Helper()
	if _, err := io.WriteString(w, s); err != nil {
		t.Fatal(err)
	}
}

// read reads exactly n bytes and returns them.
func read(t testing.TB, r io.Reader, n int) string {
	t.Helper()
	p := make([]byte, n)
	if _, err := io.ReadFull(r, p); err != nil {
		t.Fatal(err)
	}
	return string(p)
}

func TestReadIsStampedWithItsTime(t *testing.T) {
	both(t, func(t *testing.T, kernel bool) {
		conn, peer := pair(t, kernel)
		if got := conn.Last(); got != (rxtime.Stamp{}) {
			t.Errorf("before the first read: %+v", got)
		}
		before := time.Now()
		write(t, peer, "x")
		if got := read(t, conn, 1); got != "x" {
			t.Errorf("read %q", got)
		}
		s := conn.Last()
		if s.Read.Before(before) || s.Read.After(time.Now()) || !kernel && s.Kernel || !s.Kernel && s.Delay != 0 {
			t.Errorf("stamp %+v, written after %v, read before %v", s, before, time.Now())
		}
		if n, err := conn.Read(nil); n != 0 || err != nil || conn.Last() != s {
			t.Errorf("an empty read: %d, %v, stamp %+v, want no other than %+v", n, err, conn.Last(), s)
		}
	})
}

func TestConnThatIsNotTCP(t *testing.T) {
	c, peer := net.Pipe()
	defer peer.Close()
	conn := rxtime.New(c, true)
	before := time.Now()
	go io.WriteString(peer, "x")
	read(t, conn, 1)
	if s := conn.Last(); s.Kernel || s.Delay != 0 || s.Read.Before(before) || !conn.Alive() {
		t.Errorf("stamp %+v, alive %v", s, conn.Alive())
	}
	conn.Close()
	if _, err := conn.Read(make([]byte, 1)); err != io.ErrClosedPipe {
		t.Errorf("read after Close: %v", err)
	}
}

func TestConnIsAReader(t *testing.T) {
	both(t, func(t *testing.T, kernel bool) {
		conn, peer := pair(t, kernel)
		content := strings.Repeat("0123456789abcdef", 1000)
		go func() {
			io.WriteString(peer, content)
			peer.Close()
		}()
		if err := iotest.TestReader(conn, []byte(content)); err != nil {
			t.Error(err)
		}
		last := conn.Last()
		if n, err := conn.Read(make([]byte, 1)); n != 0 || err != io.EOF || conn.Last() != last {
			t.Errorf("at the end: %d, %v, stamp %+v, want 0, EOF, %+v", n, err, conn.Last(), last)
		}
	})
}

// sameError checks that the wrapped connection fails like the one inside.
func sameError(t *testing.T, conn *rxtime.Conn, want error) {
	t.Helper()
	p := make([]byte, 1)
	n, err := conn.Read(p)
	if n != 0 || !errors.Is(err, want) {
		t.Errorf("read: %d, %v, want 0, %v", n, err, want)
	}
	if _, plain := conn.Conn.Read(p); fmt.Sprintf("%#v", err) != fmt.Sprintf("%#v", plain) && err.Error() != plain.Error() {
		t.Errorf("read: %v, the connection inside: %v", err, plain)
	}
	if _, ok := errors.AsType[*net.OpError](err); !ok {
		t.Errorf("read: %T is no *net.OpError", err)
	}
}

func TestDeadline(t *testing.T) {
	both(t, func(t *testing.T, kernel bool) {
		conn, peer := pair(t, kernel)
		for _, deadline := range []time.Time{time.Unix(1, 0), time.Now().Add(time.Millisecond)} {
			conn.SetReadDeadline(deadline)
			sameError(t, conn, os.ErrDeadlineExceeded)
		}
		conn.SetDeadline(time.Time{})
		write(t, peer, "x")
		read(t, conn, 1)
	})
}

func TestCloseEndsARead(t *testing.T) {
	both(t, func(t *testing.T, kernel bool) {
		conn, _ := pair(t, kernel)
		errs := make(chan error)
		for range 2 { // a second one waits for the first
			go func() {
				_, err := conn.Read(make([]byte, 1))
				errs <- err
			}()
		}
		runtime.Gosched() // likely, not surely, they read by now; both orders must do
		conn.Close()
		for range 2 {
			if err := <-errs; !errors.Is(err, net.ErrClosed) {
				t.Errorf("read at Close: %v", err)
			}
		}
		sameError(t, conn, net.ErrClosed)
		if _, err := conn.Read(nil); !errors.Is(err, net.ErrClosed) {
			t.Errorf("an empty read after Close: %v", err)
		}
	})
}

func TestReset(t *testing.T) {
	both(t, func(t *testing.T, kernel bool) {
		conn, peer := pair(t, kernel)
		peer.SetLinger(0)
		peer.Close()
		_, err := conn.Read(make([]byte, 1))
		if !errors.Is(err, syscall.ECONNRESET) {
			t.Fatalf("read: %v", err)
		}
		want := fmt.Sprintf("read tcp %v->%v: read: connection reset by peer", conn.LocalAddr(), conn.RemoteAddr())
		if runtime.GOOS == "linux" && err.Error() != want {
			t.Errorf("read: %v, want %s", err, want)
		}
	})
}

// WriteTo, and anything else of TCPConn that reads, would read past the stamps.
func TestOnlyConnIsPassedOn(t *testing.T) {
	conn, _ := pair(t, true)
	if _, ok := any(conn).(io.WriterTo); ok {
		t.Error("has WriteTo")
	}
	if _, ok := any(conn).(syscall.Conn); ok {
		t.Error("has SyscallConn")
	}
}

// What orders two goroutines with plain connections for the race detector, bytes
// that went from one to the other, orders them here. Without raceRead this test
// fails under -race.
func TestReadIsAfterTheWriteForTheRaceDetector(t *testing.T) {
	both(t, func(t *testing.T, kernel bool) {
		conn, peer := pair(t, kernel)
		told := 0
		go func() {
			told = 1
			io.WriteString(peer, "x")
		}()
		read(t, conn, 1)
		if told != 1 {
			t.Error("read before the write")
		}
	})
}

func TestUnderTLSLastIsTheRawRead(t *testing.T) {
	both(t, func(t *testing.T, kernel bool) {
		raw, peer := pair(t, kernel)
		srv := httptest.NewTLSServer(nil) // for its certificate
		defer srv.Close()
		server := tls.Server(peer, srv.TLS)
		client := tls.Client(raw, &tls.Config{InsecureSkipVerify: true})
		errs := make(chan error, 1)
		go func() {
			_, err := io.WriteString(server, "hello")
			errs <- err
		}()
		if got := read(t, client, 1); got != "h" {
			t.Errorf("read %q", got)
		}
		first := raw.Last()
		if got := read(t, client, 4); got != "ello" {
			t.Errorf("read %q", got)
		}
		if raw.Last() != first || first.Read.IsZero() {
			t.Errorf("the rest of a record: stamp %+v, want that of its read, %+v", raw.Last(), first)
		}
		if err := <-errs; err != nil {
			t.Error(err)
		}
	})
}

// sseServer sends n events, one for each value of next, and tells when it began
// to write each.
func sseServer(t *testing.T, n int, secure bool) (srv *httptest.Server, next chan<- bool, began []time.Time) {
	began = make([]time.Time, n)
	gate := make(chan bool)
	srv = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		for i := range n {
			<-gate
			began[i] = time.Now()
			fmt.Fprintf(w, "data: %d\n\n", i)
			w.(http.Flusher).Flush()
		}
	}))
	if secure {
		srv.StartTLS()
	} else {
		srv.Start()
	}
	t.Cleanup(srv.Close)
	return srv, gate, began
}

// The transport's own goroutine, the reader of the body and one that looks on
// share a Conn; each event's arrival is between its write and its read.
func TestInsideHTTPTransport(t *testing.T) {
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("tls=%v", secure), func(t *testing.T) {
			both(t, func(t *testing.T, kernel bool) { streamEvents(t, secure, kernel) })
		})
	}
}

func streamEvents(t *testing.T, secure, kernel bool) {
	const events = 50
	srv, next, began := sseServer(t, events, secure)
	var conn *rxtime.Conn
	tr := srv.Client().Transport.(*http.Transport)
	tr.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		conn = rxtime.New(c, kernel)
		return conn, nil
	}
	resp, err := srv.Client().Get(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()

	var onlooker sync.WaitGroup
	stop := make(chan bool)
	onlooker.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				if s := conn.Last(); s.Delay < 0 || s.Read.IsZero() || conn.Discarded() != 0 {
					t.Errorf("looking on: %+v, %d discarded", s, conn.Discarded())
				}
				conn.Alive()
				runtime.Gosched()
			}
		}
	})
	body := bufio.NewReader(resp.Body)
	for i := range events {
		next <- true
		line, err := body.ReadString('\n')
		if err != nil || line != fmt.Sprintf("data: %d\n", i) {
			t.Fatalf("event %d: %q, %v", i, line, err)
		}
		s := conn.Last()
		if arrival := s.Read.Add(-s.Delay); arrival.Before(began[i]) || arrival.After(s.Read) || s.Read.After(time.Now()) {
			t.Errorf("event %d, written at %v: %+v", i, began[i], s)
		}
		if _, err := body.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	onlooker.Wait()
}

// Example finds the connection of an answer through httptrace, and with it when
// the answer came in.
func Example() {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "hello")
	}))
	defer srv.Close()
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return rxtime.New(c, true), nil
		},
	}}
	var conn *rxtime.Conn
	ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) { conn = info.Conn.(*rxtime.Conn) },
	})
	req, _ := http.NewRequestWithContext(ctx, "GET", srv.URL, nil)
	sent := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	stamp := conn.Last()
	arrival := stamp.Read.Add(-stamp.Delay)
	fmt.Println(sent.Before(arrival), !arrival.After(stamp.Read))
	// Output: true true
}

func TestReadDoesNotAllocate(t *testing.T) {
	both(t, func(t *testing.T, kernel bool) {
		conn, peer := pair(t, kernel)
		out, in := []byte("data: x\n\n"), make([]byte, 4096)
		got := testing.AllocsPerRun(500, func() {
			if _, err := peer.Write(out); err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Read(in); err != nil {
				t.Fatal(err)
			}
		})
		if got != 0 {
			t.Errorf("%v allocations a write and a read", got)
		}
	})
}

// BenchmarkRead reads 240 bytes that are there already, in turns through a bare
// TCPConn and through a Conn, so that both see the same noise.
func BenchmarkRead(b *testing.B) {
	for _, kernel := range []bool{false, true} {
		b.Run(fmt.Sprintf("kernel=%v", kernel), func(b *testing.B) {
			const size, batch = 240, 64
			conn, peer := pair(b, kernel)
			out, in := bytes.Repeat([]byte("x"), size*batch), make([]byte, size)
			run := func(r io.Reader) time.Duration {
				if _, err := peer.Write(out); err != nil {
					b.Fatal(err)
				}
				start := time.Now()
				for range batch {
					if _, err := io.ReadFull(r, in); err != nil {
						b.Fatal(err)
					}
				}
				return time.Since(start)
			}
			var plain, stamped time.Duration
			b.ReportAllocs()
			for b.Loop() {
				plain += run(conn.Conn)
				stamped += run(conn)
			}
			b.ReportMetric(float64(plain.Nanoseconds())/float64(b.N*batch), "plain-ns/read")
			b.ReportMetric(float64(stamped.Nanoseconds())/float64(b.N*batch), "stamped-ns/read")
			b.ReportMetric(float64(stamped)/float64(plain), "ratio")
		})
	}
}
