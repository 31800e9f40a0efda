package main

import (
	"context"
	"slices"
)

// pooling runs both clients on a server that makes vectors: the same bodies, and
// result files of the same shape.
func (s *suite) pooling(ctx context.Context, srv *server) error {
	r, err := newRecorder(srv.url, idPrefix)
	if err != nil {
		return err
	}
	defer r.Close()
	sizes := []string{"--random-input-len", "48", "--num-prompts", "24"}
	for _, c := range []struct {
		name string
		n    int
		args []string
	}{
		{"embeddings", 24, []string{"--backend", "openai-embeddings", "--endpoint", "/v1/embeddings"}},
		{"embeddings, batches of 4", 6, []string{"--backend", "openai-embeddings", "--endpoint", "/v1/embeddings", "--random-batch-size", "4"}},
		{"embeddings-chat", 24, []string{"--backend", "openai-embeddings-chat", "--endpoint", "/v1/embeddings"}},
		{"pooling", 24, []string{"--backend", "vllm-pooling", "--endpoint", "/pooling"}},
		{"rerank, 3 documents", 12, []string{"--backend", "vllm-rerank", "--endpoint", "/v1/rerank", "--dataset-name", "random-rerank", "--random-batch-size", "3", "--no-reranker"}},
	} {
		words := append(slices.Clone(sizes), c.args...)
		problems, err := s.sameBodies(ctx, r, c.n, append(words, "--max-concurrency", "8"))
		if err != nil {
			return err
		}
		s.check("pooling: bodies of "+c.name, problems...)
		common := []string{"--base-url", srv.url, "--model", modelName, "--tokenizer", s.tokenizer(), "--disable-tqdm"}
		problems, err = s.sameShape(ctx, "keys-pooling-"+c.name, common, append(words, "--save-detailed"))
		if err != nil {
			return err
		}
		s.check("pooling: keys of "+c.name, problems...)
	}
	return nil
}
