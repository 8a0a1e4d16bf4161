// SPDX-License-Identifier: MIT

package docker

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/process"
	"github.com/hermes-appliance/hermes-appliance/appliance/sandbox"
)

// What stands on the list: a command in a container, or a container that goes with its gateway.
const (
	commandKind = "docker"
	ownKind     = "docker-own"
)

// where is a container as the list of commands has it.
func where(kind string, e *sandbox.Engine, id string) string {
	return kind + " " + id + " " + e.Host()
}

// ended takes a command off the list, unless nobody knows whether it runs.
func (h *Host) ended(mark string, err error) {
	if !errors.Is(err, sandbox.ErrCut) && !errors.Is(err, sandbox.ErrUnreachable) {
		h.c.Registry.EndAway(mark)
	}
}

// EndLeft ends the commands that an earlier gateway of the home left in containers of this engine,
// and no others: each is known by a random mark. Containers that were that gateway's own are
// removed. It returns how many are off the list. A command that cannot be reached now is ended
// when its container is used next.
func EndLeft(ctx context.Context, e *sandbox.Engine, r *process.Registry) (int, error) {
	return endLeft(ctx, e, r, "")
}

// leftTime bounds the end of one command that was left.
const leftTime = time.Minute

// endLeft does that in one container, or in all.
func endLeft(ctx context.Context, e *sandbox.Engine, r *process.Registry, container string) (n int, err error) {
	for _, a := range r.Left() {
		kind, rest, _ := strings.Cut(a.Where, " ")
		id, host, _ := strings.Cut(rest, " ")
		if kind != commandKind && kind != ownKind || host != e.Host() || container != "" && container != id {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, leftTime)
		end := func() error { return e.EndLeft(ctx, id, a.Mark) }
		if kind == ownKind {
			end = func() error { return e.RemoveLeft(ctx, id) }
		}
		lerr := end()
		cancel()
		if lerr != nil {
			err = errors.Join(err, lerr)
			continue
		}
		r.EndAway(a.Mark)
		n++
	}
	return n, err
}
