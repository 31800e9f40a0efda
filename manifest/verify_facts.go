package manifest

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// facts checks facts that the document states twice: C5 to C7, C11, C12, C14
// to C16, and the prompts of the warm-up.
func (v *verifier) facts() {
	run := v.run
	if env := run.Environment; env != nil {
		v.host(env)
	}
	if c, m := run.Workload.Client.Version, run.Measurement.Version; c != "" && c != m {
		v.fail("C6", "/workload/client/version", "%s is not measurement.version %s", c, m)
	}
	v.prefixCache()
	v.capacity()
	v.parameterCounts()
	for key, value := range sorted(v.server) {
		if text, ok := value.(string); ok && isNumber(text) {
			v.warn("C15", serverPath+"/"+key, "the number %q is written as a string", text)
		}
	}
	if run.Workload.Dataset.SHA256 == "" {
		v.warn("C16", "/workload/dataset", "no sha256 identifies the prompts")
	}
	warmup, _ := v.bench.value("warmup-prompts")
	if run.Workload.WarmupRequestCount > 0 && (warmup == "first" || run.Measurement.Extensions["servebench.warmup_prompts"] == "first") {
		v.warn("warmup", "/measurement/warmup", "the warm-up sent a prompt that was timed too")
	}
}

// parameterCounts checks C12.
func (v *verifier) parameterCounts() {
	s := v.run.Subject
	if s.ParameterCountTotal != 0 && s.ParameterCountActive > s.ParameterCountTotal {
		v.fail("C12", "/subject/parameter_count_active", "%d of %d parameters are active", s.ParameterCountActive, s.ParameterCountTotal)
	}
}

// host checks C5 and C14.
func (v *verifier) host(env *Environment) {
	for i, a := range env.Accelerators {
		stated := env.DriverVersions["nvidia"]
		if (a.Vendor == "NVIDIA" || a.Vendor == "") && a.Driver != "" && stated != "" && a.Driver != stated {
			v.fail("C5", fmt.Sprintf("/environment/accelerators/%d/driver", i), "%s, but driver_versions.nvidia is %s", a.Driver, stated)
		}
	}
	if env.CPU == nil {
		return
	}
	switch model := strings.ToLower(env.CPU.Model); model {
	case "x86_64", "amd64", "aarch64", "arm64", "arm", "i386", "i686", "unknown":
		v.warn("C14", "/environment/cpu/model", "%q names no processor", env.CPU.Model)
	}
}

// prefixCache checks C7.
func (v *verifier) prefixCache() {
	p, d := v.run.Workload.PrefixBehavior, v.run.Workload.Dataset
	if p == nil {
		return
	}
	for _, key := range []string{"prefix_caching", "enable_prefix_caching"} {
		for _, stated := range []*bool{p.CacheEnabled, p.ServerPrefixCaching} {
			if server, ok := v.server[key].(bool); ok && stated != nil && *stated != server {
				v.fail("C7", "/workload/prefix_behavior", "the cache is enabled: %v, but the server's %s is %v", *stated, key, server)
			}
		}
	}
	shared := d.SharedPrefixTokens
	if shared == nil {
		shared = d.RandomPrefixTokens
	}
	if shared != nil && p.SharedPrefixTokens != nil && *shared != *p.SharedPrefixTokens {
		v.fail("C7", "/workload/prefix_behavior/shared_prefix_tokens", "%d, but the data set shares %d", *p.SharedPrefixTokens, *shared)
	}
}

// capacity checks C11: a request fits the model, and the requests in flight fit
// the engines, so that none waits inside the server.
func (v *verifier) capacity() {
	w := v.run.Workload
	longest := func(c TokenCount) int64 { return max(c.Value, c.Max) }
	total := longest(w.InputTokens) + longest(w.OutputTokens)
	if w.InputTokens.Kind != "fixed" && w.OutputTokens.Kind != "fixed" {
		total = max(longest(w.InputTokens), longest(w.OutputTokens)) // the longest need not be one request's
	}
	if limit, ok := v.serverNumber("max_model_len"); ok && float64(total) > limit {
		v.fail("C11", serverPath+"/max_model_len", "%v tokens cannot hold a request of %d", limit, total)
	}
	engines := 1
	if p := v.run.Runtime.Parallelism; p != nil {
		engines = max(p.Replicas, 1) * max(p.Data, 1)
	}
	if each, ok := v.serverNumber("max_num_seqs"); ok && float64(w.Concurrency) > each*float64(engines) {
		v.fail("C11", "/workload/concurrency", "%d requests in flight exceed %v x %d sequences: they queue in the server", w.Concurrency, each, engines)
	}
}

// serverNumber is an engine parameter as a number, however it is written.
func (v *verifier) serverNumber(key string) (float64, bool) {
	switch value := v.server[key].(type) {
	case float64:
		return value, true
	case string:
		n, err := strconv.ParseFloat(value, 64)
		return n, err == nil
	}
	return 0, false
}

// artifacts checks the artifacts of a run, and X14.
func (v *verifier) artifacts(files fs.FS) {
	seen := seenArtifacts{}
	for i, a := range v.run.Artifacts {
		v.artifact(files, seen, fmt.Sprintf("/artifacts/%d", i), a)
	}
	if f := v.run.Failure; f != nil && f.ReplacementClientRunID == v.run.ClientRunID {
		v.fail("X14", "/failure/replacement_client_run_id", "a run does not replace itself")
	}
}

