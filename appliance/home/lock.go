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
	Runs   bool   // it is a gateway that runs, not somebody who writes files for a moment
}

func (e *LockedError) Error() string {
	who := "another process"
	if e.Holder != "" {
		who = "process " + e.Holder
	}
	if e.Runs {
		return fmt.Sprintf("%s: %s runs the gateway of this home; stop it first", e.Home.Dir, who)
	}
	return fmt.Sprintf("%s: %s is writing this home; try again when it is done", e.Home.Dir, who)
}

// ExitCode is [exitcode.Locked].
func (e *LockedError) ExitCode() exitcode.Code { return exitcode.Locked }

// lockPoll is how often a waiting process tries again.
const lockPoll = 20 * time.Millisecond

// Lock takes the home's lock for writing its files and waits for it until ctx ends, then
// fails with a [*LockedError]; it tries at least once. The lock is the kernel's: it ends with
// the process. The caller calls release, once.
func (h Home) Lock(ctx context.Context) (release func() error, err error) {
	path := filepath.Join(h.State(), "lock")
	for {
		l, err := h.tryLock(path)
		if err != nil {
			return nil, err
		}
		if l != nil {
			// The number is for people; the lock does not depend on it. It is written in place: a
			// rename would change the inode that others wait for. Windows lets nobody write there.
			_ = atomicfile.Writer{}.Overwrite(path, []byte(strconv.Itoa(os.Getpid())+"\n")) //nolint:errcheck // for people only
			return l.Unlock, nil
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return nil, &LockedError{Home: h, Holder: holder(path)}
			}
			return nil, ctx.Err()
		case <-time.After(lockPoll):
		}
	}
}

// LockGateway takes the lock that says that this process runs the home's gateway, upstream's
// gateway.lock, and does not wait: if another process has it, the error is a [*LockedError].
// The lock is the kernel's: it ends with the process. The caller calls release, once.
func (h Home) LockGateway() (release func() error, err error) {
	for range 3 { // the file may be removed between two looks
		l, err := tryLockFile(filepath.Join(h.Dir, "gateway.lock"))
		if err != nil {
			return nil, err
		}
		if l != nil {
			return l.Unlock, nil
		}
	}
	return nil, &LockedError{Home: h, Runs: true}
}

// tryLock returns nil if another process has the lock.
func (h Home) tryLock(path string) (*flock.Flock, error) {
	if err := (atomicfile.Writer{}).Mkdir(h.State(), 0o700); err != nil {
		return nil, err
	}
	return tryLockFile(path)
}

func tryLockFile(path string) (*flock.Flock, error) {
	var w atomicfile.Writer
	l := flock.New(path, flock.SetFlag(os.O_RDWR))
	ok, err := false, w.Touch(path, 0o600)
	if err == nil {
		ok, err = l.TryLock()
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // removed a moment ago: try again
	}
	if err != nil || !ok {
		return nil, errors.Join(err, l.Close())
	}
	if same, err := current(path, l); err != nil || !same {
		return nil, errors.Join(err, l.Unlock())
	}
	return l, nil
}

// current reports whether the file that was locked is the one that others will open. Whoever
// removed it since we opened it has made way for another one, and for another holder: ours
// would lock nobody out.
func current(path string, l *flock.Flock) (bool, error) {
	mine, err := l.Stat()
	if err != nil {
		return false, err
	}
	now, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(mine, now), err
}

// LockFile takes the lock of one file's writers, by the kernel's lock on path + ".lock", which
// upstream takes too. It waits while another holder, in this process or another, has it.
// release gives it back; the lock file stays.
func LockFile(ctx context.Context, path string) (release func() error, err error) {
	path += ".lock"
	var w atomicfile.Writer
	for {
		if err := w.Touch(path, 0o600); err != nil {
			return nil, err
		}
		l := flock.New(path, flock.SetFlag(os.O_RDWR))
		ok, err := l.TryLock()
		if err == nil && ok {
			ok, err = current(path, l)
		}
		if err == nil && ok {
			return l.Unlock, nil
		}
		if err := errors.Join(err, l.Close()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%s: another process is writing it: %w", path, ctx.Err())
		case <-time.After(lockPoll):
		}
	}
}

// holder reads the process id that the holder wrote, "" if there is none.
func holder(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return ""
	}
	return strconv.Itoa(pid)
}
