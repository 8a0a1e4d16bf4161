// SPDX-License-Identifier: MIT

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/hermes-appliance/hermes-appliance/images"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
)

// engineOptions choose a container engine.
type engineOptions struct{ engine string }

func (o *engineOptions) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.engine, "engine", "", "`ENGINE`: docker, podman, or an address (default DOCKER_HOST, else the first socket found)")
}

// open connects to the engine. The caller closes it.
func (o *engineOptions) open(ctx context.Context, env Env) (*images.Engine, error) {
	address, err := images.EngineAddress(o.engine, env.Getenv)
	if err != nil {
		return nil, err
	}
	return images.OpenEngine(ctx, address)
}

// dirOptions choose the project's directory.
type dirOptions struct{ dir string }

func (o *dirOptions) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.dir, "dir", ".", "`DIR` of the project, with "+images.DockerfilePath)
}

// lock reads the project's lock.
func (o *dirOptions) lock() (images.Lock, error) {
	data, err := os.ReadFile(filepath.Join(o.dir, filepath.FromSlash(images.LockPath)))
	if errors.Is(err, os.ErrNotExist) {
		return images.Lock{}, fmt.Errorf("%w; run it in the project's directory or name that with --dir", err)
	}
	if err != nil {
		return images.Lock{}, err
	}
	return images.ParseLock(data)
}

type imagesBuildOptions struct {
	engineOptions
	dirOptions
	images.BuildOptions
	json bool
}

func newImagesBuild(st *state) *cobra.Command {
	var o imagesBuildOptions
	cmd := &cobra.Command{
		Use: "build [FLAGS]", Short: "Build the sandbox image, or the gateway's",
		Long: "Builds the sandbox image with a container engine from the pins of " + images.LockPath + ". The same pins give the\n" +
			"same image ID. What is built is not proven: see \"images smoke\". With --program it builds the gateway's image.",
		Example: "  hermes-appliance images build --tag hermes-sandbox:dev --browser debian --cua standin\n" +
			"  hermes-appliance images build --tag hermes-appliance:dev --program dist/hermes-appliance_1.2.3_linux_amd64",
		DisableFlagsInUseLine: true, Args: cobra.NoArgs,
		RunE: handler(st, func(ctx context.Context, env Env) error { return o.run(ctx, env) }),
	}
	o.engineOptions.register(cmd)
	o.dirOptions.register(cmd)
	f := cmd.Flags()
	f.StringVar(&o.Tag, "tag", "hermes-sandbox:dev", "`NAME` of the image in the engine")
	f.StringVar(&o.Program, "program", "", "`FILE` of this program for Linux, static: build the gateway's image with it")
	f.StringVar(&o.Base, "base", "", "`IMAGE` to begin with, or the tar of a root filesystem (default the lock's)")
	f.StringVar(&o.Browser, "browser", "playwright", "whose Chromium: playwright, or debian where only that can be reached")
	f.StringVar(&o.Cua, "cua", "release", "which cua-driver: release, or standin, which only lists windows")
	f.StringVar(&o.Builder, "builder", "classic", "the engine's builder: classic or buildkit")
	f.StringVar(&o.Release, "release", "", "`VERSION` of a release: nothing unresolved, no stand-in")
	f.StringVar(&o.Revision, "revision", "", "`COMMIT` that the image is built from")
	f.StringVar(&o.Layout, "output", "", "`DIR` of an OCI layout to write, for \"images publish\"")
	f.StringVar(&o.Cache, "cache", "", "`DIR` to keep what is fetched; the build then fetches through this machine")
	f.BoolVar(&o.NoCache, "no-cache", false, "build every layer anew")
	f.BoolVar(&o.json, "json", false, "print JSON")
	exits(cmd, exitcode.OK, exitcode.Error, exitcode.Usage, exitcode.Interrupted)
	return cmd
}

// builtDoc is a built image as --json prints it.
type builtDoc struct {
	ID       string   `json:"id"`
	Digest   string   `json:"digest,omitempty"`
	Layout   string   `json:"layout,omitempty"`
	Tag      string   `json:"tag"`
	Arch     string   `json:"arch"`
	Seconds  float64  `json:"seconds"`
	Bytes    int64    `json:"bytes"`
	DiffIDs  []string `json:"diff_ids"`
	StandIns []string `json:"stand_ins"`
	Packages int      `json:"packages"`
	Drift    []string `json:"drift,omitempty"`
}

func (o *imagesBuildOptions) run(ctx context.Context, env Env) (err error) {
	l, err := o.lock()
	if err != nil {
		return err
	}
	o.Dir = o.dir
	if err := l.Refuse(o.BuildOptions); err != nil {
		return err // before an engine is needed to say it
	}
	e, err := o.open(ctx, env)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	b, err := images.Build(ctx, e, l, o.BuildOptions, env.Stderr)
	if err != nil {
		return err
	}
	doc := builtDoc{
		ID: b.ID, Digest: b.Digest, Layout: o.Layout, Tag: b.Tag, Arch: b.Arch, Seconds: b.Seconds,
		StandIns: b.StandIns, Packages: len(b.Packages), Drift: b.Drift,
	}
	for _, layer := range b.Layers {
		doc.Bytes += layer.Size
		doc.DiffIDs = append(doc.DiffIDs, layer.DiffID)
	}
	if o.json {
		return printJSON(env.Stdout, envelope{Schema: schemaVersion, Command: "images build", Result: doc})
	}
	return printBuilt(env.Stdout, doc)
}

func printBuilt(w io.Writer, d builtDoc) error {
	p := &printer{w: w}
	p.line("%s  %s", d.Tag, d.ID)
	p.line("  %s, %s in %d layers, %d packages, %.0f seconds", d.Arch, megabytes(d.Bytes), len(d.DiffIDs), d.Packages, d.Seconds)
	if d.Layout != "" {
		p.line("  OCI layout %s, manifest %s", d.Layout, d.Digest)
	}
	for _, s := range d.StandIns {
		p.line("  stand-in for %s: not for a release", s)
	}
	for _, s := range d.Drift {
		p.line("  not as in %s: %s", images.LockPath, s)
	}
	return p.err
}

// printer writes lines until the first error.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
