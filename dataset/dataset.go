// Package dataset says what to send: a reproducible sequence of requests.
//
// [Load] turns a [Spec] into a [Set]. The same spec and tokenizer give the same
// bytes on every machine and with any number of cores. There are kinds whose
// prompts are made from a seed (byte for byte those of `vllm bench serve` where
// the tokenizer's vocabulary is known), and kinds that read them from a file and
// send them in vLLM's seeded order; [Names] lists them.
package dataset

import "encoding/json"

// Request is one prompt and the lengths that go with it.
type Request struct {
	// Prompt is the text to send; it is empty where Tokens, Texts or Messages
	// is set.
	Prompt string
	// Tokens is the prompt as token ids. Requests may share the memory behind
	// it: it must not be changed.
	Tokens []int
	// Texts are the prompts of a batch for embeddings, or a query and its
	// documents for a reranker.
	Texts []string
	// Parts are JSON objects, parts of a chat message's content, that follow the
	// prompt in it: {"type": "image_url", ...}.
	Parts []json.RawMessage
	// Messages is a chat's whole list of messages, in JSON, in place of a
	// message of Prompt and Parts.
	Messages json.RawMessage
	// Tools is a chat's list of tools in JSON; nil sends none.
	Tools json.RawMessage
	// InputTokens is the client's count of the prompt (special tokens that
	// the server will add are counted as vLLM's client counts them for the
	// data set); 0 where nobody counted.
	InputTokens int
	// OutputTokens is the number of tokens to ask for.
	OutputTokens int
}
