package main

import (
	"crypto/rand"
	"slices"
	"time"

	"github.com/servebench/servebench/bench/sweep"
	"github.com/servebench/servebench/manifest"
)

// encodeSweep is the manifest of an experiment, and as it is written.
func encodeSweep(e sweep.Experiment, outcomes []sweep.Outcome) (*manifest.Experiment, []byte, error) {
	// They were there at the start: for one that is gone nothing measured is lost.
	files, missing := sweep.Evidence(e.About.ArtifactFiles)
	w := sweep.Writing{At: time.Now(), Artifacts: files, Redactor: experimentRedactor(&e)}
	rand.Read(w.Random[:]) // never fails
	doc, err := sweep.Document(e, outcomes, w)
	if err != nil {
		return nil, nil, err
	}
	if missing != nil {
		doc.PublisherNotes.Warnings = append(doc.PublisherNotes.Warnings, "Not all files of the author's could be read.")
	}
	text, err := manifest.Encode(doc)
	return doc, text, err
}

// experimentRedactor knows what must not be published of any point.
func experimentRedactor(e *sweep.Experiment) *manifest.Redactor {
	all := localRedactor(nil)
	for i := range e.Points {
		r := publicRedactor(&e.Points[i].Config, e.Points[i].Server)
		all.Secrets, all.HostNames = append(all.Secrets, r.Secrets...), append(all.HostNames, r.HostNames...)
	}
	for _, list := range []*[]string{&all.Secrets, &all.HostNames} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return all
}
