package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"

	"github.com/servebench/servebench/bench/sim"
	"github.com/servebench/servebench/bench/sweep"
	"github.com/servebench/servebench/manifest"
)

// embeddedServer is the simulator in this process, with a server for each replica.
type embeddedServer struct {
	urls   []string
	cancel context.CancelFunc
	done   chan struct{}
	err    error // once done is closed
}

var _ sweep.Server = (*embeddedServer)(nil)

// startSim starts the simulator in this process; one that is like the server of
// several replicas is as many servers.
func (o *options) startSim(note func(string)) (*embeddedServer, error) {
	if err := o.fitSim(note); err != nil {
		return nil, &exitError{code: exitUsage, err: fmt.Errorf("--sim-like: %w", err)}
	}
	if err := o.sim.Validate(); err != nil {
		return nil, &exitError{code: exitUsage, err: fmt.Errorf("--sim: %w", err)}
	}
	var listeners []net.Listener
	for range o.simReplicas() {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			for _, l := range listeners {
				_ = l.Close()
			}
			return nil, fmt.Errorf("start the simulator: %w", err)
		}
		listeners = append(listeners, l)
	}
	ctx, cancel := context.WithCancel(context.Background())
	e := &embeddedServer{cancel: cancel, done: make(chan struct{})}
	var running sync.WaitGroup
	errs := make([]error, len(listeners))
	for i, l := range listeners {
		e.urls = append(e.urls, "http://"+l.Addr().String())
		running.Go(func() {
			defer cancel() // half of the replicas are no server
			errs[i] = sim.New(*o.sim).Serve(ctx, l)
		})
	}
	go func() {
		defer close(e.done)
		running.Wait()
		e.err = errors.Join(errs...)
	}()
	return e, nil
}

func (o *options) simReplicas() int {
	if o.like == nil {
		return 1
	}
	return max(o.like.Replicas, 1)
}

// fitSim makes the simulator like the server of a manifest, where there is one, and
// says how to have the same without it.
func (o *options) fitSim(note func(string)) error {
	if o.like == nil || o.sim.Engine != nil {
		return nil // it is what it is
	}
	e, doubt, err := o.like.fit()
	if err != nil {
		return err
	}
	if doubt != nil {
		note(fmt.Sprintf("warning: --sim-like: %v", doubt))
	}
	o.sim.Engine = &e
	words := engineFlags(e)
	if o.sim.MaxModelLen > 0 {
		words = append(words, "--max-model-len", fmt.Sprint(o.sim.MaxModelLen))
	}
	note(fmt.Sprintf("simulating %d x servebench sim %s", o.simReplicas(), strings.Join(words, " ")))
	return nil
}

func (e *embeddedServer) URLs() []string                { return e.urls }
func (e *embeddedServer) Launched() []manifest.Launched { return nil }
func (e *embeddedServer) PIDs() []int                   { return nil }
func (e *embeddedServer) Warnings() []string            { return nil }
func (e *embeddedServer) Logs() []string                { return nil }
func (e *embeddedServer) Done() <-chan struct{}         { return e.done }

func (e *embeddedServer) Err() error {
	select {
	case <-e.done:
		return e.err
	default:
		return nil
	}
}

func (e *embeddedServer) Stop(context.Context) error {
	e.cancel()
	<-e.done
	return e.err
}
