// SPDX-License-Identifier: MIT

package generation

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
)

// ReadBinary describes the program at path; version and revision are what it says of itself.
func ReadBinary(path, version, revision string) (Binary, error) {
	f, err := os.Open(path)
	if err != nil {
		return Binary{}, err
	}
	defer f.Close() //nolint:errcheck // opened for reading
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return Binary{}, err
	}
	return Binary{path, version, revision, hex.EncodeToString(sum.Sum(nil))}, nil
}

// kept is where a program is kept: beside the one that runs, as only there is it surely on the
// same file system and as trustworthy as that one.
func kept(b Binary) string { return filepath.Join(keptDir(b.Path), b.SHA256) }

func keptDir(path string) string {
	real, err := atomicfile.Resolve(path)
	if err != nil {
		real = path
	}
	return filepath.Join(filepath.Dir(real), "."+filepath.Base(real)+".kept")
}

// staged is where a new program waits.
func staged(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
}

// keep keeps the program that is at its place now, as a hard link where there can be one. It is
// no error if this user could not put it back anyhow.
func (s Store) keep(b Binary) error {
	real, err := atomicfile.Resolve(b.Path)
	if err != nil {
		return err
	}
	path := kept(b)
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	if why, err := home.DirOwner(filepath.Dir(real)); err != nil || why != "" {
		return err
	}
	if err := s.Files.Mkdir(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	err = os.Link(real, path)
	if err == nil {
		if now, err := ReadBinary(path, "", ""); err != nil || now.SHA256 != b.SHA256 {
			return errors.Join(err, s.Files.Remove(path), fmt.Errorf("%s: it is not the program it was a moment ago", real))
		}
		return s.Files.SyncDir(filepath.Dir(path))
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return s.copyProgram(real, b, path)
}

// copyProgram is keep where no link can be made.
func (s Store) copyProgram(from string, b Binary, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // opened for reading
	return s.Files.Stream(filepath.Dir(to), func(w io.Writer) (string, error) {
		sum := sha256.New()
		if _, err := io.Copy(io.MultiWriter(w, sum), in); err != nil {
			return "", err
		}
		if hex.EncodeToString(sum.Sum(nil)) != b.SHA256 {
			return "", fmt.Errorf("%s: it is not the program it was a moment ago", from)
		}
		return b.SHA256, nil
	})
}

// Kept reports whether the program of a generation is at hand, now or as a kept copy.
func (m Manifest) Kept(now Binary) bool {
	if m.Binary.SHA256 == now.SHA256 && m.Binary.Path == now.Path {
		return true
	}
	_, err := os.Lstat(kept(m.Binary))
	return err == nil
}

// program reads a kept program.
func (s Store) program(b Binary) ([]byte, error) {
	path := kept(b)
	data, st, err := atomicfile.Read(path)
	if err != nil {
		return nil, err
	}
	if !st.Exists {
		return nil, refuse(b.Path, "put that version there by hand, or choose another generation", "version %s is not kept any more", b.Version)
	}
	if st.SHA256 != b.SHA256 {
		return nil, refuse(path, "put that version at "+b.Path+" by hand, or choose another generation", "the kept program is damaged")
	}
	return data, nil
}

// stage writes a program beside the one it replaces, with that one's mode, owner and attributes.
// The caller commits or discards it.
func (s Store) stage(path string, data []byte) (*atomicfile.Staged, error) {
	real, err := atomicfile.Resolve(path)
	if err != nil {
		return nil, err
	}
	temp := staged(real)
	if _, err := os.Lstat(temp); err == nil { // of a run that was cut off: the caller has the lock
		if err := s.Files.Remove(temp); err != nil {
			return nil, err
		}
	}
	st, err := s.Files.Stage(real, data, atomicfile.Options{Temp: filepath.Base(temp), Part: true})
	if err != nil {
		return nil, err
	}
	if st.InPlace != "" {
		err := refuse(real, "put it there as that owner", "a program cannot be written into while it runs, and %s", st.InPlace)
		return nil, errors.Join(err, st.Discard())
	}
	return st, nil
}
