// SPDX-License-Identifier: MIT

package images

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
)

// Exported is an image whose config says nothing about the machine that built it: no times
// but the epoch, no host names, no builder. The same layers have the same ID everywhere.
type Exported struct {
	ID     string // digest of the config, which is the image's ID in an engine
	Digest string // of the manifest in the layout; "" = no layout was written
	Layers []ExportedLayer

	config []byte
}

// ExportedLayer is one layer of an exported image.
type ExportedLayer struct {
	DiffID string // of the unpacked tar
	Size   int64  // of the unpacked tar
	Digest string // of the compressed blob; "" = no layout was written
	Stored int64  // of the compressed blob
}

// maxDocument is the most that a config or manifest in an archive may have.
const maxDocument = 4 << 20

// exporter reads a Docker archive once, from front to back.
type exporter struct {
	dir    string // of the layout; "" = none
	small  map[string][]byte
	layers map[string]ExportedLayer // by path in the archive
}

// export reads a Docker archive of one image. With dir it also writes an OCI layout there,
// which may hold images of other platforms already; name is its name in that layout.
func export(ctx context.Context, archive io.Reader, created time.Time, dir, name string) (Exported, error) {
	x := exporter{dir: dir, small: map[string][]byte{}, layers: map[string]ExportedLayer{}}
	if dir != "" {
		//nolint:gosec // an image is no secret: other programs read the layout
		if err := os.MkdirAll(filepath.Join(dir, "blobs", "sha256"), 0o755); err != nil {
			return Exported{}, err
		}
	}
	for tr := tar.NewReader(archive); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = x.entry(h, tr)
		}
		if err != nil {
			return Exported{}, fmt.Errorf("the engine's archive: %w", err)
		}
	}
	out, platform, err := x.image(created)
	if err != nil {
		return Exported{}, fmt.Errorf("the engine's archive: %w", err)
	}
	if dir == "" {
		return out, nil
	}
	return out, writeLayout(dir, name, platform, &out)
}

// entry takes one file of the archive: a layer, which is a tar, or a document.
func (x *exporter) entry(h *tar.Header, r io.Reader) error {
	if h.Typeflag == tar.TypeSymlink { // a layer that another path has already
		x.small[h.Name] = []byte(filepath.Join(filepath.Dir(h.Name), h.Linkname))
		return nil
	}
	if h.Typeflag != tar.TypeReg {
		return nil
	}
	br := bufio.NewReaderSize(r, 64<<10)
	head, err := br.Peek(512)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	gz := bytes.HasPrefix(head, []byte{0x1f, 0x8b})
	isTar := len(head) == 512 && string(head[257:262]) == "ustar" || len(head) == 512 && bytes.Count(head, []byte{0}) == 512
	if !gz && !isTar {
		if h.Size > maxDocument {
			return fmt.Errorf("%s has %d bytes and is no layer", h.Name, h.Size)
		}
		x.small[h.Name], err = io.ReadAll(br)
		return err
	}
	var content io.Reader = br
	if gz {
		if content, err = gzip.NewReader(br); err != nil {
			return fmt.Errorf("%s: %w", h.Name, err)
		}
	}
	l, err := x.layer(content)
	if err != nil {
		return fmt.Errorf("%s: %w", h.Name, err)
	}
	x.layers[h.Name] = l
	return nil
}

