// SPDX-License-Identifier: MIT

package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
)

// newRoot makes a fresh command tree.
func newRoot(st *state) *cobra.Command {
	root := &cobra.Command{
		Use:           Name,
		Short:         "Run a Hermes home as an appliance",
		Long:          "hermes-appliance takes a Hermes home (HERMES_HOME) as it is: it brings its config up to date without\nlosing a byte of it, and runs the gateway that answers, runs tools and remembers.",
		Example:       "  hermes-appliance up",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			st.started = true
			return cmd.Help()
		},
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	exits(root, exitcode.OK, exitcode.Error, exitcode.Usage, exitcode.Interrupted)
	root.SetHelpCommand(&cobra.Command{Hidden: true, Use: "no-help-command"})
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		fmt.Fprint(cmd.OutOrStdout(), helpText(cmd)) //nolint:errcheck // the reader is gone
	})
	root.AddCommand(newUp(st), newInstall(st), newUninstall(st), newStart(st), newStop(st), newRestart(st),
		newStatus(st), newLogs(st), newDoctor(st), newGateway(st), newMigrate(st), newUpdate(st), newGenerations(st),
		newConfig(st), newProfile(st), newEnv(st), newService(st), newMetrics(st), newSandbox(st), newMCP(st), newCheckpoints(st),
		newImages(st), newContainer(st), newVersion(st), newCompletion(st), newMan(st))
	root.SetFlagErrorFunc(flagError)
	root.PersistentPreRunE = filled
	explain(root)
	return root
}

// explain has a command that gets too few arguments, or too many, say in its own words which it
// takes: the library counts them, and takes an argument for a command.
func explain(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		explain(c)
	}
	count := cmd.Args
	if count == nil || cmd.HasSubCommands() {
		return
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if count(cmd, args) == nil {
			return nil
		}
		var want []string // what stands in the usage line before the flags
		for _, word := range strings.Fields(cmd.Use)[1:] {
			if word == "[FLAGS]" || strings.HasPrefix(strings.TrimPrefix(word, "["), "--") {
				break
			}
			want = append(want, word)
		}
		takes := "takes " + strings.Join(want, " ")
		if len(want) == 0 {
			takes = "takes no argument but its flags"
		}
		name := strings.TrimPrefix(cmd.CommandPath(), Name+" ")
		if len(args) == 0 {
			return fmt.Errorf("%s %s, and there is none", name, takes)
		}
		return fmt.Errorf("%s %s; %q does not fit", name, takes, strings.Join(args, " "))
	}
}

// flagError says what a flag expects, where the library names a function of Go's.
func flagError(cmd *cobra.Command, err error) error {
	if n, ok := errors.AsType[*strconv.NumError](err); ok {
		return fmt.Errorf("%s: expected a number", strings.TrimSuffix(err.Error(), ": "+n.Error()))
	}
	if e, ok := errors.AsType[*pflag.NotExistError](err); ok && e.GetSpecifiedShortnames() != "" && strings.Contains(cmd.Use, "VALUE") {
		return fmt.Errorf("%w; a value that begins with a minus stands behind --, as in: %s KEY -- -%s", err, strings.TrimPrefix(cmd.CommandPath(), Name+" "), e.GetSpecifiedShortnames())
	}
	return err
}

// filled refuses an empty --home or --profile, as a variable gives that is not set: the default
// home is hardly meant.
func filled(cmd *cobra.Command, _ []string) error {
	for _, name := range []string{"home", "profile"} {
		if f := cmd.Flags().Lookup(name); f != nil && f.Changed && f.Value.String() == "" {
			return fmt.Errorf("--%s is empty; name one, or leave the flag out", name)
		}
	}
	return nil
}

// exitKey is the annotation that holds a command's EXIT STATUS block.
const exitKey = "exit"

// exits notes which codes a command can return.
func exits(cmd *cobra.Command, codes ...exitcode.Code) {
	cmd.Annotations = map[string]string{exitKey: exitcode.Block(codes...)}
}

// helpText writes usage, what the command does, its flags, an example and the exit codes.
func helpText(cmd *cobra.Command) string {
	var b strings.Builder
	use := cmd.UseLine()
	if cmd.HasAvailableSubCommands() {
		use = cmd.CommandPath() + " COMMAND"
	}
	long := cmd.Long
	if long == "" {
		long = cmd.Short + "."
	}
	fmt.Fprintf(&b, "Usage: %s\n\n%s\n", use, long)
	if cmd.HasAvailableSubCommands() {
		b.WriteString("\nCOMMANDS\n")
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() {
				fmt.Fprintf(&b, "  %-12s %s\n", c.Name(), c.Short)
			}
		}
	}
	if flags := strings.TrimRight(cmd.LocalFlags().FlagUsages(), "\n"); flags != "" {
		fmt.Fprintf(&b, "\nFLAGS\n%s\n", flags)
	}
	if cmd.Example != "" {
		fmt.Fprintf(&b, "\nEXAMPLE\n%s\n", cmd.Example)
	}
	if block := cmd.Annotations[exitKey]; block != "" {
		b.WriteString("\n" + block)
	}
	return b.String()
}

// handler makes a cobra function of a handler that does not know cobra.
func handler(st *state, run func(ctx context.Context, env Env) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		st.started = true
		return run(cmd.Context(), st.env)
	}
}
