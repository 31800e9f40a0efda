package dataset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/servebench/servebench/dataset/parquet"
)

const (
	maxCard     = 16 << 20 // bytes of a README.md
	maxHubFiles = 1 << 20  // files of a folder
	converted   = "refs/convert/parquet/"
)

// hubFiles are the Parquet files of one split, opened as they are reached. They
// are not for concurrent use.
type hubFiles struct {
	where  string   // for messages: the id or folder
	names  []string // in the order that the datasets library reads them
	get    func(name string) (string, error)
	opened []*parquet.File
	close  []io.Closer
	notes  []string // warnings
	any    bool     // no split was named: the only one will do
}

func (h *hubFiles) Close() {
	for _, c := range h.close {
		c.Close()
	}
}

// file opens the file number i.
func (h *hubFiles) file(i int) (*parquet.File, error) {
	if h.opened[i] != nil {
		return h.opened[i], nil
	}
	name, err := h.get(h.names[i])
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("dataset-path: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: is no regular file; want a Parquet file", name)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("dataset-path: %w", err)
	}
	h.close = append(h.close, f)
	if h.opened[i], err = parquet.Open(f, info.Size()); err != nil {
		return nil, fmt.Errorf("%s: %w", h.at(i), err)
	}
	return h.opened[i], nil
}

// rows counts the rows of the file number i.
func (h *hubFiles) rows(i int) (int, error) {
	f, err := h.file(i)
	if err != nil {
		return 0, err
	}
	return f.Rows(), nil
}

func (h *hubFiles) at(i int) string { return h.where + "/" + h.names[i] }

// openHub finds the files of the split: in a folder, or through the hub.
func (s Spec) openHub(ctx context.Context, hub Fetcher, subset, split string) (*hubFiles, error) {
	h := &hubFiles{where: s.Path, any: s.Hub.Split == ""}
	info, err := os.Stat(s.Path)
	var all []string
	switch {
	case err == nil && info.IsDir():
		h.get = func(name string) (string, error) { return filepath.Join(s.Path, filepath.FromSlash(name)), nil }
		if all, err = folderFiles(ctx, s.Path); err != nil {
			return nil, err
		}
	case err == nil && strings.HasSuffix(s.Path, ".parquet"):
		h.where, h.names = filepath.Dir(s.Path), []string{filepath.Base(s.Path)}
		h.get = func(string) (string, error) { return s.Path, nil }
		h.opened = make([]*parquet.File, 1)
		return h, nil
	case err == nil:
		return nil, fmt.Errorf("dataset-path: %s is no folder; want one with .parquet files, a .parquet file, or the id of a data set of the hub", s.Path)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("dataset-path: %w", err)
	case hub == nil:
		return nil, fmt.Errorf("dataset-path: there is no folder %s, and no hub to ask; want a folder with .parquet files", s.Path)
	default:
		h.get = func(name string) (string, error) { return hub.Fetch(ctx, s.Path, name) }
		if all, err = hub.Files(ctx, s.Path); err != nil {
			return nil, err
		}
	}
	err = h.choose(all, subset, split)
	if _, wrong := errors.AsType[*subsetError](err); wrong && s.Subset == "" && subset != "" {
		// The form's own subset: a copy of the data set may have no such name.
		if again := h.choose(all, "", split); again == nil {
			return h, nil
		}
	}
	return h, err
}

// folderFiles lists the files below a folder, without hidden ones.
func folderFiles(ctx context.Context, root string) (files []string, err error) {
	err = filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case name != root && strings.HasPrefix(entry.Name(), ".") && entry.IsDir():
			return fs.SkipDir
		case entry.IsDir():
			return nil
		case len(files) == maxHubFiles:
			return fmt.Errorf("%s has more than %d files; want the folder of one data set", root, maxHubFiles)
		}
		rel, err := filepath.Rel(root, name)
		files = append(files, filepath.ToSlash(rel))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("dataset-path: %w", err)
	}
	return files, nil
}

