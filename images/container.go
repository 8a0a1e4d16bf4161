// SPDX-License-Identifier: MIT

package images

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

// Container is a running container.
type Container struct {
	ID string
	e  *Engine
}

// capabilities are what the gateway leaves a sandbox after dropping all (spec: sandbox 1.2).
func capabilities() []string {
	return []string{"DAC_OVERRIDE", "CHOWN", "FOWNER", "SETUID", "SETGID"}
}

// Confine starts a container of an image as the gateway does, with no network: no capability
// but five, no new privileges, small file systems in memory, 2048 threads. It sleeps until
// [Container.Remove]. labels find it again.
func (e *Engine) Confine(ctx context.Context, image string, labels map[string]string) (*Container, error) {
	yes, pids := true, int64(2048)
	r, err := e.cli.ContainerCreate(ctx, client.ContainerCreateOptions{
		Config: &container.Config{Image: image, Cmd: []string{"sleep", "infinity"}, Labels: labels},
		HostConfig: &container.HostConfig{
			Init: &yes, NetworkMode: "none", CapDrop: []string{"ALL"}, CapAdd: capabilities(),
			SecurityOpt: []string{"no-new-privileges"}, ShmSize: 1 << 30,
			Tmpfs: map[string]string{
				"/tmp": "rw,nosuid,size=512m", "/var/tmp": "rw,noexec,nosuid,size=256m", "/run": "rw,noexec,nosuid,size=64m",
			},
			Resources: container.Resources{Memory: 4 << 30, PidsLimit: &pids},
		},
	})
	if errdefs.IsNotFound(err) {
		return nil, fmt.Errorf("%s: %w", image, ErrNoImage)
	}
	if err != nil {
		return nil, err
	}
	c := &Container{ID: r.ID, e: e}
	if _, err := e.cli.ContainerStart(ctx, r.ID, client.ContainerStartOptions{}); err != nil {
		return nil, errors.Join(err, c.Remove(context.WithoutCancel(ctx)))
	}
	return c, nil
}

// Remove kills the container and takes it away; that it is gone already is no error. It gives
// up after three minutes.
func (c *Container) Remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute) // busy engines take half of one
	defer cancel()
	_, err := c.e.cli.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	if errdefs.IsNotFound(err) {
		return nil
	}
	return err
}

// Command is a program to run in a container.
type Command struct {
	User  string // "" = the image's
	Env   []string
	Argv  []string
	Stdin string
}

// Output is how a command ended.
type Output struct {
	Code           int
	Stdout, Stderr string
}

// Exec runs a command to its end. A code other than 0 is no error.
func (c *Container) Exec(ctx context.Context, cmd Command) (_ Output, err error) {
	defer func() {
		if err != nil && ctx.Err() != nil { // what a cut connection says is of no use
			err = context.Cause(ctx)
		}
	}()
	s, err := c.Stream(ctx, cmd)
	if err != nil {
		return Output{}, err
	}
	defer s.Close() //nolint:errcheck // it was read to its end
	if _, err := io.WriteString(s, cmd.Stdin); err != nil {
		return Output{}, err
	}
	if err := s.CloseWrite(); err != nil {
		return Output{}, err
	}
	out, err := io.ReadAll(s)
	if err != nil {
		return Output{}, err
	}
	code, err := s.exit(ctx)
	return Output{Code: code, Stdout: string(out), Stderr: s.Stderr()}, err
}

// Stream is a command in a container whose standard streams the caller speaks with.
type Stream struct {
	hijack client.HijackedResponse
	c      *Container
	id     string
	out    *io.PipeReader
	done   func() bool // ends the watch of the context

	mu  sync.Mutex
	err bytes.Buffer
}

// Stream starts a command. The caller closes the stream, which does not end the command by
// itself: one that reads its input sees the end of it. The end of ctx closes it too.
func (c *Container) Stream(ctx context.Context, cmd Command) (*Stream, error) {
	r, err := c.e.cli.ExecCreate(ctx, c.ID, client.ExecCreateOptions{
		User: cmd.User, Env: cmd.Env, Cmd: cmd.Argv, AttachStdin: true, AttachStdout: true, AttachStderr: true,
	})
	if err != nil {
		return nil, err
	}
	a, err := c.e.cli.ExecAttach(ctx, r.ID, client.ExecAttachOptions{})
	if err != nil {
		return nil, err
	}
	pr, pw := io.Pipe()
	s := &Stream{hijack: a.HijackedResponse, c: c, id: r.ID, out: pr}
	s.done = context.AfterFunc(ctx, func() {
		a.Close()
		pw.CloseWithError(ctx.Err())
	})
	go func() {
		_, err := stdcopy.StdCopy(pw, (*errWriter)(s), a.Reader)
		pw.CloseWithError(err)
	}()
	return s, nil
}

// errWriter collects the first 64 KiB of the standard error.
type errWriter Stream

func (w *errWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err.Write(p[:min(len(p), max(0, 64<<10-w.err.Len()))])
	return len(p), nil
}

// Read reads the command's standard output.
func (s *Stream) Read(p []byte) (int, error) { return s.out.Read(p) }

// Write writes to the command's standard input.
func (s *Stream) Write(p []byte) (int, error) { return s.hijack.Conn.Write(p) }

// CloseWrite ends the command's standard input.
func (s *Stream) CloseWrite() error { return s.hijack.CloseWrite() }

// Stderr returns what the command has written to its standard error, at most 64 KiB.
func (s *Stream) Stderr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err.String()
}

// Close lets go of the command's streams.
func (s *Stream) Close() error {
	s.done()
	s.hijack.Close()
	return s.out.Close()
}

// exit returns the exit code of a command whose output has ended.
func (s *Stream) exit(ctx context.Context) (int, error) {
	for {
		r, err := s.c.e.cli.ExecInspect(ctx, s.id, client.ExecInspectOptions{})
		if err != nil || !r.Running {
			return r.ExitCode, err
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Commit makes an image of the container as it is now and returns its ID. What lies in memory
// (/tmp) is not in it.
func (c *Container) Commit(ctx context.Context) (string, error) {
	r, err := c.e.cli.ContainerCommit(ctx, c.ID, client.ContainerCommitOptions{NoPause: true})
	return r.ID, err
}
