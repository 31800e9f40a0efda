package probe

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// script is a program that prints text.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "python")
	if err := os.WriteFile(path, []byte("#!/bin/sh\ncat <<'END'\n"+text+"\nEND\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPython(t *testing.T) {
	env, packages, err := Python(t.Context(), script(t, `{"python": "3.12.3", "packages": {"vllm": "0.23.0+cu129", "Flash_Infer.py": "1.0", "torch": "2.9.0"}}`))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte("flash-infer-py==1.0\ntorch==2.9.0\nvllm==0.23.0+cu129\n"))
	if env.Python != "3.12.3" || env.DependencyLockHash != hex.EncodeToString(sum[:]) {
		t.Errorf("%+v", env)
	}
	if want := map[string]string{"flash-infer-py": "1.0", "torch": "2.9.0", "vllm": "0.23.0+cu129"}; !maps.Equal(packages, want) {
		t.Errorf("%v", packages)
	}
	for answer, want := range map[string]string{
		"no JSON":             "does not answer as Python does",
		`{"python": "three"}`: "does not answer as Python does",
	} {
		if _, _, err := Python(t.Context(), script(t, answer)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", answer, err)
		}
	}
	if _, _, err := Python(t.Context(), filepath.Join(t.TempDir(), "none")); err == nil || !strings.Contains(err.Error(), "want a Python interpreter") {
		t.Error(err)
	}
}
