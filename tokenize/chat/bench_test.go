package chat

import (
	"strings"
	"testing"
)

func BenchmarkRender(b *testing.B) {
	for _, name := range []string{"qwen3", "gpt-oss"} {
		template, err := Open("testdata/real/" + name)
		if err != nil {
			b.Fatal(err)
		}
		messages := []Message{{"user", strings.Repeat("word ", 1024)}}
		b.Run("template="+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := template.Render(messages, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
