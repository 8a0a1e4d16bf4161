// SPDX-License-Identifier: MIT

package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermes-appliance/hermes-appliance/installer/generation"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
)

type generationsOptions struct {
	homeOptions
	numbers       []int
	dryRun, force bool
	json          bool
	wait          time.Duration
}

func newGenerations(st *state) *cobra.Command {
	return group(st, "generations", "See what ran on a home before, and go back to it",
		"Each change of what runs is a generation: the program, config.yaml with its version, the units of the service, the image\n"+
			"of the sandbox. The last five are kept, and the last two programs.",
		"  hermes-appliance generations list", newGenerationsList(st), newGenerationsDiff(st), newGenerationsRollback(st))
}

func generationsVerb(st *state, use, short, long, example string, args int, run func(o *generationsOptions, ctx context.Context, env Env) error) (*cobra.Command, *generationsOptions) {
	var o generationsOptions
	cmd := &cobra.Command{Use: use, Short: short, Long: long, DisableFlagsInUseLine: true, Example: example, Args: cobra.ExactArgs(args)}
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		for _, w := range words {
			n, err := strconv.Atoi(w)
			if err != nil || n < 1 {
				return usagef("%q: expected the number of a generation, as \"generations list\" shows it", w)
			}
			o.numbers = append(o.numbers, n)
		}
		st.started = true
		return run(&o, cmd.Context(), st.env)
	}
	o.register(cmd)
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	return cmd, &o
}

func newGenerationsList(st *state) *cobra.Command {
	cmd, _ := generationsVerb(st, "list [FLAGS]", "List the generations of a home, the newest last", "",
		"  hermes-appliance generations list --json", 0, (*generationsOptions).list)
	exits(cmd, exitcode.OK, exitcode.Error, exitcode.Usage, exitcode.Unparseable)
	return cmd
}

func newGenerationsDiff(st *state) *cobra.Command {
	cmd, _ := generationsVerb(st, "diff A B [FLAGS]", "Show in what two generations differ",
		"Shows in what two generations differ. Of config.yaml the lines are shown with their values hidden.",
		"  hermes-appliance generations diff 3 4", 2, (*generationsOptions).diff)
	exits(cmd, exitcode.OK, exitcode.Error, exitcode.Usage, exitcode.Unparseable)
	return cmd
}

func newGenerationsRollback(st *state) *cobra.Command {
	cmd, o := generationsVerb(st, "rollback N [FLAGS]", "Go back to a generation: program, config, units and sandbox together",
		"Goes back to a generation, all of it together, and has the gateway start on it; one that does not come up brings back what\n"+
			"was. In .env and SOUL.md only what migrations changed since is taken back. The rollback is a generation itself.",
		"  hermes-appliance generations rollback 3 --dry-run", 1, (*generationsOptions).rollback)
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "say what would change, and change nothing")
	cmd.Flags().BoolVar(&o.force, "force", false, "go back although files were edited since; those are kept as a generation")
	cmd.Flags().DurationVar(&o.wait, "wait", restartWait, "how long a gateway may take to come up, beyond its drain")
	exits(cmd, exitcode.OK, exitcode.Error, exitcode.Usage, exitcode.Managed, exitcode.Locked, exitcode.Unparseable, exitcode.Interrupted)
	return cmd
}

// generationDoc is one generation of generations list --json.
type generationDoc struct {
	generation.Manifest

	Current bool `json:"current"`
	Kept    bool `json:"program_kept"` // a rollback can bring its program back
}

func (o *generationsOptions) list(_ context.Context, env Env) error {
	h, err := o.locate(env)
	if err != nil {
		return err
	}
	r := newRecorder(env)
	all, err := r.store(h).List()
	if err != nil {
		return err
	}
	now, err := r.self()
	if err != nil {
		return err
	}
	docs := []generationDoc{}
	for i, m := range all {
		docs = append(docs, generationDoc{m, i == len(all)-1, m.Kept(now)})
	}
	if o.json {
		return printJSON(env.Stdout, envelope{Schema: schemaVersion, Command: "generations list", Result: map[string]any{"generations": docs}})
	}
	var b strings.Builder
	for _, d := range docs {
		mark := " "
		if d.Current {
			mark = "*"
		}
		fmt.Fprintf(&b, "%s %3d  %s  %-14s  program %s, config %d", mark, d.Number, d.Time.Format(time.DateTime), d.Reason, d.Binary.Version, d.Config.Stamp)
		if len(d.Units) > 0 {
			fmt.Fprintf(&b, ", %d units", len(d.Units))
		}
		if d.Sandbox.Image != "" {
			b.WriteString(", sandbox " + d.Sandbox.Image)
		}
		if !d.Kept {
			b.WriteString(" (program not kept)")
		}
		b.WriteByte('\n')
	}
	if len(docs) == 0 {
		b.WriteString("none yet: the first change of what runs is recorded\n")
	}
	_, err = fmt.Fprint(env.Stdout, b.String())
	return err
}

