//go:build !linux

package server

// process is one of a server's living processes.
type process struct{ pid, group int }

func (p process) in(leader int) bool { return p.group == leader }

// processes are the leaders whose groups still have a process: without /proc the
// members of a group are not known.
func processes(_ string, leaders []int, _ []process) (all []process) {
	for _, pid := range leaders {
		if groupLives(pid) {
			all = append(all, process{pid, pid})
		}
	}
	return all
}

// stranger cannot be told without /proc.
func stranger(int, []process) (int, bool) { return 0, false }
