package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/servebench/servebench/loadgen/openai"
)

// check looks at flags that go together.
func (o *options) check(r *reader) {
	c := &o.config
	if c.Tokenizer != "" && c.NoTokenizer {
		r.badf("tokenizer", "named beside --skip-tokenizer-init; want one of the two")
	}
	o.checkRamp(r)
	o.checkDataset(r)
	o.checkPages(r)
}

// checkRamp holds vLLM's rules for a growing rate.
func (o *options) checkRamp(r *reader) {
	ramp := o.config.Ramp
	if ramp == nil {
		return
	}
	if !o.config.Rate.IsInf() {
		r.badf("request-rate", "%s beside --ramp-up-strategy, which sets the rate; want one of the two", o.config.Rate)
	}
	for _, end := range []string{"ramp-up-start-rps", "ramp-up-end-rps"} {
		if !r.given(end) {
			r.badf("ramp-up-strategy", "%s, without --%s; want both --ramp-up-start-rps and --ramp-up-end-rps", ramp.Strategy, end)
			return
		}
		if v := r.finite(end); v < 0 {
			r.badf(end, "%v; want 0 or more", v)
		}
	}
	switch {
	case ramp.Start > ramp.End:
		r.badf("ramp-up-start-rps", "%v is above --ramp-up-end-rps %v; want the smaller one first", ramp.Start, ramp.End)
	case ramp.End == 0:
		r.badf("ramp-up-end-rps", "0 sends nothing; want a number above 0")
	case ramp.Strategy == "exponential" && ramp.Start == 0:
		r.badf("ramp-up-start-rps", "0 never grows by --ramp-up-strategy exponential; want a number above 0, or linear")
	}
}

// checkDataset holds what a data set asks of the other flags.
func (o *options) checkDataset(r *reader) {
	c := &o.config
	name := c.Dataset.Name
	if slices.Contains(setsMade, name) && c.Dataset.Path != "" {
		r.badf("dataset-path", "--dataset-name %s makes its prompts and reads no file; want --dataset-name sharegpt, custom, hf or another that does", name)
	}
	if c.NoTokenizer && !slices.Contains(setsUncounted, name) {
		r.badf("skip-tokenizer-init", "--dataset-name %s needs a tokenizer; want one of %s without", name, strings.Join(setsUncounted, ", "))
	}
	images := c.API() == openai.Chat || c.API() == openai.EmbeddingsChat && name == "custom_image"
	if (name == "random-mm" || name == "custom_image") && !images {
		r.badf("dataset-name", "%s sends images, which --backend %s does not take; want --backend openai-chat", name, c.Backend)
	}
	if name == "timed_trace" && c.API() != openai.Completions {
		r.badf("dataset-name", "timed_trace sends token ids, which --backend %s does not take; want --backend vllm or openai", c.Backend)
	}
	if name == "timed_trace" && c.Ramp != nil && !c.IgnoreTimes {
		r.badf("ramp-up-strategy", "the times of timed_trace are its own; want --no-self-timed with it")
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
	} else if c.TemplateKwargs != nil && c.Dataset.Chat {
		without("chat-template-kwargs", `the server renders the template of --backend %s; want --extra-body '{"chat_template_kwargs": {...}}'`, c.Backend)
	}
	for _, end := range []string{"ramp-up-start-rps", "ramp-up-end-rps"} {
		if c.Ramp == nil && r.given(end) {
			without(end, "there is no --ramp-up-strategy")
		}
	}
	if len(c.LoRA) == 0 && r.given("lora-assignment") {
		without("lora-assignment", "there are no --lora-modules")
	}
	if timed := c.Dataset.Name == "timed_trace" && !c.IgnoreTimes; timed && !c.Rate.IsInf() {
		without("request-rate", "timed_trace has times of its own; --no-self-timed sends by the rate")
	}
	if !o.plotTimeline && r.given("timeline-itl-thresholds") {
		without("timeline-itl-thresholds", "there is no --plot-timeline")
	}
}

// notes are said before the run.
func (o *options) notes() (out []string) {
	c := &o.config
	if c.Sampling.Temperature == nil && c.API().Generates() {
		out = append(out, "no --temperature: the server's default decides how tokens are chosen")
	}
	out = append(out, o.remarks...)
	if !o.saving && !o.appending && (o.filename != "" || o.dir != "") {
		out = append(out, "no --save-result: --result-dir and --result-filename save nothing")
	}
	if c.Subject != nil && !o.saving && !o.appending && o.manifest == "" {
		out = append(out, "no --save-result and no --manifest: --subject is not used")
	}
	if o.dryRun && c.Model == "" {
		out = append(out, "no --model: a run takes the server's name for it, so its bodies and their digest differ")
	}
	if c.Strict {
		f := openai.Format{Sampling: c.Sampling, IgnoreEOS: c.IgnoreEOS}
		if names := f.Foreign(); len(names) > 0 {
			out = append(out, "--strict-openai: not sent: "+strings.Join(names, ", "))
		}
	}
	return out
}
