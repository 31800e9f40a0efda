package tokenize

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"sync"
)

//go:embed classes.json
var classesJSON []byte

// classTable is classes.json; testdata/classes.py, which writes it, says what its
// parts mean.
type classTable struct {
	Transformers string               `json:"transformers"`
	Models       map[string]modelRow  `json:"models"`
	Classes      map[string]classInfo `json:"classes"`
}

type modelRow struct {
	Class    string
	Overrule bool
}

// UnmarshalJSON reads [class, overrule].
func (r *modelRow) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&r.Class, &r.Overrule})
}

type classInfo struct {
	Kind            string
	Of              string
	Defaults        map[string]*string
	Readd           string
	NoPostProcessor bool `json:"no_post_processor"`
	Pipelines       []pipeline
}

// pipeline is what a class of the kind "built" uses in place of the file's.
type pipeline struct {
	AddPrefixSpace *bool           `json:"add_prefix_space"`
	Legacy         *bool           `json:"legacy"`
	Model          object          `json:"model"`
	Normalizer     json.RawMessage `json:"normalizer"`
	PreTokenizer   json.RawMessage `json:"pre_tokenizer"`
	Decoder        json.RawMessage `json:"decoder"`
}

var classes = sync.OnceValue(func() classTable {
	var table classTable
	if err := json.Unmarshal(classesJSON, &table); err != nil {
		panic(fmt.Sprintf("tokenize: classes.json: %v", err))
	}
	return table
})

const backend = "TokenizersBackend"

// lookup resolves aliases; a class that transformers does not have is the plain
// backend, as it is there.
func (t classTable) lookup(name string) (string, classInfo) {
	info, ok := t.Classes[name]
	if !ok || plain[name] && info.Kind == "file" {
		return backend, classInfo{Kind: "file"}
	}
	if info.Kind == "alias" {
		return info.Of, t.Classes[info.Of]
	}
	return name, info
}

// choose follows AutoTokenizer.from_pretrained: the class that the folder names,
// except where the model type's registered class is the plain backend or
// overrules it. An empty named is a folder that names none.
func (t classTable) choose(named, modelType, modelName string) string {
	row, registered := t.Models[modelType]
	registered = registered && row.Class != ""
	switch {
	case named == "" && registered:
		return row.Class
	case named == "":
		return backend
	case !registered || withoutFast(row.Class) == withoutFast(named):
		return withoutFast(named)
	case plain[withoutFast(row.Class)]:
		return backend
	case row.Overrule || t.Models[modelName].Overrule:
		return row.Class
	default:
		return named
	}
}

// plain are registered classes in whose place the plain backend is used.
var plain = map[string]bool{
	backend: true, "PythonBackend": true, "PreTrainedTokenizer": true,
	"PreTrainedTokenizerFast": true, "MistralCommonBackend": true,
}

func withoutFast(class string) string {
	const fast = "Fast"
	if class != "PreTrainedTokenizerFast" && len(class) > len(fast) && class[len(class)-len(fast):] == fast {
		return class[:len(class)-len(fast)]
	}
	return class
}

// pipelineFor returns the pipeline for the options of tokenizer_config.json.
func (c classInfo) pipelineFor(config object) (pipeline, error) {
	prefix, err := optionalBool(config, "add_prefix_space")
	if err != nil {
		return pipeline{}, err
	}
	legacy, err := optionalBool(config, "legacy")
	if err != nil {
		return pipeline{}, err
	}
	best, bestScore := c.Pipelines[0], -1
	for _, p := range c.Pipelines {
		// A class without the option has only pipelines that leave it open.
		score := match(p.AddPrefixSpace, prefix) + match(p.Legacy, legacy)
		if score > bestScore {
			best, bestScore = p, score
		}
	}
	return best, nil
}

// match is 1 for the same setting, 0 where the pipeline leaves it open and far
// below for another.
func match(have, want *bool) int {
	switch {
	case have == nil && want == nil, have != nil && want != nil && *have == *want:
		return 1
	case have == nil:
		return 0
	default:
		return -10
	}
}

func optionalBool(config object, key string) (*bool, error) {
	value := config.get(key)
	if isNull(value) {
		return nil, nil
	}
	var b bool
	if err := json.Unmarshal(value, &b); err != nil {
		return nil, fmt.Errorf("tokenizer_config.json: %s: %w", key, err)
	}
	return &b, nil
}

func boolOr(config object, key string) (bool, error) {
	b, err := optionalBool(config, key)
	return b != nil && *b, err
}
