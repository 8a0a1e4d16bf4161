// SPDX-License-Identifier: MIT

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/moby/moby/client"
)

// The kinds of an [*EngineError]. They follow from the engine's own answers alone.
var (
	// ErrUnreachable: no engine answers. Nothing is known about any container.
	ErrUnreachable = errors.New("container engine is unreachable")
	// ErrGone: the container does not exist any more, or does not run. [Engine.Ensure] finds,
	// starts or makes one again; then the command may be tried once more.
	ErrGone = errors.New("sandbox is gone")
	// ErrPidsExhausted: the container has as many processes and threads as it may have; the
	// command was not started. Kill something, or raise the limit.
	ErrPidsExhausted = errors.New("sandbox has no process left to give")
	// ErrNoDir: the directory to run the command in does not exist; it was not started.
	ErrNoDir = errors.New("no such directory in the sandbox")
	// ErrNoShell: the container has no /bin/sh that could be run, so no command can.
	ErrNoShell = errors.New("sandbox has no usable /bin/sh")
	// ErrCut: contact was lost while the command ran. It may be running still.
	ErrCut = errors.New("contact with the sandbox was lost")
	// ErrNoImage: the image is neither here nor could it be pulled.
	ErrNoImage = errors.New("image is not available")
	// ErrConfig: the settings make no container, whatever the engine says.
	ErrConfig = errors.New("sandbox cannot be made with these settings")
	// ErrEngine: the engine refused for another reason.
	ErrEngine = errors.New("container engine refused")
)

// EngineError says what could not be done and what the engine said.
type EngineError struct {
	Kind error  // one of the errors above
	Op   string // what was being done, with the names of the things
	Msg  string // the engine's words, or ours; "" = those of Err
	Fix  string // what to do; "" = nothing known
	Err  error  // the cause; nil = none
}

func (e *EngineError) Error() string {
	msg := e.Msg
	if msg == "" && e.Err != nil {
		msg = e.Err.Error()
	}
	if msg == "" {
		msg = e.Kind.Error()
	}
	out := fmt.Sprintf("cannot %s: %s", e.Op, strings.TrimSpace(msg))
	if e.Fix != "" {
		out += "; " + e.Fix
	}
	return out
}

// Unwrap returns Kind and the cause.
func (e *EngineError) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Err}
}

// failed makes an [*EngineError] of an error of the client about no container in
// particular. A context that ended stays what it is.
func (e *Engine) failed(op string, err error) error {
	var own *EngineError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &own):
		return err
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded) && !client.IsErrConnectionFailed(err):
		return fmt.Errorf("cannot %s: %w", op, err)
	case client.IsErrConnectionFailed(err):
		return &EngineError{Kind: ErrUnreachable, Op: op, Err: err, Fix: "start Docker or podman, or set DOCKER_HOST to where it is (now " + e.host + ")"}
	}
	return &EngineError{Kind: ErrEngine, Op: op, Err: err}
}