// seenArtifacts are the ids, names and hashes that were there already.
type seenArtifacts map[[2]string]bool

// again notes a value and reports whether it was there.
func (s seenArtifacts) again(field, value string) bool {
	was := s[[2]string{field, value}]
	s[[2]string{field, value}] = true
	return was
}

// artifact checks that an artifact's id, name and kind make sense (X11, X12,
// X17, X18) and that its file is what the document says it is.
func (v *verifier) artifact(files fs.FS, seen seenArtifacts, at string, a Artifact) {
	if seen.again("id", a.ClientArtifactID) {
		v.fail("X11", at+"/client_artifact_id", "%q is another artifact's id too", a.ClientArtifactID)
	}
	sameName, sameHash := seen.again("name", a.Filename), seen.again("hash", a.SHA256)
	if sameName {
		v.warn("X17", at+"/filename", "%q is another artifact's name too", a.Filename)
	}
	if sameHash {
		v.warn("X18", at+"/sha256", "another artifact has the same content")
	}
	if want := extensions[a.Kind[strings.LastIndex(a.Kind, "_")+1:]]; want != nil && !slices.Contains(want, path.Ext(a.Filename)) {
		v.fail("X12", at+"/filename", "%q is no %s", a.Filename, a.Kind)
	}
	if want := mediaTypes[path.Ext(a.Filename)]; want != nil && !slices.Contains(want, a.MediaType) {
		v.fail("X12", at+"/media_type", "%s is not the type of %q; want %s", a.MediaType, a.Filename, strings.Join(want, " or "))
	}
	if files != nil {
		v.file(files, at, a)
	}
}

// extensions are the file names that the last word of an artifact's kind
// allows.
var extensions = map[string][]string{
	"json":     {".json"},
	"jsonl":    {".jsonl"},
	"markdown": {".md"},
	"text":     {".txt", ".log"},
	"csv":      {".csv"},
	"html":     {".html"},
}

// mediaTypes are the types that a file's name allows.
var mediaTypes = map[string][]string{
	".json": {"application/json"},
	".md":   {"text/markdown"},
	".txt":  {"text/plain"},
	".log":  {"text/plain"},
	".csv":  {"text/csv"},
	".html": {"text/html"},
}

// file compares an artifact with its bytes. A private artifact need not be
// beside the manifest, so an absent one is only a warning.
func (v *verifier) file(files fs.FS, at string, a Artifact) {
	size, sum, err := digest(files, a.Filename)
	if errors.Is(err, fs.ErrNotExist) {
		v.warn("sha256", at, "%s is not here, its content is unchecked", a.Filename)
		return
	}
	if err != nil {
		v.fail("sha256", at, "read artifact: %v", err)
		return
	}
	if size != a.SizeBytes {
		v.fail("size", at+"/size_bytes", "%d, but the file has %d", a.SizeBytes, size)
	}
	if sum != a.SHA256 {
		v.fail("sha256", at+"/sha256", "%s, but the file's is %s", a.SHA256, sum)
		return // whatever the file holds, it is not what was measured
	}
	if !strings.HasSuffix(a.Filename, ".requests.jsonl") || v.run == nil {
		return
	}
	data, err := fs.ReadFile(files, a.Filename)
	if err != nil {
		v.fail("sha256", at, "read artifact: %v", err)
		return
	}
	v.usage(at, data)
}

// digest is the size and the sha256 of a file, which may be long. What is no
// ordinary file is not opened: a pipe would never end.
func digest(files fs.FS, name string) (int64, string, error) {
	st, err := fs.Stat(files, name)
	if err != nil {
		return 0, "", err
	}
	if !st.Mode().IsRegular() {
		return 0, "", fmt.Errorf("%s is no ordinary file", name)
	}
	file, err := files.Open(name)
	if err != nil {
		return 0, "", err
	}
	defer file.Close()
	hash := sha256.New()
	size, err := io.Copy(hash, file)
	return size, fmt.Sprintf("%x", hash.Sum(nil)), err
}

// usage checks R1, R5 and R6 against the records of the single requests.
func (v *verifier) usage(at string, data []byte) {
	r := v.run.Results
	if r == nil {
		return
	}
	var ok, input, output int64
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, len(data)+1)
	for lines.Scan() {
		var record struct {
			Outcome      string `json:"outcome"`
			PromptTokens int64  `json:"prompt_tokens"`
			OutputTokens int64  `json:"output_tokens"`
		}
		if json.Unmarshal(lines.Bytes(), &record) != nil || record.Outcome != "ok" {
			continue
		}
		ok, input, output = ok+1, input+record.PromptTokens, output+record.OutputTokens
	}
	check := func(rule, field string, stated, recorded int64) {
		if stated != recorded {
			v.fail(rule, "/results/"+field, "%d, but the records (%s) give %d", stated, at, recorded)
		}
	}
	check("R1", "successful_requests", r.SuccessfulRequests, ok)
	check("R5", "total_input_tokens", r.TotalInputTokens, input)
	check("R6", "total_output_tokens", r.TotalOutputTokens, output)
}

// sorted ranges over a map in the order of its keys.
func sorted[V any](m map[string]V) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if !yield(key, m[key]) {
				return
			}
		}
	}
}

// isNumber reports whether a string is a plain decimal number; inf and hex are
// words here.
func isNumber(s string) bool {
	_, err := strconv.ParseFloat(s, 64)
	return err == nil && strings.Trim(s, "+-.0123456789eE") == "" && strings.ContainsAny(s, "0123456789")
}
