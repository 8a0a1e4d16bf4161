// SPDX-License-Identifier: MIT

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermes-appliance/hermes-appliance/appliance/config"
	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/installer/generation"
	"github.com/hermes-appliance/hermes-appliance/internal/buildinfo"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
	"github.com/hermes-appliance/hermes-appliance/migrate"
	"github.com/hermes-appliance/hermes-appliance/migrate/yamlspan"
)

// lockWait is how long migrate waits for another process that writes the same home.
const lockWait = 30 * time.Second

type migrateOptions struct {
	home, profile        string
	all                  bool
	dryRun, check        bool
	json, quiet          bool
	to, assume           int
	oldConfig, newConfig string
	rollback, list       bool
	explain              int
	why                  generation.Reason // of the generations it makes; "" = [generation.Migrate]
	manager, declared    string
	decided              config.Declared // read from declared
}

func newMigrate(st *state) *cobra.Command {
	var o migrateOptions
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Bring a home's config to the current version, losslessly",
		Long: "Brings config.yaml (and what belongs to it in .env and SOUL.md) to the current version. Only the lines that a\n" +
			"step names change; comments, order, quotes and line endings stay. The old files are kept in backups/config and\n" +
			"--rollback returns to them. Without --profile or --all-profiles it works on the default home.",
		DisableFlagsInUseLine: true,
		Example: "  hermes-appliance migrate --dry-run          show what would change, write nothing\n" +
			"  hermes-appliance migrate --all-profiles     migrate the home and every profile\n" +
			"  hermes-appliance migrate --rollback         take the last migration back\n" +
			"  hermes-appliance migrate --explain 48       what a step does, and why",
		Args: cobra.NoArgs,
	}
	cmd.Use = "migrate [FLAGS]"
	cmd.RunE = handler(st, func(ctx context.Context, env Env) error { return o.run(ctx, env) })
	exits(cmd, exitcode.OK, exitcode.Error, exitcode.Usage, exitcode.Pending, exitcode.Newer, exitcode.Managed,
		exitcode.BelowFloor, exitcode.Locked, exitcode.Unparseable, exitcode.Interrupted)
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.home, "home", "", "the home `DIR` (default $HERMES_HOME, else ~/.hermes)")
	f.StringVar(&o.profile, "profile", "", "work on this profile `NAME` only")
	f.BoolVar(&o.all, "all-profiles", false, "work on the default home and every live profile")
	f.BoolVar(&o.dryRun, "dry-run", false, "print the changes as a diff and write nothing")
	f.BoolVar(&o.check, "check", false, "write nothing; exit 3 if there is something to do")
	f.BoolVar(&o.json, "json", false, "print JSON")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "print nothing where there is nothing to do; changes are always named")
	f.IntVar(&o.to, "to", 0, "stop at config version `N` (default the latest)")
	f.IntVar(&o.assume, "assume-version", 0, "treat a file without a version as version `N`, so that all steps after it run")
	f.StringVar(&o.oldConfig, "old-config", "", "read this `FILE` instead of a home; needs --new-config")
	f.StringVar(&o.newConfig, "new-config", "", "write the result to this new `FILE`, or - for standard output")
	f.BoolVar(&o.rollback, "rollback", false, "return to the files of before the last migration")
	f.StringVar(&o.manager, "manager", "", "for the activation of a manager `NAME` such as nixos: write a home that it manages")
	f.StringVar(&o.declared, "declared", "", "say which changes this JSON `FILE` of declared settings takes back")
	f.BoolVar(&o.list, "list", false, "list the steps")
	f.IntVar(&o.explain, "explain", 0, "explain the step to version `N`")
	return cmd
}

func (o *migrateOptions) run(ctx context.Context, env Env) error {
	if err := o.valid(); err != nil {
		return err
	}
	switch {
	case o.list:
		return o.printLadder(env)
	case o.explain != 0:
		return o.printStep(env)
	case o.oldConfig != "":
		return o.convert(env)
	}
	return o.homes(ctx, env)
}

