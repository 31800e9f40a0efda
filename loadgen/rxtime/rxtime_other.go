//go:build !linux || !(amd64 || arm64)

package rxtime

import "net"

// sys is empty: this system's kernel is not asked for anything.
type sys struct{}

func (sys) init(net.Conn, bool)             {}
func (sys) stamping() bool                  { return false }
func (sys) recv(*Conn, []byte) (int, error) { panic("rxtime: no kernel stamps on this system") }
func (sys) alive() bool                     { return true }
func (sys) streams() bool                   { return false }
func (sys) stream(*Conn, func([]byte) bool) error {
	panic("rxtime: no streams on this system")
}

func adopt(net.Conn) (net.Conn, bool) { return nil, false }
