// SPDX-License-Identifier: MIT

package images

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// Difference is the first place where two images are not the same.
type Difference struct {
	Layer int    // counted from the base, which is 0; -1 = outside of the layers
	Path  string // within the layer, or "config"
	What  string
}

func (d Difference) String() string {
	if d.Layer < 0 {
		return d.Path + ": " + d.What
	}
	return fmt.Sprintf("layer %d: %s: %s", d.Layer, d.Path, d.What)
}

// Compare returns the first difference of two images that an engine has; nil if they have one
// ID.
func (e *Engine) Compare(ctx context.Context, a, b string) (*Difference, error) {
	ia, err := e.Image(ctx, a)
	if err != nil {
		return nil, err
	}
	ib, err := e.Image(ctx, b)
	if err != nil {
		return nil, err
	}
	if ia.ID == ib.ID {
		return nil, nil //nolint:nilnil // nil is the answer: no difference
	}
	n := 0
	for n < len(ia.DiffIDs) && n < len(ib.DiffIDs) && ia.DiffIDs[n] == ib.DiffIDs[n] {
		n++
	}
	switch {
	case n == len(ia.DiffIDs) && n == len(ib.DiffIDs):
		return &Difference{-1, "config", "the layers are the same, the configs are not (" + ia.ID + ", " + ib.ID + ")"}, nil
	case n == len(ia.DiffIDs) || n == len(ib.DiffIDs):
		return &Difference{-1, "config", fmt.Sprintf("%d and %d layers", len(ia.DiffIDs), len(ib.DiffIDs))}, nil
	}
	fa, err := e.entries(ctx, ia.ID, ia.DiffIDs[n])
	if err != nil {
		return nil, err
	}
	fb, err := e.entries(ctx, ib.ID, ib.DiffIDs[n])
	if err != nil {
		return nil, err
	}
	return firstDifference(n, fa, fb), nil
}

// entry is one entry of a layer.
type entry struct {
	place int    // in the tar
	meta  string // its header, for people
	sum   [sha256.Size]byte
}

func firstDifference(layer int, a, b map[string]entry) *Difference {
	names := maps.Clone(a)
	maps.Copy(names, b)
	for _, path := range slices.Sorted(maps.Keys(names)) {
		x, inA := a[path]
		y, inB := b[path]
		switch {
		case !inB:
			return &Difference{layer, path, "only in the first"}
		case !inA:
			return &Difference{layer, path, "only in the second"}
		case x.meta != y.meta:
			return &Difference{layer, path, x.meta + " and " + y.meta}
		case x.sum != y.sum:
			return &Difference{layer, path, "the content differs"}
		}
	}
	for _, path := range slices.Sorted(maps.Keys(names)) {
		if a[path].place != b[path].place {
			return &Difference{layer, path, fmt.Sprintf("entry %d and %d of the tar", a[path].place, b[path].place)}
		}
	}
	return &Difference{layer, "tar", "the files are the same, their packing is not"}
}

// entries reads the layer of an image that has a diff ID.
func (e *Engine) entries(ctx context.Context, image, diffID string) (_ map[string]entry, err error) {
	archive, err := e.save(ctx, image)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, archive.Close()) }()
	for tr := tar.NewReader(archive); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%s: no layer %s in the engine's archive", image, diffID)
		}
		if err != nil {
			return nil, err
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		// Only the content tells which layer this is, or that it is none.
		list, id, err := listLayer(tr)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", h.Name, err)
		}
		if id == diffID {
			return list, nil
		}
	}
}

// listLayer reads one layer; a blob that is no tar has no entries.
func listLayer(r io.Reader) (map[string]entry, string, error) {
	whole := sha256.New()
	tee := io.TeeReader(r, whole)
	list := map[string]entry{}
	tr := tar.NewReader(tee)
	for {
		h, err := tr.Next()
		if err != nil {
			break // the end, or no tar: the digest tells
		}
		content := sha256.New()
		if _, err := io.Copy(content, tr); err != nil { //nolint:gosec // only hashed, never stored
			return nil, "", err
		}
		e := entry{place: len(list), meta: describeHeader(h)}
		copy(e.sum[:], content.Sum(nil))
		list["/"+strings.TrimSuffix(h.Name, "/")] = e
	}
	if _, err := io.Copy(io.Discard, tee); err != nil {
		return nil, "", err
	}
	return list, sum(whole.Sum(nil)), nil
}

func describeHeader(h *tar.Header) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%c %o %d:%d %d bytes %s", h.Typeflag, h.Mode, h.Uid, h.Gid, h.Size, h.ModTime.UTC().Format(time.RFC3339Nano))
	if h.Linkname != "" {
		b.WriteString(" -> " + h.Linkname)
	}
	if len(h.PAXRecords) > 0 {
		data, _ := json.Marshal(h.PAXRecords) //nolint:errcheck // strings cannot fail
		b.WriteString(" " + string(data))
	}
	return b.String()
}
