package server

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/servebench/servebench/manifest"
)

const (
	maxReplicas = 256
	cudaDevices = "CUDA_VISIBLE_DEVICES"
)

// withDefaults fills in what the zero value stands for.
func (c Config) withDefaults() Config {
	c.Host = cmp.Or(c.Host, "127.0.0.1")
	c.Replicas = cmp.Or(c.Replicas, 1)
	c.ReadyPath = cmp.Or(c.ReadyPath, "/health")
	c.ReadyTimeout = cmp.Or(c.ReadyTimeout, 20*time.Minute)
	c.StopTimeout = cmp.Or(c.StopTimeout, 30*time.Second)
	c.LogName = cmp.Or(c.LogName, "server")
	return c
}

// Validate reports everything that is wrong at once, under the keys of a run
// file, and changes nothing. It looks at no file and no port.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("server."+format, args...)) }
	errs = append(errs, c.validateCommand()...)
	if c.Replicas < 1 || c.Replicas > maxReplicas {
		bad("replicas: %d; want 1 to %d", c.Replicas, maxReplicas)
	} else if len(c.Devices)%c.Replicas != 0 {
		bad("devices: %d do not share out evenly over %d replicas; want a multiple", len(c.Devices), c.Replicas)
	}
	for i, d := range c.Devices {
		if d < 0 {
			bad("devices: %d; want 0 or more", d)
		} else if slices.Contains(c.Devices[:i], d) {
			bad("devices: %d twice; want each device once", d)
		}
	}
	if last := c.Port + max(c.Replicas, 1) - 1; c.Port < 0 || c.Port > 65535 {
		bad("port: %d; want 1 to 65535, or 0 for a free one", c.Port)
	} else if c.Port > 0 && last > 65535 {
		bad("port: %d; the last of %d replicas would listen on %d; want 65535 at most", c.Port, c.Replicas, last)
	}
	if net.ParseIP(c.Host) == nil && !hostName.MatchString(c.Host) {
		bad("host: %q; want an address or a name, without a port", c.Host)
	}
	if !strings.HasPrefix(c.ReadyPath, "/") || strings.ContainsFunc(c.ReadyPath, isControl) {
		bad("ready_path: %q; want a path such as /health", c.ReadyPath)
	}
	if c.ReadyTimeout < 0 {
		bad("ready_timeout: %v; want more than 0", c.ReadyTimeout)
	}
	if c.StopTimeout < 0 {
		bad("stop_timeout: %v; want more than 0", c.StopTimeout)
	}
	for _, p := range c.LogWarnings {
		if re, err := regexp.Compile(p); err != nil {
			bad("log_warnings: %q: %w", p, err)
		} else if re.MatchString("") {
			bad("log_warnings: %q matches every line; want an expression that some do not", p)
		}
	}
	if c.LogName != filepath.Base(c.LogName) || c.LogName == "." || c.LogName == ".." || strings.ContainsFunc(c.LogName, isControl) {
		bad("log_name: %q; want the beginning of a file name, without a folder", c.LogName)
	}
	return errors.Join(errs...)
}

var hostName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// validateCommand checks command, env and what they must say.
func (c *Config) validateCommand() (errs []error) {
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("server."+format, args...)) }
	if len(c.Command) == 0 || c.Command[0] == "" {
		bad("command: empty; want a program and its arguments")
		return errs
	}
	for _, w := range c.Command {
		if strings.ContainsRune(w, 0) {
			bad("command: %q has a NUL byte; want none", w)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			bad("env: the name %q; want one without = and NUL", name)
		}
		if strings.ContainsRune(c.Env[name], 0) {
			bad("env: the value of %s has a NUL byte; want none", name)
		}
	}
	told := c.mentions("{port}")
	if c.Replicas > 1 && !told {
		bad("command: has no {port}, and %d replicas cannot share one; want --port {port}", c.Replicas)
	} else if c.Port == 0 && !told {
		bad("port: 0 takes a free port that the command must be told; want {port} in server.command, or the port's number here")
	}
	if len(c.Devices) == 0 && (c.mentions("{device}") || c.mentions("{devices}")) {
		bad("devices: none, but the command asks for {device}; want their numbers")
	}
	return errs
}

// mentions reports whether a name stands in the command or the environment.
func (c *Config) mentions(name string) bool {
	has := func(s string) bool { return strings.Contains(s, name) }
	return slices.ContainsFunc(c.Command, has) || slices.ContainsFunc(slices.Collect(maps.Values(c.Env)), has)
}

// launched is replica i's command on a port, with self for {servebench}; c has
// its defaults. The environment includes the devices.
func (c *Config) launched(i int, port, self string) manifest.Launched {
	devices := ""
	if share := len(c.Devices) / c.Replicas; share > 0 {
		var words []string
		for _, d := range c.Devices[i*share : (i+1)*share] {
			words = append(words, strconv.Itoa(d))
		}
		devices = strings.Join(words, ",")
	}
	names := strings.NewReplacer("{port}", port, "{host}", c.Host, "{device}", devices,
		"{devices}", devices, "{replica}", strconv.Itoa(i), "{servebench}", self)
	l := manifest.Launched{Env: map[string]string{}}
	for _, w := range c.Command {
		l.Args = append(l.Args, names.Replace(w))
	}
	if devices != "" {
		l.Env[cudaDevices] = devices
	}
	for name, v := range c.Env {
		l.Env[name] = names.Replace(v)
	}
	return l
}

// Launched are the commands of servers that do not run, one for each replica, as far
// as c tells them: without Port the port is {port}.
func (c Config) Launched() (out []manifest.Launched) {
	c = c.withDefaults()
	for i := range min(c.Replicas, maxReplicas) {
		port := "{port}"
		if c.Port > 0 {
			port = strconv.Itoa(c.Port + i)
		}
		out = append(out, c.launched(i, port, "servebench"))
	}
	return out
}

// url is where a client reaches a port of the host: an address for all
// interfaces is no place to go to.
func (c *Config) url(port int) string {
	host := c.Host
	switch ip := net.ParseIP(host); {
	case ip == nil || !ip.IsUnspecified():
	case ip.To4() != nil:
		host = "127.0.0.1"
	default:
		host = "::1"
	}
	return "http://" + net.JoinHostPort(host, strconv.Itoa(port))
}
