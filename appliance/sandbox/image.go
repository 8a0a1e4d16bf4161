// SPDX-License-Identifier: MIT

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"
)

// have makes sure that an image is on the engine, and pulls it if it is not. The error is an
// [*EngineError] of [ErrNoImage] where the engine answers and has no image.
func (e *Engine) have(ctx context.Context, image string) error {
	_, err := e.api.ImageInspect(ctx, image)
	if err == nil {
		return nil
	}
	if !errdefs.IsNotFound(err) {
		return e.failed("look for the image "+image, err)
	}
	return e.pull(ctx, image)
}

func (e *Engine) pull(ctx context.Context, image string) error {
	ctx, cancel := context.WithTimeout(ctx, PullTimeout)
	defer cancel()
	no := func(err error) error {
		if own := e.failed("pull the image "+image, err); errors.Is(own, ErrUnreachable) || ctx.Err() != nil {
			return own
		}
		return &EngineError{
			Kind: ErrNoImage, Op: "pull the image " + image, Err: err,
			Fix: fmt.Sprintf("check the name and the network; docker pull %s also uses your logins", image),
		}
	}
	e.log().Info("pulling an image", "image", image)
	r, err := e.api.ImagePull(ctx, image, client.ImagePullOptions{})
	if err != nil {
		return no(err)
	}
	defer r.Close() //nolint:errcheck // opened for reading
	for m, err := range r.JSONMessages(ctx) {
		if err != nil {
			return no(err)
		}
		if m.Error != nil {
			return no(m.Error)
		}
		if e.o.Progress != nil {
			p := Progress{Image: image, Layer: m.ID, Status: m.Status}
			if m.Progress != nil {
				p.Done, p.Total = m.Progress.Current, m.Progress.Total
			}
			e.o.Progress(p)
		}
	}
	if err := ctx.Err(); err != nil {
		return no(err)
	}
	// A stream that was cut ends like one that is complete.
	if _, err := e.api.ImageInspect(ctx, image); err != nil {
		return no(err)
	}
	return nil
}

// Digest returns what an image is known by where it was pulled from, name@sha256:…, or its id
// where it never was in a registry. It pulls nothing; "" = the engine has no such image.
func (e *Engine) Digest(ctx context.Context, image string) (string, error) {
	r, err := e.api.ImageInspect(ctx, image)
	switch {
	case errdefs.IsNotFound(err):
		return "", nil
	case err != nil:
		return "", e.failed("look at the image "+image, err)
	case len(r.RepoDigests) > 0:
		return slices.Min(r.RepoDigests), nil
	}
	return r.ID, nil
}

// ownInit reports whether an image brings its own init, which must be process 1 and runs
// from /run (hermes-agent#34628).
func (e *Engine) ownInit(ctx context.Context, image string) (bool, error) {
	r, err := e.api.ImageInspect(ctx, image)
	if err != nil {
		return false, e.failed("look at the image "+image, err)
	}
	if r.Config == nil || len(r.Config.Entrypoint) == 0 {
		return false, nil
	}
	first := r.Config.Entrypoint[0]
	return first == "/init" || first == "/package/admin/s6-overlay/command/init", nil
}

// replace puts a container of the chosen image in the place of one of another. The old one
// runs until the new one has proved to work; whatever fails before, it is kept and used, and
// the next call tries again.
func (e *Engine) replace(ctx context.Context, s Spec, old candidate, st State) (*Container, State, error) {
	keep := func(err error) (*Container, State, error) {
		if errors.Is(err, ErrUnreachable) || ctx.Err() != nil {
			return nil, st, err
		}
		st.Notes = append(st.Notes, fmt.Sprintf("the sandbox of %s is kept, because none of %s could be made: %v", old.image, s.Image, err))
		quiet := s
		quiet.Image = old.image
		c, out, err := e.take(ctx, quiet, old, st)
		out.Kept = true
		return c, out, err
	}
	if err := e.have(ctx, s.Image); err != nil {
		return keep(err)
	}
	st.Outcome = Recreated
	c, st2, err := e.create(ctx, s, s.name()+nextSuffix, st)
	if errors.Is(err, errBusy) {
		return nil, st, err
	}
	if err != nil {
		return keep(err)
	}
	if err := e.remove(ctx, old.id); err != nil {
		return keep(errors.Join(err, e.remove(ctx, c.id)))
	}
	c.rename(ctx, s.name())
	st2.Notes = append(st2.Notes, fmt.Sprintf("the sandbox of %s was replaced by one of %s; /root and /workspace are %s, what was installed elsewhere is gone", old.image, s.Image, s.fate()))
	return c, st2, nil
}

// fate says what becomes of the two directories when a container is replaced.
func (s Spec) fate() string {
	if s.Data == "" {
		return "empty (terminal.container_persistent is false)"
	}
	return "kept"
}
