package server

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"

	"github.com/servebench/servebench/manifest"
)

const publicBytes = 1 << 20

var (
	// prompts are the lines in which vLLM, told to, logs what it was asked.
	prompts = regexp.MustCompile(`(?i)\bprompt(?:_token_ids|_embeds)?["']?\s*[:=]|JSON body:|["'](?:messages|input)["']\s*:`)
	// inputs are what pydantic shows of a value that it refuses.
	inputs = regexp.MustCompile(`\binput_value=.*`)
)

// SanitizedLog is a server's log as it may be published: without what red takes
// out, without prompts, colours and control characters, in valid UTF-8, each line
// of at most 4 KiB and 1 MiB in all. Of what a progress bar overwrote the last
// state is left. From the middle of a longer log lines are left out, and a line
// says how many.
func SanitizedLog(log []byte, red *manifest.Redactor) []byte {
	const half = publicBytes / 2
	var head, tail [][]byte
	size, kept, left := 0, 0, 0
	for line := range bytes.Lines(log) {
		line = publicLine(line, red)
		if size += len(line); size <= half {
			head = append(head, line)
			continue
		}
		tail, kept = append(tail, line), kept+len(line)
		for kept > half {
			kept, left = kept-len(tail[0]), left+1
			tail = tail[1:]
		}
	}
	if left > 0 {
		head = append(head, fmt.Appendf(nil, "[%d lines left out]\n", left))
	}
	return bytes.Join(append(head, tail...), nil)
}

// publicLine is one line of SanitizedLog, with its end.
func publicLine(line []byte, red *manifest.Redactor) []byte {
	line = bytes.TrimRight(line, "\r\n")
	line = line[bytes.LastIndexByte(line, '\r')+1:]
	// A line is cut only after it was redacted: half a secret is still one, but
	// looks like none.
	long := len(line) > publicBytes
	s := plain(line[:min(len(line), publicBytes)])
	switch {
	case prompts.MatchString(s):
		return []byte("[a line with a prompt left out]\n")
	case long:
		return []byte("[a line of more than 1 MiB left out]\n")
	}
	s, _ = red.String(inputs.ReplaceAllString(s, "input_value=…"))
	if len(s) > lineBytes {
		s = strings.ToValidUTF8(s[:lineBytes], "") + "…"
	}
	return append([]byte(s), '\n')
}
