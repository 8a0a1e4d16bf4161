// SPDX-License-Identifier: MIT

package cli

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
)

type imagesInspectOptions struct {
	engineOptions
	json  bool
	image string
}

func newImagesInspect(st *state) *cobra.Command {
	var o imagesInspectOptions
	cmd := &cobra.Command{
		Use: "inspect IMAGE [FLAGS]", Short: "Show what is in an image and what takes its room",
		Long: "Shows an image's labels, the size of its layers, its largest packages, and the largest directories. The image must be\n" +
			"in the engine; a container of it, confined as a sandbox is, answers what the engine does not know.",
		Example:               "  hermes-appliance images inspect hermes-sandbox:dev",
		DisableFlagsInUseLine: true, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			st.started = true
			o.image = args[0]
			return o.run(cmd.Context(), st.env)
		},
	}
	o.register(cmd)
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON, with every package")
	exits(cmd, exitcode.OK, exitcode.Error, exitcode.Usage, exitcode.Interrupted)
	return cmd
}

type layerDoc struct {
	Bytes int64  `json:"bytes"`
	By    string `json:"by"`
}

type packageDoc struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Bytes   int64  `json:"bytes"`
}

type dirDoc struct {
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"`
}

type inspectDoc struct {
	ID       string            `json:"id"`
	Tags     []string          `json:"tags"`
	Arch     string            `json:"arch"`
	Bytes    int64             `json:"bytes"`
	Labels   map[string]string `json:"labels"`
	Layers   []layerDoc        `json:"layers"`
	Packages []packageDoc      `json:"packages"`
	Dirs     []dirDoc          `json:"dirs"`
}

func (o *imagesInspectOptions) run(ctx context.Context, env Env) (err error) {
	e, err := o.open(ctx, env)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	in, err := e.Inspect(ctx, o.image)
	if err != nil {
		return err
	}
	doc := inspectDoc{ID: in.ID, Tags: in.Tags, Arch: in.Arch, Bytes: in.Size, Labels: in.Labels}
	for _, l := range in.Layers {
		doc.Layers = append(doc.Layers, layerDoc(l))
	}
	for _, p := range in.Packages {
		doc.Packages = append(doc.Packages, packageDoc{p.Name, p.Version, p.Size})
	}
	for _, d := range in.Dirs {
		doc.Dirs = append(doc.Dirs, dirDoc(d))
	}
	if o.json {
		return printJSON(env.Stdout, envelope{Schema: schemaVersion, Command: "images inspect", Result: doc})
	}
	return printInspection(env.Stdout, doc)
}

func printInspection(w io.Writer, d inspectDoc) error {
	p := &printer{w: w}
	p.line("%s, %s, %s", d.ID, d.Arch, megabytes(d.Bytes))
	for _, name := range slices.Sorted(maps.Keys(d.Labels)) {
		p.line("  %s=%s", name, d.Labels[name])
	}
	p.line("\nLAYERS")
	for _, l := range d.Layers {
		by := []rune(l.By)
		p.line("%10s  %s", megabytes(l.Bytes), string(by[:min(len(by), 100)]))
	}
	p.line("\nPACKAGES, the largest of %d", len(d.Packages))
	for _, k := range d.Packages[:min(len(d.Packages), 25)] {
		p.line("%10s  %s %s", megabytes(k.Bytes), k.Name, k.Version)
	}
	p.line("\nDIRECTORIES")
	for _, k := range d.Dirs[:min(len(d.Dirs), 25)] {
		p.line("%10s  %s", megabytes(k.Bytes), k.Path)
	}
	return p.err
}
