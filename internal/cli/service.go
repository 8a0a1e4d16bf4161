// SPDX-License-Identifier: MIT

package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
	"github.com/hermes-appliance/hermes-appliance/service"
)

func newService(st *state) *cobra.Command {
	return group(st, "service", "Show how a service manager runs the gateway",
		"The gateway runs under systemd. This command shows the units, and touches no host.",
		"  hermes-appliance service unit --json", newServiceUnit(st))
}

type unitOptions struct {
	name, scope, home           string
	account, group, accountHome string
	program, hardening          string
	writable, sockets           []string
	drain, watchdog             time.Duration
	json                        bool
}

func newServiceUnit(st *state) *cobra.Command {
	var o unitOptions
	cmd := &cobra.Command{
		Use: "unit [FLAGS]", Short: "Print the systemd unit of the gateway with its drop-ins, and write nothing",
		Long: "Prints the unit as it would be installed: with --json each file as its list of sections, names and values, for programs\n" +
			"that make units of their own from it. Nothing of the host is looked at or changed.",
		DisableFlagsInUseLine: true,
		Example:               "  hermes-appliance service unit --scope system --home /var/lib/hermes/.hermes --account hermes --json",
		Args:                  cobra.NoArgs,
	}
	cmd.RunE = handler(st, func(_ context.Context, env Env) error { return o.run(env) })
	exits(cmd, exitcode.OK, exitcode.Error, exitcode.Usage)
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.scope, "scope", string(service.System), "whose service: system or user")
	f.StringVar(&o.home, "home", "/var/lib/hermes/.hermes", "the home `DIR`, absolute")
	f.StringVar(&o.name, "name", service.Base, "the unit's `NAME`")
	f.StringVar(&o.account, "account", "hermes", "the `ACCOUNT` of a system service")
	f.StringVar(&o.group, "group", "", "its `GROUP` (default the account's name)")
	f.StringVar(&o.accountHome, "account-home", "", "that account's home `DIR` (default the parent of --home)")
	f.StringVar(&o.program, "program", "/usr/bin/"+Name, "the absolute `PATH` of this program")
	f.StringVar(&o.hardening, "hardening", "", "balanced, agent or none (default balanced for the system, none for a user)")
	f.StringArrayVar(&o.writable, "writable", nil, "a `DIR` it may write beside its home")
	f.StringArrayVar(&o.sockets, "socket", nil, "a listener `NAME=ADDRESS` that systemd holds: api_server or webhook")
	f.DurationVar(&o.drain, "drain", 0, "how long running turns may take at a stop")
	f.DurationVar(&o.watchdog, "watchdog", 0, "restart it after this long without a sign of life; 0 = never")
	f.BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

func (o *unitOptions) spec() service.Spec {
	s := service.Spec{
		Name: o.name, Scope: service.Scope(o.scope), Home: o.home, Exec: []string{o.program, "gateway", "run"},
		Drain: o.drain, Watchdog: o.watchdog, Hardening: service.Hardening(o.hardening), Writable: o.writable,
	}
	for _, k := range o.sockets {
		name, address, _ := strings.Cut(k, "=")
		s.Sockets = append(s.Sockets, service.Socket{Name: name, Listen: address})
	}
	if s.Scope == service.System {
		s.Account, s.Group, s.AccountHome = o.account, o.group, o.accountHome
		if s.Group == "" {
			s.Group = s.Account
		}
		if s.AccountHome == "" {
			s.AccountHome = filepath.Dir(o.home)
		}
	}
	return s
}

// unitDoc is the result of service unit --json.
type unitDoc struct {
	Name  string        `json:"name"`
	Scope service.Scope `json:"scope"`
	Files []unitFile    `json:"files"`
}

type unitFile struct {
	Name    string       `json:"name"` // relative to the directory of units
	Options []unitOption `json:"options"`
}

// unitOption is a line of a unit; value is as systemd reads it.
type unitOption struct {
	Section string `json:"section"`
	Name    string `json:"name"`
	Value   string `json:"value"`
}

func (o *unitOptions) run(env Env) error {
	s := o.spec()
	files, err := s.Systemd()
	if err != nil {
		return usagef("%w", err)
	}
	if !o.json {
		var b strings.Builder
		for i, f := range files {
			if i > 0 {
				b.WriteByte('\n')
			}
			fmt.Fprintf(&b, "# %s\n%s", f.Name, f.Data)
		}
		_, err := fmt.Fprint(env.Stdout, b.String())
		return err
	}
	doc := unitDoc{Name: s.Name, Scope: s.Scope, Files: []unitFile{}}
	for _, f := range files {
		u, err := service.ParseUnit(f.Data)
		if err != nil {
			return err
		}
		out := unitFile{Name: f.Name, Options: []unitOption{}}
		for _, x := range u.Options {
			out.Options = append(out.Options, unitOption(x))
		}
		doc.Files = append(doc.Files, out)
	}
	return printJSON(env.Stdout, envelope{Schema: schemaVersion, Command: "service unit", Result: doc})
}