// valid refuses combinations that contradict each other.
func (o *migrateOptions) valid() error {
	latest := migrate.Latest()
	files := o.oldConfig != "" || o.newConfig != ""
	switch {
	case o.all && o.profile != "":
		return usagef("--all-profiles and --profile exclude each other")
	case o.dryRun && o.check:
		return usagef("--dry-run and --check exclude each other")
	case files && (o.oldConfig == "" || o.newConfig == ""):
		return usagef("--old-config and --new-config go together")
	case files && (o.home != "" || o.profile != "" || o.all || o.dryRun || o.check || o.rollback):
		return usagef("--old-config works on files, without a home: no --home, --profile, --all-profiles, --dry-run, --check or --rollback")
	case o.rollback && (o.check || o.to != 0 || o.assume != 0):
		return usagef("--rollback takes back the last migration: no --check, --to or --assume-version")
	case o.to != 0 && (o.to < migrate.Floor || o.to > latest):
		return usagef("--to %d: expected a version from %d to %d", o.to, migrate.Floor, latest)
	case o.assume != 0 && (o.assume < migrate.Floor || o.assume > latest):
		return usagef("--assume-version %d: expected a version from %d to %d", o.assume, migrate.Floor, latest)
	case o.explain != 0 && (o.explain < migrate.Floor || o.explain > latest):
		return usagef("--explain %d: expected a version from %d to %d", o.explain, migrate.Floor, latest)
	}
	return nil
}

func (o *migrateOptions) options() migrate.Options {
	return migrate.Options{To: o.to, Assume: o.assume}
}

// outcome is what became of one home.
type outcome struct {
	migrate.Result
	err  error
	diff string // with --dry-run
}

// migrator is the one of every command.
func migrator(env Env) migrate.Migrator {
	return migrate.Migrator{
		Ladder: migrate.Released(), Getenv: env.Getenv, Now: env.Now, LockWait: lockWait,
		Program: Name + " " + buildinfo.Read().Version,
	}
}

// homes works on one home or on all of them.
func (o *migrateOptions) homes(ctx context.Context, env Env) error {
	targets, err := o.targets(env)
	if err != nil {
		return err
	}
	m, rec := migrator(env), newRecorder(env)
	m.Manager = o.manager
	m.Ahead = func(ctx context.Context, h home.Home) error {
		rec.record(ctx, h, generation.Found)
		return nil
	}
	if o.declared != "" {
		if o.decided, err = readDeclared(o.declared); err != nil {
			return err
		}
	}
	// The command ends soon and its heap is small: collecting as often as by default costs a
	// third of the time for 200 homes.
	defer debug.SetGCPercent(debug.SetGCPercent(300))
	outcomes := make([]outcome, len(targets))
	var wg sync.WaitGroup
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i, h := range targets {
		wg.Add(1)
		slots <- struct{}{}
		go func() {
			defer func() { <-slots; wg.Done() }()
			if outcomes[i] = (outcome{Result: migrate.Result{Home: h}, err: o.wentBack(rec, h)}); outcomes[i].err != nil {
				return
			}
			outcomes[i] = o.one(ctx, m, h)
			if outcomes[i].Applied {
				rec.record(ctx, h, cmp.Or(o.why, generation.Migrate))
			}
		}()
	}
	wg.Wait()
	if err := o.report(env, outcomes); err != nil {
		return err
	}
	return o.verdict(outcomes)
}

// wentBack refuses to take back what generations rollback did: to the files that is a migration,
// too, and whoever went back does not mean to go forward.
func (o *migrateOptions) wentBack(rec *recorder, h home.Home) error {
	if !o.rollback {
		return nil
	}
	all, err := rec.store(h).List()
	if err != nil || len(all) < 2 {
		return nil //nolint:nilerr // without a record there is nothing to take for granted
	}
	last, before := all[len(all)-1], all[len(all)-2]
	if last.Reason != generation.Rollback || last.Config.SHA256 == before.Config.SHA256 {
		return nil
	}
	return &migrate.Refusal{
		Kind: migrate.ErrChanged, File: h.Config(), Msg: "was last changed by generations rollback, and no migration has followed",
		Fix: fmt.Sprintf("to undo that, run %s generations rollback %d --home %s; to migrate again, %s migrate --home %s", Name, before.Number, h.Dir, Name, h.Dir),
	}
}

