package nprand

import (
	"encoding/binary"
	"math/bits"
)

// StringHash is CPython's hash(s) on a 64-bit machine, from 3.11 on, where
// PYTHONHASHSEED is 0: SipHash-1-3 with a key of zeros over the characters in
// the narrowest of one, two and four bytes each that holds them all.
func StringHash(s string) int64 {
	if s == "" {
		return 0
	}
	h := int64(sip13(characters(s)))
	if h == -1 { // CPython keeps it for errors
		return -2
	}
	return h
}

func characters(s string) []byte {
	widest := rune(0)
	for _, c := range s {
		widest = max(widest, c)
	}
	var out []byte
	for _, c := range s {
		switch {
		case widest < 1<<8:
			out = append(out, byte(c))
		case widest < 1<<16:
			out = binary.LittleEndian.AppendUint16(out, uint16(c))
		default:
			out = binary.LittleEndian.AppendUint32(out, uint32(c))
		}
	}
	return out
}

// sip13 is SipHash (Aumasson and Bernstein) with one round a word and three at
// the end, and the key 0.
func sip13(data []byte) uint64 {
	v := [4]uint64{0x736f6d6570736575, 0x646f72616e646f6d, 0x6c7967656e657261, 0x7465646279746573}
	round := func() {
		v[0] += v[1]
		v[2] += v[3]
		v[1] = bits.RotateLeft64(v[1], 13) ^ v[0]
		v[3] = bits.RotateLeft64(v[3], 16) ^ v[2]
		v[0] = bits.RotateLeft64(v[0], 32)
		v[2] += v[1]
		v[0] += v[3]
		v[1] = bits.RotateLeft64(v[1], 17) ^ v[2]
		v[3] = bits.RotateLeft64(v[3], 21) ^ v[0]
		v[2] = bits.RotateLeft64(v[2], 32)
	}
	// The last word holds the bytes left and, on top, the length modulo 256.
	word := [8]byte{7: byte(len(data))}
	for ; len(data) >= 8; data = data[8:] {
		w := binary.LittleEndian.Uint64(data)
		v[3] ^= w
		round()
		v[0] ^= w
	}
	copy(word[:], data)
	w := binary.LittleEndian.Uint64(word[:])
	v[3] ^= w
	round()
	v[0] ^= w
	v[2] ^= 0xff
	for range 3 {
		round()
	}
	return v[0] ^ v[1] ^ v[2] ^ v[3]
}
