package server

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"

	"github.com/servebench/servebench/manifest"
)

const (
	publicBytes = 1 << 20       // of a log
	longLine    = tailBytes / 2 // of a line: one that the beginning of a tail has cut is longer
)

var (
	// prompts are the lines in which vLLM, told to, logs what it was asked.
	prompts = regexp.MustCompile(`(?i)\bprompt(?:_token_ids|_embeds)?["']?\s*[:=]|JSON body:|["'](?:messages|input)["']\s*:`)
	// inputs are what pydantic shows of a value that it refuses.
	inputs = regexp.MustCompile(`\binput_value=.*`)
)

// SanitizedLog is a server's log as it may be published: without what red takes
// out, without prompts, colours and control characters, in valid UTF-8. Of what a
// progress bar overwrote the last state is left. Of a log of more than 1 MiB the
// lines in the middle are left out, and a line says how many; one line has no more
// than 4 KiB.
func SanitizedLog(log []byte, red *manifest.Redactor) []byte {
	return sanitized(log, red, publicBytes)
}

// sanitized is SanitizedLog with another limit than 1 MiB.
func sanitized(log []byte, red *manifest.Redactor, limit int) (out []byte) {
	half := limit / 2
	if len(log) > limit {
		head := log[:bytes.LastIndexByte(log[:half], '\n')+1]
		tail := lastLines(log, half, len(log))
		for line := range bytes.Lines(head) {
			out = append(out, publicLine(line, red)...)
		}
		left := bytes.Count(log[len(head):len(log)-len(tail)], []byte("\n"))
		out, log = fmt.Appendf(out, "[%d lines left out]\n", left), tail
	}
	for line := range bytes.Lines(log) {
		out = append(out, publicLine(line, red)...)
	}
	return out
}

// publicLine is one line of SanitizedLog, with its end.
func publicLine(line []byte, red *manifest.Redactor) []byte {
	line = bytes.TrimRight(line, "\r\n")
	line = line[bytes.LastIndexByte(line, '\r')+1:]
	// A line is cut only after it was redacted: half a secret is still one, but
	// looks like none.
	if len(line) > longLine {
		return []byte("[a line of more than 32 KiB left out]\n")
	}
	s := plain(line)
	if prompts.MatchString(s) {
		return []byte("[a line with a prompt left out]\n")
	}
	s, _ = red.String(inputs.ReplaceAllString(s, "input_value=…"))
	if len(s) > lineBytes {
		s = strings.ToValidUTF8(s[:lineBytes], "") + "…"
	}
	return append([]byte(s), '\n')
}
