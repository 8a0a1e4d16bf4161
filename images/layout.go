// SPDX-License-Identifier: MIT

package images

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"go.podman.io/image/v5/manifest"
	"go.podman.io/image/v5/oci/layout"
	"go.podman.io/image/v5/types"
)

// ErrCorrupt says that a layout's bytes are not what their digests say.
var ErrCorrupt = errors.New("the layout is damaged")

// Platform is an operating system and an architecture: "linux/amd64".
type Platform string

// Platforms are what a release has: all of them, or no tag moves.
func Platforms() []Platform { return []Platform{"linux/amd64", "linux/arm64"} }

// Layout is an OCI image layout on disk, as a build leaves it. Reading stays inside of its
// directory, whatever links are in it.
type Layout struct {
	dir  string
	root *os.Root
	refs map[Digest]types.ImageReference
}

// OpenLayout opens the layout in dir. The caller closes it.
func OpenLayout(dir string) (l *Layout, err error) {
	list, err := layout.List(dir)
	if err != nil {
		return nil, fmt.Errorf("OCI layout %s: %w; \"images build\" writes one", dir, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	l = &Layout{dir: dir, root: root, refs: map[Digest]types.ImageReference{}}
	reader := layout.NewReaderWithRoot(root)
	for i, e := range list {
		ref, err := reader.NewIndexReference(dir, i)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("OCI layout %s: %w", dir, err), root.Close())
		}
		l.refs[Digest(e.ManifestDescriptor.Digest)] = ref
	}
	return l, nil
}

// Close lets go of the directory.
func (l *Layout) Close() error { return l.root.Close() }

// Digests returns what the layout holds at its top, sorted.
func (l *Layout) Digests() []Digest { return slices.Sorted(maps.Keys(l.refs)) }

// Image is the image of one platform in a layout. Its manifest and config are verified and
// in memory; layers are read when asked for.
type Image struct {
	Digest       Digest // of the manifest
	ConfigDigest Digest // the image ID
	Platform     Platform
	Version      string // the label, empty = none
	Revision     string // the label, empty = none
	Source       string // the label, empty = none
	Created      time.Time

	mediaType   string
	raw, config []byte
	manifest    *v1.Manifest
	diffIDs     []Digest
	src         types.ImageSource
	where       string
}

// Image reads one image. It is closed with [Image.Close], before the layout.
func (l *Layout) Image(ctx context.Context, d Digest) (img *Image, err error) {
	ref, ok := l.refs[d]
	if !ok {
		return nil, fmt.Errorf("OCI layout %s holds no %s, only %v", l.dir, d, l.Digests())
	}
	src, err := ref.NewImageSource(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("OCI layout %s: %w", l.dir, err)
	}
	img = &Image{Digest: d, src: src, where: l.dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, src.Close())
		}
	}()
	if img.raw, img.mediaType, err = src.GetManifest(ctx, nil); err != nil {
		return nil, fmt.Errorf("OCI layout %s: manifest %s: %w", l.dir, d, err)
	}
	if got := DigestOf(img.raw); got != d {
		return nil, fmt.Errorf("OCI layout %s: manifest %s: %w: its bytes are %s", l.dir, d, ErrCorrupt, got)
	}
	return img, img.parse(ctx)
}

// Close lets go of the image.
func (i *Image) Close() error { return i.src.Close() }

func (i *Image) parse(ctx context.Context) error {
	// The library that builders and engines share decides whether this is an image.
	if _, err := manifest.OCI1FromManifest(i.raw); err != nil || i.mediaType != imageManifestType {
		return fmt.Errorf("OCI layout %s: %s is %q, expected an OCI image manifest of one platform", i.where, i.Digest, i.mediaType)
	}
	m, err := v1.ParseManifest(strings.NewReader(string(i.raw)))
	if err != nil {
		return fmt.Errorf("OCI layout %s: manifest %s: %w", i.where, i.Digest, err)
	}
	i.manifest, i.ConfigDigest = m, Digest(m.Config.Digest.String())
	r, err := i.open(ctx, m.Config)
	if err != nil {
		return err
	}
	i.config, err = io.ReadAll(io.LimitReader(r, maxManifest+1))
	if err = errors.Join(err, r.Close()); err != nil {
		return fmt.Errorf("OCI layout %s: config %s: %w", i.where, i.ConfigDigest, err)
	}
	if got := DigestOf(i.config); got != i.ConfigDigest {
		return fmt.Errorf("OCI layout %s: config %s: %w: its bytes are %s", i.where, i.ConfigDigest, ErrCorrupt, got)
	}
	c, err := parseConfig(i.config)
	if err != nil {
		return fmt.Errorf("OCI layout %s: config %s: %w", i.where, i.ConfigDigest, err)
	}
	i.Platform, i.Created, i.diffIDs = c.platform(), c.Created, c.RootFS.DiffIDs
	i.Version, i.Revision, i.Source = c.Config.Labels[LabelVersion], c.Config.Labels[LabelRevision], c.Config.Labels[LabelSource]
	if len(i.diffIDs) != len(m.Layers) {
		return fmt.Errorf("OCI layout %s: %s: %w: %d layers, and %d in the config", i.where, i.Digest, ErrCorrupt, len(m.Layers), len(i.diffIDs))
	}
	return nil
}

// open opens a blob of the layout. Layers that live elsewhere are refused: they would not be
// the bytes that were proven.
func (i *Image) open(ctx context.Context, d v1.Descriptor) (io.ReadCloser, error) {
	if len(d.URLs) > 0 {
		return nil, fmt.Errorf("OCI layout %s: %s is stored elsewhere (%s): only what is in the layout is published", i.where, d.Digest, d.URLs[0])
	}
	info := types.BlobInfo{Digest: goDigest(d.Digest.String()), Size: d.Size}
	r, size, err := i.src.GetBlob(ctx, info, nil)
	if err != nil {
		return nil, fmt.Errorf("OCI layout %s: blob %s: %w", i.where, d.Digest, err)
	}
	if size != d.Size {
		return nil, errors.Join(fmt.Errorf("OCI layout %s: blob %s: %w: it has %d bytes, not %d", i.where, d.Digest, ErrCorrupt, size, d.Size), r.Close())
	}
	return r, nil
}

// imageConfig is what publishing reads of an image's config.
type imageConfig struct {
	Created      time.Time `json:"created"`
	Architecture string    `json:"architecture"`
	OS           string    `json:"os"`
	Config       struct {
		Labels map[string]string `json:"Labels"`
	} `json:"config"`
	RootFS struct {
		DiffIDs []Digest `json:"diff_ids"`
	} `json:"rootfs"`
}

func (c imageConfig) platform() Platform { return Platform(c.OS + "/" + c.Architecture) }

func parseConfig(data []byte) (c imageConfig, err error) {
	err = json.Unmarshal(data, &c)
	if err == nil && (c.OS == "" || c.Architecture == "") {
		err = errors.New("it names no os and architecture")
	}
	return c, err
}
