// SPDX-License-Identifier: MIT

package migrate

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/hermes-appliance/hermes-appliance/appliance/dotenv"
	"github.com/hermes-appliance/hermes-appliance/migrate/yamlspan"
)

// The files of a home that a migration may change.
const (
	FileConfig = "config.yaml"
	FileEnv    = ".env"
	FileSoul   = "SOUL.md"
)

// Input is what a plan is made from. Planning only reads these values.
type Input struct {
	Config []byte // nil = there is no config.yaml
	Env    []byte // nil = there is no .env
	Soul   []byte // nil = there is no SOUL.md
	Admin  []byte // the administrator's config.yaml, nil = none

	// ConfigOnly says that there is no home around the config: steps that need other files
	// say so instead of doing their part.
	ConfigOnly bool
	// Plugins returns the names of the plugins installed in the home. nil = none.
	Plugins func() ([]string, error)
	// Getenv looks up the environment the gateway would inherit. nil = empty.
	Getenv func(string) string

	Name string // of the config file in errors; "" = config.yaml
}

// Options choose how far to go.
type Options struct {
	To     int // 0 = the latest version
	Assume int // version to assume for a file without a stamp; 0 = none
}

// Action is what happens to a key.
type Action string

// The actions.
const (
	Removed  Action = "removed"
	Changed  Action = "changed"
	Added    Action = "added"
	Renamed  Action = "renamed"
	Moved    Action = "moved"
	Restored Action = "restored"
)

// Change is one difference that a step makes. Old and New show values of the planned keys
// only, never a secret.
type Change struct {
	Step   int      `json:"step"` // 0 = the stamp
	ID     string   `json:"id"`
	File   string   `json:"file"`
	Path   []string `json:"path"`
	Action Action   `json:"action"`
	Old    string   `json:"old,omitempty"`
	New    string   `json:"new,omitempty"`
	Line   int      `json:"line,omitempty"` // 1-based, in the file as it is before the plan
	Reason string   `json:"reason"`
}

// Pin is a value that a step looked at and left as it is.
type Pin struct {
	Step  int      `json:"step"`
	ID    string   `json:"id"`
	File  string   `json:"file"`
	Path  []string `json:"path"`
	Value string   `json:"value"`
	Line  int      `json:"line,omitempty"`
	Why   string   `json:"why"`
}

// Plan is everything a migration would do to one home, and why.
type Plan struct {
	From    int  `json:"from"` // 0 = the file has no stamp
	Assumed bool `json:"assumed,omitempty"`
	To      int  `json:"to"`
	Missing bool `json:"missing,omitempty"` // there is no config.yaml, so there is nothing to do

	Changes    []Change `json:"changes"`
	Kept       []Pin    `json:"kept"`
	NotApplied []Change `json:"not_applied"` // what steps that were skipped would have done
	Skipped    []int    `json:"skipped"`     // steps that did not run because the file has no stamp
	Advice     []string `json:"advice"`

	edits []fileEdit
}

// fileEdit is the new content of one file.
type fileEdit struct {
	name     string
	old, new []byte
}

// Pending reports whether the plan changes any file.
func (p *Plan) Pending() bool { return len(p.edits) > 0 }

// DropContents forgets the files' contents, which are most of a plan's size. The plan can be
// reported after that, but neither shown as a diff nor applied.
func (p *Plan) DropContents() {
	for i := range p.edits {
		p.edits[i].old, p.edits[i].new = nil, nil
	}
}

// Config returns the config as the plan leaves it.
func (p *Plan) Config(in Input) []byte {
	for _, e := range p.edits {
		if e.name == FileConfig {
			return e.new
		}
	}
	return in.Config
}

// Plan works out what the ladder does to a home. It is a pure function: nothing is written,
// and the same input gives the same plan. Refusals are [*Refusal]s.
func (l Ladder) Plan(in Input, o Options) (*Plan, error) {
	if in.Name == "" {
		in.Name = FileConfig
	}
	if err := l.has(o); err != nil {
		return nil, err
	}
	if o.To == 0 {
		o.To = l.Latest()
	}
	p := &Plan{To: o.To, Changes: []Change{}, Kept: []Pin{}, NotApplied: []Change{}, Skipped: []int{}, Advice: []string{}}
	if in.Config == nil {
		p.From, p.Missing = o.To, true
		return p, nil
	}
	w := &work{in: in, plan: p, soul: in.Soul}
	if err := w.open(); err != nil {
		return nil, err
	}
	if err := w.start(l, o); err != nil {
		return nil, err
	}
	if err := w.climb(l, o); err != nil {
		return nil, err
	}
	if err := w.prove(); err != nil {
		return nil, err
	}
	w.collect()
	w.settle()
	w.shadowed()
	return p, nil
}

// has refuses versions that no step leads to: stamped into a file, one beyond the latest
// would hide every step to come.
func (l Ladder) has(o Options) error {
	for _, v := range []int{o.To, o.Assume} {
		if _, ok := l.Step(v); !ok && v != 0 {
			return fmt.Errorf("version %d: the ladder goes from %d to %d", v, Floor, l.Latest())
		}
	}
	return nil
}

