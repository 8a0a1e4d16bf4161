// SPDX-License-Identifier: MIT

package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hermes-appliance/hermes-appliance/appliance"
	"github.com/hermes-appliance/hermes-appliance/appliance/childenv"
	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
)

type envOptions struct {
	homeOptions
	kind string
	json bool
}

func newEnv(st *state) *cobra.Command {
	return group(st, "env", "Explain what children of the appliance get to see, and assemble .env for a manager",
		"Every child process gets an environment that is built for it. This command tells what is in it and why.",
		"  hermes-appliance env explain --kind terminal --profile work",
		newEnvExplain(st), newEnvRules(st), newEnvAssemble(st))
}

func newEnvExplain(st *state) *cobra.Command {
	var o envOptions
	cmd := &cobra.Command{
		Use: "explain [FLAGS]", Short: "Print each variable's name, whether a child gets it, and the rule that decided",
		Long: "Prints the name of every variable that a child of some kind could get when it works for a profile: whether it is kept\n" +
			"or dropped, where its value came from, and the rule that decided. Values are never printed. The environment of this\n" +
			"command stands for that of the gateway, and --home for the home it was started for.",
		DisableFlagsInUseLine: true,
		Example:               "  hermes-appliance env explain --kind mcp --profile work --json",
		Args:                  cobra.NoArgs,
	}
	cmd.RunE = handler(st, func(ctx context.Context, env Env) error { return o.explain(ctx, env) })
	exits(cmd, exitcode.OK, exitcode.Error, exitcode.Usage, exitcode.Unparseable, exitcode.Config)
	o.register(cmd)
	cmd.Flags().StringVar(&o.kind, "kind", "terminal", "the `KIND` of child, see \"env rules\"")
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

func newEnvRules(st *state) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "rules [--json]", Short: "Print the kinds of children, the lists of names and the reasons", DisableFlagsInUseLine: true,
		Example: "  hermes-appliance env rules", Args: cobra.NoArgs,
	}
	cmd.RunE = handler(st, func(_ context.Context, env Env) error {
		p, err := childenv.Load()
		if err != nil {
			return err
		}
		if asJSON {
			return printJSON(env.Stdout, envelope{Schema: schemaVersion, Command: "env rules", Result: p.JSON()})
		}
		_, err = fmt.Fprint(env.Stdout, p.Table())
		return err
	})
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	exits(cmd, exitcode.OK, exitcode.Error, exitcode.Usage)
	return cmd
}

// envDoc is the result of env explain --json.
type envDoc struct {
	Kind      string              `json:"kind"`
	Profile   string              `json:"profile"`
	Home      string              `json:"home"`
	Routed    bool                `json:"routed"` // the profile is not the one of --home
	Variables []childenv.Decision `json:"variables"`
}

func (o *envOptions) explain(ctx context.Context, env Env) error {
	launch, err := home.Locate(o.home, env.Getenv)
	if err != nil {
		return usagef("%w", err)
	}
	target := launch
	if o.profile != "" {
		if target, err = launch.NamedProfile(o.profile); err != nil {
			return err
		}
	}
	e, err := appliance.NewEnvironments(appliance.Options{Launch: launch, Environ: childenv.TakeEnviron()})
	if err != nil {
		return err
	}
	kinds, _ := e.Policy().Kinds()
	if !slices.Contains(kinds, o.kind) {
		return usagef("--kind %s: expected one of %s", o.kind, strings.Join(kinds, ", "))
	}
	s, err := e.Snapshot(ctx, target)
	if err != nil {
		return err
	}
	decisions, err := e.Policy().Explain(o.kind, s)
	if err != nil {
		return err
	}
	doc := envDoc{o.kind, target.Profile, target.Dir, s.Target.Key != s.Launch.Key, decisions}
	if o.json {
		return printJSON(env.Stdout, envelope{Schema: schemaVersion, Command: "env explain", Result: doc})
	}
	var b strings.Builder
	for _, d := range decisions {
		kept := "dropped"
		if d.Kept {
			kept = "kept"
		}
		fmt.Fprintf(&b, "%-40s %-8s %-10s %s\n", d.Name, kept, d.Origin, d.Rule)
	}
	_, err = fmt.Fprint(env.Stdout, b.String())
	return err
}
