// SPDX-License-Identifier: MIT

package images

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// SmokeType is the media type of a smoke report.
const SmokeType = "application/vnd.hermes-appliance.smoke.v1+json"

// attach sends a document as a referrer of an image's manifest. A registry without the
// referrers API gets the list under the tag that the distribution spec names for it.
func (r *Registry) attach(ctx context.Context, repo Ref, img *Image, d document) error {
	subject := descriptor(img.mediaType, img.raw)
	return r.putArtifact(ctx, repo, artifact{artifactType: d.mediaType, subject: &subject, layers: []artifactLayer{{mediaType: d.mediaType, data: d.data}}}, "")
}

// putProvenance sends the provenance of an index: as a referrer, and under cosign's tag for
// "cosign verify-attestation".
func (r *Registry) putProvenance(ctx context.Context, repo Ref, index rawManifest, sealed []byte) error {
	subject := descriptor(index.mediaType, index.data)
	a := artifact{
		artifactType: dsseType, subject: &subject, annotations: map[string]string{predicateTypeOf: provenanceType},
		layers: []artifactLayer{{dsseType, sealed, map[string]string{signatureAnnotation: "", predicateTypeOf: provenanceType}}},
	}
	return r.putArtifact(ctx, repo, a, DigestOf(index.data).attached(attestSuffix))
}

// attachment is a document that refers to a manifest, not verified yet.
type attachment struct {
	manifest Digest
	layer    v1.Descriptor
}

// attachments lists what refers to d and has one layer of a media type.
func (r *Registry) attachments(ctx context.Context, repo Ref, d Digest, mediaType string) ([]attachment, error) {
	p, err := r.point(repo.WithDigest(d))
	if err != nil {
		return nil, err
	}
	index, err := remote.Referrers(p.(name.Digest), slices.Concat(r.common, []remote.Option{remote.WithContext(ctx)})...)
	if err != nil {
		return nil, fmt.Errorf("%s: what refers to it: %w", p, err)
	}
	list, err := index.IndexManifest()
	if err != nil {
		return nil, fmt.Errorf("%s: what refers to it: %w", p, err)
	}
	var out []attachment
	for _, e := range list.Manifests {
		// The list's own artifactType is not asked: some registries put the config's type there.
		m, err := r.manifest(ctx, repo.WithDigest(Digest(e.Digest.String())))
		if errors.Is(err, errNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		var man v1.Manifest
		if err := json.Unmarshal(m.raw, &man); err != nil || man.Subject == nil || man.Subject.Digest.String() != string(d) || man.ArtifactType != mediaType || len(man.Layers) != 1 {
			continue // of another kind, or listed and not about d
		}
		out = append(out, attachment{m.digest, man.Layers[0]})
	}
	return out, nil
}

// checkAttached wants a provenance by key, and the SBOM that it names for each image.
func (r *Registry) checkAttached(ctx context.Context, repo Ref, v *Verified, key *Key) error {
	s, d, err := r.provenanceOf(ctx, repo, v.Digest, key)
	if err != nil {
		return err
	}
	v.Provenance, v.Builder = d, s.Predicate.Run.Builder.ID
	for _, p := range slices.Sorted(maps.Keys(v.Images)) {
		if !s.covers(v.Images[p]) {
			return fmt.Errorf("%s: %w: it does not cover %s", repo.WithDigest(v.Digest), ErrNoProvenance, p)
		}
		if _, v.SBOMs[p], err = r.attachedSBOM(ctx, repo, p, v.Images[p], s); err != nil {
			return err
		}
	}
	return nil
}

// provenanceOf returns the statement about an index, and the digest of its envelope.
func (r *Registry) provenanceOf(ctx context.Context, repo Ref, index Digest, key *Key) (statement, Digest, error) {
	list, err := r.attachments(ctx, repo, index, dsseType)
	if err != nil {
		return statement{}, "", err
	}
	at := repo.WithDigest(index)
	why := fmt.Errorf("%s: %w", at, ErrNoProvenance)
	for _, a := range list {
		data, err := r.smallBlob(ctx, repo, a.layer)
		if err != nil {
			return statement{}, "", err
		}
		s, err := key.unseal(data)
		switch {
		case err != nil:
			why = fmt.Errorf("%s: %w", at, err)
		case !s.covers(index):
			why = fmt.Errorf("%s: %w: the provenance beside it is of another image", at, ErrTampered)
		default:
			return s, Digest(a.layer.Digest.String()), nil
		}
	}
	return statement{}, "", why
}

// attachedSBOM returns the SBOM of an image that the provenance vouches for.
func (r *Registry) attachedSBOM(ctx context.Context, repo Ref, p Platform, img Digest, s statement) ([]byte, Digest, error) {
	at := repo.WithDigest(img)
	want := s.byproduct(document{kind: kindSBOM, platform: p}.name())
	list, err := r.attachments(ctx, repo, img, SPDXType)
	if err != nil {
		return nil, "", err
	}
	if want == "" || len(list) == 0 {
		return nil, "", fmt.Errorf("%s (%s): %w", at, p, ErrNoSBOM)
	}
	for _, a := range list {
		if Digest(a.layer.Digest.String()) == want {
			data, err := r.smallBlob(ctx, repo, a.layer)
			return data, want, err
		}
	}
	return nil, "", fmt.Errorf("%s (%s): %w: the SBOM beside it is not the one that the signed provenance names, %s", at, p, ErrTampered, want)
}

// SBOM verifies what ref names and returns the SBOM of one platform, as it was published.
func (r *Registry) SBOM(ctx context.Context, o VerifyOptions, p Platform) ([]byte, error) {
	v, err := r.Verify(ctx, o)
	if err != nil {
		return nil, err
	}
	img, ok := v.Images[p]
	if !ok {
		return nil, fmt.Errorf("%s has no %s", v.Name, p)
	}
	s, _, err := r.provenanceOf(ctx, o.Ref.Repository(), v.Digest, o.Key)
	if err != nil {
		return nil, err
	}
	data, _, err := r.attachedSBOM(ctx, o.Ref.Repository(), p, img, s)
	return data, err
}
