// SPDX-License-Identifier: MIT

package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
)

type imagesDiffOptions struct {
	engineOptions
	a, b string
	json bool
}

func newImagesDiff(st *state) *cobra.Command {
	var o imagesDiffOptions
	cmd := &cobra.Command{
		Use: "diff IMAGE IMAGE [FLAGS]", Short: "Print the first path in which two images differ",
		Long:                  "Compares two images that the engine has. Two builds of the same pins have the same ID; where they have not, this says why.",
		Example:               "  hermes-appliance images diff hermes-sandbox:first hermes-sandbox:second",
		DisableFlagsInUseLine: true, Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			st.started = true
			o.a, o.b = args[0], args[1]
			return o.run(cmd.Context(), st.env)
		},
	}
	o.register(cmd)
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	exits(cmd, exitcode.OK, exitcode.Error, exitcode.Usage, exitcode.Interrupted)
	return cmd
}

func (o *imagesDiffOptions) run(ctx context.Context, env Env) (err error) {
	e, err := o.open(ctx, env)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	d, err := e.Compare(ctx, o.a, o.b)
	if err != nil {
		return err
	}
	if o.json {
		doc := map[string]any{"same": d == nil}
		var verdict error
		if d != nil {
			doc["layer"], doc["path"], doc["what"] = d.Layer, d.Path, d.What
			verdict = &codeError{exitcode.Error, fmt.Sprintf("%s and %s differ", o.a, o.b)}
		}
		return errors.Join(printJSON(env.Stdout, envelope{Schema: schemaVersion, Command: "images diff", Exit: int(exitcode.Of(verdict)), Result: doc}), verdict)
	}
	if d != nil {
		return fmt.Errorf("%s and %s differ\n%s", o.a, o.b, d)
	}
	_, err = fmt.Fprintf(env.Stdout, "%s and %s are the same image\n", o.a, o.b)
	return err
}
