// SPDX-License-Identifier: MIT

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/installer/doctor"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
)

type doctorOptions struct {
	homeOptions
	json, fix, offline bool
}

func newDoctor(st *state) *cobra.Command {
	var o doctorOptions
	cmd := &cobra.Command{
		Use: "doctor [FLAGS]", Short: "Find what keeps the gateway from working, and mend what is safe",
		Long: "Looks at the home, its config, the modes of its secrets, the gateway and its service, the container engine, disk, port,\n" +
			"clock and the model's server. Each finding comes with what to do. With --fix it does what cannot hurt: closing files that\n" +
			"others can read, and bringing the config up to date. Exits 1 if something does not work.",
		DisableFlagsInUseLine: true, Example: "  hermes-appliance doctor --fix", Args: cobra.NoArgs,
	}
	cmd.RunE = handler(st, func(ctx context.Context, env Env) error { return o.run(ctx, env) })
	exits(cmd, exitcode.OK, exitcode.Error, exitcode.Usage)
	o.register(cmd)
	f := cmd.Flags()
	f.BoolVar(&o.json, "json", false, "print JSON")
	f.BoolVar(&o.fix, "fix", false, "mend what is safe to mend")
	f.BoolVar(&o.offline, "offline", false, "do not ask the model's server")
	return cmd
}

func (o *doctorOptions) run(ctx context.Context, env Env) error {
	h, _, err := (&statusOptions{serviceOptions{homeOptions: o.homeOptions}}).look(ctx, env)
	if err != nil {
		return err
	}
	found := doctor.Run(ctx, o.checks(h, env), doctor.Options{Fix: o.fix})
	if err := ctx.Err(); err != nil {
		return err
	}
	var verdict error
	if n := doctor.Count(found, doctor.Problem); n > 0 {
		verdict = &codeError{exitcode.Error, fmt.Sprintf("problems: %d, see above", n)}
	}
	if o.json {
		doc := map[string]any{"home": h.Dir, "worst": doctor.Worst(found), "findings": found}
		return errors.Join(printJSON(env.Stdout, envelope{Schema: schemaVersion, Command: "doctor", Exit: int(exitcode.Of(verdict)), Result: doc}), verdict)
	}
	_, err = fmt.Fprint(env.Stdout, doctorText(found))
	return errors.Join(err, verdict)
}

// checks are all questions about a home, the cheap ones first.
func (o *doctorOptions) checks(h home.Home, env Env) []doctor.Check {
	if _, err := os.Stat(h.Dir); err != nil {
		return []doctor.Check{doctor.Home(h, env.Getenv)} // the rest would say the same in other words
	}
	list := []doctor.Check{
		doctor.Home(h, env.Getenv), stampCheck(h, env), settingsCheck(h, env), doctor.Modes(h, env.Getenv),
		doctor.Disk(h), doctor.Clock(h, env.Now), gatewayCheck(h, env), serviceCheck(h, env), databaseCheck(h), outlookCheck(h, env, o.offline), engineCheck(h, env),
	}
	if h.Profile != home.Default {
		return list
	}
	profiles, err := h.Profiles()
	if err != nil {
		return list
	}
	for _, p := range profiles {
		for _, c := range []doctor.Check{stampCheck(p, env), settingsCheck(p, env), doctor.Modes(p, env.Getenv), engineCheck(p, env)} {
			c.Name += " of " + p.Profile
			list = append(list, c)
		}
	}
	return list
}

func doctorText(found []doctor.Finding) string {
	var b strings.Builder
	fixable := 0
	for _, f := range found {
		level := string(f.Level)
		if f.Fixed {
			level = "mended"
		} else if f.Fixable {
			fixable++
		}
		fmt.Fprintf(&b, "%-8s %s: %s\n", level, f.Check, strings.ReplaceAll(f.Message, "\n", "\n           "))
		if f.Fix != "" && !f.Fixed {
			fmt.Fprintf(&b, "         → %s\n", f.Fix)
		}
	}
	switch {
	case doctor.Worst(found) == doctor.OK:
		b.WriteString("Everything is in order.\n")
	case fixable > 0:
		fmt.Fprintf(&b, "hermes-appliance doctor --fix mends %d of them.\n", fixable)
	}
	return b.String()
}
