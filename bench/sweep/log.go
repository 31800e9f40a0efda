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

// newLog is what the server has logged since it was asked last, as it is.
func (r *runner) newLog(srv Server) []byte {
	var all bytes.Buffer
	logs := srv.Logs()
	for i, path := range logs {
		if len(logs) > 1 {
			fmt.Fprintf(&all, "--- replica %d ---\n", i)
		}
		end, err := readSince(&all, path, r.logFrom[path])
		if err != nil {
			fmt.Fprintf(&all, "[servebench: the log cannot be read: %v]\n", err)
			continue
		}
		r.logFrom[path] = end
	}
	return all.Bytes()
}

// readSince copies what follows an offset, the middle of much left out, and returns
// the end of the file.
func readSince(w *bytes.Buffer, path string, from int64) (int64, error) {
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
	if end-from <= logHead+logTail {
		_, err = io.Copy(w, io.NewSectionReader(file, from, end-from))
		return end, err
	}
	_, err = io.Copy(w, io.NewSectionReader(file, from, logHead))
	fmt.Fprintf(w, "\n[servebench: %d bytes of the log are left out]\n", end-from-logHead-logTail)
	if err == nil {
		_, err = io.Copy(w, io.NewSectionReader(file, end-logTail, logTail))
	}
	return end, err
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
