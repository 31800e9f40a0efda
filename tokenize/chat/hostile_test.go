package chat

import (
	"strings"
	"testing"
)

// A template without an end, or that grows without one, is an error after some
// seconds and some hundred MB at most.
func TestHostileTemplates(t *testing.T) {
	const (
		operations = "more than 8388608 operations"
		text       = "more than"
	)
	for source, want := range map[string]string{
		"{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}":                                operations,
		"{{ ('a'*10000000)[::-1]|list|length }}":                                                                        operations,
		"{{ ('a '*9000000).split()|length }}":                                                                           text,
		"{{ [1]*9000000 }}":                                                                                             "list of more than 8388608 values",
		"{% for i in range(99999) %}{% for j in range(999) %}aaaaaaaaaa{% endfor %}{% endfor %}":                        text,
		"{% set x = 'a'*8000000 %}{% for i in range(99999) %}{% set y = x ~ x %}{% endfor %}":                           "more than 256 MiB of text made",
		"{% set x = 'aA'*8000000 %}{% for i in range(99999) %}{% set y = 'b' in x %}{% endfor %}":                       "more than 2 GiB of text read",
		"{% set ns = namespace(x=[]) %}{% for i in range(20000) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x|tojson }}": "more than 10000 levels of evaluation",
		"{% macro f(x) %}{{ f(x) }}{{ f(x) }}{% endmacro %}{{ f(1) }}":                                                  "more than 10000 levels of evaluation",
		"{% include '/etc/passwd' %}":                                                                                   "tag include: not supported",
		"{{ ''.__class__.__mro__ }}":                                                                                    "unsafe",
		"{{ " + strings.Repeat("(", 30000) + "1":                                                                        "tag",
	} {
		if _, err := renderSource(source, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: error %v, want ...%s...", source, err, want)
		}
	}
}
