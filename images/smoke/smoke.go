// SPDX-License-Identifier: MIT

// Package smoke proves a built sandbox image: it runs a container of it as the gateway does
// and goes, as the desktop's user, through everything that the sandbox is for, up to a browser
// on the screen and a start after a crash. It reports each step with its verdict and time, and
// every stand-in as one. It never changes the image, never needs a network, and leaves no
// container behind.
package smoke

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hermes-appliance/hermes-appliance/images"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
)

// Verdict is how a step, or the whole, ended.
type Verdict string

// The verdicts. A step that stands on a failed one is skipped.
const (
	Pass Verdict = "pass"
	Fail Verdict = "fail"
	Skip Verdict = "skip"
)

// Schema is that of [Report].
const Schema = 1

// Report is what is known of an image after a smoke. Publishing demands one that passed.
type Report struct {
	Schema   int                `json:"schema"`
	Digest   string             `json:"digest"` // the image's ID: the digest of its config, or of its manifest in an engine with a content store
	Image    string             `json:"image"`
	Arch     string             `json:"arch"`
	Engine   string             `json:"engine"`
	Verdict  Verdict            `json:"verdict"`
	Seconds  float64            `json:"seconds"`
	Steps    []Step             `json:"steps"`
	Versions map[string]string  `json:"versions"`
	Sizes    map[string]int64   `json:"sizes"`   // bytes: the image and its layers
	Figures  map[string]float64 `json:"figures"` // seconds, threads, bytes of memory
	StandIns []string           `json:"stand_ins"`
}

// Step is one part of the proof.
type Step struct {
	Name    string  `json:"name"`
	Verdict Verdict `json:"verdict"`
	Seconds float64 `json:"seconds"`
	Detail  string  `json:"detail,omitempty"` // what was seen, or what went wrong
}

// Failed returns the first step that failed, or nil.
func (r *Report) Failed() *Step {
	for i := range r.Steps {
		if r.Steps[i].Verdict == Fail {
			return &r.Steps[i]
		}
	}
	return nil
}

// Options say how to prove.
type Options struct {
	Artifacts string            // directory for screen.png and launcher.log; "" = none are kept
	Labels    map[string]string // of the container, beside our own
	Progress  io.Writer         // one line a step

	parts time.Duration // in the place of partsTime; 0 = that
}

// label marks our containers.
const label = "hermes-appliance"

// run is a smoke under way.
type run struct {
	o      Options
	box    *images.Container
	desk   desk
	report *Report
}

// step is a part of the proof with what it stands on.
type step struct {
	name  string
	needs string        // the step that must have passed; "" = none
	limit time.Duration // after which it has failed
	do    func(*run, context.Context) (detail string, err error)
}

// How long the desktop's parts are waited for, and the end of them. These and the limits are for machines that
// have much else to do: how fast a desktop is, the figures say.
const (
	partsTime = 2 * time.Minute
	endTime   = 30 * time.Second
)

func steps() []step {
	return []step{
		{"confinement", "", 2 * time.Minute, (*run).confinement},
		{"user", "", 2 * time.Minute, (*run).user},
		{"binaries", "", 4 * time.Minute, (*run).binaries},
		{"compilers", "", 4 * time.Minute, (*run).compilers},
		{"display", "", 4 * time.Minute, (*run).display},
		{"rfb", "display", 2 * time.Minute, (*run).handshake},
		{"second-user", "display", 2 * time.Minute, (*run).secondUser},
		{"chromium", "display", 3 * time.Minute, (*run).chromium},
		{"computer-use", "chromium", 2 * time.Minute, (*run).computerUse},
		{"agent-browser", "", 4 * time.Minute, (*run).agentBrowser},
		{"screenshot", "rfb", 2 * time.Minute, (*run).screenshot},
		{"stop", "display", 2 * time.Minute, (*run).stop},
		{"crash", "stop", 6 * time.Minute, (*run).crash},
		{"stop-again", "crash", 2 * time.Minute, (*run).stop},
	}
}

// Run proves an image that the engine has. An error means that no verdict was reached; a
// verdict of fail is none.
func Run(ctx context.Context, e *images.Engine, image string, o Options) (Report, error) {
	return prove(ctx, e, image, o, steps())
}

