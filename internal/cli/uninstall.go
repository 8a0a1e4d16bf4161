// SPDX-License-Identifier: MIT

package cli

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hermes-appliance/hermes-appliance/installer/generation"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
)

type uninstallOptions struct {
	installOptions
	purge bool
}

func newUninstall(st *state) *cobra.Command {
	o := uninstallOptions{installOptions: installOptions{serviceOptions: serviceOptions{verb: "uninstall"}}}
	cmd := &cobra.Command{
		Use: "uninstall [FLAGS]", Short: "Stop the service and take it off the host",
		Long: "Stops the service, disables it and removes what install wrote. The home stays as it is, and so does what somebody\n" +
			"else wrote. A stop that fails is an error, and then nothing is removed.",
		DisableFlagsInUseLine: true,
		Example:               "  sudo hermes-appliance uninstall --system\n  hermes-appliance uninstall --dry-run",
		Args:                  cobra.NoArgs,
	}
	cmd.RunE = handler(st, func(ctx context.Context, env Env) error { return o.run(ctx, env) })
	exits(cmd, exitcode.OK, exitcode.Error, exitcode.Usage, exitcode.Managed, exitcode.Unparseable, exitcode.Interrupted)
	o.register(cmd)
	f := cmd.Flags()
	f.BoolVar(&o.purge, "purge", false, "remove the copies that were kept of replaced files, too; never the home")
	f.StringVar(&o.root, "root", "", "take it out of the image below `DIR`; no service manager is asked")
	f.BoolVar(&o.dryRun, "dry-run", false, "show what would be done, do nothing")
	return cmd
}

func (o *uninstallOptions) run(ctx context.Context, env Env) error {
	h, t, _, err := o.resolve(ctx, env)
	if err != nil {
		return o.nothing(env, err)
	}
	rep, err := h.Uninstall(ctx, t, o.purge, o.dryRun)
	doc := installDoc{Report: rep, Home: t.Home.Dir}
	if o.dryRun {
		return o.preview(env, "uninstall", doc, err)
	}
	if err != nil {
		return err
	}
	if _, err := os.Stat(t.Home.Config()); rep.Applied && !h.Offline && err == nil {
		newRecorder(env).record(ctx, t.Home, generation.Uninstall)
	}
	if o.json {
		return printJSON(env.Stdout, envelope{Schema: schemaVersion, Command: "uninstall", Result: doc})
	}
	var b strings.Builder
	doc.common(&b)
	if rep.Applied {
		fmt.Fprintf(&b, "%s is stopped and removed; %s is as it was\n", t.Unit(), t.Home.Dir)
	} else {
		fmt.Fprintf(&b, "no service of %s is installed: nothing to do\n", t.Home.Dir)
	}
	_, err = fmt.Fprint(env.Stdout, b.String())
	return err
}
