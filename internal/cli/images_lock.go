// SPDX-License-Identifier: MIT

package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermes-appliance/hermes-appliance/images"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
)

func newImagesLock(st *state) *cobra.Command {
	return group(st, "lock", "Check and update the pins of the sandbox image",
		images.LockPath+" pins everything from outside that goes into the image.",
		"  hermes-appliance images lock check", newImagesLockCheck(st), newImagesLockUpdate(st))
}

type imagesLockCheckOptions struct {
	dirOptions
	release, json bool
}

func newImagesLockCheck(st *state) *cobra.Command {
	var o imagesLockCheckOptions
	cmd := &cobra.Command{
		Use: "check [FLAGS]", Short: "Check the lock, and that the Dockerfile agrees with it",
		Long: "Checks the form of every pin and that the defaults of " + images.DockerfilePath + " are the same, and lists what is\n" +
			"unresolved: nobody could learn it yet from where it comes from.",
		Example:               "  hermes-appliance images lock check --release",
		DisableFlagsInUseLine: true, Args: cobra.NoArgs,
		RunE: handler(st, func(_ context.Context, env Env) error { return o.run(env) }),
	}
	o.register(cmd)
	cmd.Flags().BoolVar(&o.release, "release", false, "refuse what a release refuses: anything unresolved")
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	exits(cmd, exitcode.OK, exitcode.Error, exitcode.Usage, exitcode.Pending)
	return cmd
}

func (o *imagesLockCheckOptions) run(env Env) error {
	l, err := o.lock()
	if err != nil {
		return err
	}
	dockerfile, err := os.ReadFile(filepath.Join(o.dir, images.DockerfilePath))
	if err != nil {
		return err
	}
	differ, err := l.Agree(dockerfile)
	if err != nil {
		return err
	}
	if len(differ) > 0 {
		return errors.New(strings.Join(append(differ, "\"images lock update\" makes the Dockerfile follow the lock"), "\n"))
	}
	p := &printer{w: env.Stdout}
	missing := l.Unresolved()
	var verdict error
	if o.release && len(missing) > 0 {
		verdict = &codeError{exitcode.Pending, ""}
	}
	if o.json {
		doc := map[string]any{"unresolved": append([]string{}, missing...)}
		return errors.Join(printJSON(env.Stdout, envelope{Schema: schemaVersion, Command: "images lock check", Exit: int(exitcode.Of(verdict)), Result: doc}), verdict)
	}
	for _, key := range missing {
		p.line("unresolved: %s", key)
	}
	if len(missing) == 0 {
		p.line("everything is pinned")
	}
	return errors.Join(p.err, verdict)
}

type imagesLockUpdateOptions struct {
	engineOptions
	dirOptions
	from string
}

func newImagesLockUpdate(st *state) *cobra.Command {
	var o imagesLockUpdateOptions
	cmd := &cobra.Command{
		Use: "update [FLAGS]", Short: "Learn the pins that are unresolved",
		Long: "Asks npm, the base's registry, Debian's snapshots, cua's releases and Playwright's downloads for what the lock says is\n" +
			"unresolved, checks the rest against npm, and makes the Dockerfile follow. To move to another version write it into\n" +
			"the lock with \"unresolved\" for its checksum. What cannot be reached stays unresolved, and is named.",
		Example:               "  hermes-appliance images lock update --from hermes-sandbox:dev",
		DisableFlagsInUseLine: true, Args: cobra.NoArgs,
		RunE: handler(st, func(ctx context.Context, env Env) error { return o.run(ctx, env) }),
	}
	o.engineOptions.register(cmd)
	o.dirOptions.register(cmd)
	cmd.Flags().StringVar(&o.from, "from", "", "record the Debian packages of a built `IMAGE`")
	exits(cmd, exitcode.OK, exitcode.Error, exitcode.Usage, exitcode.Interrupted)
	return cmd
}

func (o *imagesLockUpdateOptions) run(ctx context.Context, env Env) error {
	l, err := o.lock()
	if err != nil {
		return err
	}
	if o.from != "" {
		if l, err = o.record(ctx, env, l); err != nil {
			return err
		}
	}
	got, err := l.Update(ctx, images.PublicSources(&http.Client{Timeout: 10 * time.Minute}))
	if err != nil {
		return err
	}
	if err := o.write(got.Lock); err != nil {
		return err
	}
	p := &printer{w: env.Stdout}
	for _, key := range got.New {
		p.line("resolved: %s", key)
	}
	for _, why := range got.Missing {
		p.line("unresolved: %s", why)
	}
	return p.err
}

// record notes the packages of an image.
func (o *imagesLockUpdateOptions) record(ctx context.Context, env Env, l images.Lock) (_ images.Lock, err error) {
	e, err := o.open(ctx, env)
	if err != nil {
		return l, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	img, err := e.Image(ctx, o.from)
	if err != nil {
		return l, err
	}
	packages, err := e.Packages(ctx, o.from)
	if err != nil {
		return l, err
	}
	l.Apt.Packages = maps.Clone(l.Apt.Packages)
	if l.Apt.Packages == nil {
		l.Apt.Packages = map[string]map[string]string{}
	}
	l.Apt.Packages[img.Arch] = packages
	_, err = fmt.Fprintf(env.Stdout, "recorded: %d packages of %s\n", len(packages), img.Arch)
	return l, err
}

// write writes the lock, and the Dockerfile after it.
func (o *imagesLockUpdateOptions) write(l images.Lock) error {
	data, err := l.Marshal()
	if err != nil {
		return err
	}
	path := filepath.Join(o.dir, images.DockerfilePath)
	dockerfile, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	w := atomicfile.Writer{}
	if err := w.Write(filepath.Join(o.dir, filepath.FromSlash(images.LockPath)), data, atomicfile.Options{Mode: 0o644}); err != nil {
		return err
	}
	return w.Write(path, l.Follow(dockerfile), atomicfile.Options{Mode: 0o644})
}
