// SPDX-License-Identifier: MIT

package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/hermes-appliance/hermes-appliance/internal/buildinfo"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
	"github.com/hermes-appliance/hermes-appliance/migrate"
)

type versionOptions struct{ json bool }

func newVersion(st *state) *cobra.Command {
	var o versionOptions
	cmd := &cobra.Command{
		Use: "version [--json]", Short: "Print the version of this binary and of the config it writes",
		DisableFlagsInUseLine: true,
		Example:               "  hermes-appliance version --json",
		Args:                  cobra.NoArgs,
		RunE:                  handler(st, o.run),
	}
	cmd.RunE = handler(st, func(ctx context.Context, env Env) error { return o.run(ctx, env) })
	exits(cmd, exitcode.OK, exitcode.Error, exitcode.Usage)
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

// versionDoc is the result of version --json.
type versionDoc struct {
	buildinfo.Info
	ConfigVersion int `json:"config_version"` // what migrate leads to
	ConfigFloor   int `json:"config_floor"`   // the oldest it starts from
}

func (o *versionOptions) run(_ context.Context, env Env) error {
	v := versionDoc{buildinfo.Read(), migrate.Latest(), migrate.Floor}
	if o.json {
		return printJSON(env.Stdout, envelope{Schema: schemaVersion, Command: "version", Result: v})
	}
	_, err := fmt.Fprintf(env.Stdout, "%s %s (%s/%s, %s)\nconfig version %d, migrates from %d\n",
		Name, v.Version, v.OS, v.Arch, v.Go, v.ConfigVersion, v.ConfigFloor)
	return err
}
