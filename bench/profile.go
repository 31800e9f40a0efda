package bench

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// How long the server's profiler may take: it writes its trace before it
// answers, minutes of it for a long run. A user who has given up waits less.
const (
	profileTimeout = 10 * time.Minute
	profileHurry   = 10 * time.Second
)

// startProfile starts the servers' profilers, if that was asked for, and returns
// those targets at which it has to be stopped.
func (s *session) startProfile(ctx context.Context) (profiled fleet) {
	if !s.cfg.Profile || ctx.Err() != nil {
		return nil // a run that is given up before must not stop what it has not started
	}
	s.cfg.Progress.enter("starting the profiler", 0)
	for i := range s.fleet {
		t := s.fleet[i]
		refused, err := t.profile(ctx, "/start_profile", profileTimeout)
		if !refused {
			profiled = append(profiled, t) // without an answer it may have
		}
		if err != nil {
			s.warnf("%s profiler did not start: %v.", t.whose(), err)
			continue
		}
		s.warnf("%s profiler was on: it takes time that is in these numbers.", t.whose())
	}
	return profiled
}

// stopProfile stops them, also where the run was given up.
func (s *session) stopProfile(ctx context.Context, profiled fleet) {
	if len(profiled) == 0 {
		return
	}
	s.cfg.Progress.enter("stopping the profiler", 0)
	limit := profileTimeout
	if ctx.Err() != nil {
		ctx, limit = context.WithoutCancel(ctx), profileHurry
	}
	for i := range profiled {
		if _, err := profiled[i].profile(ctx, "/stop_profile", limit); err != nil {
			s.warnf("%s profiler did not stop: %v.", profiled[i].whose(), err)
		}
	}
}

// profile posts to one of the profiler's two addresses; refused tells that the
// server answered and did not do it.
func (t *target) profile(ctx context.Context, path string, limit time.Duration) (refused bool, err error) {
	status, _, err := t.post(ctx, path, limit)
	switch {
	case err != nil:
		return false, err
	case status == http.StatusNotFound:
		return true, fmt.Errorf("%s: HTTP 404: the server was not started with a profiler's configuration (--profiler-config)", path)
	case status != http.StatusOK:
		return true, fmt.Errorf("%s: HTTP %d", path, status)
	}
	return false, nil
}
