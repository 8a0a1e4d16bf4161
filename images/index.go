// SPDX-License-Identifier: MIT

package images

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// What makes an index unfit for a tag.
var (
	ErrIncomplete = errors.New("an architecture is missing")
	ErrMixed      = errors.New("the architectures are not of one commit and version")
)

// facts are what the images of an index must have in common.
type facts struct {
	platforms         []Platform
	version, revision string
}

// member is one image as far as the rules for an index care.
type member struct {
	platform          Platform
	digest            Digest
	version, revision string
}

// agree holds images to the rules for an index: each wanted platform exactly once and none
// else, each with a version and a revision, and those the same.
func agree(members []member, want []Platform) (facts, error) {
	var f facts
	for _, m := range members {
		if slices.Contains(f.platforms, m.platform) {
			return f, fmt.Errorf("%s is there twice: %s", m.platform, m.digest)
		}
		f.platforms = append(f.platforms, m.platform)
		if m.version == "" || m.revision == "" {
			return f, fmt.Errorf("%s %s: %w: its labels %s and %s are %q and %q; a release build sets both", m.platform, m.digest, ErrMixed, LabelVersion, LabelRevision, m.version, m.revision)
		}
		if f.version == "" {
			f.version, f.revision = m.version, m.revision
		}
		if m.version != f.version || m.revision != f.revision {
			return f, fmt.Errorf("%w: %s is version %s of %s, and %s is version %s of %s; build both from one checkout",
				ErrMixed, members[0].platform, f.version, f.revision, m.platform, m.version, m.revision)
		}
	}
	for _, p := range want {
		if !slices.Contains(f.platforms, p) {
			return f, fmt.Errorf("%w: %s; got %s", ErrIncomplete, p, join(f.platforms))
		}
	}
	for _, p := range f.platforms {
		if !slices.Contains(want, p) {
			return f, fmt.Errorf("%s is not one of the platforms that are published: %s", p, join(want))
		}
	}
	return f, nil
}

func join(p []Platform) string {
	if len(p) == 0 {
		return "none"
	}
	var out []string
	for _, x := range p {
		out = append(out, string(x))
	}
	return strings.Join(out, ", ")
}

// assemble makes the index of images. The same images give the same bytes, in any order.
func assemble(imgs []*Image, want []Platform) (rawManifest, facts, error) {
	imgs = slices.SortedFunc(slices.Values(imgs), func(a, b *Image) int { return strings.Compare(string(a.Platform), string(b.Platform)) })
	var members []member
	index := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex}
	for _, i := range imgs {
		members = append(members, member{i.Platform, i.Digest, i.Version, i.Revision})
		d := descriptor(i.mediaType, i.raw)
		system, arch, _ := strings.Cut(string(i.Platform), "/")
		d.Platform = &v1.Platform{OS: system, Architecture: arch}
		index.Manifests = append(index.Manifests, d)
	}
	f, err := agree(members, want)
	if err != nil {
		return rawManifest{}, f, err
	}
	index.Annotations = map[string]string{LabelVersion: f.version, LabelRevision: f.revision}
	data, err := json.Marshal(index)
	return rawManifest{data, imageIndexType}, f, err
}