// choose finds the files of the split among all: as the card (README.md) says,
// by their names otherwise, and among those that the hub has converted where the
// data set's own are of another format.
func (h *hubFiles) choose(all []string, subset, split string) error {
	var own, made, others []string
	for _, f := range slices.Sorted(slices.Values(all)) {
		switch name, ok := strings.CutPrefix(f, converted); {
		case hidden(name):
		case !strings.HasSuffix(f, ".parquet"):
			if rowFiles.MatchString(f) {
				others = append(others, f)
			}
		case ok:
			made = append(made, name)
		default:
			own = append(own, f)
		}
	}
	var card []subsetInfo
	var err error
	if slices.Contains(all, "README.md") {
		if card, err = h.card(); err != nil {
			return err
		}
	}
	splits, err := splitsOf(card, own, subset)
	if err != nil {
		return fmt.Errorf("%s: %w", h.where, err)
	}
	prefix := ""
	if len(splits) == 0 && len(made) > 0 {
		prefix = converted
		if splits, err = fromConverted(made, subset, defaultSubset(card)); err != nil {
			return fmt.Errorf("%s: %w", h.where, err)
		}
	}
	if len(splits) == 0 {
		return fmt.Errorf("dataset-path: %s has no Parquet files; want a data set that has them, or one of the hub, which converts most", h.where)
	}
	names := splits[split]
	if only := slices.Collect(maps.Keys(splits)); names == nil && h.any && len(only) == 1 {
		split, names = only[0], splits[only[0]]
		h.notes = append(h.notes, fmt.Sprintf("%s: split %s, its only one, is taken", h.where, split))
	}
	if partial := splits["partial-"+split]; names == nil && partial != nil {
		names = partial
		h.notes = append(h.notes, fmt.Sprintf("%s: the hub has converted only the beginning of split %s: requests are of that", h.where, split))
	}
	if names == nil {
		return fmt.Errorf("hf-split: %s has no split %q; want one of %s", h.where, split, strings.Join(slices.Sorted(maps.Keys(splits)), ", "))
	}
	if prefix != "" {
		// One file that the hub made of one file has its rows in its order.
		if were, err := splitsOf(card, others, subset); err != nil || len(were[split]) != 1 || len(names) != 1 {
			h.notes = append(h.notes, fmt.Sprintf("%s: read from %d Parquet files that the hub made of it: vllm bench serve reads its own files, in another order", h.where, len(names)))
		}
	}
	for _, n := range names {
		h.names = append(h.names, prefix+n)
	}
	h.opened = make([]*parquet.File, len(names))
	return h.complete()
}

// rowFiles are files that the datasets library reads rows from, beside Parquet.
var rowFiles = regexp.MustCompile(`\.(json|jsonl|ndjson|csv|tsv|txt|arrow)(\.(gz|zst|bz2|xz))?$`)

func splitsOf(card []subsetInfo, files []string, subset string) (map[string][]string, error) {
	if len(card) > 0 {
		return fromCard(card, files, subset)
	}
	return fromNames(files, subset)
}

// numbered is the end of the name of one of several files.
var numbered = regexp.MustCompile(`^(.*)-(\d{5})-of-(\d{5})`)

// complete finds out whether numbered files are all there: a folder, or a cache
// without its hub, may have some of them, which is another data set.
func (h *hubFiles) complete() error {
	have := map[string]map[string]bool{}
	of := map[string]int{}
	for _, name := range h.names {
		if m := numbered.FindStringSubmatch(name); m != nil {
			key := m[1] + "-of-" + m[3]
			if have[key] == nil {
				have[key] = map[string]bool{}
			}
			have[key][m[2]] = true
			of[key], _ = strconv.Atoi(m[3])
		}
	}
	for key, numbers := range have {
		if len(numbers) < of[key] {
			return fmt.Errorf("%s: has %d of the %d files %s; want all", h.where, len(numbers), of[key], key)
		}
	}
	return nil
}

// hidden files and folders are no part of a data set.
func hidden(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if strings.HasPrefix(part, ".") || strings.HasPrefix(part, "__") {
			return true
		}
	}
	return false
}

// subsetInfo is what a card says of a subset ("config").
type subsetInfo struct {
	Name    string `yaml:"config_name"`
	Files   any    `yaml:"data_files"`
	Dir     string `yaml:"data_dir"`
	Default bool   `yaml:"default"`
}

// card reads the subsets that the data set's README.md lists in its head.
func (h *hubFiles) card() ([]subsetInfo, error) {
	name, err := h.get("README.md")
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("dataset-path: %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() > maxCard {
		return nil, fmt.Errorf("%s/README.md: is no regular file of at most %d MB", h.where, maxCard>>20)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("dataset-path: %w", err)
	}
	subsets, err := parseCard(text)
	if err != nil {
		return nil, fmt.Errorf("%s/README.md: %w", h.where, err)
	}
	return subsets, nil
}

