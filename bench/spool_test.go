package bench

import (
	"bytes"
	"testing"

	"github.com/servebench/servebench/loadgen"
)

// Bodies beyond the bound go to a file and read back as they were.
func TestSpool(t *testing.T) {
	var s spool
	const size = 1 << 20
	moved := 0
	requests := make([]loadgen.Request, spoolOver/size+8)
	for i := range requests {
		requests[i].Body = bytes.Repeat([]byte{byte(i)}, size)
		s.put(&requests[i])
		if requests[i].File != nil {
			moved++
		}
	}
	if moved != 8 {
		t.Errorf("%d bodies are in the file, want 8", moved)
	}
	for i := range requests {
		b, err := requests[i].Bytes()
		if err != nil || requests[i].Len() != size || !bytes.Equal(b, bytes.Repeat([]byte{byte(i)}, size)) {
			t.Fatalf("body %d: %v", i, err)
		}
	}
}
