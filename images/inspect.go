// SPDX-License-Identifier: MIT

package images

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Inspection tells what is in an image and what takes its room.
type Inspection struct {
	Stored
	Layers   []LayerSize // from the base up; those without files are left out
	Packages []PackageSize
	Dirs     []DirSize // the largest first; one inside of another counts in both
}

// LayerSize is one layer with the step that made it.
type LayerSize struct {
	Bytes int64
	By    string
}

// PackageSize is a Debian package as installed.
type PackageSize struct {
	Name, Version string
	Size          int64 // of its files as Debian counts them, before what the image leaves out
}

// DirSize is a directory with all below it.
type DirSize struct {
	Path  string
	Bytes int64
}

// Inspect looks into an image: its labels and layers from the engine, its packages and files
// from a confined container of it.
func (e *Engine) Inspect(ctx context.Context, image string) (in Inspection, err error) {
	if in.Stored, err = e.Image(ctx, image); err != nil {
		return in, err
	}
	history, err := e.cli.ImageHistory(ctx, in.ID)
	if err != nil {
		return in, err
	}
	for _, h := range slices.Backward(history.Items) {
		if h.Size > 0 {
			in.Layers = append(in.Layers, LayerSize{h.Size, strings.Join(strings.Fields(h.CreatedBy), " ")})
		}
	}
	out, err := e.ask(ctx, image, []string{"dpkg-query", "-W", "-f", "${Package}\t${Version}\t${Installed-Size}\n"})
	if err != nil {
		return in, err
	}
	for line := range strings.Lines(out) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != 3 {
			return in, fmt.Errorf("dpkg-query: %q", line)
		}
		kib, err := strconv.ParseInt(f[2], 10, 64)
		if err != nil {
			return in, fmt.Errorf("dpkg-query: %q", line)
		}
		in.Packages = append(in.Packages, PackageSize{f[0], f[1], kib << 10})
	}
	slices.SortStableFunc(in.Packages, func(a, b PackageSize) int { return int(b.Size - a.Size) })
	if out, err = e.ask(ctx, image, []string{"du", "-xbd1", "/usr", "/usr/local", "/usr/local/lib/node_modules", "/opt", "/var"}); err != nil {
		return in, err
	}
	for line := range strings.Lines(out) {
		size, path, _ := strings.Cut(strings.TrimSpace(line), "\t")
		n, err := strconv.ParseInt(size, 10, 64)
		if err != nil {
			return in, fmt.Errorf("du: %q", line)
		}
		in.Dirs = append(in.Dirs, DirSize{path, n})
	}
	slices.SortStableFunc(in.Dirs, func(a, b DirSize) int { return int(b.Bytes - a.Bytes) })
	return in, nil
}

// Packages returns the Debian packages of an image by name. Of one that is there for several
// architectures the version of the first counts.
func (e *Engine) Packages(ctx context.Context, image string) (map[string]string, error) {
	out, err := e.ask(ctx, image, []string{"dpkg-query", "-W", "-f", "${Package} ${Version}\n"})
	if err != nil {
		return nil, err
	}
	packages := map[string]string{}
	for line := range strings.Lines(out) {
		name, version, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok {
			return nil, fmt.Errorf("dpkg-query: %q", line)
		}
		packages[name] = version
	}
	return packages, nil
}

// ask runs one command in a confined container of an image.
func (e *Engine) ask(ctx context.Context, image string, argv []string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	c, err := e.Confine(ctx, image, map[string]string{"hermes-appliance": "inspect"})
	if err != nil {
		return "", err
	}
	defer c.Remove(context.WithoutCancel(ctx)) //nolint:errcheck // the answer counts; the label finds what is left
	out, err := c.Exec(ctx, Command{Argv: argv})
	if err == nil && out.Code != 0 {
		err = fmt.Errorf("%s in %s: exit %d: %s", argv[0], image, out.Code, strings.TrimSpace(out.Stderr))
	}
	return out.Stdout, err
}
