// SPDX-License-Identifier: MIT

package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
)

// Home checks that a home is there, that this user can write it, that it is not in a place
// that empties itself, and who else claims it.
func Home(h home.Home, getenv func(string) string) Check {
	return Check{"home", func(context.Context) []Finding {
		info, err := os.Stat(h.Dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return []Finding{{Level: Problem, Message: h.Dir + " is not there", Fix: "hermes-appliance up makes a home"}}
		case err != nil:
			return []Finding{{Level: Problem, Message: err.Error(), Fix: "run as the user who owns the home"}}
		case !info.IsDir():
			return []Finding{{Level: Problem, Message: h.Dir + " is no directory"}}
		}
		var out []Finding
		if manager, err := h.Manager(getenv); err != nil {
			out = append(out, Finding{Level: Problem, Message: "the marker .managed cannot be read: " + err.Error()})
		} else if manager != "" {
			out = append(out, Finding{Level: Note, Message: "managed by " + manager, Fix: "change settings there"})
		}
		if why, err := home.DirOwner(h.Dir); err != nil || why != "" {
			if err != nil {
				why = err.Error()
			}
			out = append(out, Finding{Level: Problem, Message: h.Dir + ": " + why, Fix: "run as the user who owns the home"})
		}
		for _, temp := range []string{os.TempDir(), "/tmp", "/var/tmp", "/private/tmp", "/private/var/tmp"} {
			if within(h.Dir, temp) {
				out = append(out, Finding{Level: Warning, Message: h.Dir + " is in a directory that empties itself", Fix: "move it to a lasting place and name it with --home"})
				break
			}
		}
		if len(out) == 0 {
			return []Finding{{Level: OK, Message: h.Dir}}
		}
		return out
	}}
}

func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// secretFiles are those of a home that hold credentials.
func secretFiles() []string { return []string{".env", ".op.env", "auth.json"} }

// Modes checks that nobody else can read the files with credentials and the conversations. In
// a managed home the manager decides (H#6044): there it only tells. The group of a shared home is
// nobody else.
func Modes(h home.Home, getenv func(string) string) Check {
	return Check{"modes", func(context.Context) []Finding {
		if runtime.GOOS == "windows" {
			return nil // who may read is no matter of modes there
		}
		manager, err := h.Manager(getenv)
		managed := err != nil || manager != ""
		others := fs.FileMode(0o077)
		if h.Shared() {
			others = 0o007
		}
		var out []Finding
		look := func(name string, level Level) {
			path := filepath.Join(h.Dir, name)
			info, err := os.Stat(path)
			if err != nil || info.Mode().Perm()&others == 0 {
				return
			}
			f := Finding{Level: level, Message: fmt.Sprintf("%s can be read by others (mode %04o)", path, info.Mode().Perm()), Fix: fmt.Sprintf("chmod %o %s", info.Mode().Perm()&^others, path)}
			switch {
			case managed:
				f.Level, f.Fix = Note, "the manager of this home sets modes"
			default:
				f = f.Mended(func(context.Context) error { return os.Chmod(path, info.Mode().Perm()&^others) })
			}
			out = append(out, f)
		}
		for _, name := range secretFiles() {
			look(name, Problem)
		}
		look("state.db", Warning)
		if out == nil {
			out = append(out, Finding{Level: OK, Message: "files with credentials are private"})
		}
		return out
	}}
}

// Clock checks that the time is not before files that are there already: certificates, due
// times and locks all lie then.
func Clock(h home.Home, now func() time.Time) Check {
	return Check{"clock", func(context.Context) []Finding {
		for _, name := range []string{"config.yaml", "gateway_state.json", "state.db"} {
			info, err := os.Stat(filepath.Join(h.Dir, name))
			if err == nil && info.ModTime().After(now().Add(5*time.Minute)) {
				return []Finding{{Level: Problem, Message: fmt.Sprintf("the clock says %s, and %s was written later", now().Format(time.RFC3339), name), Fix: "set the clock, e.g. timedatectl set-ntp true"}}
			}
		}
		return []Finding{{Level: OK, Message: now().Format(time.RFC3339)}}
	}}
}

// Disk checks that there is room for the database, its write-ahead log and backups.
func Disk(h home.Home) Check {
	return Check{"disk", func(context.Context) []Finding {
		free, err := home.FreeSpace(h.Dir)
		if err != nil {
			return []Finding{{Level: Warning, Message: "free space is unknown: " + err.Error()}}
		}
		f := Finding{Level: OK, Message: fmt.Sprintf("%d MB free", free>>20)}
		switch {
		case free < 100<<20:
			f.Level, f.Fix = Problem, "make room where "+h.Dir+" is"
		case free < 1<<30:
			f.Level, f.Fix = Warning, "make room where "+h.Dir+" is"
		}
		return []Finding{f}
	}}
}
