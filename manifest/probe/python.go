package probe

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/servebench/servebench/manifest"
)

// pythonTimeout bounds the listing of packages, which reads a file of each from
// what may be a cold disk.
const pythonTimeout = time.Minute

// listPackages prints which Python this is and what is installed. The folder it
// runs in must not stand in for a module.
const listPackages = `import sys
sys.path[:] = [p for p in sys.path if p]
import json
from importlib import metadata
found = {}
for d in metadata.distributions():
    name = d.metadata["Name"]
    if name and name not in found:
        found[name] = d.version
print(json.dumps({"python": "%d.%d.%d" % sys.version_info[:3], "packages": found}))
`

// Python runs a Python interpreter and returns what it is and which versions of
// which packages it finds, by their normalised names (PEP 503). The lock hash is
// the sha256 of the lines name==version, sorted, each with a newline.
func Python(ctx context.Context, program string) (*manifest.VirtualEnvironment, map[string]string, error) {
	out, err := runWithin(ctx, pythonTimeout, program, "-c", listPackages)
	if errors.Is(err, errNoProgram) {
		return nil, nil, fmt.Errorf("%s cannot be run; want a Python interpreter", program)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", program, err)
	}
	var found struct {
		Python   string            `json:"python"`
		Packages map[string]string `json:"packages"`
	}
	if err := json.Unmarshal(out, &found); err != nil || !pythonVersion.MatchString(found.Python) {
		return nil, nil, fmt.Errorf("%s does not answer as Python does", program)
	}
	packages := make(map[string]string)
	for name, version := range found.Packages {
		packages[strings.ToLower(separators.ReplaceAllString(name, "-"))] = version
	}
	lock := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		fmt.Fprintf(lock, "%s==%s\n", name, packages[name])
	}
	return &manifest.VirtualEnvironment{Python: found.Python, DependencyLockHash: hex.EncodeToString(lock.Sum(nil))}, packages, nil
}

var (
	pythonVersion = regexp.MustCompile(`^[0-9]+\.[0-9]+(\.[0-9]+)?$`)
	separators    = regexp.MustCompile(`[-_.]+`)
)
