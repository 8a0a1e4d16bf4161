// SPDX-License-Identifier: MIT

package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermes-appliance/hermes-appliance/appliance"
	"github.com/hermes-appliance/hermes-appliance/appliance/checkpoint"
	"github.com/hermes-appliance/hermes-appliance/appliance/config"
	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/appliance/process"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
)

type checkpointOptions struct {
	homeOptions
	dir   string
	hash  string
	files []string
	yes   bool
	json  bool
}

func newCheckpoints(st *state) *cobra.Command {
	return group(st, "checkpoints", "Look at what a directory was before an agent changed it, and go back",
		"With checkpoints.enabled: true the gateway keeps a snapshot of a directory before an agent changes files in it.",
		"  hermes-appliance checkpoints list", newCheckpointsList(st), newCheckpointsDiff(st), newCheckpointsRestore(st))
}

// checkpointVerb makes a verb that takes a checkpoint, or nothing.
func checkpointVerb(st *state, use, short, long, example string, n int, run func(o *checkpointOptions, ctx context.Context, env Env) error) (*cobra.Command, *checkpointOptions) {
	var o checkpointOptions
	cmd := &cobra.Command{Use: use, Short: short, Long: long, Example: example, DisableFlagsInUseLine: true, Args: cobra.ExactArgs(n)}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		st.started = true
		if n > 0 {
			o.hash = args[0]
		}
		return run(&o, cmd.Context(), st.env)
	}
	o.register(cmd)
	cmd.Flags().StringVar(&o.dir, "dir", "", "the directory `DIR` that was kept (default: the one you are in)")
	exits(cmd, exitcode.OK, exitcode.Error, exitcode.Usage, exitcode.Unparseable)
	return cmd, &o
}

func newCheckpointsList(st *state) *cobra.Command {
	cmd, o := checkpointVerb(st, "list [FLAGS]", "List the checkpoints of a directory, the newest first",
		"Lists the checkpoints of a directory, the newest first. It changes nothing.",
		"  hermes-appliance checkpoints list --dir ~/project", 0, (*checkpointOptions).list)
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

func newCheckpointsDiff(st *state) *cobra.Command {
	cmd, o := checkpointVerb(st, "diff CHECKPOINT [FLAGS]", "Show what has changed in a directory since a checkpoint",
		"Shows, as a unified diff, what has changed since a checkpoint, which is named by four or more digits of its hash. It\nchanges nothing.",
		"  hermes-appliance checkpoints diff 1f3a", 1, (*checkpointOptions).diff)
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

func newCheckpointsRestore(st *state) *cobra.Command {
	cmd, o := checkpointVerb(st, "restore CHECKPOINT [FLAGS]", "Bring a directory, or files of it, back to a checkpoint",
		"Takes a checkpoint of the present first, then makes files and links what they were and removes what was made since.\n"+
			"What no checkpoint holds is never overwritten or removed. You are asked before anything is changed.",
		"  hermes-appliance checkpoints restore 1f3a --file src/main.go --file docs", 1, (*checkpointOptions).restore)
	cmd.Flags().StringArrayVar(&o.files, "file", nil, "only this `FILE` or directory, relative to the directory that was kept; may be repeated")
	cmd.Flags().BoolVar(&o.yes, "yes", false, "do not ask")
	return cmd
}

// open returns the store and the directory that the options name.
func (o *checkpointOptions) open(env Env) (store *checkpoint.Store, h home.Home, dir string, err error) {
	if h, err = o.locate(env); err != nil {
		return nil, h, "", err
	}
	c, err := config.Load(h, config.Options{AdminDir: home.AdminDir(env.Getenv)})
	if err != nil {
		return nil, h, "", err
	}
	opts, err := appliance.CheckpointOptions(h, c.With(nil), env.Getenv)
	if err != nil {
		return nil, h, "", err
	}
	if dir = o.dir; dir == "" {
		dir, err = os.Getwd()
	} else {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return nil, h, "", err
	}
	log := slog.New(slog.NewTextHandler(env.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	opts.Processes, opts.Now, opts.Log = process.New(log), env.Now, log
	for _, name := range []string{"PATH", "TMPDIR"} { // all that git gets of an environment
		if v := env.Getenv(name); v != "" {
			opts.Env = append(opts.Env, name+"="+v)
		}
	}
	return checkpoint.New(opts), h, dir, nil
}

// checkpointsDoc is the result of checkpoints list --json.
type checkpointsDoc struct {
	Profile     string          `json:"profile"`
	Dir         string          `json:"dir"`
	Checkpoints []checkpointDoc `json:"checkpoints"`
}

type checkpointDoc struct {
	Hash   string    `json:"hash"`
	Time   time.Time `json:"time"`
	Reason string    `json:"reason"`
}

func (o *checkpointOptions) list(ctx context.Context, env Env) error {
	store, h, dir, err := o.open(env)
	if err != nil {
		return err
	}
	all, err := store.List(ctx, dir)
	if err != nil {
		return err
	}
	d := checkpointsDoc{Profile: h.Profile, Dir: dir, Checkpoints: []checkpointDoc{}}
	for _, c := range all {
		d.Checkpoints = append(d.Checkpoints, checkpointDoc{c.Hash, c.Time.UTC(), c.Reason})
	}
	if o.json {
		return printJSON(env.Stdout, envelope{Schema: schemaVersion, Command: "checkpoints list", Result: d})
	}
	_, err = fmt.Fprint(env.Stdout, d.text())
	return err
}

// text is the document for people. A reason may be a file's words: what could steer a terminal
// is not printed.
func (d checkpointsDoc) text() string {
	if len(d.Checkpoints) == 0 {
		return fmt.Sprintf("%s has no checkpoints in the profile %s\n", d.Dir, d.Profile)
	}
	var b strings.Builder
	for _, c := range d.Checkpoints {
		fmt.Fprintf(&b, "%s  %s  %s\n", short(c.Hash), c.Time.Format(time.RFC3339), printable(c.Reason))
	}
	return b.String()
}

// short is enough of a hash to name a checkpoint.
func short(hash string) string { return hash[:min(len(hash), 10)] }

// printable replaces control characters.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '?'
		}
		return r
	}, s)
}

