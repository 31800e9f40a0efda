package openai

import (
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// TestMain runs every test in an environment that must not matter, and fails if
// a goroutine outlives its test.
func TestMain(m *testing.M) {
	for _, s := range []string{
		"OPENAI_BASE_URL=http://env.invalid/v9", "OPENAI_API_KEY=env-key", "OPENAI_ADMIN_KEY=env-admin",
		"OPENAI_ORG_ID=env-org", "OPENAI_PROJECT_ID=env-project", "OPENAI_CUSTOM_HEADERS=X-Env: yes",
		"HTTP_PROXY=http://user:hunter2@127.0.0.1:1", "HTTPS_PROXY=http://user:hunter2@127.0.0.1:1",
	} {
		name, value, _ := strings.Cut(s, "=")
		os.Setenv(name, value)
	}
	goleak.VerifyTestMain(m)
}