func (o *generationsOptions) diff(_ context.Context, env Env) error {
	h, err := o.locate(env)
	if err != nil {
		return err
	}
	s := newRecorder(env).store(h)
	a, err := s.Load(o.numbers[0])
	if err != nil {
		return err
	}
	b, err := s.Load(o.numbers[1])
	if err != nil {
		return err
	}
	changes, config, err := s.Diff(a, b)
	if err != nil {
		return err
	}
	if o.json {
		doc := map[string]any{"from": a.Number, "to": b.Number, "changes": changes, "config_diff": config}
		return printJSON(env.Stdout, envelope{Schema: schemaVersion, Command: "generations diff", Result: doc})
	}
	_, err = fmt.Fprint(env.Stdout, differenceText(changes, config))
	return err
}

func differenceText(changes []generation.Difference, config string) string {
	var b strings.Builder
	for _, c := range changes {
		what := c.What
		if c.Path != "" {
			what += " " + c.Path
		}
		fmt.Fprintf(&b, "  %s: %s -> %s\n", what, c.Old, c.New)
	}
	for line := range strings.Lines(config) {
		b.WriteString("    " + line)
	}
	if len(changes) == 0 {
		b.WriteString("  nothing differs\n")
	}
	return b.String()
}

func (o *generationsOptions) rollback(ctx context.Context, env Env) error {
	h, err := o.locate(env)
	if err != nil {
		return err
	}
	a, err := newRecorder(env).activation(h, o.wait)
	if err != nil {
		return err
	}
	if said, err := a.Settle(ctx); !o.dryRun && (said != "" || err != nil) {
		fmt.Fprintln(env.Stderr, said) //nolint:errcheck // nowhere left to say it
		if err != nil {
			return err
		}
		if a, err = newRecorder(env).activation(h, o.wait); err != nil {
			return err
		}
	}
	p, err := a.PlanRollback(ctx, o.numbers[0], o.force)
	if err != nil {
		return err
	}
	if o.dryRun {
		return o.printPlan(env, p)
	}
	if err := p.Refused(o.force); err != nil {
		return err
	}
	if p.Nothing() {
		_, err := fmt.Fprintf(env.Stdout, "nothing to do: all is as generation %d had it\n", p.Target.Number)
		return err
	}
	a.Check = func(ctx context.Context, path string) error { return proveProgram(ctx, path, p.Target.Binary.Version) }
	out, err := a.Rollback(ctx, p.Target.Number, o.force)
	if err != nil {
		return err
	}
	if o.json {
		doc := map[string]any{
			"generation": out.Recorded.Number, "changes": p.Changes, "restart": gatewayDocs(out.Restart), "manual": gatewayDocs(out.Manual),
			"notes": append([]string{}, out.Notes...),
		}
		return printJSON(env.Stdout, envelope{Schema: schemaVersion, Command: "generations rollback", Result: doc})
	}
	d := updateDoc{State: "settled", Notes: out.Notes, Manual: gatewayDocs(out.Manual)}
	_, err = fmt.Fprintf(env.Stdout, "back at generation %d (as generation %d)\n%s%s", p.Target.Number, out.Recorded.Number, differenceText(p.Changes, ""), d.text())
	return err
}

func (o *generationsOptions) printPlan(env Env, p generation.Plan) error {
	if o.json {
		return printJSON(env.Stdout, envelope{Schema: schemaVersion, Command: "generations rollback", Result: p})
	}
	var b strings.Builder
	fmt.Fprintf(&b, "generation %d, not gone back to yet\n%s", p.Target.Number, differenceText(p.Changes, p.ConfigDiff))
	for _, e := range p.Edited {
		fmt.Fprintf(&b, "  edited since the last generation: %s", e.Path)
		if e.Copy != "" {
			b.WriteString(" (recorded: " + e.Copy + ")")
		}
		b.WriteString("; needs --force\n")
	}
	for _, n := range p.Notes {
		b.WriteString("  note: " + n + "\n")
	}
	_, err := fmt.Fprint(env.Stdout, b.String())
	return err
}