// open reads the documents.
func (w *work) open() error {
	doc, err := yamlspan.Parse(w.in.Config)
	if err != nil {
		return ambiguous(w.in.Name, err)
	}
	if r := doc.Root(); r != nil && r.Kind != yamlspan.Mapping {
		return &Refusal{
			Kind: ErrAmbiguous, File: w.in.Name, Line: doc.Line(r.Start),
			Msg: "the file holds a " + r.Kind.String() + "; expected a mapping of keys", Fix: "restore a config with keys, or remove the file to start from defaults",
		}
	}
	w.doc = doc
	if w.in.Env == nil || w.in.ConfigOnly {
		return nil
	}
	if w.env, err = dotenv.Parse(w.in.Env); err != nil {
		// Only a step that needs the file fails for it (O#76798).
		w.env, w.envErr = nil, &Refusal{Kind: ErrAmbiguous, File: FileEnv, Msg: err.Error(), Fix: "nothing was changed"}
	}
	return nil
}

// climb runs the steps and writes the stamp.
func (w *work) climb(l Ladder, o Options) error {
	before, err := yamlspan.ReadTree(w.in.Config)
	if err != nil {
		return ambiguous(w.in.Name, err)
	}
	if err := w.doc.Agrees(before); err != nil {
		return ambiguous(w.in.Name, err)
	}
	w.before, w.model = before, before.Clone()
	for _, s := range l.steps {
		if s.To > o.To {
			break
		}
		w.step = s
		switch {
		case w.plan.From == 0 && !s.LegacyKey:
			if err := w.skip(s); err != nil {
				return err
			}
		case w.plan.From >= s.To && !s.AnyStamp, s.run == nil:
		default:
			if err := s.run(w); err != nil {
				return w.failed(err)
			}
		}
	}
	return w.stamp(o.To)
}

// failed names the step that could not be done. Nothing of the plan is carried out then: a
// home is never stamped past work that failed (H#119658).
func (w *work) failed(err error) error {
	if own, ok := errors.AsType[*Refusal](err); ok {
		return own // names its file itself
	}
	r := ambiguous(w.in.Name, err)
	r.Msg = fmt.Sprintf("step %s: %s", w.step.ID, r.Msg)
	if r.Line > 0 {
		r.Line = w.originLine(r.Line)
	}
	return r
}

// skip finds out what a step would have done to a file without a stamp, and lists it.
func (w *work) skip(s Step) error {
	w.plan.Skipped = append(w.plan.Skipped, s.To)
	if s.run == nil {
		return nil
	}
	probe := &work{in: w.in, doc: w.doc, model: w.model.Clone(), env: w.env, soul: w.soul, step: s, plan: &Plan{}}
	if err := s.run(probe); err != nil {
		return nil //nolint:nilerr // a step that does not run cannot fail the plan
	}
	for _, c := range probe.plan.Changes {
		c.Reason = "not applied: no provenance, the file has no version"
		w.plan.NotApplied = append(w.plan.NotApplied, c)
	}
	return nil
}

// collect gathers the files that differ. config.yaml comes last: it carries the stamp.
func (w *work) collect() {
	add := func(name string, old, now []byte) {
		if !bytes.Equal(old, now) {
			now = append([]byte{}, now...) // not nil: a file of which nothing is left is still there
			w.plan.edits = append(w.plan.edits, fileEdit{name, old, now})
		}
	}
	if w.env != nil {
		add(FileEnv, w.in.Env, w.env.Bytes())
	}
	add(FileSoul, w.in.Soul, w.soul)
	add(FileConfig, w.in.Config, w.doc.Bytes())
}

// settle takes values out of Kept that another step changed: what one step took for a
// choice can be what an earlier version wrote, or what this plan put there.
func (w *work) settle() {
	w.plan.Kept = slices.DeleteFunc(w.plan.Kept, func(k Pin) bool {
		return slices.ContainsFunc(w.plan.Changes, func(c Change) bool {
			return c.File == k.File && c.Step != k.Step && slices.Equal(c.Path, k.Path)
		})
	})
}

// advise adds a line for the person to act on.
func (w *work) advise(format string, args ...any) {
	w.plan.Advice = append(w.plan.Advice, fmt.Sprintf(format, args...))
}

// shadowed tells which of the keys at hand an administrator decides. Nothing of the user's
// is stripped for that.
func (w *work) shadowed() {
	if w.in.Admin == nil {
		return
	}
	admin, err := yamlspan.Parse(w.in.Admin)
	if err != nil {
		w.advise("the administrator's config cannot be read (%v); it is ignored here", err)
		return
	}
	seen := map[string]bool{}
	look := func(path []string) {
		name := yamlspan.PathString(path)
		if _, ok := admin.Find(path...); ok && !seen[name] && path[0] != stampKey {
			seen[name] = true
			w.advise("%s is decided by the administrator's config; the value in your file has no effect while that stands", name)
		}
	}
	for _, c := range w.plan.Changes {
		if c.File == FileConfig {
			look(c.Path)
		}
	}
	for _, k := range w.plan.Kept {
		look(k.Path)
	}
}
