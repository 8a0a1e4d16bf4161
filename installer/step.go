// SPDX-License-Identifier: MIT

package installer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/service"
)

// Op is what a step does.
type Op string

// The operations. Each can be undone.
const (
	OpMkdir   Op = "mkdir"
	OpFile    Op = "file" // make, replace or remove a file or a link
	OpReload  Op = "reload"
	OpEnable  Op = "enable"
	OpDisable Op = "disable"
	OpLinger  Op = "linger"
	OpUnlingr Op = "unlinger"
	OpBus     Op = "wait-for-manager"
	OpStart   Op = "start"
	OpStop    Op = "stop"
	OpRestart Op = "restart"
	OpClose   Op = "close"  // sockets; the next start of the service opens those that shall be
	OpReread  Op = "reread" // nothing; undone, the manager reads the old files again
	OpRevive  Op = "revive" // nothing; undone, the old service is started again if it was restarted
)

// silent operations change nothing that anybody would want to hear of.
func (o Op) silent() bool { return o == OpReread || o == OpRevive || o == OpBus }

// Image is a file, a link, or nothing.
type Image struct {
	Exists bool   `json:"exists"`
	Data   []byte `json:"data,omitempty"`
	Mode   uint32 `json:"mode,omitempty"` // permission bits of a file
	Link   string `json:"link,omitempty"` // what a link names
}

func (i Image) same(o Image) bool {
	if i.Exists != o.Exists || i.Link != o.Link {
		return false
	}
	return !i.Exists || i.Link != "" || i.Mode == o.Mode && bytes.Equal(i.Data, o.Data)
}

// image is what was seen, as a step restores it.
func (s Seen) image() Image {
	if s.Link != "" && !s.Exists {
		return Image{Exists: true, Link: s.Link}
	}
	return Image{Exists: s.Exists, Data: s.Data, Mode: uint32(s.Mode)}
}

// Step is one reversible change of the host.
type Step struct {
	Op     Op       `json:"op"`
	Path   string   `json:"path,omitempty"`
	Unit   string   `json:"unit,omitempty"`
	Units  []string `json:"units,omitempty"`
	User   string   `json:"user,omitempty"`
	PID    int      `json:"pid,omitempty"`   // that runs before
	Role   Role     `json:"role,omitempty"`  // of a file
	Why    string   `json:"why,omitempty"`   // for people
	Soft   bool     `json:"soft,omitempty"`  // that it fails is said, and is no failure
	Quiet  bool     `json:"quiet,omitempty"` // of no interest to people
	Before Image    `json:"-"`               // of a file
	After  Image    `json:"-"`               // of a file
}

// String is one line for people.
func (s Step) String() string {
	what := string(s.Op)
	on := s.Path
	switch s.Op {
	case OpFile:
		switch {
		case !s.After.Exists:
			what = "remove"
		case !s.Before.Exists:
			what = "create"
		default:
			what = "replace"
		}
		if s.After.Link != "" {
			on += " -> " + s.After.Link
		}
	case OpLinger, OpUnlingr:
		on = s.User
	case OpEnable, OpDisable, OpClose:
		on = strings.Join(s.Units, " ")
	case OpMkdir, OpReload, OpBus, OpStart, OpStop, OpRestart, OpReread, OpRevive:
		if on == "" {
			on = s.Unit
		}
	}
	line := fmt.Sprintf("%-9s %s", what, on)
	if s.Why != "" {
		line += "  (" + s.Why + ")"
	}
	return line
}

// current is what a path is now.
func (h Host) current(path string) (Image, error) {
	real := h.path(path)
	info, err := os.Lstat(real)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Image{}, nil
	case err != nil:
		return Image{}, err
	case info.Mode()&fs.ModeSymlink != 0 && (h.Offline || linkToNothing(real)):
		to, err := os.Readlink(real)
		return Image{Exists: true, Link: to}, err
	}
	data, st, err := atomicfile.Read(real)
	return Image{Exists: st.Exists, Data: data, Mode: uint32(st.Mode())}, err
}

