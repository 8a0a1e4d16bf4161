// SPDX-License-Identifier: MIT

//go:build unix

package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// links returns the number of hard links.
func links(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Nlink) //nolint:unconvert // narrower on some systems
	}
	return 1
}

// openFlags keep an open from following a link that was put there a moment ago, and from
// waiting for the other end of a pipe.
const openFlags = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// ownerOf returns the user id of a file's owner.
func ownerOf(info fs.FileInfo) uint32 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Uid
	}
	return 0
}

// astray reports whether root finds a file that it made and did not give to the owner of
// the directory.
func astray(info, dir fs.FileInfo) bool {
	return os.Geteuid() == 0 && ownerOf(info) == 0 && ownerOf(dir) != 0
}

// copyOwner gives f the owner and group of like. With asRoot only root does so: others make
// files of their own.
func copyOwner(f *os.File, like fs.FileInfo, asRoot bool) error {
	want, ok := like.Sys().(*syscall.Stat_t)
	if !ok || asRoot && os.Geteuid() != 0 {
		return nil
	}
	now, err := f.Stat()
	if err != nil {
		return err
	}
	if have, ok := now.Sys().(*syscall.Stat_t); ok && have.Uid == want.Uid && have.Gid == want.Gid {
		return nil
	}
	return f.Chown(int(want.Uid), int(want.Gid))
}

// crossesMount reports errors of a rename onto a file that is mounted by itself.
func crossesMount(err error) bool {
	return errors.Is(err, syscall.EXDEV) || errors.Is(err, syscall.EBUSY)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil // some network and FUSE file systems cannot
	}
	return errors.Join(err, d.Close())
}
