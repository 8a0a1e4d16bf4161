// SPDX-License-Identifier: MIT

package home

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
)

// Manager names what owns a home's files, "" when the person does: the value of
// HERMES_MANAGED, or else the content of the marker file .managed. "true", "1", "yes" and an
// empty marker mean NixOS; "false", "0", "no", "off" and Homebrew's names mean nobody; any
// other text is the manager's name (migrations spec §2; H#12864). A variable that is set
// but empty counts as not set. A marker that cannot be read is an error: it must not be
// taken for an absent one.
func (h Home) Manager(getenv func(string) string) (string, error) {
	if v := strings.TrimSpace(getenv(EnvManaged)); v != "" {
		return managerName(v), nil
	}
	data, err := os.ReadFile(filepath.Join(h.Dir, ".managed"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return managerName(string(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")))), nil
}

func managerName(v string) string {
	switch v = strings.ToLower(strings.TrimSpace(v)); v {
	case "", "true", "1", "yes":
		return "nixos"
	case "false", "0", "no", "off", "brew", "homebrew":
		return ""
	}
	return v
}

// AdminDir returns the administrator's scope, whose keys win over every user's: the
// directory in HERMES_MANAGED_DIR if it exists, else /etc/hermes if that exists, else "".
func AdminDir(getenv func(string) string) string {
	for _, dir := range []string{getenv("HERMES_MANAGED_DIR"), "/etc/hermes"} {
		if dir == "" {
			continue
		}
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			return dir
		}
	}
	return ""
}

// nixStore is where Nix keeps what it builds: read-only, and rebuilt rather than edited.
const nixStore = "/nix/store/"

// FileOwner says who a file's target belongs to when it is no ordinary file of the person's
// own: "nix store" for a link into it, "dangling link", "another user's link" for one that
// root must not follow, "no regular file", "read-only file", "read-only directory",
// "read-only file system", "immutable file"; "" when it can be written.
func FileOwner(path string) (string, error) { return fileOwner(path, nixStore) }

func fileOwner(path, store string) (string, error) {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return DirOwner(filepath.Dir(path))
	} else if err != nil {
		return "", err
	}
	real, err := atomicfile.Resolve(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return danglingOwner(path, store)
	case errors.Is(err, atomicfile.ErrForeignLink):
		return "another user's link", nil
	case err != nil:
		return "", err
	case strings.HasPrefix(real, store):
		return "nix store", nil
	}
	info, err := os.Stat(real)
	if err != nil {
		return "", err
	}
	switch {
	case !info.Mode().IsRegular():
		return "no regular file", nil
	case info.Mode().Perm()&0o222 == 0:
		return "read-only file", nil
	case immutable(real):
		return "immutable file", nil
	}
	if why := access(real, false); why != "" {
		return why, nil
	}
	return DirOwner(filepath.Dir(real))
}

// Shared reports whether the home is set up for a group: its directory has the setgid bit, so that
// what is new in it belongs to that group. Whoever set it wants the group to read; the modes in
// it are theirs (H#10757, PR#6317).
func (h Home) Shared() bool {
	info, err := os.Stat(h.Dir)
	return err == nil && info.Mode()&fs.ModeSetgid != 0
}

// danglingOwner tells a link into a Nix store that is not mounted here from any other link
// to nothing.
func danglingOwner(path, store string) (string, error) {
	chain, err := atomicfile.Links(path)
	if err != nil {
		return "", err
	}
	for _, l := range chain {
		if strings.HasPrefix(l, store) {
			return "nix store", nil
		}
	}
	return "dangling link", nil
}

// DirOwner says why no file can be made or replaced in a directory: "read-only directory",
// "immutable directory" or "read-only file system"; "" when it can.
func DirOwner(dir string) (string, error) {
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return "", err
	case info.Mode().Perm()&0o222 == 0:
		return "read-only directory", nil
	case immutable(dir):
		return "immutable directory", nil
	}
	return access(dir, true), nil
}