// counted hashes and counts what is written.
type counted struct {
	w io.Writer
	n int64
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// layer hashes a layer, and compresses it into the layout.
func (x *exporter) layer(content io.Reader) (l ExportedLayer, err error) {
	plain := sha256.New()
	in := &counted{w: plain}
	if x.dir == "" {
		_, err = io.Copy(in, content)
		return ExportedLayer{DiffID: sum(plain.Sum(nil)), Size: in.n}, err
	}
	err = atomicfile.Writer{}.Stream(filepath.Join(x.dir, "blobs", "sha256"), func(f io.Writer) (string, error) {
		packed := sha256.New()
		out := &counted{w: io.MultiWriter(f, packed)}
		zw := gzip.NewWriter(out) // no name, no time: the same bytes for the same layer
		if _, err := io.Copy(io.MultiWriter(in, zw), content); err != nil {
			return "", err
		}
		if err := zw.Close(); err != nil {
			return "", err
		}
		l = ExportedLayer{DiffID: sum(plain.Sum(nil)), Size: in.n, Digest: sum(packed.Sum(nil)), Stored: out.n}
		return strings.TrimPrefix(l.Digest, "sha256:"), nil
	})
	return l, err
}

func sum(raw []byte) string { return "sha256:" + hex.EncodeToString(raw) }

func sumOf(data []byte) string {
	s := sha256.Sum256(data)
	return sum(s[:])
}

// image puts together what the archive's manifest.json names.
func (x *exporter) image(created time.Time) (out Exported, p platformDoc, err error) {
	var list []struct {
		Config string
		Layers []string
	}
	if err := json.Unmarshal(x.small["manifest.json"], &list); err != nil {
		return out, p, fmt.Errorf("manifest.json: %w", err)
	}
	if len(list) != 1 {
		return out, p, fmt.Errorf("manifest.json lists %d images, expected one", len(list))
	}
	c, err := parseOCIConfig(x.small[list[0].Config])
	if err != nil {
		return out, p, fmt.Errorf("%s: %w", list[0].Config, err)
	}
	if len(c.RootFS.DiffIDs) != len(list[0].Layers) {
		return out, p, fmt.Errorf("%d layers, and %d in the config", len(list[0].Layers), len(c.RootFS.DiffIDs))
	}
	for i, path := range list[0].Layers {
		l, ok := x.layers[path]
		if to, link := x.small[path]; !ok && link {
			l = x.layers[string(to)]
		}
		if l.DiffID != c.RootFS.DiffIDs[i] {
			return out, p, fmt.Errorf("layer %s is %q, the config says %s", list[0].Layers[i], l.DiffID, c.RootFS.DiffIDs[i])
		}
		out.Layers = append(out.Layers, l)
	}
	c.settle(created)
	if out.config, err = json.Marshal(c); err != nil {
		return out, p, err
	}
	out.ID = sumOf(out.config)
	return out, platformDoc{Architecture: c.Architecture, OS: c.OS, Variant: c.Variant}, nil
}

// load gives the image, under its settled config, to an engine and tags it. An engine that has
// the layers needs no more than the config; another gets them from the layout in dir, if there
// is one.
func (o Exported) load(ctx context.Context, e *Engine, tag, dir string) error {
	err := o.loaded(ctx, e, tag, "")
	if err != nil && dir != "" {
		err = o.loaded(ctx, e, tag, dir)
	}
	return err
}

// loaded loads the image and checks that the engine has it then.
func (o Exported) loaded(ctx context.Context, e *Engine, tag, dir string) error {
	pr, pw := io.Pipe()
	go func() { pw.CloseWithError(o.archive(pw, tag, dir)) }()
	err := e.load(ctx, pr)
	if err = errors.Join(err, pr.Close()); err != nil {
		return err
	}
	got, err := e.Image(ctx, tag)
	if err != nil {
		return err
	}
	if got.ID != o.ID && got.ID != o.Digest {
		return fmt.Errorf("the engine has %s under %s, expected %s", got.ID, tag, o.ID)
	}
	return nil
}

// archive writes the image as a Docker archive, with the layers of the layout in dir, or with
// none.
func (o Exported) archive(w io.Writer, tag, dir string) error {
	name := strings.TrimPrefix(o.ID, "sha256:") + ".json"
	paths := make([]string, len(o.Layers))
	for i, l := range o.Layers {
		paths[i] = strings.TrimPrefix(l.DiffID, "sha256:") + "/layer.tar"
	}
	manifest, err := json.Marshal([]map[string]any{{"Config": name, "RepoTags": []string{tag}, "Layers": paths}})
	if err != nil {
		return err
	}
	tw := tar.NewWriter(w)
	put := func(name string, size int64, r io.Reader) error {
		if err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: size}); err != nil {
			return err
		}
		_, err := io.Copy(tw, r)
		return err
	}
	for i, l := range o.Layers {
		if dir == "" || slices.Contains(paths[:i], paths[i]) {
			continue
		}
		if err := unpacked(filepath.Join(dir, "blobs", "sha256", strings.TrimPrefix(l.Digest, "sha256:")), func(r io.Reader) error {
			return put(paths[i], l.Size, r)
		}); err != nil {
			return err
		}
	}
	if err := put(name, int64(len(o.config)), bytes.NewReader(o.config)); err != nil {
		return err
	}
	if err := put("manifest.json", int64(len(manifest)), bytes.NewReader(manifest)); err != nil {
		return err
	}
	return tw.Close()
}

// unpacked reads a compressed blob.
func unpacked(path string, use func(io.Reader) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // opened for reading
	r, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	return use(r)
}
