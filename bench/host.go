package bench

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/servebench/servebench/manifest"
	"github.com/servebench/servebench/manifest/probe"
	"github.com/servebench/servebench/tokenize"
)

// facts are what was found beside the server's answers.
type facts struct {
	probed      bool // Environment is that of this machine
	checkpoints []checkpoint
}

// describeHost says which machine the server runs on: what was declared goes
// before what this machine is, where the server runs on it, as a whole: a host
// file is of another machine where a tunnel hides that.
func (s *session) describeHost(ctx context.Context) {
	c := &s.cfg.Declared
	local := s.cfg.loopback()
	s.res.sameHost = local
	serving := s.cfg.served()
	s.res.checkpoints = s.findCheckpoints(serving, local)
	env := s.declaredHost()
	switch {
	case env != nil:
	case s.cfg.Target.Dial != nil: // a network of the caller's own, which may be no machine's
	case local:
		env = s.probeHost(ctx)
	default:
		s.warnf("the server is on another host: the manifest does not describe its machine without a host file (servebench env)")
	}
	if env == nil && c.Topology == "" && c.Virtual == nil {
		return
	}
	if env == nil {
		env = &manifest.Environment{}
	}
	said := len(serving.warnings)
	indices, count := serving.devices()
	s.res.Warnings = append(s.res.Warnings, serving.warnings[said:]...)
	s.useDevices(env, indices, count)
	for i := range env.Accelerators {
		if c.Interconnect != "" {
			env.Accelerators[i].Interconnect = c.Interconnect
		}
	}
	if env.Topology == "" {
		env.Topology = serving.topology(count, len(s.cfg.Replicas) > 0)
	}
	if c.Topology != "" {
		env.Topology = c.Topology
	}
	if c.Virtual != nil {
		env.VirtualEnvironment = c.Virtual
	}
	s.res.Environment = s.publicHost(env)
}

// declaredHost is a copy of the host file's environment.
func (s *session) declaredHost() *manifest.Environment {
	if s.cfg.Declared.Environment == nil {
		return nil
	}
	env := *s.cfg.Declared.Environment
	env.Accelerators = slices.Clone(env.Accelerators)
	return &env
}

func (s *session) probeHost(ctx context.Context) *manifest.Environment {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	env, warnings := probe.Host(ctx)
	if len(env.Accelerators) == 0 && !s.res.Engine.Simulated && s.res.Engine.Name != "" {
		s.warnf("No GPU was found on this host: the manifest names none.")
	}
	s.res.probed = true
	s.res.Warnings = append(s.res.Warnings, warnings...)
	return env
}

// useDevices leaves of the devices that are there those that the server uses. A
// count in a host file stands where nothing else is known of them.
func (s *session) useDevices(env *manifest.Environment, indices []int, count int) {
	known, warnings := env.UseDevices(indices, count)
	s.res.Warnings = append(s.res.Warnings, warnings...)
	if known || !s.res.probed {
		return
	}
	for i := range env.Accelerators {
		if a := &env.Accelerators[i]; a.Count > 1 {
			s.warnf("This host has %d %s; how many of them the server uses was not declared.", a.Count, a.Model)
			a.Count, a.DeviceIndices = 0, nil
		}
	}
}

// publicHost is an environment without what must not be published.
func (s *session) publicHost(env *manifest.Environment) *manifest.Environment {
	text, err := json.Marshal(s.cfg.Redactor().Value(plain(env)))
	clean := new(manifest.Environment)
	if err != nil || json.Unmarshal(text, clean) != nil {
		return env
	}
	return clean
}

// checkpoint is what the local files of a model tell.
type checkpoint struct {
	name, asked  string // as the manifest names it; the revision that was looked for
	commit       string // "" outside a hub cache
	architecture string
	quantMethod  string // of a quantised checkpoint
	format       string // for people: NVFP4, BF16
	weightBytes  int64
}

