// SPDX-License-Identifier: MIT

package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

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
	return root
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