func (o *checkpointOptions) diff(ctx context.Context, env Env) error {
	store, h, dir, err := o.open(env)
	if err != nil {
		return err
	}
	text, err := store.Diff(ctx, dir, o.hash)
	if err != nil {
		return o.explain(err)
	}
	if o.json {
		doc := map[string]any{"profile": h.Profile, "dir": dir, "checkpoint": o.hash, "changed": text != "", "diff": text}
		return printJSON(env.Stdout, envelope{Schema: schemaVersion, Command: "checkpoints diff", Result: doc})
	}
	_, err = fmt.Fprint(env.Stdout, text)
	return err
}

// explain says what to do about a checkpoint that is not there.
func (o *checkpointOptions) explain(err error) error {
	if errors.Is(err, checkpoint.ErrNotFound) {
		return fmt.Errorf("%w; %s checkpoints list shows what there is, and --dir names another directory", err, Name)
	}
	if errors.Is(err, checkpoint.ErrInvalid) {
		return usagef("%w", err)
	}
	return err
}

func (o *checkpointOptions) restore(ctx context.Context, env Env) error {
	store, _, dir, err := o.open(env)
	if err != nil {
		return err
	}
	if _, err := store.Diff(ctx, dir, o.hash); err != nil { // before anybody is asked for nothing
		return o.explain(err)
	}
	if !o.yes {
		what := "all of " + dir
		if len(o.files) > 0 {
			what = strings.Join(o.files, ", ") + " in " + dir
		}
		fmt.Fprintf(env.Stderr, "Bring %s back to the checkpoint %s? The present is kept as a checkpoint first. y = yes, anything else = no: ", printable(what), o.hash) //nolint:errcheck // nowhere left to say it
		if a := strings.ToLower(strings.TrimSpace(readLine(ctx, env.Stdin))); a != "y" && a != "yes" {
			return errors.New("nothing was restored: nobody said yes; --yes restores without asking")
		}
	}
	r, err := store.Restore(ctx, dir, o.hash, o.files...)
	var b strings.Builder
	for _, list := range []struct {
		what  string
		paths []string
	}{{"restored", r.Written}, {"removed", r.Removed}, {"kept", r.Kept}} {
		for _, p := range list.paths {
			fmt.Fprintf(&b, "%-8s  %s\n", list.what, printable(p))
		}
	}
	if len(r.Kept) > 0 {
		b.WriteString("What was kept is in the place of a file of the checkpoint, and no checkpoint holds it.\n")
	}
	switch {
	case err == nil && b.Len() == 0:
		b.WriteString("Nothing differs.\n")
	case r.Before.Hash != "":
		fmt.Fprintf(&b, "What it was before is the checkpoint %s.\n", short(r.Before.Hash))
	}
	_, werr := fmt.Fprint(env.Stdout, b.String())
	return errors.Join(o.explain(err), werr)
}
