// SPDX-License-Identifier: MIT

package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/hermes-appliance/hermes-appliance/installer"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
)

// controlOptions are those of start, stop and restart.
type controlOptions struct {
	serviceOptions
	do func(h installer.Host, ctx context.Context, o installer.Observed) (installer.Outcome, error)
}

func newStart(st *state) *cobra.Command {
	return newControl(st, "start", "Start the installed service and wait until it is ready",
		"Starts the service and comes back when its process answers. It forgets earlier failures first.", installer.Host.Start)
}

func newStop(st *state) *cobra.Command {
	return newControl(st, "stop", "Stop the installed service",
		"Stops the service. If it is enabled it starts with the machine again; uninstall, or systemctl disable, keeps it from that.", installer.Host.Stop)
}

func newRestart(st *state) *cobra.Command {
	return newControl(st, "restart", "Restart the installed service, letting running turns finish",
		"Asks the gateway to finish its running turns, and waits until a new process answers. A gateway that answers nobody is\n"+
			"ended first. From inside the gateway it only asks and returns.", installer.Host.Restart)
}

func newControl(st *state, verb, short, long string, do func(installer.Host, context.Context, installer.Observed) (installer.Outcome, error)) *cobra.Command {
	o := controlOptions{serviceOptions: serviceOptions{verb: verb}, do: do}
	cmd := &cobra.Command{
		Use: verb + " [FLAGS]", Short: short, Long: long, DisableFlagsInUseLine: true, Example: "  hermes-appliance " + verb, Args: cobra.NoArgs,
	}
	cmd.RunE = handler(st, func(ctx context.Context, env Env) error { return o.run(ctx, env) })
	codes := []exitcode.Code{exitcode.OK, exitcode.Error, exitcode.Usage, exitcode.Managed}
	if verb != "stop" {
		codes = append(codes, exitcode.Config)
	}
	exits(cmd, append(codes, exitcode.Interrupted)...)
	o.register(cmd)
	return cmd
}

// startable refuses what would not run: launchd and others would start it for ever. A config that
// is merely older is no reason where the service brings it up to date itself.
func startable(o installer.Observed, env Env) error {
	_, err := current(o.Home, env)
	if errors.Is(err, errOlder) && o.Migrates() {
		return nil
	}
	return err
}

// undone makes an error of a reason for which there is nothing to install: that is fine, and a
// start that nobody did is not.
func undone(err error) error {
	r, ok := errors.AsType[*installer.Refusal](err)
	if !ok || r.Code != exitcode.OK {
		return err
	}
	there := *r
	there.Code = exitcode.Error
	return &there
}

func (o *controlOptions) run(ctx context.Context, env Env) error {
	h, t, _, err := o.resolve(ctx, env)
	if err != nil {
		return undone(err)
	}
	seen, err := h.Observe(ctx, t, installer.Desired{})
	if err != nil {
		return err
	}
	if o.verb != "stop" {
		if err := unserved(t.Home); err != nil {
			return err
		}
	}
	if o.verb != "stop" && seen.State != installer.Absent {
		if err := startable(seen, env); err != nil {
			return err
		}
	}
	out, err := o.do(h, ctx, seen)
	if err != nil {
		return err
	}
	if err := o.tell(env, out); err != nil || out.Ask == nil {
		return err
	}
	return out.Ask(ctx)
}

// tell says what was done.
func (o *controlOptions) tell(env Env, out installer.Outcome) error {
	if o.json {
		return printJSON(env.Stdout, envelope{Schema: schemaVersion, Command: o.verb, Result: out})
	}
	text := out.Unit + ": " + out.Did
	if out.Did == "nothing" {
		text += " to do"
	}
	if out.PID > 0 {
		text += fmt.Sprintf(", process %d", out.PID)
	}
	if out.Comment != "" {
		text += " (" + out.Comment + ")"
	}
	_, err := fmt.Fprintln(env.Stdout, text)
	return err
}
