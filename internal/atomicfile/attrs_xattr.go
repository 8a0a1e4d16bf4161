// SPDX-License-Identifier: MIT

//go:build linux || darwin

package atomicfile

import (
	"bytes"
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// copyAttrs gives f the extended attributes of the file at path, access lists among them.
func copyAttrs(path string, f *os.File) error {
	names, err := listAttrs(path)
	if err != nil {
		return err
	}
	for _, name := range names {
		value, err := readAttr(path, name)
		if err != nil {
			return err
		}
		if have, err := readFdAttr(f, name); err == nil && bytes.Equal(have, value) {
			continue
		}
		if err := unix.Fsetxattr(int(f.Fd()), name, value, 0); err != nil {
			return err
		}
	}
	return nil
}

func listAttrs(path string) ([]string, error) {
	buf, err := grow(func(b []byte) (int, error) { return unix.Listxattr(path, b) })
	if errors.Is(err, unix.ENOTSUP) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return strings.FieldsFunc(string(buf), func(r rune) bool { return r == 0 }), nil
}

func readAttr(path, name string) ([]byte, error) {
	return grow(func(b []byte) (int, error) { return unix.Getxattr(path, name, b) })
}

func readFdAttr(f *os.File, name string) ([]byte, error) {
	return grow(func(b []byte) (int, error) { return unix.Fgetxattr(int(f.Fd()), name, b) })
}

// grow calls read with buffers large enough for what it returns.
func grow(read func([]byte) (int, error)) ([]byte, error) {
	n, err := read(nil)
	if err != nil || n == 0 {
		return nil, err
	}
	buf := make([]byte, n)
	n, err = read(buf)
	return buf[:max(n, 0)], err
}
