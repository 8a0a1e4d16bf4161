// SPDX-License-Identifier: MIT

package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/installer"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/internal/buildinfo"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
	"github.com/hermes-appliance/hermes-appliance/migrate"
	"github.com/hermes-appliance/hermes-appliance/service"
)

type installOptions struct {
	serviceOptions
	noStart, noEnable, force bool
	dryRun, diff, print      bool
	hardening                string
	socket                   *bool // nil = as it is
}

func newInstall(st *state) *cobra.Command {
	o := installOptions{serviceOptions: serviceOptions{verb: "install"}}
	cmd := &cobra.Command{
		Use: "install [FLAGS]", Short: "Install the gateway as a service, enable and start it",
		Long: "Brings the home's config up to date, writes the service's definition, enables it and starts it, and says done only\n" +
			"when the new process answers. If a step fails, everything but the migration is undone. What somebody else wrote or\n" +
			"edited is never overwritten without --force, and then a copy is kept. Running it again changes nothing.",
		DisableFlagsInUseLine: true,
		Example: "  sudo hermes-appliance install --system      start with the machine, as the user who called sudo\n" +
			"  hermes-appliance install --user             a service of your own, which outlives your session\n" +
			"  hermes-appliance install --dry-run --diff   show what would change, change nothing\n" +
			"  hermes-appliance install --root DIR --run-as-user hermes   into an image that is being built",
		Args: cobra.NoArgs,
	}
	cmd.RunE = handler(st, func(ctx context.Context, env Env) error { return o.run(ctx, env) })
	exits(cmd, exitcode.OK, exitcode.Error, exitcode.Usage, exitcode.Managed, exitcode.BelowFloor, exitcode.Locked,
		exitcode.Unparseable, exitcode.Config, exitcode.Interrupted)
	o.register(cmd)
	f := cmd.Flags()
	f.StringVar(&o.runAs, "run-as-user", "", "the `NAME` of the account that a system service runs as (default who called sudo)")
	f.StringVar(&o.hardening, "hardening", "", "the `PROFILE` of what a system service is kept from: balanced, agent or none (default what it has, else balanced)")
	f.BoolFunc("socket", "have systemd hold the gateway's ports, so that requests wait through a restart; --socket=false ends that (default as it is)", func(v string) error {
		on, err := strconv.ParseBool(v)
		o.socket = &on
		return err
	})
	f.BoolVar(&o.noStart, "no-start", false, "do not start it now")
	f.BoolVar(&o.noEnable, "no-enable", false, "do not have it start by itself")
	f.BoolVar(&o.force, "force", false, "replace a definition that was edited or is not ours; a copy is kept")
	f.StringVar(&o.root, "root", "", "write into the image below `DIR`; no service manager is asked")
	f.BoolVar(&o.dryRun, "dry-run", false, "show what would be done, do nothing")
	f.BoolVar(&o.diff, "diff", false, "show how files would change, do nothing")
	f.BoolVar(&o.print, "print", false, "print the files, do nothing")
	return cmd
}

// installDoc is the result of install and uninstall --json.
type installDoc struct {
	installer.Report

	Home    string    `json:"home"`
	Pending bool      `json:"pending"` // with --dry-run: there is something to do
	Diff    string    `json:"diff,omitempty"`
	Refused *errorDoc `json:"refused,omitempty"` // with --dry-run: why it would not be done
}

func (o *installOptions) run(ctx context.Context, env Env) error {
	o.installs = true
	if err := service.Hardening(o.hardening).Check(); err != nil { // whatever else there is to say
		return usagef("%w", err)
	}
	h, t, standing, err := o.resolve(ctx, env)
	if err != nil {
		return o.nothing(env, err)
	}
	if !o.force && !h.Offline {
		if err := unserved(t.Home); err != nil { // its own gateway would park at once
			return err
		}
	}
	r := installer.Request{
		Target: t, Standing: standing, Options: installer.Options{NoStart: o.noStart, NoEnable: o.noEnable, Force: o.force},
		Prepare: func() error { return prepare(h, t) },
	}
	if r.Spec, err = o.spec(ctx, h, t, env, asked{o.hardening, o.socket}); err != nil {
		return err
	}
	if o.print {
		d, err := h.Desired(r.Spec, t, r.Options)
		if err != nil {
			return err
		}
		if o.json {
			return printJSON(env.Stdout, envelope{Schema: schemaVersion, Command: o.verb, Result: map[string]any{"files": d.Printed()}})
		}
		_, err = fmt.Fprint(env.Stdout, d.Text())
		return err
	}
	r.Migrator = migrate.Migrator{
		Ladder: migrate.Released(), Getenv: env.Getenv, Now: env.Now, LockWait: lockWait, Program: Name + " " + buildinfo.Read().Version,
	}
	if o.dryRun || o.diff {
		rep, err := h.Preview(ctx, r)
		return o.preview(env, "install", installDoc{Report: rep, Home: t.Home.Dir}, err)
	}
	rep, err := h.Install(ctx, r)
	if err != nil {
		return err
	}
	if !h.Offline {
		recordInstall(ctx, env, h, r.Spec, t, r.Options)
	}
	doc := installDoc{Report: rep, Home: t.Home.Dir}
	if o.json {
		return printJSON(env.Stdout, envelope{Schema: schemaVersion, Command: "install", Result: doc})
	}
	_, err = fmt.Fprint(env.Stdout, doc.installed(h.Offline))
	return err
}

