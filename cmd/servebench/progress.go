package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/servebench/servebench/bench"
)

// showProgress shows how far a run is until the returned function is called: a
// bar on a terminal, a plain line now and then elsewhere.
func showProgress(w io.Writer, p *bench.Progress, quiet bool) (hide func()) {
	if quiet {
		return func() {}
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		if isTerminal(w) && hasWidth(w) {
			showBar(w, p, done)
		} else {
			showLines(w, p, done)
		}
	})
	return func() { close(done); wg.Wait() }
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	st, err := f.Stat()
	null, nullErr := os.Stat(os.DevNull)
	return err == nil && st.Mode()&os.ModeCharDevice != 0 && (nullErr != nil || !os.SameFile(st, null))
}

// meter turns counts into rates.
type meter struct {
	phase  string
	since  time.Time
	events int64
}

// read returns the state in words; changed tells that a new phase began.
func (m *meter) read(p *bench.Progress) (total, done int64, text string, changed bool) {
	total, done, failed, events := p.Counts()
	if phase := p.Phase(); phase != m.phase {
		m.phase, m.since, m.events, changed = phase, time.Now(), events, true
	}
	elapsed := time.Since(m.since).Seconds()
	if total == 0 {
		return 0, 0, time.Duration(elapsed * float64(time.Second)).Round(time.Second).String(), changed
	}
	if elapsed > 0 {
		text = fmt.Sprintf("%.0f tok/s", float64(events-m.events)/elapsed)
	}
	if failed > 0 {
		text += fmt.Sprintf(", %d failed", failed)
	}
	if span := p.Span(); span > 0 {
		text += fmt.Sprintf(", the last due at %v", span.Round(time.Second))
	} else if done > 0 && done < total {
		left := time.Duration(elapsed / float64(done) * float64(total-done) * float64(time.Second))
		text += fmt.Sprintf(", %v left", left.Round(time.Second))
	}
	return total, done, text, changed
}

func showBar(w io.Writer, p *bench.Progress, done <-chan struct{}) {
	var m meter
	var shown atomic.Pointer[[2]string] // phase and text: the bar draws in a goroutine of its own
	shown.Store(new([2]string))
	part := func(i int, format string) decor.Decorator {
		return decor.Any(func(decor.Statistics) string { return fmt.Sprintf(format, shown.Load()[i]) })
	}
	box := mpb.New(mpb.WithOutput(w), mpb.WithWidth(40), mpb.WithRefreshRate(200*time.Millisecond))
	bar := box.AddBar(0,
		mpb.BarRemoveOnComplete(),
		mpb.PrependDecorators(part(0, "%-11s "), decor.CountersNoUnit("%d/%d ")),
		mpb.AppendDecorators(part(1, " %s")))
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			total, n, text, _ := m.read(p)
			shown.Store(&[2]string{m.phase, text})
			bar.SetTotal(total, false)
			bar.SetCurrent(n)
		case <-done:
			bar.Abort(true)
			box.Wait()
			return
		}
	}
}

// lineEvery is how often a plain line tells of a phase that goes on.
const lineEvery = 10 * time.Second

func showLines(w io.Writer, p *bench.Progress, done <-chan struct{}) {
	var m meter
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case <-tick.C:
			total, n, text, changed := m.read(p)
			switch {
			case changed && total > 0:
				due := ""
				if span := p.Span(); span > 0 {
					due = fmt.Sprintf(", the last due after %v", span.Round(time.Millisecond))
				}
				fmt.Fprintf(w, "servebench: %s: %d requests%s\n", m.phase, total, due)
			case changed && m.phase != "results":
				fmt.Fprintf(w, "servebench: %s\n", m.phase)
			case time.Since(last) >= lineEvery && total > 0:
				fmt.Fprintf(w, "servebench: %s: %d/%d, %s\n", m.phase, n, total, text)
			case time.Since(last) >= lineEvery && m.phase != "":
				fmt.Fprintf(w, "servebench: %s: %s\n", m.phase, text)
			default:
				continue
			}
			last = time.Now()
		case <-done:
			return
		}
	}
}
