// SPDX-License-Identifier: MIT

package images

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// What [Registry.Verify] refuses. A caller may conclude that the image must not be run.
var (
	ErrUnsigned        = errors.New("unsigned")
	ErrWrongKey        = errors.New("not signed by this key")
	ErrOtherRepository = errors.New("signed for another repository")
	ErrTampered        = errors.New("tampered with")
	ErrNoSBOM          = errors.New("its SBOM is missing")
	ErrNoProvenance    = errors.New("its provenance is missing")
	ErrNoIndex         = errors.New("not an index of images")
)

// VerifyOptions say what to verify.
type VerifyOptions struct {
	Ref       Ref        // with a tag or a digest
	Key       *Key       // whose signature is wanted
	Platforms []Platform // what the index must have; nil = [Platforms]
	// Blobs fetches every layer too and recomputes it, packed and unpacked. An engine does
	// that when it pulls; publishing does it before a tag moves.
	Blobs bool
}

// Verified is an image that holds.
type Verified struct {
	Ref        Ref                 `json:"-"`
	Name       string              `json:"image"`  // the reference verified, with its digest
	Digest     Digest              `json:"digest"` // of the index
	Version    string              `json:"version"`
	Revision   string              `json:"revision"`
	Images     map[Platform]Digest `json:"images"`
	SBOMs      map[Platform]Digest `json:"sboms"` // of the SPDX documents
	Provenance Digest              `json:"provenance"`
	Builder    string              `json:"builder"`
}

// Verify fetches what ref names and everything that belongs to it, recomputes every digest,
// and checks the signature, the index, the provenance and the SBOMs. Nothing that is not
// signed is believed.
func (r *Registry) Verify(ctx context.Context, o VerifyOptions) (*Verified, error) {
	if o.Platforms == nil {
		o.Platforms = Platforms()
	}
	m, err := r.manifest(ctx, o.Ref)
	if err != nil {
		return nil, err
	}
	repo := o.Ref.Repository()
	if err := r.checkSignature(ctx, repo, m.digest, o.Key); err != nil {
		return nil, err
	}
	v := &Verified{Ref: o.Ref, Digest: m.digest, Images: map[Platform]Digest{}, SBOMs: map[Platform]Digest{}}
	v.Name = Ref{Name: o.Ref.Name, Tag: o.Ref.Tag, Digest: m.digest}.String()
	p, err := r.published(ctx, repo, m)
	if err != nil {
		return nil, err
	}
	f, err := agree(p.members, o.Platforms)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", repo.WithDigest(m.digest), err)
	}
	v.Version, v.Revision = f.version, f.revision
	for i, img := range p.members {
		v.Images[img.platform] = img.digest
		if err := r.checkLayers(ctx, repo, p.manifests[i], p.configs[i], o.Blobs); err != nil {
			return nil, err
		}
	}
	return v, r.checkAttached(ctx, repo, v, o.Key)
}

// publishedIndex is an index in a registry with its images, all recomputed.
type publishedIndex struct {
	members   []member
	manifests []*v1.Manifest
	configs   []imageConfig
}

// published fetches the images of an index.
func (r *Registry) published(ctx context.Context, repo Ref, m remoteManifest) (p publishedIndex, err error) {
	var index v1.IndexManifest
	if err := json.Unmarshal(m.raw, &index); err != nil || m.mediaType != imageIndexType || string(index.MediaType) != imageIndexType {
		return p, fmt.Errorf("%s: %w: the registry says it is %q", repo.WithDigest(m.digest), ErrNoIndex, m.mediaType)
	}
	for _, d := range index.Manifests {
		at := repo.WithDigest(Digest(d.Digest.String()))
		got, err := r.manifest(ctx, at)
		if err != nil {
			return p, fmt.Errorf("%s is not whole: %w", repo.WithDigest(m.digest), err)
		}
		var man v1.Manifest
		if err := json.Unmarshal(got.raw, &man); err != nil || got.mediaType != imageManifestType {
			return p, fmt.Errorf("%s: expected an image manifest, the registry says it is %q", at, got.mediaType)
		}
		raw, err := r.smallBlob(ctx, repo, man.Config)
		if err != nil {
			return p, err
		}
		c, err := parseConfig(raw)
		if err != nil {
			return p, fmt.Errorf("%s: config: %w", at, err)
		}
		if d.Platform == nil || Platform(d.Platform.OS+"/"+d.Platform.Architecture) != c.platform() {
			return p, fmt.Errorf("%s: %w: the index calls it %v, and it is %s", at, ErrTampered, d.Platform, c.platform())
		}
		p.members = append(p.members, member{c.platform(), at.Digest, c.Config.Labels[LabelVersion], c.Config.Labels[LabelRevision]})
		p.manifests, p.configs = append(p.manifests, &man), append(p.configs, c)
	}
	return p, nil
}

// checkLayers recomputes the layers of an image.
func (r *Registry) checkLayers(ctx context.Context, repo Ref, man *v1.Manifest, c imageConfig, read bool) error {
	if len(man.Layers) != len(c.RootFS.DiffIDs) {
		return fmt.Errorf("%s: %w: %d layers, and %d in the config", repo.Name, ErrTampered, len(man.Layers), len(c.RootFS.DiffIDs))
	}
	if !read {
		return nil
	}
	for n, l := range man.Layers {
		err := r.blob(ctx, repo, Digest(l.Digest.String()), func(body io.Reader) error {
			return checkLayer(n, l, c.RootFS.DiffIDs[n], body, nil)
		})
		if errors.Is(err, ErrCorrupt) {
			err = fmt.Errorf("%w: %w", ErrTampered, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
