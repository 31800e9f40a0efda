package sweep

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/renameio/v2"

	"github.com/servebench/servebench/bench"
	"github.com/servebench/servebench/manifest"
)

// logHead and logTail are how much of a log is kept: how a server starts, and how
// it ends.
const logHead, logTail = 512 << 10, 512 << 10

func writeFile(path string, data []byte) error {
	return renameio.WriteFile(path, data, 0o666, renameio.WithTempDir(filepath.Dir(path)))
}

// newLog is what the server has logged since it was asked last, as it is. A line
// that is not whole yet is left for the next time, unless there is none: a part of
// a secret would not be known for one.
func (r *runner) newLog(srv Server) []byte {
	ended := false
	select {
	case <-srv.Done():
		ended = true
	default:
	}
	var all bytes.Buffer
	logs := srv.Logs()
	for i, path := range logs {
		if len(logs) > 1 {
			fmt.Fprintf(&all, "--- replica %d ---\n", i)
		}
		end, err := readSince(&all, path, r.logFrom[path], ended)
		if err != nil {
			fmt.Fprintf(&all, "[servebench: the log cannot be read: %v]\n", err)
			continue
		}
		r.logFrom[path] = end
	}
	return all.Bytes()
}

// readSince copies the lines that follow an offset, the middle of many left out, and
// returns the offset behind them. The last line is copied without its end if the log
// has ended.
func readSince(w *bytes.Buffer, path string, from int64, ended bool) (int64, error) {
	file, err := os.Open(path)
	if err != nil {
		return from, err
	}
	defer file.Close()
	st, err := file.Stat()
	if err != nil {
		return from, err
	}
	end := st.Size()
	if from > end {
		from = 0 // it was begun anew
	}
	var head []byte
	start := from
	if end-from > logHead+logTail {
		start = end - logTail
		if head, err = io.ReadAll(io.NewSectionReader(file, from, logHead)); err != nil {
			return from, err
		}
		head = head[:bytes.LastIndexByte(head, '\n')+1]
	}
	tail, err := io.ReadAll(io.NewSectionReader(file, start, end-start))
	if err != nil {
		return from, err
	}
	if start > from { // somewhere in a line
		whole := bytes.IndexByte(tail, '\n') + 1
		start, tail = start+int64(whole), tail[whole:]
		fmt.Fprintf(w, "%s[servebench: %d bytes of the log are left out]\n", head, start-from-int64(len(head)))
	}
	if !ended {
		tail = tail[:bytes.LastIndexByte(tail, '\n')+1]
	}
	w.Write(tail)
	return start + int64(len(tail)), nil
}

// redactor knows what must not be published of a point and its server.
func (r *runner) redactor(s Step, res *bench.Result) *manifest.Redactor {
	red := res.Config.Redactor()
	red.Secrets = slices.Concat(red.Secrets, r.Secrets)
	if s.Point.Server != nil {
		for _, l := range s.Point.Server.Launched() {
			red.Secrets = append(red.Secrets, l.Secrets()...)
		}
	}
	return red
}
