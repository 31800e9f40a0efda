package server

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/servebench/servebench/manifest"
)

func TestValidateNamesTheKeys(t *testing.T) {
	ok := []string{"vllm", "serve", "m", "--port", "{port}"}
	for _, c := range []struct {
		name string
		cfg  Config
		want []string // the beginnings of the errors' lines
	}{
		{"the least", Config{Command: ok}, nil},
		{"a port that the command says itself", Config{Command: []string{"s", "--port", "80"}, Port: 80}, nil},
		{"the port in the environment alone", Config{Command: []string{"s"}, Env: map[string]string{"PORT": "{port}"}}, nil},
		{"four devices for two replicas", Config{Command: ok, Devices: []int{0, 1, 2, 3}, Replicas: 2}, nil},
		{"an IPv6 host", Config{Command: ok, Host: "::"}, nil},
		{"nothing", Config{}, []string{"server.command: empty; want a program"}},
		{"an empty program", Config{Command: []string{""}}, []string{"server.command: empty"}},
		{"a NUL byte", Config{Command: append(ok, "a\x00")}, []string{"server.command: \"a\\x00\" has a NUL"}},
		{"a free port that nobody learns", Config{Command: []string{"s"}}, []string{"server.port: 0 takes a free port that the command must be told; want {port}"}},
		{"replicas on one port", Config{Command: []string{"s"}, Port: 80, Replicas: 2}, []string{"server.command: has no {port}"}},
		{"three devices for two replicas", Config{Command: ok, Devices: []int{0, 1, 2}, Replicas: 2}, []string{"server.devices: 3 do not share out"}},
		{"a device twice, one below 0", Config{Command: ok, Devices: []int{1, 1, -1}}, []string{"server.devices: 1 twice", "server.devices: -1; want 0"}},
		{"no device to name", Config{Command: append(ok, "{device}")}, []string{"server.devices: none"}},
		{"minus one replica", Config{Command: ok, Replicas: -1}, []string{"server.replicas: -1; want 1"}},
		{"the port after the last", Config{Command: ok, Port: 65535, Replicas: 2}, []string{"server.port: 65535; the last of 2"}},
		{"no port", Config{Command: ok, Port: 70000}, []string{"server.port: 70000; want 1"}},
		{"a host with a port", Config{Command: ok, Host: "localhost:80"}, []string{"server.host: \"localhost:80\"; want"}},
		{"no path", Config{Command: ok, ReadyPath: "health"}, []string{"server.ready_path: \"health\"; want a path"}},
		{"times below 0", Config{Command: ok, ReadyTimeout: -1, StopTimeout: -1}, []string{"server.ready_timeout: -1ns", "server.stop_timeout: -1ns"}},
		{"bad expressions", Config{Command: ok, LogWarnings: []string{"(", "a*"}}, []string{"server.log_warnings: \"(\": ", "server.log_warnings: \"a*\" matches every line"}},
		{"a folder in the name", Config{Command: ok, LogName: "../x"}, []string{"server.log_name: \"../x\"; want"}},
		{"bad variables", Config{Command: ok, Env: map[string]string{"A=B": "", "C": "\x00"}}, []string{"server.env: the name \"A=B\"", "server.env: the value of C has a NUL"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			if err := c.cfg.Validate(); err != nil {
				got = strings.Split(err.Error(), "\n")
			}
			if len(got) != len(c.want) {
				t.Fatalf("got %q, want %q", got, c.want)
			}
			for i, want := range c.want {
				if !strings.HasPrefix(got[i], want) {
					t.Errorf("got %q, want %q…", got[i], want)
				}
			}
		})
	}
}

// TestLaunched: names are filled in for each replica; other braces are text.
func TestLaunched(t *testing.T) {
	cfg := Config{
		Command:  []string{"{servebench}", "sim", "--port={port}", "{host}", "{devices}", `{"method":"mtp","n":{replica}}`, "{model}"},
		Env:      map[string]string{"CACHE": "r{replica}-{device}", "EMPTY": ""},
		Devices:  []int{3, 1, 0, 2},
		Replicas: 2,
	}.withDefaults()
	got := []manifest.Launched{cfg.launched(0, "9000", "/bin/sb"), cfg.launched(1, "9001", "/bin/sb")}
	want := []manifest.Launched{
		{Args: []string{"/bin/sb", "sim", "--port=9000", "127.0.0.1", "3,1", `{"method":"mtp","n":0}`, "{model}"},
			Env: map[string]string{"CUDA_VISIBLE_DEVICES": "3,1", "CACHE": "r0-3,1", "EMPTY": ""}},
		{Args: []string{"/bin/sb", "sim", "--port=9001", "127.0.0.1", "0,2", `{"method":"mtp","n":1}`, "{model}"},
			Env: map[string]string{"CUDA_VISIBLE_DEVICES": "0,2", "CACHE": "r1-0,2", "EMPTY": ""}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	cfg.Env[cudaDevices] = "7"
	if got := cfg.launched(0, "1", "").Env[cudaDevices]; got != "7" {
		t.Errorf("the explicit variable is %q, want 7: it goes before devices", got)
	}
}

func TestURL(t *testing.T) {
	for host, want := range map[string]string{"": "http://127.0.0.1:80", "0.0.0.0": "http://127.0.0.1:80", "::": "http://[::1]:80", "gpu1": "http://gpu1:80"} {
		cfg := Config{Host: host}.withDefaults()
		if got := cfg.url(80); got != want {
			t.Errorf("%q: %s, want %s", host, got, want)
		}
	}
}

func TestDefaults(t *testing.T) {
	got := Config{}.withDefaults()
	want := Config{Host: "127.0.0.1", Replicas: 1, ReadyPath: "/health", ReadyTimeout: 20 * time.Minute, StopTimeout: 30 * time.Second, LogName: "server"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
