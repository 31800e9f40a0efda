package selftest

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var (
	machine = Machine{OS: "linux", Arch: "amd64", CPU: "A CPU", Cores: 2, GOMAXPROCS: 2, MemoryBytes: 24 << 30, Kernel: "6.1"}
	build   = Build{Version: "1", Go: "go1", Commit: "c", Executable: "00"}
)

func aReport() *Report {
	v, n := 0.25, 500
	r := &Report{
		At: time.Date(2026, 12, 1, 2, 3, 4, 0, time.UTC), Machine: machine, Build: build,
		Steps: []Step{{Concurrency: 1}, {Concurrency: 500}}, Floor: &Floor{1, "kernel", &v, nil},
		MaxValid: &Reach{1, 98.5}, TurnedAt: &n, TurnedTo: "SUSPECT",
	}
	return r
}

func sameBuild() (Build, error) { return build, nil }

func TestFigureIsAttachedOnTheSameMachineByTheSameBuild(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "selftest.json")
	if f, err := Load(path, machine, sameBuild); f != nil || err != nil {
		t.Errorf("without a file: %s, %v", f, err)
	}
	if err := aReport().Save(path); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	want := `{"at":"2026-12-01T02:03:04Z","tls":false,"concurrency":[1,500],"floor":{"concurrency":1,"stamps":"kernel","ttft_bias_p50_ms":0.25,"itl_error_p99_ms":null},` +
		`"max_valid":{"concurrency":1,"events_per_s":98.5},"turned_at":500,"turned_to":"SUSPECT","passed":true,"build":{"version":"1","go":"go1","commit":"c","executable_sha256":"00"}}`
	if f, err := Load(path, machine, sameBuild); string(f) != want || err != nil {
		t.Errorf("%v\n got %s\nwant %s", err, f, want)
	}
	for name, change := range map[string]func(*Machine){
		"os": func(m *Machine) { m.OS = "x" }, "arch": func(m *Machine) { m.Arch = "x" }, "cpu": func(m *Machine) { m.CPU = "x" },
		"cores": func(m *Machine) { m.Cores++ }, "gomaxprocs": func(m *Machine) { m.GOMAXPROCS++ },
		"memory": func(m *Machine) { m.MemoryBytes += 1 << 30 }, "kernel": func(m *Machine) { m.Kernel = "x" },
	} {
		other := machine
		change(&other)
		if f, err := Load(path, other, sameBuild); f != nil || err != nil {
			t.Errorf("another %s: %s, %v", name, f, err)
		}
	}
	for name, b := range map[string]Build{
		"version": {"2", "go1", "c", "00"}, "go": {"1", "go2", "c", "00"}, "commit": {"1", "go1", "d", "00"}, "executable": {"1", "go1", "c", "01"},
	} {
		if f, err := Load(path, machine, func() (Build, error) { return b, nil }); f != nil || err != nil {
			t.Errorf("another %s: %s, %v", name, f, err)
		}
	}
	booted := machine
	booted.MemoryBytes += 4096
	if f, err := Load(path, booted, sameBuild); f == nil || err != nil {
		t.Errorf("a few bytes more memory: %v", err)
	}
	if f, err := Load(path, machine, func() (Build, error) { return Build{}, errors.New("gone") }); f != nil || err == nil {
		t.Errorf("a build that cannot be told: %s", f)
	}
}

// A file that is none is an error and never comes back.
func TestLoadRefusesWhatIsNoFigure(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f.json")
	good, err := json.Marshal(kept{format, machine.ID(), aReport().Figure()})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"nothing":           "",
		"half":              string(good[:len(good)/2]),
		"more than one":     string(good) + "{}",
		"huge":              string(good) + strings.Repeat(" ", maxFile),
		"deep":              strings.Repeat(`[`, 60000),
		"a text for a list": strings.Replace(string(good), "[1,500]", `"x"`, 1),
		"no steps":          strings.Replace(string(good), "[1,500]", "[]", 1),
		"minus one":         strings.Replace(string(good), "[1,500]", "[-1]", 1),
		"no such stamps":    strings.Replace(string(good), `"kernel"`, `"\u001b[2J"`, 1),
		"no such verdict":   strings.Replace(string(good), `"SUSPECT"`, `"<script>"`, 1),
		"a number too big":  strings.Replace(string(good), `0.25`, `1e300`, 1),
		"infinite":          strings.Replace(string(good), `0.25`, `1e999`, 1),
		"another time":      strings.Replace(string(good), "2026-", "9026-", 1),
	} {
		if text == string(good) {
			t.Fatalf("%s: nothing is wrong with it", name)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if f, err := Load(path, machine, sameBuild); f != nil || err == nil {
			t.Errorf("%s: %s", name, f)
		}
	}
	if f, err := Load(dir, machine, sameBuild); f != nil || err == nil {
		t.Errorf("a folder: %s", f)
	}
	// What is not known does not come back either.
	text := strings.Replace(string(good), `{"at"`, `{"prompt":"secret","at"`, 1)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if f, err := Load(path, machine, sameBuild); err != nil || f == nil || strings.Contains(string(f), "secret") {
		t.Errorf("%s, %v", f, err)
	}
}

func FuzzParse(f *testing.F) {
	good, err := json.Marshal(kept{format, machine.ID(), aReport().Figure()})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"servebench_selftest":1,"figure":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		first, err := parse(data, machine, sameBuild)
		if err != nil || first == nil {
			return
		}
		// What is accepted is accepted again, as the same.
		var fig Figure
		if err := json.Unmarshal(first, &fig); err != nil {
			t.Fatal(err)
		}
		again, err := json.Marshal(kept{format, machine.ID(), fig})
		if err != nil {
			t.Fatal(err)
		}
		if second, err := parse(again, machine, sameBuild); err != nil || string(second) != string(first) {
			t.Errorf("%s became %s, %v", first, second, err)
		}
	})
}

// The digest does not show what it is made of, and the machine has no name in it.
func TestIDOfThisMachine(t *testing.T) {
	m := ThisMachine()
	if id := m.ID(); len(id) != 64 || id != ThisMachine().ID() {
		t.Errorf("%s", id)
	}
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if host, err := os.Hostname(); err == nil && len(host) > 3 && strings.Contains(string(text), host) {
		t.Errorf("%s has the host's name", text)
	}
	if id := line("/etc/machine-id"); id != "" && strings.Contains(m.ID()+string(text), id) {
		t.Errorf("%s has the machine's id", text)
	}
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	// FIPS 180-2, B.1
	b, err := ThisBuild(path)
	if err != nil || b.Executable != "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" || b.Version == "" || b.Go == "" {
		t.Errorf("%+v, %v", b, err)
	}
	if _, err := ThisBuild(path + "x"); err == nil {
		t.Error("a program that is not there")
	}
}
