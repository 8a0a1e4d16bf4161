// SPDX-License-Identifier: MIT

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/images"
	"github.com/hermes-appliance/hermes-appliance/installer/generation"
	"github.com/hermes-appliance/hermes-appliance/installer/update"
	"github.com/hermes-appliance/hermes-appliance/internal/buildinfo"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
)

// restartWait is how long a gateway may take to come up, beyond its drain.
const restartWait = 3 * time.Minute

type updateOptions struct {
	home         string
	check, apply string
	key          string
	downgrade    bool
	json         bool
	wait         time.Duration
}

func newUpdate(st *state) *cobra.Command {
	var o updateOptions
	cmd := &cobra.Command{
		Use: "update [FLAGS]", Short: "Replace this program by a newer release, or see whether it may be",
		Long: "FILE is the program of a release, with its checksums.txt and checksums.txt.sig beside it. It replaces this program only\n" +
			"if the signature proves the list, the list proves the file, and it is newer and for this system. The gateways of the\n" +
			"home and its profiles finish their turns and start again; one that does not come up with the new version brings the\n" +
			"old program, config and gateway back. Without --check and --apply it finishes or undoes an update that was cut off.",
		DisableFlagsInUseLine: true,
		Example: "  hermes-appliance update --check ./hermes-appliance_1.3.0_linux_amd64     what would happen; exit 3: it is newer\n" +
			"  hermes-appliance update --apply ./hermes-appliance_1.3.0_linux_amd64",
		Args: cobra.NoArgs,
	}
	cmd.RunE = handler(st, func(ctx context.Context, env Env) error { return o.run(ctx, env) })
	exits(cmd, exitcode.OK, exitcode.Error, exitcode.Usage, exitcode.Pending, exitcode.Managed, exitcode.Locked,
		exitcode.Unparseable, exitcode.Interrupted)
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.home, "home", "", "the home `DIR` (default $HERMES_HOME, else ~/.hermes)")
	f.StringVar(&o.check, "check", "", "say what --apply of this `FILE` would do, change nothing; exit 3 if it is an update")
	f.StringVar(&o.apply, "apply", "", "replace this program by this `FILE`")
	f.StringVar(&o.key, "key", "", "the public key `FILE` of the releases (default the one that is built in)")
	f.BoolVar(&o.downgrade, "allow-downgrade", false, "also go to an older release, or from a build without a version")
	f.DurationVar(&o.wait, "wait", restartWait, "how long a gateway may take to come up, beyond its drain")
	f.BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

// updateDoc is the result of update --json.
type updateDoc struct {
	Program    string       `json:"program"`
	From       string       `json:"from"`
	To         string       `json:"to,omitempty"`
	State      string       `json:"state"` // current, update, downgrade, updated, settled, nothing
	Generation int          `json:"generation,omitempty"`
	Restart    []gatewayDoc `json:"restart"` // gateways that start again
	Manual     []gatewayDoc `json:"manual"`  // that run the old program until somebody starts them again
	Others     []int        `json:"others"`  // processes of this program that serve other homes
	Notes      []string     `json:"notes"`
}

type gatewayDoc struct {
	Home string `json:"home"`
	PID  int    `json:"pid"`
}

func gatewayDocs(all []generation.Gateway) []gatewayDoc {
	out := []gatewayDoc{}
	for _, g := range all {
		out = append(out, gatewayDoc{g.Home.Dir, g.PID})
	}
	return out
}

func (o *updateOptions) run(ctx context.Context, env Env) error {
	if o.check != "" && o.apply != "" {
		return usagef("--check and --apply exclude each other")
	}
	h, err := home.Locate(o.home, env.Getenv)
	if err != nil {
		return usagef("%w", err)
	}
	h = h.Root()
	r := newRecorder(env)
	a, err := r.activation(h, o.wait)
	if err != nil {
		return err
	}
	a.Migrate = func(ctx context.Context, program string) error { return migrateWith(ctx, env, h, program) }
	d := updateDoc{Program: a.Seen.Binary.Path, From: a.Seen.Binary.Version, State: "nothing", Others: []int{}, Notes: []string{}}
	if o.check == "" && o.apply == "" {
		said, err := a.Settle(ctx)
		if said != "" {
			d.State, d.Notes = "settled", append(d.Notes, said)
		}
		return errors.Join(o.print(env, d, exitcode.OK), err)
	}
	rel, err := o.open(a.Seen.Binary)
	if err != nil {
		return err
	}
	d.To = rel.Binary.Version
	all, err := a.Fleet.Running(ctx)
	if err != nil {
		return err
	}
	d.Others = append(d.Others, otherGateways(d.Program, all)...)
	if rel.Current {
		d.State = "current"
		return o.print(env, d, exitcode.OK)
	}
	if err := generation.Replaceable(ctx, d.Program); err != nil {
		return err
	}
	if o.check != "" {
		return o.say(env, d, rel, all)
	}
	return o.do(ctx, env, r, a, rel, d)
}

// say prints what --apply would do.
func (o *updateOptions) say(env Env, d updateDoc, rel update.Release, all []generation.Gateway) error {
	d.State = "update"
	if rel.Older {
		d.State = "downgrade"
	}
	var again, manual []generation.Gateway
	for _, g := range all {
		if g.Supervisor == "" {
			manual = append(manual, g)
		} else {
			again = append(again, g)
		}
	}
	d.Restart, d.Manual = gatewayDocs(again), gatewayDocs(manual)
	if err := o.print(env, d, exitcode.Pending); err != nil {
		return err
	}
	return &codeError{exitcode.Pending, ""}
}