func parseCard(text []byte) (subsets []subsetInfo, err error) {
	defer func() { // goccy/go-yaml has panicked on bad input before
		if r := recover(); r != nil {
			err = fmt.Errorf("read the YAML at its head: %v", r)
		}
	}()
	text = bytes.ReplaceAll(bytes.TrimPrefix(text, []byte("\ufeff")), []byte("\r\n"), []byte("\n"))
	rest, ok := bytes.CutPrefix(text, []byte("---\n"))
	if !ok {
		return nil, nil
	}
	head, _, ok := bytes.Cut(rest, []byte("\n---"))
	if !ok {
		return nil, nil
	}
	var card struct {
		Configs []subsetInfo `yaml:"configs"`
	}
	if err := yaml.Unmarshal(head, &card); err != nil {
		return nil, fmt.Errorf("read the YAML at its head: %w", err)
	}
	for i := range card.Configs {
		if card.Configs[i].Name == "" {
			card.Configs[i].Name = "default"
		}
	}
	return card.Configs, nil
}

// defaultSubset is the subset of a card that is taken where none is asked for,
// or "".
func defaultSubset(card []subsetInfo) string {
	for _, c := range card {
		if c.Default {
			return c.Name
		}
	}
	for _, c := range card {
		if c.Name == "default" || len(card) == 1 {
			return c.Name
		}
	}
	return ""
}

// fromCard returns the files of each split of the subset.
func fromCard(card []subsetInfo, files []string, subset string) (map[string][]string, error) {
	names := make([]string, len(card))
	for i, c := range card {
		names[i] = c.Name
	}
	if subset == "" {
		subset = defaultSubset(card)
	}
	i := slices.Index(names, subset)
	if i < 0 {
		return nil, &subsetError{subset, names}
	}
	c := card[i]
	c.Dir = strings.Trim(path.Clean("/"+c.Dir), "/") // it cannot climb out
	files = below(files, c.Dir)
	if c.Files == nil {
		return withDir(bySplit(files), c.Dir), nil
	}
	patterns, err := splitPatterns(c.Files)
	if err != nil {
		return nil, fmt.Errorf("README.md: data_files of subset %s: %w", subset, err)
	}
	out := map[string][]string{}
	for split, list := range patterns {
		for _, p := range list {
			if found := matching(files, p); len(found) > 0 {
				out[split] = union(out[split], found)
			}
		}
	}
	return withDir(out, c.Dir), nil
}

// subsetError says that a data set has no subset of a name, or several and none
// was named.
type subsetError struct {
	subset string
	names  []string
}

func (e *subsetError) Error() string {
	list := strings.Join(e.names[:min(len(e.names), 40)], ", ")
	if e.subset == "" {
		return "hf-subset: missing; want one of " + list
	}
	return fmt.Sprintf("hf-subset: there is no %q; want one of %s", e.subset, list)
}

// below keeps the files of a folder, under their names in it.
func below(files []string, dir string) []string {
	if dir == "" {
		return files
	}
	var out []string
	for _, f := range files {
		if rest, ok := strings.CutPrefix(f, dir+"/"); ok {
			out = append(out, rest)
		}
	}
	return out
}

func withDir(splits map[string][]string, dir string) map[string][]string {
	for _, files := range splits {
		for i := range files {
			files[i] = path.Join(dir, files[i])
		}
	}
	return splits
}

// splitPatterns reads data_files: a pattern, a list of them, a list of
// {split, path}, or a map of splits; without splits all is "train".
func splitPatterns(v any) (map[string][]string, error) {
	out := map[string][]string{}
	texts := func(v any) ([]string, error) {
		list, ok := v.([]any)
		if !ok {
			list = []any{v}
		}
		var out []string
		for _, e := range list {
			text, ok := e.(string)
			if !ok {
				return nil, fmt.Errorf("%.60v is no file pattern; want text", e)
			}
			out = append(out, text)
		}
		return out, nil
	}
	var err error
	switch v := v.(type) {
	case map[string]any:
		for split, p := range v {
			if out[split], err = texts(p); err != nil {
				return nil, err
			}
		}
		return out, nil
	case []any:
		for _, e := range v {
			entry, ok := e.(map[string]any)
			if !ok {
				break
			}
			split := fmt.Sprint(entry["split"])
			if out[split], err = texts(entry["path"]); err != nil {
				return nil, err
			}
		}
		if len(out) > 0 {
			return out, nil
		}
	}
	out["train"], err = texts(v)
	return out, err
}

