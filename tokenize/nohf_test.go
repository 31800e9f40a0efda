//go:build !hf || !cgo

package tokenize_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/servebench/servebench/tokenize"
)

func TestOpenNamesTheBuildThatCan(t *testing.T) {
	_, err := tokenize.Open("testdata/small")
	if !errors.Is(err, tokenize.ErrNotBuilt) || !strings.Contains(err.Error(), "make") {
		t.Errorf("error %v, want ErrNotBuilt with the build that has it", err)
	}
}
