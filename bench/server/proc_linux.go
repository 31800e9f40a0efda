package server

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// process is one of a server's living processes.
type process struct {
	pid, parent, group, session int
	start                       uint64 // in ticks since the machine's start: a number used again has another
}

// in reports whether p is in a leader's group or session.
func (p process) in(leader int) bool { return p.group == leader || p.session == leader }

func (p process) same(q process) bool { return p.pid == q.pid && p.start == q.start }

// processes are the living processes of a server: those in a leader's session or
// group, those whose environment has the mark, and all that descend from them. So
// a process is found that made a group or a session for itself, as vLLM's data
// parallel servers do, or that gave itself another title, as vLLM's workers do,
// which overwrites its environment. Those known from before belong to it as long
// as they live: their parents may have gone.
func processes(mark string, leaders []int, known []process) []process {
	var all []process
	found := map[int]bool{}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		p, ok := readProcess(dir)
		if !ok {
			continue
		}
		all = append(all, p)
		if slices.ContainsFunc(leaders, p.in) || slices.ContainsFunc(known, p.same) || isMarked(dir, mark) {
			found[p.pid] = true
		}
	}
	for more := true; more; {
		more = false
		for _, p := range all {
			if found[p.parent] && !found[p.pid] {
				found[p.pid], more = true, true
			}
		}
	}
	return slices.DeleteFunc(all, func(p process) bool { return !found[p.pid] })
}

// readProcess reads a folder of /proc; ok is false for one that has ended.
func readProcess(dir string) (p process, ok bool) {
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return p, false
	}
	// The name in brackets may hold anything, brackets too. After it: state,
	// parent, group, session, and as the 22nd field of all the start (proc(5)).
	words := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(words) < 20 || strings.Contains("ZXx", words[0]) {
		return p, false
	}
	for i, to := range []*int{&p.pid, &p.parent, &p.group, &p.session} {
		word := filepath.Base(dir)
		if i > 0 {
			word = words[i]
		}
		if *to, err = strconv.Atoi(word); err != nil {
			return p, false
		}
	}
	p.start, err = strconv.ParseUint(words[19], 10, 64)
	return p, err == nil
}

func isMarked(dir, mark string) bool {
	env, err := os.ReadFile(dir + "/environ")
	return err == nil && bytes.Contains(env, []byte(markName+"="+mark))
}

// stranger finds the process that listens on a port in the place of ours. ok is
// false where one of ours does, or where that cannot be told: the sockets of
// other users cannot be seen into.
func stranger(port int, ours []process) (pid int, ok bool) {
	sockets := listeners(port)
	if len(sockets) == 0 {
		return 0, false
	}
	for _, p := range ours {
		if holds("/proc/"+strconv.Itoa(p.pid), sockets) {
			return 0, false
		}
	}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		if holds(dir, sockets) {
			pid, err := strconv.Atoi(filepath.Base(dir))
			return pid, err == nil
		}
	}
	return 0, false
}

// listeners are the sockets that listen on a port, as the links in /proc/PID/fd
// name them.
func listeners(port int) map[string]bool {
	sockets := map[string]bool{}
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		data, _ := os.ReadFile(table)
		for line := range strings.Lines(string(data)) {
			// sl local_address rem_address st queues timer retrnsmt uid timeout inode
			words := strings.Fields(line)
			if len(words) < 10 || words[3] != "0A" {
				continue
			}
			_, hex, _ := strings.Cut(words[1], ":")
			if n, err := strconv.ParseUint(hex, 16, 16); err == nil && int(n) == port {
				sockets["socket:["+words[9]+"]"] = true
			}
		}
	}
	return sockets
}

// holds reports whether a process has one of the sockets open.
func holds(dir string, sockets map[string]bool) bool {
	fds, _ := os.ReadDir(dir + "/fd")
	for _, fd := range fds {
		if link, err := os.Readlink(dir + "/fd/" + fd.Name()); err == nil && sockets[link] {
			return true
		}
	}
	return false
}
