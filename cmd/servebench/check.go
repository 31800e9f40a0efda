package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/servebench/servebench/loadgen/openai"
)

// check looks at flags that go together.
func (o *options) check(r *reader) {
	o.checkRamp(r)
	o.checkDataset(r)
}

// checkRamp holds what of vLLM's rules for a growing rate bench.Config cannot see.
func (o *options) checkRamp(r *reader) {
	ramp := o.config.Ramp
	if ramp == nil {
		return
	}
	for _, end := range []string{"ramp-up-start-rps", "ramp-up-end-rps"} {
		if !r.given(end) {
			r.badf("ramp-up-strategy", "%s, without --%s; want both --ramp-up-start-rps and --ramp-up-end-rps", ramp.Strategy, end)
			return
		}
	}
}

// checkDataset holds what a data set asks of the other flags.
func (o *options) checkDataset(r *reader) {
	c := &o.config
	name := c.Dataset.Name
	if c.NoTokenizer && !slices.Contains(setsUncounted, name) {
		r.badf("skip-tokenizer-init", "--dataset-name %s needs a tokenizer; want one of %s without", name, strings.Join(setsUncounted, ", "))
	}
	if name != "timed_trace" && r.given("self-timed") {
		r.badf("self-timed", "--dataset-name %s has no times of its own; want timed_trace, or neither --self-timed nor --no-self-timed", name)
	}
	if c.Dataset.Hub.MinDistance > c.Dataset.Hub.MaxDistance {
		r.badf("blazedit-min-distance", "%v is above --blazedit-max-distance %v", c.Dataset.Hub.MinDistance, c.Dataset.Hub.MaxDistance)
	}
}

// remark tells of flags that were given and change nothing here, and takes the values
// out that vLLM would not send either.
func (o *options) remark(r *reader) {
	c := &o.config
	without := func(flag, format string, args ...any) {
		o.remarks = append(o.remarks, fmt.Sprintf("--%s has no effect: %s", flag, fmt.Sprintf(format, args...)))
	}
	for _, s := range serveFlags() {
		switch {
		case !r.given(s.Name) || s.Arity == arityNone && !r.c.Bool(s.Name):
		case s.Use == accepted:
			without(s.Name, "%s", s.Why)
		case s.Sets != nil && !slices.Contains(s.Sets, c.Dataset.Name) && s.Arity != arityToggle: // checked above
			without(s.Name, "--dataset-name %s does not read it", c.Dataset.Name)
		}
	}
	if c.Logprobs != nil && c.API() != openai.Completions {
		c.Logprobs = nil
		without("logprobs", "--backend %s asks for none, as in vLLM's client; --extra-body can", c.Backend)
	}
	if !c.API().Generates() {
		c.Sampling = openai.Sampling{}
		for _, s := range serveFlags() {
			if s.Group == inSampling && s.Unset == "the server's" && r.given(s.Name) {
				without(s.Name, "--backend %s generates nothing", c.Backend)
			}
		}
	}
	if !slices.Contains(setsKwargs, c.Dataset.Name) {
		c.TemplateKwargs = nil // told above
	} else if c.TemplateKwargs != nil && c.API().Renders() {
		without("chat-template-kwargs", `the server renders the template of --backend %s; want --extra-body '{"chat_template_kwargs": {...}}'`, c.Backend)
	}
	for _, end := range []string{"ramp-up-start-rps", "ramp-up-end-rps"} {
		if c.Ramp == nil && r.given(end) {
			without(end, "there is no --ramp-up-strategy")
		}
	}
	if c.Tokenizer != "" && c.NoTokenizer {
		without("tokenizer", "--skip-tokenizer-init uses none")
		c.Tokenizer = ""
	}
	for _, flag := range []string{"telemetry-interval", "telemetry-devices"} {
		if !c.Telemetry.GPU && r.given(flag) {
			without(flag, "there is no --telemetry-gpu")
		}
	}
	if len(c.LoRA) == 0 && r.given("lora-assignment") {
		without("lora-assignment", "there are no --lora-modules")
	}
	if c.Traced() && !c.Rate.IsInf() {
		without("request-rate", "timed_trace has times of its own; --no-self-timed sends by the rate")
	}
	if !o.plotTimeline && r.given("timeline-itl-thresholds") {
		without("timeline-itl-thresholds", "there is no --plot-timeline")
	}
}

// namelessPlan is a note on a plan whose bodies lack the model.
const namelessPlan = "no --model: a run asks the server for its name; the body shown has none, and the sha256 of the run will be another"

// notes are said before the run.
func (o *options) notes() (out []string) {
	c := &o.config
	if c.Sampling.Temperature == nil && c.API().Generates() {
		out = append(out, "no --temperature: the server's default decides how tokens are chosen")
	}
	out = append(out, o.remarks...)
	if !o.saving && !o.appending && !o.plotTimeline && !o.plotStats && (o.filename != "" || o.dir != "") {
		out = append(out, "no --save-result: --result-dir and --result-filename save nothing")
	}
	if o.subject != "" && !o.saving && !o.appending && o.manifest == "" {
		out = append(out, "no --save-result and no --manifest: --subject is not used")
	}
	if o.dryRun && c.Model == "" {
		out = append(out, namelessPlan)
	}
	if c.Strict {
		f := openai.Format{Sampling: c.Sampling, IgnoreEOS: c.IgnoreEOS}
		if names := f.Foreign(); len(names) > 0 {
			out = append(out, "--strict-openai: not sent: "+strings.Join(names, ", "))
		}
	}
	return out
}
