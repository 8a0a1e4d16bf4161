// SPDX-License-Identifier: MIT

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/hermes-appliance/hermes-appliance/images/smoke"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
)

type imagesSmokeOptions struct {
	engineOptions
	json      bool
	artifacts string
	image     string
}

func newImagesSmoke(st *state) *cobra.Command {
	var o imagesSmokeOptions
	cmd := &cobra.Command{
		Use: "smoke IMAGE [FLAGS]", Short: "Prove that a built image works",
		Long: "Runs a container of an image that the engine has, confined as a sandbox is and without a network, and goes through\n" +
			"what the sandbox is for: tools, desktop, browser, computer use, stop, crash. Prints one line a step; the report in\n" +
			"JSON is what \"images publish\" demands.",
		Example:               "  hermes-appliance images smoke hermes-sandbox:dev --artifacts smoke/",
		DisableFlagsInUseLine: true, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			st.started = true
			o.image = args[0]
			return o.run(cmd.Context(), st.env)
		},
	}
	o.register(cmd)
	cmd.Flags().BoolVar(&o.json, "json", false, "print the report")
	cmd.Flags().StringVar(&o.artifacts, "artifacts", "", "`DIR` for the report, the screenshot and the desktop's log")
	exits(cmd, exitcode.OK, exitcode.Error, exitcode.Usage, exitcode.Interrupted)
	return cmd
}

func (o *imagesSmokeOptions) run(ctx context.Context, env Env) (err error) {
	e, err := o.open(ctx, env)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	r, err := smoke.Run(ctx, e, o.image, smoke.Options{Artifacts: o.artifacts, Progress: env.Stderr})
	if err != nil {
		return err
	}
	if o.artifacts != "" {
		data, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return err
		}
		path := filepath.Join(o.artifacts, "report.json")
		if err := (atomicfile.Writer{}).Write(path, append(data, '\n'), atomicfile.Options{Mode: 0o644}); err != nil {
			return err
		}
	}
	if o.json {
		// The report is its own document, not the result of an envelope: it is kept and
		// published as it is.
		if err := printJSON(env.Stdout, r); err != nil {
			return err
		}
	} else if _, err := fmt.Fprintf(env.Stdout, "%s %s in %.0f seconds, display after %.2f\n", r.Digest, r.Verdict, r.Seconds, r.Figures["display_seconds"]); err != nil {
		return err
	}
	for _, s := range r.StandIns {
		if _, err := fmt.Fprintf(env.Stderr, "stand-in for %s\n", s); err != nil {
			return err
		}
	}
	if bad := r.Failed(); bad != nil {
		return fmt.Errorf("%s: step %s: %s", o.image, bad.Name, bad.Detail)
	}
	return nil
}
