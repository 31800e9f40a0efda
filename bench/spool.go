package bench

import (
	"os"
	"sync"

	"github.com/servebench/servebench/loadgen"
)

// spool moves bodies out of memory once there are many of them. The zero value
// is ready; it is safe for concurrent use. Where no file can be had they stay.
// The file has no name, and is closed when nothing refers to it any more.
type spool struct {
	mu     sync.Mutex
	held   int64 // bytes left in memory
	file   *os.File
	offset int64
	failed bool
}

// put moves r's body, if it is one too many.
func (s *spool) put(r *loadgen.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := int64(len(r.Body))
	if s.held+n <= spoolOver || s.failed {
		s.held += n
		return
	}
	if s.file == nil && !s.open() {
		return
	}
	if _, err := s.file.WriteAt(r.Body, s.offset); err != nil {
		s.failed = true // a full disk, for one: what is there can be read back
		return
	}
	r.Body, r.File, r.Offset, r.Size = nil, s.file, s.offset, n
	s.offset += n
}

func (s *spool) open() bool {
	file, err := os.CreateTemp("", "servebench-*")
	if err == nil {
		// Gone with the process, whatever ends it.
		if err = os.Remove(file.Name()); err != nil {
			file.Close()
		}
	}
	s.file, s.failed = file, err != nil
	return err == nil
}
