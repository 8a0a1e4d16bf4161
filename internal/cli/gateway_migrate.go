// SPDX-License-Identifier: MIT

package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/installer/fleet"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
)

type fleetOptions struct {
	home                  string
	multiplex, standalone bool
	auto, dryRun, yes     bool
	json                  bool
}

func newGatewayMigrate(st *state) *cobra.Command {
	var o fleetOptions
	cmd := &cobra.Command{
		Use: "migrate --multiplex|--standalone [FLAGS]", Short: "Turn many profiles' gateways into one that serves them all, or back",
		Long: "With --multiplex the gateway of every named profile is stopped and its service removed, gateway.multiplex_profiles is\n" +
			"turned on in the default home, and the default gateway is restarted to serve all of them. What there was before is\n" +
			"written to gateway_migration.json first; --standalone brings it back. A step that fails takes everything back; a run\n" +
			"that was killed is finished by the next one. On a terminal it asks before it changes anything.",
		DisableFlagsInUseLine: true,
		Example:               "  hermes-appliance gateway migrate --multiplex --dry-run",
		Args:                  cobra.NoArgs,
	}
	cmd.RunE = handler(st, func(ctx context.Context, env Env) error { return o.run(ctx, env) })
	exits(cmd, exitcode.OK, exitcode.Error, exitcode.Usage, exitcode.Locked, exitcode.Config, exitcode.Interrupted)
	f := cmd.Flags()
	f.StringVar(&o.home, "home", "", "the default home `DIR`, or one of its profiles' (default $HERMES_HOME, else ~/.hermes)")
	f.BoolVar(&o.multiplex, "multiplex", false, "one gateway for all profiles")
	f.BoolVar(&o.standalone, "standalone", false, "a gateway for each profile again, as before --multiplex")
	f.BoolVar(&o.auto, "auto", false, "with --multiplex, as an updater: asks nothing, leaves what a person must decide, obeys gateway.auto_multiplex_migration")
	f.BoolVar(&o.dryRun, "dry-run", false, "print the plan and change nothing")
	f.BoolVar(&o.yes, "yes", false, "do not ask")
	f.BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

// fleetDoc is the result of gateway migrate --json.
type fleetDoc struct {
	DryRun bool          `json:"dry_run"`
	Plan   fleet.Plan    `json:"plan"`
	Result *fleet.Result `json:"result"` // null = nothing was carried out
}

func (o *fleetOptions) run(ctx context.Context, env Env) error {
	if o.multiplex == o.standalone {
		return usagef("say --multiplex or --standalone")
	}
	if o.auto && o.standalone {
		return usagef("--auto goes with --multiplex: nothing goes back by itself")
	}
	if o.json && !o.dryRun && o.asks(env) {
		return usagef("--json shows no plan before it asks: pass --yes or --dry-run")
	}
	launch, err := home.Locate("", env.Getenv)
	if err != nil && o.home == "" {
		return usagef("%w", err)
	}
	h, err := home.Locate(o.home, env.Getenv)
	if err != nil {
		return usagef("%w", err)
	}
	f, err := newFleet(env, launch, h.Root())
	if err != nil {
		return err
	}
	plan := func(x fleet.Observed) fleet.Plan { return x.Multiplex(o.auto) }
	if o.standalone {
		plan = fleet.Observed.Standalone
	}
	seen, err := f.Observe(ctx)
	if err != nil {
		return err
	}
	doc := fleetDoc{DryRun: o.dryRun, Plan: plan(seen)}
	if !o.json {
		if _, err := fmt.Fprint(env.Stdout, fleetText(doc.Plan, o.dryRun)); err != nil {
			return err
		}
	}
	return o.carryOut(ctx, env, f, plan, doc)
}

// carryOut does what was shown, unless it must not be or was not to be.
func (o *fleetOptions) carryOut(ctx context.Context, env Env, f fleet.Fleet, plan func(fleet.Observed) fleet.Plan, doc fleetDoc) error {
	var verdict error
	switch {
	case doc.Plan.Blocked():
		verdict = &codeError{exitcode.Error, "refused: nothing was changed"}
	case o.dryRun || doc.Plan.Action == fleet.Nothing:
	case o.asks(env) && !agreed(ctx, env):
		_, err := fmt.Fprintln(env.Stdout, "nothing was changed")
		return err
	default:
		if !o.json {
			f.Say = func(line string) { fmt.Fprintln(env.Stdout, line) } //nolint:errcheck // the result is what counts
		}
		r, err := f.Apply(ctx, doc.Plan, plan)
		doc.Result, verdict = &r, err
	}
	if o.json {
		d := envelope{Schema: schemaVersion, Command: "gateway migrate", Exit: int(exitcode.Of(verdict)), Result: doc}
		return errors.Join(printJSON(env.Stdout, d), verdict)
	}
	if doc.Result == nil || verdict != nil {
		return verdict
	}
	_, err := fmt.Fprint(env.Stdout, fleetDone(*doc.Result))
	return err
}

// asks reports whether a person is there to be asked.
func (o *fleetOptions) asks(env Env) bool { return !o.yes && !o.auto && person(env.Stdin) }

// agreed asks. Enter means yes: the command was asked for by name, and the plan stands above.
func agreed(ctx context.Context, env Env) bool {
	fmt.Fprint(env.Stderr, "Do this now? [Y/n] ") //nolint:errcheck // nowhere left to say it
	answer := readLine(ctx, env.Stdin)
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return true
	case "":
		return answer != "" // an input that ended is no answer
	}
	return false
}

// fleetText is the plan for people.
func fleetText(p fleet.Plan, dry bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n  %-20s %-10s %s\n", p.Home, "PROFILE", "PROCESS", "SERVICE")
	for _, q := range p.Profiles {
		pid, services := "-", []string{}
		if q.PID > 0 {
			pid = fmt.Sprint(q.PID)
		}
		for _, s := range q.Services {
			services = append(services, s.String())
		}
		if len(services) == 0 {
			services = []string{"none"}
		}
		fmt.Fprintf(&b, "  %-20s %-10s %s\n", q.Name, pid, strings.Join(services, ", "))
	}
	if p.Interrupted {
		b.WriteString("An earlier migration did not get to its end.\n")
	}
	if len(p.Steps) > 0 {
		b.WriteString("Steps:\n")
		for _, s := range p.Steps {
			fmt.Fprintf(&b, "  - %s\n", s)
		}
	}
	if p.Blocked() {
		b.WriteString("In the way:\n")
	}
	for _, f := range p.Blockers {
		fmt.Fprintf(&b, "  - %s\n", f)
	}
	for _, f := range p.Notices {
		fmt.Fprintf(&b, "note: %s\n", f)
	}
	if dry {
		b.WriteString("This was a dry run: nothing was changed.\n")
	}
	return b.String()
}

// fleetDone says what became of it.
func fleetDone(r fleet.Result) string {
	var b strings.Builder
	switch r.Action {
	case fleet.Migrate, fleet.Resume:
		fmt.Fprintf(&b, "The default gateway serves %d profiles: %s\n", len(r.Served), strings.Join(r.Served, ", "))
	case fleet.Restore, fleet.Finish:
		b.WriteString("Every profile has the gateway that it had.\n")
	case fleet.Nothing:
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	return b.String()
}
