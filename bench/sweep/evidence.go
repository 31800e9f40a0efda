package sweep

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/servebench/servebench/manifest"
)

// mediaTypes are those of files by their endings.
var mediaTypes = map[string]string{
	".md": "text/markdown", ".json": "application/json", ".jsonl": "application/x-ndjson", ".txt": "text/plain", ".log": "text/plain", ".csv": "text/csv", ".html": "text/html", ".yaml": "application/yaml", ".pdf": "application/pdf",
}

// Evidence makes artifacts of the author's own files, for [Writing.Artifacts]: it
// reads each for its size and sha256. A file that is not there or is empty, and an
// id that is missing or there twice, is an error; all are told, beside the artifacts of
// the others.
func Evidence(files []File) (artifacts []manifest.Artifact, err error) {
	seen := map[string]bool{}
	for _, f := range files {
		a, ferr := evidence(f)
		if ferr == nil && (f.ID == "" || seen[f.ID]) {
			ferr = fmt.Errorf("id %q is missing or another file's too; want one for each", f.ID)
		}
		if ferr != nil {
			err = errors.Join(err, fmt.Errorf("artifact %s: %w", f.Path, ferr))
			continue
		}
		seen[f.ID] = true
		artifacts = append(artifacts, a)
	}
	return artifacts, err
}

func evidence(f File) (manifest.Artifact, error) {
	file, err := os.Open(f.Path)
	if err != nil {
		return manifest.Artifact{}, errors.Unwrap(err) // the path is told already
	}
	defer file.Close()
	if st, err := file.Stat(); err != nil || !st.Mode().IsRegular() {
		return manifest.Artifact{}, errors.Join(err, errors.New("no regular file"))
	}
	h := sha256.New()
	size, err := io.Copy(h, file)
	if err == nil && size == 0 {
		err = errors.New("the file is empty; an artifact has a byte at least")
	}
	return manifest.Artifact{
		Kind: f.Kind, SHA256: hex.EncodeToString(h.Sum(nil)), Filename: filepath.Base(f.Path), SizeBytes: size, ClientArtifactID: f.ID,
		MediaType: cmp.Or(f.MediaType, mediaTypes[strings.ToLower(filepath.Ext(f.Path))], "application/octet-stream"),
	}, err
}
