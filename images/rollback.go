// SPDX-License-Identifier: MIT

package images

import (
	"context"
	"fmt"
)

// RollbackOptions say what goes back.
type RollbackOptions struct {
	Tag       Ref // the repository and the rolling tag
	Steps     int // how many releases back; 0 = 1
	Key       *Key
	Platforms []Platform // nil = [Platforms]
	Run       Run
}

// Rollback points the rolling tag at an earlier release, after verifying that one. Releases
// gone back from stay reachable under their own tags, and are not published again. It is
// safe to call again after a failure that moved nothing; once it succeeded, another call
// goes back further.
func (r *Registry) Rollback(ctx context.Context, o RollbackOptions) (TagMove, error) {
	repo := o.Tag.Repository()
	if o.Tag.Tag != RollingTag && o.Tag.Tag != LatestTag || o.Tag.Digest != "" {
		return TagMove{}, fmt.Errorf("%s: only %s and %s go back, release tags never move", o.Tag, repo.WithTag(RollingTag), LatestTag)
	}
	if err := o.Run.GuardBack(repo); err != nil {
		return TagMove{}, err
	}
	cur, err := r.manifest(ctx, o.Tag)
	if err != nil {
		return TagMove{}, err
	}
	h, err := r.history(ctx, repo, o.Tag.Tag)
	if err != nil {
		return TagMove{}, err
	}
	to, err := h.before(cur.digest, max(o.Steps, 1))
	if err != nil {
		return TagMove{}, fmt.Errorf("%s: %w", o.Tag, err)
	}
	if _, err := r.Verify(ctx, VerifyOptions{Ref: repo.WithDigest(to), Key: o.Key, Platforms: o.Platforms}); err != nil {
		return TagMove{}, fmt.Errorf("the release to go back to does not verify, the tag was not moved: %w", err)
	}
	m, err := r.manifest(ctx, repo.WithDigest(to))
	if err != nil {
		return TagMove{}, err
	}
	raw := rawManifest{m.raw, m.mediaType}
	if err := r.note(ctx, repo, &h, raw); err != nil {
		return TagMove{}, err
	}
	if err := r.move(ctx, o.Tag, raw); err != nil {
		return TagMove{}, err
	}
	r.log.Info("images_tag_moved", "tag", o.Tag.Tag, "from", string(cur.digest), "to", string(to))
	return TagMove{o.Tag.Tag, cur.digest, to, true}, nil
}