// do applies a release.
func (o *updateOptions) do(ctx context.Context, env Env, r *recorder, a generation.Activation, rel update.Release, d updateDoc) error {
	if _, err := os.Stat(a.Home.Dir); err != nil {
		return fmt.Errorf("an update belongs to a home: %w; make one with %s up, or name it with --home", err, Name)
	}
	a.Check = func(ctx context.Context, path string) error { return proveProgram(ctx, path, rel.Binary.Version) }
	out, err := a.Update(ctx, rel.Binary, rel.Program)
	if err != nil {
		return err
	}
	profiles, err := a.Home.Profiles()
	if err != nil {
		return err
	}
	for _, p := range profiles {
		s := r.store(p)
		if all, err := s.List(); err != nil || len(all) == 0 {
			continue // nobody looks at its generations
		}
		if err := r.put(ctx, p, generation.Update, generation.Seen{Binary: out.Recorded.Binary, Sandbox: sandboxOf(env, p)}); err != nil {
			d.Notes = append(d.Notes, p.Profile+": "+err.Error())
		}
	}
	d.State, d.Generation = "updated", out.Recorded.Number
	d.Restart, d.Manual, d.Notes = gatewayDocs(out.Restart), gatewayDocs(out.Manual), append(d.Notes, out.Notes...)
	return o.print(env, d, exitcode.OK)
}

// open proves the release that the options name.
func (o *updateOptions) open(now generation.Binary) (update.Release, error) {
	key, err := update.ParseKey(buildinfo.ReleaseKey())
	if err == nil && o.key != "" {
		var data []byte
		if data, err = os.ReadFile(o.key); err == nil {
			key, err = images.ParseKey(data)
		}
	}
	if err != nil {
		return update.Release{}, err
	}
	file := o.apply
	if file == "" {
		file = o.check
	}
	running := update.Running{Binary: now, OS: runtime.GOOS, Arch: runtime.GOARCH}
	return update.Open(file, running, update.Options{Key: key, Downgrade: o.downgrade})
}

func (o *updateOptions) print(env Env, d updateDoc, code exitcode.Code) error {
	if d.Restart == nil {
		d.Restart = []gatewayDoc{}
	}
	if d.Manual == nil {
		d.Manual = []gatewayDoc{}
	}
	if o.json {
		return printJSON(env.Stdout, envelope{Schema: schemaVersion, Command: "update", Exit: int(code), Result: d})
	}
	_, err := fmt.Fprint(env.Stdout, d.text())
	return err
}

func (d updateDoc) text() string {
	var b strings.Builder
	switch d.State {
	case "nothing":
		fmt.Fprintf(&b, "%s is version %s; no update was cut off\n", d.Program, d.From)
	case "settled":
	case "current":
		fmt.Fprintf(&b, "%s is version %s already\n", d.Program, d.From)
	case "updated":
		fmt.Fprintf(&b, "%s is version %s now, it was %s (generation %d)\n", d.Program, d.To, d.From, d.Generation)
	default:
		fmt.Fprintf(&b, "%s of %s: %s -> %s\n", d.State, d.Program, d.From, d.To)
	}
	for _, g := range d.Restart {
		does := "starts again when its turns have finished"
		if d.State == "updated" {
			does = "started again and serves"
		}
		fmt.Fprintf(&b, "  gateway of %s: %s\n", g.Home, does)
	}
	for _, g := range d.Manual {
		fmt.Fprintf(&b, "  gateway of %s: process %d was started by hand and runs the old version until you start it again\n", g.Home, g.PID)
	}
	for _, pid := range d.Others {
		fmt.Fprintf(&b, "  process %d serves another home with this program: start it again yourself\n", pid)
	}
	for _, n := range d.Notes {
		fmt.Fprintf(&b, "  %s\n", n)
	}
	return b.String()
}

// proveProgram starts a program once before it replaces another one: what cannot start here must
// not get that far.
func proveProgram(ctx context.Context, path, version string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		cmd := exec.CommandContext(ctx, path, "version", "--json")
		cmd.Env = []string{}
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if errors.Is(err, syscall.ETXTBSY) && ctx.Err() == nil {
			time.Sleep(10 * time.Millisecond) // a child of ours that is being started still has it open
			continue
		}
		var v struct {
			Result struct {
				Version string `json:"version"`
			} `json:"result"`
		}
		if err == nil {
			err = json.Unmarshal(out, &v)
		}
		if err != nil {
			return fmt.Errorf("nothing was changed: the new program does not start here: %w %s", err, strings.TrimSpace(errs.String()))
		}
		if v.Result.Version != version {
			return fmt.Errorf("nothing was changed: the new program calls itself %q, and is to be %q", v.Result.Version, version)
		}
		return nil
	}
}

// migrateWith has a program bring the configs of a home up to date.
func migrateWith(ctx context.Context, env Env, h home.Home, program string) error {
	cmd := exec.CommandContext(ctx, program, "migrate", "--home", h.Dir, "--all-profiles", "--quiet")
	for _, name := range []string{"PATH", "HOME", "TMPDIR", home.EnvManaged, "HERMES_MANAGED_DIR"} {
		if v := env.Getenv(name); v != "" {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState != nil && exitcode.Code(cmd.ProcessState.ExitCode()) == exitcode.Newer {
		return nil // a gateway runs on such a config, too
	}
	if err != nil {
		return fmt.Errorf("the new program cannot migrate the config: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}
