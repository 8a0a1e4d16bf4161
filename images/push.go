// SPDX-License-Identifier: MIT

package images

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// rawManifest is a manifest that is sent byte for byte.
type rawManifest struct {
	data      []byte
	mediaType string
}

// RawManifest implements the library's interface.
func (m rawManifest) RawManifest() ([]byte, error) { return m.data, nil }

// MediaType implements the library's interface.
func (m rawManifest) MediaType() (types.MediaType, error) { return types.MediaType(m.mediaType), nil }

// putManifest sends a manifest. What it names must be there.
func (r *Registry) putManifest(ctx context.Context, ref Ref, m rawManifest) error {
	p, err := r.point(ref)
	if err != nil {
		return err
	}
	if err := r.pusher.Put(ctx, p, m); err != nil {
		return fmt.Errorf("%s: %w", ref, err)
	}
	return nil
}

// putBlob sends a small blob, unless it is there.
func (r *Registry) putBlob(ctx context.Context, ref Ref, data []byte, mediaType string) error {
	repo, err := r.repo(ref)
	if err != nil {
		return err
	}
	if err := r.pusher.Upload(ctx, repo, static.NewLayer(data, types.MediaType(mediaType))); err != nil {
		return fmt.Errorf("%s: blob %s: %w", ref.Name, DigestOf(data), err)
	}
	return nil
}

// putImage sends an image under its digest: what the registry has already is not sent again,
// so a push that broke off goes on where it was.
func (r *Registry) putImage(ctx context.Context, repo Ref, img *Image) error {
	p, err := r.point(repo.WithDigest(img.Digest))
	if err != nil {
		return err
	}
	i, err := partial.CompressedToImage(&pushed{ctx, img})
	if err != nil {
		return err
	}
	if err := r.pusher.Push(ctx, p, i); err != nil {
		return fmt.Errorf("%s: pushing %s: %w", repo.Name, img.Platform, err)
	}
	return nil
}

// pushed shows an image of a layout to the registry library.
type pushed struct {
	ctx context.Context //nolint:containedctx // the library's readers take none
	img *Image
}

func (p *pushed) RawManifest() ([]byte, error)   { return p.img.raw, nil }
func (p *pushed) RawConfigFile() ([]byte, error) { return p.img.config, nil }
func (p *pushed) MediaType() (types.MediaType, error) {
	return types.MediaType(p.img.mediaType), nil
}

// LayerByDigest returns a layer, or the config.
func (p *pushed) LayerByDigest(h v1.Hash) (partial.CompressedLayer, error) {
	for _, d := range append([]v1.Descriptor{p.img.manifest.Config}, p.img.manifest.Layers...) {
		if d.Digest == h {
			return &pushedLayer{p, d}, nil
		}
	}
	return nil, fmt.Errorf("%s has no %s", p.img.Digest, h)
}

type pushedLayer struct {
	p *pushed
	d v1.Descriptor
}

func (l *pushedLayer) Digest() (v1.Hash, error)            { return l.d.Digest, nil }
func (l *pushedLayer) Size() (int64, error)                { return l.d.Size, nil }
func (l *pushedLayer) MediaType() (types.MediaType, error) { return l.d.MediaType, nil }
func (l *pushedLayer) Compressed() (io.ReadCloser, error)  { return l.p.img.open(l.p.ctx, l.d) }

var _ remote.Taggable = rawManifest{}

// artifact is something small that belongs to an image: a signature, an SBOM.
type artifact struct {
	artifactType string            // "" = an image in cosign's way, found by its tag
	layers       []artifactLayer   // in order
	subject      *v1.Descriptor    // what it belongs to; nil = found by its tag
	annotations  map[string]string // of the manifest
}

type artifactLayer struct {
	mediaType   string
	data        []byte
	annotations map[string]string
}

// descriptor describes content.
func descriptor(mediaType string, data []byte) v1.Descriptor {
	h, _, _ := v1.SHA256(bytes.NewReader(data)) //nolint:errcheck // reading from memory cannot fail
	return v1.Descriptor{MediaType: types.MediaType(mediaType), Digest: h, Size: int64(len(data))}
}

const emptyType = "application/vnd.oci.empty.v1+json"

// build returns the manifest and the config of an artifact, the same for the same content.
func (a artifact) build() (m rawManifest, config []byte, err error) {
	man := v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1, ArtifactType: a.artifactType, Subject: a.subject, Annotations: a.annotations}
	var diffs []string
	for _, l := range a.layers {
		d := descriptor(l.mediaType, l.data)
		d.Annotations = l.annotations
		man.Layers = append(man.Layers, d)
		diffs = append(diffs, d.Digest.String())
	}
	kind := emptyType
	if config = []byte("{}"); a.artifactType == "" {
		kind = imageConfigType
		config, err = json.Marshal(map[string]any{
			"architecture": "", "os": "", "config": map[string]any{},
			"rootfs": map[string]any{"type": "layers", "diff_ids": diffs},
		})
		if err != nil {
			return m, nil, err
		}
	}
	man.Config = descriptor(kind, config)
	m.mediaType = imageManifestType
	m.data, err = json.Marshal(man)
	return m, config, err
}

// putArtifact sends an artifact under its digest, and under tag if there is one. It is safe
// to send it again.
func (r *Registry) putArtifact(ctx context.Context, repo Ref, a artifact, tag string) error {
	m, config, err := a.build()
	if err != nil {
		return err
	}
	for _, l := range a.layers {
		if err := r.putBlob(ctx, repo, l.data, l.mediaType); err != nil {
			return err
		}
	}
	if err := r.putBlob(ctx, repo, config, emptyType); err != nil {
		return err
	}
	if err := r.putManifest(ctx, repo.WithDigest(DigestOf(m.data)), m); err != nil {
		return err
	}
	if tag == "" {
		return nil
	}
	return r.putManifest(ctx, repo.WithTag(tag), m)
}