func prove(ctx context.Context, e *images.Engine, image string, o Options, list []step) (r Report, err error) {
	begin := time.Now()
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	if o.parts == 0 {
		o.parts = partsTime
	}
	if o.Artifacts != "" {
		//nolint:gosec // a report is there to be read
		if err := os.MkdirAll(o.Artifacts, 0o755); err != nil {
			return r, err
		}
	}
	stored, err := e.Image(ctx, image)
	if err != nil {
		return r, err
	}
	r = Report{
		Schema: Schema, Digest: stored.ID, Image: image, Arch: stored.Arch, Engine: e.Version, Verdict: Pass,
		Versions: map[string]string{}, Sizes: map[string]int64{"image": stored.Size}, Figures: map[string]float64{}, StandIns: []string{},
	}
	r.labelled(stored.Labels)
	labels := map[string]string{label: "smoke"}
	maps.Copy(labels, o.Labels)
	box, err := e.Confine(ctx, stored.ID, labels)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, box.Remove(context.WithoutCancel(ctx))) }()
	s := &run{o: o, box: box, desk: desk{box: box}, report: &r}
	for _, st := range list {
		if err := s.take(ctx, st); err != nil {
			return r, err
		}
	}
	r.Seconds = time.Since(begin).Seconds()
	return r, s.keep(context.WithoutCancel(ctx), "launcher.log")
}

// labelled notes the stand-ins that the image says it has. What the image says is not
// believed of its driver, which says it once more itself.
func (r *Report) labelled(labels map[string]string) {
	if labels["io.hermes-appliance.browser"] == "debian" {
		r.StandIns = append(r.StandIns, "chromium")
	}
	if labels["io.hermes-appliance.cua-driver"] == "standin" {
		r.standIn("cua-driver")
	}
}

func (r *Report) standIn(name string) {
	if !slices.Contains(r.StandIns, name) {
		r.StandIns = append(r.StandIns, name)
	}
}

// verdict returns that of a step taken before.
func (r *Report) verdict(name string) Verdict {
	for _, s := range r.Steps {
		if s.Name == name {
			return s.Verdict
		}
	}
	return Skip
}

// take takes one step. An error is only that the whole was interrupted.
func (s *run) take(ctx context.Context, st step) error {
	done := Step{Name: st.name, Verdict: Skip}
	if st.needs != "" && s.report.verdict(st.needs) != Pass {
		done.Detail = st.needs + " did not pass"
	} else {
		begin := time.Now()
		limited, cancel := context.WithTimeoutCause(ctx, st.limit, fmt.Errorf("not done after %s", st.limit))
		detail, err := st.do(s, limited)
		cancel()
		done.Verdict, done.Detail, done.Seconds = Pass, detail, time.Since(begin).Seconds()
		if err != nil {
			done.Verdict, done.Detail = Fail, strings.TrimSpace(err.Error())
			s.report.Verdict = Fail
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	s.report.Steps = append(s.report.Steps, done)
	_, err := fmt.Fprintf(s.o.Progress, "%-4s %-13s %5.1fs  %s\n", done.Verdict, done.Name, done.Seconds, firstLine(done.Detail))
	return err
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// keep copies a file of the desktop to the artefacts, if there is one.
func (s *run) keep(ctx context.Context, name string) error {
	if s.o.Artifacts == "" {
		return nil
	}
	out, err := s.box.Exec(ctx, images.Command{User: deskUser, Argv: []string{"cat", deskDir + "/" + name}})
	if err != nil || out.Code != 0 {
		return err
	}
	return atomicfile.Writer{}.Write(filepath.Join(s.o.Artifacts, name), []byte(out.Stdout), atomicfile.Options{Mode: 0o644})
}

// sh runs a script as the desktop's user and returns its output; a code other than 0 is an
// error that says what it printed.
func (s *run) sh(ctx context.Context, env []string, script string, args ...string) (string, error) {
	argv := append([]string{"bash", "-euo", "pipefail", "-c", script, "smoke"}, args...)
	out, err := s.box.Exec(ctx, images.Command{User: deskUser, Env: env, Argv: argv})
	if err == nil && out.Code != 0 {
		err = fmt.Errorf("exit %d: %s", out.Code, strings.TrimSpace(out.Stdout+"\n"+out.Stderr))
	}
	return strings.TrimSpace(out.Stdout), err
}
