package manifest

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"path"
	"strings"
	"time"
)

// RunID is the client_run_id of a run: a prefix of the hash of its result
// object, exactly the bytes that were written for it, and the number of the
// repetition, from 1.
func RunID(result []byte, repetition int) string {
	sum := sha256.Sum256(result)
	return fmt.Sprintf("servebench-%x-%d", sum[:6], repetition)
}

// SubmissionID is the client_submission_id of an experiment: a UUID of version 7
// (RFC 9562) from the time of its making, to the millisecond, and random bytes.
func SubmissionID(at time.Time, random [10]byte) string {
	var id [16]byte
	binary.BigEndian.PutUint64(id[:8], uint64(at.UnixMilli())<<16)
	copy(id[6:], random[:])
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

// Identifier makes the name of a model or tokenizer fit the schema. A path to
// a local folder becomes the folder's base name, one inside the model hub's
// cache the repository it came from; characters the schema does not know
// become hyphens. It is "" where nothing usable is left: leave the name out.
func Identifier(name string) string {
	name = strings.ReplaceAll(strings.TrimSpace(name), `\`, "/")
	if repo, ok := cachedRepository(name); ok {
		name = repo
	} else if isPath(name) {
		name = path.Base(path.Clean(name))
	}
	var parts []string
	for part := range strings.SplitSeq(name, "/") {
		part = strings.Map(func(r rune) rune {
			if isIdentifierByte(r) {
				return r
			}
			return '-'
		}, part)
		if part = strings.TrimRight(strings.TrimLeft(part, "._:@-"), "-"); part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, "/")
}

func isIdentifierByte(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
		strings.ContainsRune("._:@-", r)
}

// cachedRepository reads the repository out of a path into the hub's cache,
// whose folders are named models--ORG--NAME and whose snapshots are named by
// commit.
func cachedRepository(name string) (string, bool) {
	for part := range strings.SplitSeq(name, "/") {
		if repo, ok := strings.CutPrefix(part, "models--"); ok && repo != "" {
			return strings.Replace(repo, "--", "/", 1), true
		}
	}
	return "", false
}

// isPath reports whether an argument names a place in the file system rather
// than a repository or a plain word.
func isPath(s string) bool {
	for _, prefix := range []string{"/", "./", "../", "~", `\\`, "file:"} {
		if strings.HasPrefix(s, prefix) {
			return true
		}
	}
	drive := len(s) > 2 && s[1] == ':' && (s[2] == '\\' || s[2] == '/')
	return s == "." || s == ".." || drive
}
