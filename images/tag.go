// SPDX-License-Identifier: MIT

package images

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Why a tag does not move. Nothing was moved.
var (
	ErrImmutable  = errors.New("a release tag never moves")
	ErrBackwards  = errors.New("the tag never moves backwards")
	ErrPrerelease = errors.New("the tag moves for stable releases only")
	ErrUnknown    = errors.New("what the tag points at has no version to compare with")
	ErrWithdrawn  = errors.New("it was rolled back")
)

// ReleaseTag is the tag of one release of the sandbox image, which never moves.
func ReleaseTag(version string) string { return releaseTag(version, RollingTag) }

// releaseTag is the tag of one release beside a rolling tag: the version alone beside "latest".
func releaseTag(version, rolling string) string {
	if rolling == LatestTag {
		return version
	}
	return version + "-" + rolling
}

// rollingOf returns which rolling tag the tags asked for go with.
func rollingOf(tags []string, version string) string {
	if slices.Contains(tags, LatestTag) || slices.Contains(tags, version) {
		return LatestTag
	}
	return RollingTag
}

// parseVersion reads a version as a label and a tag have it: semantic, with or without a
// leading v, and without build metadata, which no tag can hold.
func parseVersion(s string) (*semver.Version, error) {
	v, err := semver.StrictNewVersion(strings.TrimPrefix(s, "v"))
	if err != nil {
		return nil, fmt.Errorf("version %q: %w; expected MAJOR.MINOR.PATCH[-PRERELEASE]", s, err)
	}
	if v.Metadata() != "" {
		return nil, fmt.Errorf("version %q: a tag cannot hold the part after +", s)
	}
	return v, nil
}

// checkTags holds the tags asked for to what an image's version allows, and returns them in
// the order in which they are moved: the release's own tag first, which the rolling one
// always brings along, so that what it points at stays reachable.
func checkTags(tags []string, version string) ([]string, error) {
	if len(tags) == 0 {
		return nil, nil
	}
	v, err := parseVersion(version)
	if err != nil {
		return nil, fmt.Errorf("the images' label %s: %w", LabelVersion, err)
	}
	rolling := rollingOf(tags, version)
	out := []string{releaseTag(version, rolling)}
	for _, t := range tags {
		switch {
		case t == rolling && v.Prerelease() != "":
			return nil, fmt.Errorf("tag %s, version %s: %w; give --tag %s alone", t, version, ErrPrerelease, out[0])
		case t == rolling && !slices.Contains(out, t):
			out = append(out, t)
		case t != rolling && t != out[0]:
			return nil, fmt.Errorf("tag %q: expected %s or, as the images are version %s, %s", t, rolling, version, out[0])
		}
	}
	return out, nil
}

// standing is what a tag points at.
type standing struct {
	digest  Digest // "" = the tag does not exist
	version string // by the images' label; "" = unknown
}

// releaseMoves decides about a release tag.
func releaseMoves(cur standing, next Digest) (bool, error) {
	switch cur.digest {
	case next:
		return false, nil
	case "":
		return true, nil
	}
	return false, fmt.Errorf("%w: it is %s, and this is %s; publish under a new version", ErrImmutable, cur.digest, next)
}

// rollingMoves decides about the rolling tag. replacing names what may be replaced though
// nothing tells its version: the one way to take over a tag that others made.
func rollingMoves(cur standing, next Digest, version string, h history, replacing Digest) (bool, error) {
	if cur.digest == next {
		return false, nil
	}
	v, err := parseVersion(version)
	if err != nil {
		return false, err
	}
	if v.Prerelease() != "" {
		return false, fmt.Errorf("version %s: %w", version, ErrPrerelease)
	}
	if h.withdrawn(next) {
		return false, fmt.Errorf("version %s, %s: %w; publish a newer release", version, next, ErrWithdrawn)
	}
	if cur.digest == "" {
		return true, nil
	}
	there, err := parseVersion(cur.version)
	if err != nil {
		if replacing == cur.digest {
			return true, nil
		}
		return false, fmt.Errorf("%w: it is %s, version %q; to replace exactly that, give --replacing %s", ErrUnknown, cur.digest, cur.version, cur.digest)
	}
	if !v.GreaterThan(there) {
		return false, fmt.Errorf("%w: it is version %s, and this is %s", ErrBackwards, cur.version, version)
	}
	return true, nil
}

// standing looks at what a tag points at now.
func (r *Registry) standing(ctx context.Context, tag Ref) (standing, error) {
	m, err := r.manifest(ctx, tag)
	if errors.Is(err, errNotFound) {
		return standing{}, nil
	}
	if err != nil {
		return standing{}, err
	}
	version, err := r.versionOf(ctx, tag.Repository(), m)
	return standing{m.digest, version}, err
}

// versionOf returns the version label that all images below a manifest share, or "". Others
// may have made it: anything that cannot be read as images with a label has no version.
func (r *Registry) versionOf(ctx context.Context, repo Ref, m remoteManifest) (string, error) {
	var doc struct {
		Config    v1.Descriptor   `json:"config"`
		Manifests []v1.Descriptor `json:"manifests"`
	}
	if err := json.Unmarshal(m.raw, &doc); err != nil {
		return "", nil //nolint:nilerr // what cannot be read has no version
	}
	if len(doc.Manifests) == 0 {
		if doc.Config.Digest.Hex == "" {
			return "", nil
		}
		raw, err := r.smallBlob(ctx, repo, doc.Config)
		if err != nil {
			return "", err
		}
		var c imageConfig
		if err := json.Unmarshal(raw, &c); err != nil {
			return "", nil //nolint:nilerr // what cannot be read has no version
		}
		return c.Config.Labels[LabelVersion], nil
	}
	version := ""
	for n, d := range doc.Manifests {
		child, err := r.manifest(ctx, repo.WithDigest(Digest(d.Digest.String())))
		if err != nil {
			return "", err
		}
		if types.MediaType(child.mediaType).IsIndex() {
			return "", nil
		}
		v, err := r.versionOf(ctx, repo, child)
		if err != nil || n > 0 && v != version {
			return "", err
		}
		version = v
	}
	return version, nil
}

// move points a tag at a manifest that is in the registry, and reads back that it does.
func (r *Registry) move(ctx context.Context, tag Ref, m rawManifest) error {
	if err := r.putManifest(ctx, tag, m); err != nil {
		return err
	}
	got, err := r.manifest(ctx, tag)
	if err != nil {
		return err
	}
	if want := DigestOf(m.data); got.digest != want {
		return fmt.Errorf("%s was moved to %s and points at %s now: someone else publishes too", tag, want, got.digest)
	}
	return nil
}