func (o *migrateOptions) one(ctx context.Context, m migrate.Migrator, h home.Home) (out outcome) {
	if err := ctx.Err(); err != nil {
		return outcome{Result: migrate.Result{Home: h}, err: err}
	}
	switch {
	case o.rollback && o.dryRun:
		out.Result, out.err = m.PreviewRollback(h)
	case o.rollback:
		out.Result, out.err = m.Rollback(ctx, h)
	case o.dryRun || o.check:
		out.Result, out.err = m.Preview(h, o.options())
	default:
		out.Result, out.err = m.Apply(ctx, h, o.options())
	}
	if o.all && errors.Is(out.err, migrate.ErrChanged) && !o.rollback {
		// Profiles may share a file through links, and another of them was faster.
		out.Result, out.err = m.Apply(ctx, h, o.options())
	}
	out.Home = h
	if out.Plan != nil {
		o.returning(out.Plan)
		if o.dryRun {
			diff, err := out.Plan.Diff()
			out.diff, out.err = diff, errors.Join(out.err, err)
		}
		out.Plan.DropContents() // of 200 homes, they would fill the memory
	}
	if o.all && o.rollback && errors.Is(out.err, migrate.ErrNoBackup) {
		out.err = nil // a profile that was never migrated has nothing to take back
	}
	return out
}

// targets are the homes to work on.
func (o *migrateOptions) targets(env Env) ([]home.Home, error) {
	h, err := home.Locate(o.home, env.Getenv)
	if err != nil {
		return nil, usagef("%w", err)
	}
	switch {
	case o.profile != "":
		if h, err = h.NamedProfile(o.profile); err != nil {
			return nil, err
		}
	case o.all:
		h = h.Root()
		if err := there(h); err != nil {
			return nil, err
		}
		profiles, err := h.Profiles()
		if err != nil {
			return nil, err
		}
		return append([]home.Home{h}, profiles...), nil
	}
	return []home.Home{h}, there(h)
}

// there fails where a home is not even a directory.
func there(h home.Home) error {
	if _, err := os.Stat(h.Dir); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: there is no home; %s up --home %s makes one", h.Dir, Name, h.Dir)
	}
	return nil
}

// verdict is the error for all homes: that of the first one that failed, or that there is
// something to do.
func (o *migrateOptions) verdict(outcomes []outcome) error {
	failed := 0
	var first error
	pending := false
	for _, out := range outcomes {
		if out.err != nil {
			failed++
			if first == nil {
				first = out.err
			}
		} else if out.Plan != nil && out.Plan.Pending() {
			pending = true
		}
	}
	switch {
	case failed == 1 && len(outcomes) == 1:
		return first
	case failed > 0:
		return &codeError{exitcode.Of(first), fmt.Sprintf("%d of %d homes failed, see above; the first: %v", failed, len(outcomes), first)}
	case o.check && pending:
		return &codeError{exitcode.Pending, ""}
	}
	return nil
}

// returning adds to a plan's advice which of its changes the declared settings take back: they
// are laid over the file after it, so that the value belongs there and nowhere else.
func (o *migrateOptions) returning(p *migrate.Plan) {
	for _, c := range p.Changes {
		if c.File == migrate.FileConfig && c.Action != migrate.Added && c.Step > 0 && o.decided.Decides(c.Path...) {
			p.Advice = append(p.Advice, "declared settings set "+yamlspan.PathString(c.Path)+" again: change settings."+yamlspan.PathString(c.Path)+" in the configuration of "+o.managerName())
		}
	}
}

func (o *migrateOptions) managerName() string {
	if o.manager == "" {
		return "the manager"
	}
	return o.manager
}
