//go:build linux && (amd64 || arm64)

package rxtime

import (
	"encoding/binary"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// cmsg is a control message as the kernel writes it on a 64-bit machine.
func cmsg(size uint64, level, kind uint32, words ...uint64) []byte {
	b := binary.NativeEndian.AppendUint64(nil, size)
	b = binary.NativeEndian.AppendUint32(b, level)
	b = binary.NativeEndian.AppendUint32(b, kind)
	for _, w := range words {
		b = binary.NativeEndian.AppendUint64(b, w)
	}
	return b
}

func TestParseTimestamp(t *testing.T) {
	stamp := cmsg(32, unix.SOL_SOCKET, unix.SCM_TIMESTAMPNS, 1_800_000_000, 5)
	other := cmsg(20, unix.SOL_TCP, unix.TCP_CM_INQ, 7) // 4 bytes, padded to 8
	join := func(parts ...[]byte) (b []byte) {
		for _, p := range parts {
			b = append(b, p...)
		}
		return b
	}
	tests := []struct {
		name string
		oob  []byte
		want int64
	}{
		{"nothing", nil, 0},
		{"a timestamp", stamp, 1_800_000_000_000_000_005},
		{"behind another", join(other, stamp), 1_800_000_000_000_000_005},
		{"before another that is cut", join(stamp, other[:20]), 1_800_000_000_000_000_005},
		{"another alone", other, 0},
		{"another, its padding cut", other[:20], 0},
		{"cut header", stamp[:15], 0},
		{"cut timestamp", stamp[:31], 0},
		{"timestamp whose length says it is cut", cmsg(24, unix.SOL_SOCKET, unix.SCM_TIMESTAMPNS, 1), 0},
		{"length 0", cmsg(0, unix.SOL_SOCKET, unix.SCM_TIMESTAMPNS, 1, 2), 0},
		{"length without end", cmsg(1<<64-1, unix.SOL_SOCKET, unix.SCM_TIMESTAMPNS, 1, 2), 0},
		{"same number, other level", cmsg(32, unix.SOL_TCP, unix.SCM_TIMESTAMPNS, 1, 2), 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, ok := parseTimestamp(tt.oob); got != tt.want || ok != (tt.want != 0) {
				t.Errorf("%d, %v, want %d", got, ok, tt.want)
			}
		})
	}
}

func FuzzParseTimestamp(f *testing.F) {
	f.Add(cmsg(32, unix.SOL_SOCKET, unix.SCM_TIMESTAMPNS, 1_800_000_000, 5))
	f.Add(cmsg(20, unix.SOL_TCP, unix.TCP_CM_INQ, 7))
	f.Fuzz(func(t *testing.T, oob []byte) {
		ns, ok := parseTimestamp(oob)
		if !ok && ns != 0 || ok && len(oob) < 32 {
			t.Errorf("%d, %v of %d bytes", ns, ok, len(oob))
		}
	})
}

func TestStampsNotBelieved(t *testing.T) {
	now := time.Now()
	tests := []struct {
		name   string
		delay  time.Duration
		kernel bool
	}{
		{"no delay", 0, true},
		{"10 s", 10 * time.Second, true},
		{"over 10 s: the clock was set forward", 10*time.Second + 1, false},
		{"later than the read: the clock was set back", -1, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := Conn{epoch: now}
			c.stamp(now, now.UnixNano()-int64(tt.delay), true)
			want := Stamp{Read: now, Kernel: tt.kernel}
			var discarded int64 = 1
			if tt.kernel {
				want.Delay, discarded = tt.delay, 0
			}
			if c.Last() != want || c.Discarded() != discarded {
				t.Errorf("%+v, %d discarded, want %+v, %d", c.Last(), c.Discarded(), want, discarded)
			}
		})
	}
	c := Conn{epoch: now}
	if c.stamp(now, 0, false); c.Last() != (Stamp{Read: now}) || c.Discarded() != 0 {
		t.Errorf("a read without a kernel stamp: %+v, %d discarded", c.Last(), c.Discarded())
	}
}
