package openai

import (
	"fmt"
	"io"
	"mime"
	"net/http"

	"github.com/servebench/servebench/metrics"
)

// scanPooled reads the body of an API that pools: embeddings, scores, whatever
// the server calls them. Here choices stands for data that is there. Nothing is
// built: a body may have a million numbers.
func scanPooled(body []byte, ev *event) error {
	*ev = event{ids: -1, usage: noUsage}
	i := space(body, 0)
	if at(body, i) == '{' {
		i = scanPooledTop(body, i, ev)
	} else {
		i = skip(body, i, 0)
	}
	if i < 0 || space(body, i) != len(body) {
		return errJSON
	}
	ev.failed = ev.failed || ev.detail && !ev.choices
	return nil
}

func scanPooledTop(b []byte, i int, ev *event) int {
	key, i, more := begin(b, i)
	for more {
		from := i
		switch string(key) {
		case "data", "results", "embeddings":
			i = skip(b, i, 1)
			ev.choices = ev.choices || i > from && !empty(b[from:i]) && string(b[from:i]) != "[]"
		case "usage":
			i = scanPooledUsage(b, i, &ev.usage)
		case "error":
			i = skip(b, i, 1)
			ev.failed = ev.failed || i > from && !empty(b[from:i])
		case "object":
			i = skip(b, i, 1)
			ev.failed = ev.failed || i > from && string(b[from:i]) == `"error"`
		case "detail":
			i = skip(b, i, 1)
			ev.detail = true
		default:
			i = skip(b, i, 1)
		}
		key, i, more = next(b, i)
	}
	return i
}

// scanPooledUsage reads the prompt's count, which some rerankers give as the
// total only. A completion's count would be that of nothing, and 0 tells nothing
// either.
func scanPooledUsage(b []byte, i int, u *usage) int {
	if at(b, i) != '{' {
		return skip(b, i, 1)
	}
	u.seen = true
	total := -1
	key, i, more := begin(b, i)
	for more {
		switch string(key) {
		case "prompt_tokens":
			i = scanCount(b, i, &u.prompt, &u.bad)
		case "total_tokens":
			i = scanCount(b, i, &total, &u.bad)
		case "prompt_tokens_details":
			i = scanDetails(b, i, u)
		default:
			i = skip(b, i, 2)
		}
		key, i, more = next(b, i)
	}
	if u.prompt <= 0 {
		u.prompt = total
	}
	if u.prompt == 0 {
		u.prompt = -1
	}
	return i
}

// isBytes tells a body of vectors in bytes: encoding_format bytes or bytes_only.
// Nothing in them says so, only the content type does.
func isBytes(res *http.Response) bool {
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	return kind == "application/octet-stream"
}

// takeBytes reads a body of vectors in bytes and drops them. With the format
// bytes the usage comes in a header of vLLM's.
func (k *call) takeBytes(res *http.Response) error {
	size, limit := 0, k.bodyLimit()
	for size <= limit {
		n, err := res.Body.Read(k.buf[:])
		size += n
		if err == io.EOF {
			k.stampEnd()
			break
		}
		if err != nil {
			return err
		}
	}
	if size > limit {
		return tooLarge(limit)
	}
	if size == 0 {
		return &fault{metrics.Truncated, "the body is empty"}
	}
	if about := res.Header.Get("Metadata"); about != "" {
		if scanPooled([]byte(about), &k.ev) != nil {
			return &fault{metrics.Decode, fmt.Sprintf("the header metadata is not valid JSON: %.100q", about)}
		}
		k.takeUsage(&k.ev)
	}
	k.rec.NotStreamed, k.finish, k.unknown = true, true, true
	return nil
}