// glob turns a pattern of fsspec into an expression: ** crosses folders, * does
// not.
func glob(pattern string) (*regexp.Regexp, error) {
	pattern = strings.TrimPrefix(path.Clean("/"+pattern), "/")
	var re strings.Builder
	re.WriteString("^")
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case strings.HasPrefix(pattern[i:], "**/"):
			re.WriteString("(?:.*/)?")
			i += 2
		case strings.HasPrefix(pattern[i:], "**"):
			re.WriteString(".*")
			i++
		case c == '*':
			re.WriteString("[^/]*")
		case c == '?':
			re.WriteString("[^/]")
		case c == '[' && strings.IndexByte(pattern[i+1:], ']') > 0:
			end := i + 1 + strings.IndexByte(pattern[i+1:], ']')
			class := strings.ReplaceAll(pattern[i+1:end], `\`, `\\`)
			if rest, not := strings.CutPrefix(class, "!"); not {
				class = "^" + rest
			}
			re.WriteString("[" + class + "]")
			i = end
		default:
			re.WriteString(regexp.QuoteMeta(string(c)))
		}
	}
	re.WriteString("$")
	return regexp.Compile(re.String())
}

// matching keeps the files that a pattern names, in their order. A pattern that
// is none names nothing.
func matching(files []string, pattern string) (out []string) {
	re, err := glob(pattern)
	if err != nil {
		return nil
	}
	for _, f := range files {
		if re.MatchString(f) {
			out = append(out, f)
		}
	}
	return out
}

func union(a, b []string) []string {
	for _, f := range b {
		if !slices.Contains(a, f) {
			a = append(a, f)
		}
	}
	return a
}

// fromNames is for data sets without a card. A subset is a folder, if there is
// one of that name.
func fromNames(files []string, subset string) (map[string][]string, error) {
	if subset == "" || subset == "default" || len(files) == 0 {
		return bySplit(files), nil
	}
	inside := below(files, path.Clean(subset))
	if len(inside) == 0 {
		folders := map[string]bool{"default": true}
		for _, f := range files {
			if dir, _, ok := strings.Cut(f, "/"); ok {
				folders[dir] = true
			}
		}
		return nil, &subsetError{subset, slices.Sorted(maps.Keys(folders))}
	}
	return withDir(bySplit(inside), path.Clean(subset)), nil
}

// sharded is how the datasets library names its own files.
var sharded = regexp.MustCompile(`^data/([^/]+)-\d{5}-of-\d{5}[^/]*\.[^/]*$`)

// splitWords are the words in names of files or folders that make them a split's.
var splitWords = []struct {
	split string
	words []string
}{
	{"train", []string{"train", "training"}},
	{"validation", []string{"validation", "valid", "dev", "val"}},
	{"test", []string{"test", "testing", "eval", "evaluation"}},
}

// bySplit finds the splits as the datasets library does without a card: files
// like data/train-00000-of-00001.parquet, else words in folders' names, else in
// files' names, else all is "train".
func bySplit(files []string) map[string][]string {
	out := map[string][]string{}
	for _, f := range files {
		if m := sharded.FindStringSubmatch(f); m != nil {
			out[m[1]] = append(out[m[1]], f)
		}
	}
	if len(out) > 0 {
		return out
	}
	const sep = `[-._ 0-9]`
	for _, forms := range [][]string{
		{`^(?:.*/)?%s/`, `^(?:.*/)?%s` + sep + `[^/]*/`, `^(?:.*/)?[^/]*` + sep + `%s/`, `^(?:.*/)?[^/]*` + sep + `%s` + sep + `[^/]*/`},
		{`^(?:.*/)?%s` + sep + `[^/]*$`, `^(?:.*/)?[^/]*` + sep + `%s` + sep + `[^/]*$`},
	} {
		for _, s := range splitWords {
			for _, word := range s.words {
				for _, form := range forms {
					re := regexp.MustCompile(fmt.Sprintf(form, word))
					for _, f := range files {
						if re.MatchString(f) {
							out[s.split] = union(out[s.split], []string{f})
						}
					}
				}
			}
		}
		if len(out) > 0 {
			return out
		}
	}
	if len(files) > 0 {
		out["train"] = slices.Clone(files)
	}
	return out
}

// fromConverted reads the names that the hub gives: subset/split/0000.parquet.
func fromConverted(files []string, subset, preferred string) (map[string][]string, error) {
	subsets := map[string]map[string][]string{}
	for _, f := range files {
		parts := strings.Split(f, "/")
		if len(parts) != 3 {
			continue
		}
		if subsets[parts[0]] == nil {
			subsets[parts[0]] = map[string][]string{}
		}
		subsets[parts[0]][parts[1]] = append(subsets[parts[0]][parts[1]], f)
	}
	names := slices.Sorted(maps.Keys(subsets))
	for _, name := range []string{preferred, "default"} {
		if subset == "" && subsets[name] != nil {
			subset = name
		}
	}
	if subset == "" && len(names) == 1 {
		subset = names[0]
	}
	if subsets[subset] == nil && len(names) > 0 {
		return nil, &subsetError{subset, names}
	}
	return subsets[subset], nil
}
