// SPDX-License-Identifier: MIT

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/client"
)

// create makes, starts and proves a container. Whatever fails, nothing half made stays.
func (e *Engine) create(ctx context.Context, s Spec, name string, st State) (*Container, State, error) {
	if err := e.have(ctx, s.Image); err != nil {
		return nil, st, err
	}
	ctx, cancel := context.WithTimeout(ctx, CreateTimeout)
	defer cancel()
	ownInit, err := e.ownInit(ctx, s.Image)
	if err != nil {
		return nil, st, err
	}
	l, err := e.lay(s)
	if err != nil {
		return nil, st, err
	}
	m, err := build(s, l, ownInit)
	if err != nil {
		return nil, st, err
	}
	maker := random()
	m.config.Labels[labelMaker] = maker
	id, notes, err := e.run(ctx, name, m)
	if err != nil {
		e.sweep(ctx, name, maker)
		return nil, st, err
	}
	c := &Container{e: e, id: id, name: name, image: s.Image, workdir: l.workdir, spec: s}
	if err := c.prove(ctx); err != nil {
		return nil, st, errors.Join(err, e.remove(ctx, id))
	}
	st.Image, st.Notes = s.Image, append(append(st.Notes, l.notes...), notes...)
	return c, st, nil
}

// sweep removes the container that a failed attempt may have left, and no other's of the
// same name.
func (e *Engine) sweep(ctx context.Context, name, maker string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), RemoveTimeout)
	defer cancel()
	c, err := e.inspect(ctx, name)
	if err == nil && c.labels[labelMaker] == maker {
		err = e.remove(ctx, c.id)
	}
	if err != nil && !errdefs.IsNotFound(err) {
		e.log().Warn("a sandbox that could not be made may be left", "container", name, "error", err)
	}
}

// run creates and starts a container. A host that cannot keep a limit gets a container
// without it, and a note: that is judged by what the engine says to the real thing, so no
// probe delays the first command.
func (e *Engine) run(ctx context.Context, name string, m made) (id string, notes []string, err error) {
	for {
		id, err = e.runOnce(ctx, name, m)
		text := ""
		if err != nil {
			text = strings.ToLower(err.Error())
		}
		switch {
		case err == nil || ctx.Err() != nil || errors.Is(err, errBusy) || errors.Is(err, ErrUnreachable):
			return id, notes, err
		case m.host.StorageOpt != nil && (strings.Contains(text, "storage-opt") || strings.Contains(text, "storage opt") || strings.Contains(text, "quota")):
			m = m.withoutDisk()
			e.log().Info("the engine's storage cannot limit the size of a sandbox", "container", name)
		case m.limited() && strings.Contains(text, "cgroup"):
			m = m.withoutLimits()
			notes = append(notes, "this host cannot limit processor, memory and processes of a sandbox (no cgroup controllers); it runs without limits")
		default:
			return id, notes, err
		}
	}
}

func (m made) limited() bool {
	return m.host.PidsLimit != nil || m.host.Memory != 0 || m.host.NanoCPUs != 0
}

func (e *Engine) runOnce(ctx context.Context, name string, m made) (string, error) {
	op := "make the sandbox " + name
	r, err := e.api.ContainerCreate(ctx, client.ContainerCreateOptions{Config: m.config, HostConfig: m.host, Name: name})
	switch {
	case errdefs.IsConflict(err):
		return "", e.taken(ctx, name, m, err)
	case errdefs.IsNotFound(err):
		return "", &EngineError{Kind: ErrNoImage, Op: op, Err: err, Fix: "pull it with docker pull " + m.config.Image}
	case err != nil:
		return "", e.failed(op, err)
	}
	for _, w := range r.Warnings {
		e.log().Warn("the engine warns", "container", name, "warning", w)
	}
	if _, err := e.api.ContainerStart(ctx, r.ID, client.ContainerStartOptions{}); err != nil {
		return "", errors.Join(e.failed(op, err), e.remove(ctx, r.ID))
	}
	return r.ID, nil
}

// taken explains a name that is in use: by another process that makes the same container,
// by one that is being removed, or by a stranger.
func (e *Engine) taken(ctx context.Context, name string, m made, cause error) error {
	c, err := e.inspect(ctx, name)
	switch {
	case errdefs.IsNotFound(err):
		return errBusy
	case err != nil:
		return e.failed("look at the container "+name, err)
	case c.labels[labelID] == m.config.Labels[labelID]:
		return errBusy
	}
	return &EngineError{
		Kind: ErrConfig, Op: "make the sandbox " + name, Msg: "a container of this name exists and is not this program's", Err: cause,
		Fix: fmt.Sprintf("docker rename %s OTHER, or docker rm it", name),
	}
}

// prove checks that a container runs and can run commands. One that ended at once says why:
// its exit code and the end of its log are in the error (openclaw#70387).
func (c *Container) prove(ctx context.Context) error {
	code, err := c.Exec(ctx, Exec{Argv: []string{"true"}, Dir: "/"})
	if err == nil && code == 0 {
		return nil
	}
	if err == nil {
		err = &EngineError{Kind: ErrNoShell, Op: "use the sandbox " + c.name, Msg: fmt.Sprintf("the command true ended with %d", code)}
	}
	if !errors.Is(err, ErrGone) {
		return err
	}
	r, ierr := c.e.api.ContainerInspect(ctx, c.id, client.ContainerInspectOptions{})
	if ierr != nil || r.Container.State == nil {
		return err
	}
	msg := fmt.Sprintf("it ended at once with exit code %d", r.Container.State.ExitCode)
	if r.Container.State.Error != "" {
		msg += ": " + r.Container.State.Error
	}
	if r.Container.State.OOMKilled {
		msg += " (out of memory)"
	}
	if tail := c.logTail(ctx); tail != "" {
		msg += "; its log ends with: " + tail
	}
	return &EngineError{
		Kind: ErrGone, Op: "start the sandbox " + c.name, Msg: msg,
		Fix: fmt.Sprintf("%s must be able to run \"sleep infinity\" after its entrypoint; terminal.docker_extra_args [\"--entrypoint=\"] goes without one", c.image),
	}
}

// logTail returns the last lines of what a container printed.
func (c *Container) logTail(ctx context.Context) string {
	const most = 2000
	r, err := c.e.api.ContainerLogs(ctx, c.id, client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Tail: "20"})
	if err != nil {
		return ""
	}
	defer r.Close() //nolint:errcheck // opened for reading
	var b strings.Builder
	_, _ = stdcopy.StdCopy(&b, &b, io.LimitReader(r, 64<<10)) //nolint:errcheck // what there is, is shown
	out := strings.TrimSpace(b.String())
	return out[max(0, len(out)-most):]
}