func linkToNothing(real string) bool {
	info, err := os.Stat(real)
	return err != nil || !info.Mode().IsRegular()
}

// errChanged says that a file is neither what it was nor what it shall be.
var errChanged = errors.New("was changed by somebody else meanwhile")

// put makes a path what an image says, if it is still what another one says.
func (h Host) put(path string, from, to Image) error {
	if err := h.sweep(path); err != nil {
		return err
	}
	now, err := h.current(path)
	if err != nil {
		return err
	}
	if now.same(to) {
		return nil
	}
	if !now.same(from) {
		return fmt.Errorf("%s: %w", path, errChanged)
	}
	real := h.path(path)
	switch {
	case !to.Exists:
		return h.Files.Remove(real)
	case to.Link != "":
		if now.Exists {
			if err := h.Files.Remove(real); err != nil {
				return err
			}
		}
		if err := os.Symlink(to.Link, real); err != nil {
			return err
		}
		return h.Files.SyncDir(filepath.Dir(real))
	}
	return h.Files.Write(real, to.Data, atomicfile.Options{Mode: fs.FileMode(to.Mode), Temp: staged(path)})
}

// staged is the name under which a file is written before it takes its place: always the same, so
// that the next run finds what a killed one left. The lock keeps others from it.
func staged(path string) string { return "." + filepath.Base(path) + ".appliance-new" }

// sweep removes what a killed run left of the writing of a file.
func (h Host) sweep(path string) error {
	left := h.path(filepath.Join(filepath.Dir(path), staged(path)))
	if _, err := os.Lstat(left); err != nil {
		return nil //nolint:nilerr // it is not there
	}
	return h.Files.Remove(left)
}

// do carries a step out.
func (r *run) do(ctx context.Context, s Step) error {
	m := r.h.manager(r.t)
	switch s.Op {
	case OpMkdir:
		mode := fs.FileMode(0o755)
		if s.Path == r.t.stateDir() {
			mode = 0o700
		}
		return r.h.Files.Mkdir(r.h.path(s.Path), mode)
	case OpFile:
		return r.h.put(s.Path, s.Before, s.After)
	case OpReload:
		return m.Reload(ctx)
	case OpEnable:
		return m.Enable(ctx, s.Units...)
	case OpDisable:
		return m.Disable(ctx, s.Units...)
	case OpLinger:
		return r.h.linger(ctx, s)
	case OpUnlingr:
		return r.h.setLinger(ctx, s.User, false)
	case OpBus:
		return r.h.bus(ctx, s.User)
	case OpStart:
		if err := m.ResetFailed(ctx, s.Unit); err != nil {
			return err
		}
		return r.h.explain(ctx, r.t, m.Start(ctx, s.Unit))
	case OpStop:
		return errors.Join(r.h.closeSockets(ctx, r.t, s.Units), r.h.stop(ctx, r.t))
	case OpClose:
		return r.h.closeSockets(ctx, r.t, s.Units)
	case OpRestart:
		if l, ok := m.(*launchd); ok { // it would start the definition that it has in memory again
			return l.replace(ctx, s.Unit, s.PID)
		}
		_, err := r.h.restart(ctx, r.t)
		return err
	case OpReread, OpRevive:
	}
	return nil
}

