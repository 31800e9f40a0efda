//go:build linux && (amd64 || arm64)

package rxtime_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/servebench/servebench/loadgen/rxtime"
)

// adopted is pair with a connection that can stream.
func adopted(t testing.TB) (*rxtime.Conn, *net.TCPConn) {
	t.Helper()
	plain, peer := pair(t, false)
	conn := rxtime.Adopt(plain.Conn)
	if !conn.Streams() {
		t.Fatal("a TCP connection was not adopted")
	}
	t.Cleanup(func() { conn.Close() })
	return conn, peer
}

func TestAdoptedConnIsAReader(t *testing.T) {
	conn, peer := adopted(t)
	content := strings.Repeat("0123456789abcdef", 1000)
	go func() {
		io.WriteString(peer, content)
		peer.Close()
	}()
	if err := iotest.TestReader(conn, []byte(content)); err != nil {
		t.Error(err)
	}
	if s := conn.Last(); s.Read.IsZero() || time.Since(s.Read) < 0 {
		t.Errorf("last read %+v", s)
	}
}

// A write waits for room, and goes on where there is some.
func TestAdoptedConnWrites(t *testing.T) {
	conn, peer := adopted(t)
	content := bytes.Repeat([]byte("0123456789abcdef"), 1<<20) // more than any socket holds
	var all sync.WaitGroup
	all.Go(func() {
		if n, err := conn.Write(content); n != len(content) || err != nil {
			t.Errorf("wrote %d of %d: %v", n, len(content), err)
		}
		conn.Close()
	})
	got, err := io.ReadAll(peer)
	all.Wait()
	if err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes of %d came, %v", len(got), len(content), err)
	}
	if _, err := conn.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a write after Close: %v", err)
	}
}

func TestAdoptedConnIsClosedOnce(t *testing.T) {
	conn, peer := adopted(t)
	errs := make(chan error)
	for range 2 {
		go func() {
			_, err := conn.Read(make([]byte, 1))
			errs <- err
		}()
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := <-errs; !errors.Is(err, net.ErrClosed) {
			t.Errorf("read at Close: %v", err)
		}
	}
	if err := conn.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a second Close: %v", err)
	}
	if conn.Alive() {
		t.Error("alive after Close")
	}
	if n, err := peer.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("the peer reads %d, %v: the descriptor is still open", n, err)
	}
}

func TestAdoptedConnTellsWhetherItIsAlive(t *testing.T) {
	conn, peer := adopted(t)
	if !conn.Alive() {
		t.Error("not alive when new")
	}
	peer.Close()
	if _, err := conn.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("read: %v", err)
	}
	if conn.Alive() {
		t.Error("alive without a peer")
	}
}

// TestStream: everything comes, in order and stamped, however it was written, and
// then the end. The end may come with the last bytes or on its own.
func TestStream(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(*net.TCPConn)
		want error
	}{
		{"closed", func(c *net.TCPConn) { c.Close() }, io.EOF},
		{"half closed", func(c *net.TCPConn) { c.CloseWrite() }, io.EOF},
		{"reset", func(c *net.TCPConn) { c.SetLinger(0); c.Close() }, syscall.ECONNRESET},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var all sync.WaitGroup
			for range 8 { // at once, to share the loops
				all.Go(func() {
					conn, peer := adopted(t)
					var want, got bytes.Buffer
					all.Go(func() {
						for i := range 200 {
							io.WriteString(peer, fmt.Sprintf("%d;", i))
						}
						peer.Write(make([]byte, 200<<10))
						tt.end(peer)
					})
					for i := range 200 {
						fmt.Fprintf(&want, "%d;", i)
					}
					want.Write(make([]byte, 200<<10))
					err := conn.Stream(func(p []byte) bool {
						got.Write(p)
						if s := conn.Last(); s.Delay < 0 || time.Since(s.Read) < 0 {
							t.Errorf("stamp %+v", s)
						}
						return true
					})
					if !errors.Is(err, tt.want) {
						t.Errorf("ended with %v, want %v", err, tt.want)
					}
					// A reset discards what its side has not read.
					if tt.want == io.EOF && !bytes.Equal(got.Bytes(), want.Bytes()) || !bytes.HasPrefix(want.Bytes(), got.Bytes()) {
						t.Errorf("%d bytes, want %d, or they differ", got.Len(), want.Len())
					}
				})
			}
			all.Wait()
		})
	}
}

// A stream that its sink ends leaves what follows to Read, and can be begun again.
func TestStreamEndsWhereItsSinkSays(t *testing.T) {
	conn, peer := adopted(t)
	for i := range 100 {
		write(t, peer, "a")
		if err := conn.Stream(func(p []byte) bool { return string(p) != "a" }); err != nil {
			t.Fatal(err)
		}
		write(t, peer, "bc")
		if got := read(t, conn, 2); got != "bc" {
			t.Fatalf("round %d: read %q", i, got)
		}
	}
}

func TestCloseEndsAStream(t *testing.T) {
	for range 100 {
		conn, peer := adopted(t)
		ended := make(chan error)
		go func() { ended <- conn.Stream(func([]byte) bool { return true }) }()
		write(t, peer, "x")
		conn.Close()
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			t.Fatalf("ended with %v", err)
		}
	}
}

// What a sink panics with reaches who called Stream; other streams go on.
func TestPanicInAStream(t *testing.T) {
	bad, badPeer := adopted(t)
	good, goodPeer := adopted(t)
	n, ended := 0, make(chan error)
	go func() { ended <- good.Stream(func(p []byte) bool { n += len(p); return n < 2 }) }()
	write(t, goodPeer, "x")
	func() {
		defer func() {
			if p := recover(); p == nil || !strings.Contains(fmt.Sprint(p), "on purpose") {
				t.Errorf("recovered %v", p)
			}
		}()
		write(t, badPeer, "x")
		bad.Stream(func([]byte) bool { panic("on purpose") })
	}()
	write(t, goodPeer, "x")
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestStreamIsAfterTheWriteForTheRaceDetector(t *testing.T) {
	conn, peer := adopted(t)
	told := 0
	go func() {
		told = 1
		io.WriteString(peer, "x")
	}()
	if err := conn.Stream(func([]byte) bool { return told != 1 }); err != nil {
		t.Error(err)
	}
}

// BenchmarkStream is one event of 240 bytes, written and read, by each of the two
// ways; the write is most of it.
func BenchmarkStream(b *testing.B) {
	out := bytes.Repeat([]byte("x"), 240)
	b.Run("read", func(b *testing.B) {
		conn, peer := pair(b, true)
		in := make([]byte, 4096)
		go func() {
			for range b.N {
				peer.Write(out)
			}
		}()
		for n := 0; n < b.N*len(out); {
			m, err := conn.Read(in)
			if err != nil {
				b.Fatal(err)
			}
			n += m
		}
	})
	b.Run("stream", func(b *testing.B) {
		conn, peer := adopted(b)
		go func() {
			for range b.N {
				peer.Write(out)
			}
		}()
		n := 0
		if err := conn.Stream(func(p []byte) bool { n += len(p); return n < b.N*len(out) }); err != nil {
			b.Fatal(err)
		}
	})
}
