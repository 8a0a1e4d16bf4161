// SPDX-License-Identifier: MIT

package cli

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/hermes-appliance/hermes-appliance/appliance/config"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
)

func newConfigKeys(st *state) *cobra.Command {
	cmd := &cobra.Command{
		Use: "keys [FLAGS]", Short: "List the keys of config.yaml that mean something here",
		Long:    "Lists every key that this program knows, what it may hold, its default and what it is for. Other keys stay as they are,\nfor upstream.",
		Example: "  hermes-appliance config keys | grep docker", DisableFlagsInUseLine: true, Args: cobra.NoArgs,
	}
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	markdown := cmd.Flags().Bool("markdown", false, "print Markdown")
	cmd.RunE = handler(st, func(_ context.Context, env Env) error {
		keys, err := config.Keys()
		if err != nil {
			return err
		}
		switch {
		case *asJSON:
			return printJSON(env.Stdout, envelope{Schema: schemaVersion, Command: "config keys", Result: keys})
		case *markdown:
			return keysMarkdown(env, keys)
		}
		w := tabwriter.NewWriter(env.Stdout, 0, 0, 2, ' ', 0)
		for _, k := range keys {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", k.Path, k.Kind, k.Default, k.What) //nolint:errcheck // Flush says it
		}
		return w.Flush()
	})
	exits(cmd, exitcode.OK, exitcode.Error, exitcode.Usage)
	return cmd
}

// keysMarkdown is docs/config-keys.md.
func keysMarkdown(env Env, keys []config.Key) error {
	var b strings.Builder
	b.WriteString("# Keys of config.yaml\n\nWhat this program reads. Every other key stays as it is, for upstream. `hermes-appliance config keys --markdown` makes\nthis file; `config get KEY` says what counts in a home and where that is written.\n\n| key | holds | default | what it is for |\n|---|---|---|---|\n")
	for _, k := range keys {
		def := ""
		if k.Default != "" {
			def = "`" + k.Default + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", k.Path, k.Kind, def, strings.ReplaceAll(k.What, "|", `\|`))
	}
	_, err := fmt.Fprint(env.Stdout, b.String())
	return err
}