// findCheckpoints looks the subject and the models that go with it up among the
// files that the server itself loads, where they are this machine's: those of the
// hub cache that its environment names. No network is asked.
func (s *session) findCheckpoints(serving *serving, local bool) (found []checkpoint) {
	launch := serving.first()
	getenv := func(key string) string {
		if v, ok := launch.Env[key]; ok {
			return v
		}
		return os.Getenv(key)
	}
	look := func(name, revision string) {
		if name == "" {
			return
		}
		// A revision that is a commit is the same on every machine.
		if folder, id, ok := tokenize.Snapshot(name, revision, getenv); ok && (local || id == revision) {
			found = append(found, readCheckpoint(folder, checkpoint{name: name, asked: revision, commit: id}))
		} else if local && filepath.IsAbs(name) {
			found = append(found, readCheckpoint(name, checkpoint{name: manifest.Identifier(name)}))
		}
	}
	switch sub := s.cfg.Subject; {
	case sub != nil && sub.Source == "local":
		look(launch.Model, launch.Revision)
	case sub != nil:
		look(sub.Identifier, cmp.Or(sub.Revision, launch.Revision))
	case launch.Model != "":
		look(launch.Model, launch.Revision)
	case !s.res.Engine.Simulated:
		look(s.cfg.Model, "")
	}
	for _, m := range s.cfg.Declared.AuxiliaryModels {
		if name, ok := m["repository"].(string); ok && name != launch.SpeculativeModel {
			revision, _ := m["revision"].(string)
			look(name, revision)
		}
	}
	look(launch.SpeculativeModel, launch.SpeculativeModelRevision)
	return found
}

// readCheckpoint reads a model's config.json and the size of its weights.
func readCheckpoint(folder string, c checkpoint) checkpoint {
	var config struct {
		Architectures []string `json:"architectures"`
		Dtype         string   `json:"dtype"`
		TorchDtype    string   `json:"torch_dtype"`
		TextConfig    struct {
			Dtype string `json:"dtype"`
		} `json:"text_config"`
		QuantizationConfig struct {
			QuantMethod string `json:"quant_method"`
			Format      string `json:"format"`
			QuantAlgo   string `json:"quant_algo"`
		} `json:"quantization_config"`
	}
	f, err := os.Open(filepath.Join(folder, "config.json"))
	if err != nil {
		return c
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 4<<20))
	if err != nil || json.Unmarshal(text, &config) != nil {
		return c
	}
	if len(config.Architectures) > 0 {
		c.architecture = config.Architectures[0]
	}
	q := config.QuantizationConfig
	c.quantMethod = q.QuantMethod
	c.format = cmp.Or(q.QuantAlgo, q.Format, q.QuantMethod)
	if c.quantMethod == "" {
		c.format = map[string]string{"bfloat16": "BF16", "float16": "FP16", "float32": "FP32"}[strings.TrimPrefix(cmp.Or(config.Dtype, config.TorchDtype, config.TextConfig.Dtype), "torch.")]
	}
	c.weightBytes = weightBytes(folder)
	return c
}

// weightBytes adds up the tensors of a folder's safetensors files: what is behind
// the header, whose length is in the first 8 bytes. It is 0 where one cannot be
// read.
func weightBytes(folder string) (sum int64) {
	files, err := filepath.Glob(filepath.Join(folder, "*.safetensors"))
	if err != nil {
		return 0
	}
	for _, name := range files {
		n, ok := tensorBytes(name)
		if !ok {
			return 0
		}
		sum += n
	}
	return sum
}

func tensorBytes(name string) (int64, bool) {
	f, err := os.Open(name)
	if err != nil {
		return 0, false
	}
	defer f.Close()
	st, err := f.Stat()
	var head [8]byte
	if err != nil || !st.Mode().IsRegular() {
		return 0, false
	}
	if _, err := io.ReadFull(f, head[:]); err != nil {
		return 0, false
	}
	n := binary.LittleEndian.Uint64(head[:])
	if st.Size() < 8 || n > uint64(st.Size()-8) {
		return 0, false
	}
	return st.Size() - 8 - int64(n), true
}
