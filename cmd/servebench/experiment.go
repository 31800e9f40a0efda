package main

import (
	"crypto/rand"
	"slices"
	"time"

	"github.com/servebench/servebench/bench/server"
	"github.com/servebench/servebench/bench/sweep"
	"github.com/servebench/servebench/manifest"
)

// encodeSweep is the manifest of an experiment as it is written.
func encodeSweep(e sweep.Experiment, outcomes []sweep.Outcome) ([]byte, error) {
	// They were there at the start: for one that is gone nothing measured is lost.
	files, missing := sweep.Evidence(e.About.ArtifactFiles)
	w := sweep.Writing{At: time.Now(), Artifacts: files, Redactor: experimentRedactor(&e)}
	rand.Read(w.Random[:]) // never fails
	doc, err := sweep.Document(e, outcomes, w)
	if err != nil {
		return nil, err
	}
	if missing != nil {
		doc.PublisherNotes.Warnings = append(doc.PublisherNotes.Warnings, "Not all files of the author's could be read.")
	}
	return manifest.Encode(doc)
}

// experimentRedactor knows what must not be published of any point.
func experimentRedactor(e *sweep.Experiment) *manifest.Redactor {
	all := localRedactor(nil)
	for i := range e.Points {
		r := e.Points[i].Config.Redactor()
		all.Secrets, all.HostNames = append(all.Secrets, r.Secrets...), append(all.HostNames, r.HostNames...)
		all.Secrets = append(all.Secrets, launchSecrets(e.Points[i].Server)...)
	}
	for _, list := range []*[]string{&all.Secrets, &all.HostNames} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return all
}

// launchSecrets are what a server's command and variables keep secret. Nobody has
// started it yet, and what it logs may repeat them.
func launchSecrets(c *server.Config) (secrets []string) {
	if c == nil {
		return nil
	}
	for _, l := range c.Launched() {
		secrets = append(secrets, l.Secrets()...)
	}
	return secrets
}
