package bench

import "github.com/servebench/servebench/manifest"

// Redactor knows what of this run and this machine must not be published.
func (r *Result) Redactor() *manifest.Redactor { return r.redactor() }
