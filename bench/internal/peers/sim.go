package main

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"

	"github.com/servebench/servebench/bench/internal/simproc"
)

// simulator is the role sim of bench/internal/cost.
type simulator struct{ *simproc.Process }

// startSim builds the program into dir and starts it.
func startSim(ctx context.Context, dir string, log io.Writer) (*simulator, error) {
	program := filepath.Join(dir, "cost")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "github.com/servebench/servebench/bench/internal/cost")
	build.Stderr = log
	if err := build.Run(); err != nil {
		return nil, fmt.Errorf("build the simulator: %w", err)
	}
	cmd := exec.Command(program, "-role", "sim")
	cmd.Stderr = log
	p, err := simproc.Start(cmd)
	if err != nil {
		return nil, err
	}
	return &simulator{p}, nil
}

// take returns the stamps of the requests since the last take, by their ids.
func (s *simulator) take(ctx context.Context) (map[string]simproc.Stamps, error) {
	all, err := s.Take(ctx)
	if err != nil {
		return nil, err
	}
	byID := make(map[string]simproc.Stamps, len(all))
	for _, st := range all {
		byID[st.ID] = st
	}
	if len(byID) != len(all) {
		return nil, fmt.Errorf("%d ids for %d requests", len(byID), len(all))
	}
	return byID, nil
}
