// SPDX-License-Identifier: MIT

package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hermes-appliance/hermes-appliance/appliance/control"
	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/installer"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
)

type statusOptions struct {
	serviceOptions
}

func newStatus(st *state) *cobra.Command {
	var o statusOptions
	cmd := &cobra.Command{
		Use: "status [FLAGS]", Short: "Show whether the gateway runs, and how its platforms are",
		Long:                  "Asks the running gateway, or reads what the last one wrote if none answers. Exits 1 if no gateway runs.",
		DisableFlagsInUseLine: true, Example: "  hermes-appliance status --json", Args: cobra.NoArgs,
	}
	cmd.RunE = handler(st, func(ctx context.Context, env Env) error { return o.run(ctx, env) })
	exits(cmd, exitcode.OK, exitcode.Error, exitcode.Usage)
	o.register(cmd)
	return cmd
}

// statusDoc is the result of status --json.
type statusDoc struct {
	Home    string          `json:"home"`
	Running bool            `json:"running"`
	Status  *gateway.Status `json:"status,omitempty"` // of the running gateway, else what the last one left
	// Service is the installed service of this home; nil = none is, or none could be.
	Service *installer.Observed `json:"service,omitempty"`
}

// gatewayStatus asks the gateway of a home, or reads what the last one left.
func gatewayStatus(ctx context.Context, h home.Home, env Env) (statusDoc, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	var s gateway.Status
	doc := statusDoc{Home: h.Dir, Status: &s}
	err := control.Call(ctx, h, temp(env), "status", &s)
	switch {
	case err == nil:
		doc.Running = true
	case errors.Is(err, control.ErrNotRunning):
		if s, err = gateway.ReadStatus(h); errors.Is(err, fs.ErrNotExist) {
			doc.Status = nil
		} else if err != nil {
			return doc, err
		}
		_, doc.Running, err = gateway.Running(h)
		if err != nil {
			return doc, err
		}
	default:
		return doc, err
	}
	return doc, nil
}

func (o *statusOptions) run(ctx context.Context, env Env) error {
	h, installed, err := o.look(ctx, env)
	if err != nil {
		return err
	}
	doc, err := gatewayStatus(ctx, h, env)
	if err != nil {
		return err
	}
	doc.Service = installed
	var outcome *codeError
	if !doc.Running {
		outcome = &codeError{exitcode.Error, ""}
	}
	if !o.json {
		_, err = fmt.Fprint(env.Stdout, doc.text())
	} else {
		e := envelope{Schema: schemaVersion, Command: "status", Result: doc}
		if outcome != nil {
			e.Exit, outcome.msg = int(outcome.code), "no gateway runs"
		}
		err = printJSON(env.Stdout, e)
	}
	if err != nil || outcome == nil {
		return err
	}
	return outcome
}

// look finds the home that is meant, and its service if one is installed. Where no service can
// be looked for that is no error: the gateway counts.
func (o *statusOptions) look(ctx context.Context, env Env) (home.Home, *installer.Observed, error) {
	o.looks = true
	h, t, standing, err := o.resolve(ctx, env)
	if err == nil && standing != nil && standing.Home == t.Home.Dir {
		seen, err := h.Observe(ctx, t, installer.Desired{})
		return t.Home, &seen, err
	}
	if exitcode.Of(err) == exitcode.Usage && (o.user || o.system) {
		return home.Home{}, nil, err
	}
	own, err := o.locate(env)
	return own, nil, err
}

func (d statusDoc) text() string {
	return d.gateway() + d.service()
}

// service says how the installed service is.
func (d statusDoc) service() string {
	if d.Service == nil {
		return ""
	}
	var b strings.Builder
	o := d.Service
	fmt.Fprintf(&b, "service   %s, %s (%s)", o.State, o.Unit(), o.Scope)
	if o.Reason != "" {
		b.WriteString(": " + o.Reason)
	}
	b.WriteByte('\n')
	if o.Fix != "" && o.State != installer.Foreign {
		b.WriteString("          " + o.Fix + "\n")
	}
	for _, s := range o.Sockets {
		fmt.Fprintf(&b, "socket    %s, %s (%s)\n", s.Active, s.Unit, strings.Join(s.Listen, ", "))
	}
	for _, n := range o.Notices {
		b.WriteString("note      " + n + "\n")
	}
	return b.String()
}

func (d statusDoc) gateway() string {
	var b strings.Builder
	switch {
	case d.Status == nil:
		return "no gateway runs, and none has run on " + d.Home + "\n"
	case !d.Running:
		fmt.Fprintf(&b, "no gateway runs; the last one was %s", d.Status.Phase)
		if d.Status.Reason != "" {
			b.WriteString(": " + d.Status.Reason)
		}
		b.WriteByte('\n')
		return b.String()
	}
	fmt.Fprintf(&b, "gateway   %s, process %d, since %s\nprofiles  %s\nturns     %d running\n", d.Status.Phase, d.Status.PID,
		d.Status.Started, strings.Join(d.Status.Profiles, ", "), d.Status.Agents)
	for _, name := range slices.Sorted(maps.Keys(d.Status.Platforms)) {
		p := d.Status.Platforms[name]
		fmt.Fprintf(&b, "%-9s %s", name, p.State)
		for _, more := range []string{p.Listener, p.Message} {
			if more != "" {
				b.WriteString("  " + more)
			}
		}
		b.WriteByte('\n')
	}
	for _, n := range d.Status.Notices {
		b.WriteString("note      " + n + "\n")
	}
	return b.String()
}
