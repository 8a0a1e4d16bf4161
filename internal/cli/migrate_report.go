// SPDX-License-Identifier: MIT

package cli

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
	"github.com/hermes-appliance/hermes-appliance/migrate"
	"github.com/hermes-appliance/hermes-appliance/migrate/yamlspan"
)

// migrateDoc is the result of migrate --json.
type migrateDoc struct {
	Latest int       `json:"latest"` // what this binary migrates to
	Homes  []homeDoc `json:"homes"`
}

type homeDoc struct {
	Profile   string        `json:"profile"`
	Home      string        `json:"home"`
	State     string        `json:"state"` // current, pending, migrated, rolled-back, failed
	Exit      int           `json:"exit"`
	Plan      *migrate.Plan `json:"plan,omitempty"`
	Recovered string        `json:"recovered,omitempty"`
	Backup    string        `json:"backup,omitempty"`
	Error     *errorDoc     `json:"error,omitempty"`
}

func (o *migrateOptions) state(out outcome) string {
	switch {
	case out.err != nil:
		return "failed"
	case out.Applied && o.rollback:
		return "rolled-back"
	case out.Applied:
		return "migrated"
	case out.Plan != nil && out.Plan.Pending():
		return "pending"
	}
	return "current"
}

func (o *migrateOptions) report(env Env, outcomes []outcome) error {
	if o.json {
		return o.reportJSON(env, outcomes)
	}
	var b strings.Builder
	for _, out := range outcomes {
		o.reportHome(&b, out, len(outcomes) > 1)
	}
	_, err := io.WriteString(env.Stdout, b.String())
	return err
}

func (o *migrateOptions) reportJSON(env Env, outcomes []outcome) error {
	doc := migrateDoc{Latest: migrate.Latest()}
	for _, out := range outcomes {
		doc.Homes = append(doc.Homes, homeDoc{
			Profile: out.Home.Profile, Home: out.Home.Dir, State: o.state(out), Exit: int(exitcode.Of(out.err)), Plan: out.Plan,
			Recovered: out.Recovered, Backup: out.Backup, Error: describe(out.err),
		})
	}
	exit := int(exitcode.Of(o.verdict(outcomes)))
	return printJSON(env.Stdout, envelope{Schema: schemaVersion, Command: "migrate", Exit: exit, Result: doc})
}

// reportHome prints one home. many adds its error, which is otherwise printed at the end.
func (o *migrateOptions) reportHome(b *strings.Builder, out outcome, many bool) {
	p := out.Plan
	if o.quiet && out.err == nil && out.Recovered == "" && (p == nil || !p.Pending()) {
		return
	}
	fmt.Fprintf(b, "%s: %s\n", out.Home.Profile, o.headline(out))
	if out.Recovered != "" {
		fmt.Fprintf(b, "  %s\n", out.Recovered)
	}
	if p != nil {
		writePlan(b, p)
		b.WriteString(indent(out.diff))
	}
	if out.Applied && !o.rollback {
		fmt.Fprintf(b, "  backup: %s\n", filepath.Base(out.Backup))
		fmt.Fprintf(b, "  to go back: %s migrate --rollback --home %s\n", Name, out.Home.Dir)
	}
	if many && out.err != nil {
		fmt.Fprintf(b, "  error: %v\n", out.err)
	}
}

// headline says in one line what became of a home.
func (o *migrateOptions) headline(out outcome) string {
	p := out.Plan
	if p == nil {
		if out.err != nil {
			return "not migrated"
		}
		return "nothing to do"
	}
	if p.Missing {
		return "no " + out.Home.Config() + ", nothing to do"
	}
	span := fmt.Sprintf("config version %d", p.To)
	switch {
	case p.From == 0:
		span = fmt.Sprintf("config without a version -> %d", p.To)
	case p.From != p.To:
		span = fmt.Sprintf("config version %d -> %d", p.From, p.To)
	}
	switch {
	case !p.Pending():
		return span + ", nothing to do"
	case out.Applied && out.err != nil:
		return span + ", written, but see the error"
	case out.err != nil:
		return span + ", not written"
	case out.Applied && o.rollback:
		return span + ", rolled back"
	case out.Applied:
		return span + ", migrated"
	}
	return span + ", not written yet"
}

func writePlan(b *strings.Builder, p *migrate.Plan) {
	for _, c := range p.Changes {
		fmt.Fprintf(b, "  %s\n", changeLine(c))
		if c.Step > 0 {
			fmt.Fprintf(b, "      %s\n", c.Reason)
		}
	}
	for _, k := range p.Kept {
		fmt.Fprintf(b, "  kept      %s = %s (%s)\n", where(k.File, k.Path), k.Value, k.Why)
	}
	for _, c := range p.NotApplied {
		fmt.Fprintf(b, "  skipped   %s %s: %s\n", c.ID, where(c.File, c.Path), c.Reason)
	}
	if len(p.Skipped) > 0 {
		fmt.Fprintf(b, "  skipped   steps %s: the file has no version; --assume-version N runs those after N\n", ranges(p.Skipped))
	}
	for _, a := range p.Advice {
		fmt.Fprintf(b, "  note      %s\n", a)
	}
}

func changeLine(c migrate.Change) string {
	line := fmt.Sprintf("%-9s %s", c.Action, where(c.File, c.Path))
	switch {
	case c.Old != "" && c.New != "":
		line += fmt.Sprintf(": %s -> %s", c.Old, c.New)
	case c.Old != "":
		line += fmt.Sprintf(" (was %s)", c.Old)
	case c.New != "":
		line += ": " + c.New
	}
	if c.Step > 0 {
		line += "  [" + c.ID + "]"
	}
	return line
}

func where(file string, path []string) string {
	if len(path) == 0 {
		return file
	}
	if file == migrate.FileConfig {
		return yamlspan.PathString(path)
	}
	return file + " " + yamlspan.PathString(path)
}

// ranges shows ascending numbers as "13, 15, 18-28".
func ranges(ns []int) string {
	var parts []string
	for i := 0; i < len(ns); {
		j := i
		for j+1 < len(ns) && ns[j+1] == ns[j]+1 {
			j++
		}
		if j > i {
			parts = append(parts, fmt.Sprintf("%d-%d", ns[i], ns[j]))
		} else {
			parts = append(parts, fmt.Sprint(ns[i]))
		}
		i = j + 1
	}
	return strings.Join(parts, ", ")
}

func indent(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		b.WriteString("    " + line)
	}
	return b.String()
}
