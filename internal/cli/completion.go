// SPDX-License-Identifier: MIT

package cli

import (
	"github.com/spf13/cobra"

	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
)

func newCompletion(st *state) *cobra.Command {
	cmd := &cobra.Command{
		Use: "completion bash|zsh|fish|powershell", Short: "Print a script that completes commands in a shell",
		DisableFlagsInUseLine: true,
		Example:               "  hermes-appliance completion bash > /etc/bash_completion.d/hermes-appliance",
		Args:                  cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs:             []string{"bash", "zsh", "fish", "powershell"},
		RunE: func(cmd *cobra.Command, args []string) error {
			st.started = true
			root, out := cmd.Root(), st.env.Stdout
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(out, true)
			case "zsh":
				return root.GenZshCompletion(out)
			case "fish":
				return root.GenFishCompletion(out, true)
			}
			return root.GenPowerShellCompletionWithDesc(out)
		},
	}
	exits(cmd, exitcode.OK, exitcode.Error, exitcode.Usage)
	return cmd
}