// nothing prints why there is nothing to install, where that is fine.
func (o *installOptions) nothing(env Env, err error) error {
	r, ok := errors.AsType[*installer.Refusal](err)
	if !ok || r.Code != exitcode.OK {
		return err
	}
	if o.json {
		return printJSON(env.Stdout, envelope{Schema: schemaVersion, Command: o.verb, Result: map[string]any{"nothing": r}})
	}
	_, err = fmt.Fprintln(env.Stdout, r.Error())
	return err
}

// preview prints a plan. A refusal is shown with it and is the outcome.
func (o *installOptions) preview(env Env, command string, doc installDoc, err error) error {
	if _, ok := errors.AsType[*installer.Refusal](err); err != nil && !ok {
		return err
	}
	doc.Pending = doc.Plan.Pending()
	doc.Refused = describe(err)
	if o.diff {
		doc.Diff = doc.Plan.Diff()
	}
	if o.json {
		if perr := printJSON(env.Stdout, envelope{Schema: schemaVersion, Command: command, Exit: int(exitcode.Of(err)), Result: doc}); perr != nil {
			return perr
		}
		if err != nil {
			return &codeError{exitcode.Of(err), err.Error()}
		}
		return nil
	}
	var b strings.Builder
	if doc.Settled != "" {
		b.WriteString("  " + doc.Settled + "\n")
	}
	for _, m := range doc.Migrated {
		b.WriteString("  migrate   " + m + "  (its config is older than this program)\n")
	}
	b.WriteString(doc.Plan.Text() + doc.Diff)
	if !doc.Pending && len(doc.Migrated) == 0 {
		b.WriteString("nothing to do: " + doc.Plan.Unit() + " is " + string(doc.Observed.State) + "\n")
	}
	if _, perr := fmt.Fprint(env.Stdout, b.String()); perr != nil {
		return perr
	}
	return err
}

// prepare makes the home where there is none, for the account that the service runs as.
func prepare(h installer.Host, t installer.Target) error {
	real := home.Home{Dir: filepath.Join(h.Root, t.Home.Dir), Profile: t.Home.Profile}
	if _, err := os.Stat(real.Dir); errors.Is(err, fs.ErrNotExist) {
		if err := makeDirs(real.Dir, t.Account); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	_, err := makeHome(real)
	return err
}

// makeDirs makes a directory and those on the way to it; the account owns what is made.
func makeDirs(dir string, a installer.Account) error {
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := makeDirs(filepath.Dir(dir), a); err != nil {
		return err
	}
	if err := (atomicfile.Writer{}).Mkdir(dir, 0o700); err != nil {
		return err
	}
	return installer.Give(dir, a)
}

func (d installDoc) common(b *strings.Builder) {
	if d.Settled != "" {
		b.WriteString(d.Settled + "\n")
	}
	for _, m := range d.Migrated {
		fmt.Fprintf(b, "migrated %s (%s migrate --rollback --home %s takes it back)\n", m, Name, m)
	}
	for _, k := range d.Plan.Kept {
		b.WriteString("kept " + k + "\n")
	}
	for _, w := range d.Warnings {
		b.WriteString("warning: " + w + "\n")
	}
	for _, n := range d.Plan.Notices {
		b.WriteString("note: " + n + "\n")
	}
}

func (d installDoc) installed(offline bool) string {
	var b strings.Builder
	d.common(&b)
	o := d.Observed
	switch {
	case !d.Applied:
		fmt.Fprintf(&b, "%s is installed as it should be: nothing to do (%s)\n", o.Unit(), o.State)
	case offline:
		fmt.Fprintf(&b, "%s is in the image; it starts with the machine that boots it\n", o.Unit())
	default:
		fmt.Fprintf(&b, "%s of %s is %s", o.Unit(), d.Home, o.State)
		if o.Props.PID > 0 {
			fmt.Fprintf(&b, ", process %d", o.Props.PID)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
