// SPDX-License-Identifier: MIT

package atomicfile

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// State is what a file was when it was read.
type State struct {
	Path   string // resolved: no link left in it
	Exists bool
	SHA256 string // of the content, hex

	asked string // the path that was read
	info  fs.FileInfo
}

// Size returns the length in bytes.
func (s State) Size() int64 {
	if s.info == nil {
		return 0
	}
	return s.info.Size()
}

// Mode returns the permission bits.
func (s State) Mode() fs.FileMode {
	if s.info == nil {
		return 0
	}
	return s.info.Mode().Perm()
}

// Read reads a regular file through links. A file that does not exist is no error: Exists
// is false. A link that leads nowhere is an error that wraps [fs.ErrNotExist]; what is no
// regular file is not even opened, which could wait for ever, and gives [ErrNotRegular].
func Read(path string) ([]byte, State, error) {
	st := State{Path: path, asked: path}
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, st, nil
	} else if err != nil {
		return nil, st, err
	}
	real, err := follow(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, st, fmt.Errorf("%s: link leads nowhere: %w", path, err)
	}
	if err != nil {
		return nil, st, err
	}
	st.Path = real
	if info, err := os.Stat(real); err != nil {
		return nil, st, err
	} else if !info.Mode().IsRegular() {
		return nil, st, fmt.Errorf("%s: %w", path, ErrNotRegular)
	}
	f, err := os.OpenFile(real, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return nil, st, err
	}
	defer f.Close() //nolint:errcheck // opened for reading
	if st.info, err = f.Stat(); err != nil {
		return nil, st, err
	}
	if !st.info.Mode().IsRegular() {
		return nil, st, fmt.Errorf("%s: %w", path, ErrNotRegular)
	}
	data, err := io.ReadAll(f)
	if err != nil {
		return nil, st, err
	}
	st.Exists = true
	st.SHA256 = Hash(data)
	return data, st, nil
}

// Hash returns the SHA-256 of data in hex.
func Hash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Changed reports whether the path that s was read from leads to another file, or another
// content, than s.
func (s State) Changed() (bool, error) {
	_, now, err := Read(s.asked)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrNotRegular) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	if now.Exists != s.Exists || now.Path != s.Path {
		return true, nil
	}
	if !now.Exists {
		return false, nil
	}
	same := os.SameFile(s.info, now.info) && s.info.Size() == now.info.Size() &&
		s.info.ModTime().Equal(now.info.ModTime()) && s.SHA256 == now.SHA256
	return !same, nil
}
