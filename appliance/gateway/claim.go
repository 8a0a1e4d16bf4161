// SPDX-License-Identifier: MIT

package gateway

import (
	"encoding/json"
	"errors"
	"io/fs"
	"strconv"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
)

// Claim is the right to run the gateway of a home: the kernel's lock on gateway.lock, which
// upstream honours too, and gateway.pid, which says who has it.
type Claim struct {
	Record  Record
	home    home.Home
	files   atomicfile.Writer
	release func() error
}

// NewClaim claims a home for this process. If another process has it the error is a
// [*home.LockedError] that names it. A pid file that a dead gateway left is replaced: with the
// lock in hand it can be nobody's (H#31981).
func NewClaim(h home.Home, argv []string) (*Claim, error) {
	release, err := h.LockGateway()
	if locked, ok := errors.AsType[*home.LockedError](err); ok {
		if r, err := ReadRecord(h); err == nil && r.PID > 0 {
			locked.Holder = strconv.Itoa(r.PID)
		}
		return nil, locked
	}
	if err != nil {
		return nil, err
	}
	c := &Claim{Record: Self(h, argv), home: h, release: release}
	data, err := json.Marshal(c.Record)
	if err == nil {
		err = c.files.Write(pidFile(h), append(data, '\n'), atomicfile.Options{Mode: 0o600})
	}
	if err != nil {
		return nil, errors.Join(err, release())
	}
	return c, nil
}

// Sweep removes what killed gateways left of writes to the files that only a gateway writes;
// more are such files.
func (c *Claim) Sweep(more ...string) error {
	var err error
	for _, path := range append(more, pidFile(c.home), statePath(c.home), startsFile(c.home), beatFile(c.home)) {
		err = errors.Join(err, c.files.Sweep(path))
	}
	return err
}

// Release gives the home back. A pid file that names somebody else by now stays.
func (c *Claim) Release() error {
	var err error
	if r, readErr := ReadRecord(c.home); readErr == nil && r.Same(c.Record) {
		err = c.files.Remove(pidFile(c.home))
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	return errors.Join(err, c.release())
}
