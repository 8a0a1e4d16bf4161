// SPDX-License-Identifier: MIT

package images

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// PublishOptions say what is published where.
type PublishOptions struct {
	Repository Ref
	Images     []*Image // one for each platform, from layouts
	Proofs     []Proof  // a passed smoke report for each image
	Signer     *Signer
	Origin     Origin
	Tags       []string   // RollingTag, ReleaseTag(version), or LatestTag and the version; none = push, sign and verify only
	Replacing  Digest     // see [ErrUnknown]; "" = nothing
	Platforms  []Platform // nil = [Platforms]; anything else is for repositories of one's own
	Run        Run
	Tool       string // the program and its version, for the SBOM
}

// TagMove is what became of a tag.
type TagMove struct {
	Tag   string `json:"tag"`
	From  Digest `json:"from,omitempty"` // empty = the tag is new
	To    Digest `json:"to"`
	Moved bool   `json:"moved"` // false = it was there already
}

// Published is the outcome.
type Published struct {
	Verified
	Tags []TagMove `json:"tags"`
}

// Publish pushes exactly the images given, as one index with their digests kept, with its
// signature, its SBOMs, its smoke reports and its provenance; reads all of it back and
// verifies it; and only then moves tags. It is safe to call again after any failure: it goes
// on where it was and ends in the same state. What it refuses, it refuses before it sends
// anything: [ErrGuarded], [ErrUnproven], [ErrCorrupt], [ErrIncomplete], [ErrMixed] and the
// reasons why a tag does not move.
func (r *Registry) Publish(ctx context.Context, o PublishOptions) (*Published, error) {
	p, err := r.prepare(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := p.push(ctx); err != nil {
		return nil, err
	}
	v, err := r.Verify(ctx, VerifyOptions{Ref: p.at, Key: o.Signer.Key(), Platforms: p.platforms, Blobs: true})
	if err != nil {
		return nil, fmt.Errorf("what was pushed does not verify, no tag was moved: %w", err)
	}
	r.log.Info("images_verified", "image", p.at.String())
	moves, err := p.tag(ctx)
	if err != nil {
		return nil, err
	}
	return &Published{*v, moves}, nil
}

// publication is a publication under way.
type publication struct {
	PublishOptions
	r         *Registry
	platforms []Platform
	index     rawManifest
	at        Ref // the index
	facts     facts
	docs      []document
	sealed    []byte   // the signed provenance
	tags      []string // in the order they move
}

// prepare decides everything that can be decided before the first byte is sent.
func (r *Registry) prepare(ctx context.Context, o PublishOptions) (p *publication, err error) {
	p = &publication{PublishOptions: o, r: r, platforms: o.Platforms}
	if p.platforms == nil || o.Repository.Production() {
		p.platforms = Platforms()
	}
	if err := o.Run.Guard(o.Repository); err != nil {
		return nil, err
	}
	if o.Signer == nil {
		return nil, errors.New("publishing needs a signing key")
	}
	if p.index, p.facts, err = assemble(o.Images, p.platforms); err != nil {
		return nil, err
	}
	p.at = o.Repository.WithDigest(DigestOf(p.index.data))
	own := RollingTag
	if o.Repository.gateway() {
		own = LatestTag
	}
	if rolling := rollingOf(o.Tags, p.facts.version); rolling != own && o.Repository.Production() {
		return nil, fmt.Errorf("%s: tags go with %s there, not with %s", o.Repository.Name, own, rolling)
	}
	if p.tags, err = checkTags(o.Tags, p.facts.version); err != nil {
		return nil, err
	}
	for _, img := range o.Images {
		proof, err := proofOf(img, o.Proofs, o.Repository)
		if err != nil {
			return nil, err
		}
		p.docs = append(p.docs, document{kindSmoke, img.Platform, SmokeType, proof.JSON})
	}
	if len(o.Origin.Unresolved) > 0 && !o.Repository.Loopback() {
		return nil, fmt.Errorf("%w: the lock has unresolved pins: %s; a release is built with \"images lock update\" done", ErrUnproven, strings.Join(o.Origin.Unresolved, ", "))
	}
	if _, _, err := p.decide(ctx); err != nil {
		return nil, err
	}
	for _, img := range o.Images {
		sbom, err := img.SBOM(ctx, o.Repository.Name, o.Tool) // checks every layer on the way
		if err != nil {
			return nil, err
		}
		p.docs = append(p.docs, document{kindSBOM, img.Platform, SPDXType, sbom})
	}
	s, err := provenance(o.Repository, p.at.Digest, o.Images, p.docs, p.facts, o.Origin)
	if err != nil {
		return nil, err
	}
	p.sealed, err = o.Signer.seal(s)
	return p, err
}

// push sends everything, under digests and the tags derived from them.
func (p *publication) push(ctx context.Context) error {
	for _, img := range p.Images {
		if err := p.r.putImage(ctx, p.Repository, img); err != nil {
			return err
		}
		p.r.log.Info("images_pushed", "platform", string(img.Platform), "digest", string(img.Digest))
	}
	if err := p.r.putManifest(ctx, p.at, p.index); err != nil {
		return err
	}
	for _, d := range p.docs {
		n := slices.IndexFunc(p.Images, func(i *Image) bool { return i.Platform == d.platform })
		if err := p.r.attach(ctx, p.Repository, p.Images[n], d); err != nil {
			return err
		}
	}
	if err := p.r.putProvenance(ctx, p.Repository, p.index, p.sealed); err != nil {
		return err
	}
	// Engines hold the image of their platform to a policy, not the index: each is signed.
	for _, img := range p.Images {
		if err := p.r.putSignature(ctx, p.Repository, img.Digest, p.Signer); err != nil {
			return err
		}
	}
	return p.r.putSignature(ctx, p.Repository, p.at.Digest, p.Signer)
}

// decide says which tags move, and what the history is, as the registry stands now.
func (p *publication) decide(ctx context.Context) (moves []TagMove, h history, err error) {
	moves = []TagMove{}
	rolling := rollingOf(p.tags, p.facts.version)
	if slices.Contains(p.tags, rolling) {
		if h, err = p.r.history(ctx, p.Repository, rolling); err != nil {
			return nil, h, err
		}
	}
	for _, t := range p.tags {
		ref := p.Repository.WithTag(t)
		cur, err := p.r.standing(ctx, ref)
		if err != nil {
			return nil, h, err
		}
		m := TagMove{Tag: t, From: cur.digest, To: p.at.Digest}
		if t == rolling {
			m.Moved, err = rollingMoves(cur, p.at.Digest, p.facts.version, h, p.Replacing)
		} else {
			m.Moved, err = releaseMoves(cur, p.at.Digest)
		}
		if err != nil {
			return nil, h, fmt.Errorf("%s: %w", ref, err)
		}
		moves = append(moves, m)
	}
	return moves, h, nil
}

// tag moves the tags: what was decided before the push is decided again, as the registry
// may have changed since.
func (p *publication) tag(ctx context.Context) ([]TagMove, error) {
	moves, h, err := p.decide(ctx)
	if err != nil {
		return nil, err
	}
	for _, m := range moves {
		if !m.Moved {
			continue
		}
		if m.Tag == h.rolling {
			if err := p.remember(ctx, m, &h); err != nil {
				return nil, err
			}
		}
		if err := p.r.move(ctx, p.Repository.WithTag(m.Tag), p.index); err != nil {
			return nil, err
		}
		p.r.log.Info("images_tag_moved", "tag", m.Tag, "from", string(m.From), "to", string(m.To))
	}
	return moves, nil
}

// remember notes where the rolling tag goes, and where it comes from if nobody has noted
// that yet.
func (p *publication) remember(ctx context.Context, m TagMove, h *history) error {
	if m.From != "" && !slices.Contains(h.stack(), m.From) {
		old, err := p.r.manifest(ctx, p.Repository.WithDigest(m.From))
		if err != nil {
			return err
		}
		if err := p.r.note(ctx, p.Repository, h, rawManifest{old.raw, old.mediaType}); err != nil {
			return err
		}
	}
	return p.r.note(ctx, p.Repository, h, p.index)
}
