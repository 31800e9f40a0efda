package rxtime

import (
	"net"
	"testing"
	"time"
)

// The wall clock is set by so much, at 10 s; arrivals are known on the monotonic
// clock, and the kernel stamps them with the wall clock of their instant. Whatever
// that does to the stamps, an arrival is the true one or the read's.
func TestWallClockIsSet(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	type step struct {
		arrival, read time.Duration
		believed      bool
	}
	smooth := []step{{s, s + ms, true}, {9 * s, 9*s + 2*ms, true}, {11 * s, 11*s + ms, false}, {12 * s, 12*s + 3*ms, true}}
	across := []step{{s, s + ms, true}, {9990 * ms, 10010 * ms, false}, {9995 * ms, 10020 * ms, false}, {10030 * ms, 10040 * ms, true}}
	for _, c := range []struct {
		name  string
		set   time.Duration // of the wall clock, at 10 s
		steps []step
	}{
		// The first read after the step cannot be told from one across it.
		{"an hour on", time.Hour, smooth}, {"an hour back", -time.Hour, smooth},
		{"an hour on, across", time.Hour, across}, {"an hour back, across", -time.Hour, across},
		// 5 s would pass for a delay.
		{"5 s on, across", 5 * s, across},
		{"half a second on, across", 500 * ms, across},
		{"half a second back, across", -500 * ms, across},
		{"not set", 0, []step{{s, s + ms, true}, {9990 * ms, 10010 * ms, true}, {20 * s, 25 * s, true}, {20 * s, 35 * s, false}}},
		// A clock that runs 500 ppm fast, as one that is slewed does.
		{"slewed", -1, []step{{s, s + ms, true}, {599 * s, 600 * s, true}, {600 * s, 601 * s, true}}},
	} {
		inner, peer := net.Pipe()
		conn := New(inner, true)
		since := func(now time.Time) time.Duration { return now.Sub(conn.epoch) }
		conn.Wall = func(now time.Time) time.Time {
			if c.set == -1 {
				return now.Add(since(now) / 2000)
			}
			if since(now) >= 10*s {
				return now.Add(c.set)
			}
			return now
		}
		discarded := int64(0)
		for i, st := range c.steps {
			at := conn.epoch.Add(st.arrival)
			conn.stamp(conn.epoch.Add(st.read), conn.Wall(at).UnixNano(), true)
			if !st.believed {
				discarded++
			}
			last := conn.Last()
			got, want := since(last.Read.Add(-last.Delay)), st.arrival
			if !st.believed {
				want = st.read
			}
			// A fast clock measures the delay itself by so much too long.
			off := (got - want).Abs()
			if last.Kernel != st.believed || since(last.Read) != st.read || off > (st.read-st.arrival)/2000 || c.set != -1 && off != 0 || conn.Discarded() != discarded {
				t.Errorf("%s, read %d: arrival %v, believed %v, %d discarded; want %v, %v, %d", c.name, i, got, last.Kernel, conn.Discarded(), want, st.believed, discarded)
			}
		}
		inner.Close()
		peer.Close()
	}
}
