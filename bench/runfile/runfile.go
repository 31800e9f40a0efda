// Package runfile reads the YAML files that describe a run and an experiment.
package runfile
