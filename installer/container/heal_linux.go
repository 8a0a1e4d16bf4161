// SPDX-License-Identifier: MIT

package container

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// sockets are where people mount an engine's socket.
func sockets() []string { return []string{"/var/run/docker.sock", "/run/docker.sock"} }

// Look gathers the facts of this process and a home. A home that is a link is a [*ConfigError]:
// root would change what it points at.
func Look(home string) (Facts, error) {
	f := Facts{UID: os.Geteuid(), GID: os.Getegid(), Home: home, HomeUID: Nobody, HomeGID: Nobody, SocketGID: Nobody}
	var st unix.Stat_t
	switch err := unix.Lstat(home, &st); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return f, fmt.Errorf("%s: %w", home, err)
	case st.Mode&unix.S_IFMT == unix.S_IFLNK && f.UID == 0:
		return f, &ConfigError{home + " is a link, and root does not follow it", "Mount the volume there itself, or start the container with --user and the owner's id."}
	default:
		f.HomeUID, f.HomeGID = int(st.Uid), int(st.Gid)
	}
	for _, path := range sockets() {
		if err := unix.Stat(path, &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFSOCK {
			f.SocketGID = int(st.Gid)
			break
		}
	}
	return f, nil
}

// ownDirs are the directories of a home that belong to Hermes and whose content may be given to
// the user it runs as. What people and sandboxes work on is not among them.
func ownDirs() []string {
	return []string{
		".appliance", "audio_cache", "backups", "bot-desktop", "cache", "checkpoints", "cron", "document_cache", "hooks", "image_cache",
		"logs", "memories", "metrics", "pairing", "platforms", "plugins", "sessions", "skills", "spill", "state", "update_receipts",
	}
}

// Healed is what [Heal] did.
type Healed struct {
	Changed int      // entries that have another owner now
	Foreign []string // the first entries that belong to somebody who is neither; they were left
}

// maxForeign is how many entries of others are named.
const maxForeign = 5

// Heal makes the home if it is not there, and gives id what of it belongs to root or to the
// user before: the home itself, its files, and the content of Hermes' own directories, of each
// profile too (H#10270). It follows no link, leaves files that have a second name, stays on the
// home's file system and touches nothing else, so that a directory of the host mounted there
// keeps its owners (H#19788, H#45258). Only root may call it.
func Heal(home string, id Identity, f Facts) (h Healed, err error) {
	if err := os.MkdirAll(home, 0o700); err != nil {
		return h, &ConfigError{"the home cannot be made: " + err.Error(), "Mount a volume there: -v hermes:" + home}
	}
	fd, err := unix.Open(home, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return h, fmt.Errorf("%s: %w", home, err)
	}
	defer unix.Close(fd) //nolint:errcheck // opened for reading
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return h, fmt.Errorf("%s: %w", home, err)
	}
	w := healer{id: id, from: []uint32{0, Default}, dev: st.Dev, out: &h}
	if f.HomeUID > 0 {
		w.from = append(w.from, uint32(f.HomeUID))
	}
	if err := w.own(fd, home, &st); err != nil {
		return h, err
	}
	return h, w.home(fd, home, true)
}

// healer gives entries of one home to one user.
type healer struct {
	id   Identity
	from []uint32 // whose entries are given to id
	dev  uint64   // the home's file system
	out  *Healed
}

// home looks at the entries of a home: files, own directories, profiles.
func (w *healer) home(fd int, path string, root bool) error {
	return w.each(fd, path, func(name string, mode uint32) (deep, profiles bool) {
		if mode != unix.S_IFDIR {
			return false, false
		}
		return slices.Contains(ownDirs(), name), root && name == "profiles"
	})
}

// profiles looks at each profile, which is a home.
func (w *healer) profiles(fd int, path string) error {
	names, err := entries(fd)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, name := range names {
		err := w.into(fd, filepath.Join(path, name), name, func(child int) error { return w.home(child, filepath.Join(path, name), false) })
		if err != nil {
			return err
		}
	}
	return nil
}

// deep gives all of a directory.
func (w *healer) deep(fd int, path string) error {
	return w.each(fd, path, func(_ string, mode uint32) (deep, profiles bool) { return mode == unix.S_IFDIR, false })
}

// each gives the files of a directory, and goes into the directories that enter names.
func (w *healer) each(fd int, path string, enter func(name string, mode uint32) (deep, profiles bool)) error {
	names, err := entries(fd)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, name := range names {
		child := filepath.Join(path, name)
		var st unix.Stat_t
		if err := unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return fmt.Errorf("%s: %w", child, err)
		}
		mode := st.Mode & unix.S_IFMT
		deep, profiles := enter(name, mode)
		switch {
		case profiles:
			err = w.into(fd, child, name, func(dir int) error { return w.profiles(dir, child) })
		case deep:
			err = w.into(fd, child, name, func(dir int) error { return w.deep(dir, child) })
		case mode == unix.S_IFREG, mode == unix.S_IFSOCK:
			err = w.file(fd, child, name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// into opens a directory that is no link, gives it, and goes on inside.
func (w *healer) into(fd int, path, name string, inside func(dir int) error) error {
	dir, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer unix.Close(dir) //nolint:errcheck // opened for reading
	var st unix.Stat_t
	if err := unix.Fstat(dir, &st); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if st.Dev != w.dev {
		return nil
	}
	if err := w.own(dir, path, &st); err != nil {
		return err
	}
	return inside(dir)
}

// file gives a file. It is held open meanwhile, without being read, so that what was looked at
// is what is given.
func (w *healer) file(fd int, path, name string) error {
	file, err := unix.Openat(fd, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer unix.Close(file) //nolint:errcheck // opened for its owner only
	var st unix.Stat_t
	if err := unix.Fstat(file, &st); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	mode := st.Mode & unix.S_IFMT
	if st.Dev != w.dev || mode != unix.S_IFREG && mode != unix.S_IFSOCK || st.Nlink > 1 {
		return nil
	}
	return w.own(file, path, &st)
}

// own gives what is open.
func (w *healer) own(fd int, path string, st *unix.Stat_t) error {
	if int(st.Uid) == w.id.UID {
		return nil
	}
	if !slices.Contains(w.from, st.Uid) {
		if len(w.out.Foreign) < maxForeign {
			w.out.Foreign = append(w.out.Foreign, fmt.Sprintf("%s (%d:%d)", path, st.Uid, st.Gid))
		}
		return nil
	}
	err := unix.Fchownat(fd, "", w.id.UID, w.id.GID, unix.AT_EMPTY_PATH)
	if errors.Is(err, unix.EROFS) || errors.Is(err, unix.EPERM) {
		// A read-only mount (a config from elsewhere) or root that is none: what cannot be written is said later.
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	w.out.Changed++
	return nil
}

// entries lists an open directory.
func entries(fd int) ([]string, error) {
	dup, err := unix.Openat(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(dup), ".")
	defer f.Close() //nolint:errcheck // opened for reading
	return f.Readdirnames(-1)
}
