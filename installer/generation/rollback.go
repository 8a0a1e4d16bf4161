// SPDX-License-Identifier: MIT

package generation

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/migrate"
)

// Plan is what a rollback would do.
type Plan struct {
	Target     Manifest     `json:"target"`
	Changes    []Difference `json:"changes"` // from what is now to the target
	ConfigDiff string       `json:"config_diff,omitempty"`
	// Edited are files that were changed since the last generation was recorded. Without force
	// nothing is done about them.
	Edited []Edit   `json:"edited"`
	Notes  []string `json:"notes"`

	t target
}

// Edit is a file that is not what the last generation recorded.
type Edit struct {
	Path string `json:"path"`
	Copy string `json:"copy"` // what was recorded; "" = there was no such file
}

// PlanRollback plans the way to a generation and changes nothing. The error is a [*Refusal]
// where it cannot be gone at all.
func (a Activation) PlanRollback(ctx context.Context, n int, force bool) (Plan, error) {
	p := Plan{Edited: []Edit{}, Notes: []string{}, Changes: []Difference{}}
	all, err := a.List()
	if err != nil {
		return p, err
	}
	if p.Target, err = a.Load(n); err != nil {
		return p, err
	}
	last := all[len(all)-1]
	now, err := a.observe(a.Seen, &last)
	if err != nil {
		return p, err
	}
	p.Edited = a.edits(last, now)
	p.t = target{reason: Rollback, number: n, binary: now.Binary, earlier: p.Target, force: force}
	if err := a.planProgram(ctx, &p, now); err != nil {
		return p, err
	}
	if err := a.planConfig(&p, now); err != nil {
		return p, err
	}
	units, foreign, err := a.unitEdits(now.Manifest, p.Target)
	if err != nil || len(foreign) > 0 {
		return p, errors.Join(append(foreign, err)...)
	}
	p.t.units = units
	if len(p.t.units) > 0 && untrusted(a.root()) {
		return p, refuse(a.root(), "install the service again with that version of the program", "root takes no unit from a home that another user can write")
	}
	want := p.Target
	want.Sandbox.Digest = now.Sandbox.Digest // an image is not brought back, only its name
	if p.Target.Config.SHA256 == "" {
		want.Config = now.Config
	}
	p.Changes = differences(now.Manifest, want)
	return p, nil
}

// edits compares what is with what was recorded last.
func (a Activation) edits(last Manifest, now state) []Edit {
	out := []Edit{}
	if last.Config.SHA256 != now.Config.SHA256 {
		e := Edit{Path: a.Home.Config()}
		if last.Config.SHA256 != "" {
			e.Copy = a.ConfigCopy(last.Number)
		}
		out = append(out, e)
	}
	for i, u := range last.Units {
		found := false
		for _, x := range now.Units {
			found = found || x == u
		}
		if !found {
			out = append(out, Edit{u.Path, a.unitCopy(last.Number, i)})
		}
	}
	return out
}

func (a Activation) planProgram(ctx context.Context, p *Plan, now state) error {
	want := p.Target.Binary
	switch {
	case want.Path != now.Binary.Path:
		return refuse(now.Binary.Path, "run the rollback with "+want.Path, "generation %d ran another program, %s", p.Target.Number, want.Path)
	case want.SHA256 == now.Binary.SHA256:
		return nil
	}
	if err := Replaceable(ctx, want.Path); err != nil {
		return err
	}
	data, err := a.program(want)
	p.t.program, p.t.binary = data, want
	return err
}

func (a Activation) planConfig(p *Plan, now state) error {
	if p.Target.Config.SHA256 == "" {
		p.Notes = append(p.Notes, fmt.Sprintf("generation %d had no config.yaml; the present one stays", p.Target.Number))
		return nil
	}
	if p.Target.Config.SHA256 == now.Config.SHA256 {
		return nil
	}
	data, err := a.config(p.Target)
	if err != nil {
		return err
	}
	r, err := a.Migrator.PreviewReturn(a.Home, migrate.Earlier{Config: data, Beside: p.Target.Config.Beside, Force: p.t.force})
	if err != nil {
		return err
	}
	p.t.config = data
	if p.Target.Config.Stamp < migrate.Latest() && p.t.program == nil {
		p.Notes = append(p.Notes, fmt.Sprintf("this program runs no gateway on config version %d; it has to be migrated again first", p.Target.Config.Stamp))
	}
	p.Notes = append(p.Notes, r.Plan.Advice...)
	p.ConfigDiff, err = r.Plan.Diff()
	return err
}

// Rollback goes to a generation: units, config and program together. Files that were edited
// since are refused without force, and with it kept as a generation of their own. When the
// gateway does not come up on it, all is put back and the error is a [*FailedError].
func (a Activation) Rollback(ctx context.Context, n int, force bool) (Outcome, error) {
	return a.run(ctx, func() (target, error) {
		p, err := a.PlanRollback(ctx, n, force)
		if err != nil {
			return p.t, err
		}
		return p.t, p.Refused(force)
	})
}

// Refused is the [*Refusal] of a plan over edited files, nil if there is none.
func (p Plan) Refused(force bool) error {
	if len(p.Edited) == 0 || force {
		return nil
	}
	e := p.Edited[0]
	fix := "--force goes back all the same, and keeps the edited file as a generation of its own"
	if e.Copy != "" {
		fix = "what was recorded is in " + e.Copy + "; " + fix
	}
	return refuse(e.Path, fix, "was changed since the last generation was recorded")
}

// Nothing reports whether the home is at the target already.
func (p Plan) Nothing() bool { return len(p.Changes) == 0 }

// unitEdits is the way from the units of one generation to those of another. A unit that is
// neither stays as it is, and is named.
func (s Store) unitEdits(from, to Manifest) (out []unitEdit, foreign []error, err error) {
	have, want := map[string]string{}, map[string]string{}
	for _, u := range from.Units {
		have[u.Path] = u.SHA256
	}
	paths := map[string]bool{}
	for i, u := range to.Units {
		want[u.Path] = u.SHA256
		paths[u.Path] = true
		live, st, err := atomicfile.Read(u.Path)
		switch {
		case err != nil:
			return nil, nil, err
		case st.Exists && st.SHA256 == u.SHA256:
			continue
		case st.Exists && st.SHA256 != have[u.Path] || !st.Exists && have[u.Path] != "":
			foreign = append(foreign, fmt.Errorf("%s: %w and stays as it is; its old content is in %s", u.Path, migrate.ErrChanged, s.unitCopy(to.Number, i)))
			continue
		}
		data, err := s.intact(s.unitCopy(to.Number, i), u.SHA256)
		if err != nil {
			return nil, nil, err
		}
		if !st.Exists {
			live = nil
		}
		out = append(out, unitEdit{u.Path, live, data})
	}
	for _, u := range from.Units {
		if paths[u.Path] {
			continue
		}
		live, st, err := atomicfile.Read(u.Path)
		switch {
		case err != nil:
			return nil, nil, err
		case !st.Exists:
		case st.SHA256 != u.SHA256:
			foreign = append(foreign, fmt.Errorf("%s: %w and stays as it is", u.Path, migrate.ErrChanged))
		default:
			out = append(out, unitEdit{u.Path, live, nil})
		}
	}
	return out, foreign, nil
}

// untrusted reports whether this process is root and somebody else can write the directory.
func untrusted(dir string) bool {
	if os.Geteuid() != 0 {
		return false
	}
	info, err := os.Stat(dir)
	return err != nil || foreignOwner(info)
}
