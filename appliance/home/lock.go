// SPDX-License-Identifier: MIT

package home

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
)

// LockedError says that another process holds a home's lock.
type LockedError struct {
	Home   Home
	Holder string // process id, "" when unknown
}

func (e *LockedError) Error() string {
	who := "another process"
	if e.Holder != "" {
		who = "process " + e.Holder
	}
	return fmt.Sprintf("%s: %s is writing this home; try again when it is done", e.Home.Dir, who)
}

// ExitCode is [exitcode.Locked].
func (e *LockedError) ExitCode() exitcode.Code { return exitcode.Locked }

// lockPoll is how often a waiting process tries again.
const lockPoll = 20 * time.Millisecond

// Lock takes the home's lock for writing its files and waits for it until ctx ends, then
// fails with a [*LockedError]. The lock is the kernel's: it ends with the process. The
// caller calls release, once.
func (h Home) Lock(ctx context.Context) (release func() error, err error) {
	var w atomicfile.Writer
	if err := w.Mkdir(h.State(), 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(h.State(), "lock")
	if err := w.Touch(path, 0o600); err != nil {
		return nil, err
	}
	l := flock.New(path, flock.SetFlag(os.O_RDWR))
	ok, err := l.TryLockContext(ctx, lockPoll)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return nil, errors.Join(err, l.Close())
	}
	if !ok {
		return nil, errors.Join(&LockedError{h, holder(path)}, l.Close())
	}
	// The number is for people; the lock does not depend on it. It is written in place: a
	// rename would change the inode that others wait for.
	if err := w.Overwrite(path, []byte(strconv.Itoa(os.Getpid())+"\n")); err != nil {
		return nil, errors.Join(err, l.Unlock())
	}
	return l.Unlock, nil
}

func holder(path string) string {
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return strings.TrimSpace(string(data))
}
