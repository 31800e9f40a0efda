package main

import (
	"errors"

	"github.com/servebench/servebench/bench"
)

// errNoPages is what --plot-timeline and --plot-dataset-stats answer.
var errNoPages = errors.New("the page is not built yet")

// checkPages refuses what writePages cannot write.
func (o *options) checkPages(r *reader) {
	if o.plotTimeline {
		r.badf("plot-timeline", "%v", errNoPages)
	}
	if o.plotStats {
		r.badf("plot-dataset-stats", "%v", errNoPages)
	}
}

// writePages writes the pages that were asked for and returns their names. The
// timeline has o.thresholds.
func (o *options) writePages(*bench.Result) ([]string, error) { return nil, errNoPages }
