//go:build linux && (amd64 || arm64)

package rxtime_test

import (
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/servebench/servebench/loadgen/rxtime"
	"golang.org/x/sys/unix"
)

// stamped is pair with a connection whose reads already have kernel stamps:
// Linux begins to stamp only some time after the first socket asked.
func stamped(t testing.TB) (*rxtime.Conn, *net.TCPConn) {
	t.Helper()
	conn, peer := pair(t, true)
	for start := time.Now(); !conn.Last().Kernel; {
		if time.Since(start) > 10*time.Second {
			t.Fatal("no kernel stamp within 10 s")
		}
		write(t, peer, "x")
		read(t, conn, 1)
	}
	return conn, peer
}

func TestArrivalIsBetweenWriteAndRead(t *testing.T) {
	conn, peer := stamped(t)
	for range 200 {
		before := time.Now()
		write(t, peer, "x")
		read(t, conn, 1)
		s := conn.Last()
		if arrival := s.Read.Add(-s.Delay); !s.Kernel || arrival.Before(before) || arrival.After(s.Read) {
			t.Fatalf("written after %v: %+v", before, s)
		}
	}
	if n := conn.Discarded(); n != 0 {
		t.Errorf("%d discarded", n)
	}
}

// The one sleep of these tests: only waiting makes a read late. It is a lower
// bound, so nothing is assumed of how long it really takes.
func TestLateReads(t *testing.T) {
	const late = 20 * time.Millisecond
	one, onePeer := stamped(t)
	two, twoPeer := stamped(t)
	write(t, onePeer, "a")
	write(t, twoPeer, "a")
	untilNotAlive(one) // so "a" has come in, though Write promises no such thing
	in := time.Now()
	time.Sleep(late)
	second := time.Now()
	write(t, twoPeer, "b")

	read(t, one, 1)
	if s := one.Last(); !s.Kernel || s.Read.Add(-s.Delay).After(in) || s.Delay < late {
		t.Errorf("one write, in at %v, read %v later: %+v", in, late, s)
	}
	read(t, two, 2)
	if s := two.Last(); !s.Kernel || s.Read.Add(-s.Delay).Before(second) {
		t.Errorf("two writes, the second after %v: %+v, want the stamp of the second", second, s)
	}
}

// untilNotAlive waits for something the peer has sent to come in.
func untilNotAlive(conn *rxtime.Conn) {
	for conn.Alive() {
		runtime.Gosched()
	}
}

// Control messages that leave no room for one another do no harm: the timestamp
// comes first and is whole.
func TestTruncatedControlMessages(t *testing.T) {
	conn, peer := stamped(t)
	raw, err := conn.Conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	raw.Control(func(fd uintptr) {
		const flags = unix.SOF_TIMESTAMPING_RX_SOFTWARE | unix.SOF_TIMESTAMPING_SOFTWARE
		err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPING, flags)
	})
	if err != nil {
		t.Skip("no SO_TIMESTAMPING: ", err)
	}
	before := time.Now()
	write(t, peer, "x")
	if got := read(t, conn, 1); got != "x" {
		t.Errorf("read %q", got)
	}
	if s := conn.Last(); !s.Kernel || s.Read.Add(-s.Delay).Before(before) {
		t.Errorf("written after %v: %+v", before, s)
	}
}

func TestAlive(t *testing.T) {
	both(t, func(t *testing.T, kernel bool) {
		conn, peer := pair(t, kernel)
		if !conn.Alive() {
			t.Error("not alive at first")
		}
		write(t, peer, "x")
		untilNotAlive(conn) // data waits
		read(t, conn, 1)
		if !conn.Alive() {
			t.Error("not alive with all data read")
		}

		done := make(chan error)
		go func() {
			_, err := conn.Read(make([]byte, 1))
			done <- err
		}()
		for range 100 { // sooner or later the other goroutine waits in Read
			if !conn.Alive() {
				t.Fatal("not alive while another goroutine reads")
			}
		}
		write(t, peer, "x")
		if err := <-done; err != nil {
			t.Error(err)
		}

		peer.CloseWrite()
		untilNotAlive(conn)
		conn.Close()
		if conn.Alive() {
			t.Error("alive after Close")
		}

		conn, peer = pair(t, kernel)
		peer.SetLinger(0)
		peer.Close()
		untilNotAlive(conn) // reset
	})
}

// A reader that is late for both of two writes, for the second one by more: the
// stamps are as far apart as the writes were. All that is compared has an order that
// the test enforces, so that no load can change the outcome.
func TestStampsOfASlowReader(t *testing.T) {
	const apart = 20 * time.Millisecond
	conn, peer := stamped(t)
	before := time.Now()
	write(t, peer, "a")
	untilNotAlive(conn)
	in := time.Now()
	timer := time.NewTimer(apart)
	read(t, conn, 1)
	first := conn.Last()
	<-timer.C
	beforeB := time.Now()
	write(t, peer, "b")
	untilNotAlive(conn)
	inB := time.Now()
	timer.Reset(2 * apart)
	<-timer.C
	read(t, conn, 1)
	second := conn.Last()

	arrival, arrivalB := first.Read.Add(-first.Delay), second.Read.Add(-second.Delay)
	gap, slew := arrivalB.Sub(arrival), second.Delay/1000 // a clock that is slewed errs by less
	if !first.Kernel || !second.Kernel || gap < beforeB.Sub(in)-slew || gap > inB.Sub(before)+slew {
		t.Errorf("stamps %v apart, want %v to %v: %+v, %+v", gap, beforeB.Sub(in), inB.Sub(before), first, second)
	}
	if reads := second.Read.Sub(first.Read); beforeB.Sub(in) < apart || reads < 2*apart || second.Delay < apart {
		t.Errorf("writes %v and reads %v apart, the second %v late: the reader was not", beforeB.Sub(in), reads, second.Delay)
	}
}
