package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// How long the server's profiler may take: it writes its trace before it
// answers, minutes of it for a long run. A user who has given up waits less.
const (
	profileTimeout = 10 * time.Minute
	profileHurry   = 10 * time.Second
)

// startProfile starts the server's profiler, if that was asked for, and tells
// whether it has to be stopped.
func (s *session) startProfile(ctx context.Context) bool {
	if !s.cfg.Profile || ctx.Err() != nil {
		return false // a run that is given up before must not stop what it has not started
	}
	s.cfg.Progress.enter("starting the profiler", 0)
	refused, err := s.profile(ctx, "/start_profile", profileTimeout)
	if err != nil {
		s.warnf("The server's profiler did not start: %v.", err)
		return !refused // without an answer it may have
	}
	s.warnf("The server's profiler was on: it takes time that is in these numbers.")
	return true
}

// stopProfile stops it, also where the run was given up.
func (s *session) stopProfile(ctx context.Context) {
	s.cfg.Progress.enter("stopping the profiler", 0)
	limit := profileTimeout
	if ctx.Err() != nil {
		ctx, limit = context.WithoutCancel(ctx), profileHurry
	}
	if _, err := s.profile(ctx, "/stop_profile", limit); err != nil {
		s.warnf("The server's profiler did not stop: %v.", err)
	}
}

// profile posts to one of the profiler's two addresses; refused tells that the
// server answered and did not do it.
func (s *session) profile(ctx context.Context, path string, limit time.Duration) (refused bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	base := strings.TrimSuffix(strings.TrimRight(s.cfg.Target.BaseURL, "/"), "/v1")
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+path, nil)
	if err != nil {
		return false, err
	}
	req.Header = s.client.Headers()
	res, err := s.client.HTTP().Do(req)
	if err != nil {
		return false, err
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body) // to use the connection again
	switch {
	case res.StatusCode == http.StatusNotFound:
		return true, fmt.Errorf("%s: HTTP 404: the server was not started with a profiler's configuration (--profiler-config)", path)
	case res.StatusCode != http.StatusOK:
		return true, fmt.Errorf("%s: HTTP %d", path, res.StatusCode)
	}
	return false, nil
}