// verify checks the condition that must hold after a step.
func (r *run) verify(ctx context.Context, s Step) error {
	switch s.Op {
	case OpFile:
		now, err := r.h.current(s.Path)
		if err == nil && !now.same(s.After) {
			err = fmt.Errorf("%s: it is not there as it was written", s.Path)
		}
		return err
	case OpReload, OpEnable, OpDisable, OpStop:
		p, err := r.h.manager(r.t).Show(ctx, s.Unit)
		switch {
		case err != nil:
			return err
		case s.Op == OpReload && p.Stale:
			return fmt.Errorf("%s: its manager still has the old definition", s.Unit)
		case s.Op == OpEnable && !p.Enabled && p.Unsupervised == "":
			return fmt.Errorf("%s: the manager said it was enabled, and it is not", s.Unit)
		case s.Op == OpDisable && p.Enabled:
			return fmt.Errorf("%s: the manager said it was disabled, and it is not", s.Unit)
		case s.Op == OpStop && (p.PID > 0 || p.Active == "active" || p.Active == "activating"):
			return fmt.Errorf("%s: it was stopped and process %d still runs", s.Unit, p.PID)
		}
		return r.sockets(ctx, s)
	case OpClose:
		return r.sockets(ctx, s)
	case OpLinger, OpUnlingr:
		on, known := r.h.lingerOn(ctx, s.User)
		if known && on != (s.Op == OpLinger) {
			return fmt.Errorf("linger of %s: it was switched, and is not", s.User)
		}
	case OpStart, OpRestart:
		if err := r.h.ready(ctx, r.t, s.PID); err != nil {
			return err
		}
		return r.sockets(ctx, s)
	case OpMkdir, OpBus, OpReread, OpRevive:
	}
	return nil
}

// undo takes a step back, whether it was carried out, half or not at all.
func (r *run) undo(ctx context.Context, s Step) error {
	m := r.h.manager(r.t)
	if manages := s.Op != OpMkdir && s.Op != OpFile && s.Op != OpLinger && s.Op != OpUnlingr; manages && r.gone() {
		if s.Op == OpEnable {
			return r.unlink(s.Units)
		}
		return nil
	}
	switch s.Op {
	case OpMkdir:
		err := os.Remove(r.h.path(s.Path))
		if err == nil || errors.Is(err, fs.ErrNotExist) || notEmpty(r.h.path(s.Path)) {
			return nil // what somebody else put there keeps it
		}
		return err
	case OpFile:
		return r.h.put(s.Path, s.After, s.Before)
	case OpEnable:
		return m.Disable(ctx, s.Units...)
	case OpDisable:
		return m.Enable(ctx, s.Units...)
	case OpLinger:
		if on, known := r.h.lingerOn(ctx, s.User); known && !on {
			return nil
		}
		return r.h.setLinger(ctx, s.User, false)
	case OpUnlingr:
		return r.h.setLinger(ctx, s.User, true)
	case OpStart: // the sockets first: whoever asks there would start it again
		if err := errors.Join(r.h.closeSockets(ctx, r.t, s.Units), m.Stop(ctx, s.Unit)); err != nil {
			return err
		}
		if err := r.h.unmark(r.t); err != nil {
			return err
		}
		if err := m.ResetFailed(ctx, s.Unit); err != nil {
			return err
		}
		p, err := m.Show(ctx, s.Unit)
		if err == nil && p.PID > 0 {
			err = fmt.Errorf("%s: it was stopped and process %d still runs", s.Unit, p.PID)
		}
		return err
	case OpStop:
		if err := m.Reload(ctx); err != nil {
			return err
		}
		return m.Start(ctx, s.Unit)
	case OpReread:
		return m.Reload(ctx)
	case OpRevive:
		return r.revive(ctx, s)
	case OpReload, OpBus, OpRestart, OpClose: // OpRevive opens what was open
	}
	return nil
}

// gone reports whether there is no manager to be told: that of a user who neither is logged in nor
// lingers has nothing loaded and runs nothing.
func (r *run) gone() bool {
	return r.t.Kind == Systemd && r.t.Scope == service.User && !r.h.busReady()
}

// unlink does what disabling does, where there is no manager to do it.
func (r *run) unlink(units []string) error {
	var errs []error
	for _, u := range units {
		for _, wants := range []string{"default.target.wants", "sockets.target.wants"} {
			path := r.h.path(filepath.Join(r.t.dir(), wants, u))
			if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink != 0 {
				errs = append(errs, r.h.Files.Remove(path))
			}
		}
	}
	return errors.Join(errs...)
}

func notEmpty(dir string) bool {
	entries, err := os.ReadDir(dir)
	return err == nil && len(entries) > 0
}
