// SPDX-License-Identifier: MIT

//go:build unix

package secret

import (
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// openEnv opens a file for reading; a pipe without a writer does not hold it up.
func openEnv(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
}

// system adds what only the system knows.
func (s *signature) system(file *os.File, _ fs.FileInfo) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st); err != nil {
		return &fs.PathError{Op: "stat", Path: file.Name(), Err: err}
	}
	s.ctime, s.dev, s.inode = st.Ctim.Nano(), uint64(st.Dev), st.Ino //nolint:unconvert // types differ by system
	return nil
}
