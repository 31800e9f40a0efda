package chat

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nikolalohinski/gonja/v2/exec"
)

// A hostile template takes some seconds and some hundred MB: a split text is 20
// times as large as it was.
const (
	maxOutput = 16 << 20 // bytes of one text: the output or any string made on the way
	maxSteps  = 1 << 23  // operations of one rendering, each under a microsecond: some seconds
	maxMade   = 1 << 28  // bytes of all text made in one rendering
	maxRead   = 2 << 30  // bytes of all text read or searched in one rendering
	maxDepth  = 10_000   // of evaluation inside evaluation, macros and nested values included
	maxBlocks = 200      // of blocks inside each other
	maxRange  = 100_000  // the sandbox's own limit to range()
)

// run is one rendering.
type run struct {
	steps, bytesMade, bytesRead int
	depth                       int
	maxSteps                    int
	now                         func() time.Time
}

// scope is where an expression is evaluated: gonja's renderer has the variables,
// the run what has been spent.
type scope struct {
	*exec.Renderer
	*run
}

func scopeOf(r *exec.Renderer) scope { return scope{r, r.Output.(*sink).run} }

var errTooLong = fmt.Errorf("text of more than %d MiB", maxOutput>>20)

// spend counts n operations.
func (r *run) spend(n int) error {
	if r.steps += n; r.steps > r.maxSteps {
		return fmt.Errorf("more than %d operations", r.maxSteps)
	}
	return nil
}

// read counts n bytes that an operation looks at.
func (r *run) read(n int) error {
	if r.bytesRead += n; r.bytesRead > maxRead {
		return fmt.Errorf("more than %d GiB of text read", maxRead>>30)
	}
	return nil
}

// make counts a text of n bytes, before it is made.
func (r *run) make(n int) error {
	if n < 0 || n > maxOutput {
		return errTooLong
	}
	if r.bytesMade += n; r.bytesMade > maxMade {
		return fmt.Errorf("more than %d MiB of text made", maxMade>>20)
	}
	return nil
}

// enter counts one level of recursion, and an operation; leave ends the level.
func (r *run) enter() error {
	if r.depth++; r.depth > maxDepth {
		return fmt.Errorf("more than %d levels of evaluation", maxDepth)
	}
	return r.spend(1)
}

func (r *run) leave() { r.depth-- }

// sink takes the output of a template, a macro or a block.
type sink struct {
	*run
	strings.Builder
}

// Write fails where the text gets too long.
func (k *sink) Write(p []byte) (int, error) { return k.WriteString(string(p)) }

// WriteString is Write, for [io.WriteString].
func (k *sink) WriteString(p string) (int, error) {
	if k.Len()+len(p) > maxOutput {
		return 0, errTooLong
	}
	if err := k.make(len(p)); err != nil {
		return 0, err
	}
	return k.Builder.WriteString(p)
}

// lineError is an error with the template's line.
type lineError struct {
	line int
	err  error
}

func (e *lineError) Error() string { return fmt.Sprintf("line %d: %v", e.line, e.err) }
func (e *lineError) Unwrap() error { return e.err }

// atLine says where err arose, unless it says so itself.
func atLine(line int, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*lineError](err); ok {
		return err
	}
	return &lineError{line, err}
}
