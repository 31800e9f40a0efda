package chat_test

import (
	"fmt"

	"github.com/servebench/servebench/tokenize/chat"
)

func ExampleTemplate_Render() {
	template, err := chat.Open("testdata/real/qwen3")
	if err != nil {
		fmt.Println(err)
		return
	}
	kwargs, err := chat.Kwargs([]byte(`{"enable_thinking": false}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	prompt, err := template.Render([]chat.Message{{Role: "user", Content: "Hi"}}, kwargs)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%q\n", prompt)
	// Output:
	// "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
}
