// SPDX-License-Identifier: MIT

package installer

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/service"
)

// Seen is a file of the host as it is.
type Seen struct {
	Path   string             `json:"path"`
	Exists bool               `json:"exists"`
	Link   string             `json:"link,omitempty"`  // what it names, if it is a link
	Owner  string             `json:"owner,omitempty"` // why it cannot be written here, see [home.FileOwner]
	Prov   service.Provenance `json:"provenance,omitzero"`
	Data   []byte             `json:"-"`
	Mode   fs.FileMode        `json:"-"`
}

// Observed is what is.
type Observed struct {
	Target

	State   State  `json:"state"`
	Manager string `json:"managed_by,omitempty"` // who configures the home
	Reason  string `json:"reason,omitempty"`
	Fix     string `json:"fix,omitempty"`
	File    Seen   `json:"file"`
	Props   Props  `json:"unit"`
	Reached bool   `json:"manager_answers"`

	Sockets []SocketSeen `json:"sockets,omitempty"`       // that start it when somebody asks there
	Other   int          `json:"other_process,omitempty"` // a gateway of this home that is not the service's
	Linger  string       `json:"linger,omitempty"`        // "yes", "no", "unknown"; "" = it does not matter here

	Theirs  []string `json:"others_files,omitempty"` // drop-ins of other people
	Copies  []string `json:"copies,omitempty"`       // kept of what was replaced
	Notices []string `json:"notices,omitempty"`

	seen    map[string]Seen // by path
	missing map[string]bool // directories that are not there
	extra   []string        // files of ours that are no part of what shall be
	notes   notes
	offline bool
	unasked error // why the manager was not
}

// Migrates reports whether the service brings its config up to date before each start. One that
// an older version wrote may not, launchd and Windows know no such thing, and of a definition
// that is not ours nobody knows.
func (o Observed) Migrates() bool {
	before := map[Kind]string{Systemd: "\nExecStartPre=-", OpenRC: "\nstart_pre() {", SysV: `migrate'\'' '\''--home'`}[o.Kind]
	return before != "" && o.File.Prov.Ours && strings.Contains(string(o.File.Data), before)
}

// see looks at a file. Problems with it are part of what is seen.
func (h Host) see(kind Kind, path string) (Seen, error) {
	s := Seen{Path: path}
	real := h.path(path)
	info, err := os.Lstat(real)
	if errors.Is(err, fs.ErrNotExist) {
		s.Owner, err = h.dirOwner(filepath.Dir(real))
		return s, err
	}
	if err != nil {
		return s, err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		if s.Link, err = os.Readlink(real); err != nil {
			return s, err
		}
		if h.Offline {
			return s, nil // it leads somewhere in the image
		}
	}
	if s.Owner, err = home.FileOwner(real); err != nil {
		return s, err
	}
	if kind == OpenRC || kind == SysV || s.Owner != "read-only file" {
		data, st, err := atomicfile.Read(real)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, atomicfile.ErrNotRegular):
			return s, nil
		case err != nil:
			return s, err
		}
		s.Exists, s.Data, s.Mode = st.Exists, data, st.Mode()
	} else if data, err := os.ReadFile(real); err == nil {
		s.Exists, s.Data, s.Mode = true, data, info.Mode().Perm()
	}
	s.Prov = provenance(kind, s.Data)
	return s, nil
}

// dirOwner says why no file can be made below a directory, which need not exist yet.
func (h Host) dirOwner(dir string) (string, error) {
	for {
		owner, err := home.DirOwner(dir)
		if !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			return owner, err
		}
		dir = filepath.Dir(dir)
	}
}

// Observe looks at the host, for one service. It changes nothing. A manager that does not answer
// is part of what is seen.
func (h Host) Observe(ctx context.Context, t Target, d Desired) (Observed, error) {
	o := Observed{Target: t, seen: map[string]Seen{}, missing: map[string]bool{}, offline: h.Offline}
	var err error
	if o.File, err = h.see(t.Kind, t.file()); err != nil {
		return o, err
	}
	o.seen[t.file()] = o.File
	for _, path := range append(d.paths(), t.notes()) {
		o.seen[path], err = h.see(t.Kind, path)
		if path == t.notes() && errors.Is(err, fs.ErrPermission) { // root's, and of no use to others
			continue
		}
		if err != nil {
			return o, err
		}
		for dir := filepath.Dir(path); dir != filepath.Dir(dir) && !h.exists(dir); dir = filepath.Dir(dir) {
			o.missing[dir] = true
		}
	}
	o.notes = h.readNotes(t)
	if err := h.surroundings(&o); err != nil {
		return o, err
	}
	f := facts{file: o.File}
	real := t.Home
	real.Dir = h.path(real.Dir)
	if f.manager, err = real.Manager(h.Getenv); err != nil {
		return o, err
	}
	o.Manager = f.manager
	if !h.Offline {
		h.ask(ctx, &o, &f)
	}
	o.State, o.Reason, o.Fix = f.state(t)
	if o.State == Unloaded && o.unasked != nil {
		o.Reason = o.unasked.Error()
	}
	if o.State == Parked {
		if why := h.Gateway.LastReason(t.Home.Dir); why != "" {
			o.Reason += ": " + why
		}
	}
	h.notice(&o)
	return o, nil
}

// ask asks the manager and the gateway.
func (h Host) ask(ctx context.Context, o *Observed, f *facts) {
	if o.Kind == Systemd && o.Account.Name != "" {
		on, known := h.lingerOn(ctx, o.Account.Name)
		o.Linger = map[bool]string{true: "yes", false: "no"}[on]
		if !known {
			o.Linger = "unknown"
		}
	}
	if o.Kind == Systemd && o.Scope == service.User && (o.Account.UID != h.UID || !h.busReady()) {
		o.unasked = errors.New("no user manager in this session (no bus and no private socket)")
		return
	}
	o.Props, o.unasked = h.manager(o.Target).Show(ctx, o.Unit())
	if o.Kind == Systemd && o.unasked == nil {
		h.askSockets(ctx, o)
	}
	f.props, f.reached = o.Props, o.unasked == nil
	o.Reached = f.reached
	f.id, f.answer = h.identify(ctx, o.Home.Dir)
	f.wedged = h.wedged(o.Target, o.Props, f.answer)
	if f.answer == nil && f.id.PID != o.Props.PID && f.reached {
		o.Other = f.id.PID
	}
}

// identify asks a gateway; only one that took three questions and answered none is silent.
func (h Host) identify(ctx context.Context, dir string) (id Identity, err error) {
	for range 3 {
		actx, cancel := context.WithTimeout(ctx, time.Second)
		id, err = h.Gateway.Identify(actx, dir)
		cancel()
		if !errors.Is(err, ErrSilent) {
			return id, err
		}
		if serr := h.Sleep(ctx, look); serr != nil {
			return id, serr
		}
	}
	return id, err
}

// wedgeAge is the age of the last sign of life from which on it counts as missing.
const wedgeAge = 90 * time.Second

// wedged needs two witnesses: the control socket takes questions and answers none, and there has
// been no sign of life for longer than a healthy gateway ever waits with it: to its manager, or
// where that does not listen, in the heartbeat of its home. What is not known is never taken for
// that, and one fresh sign speaks against the other.
func (h Host) wedged(t Target, p Props, answer error) bool {
	if !errors.Is(answer, ErrSilent) || p.PID == 0 {
		return false
	}
	pid, age := h.Gateway.LastBeat(t.Home.Dir)
	beats := pid == p.PID
	if beats && age <= wedgeAge {
		return false
	}
	if p.Watchdog > 0 {
		return p.Alive > wedgeAge
	}
	return beats
}

// surroundings looks for what stands beside the definition: drop-ins, listeners, copies.
func (h Host) surroundings(o *Observed) error {
	if o.Kind != Systemd {
		return h.copies(o, o.dir())
	}
	drops := o.file() + ".d"
	for _, dir := range []string{o.dir(), drops} {
		if err := h.copies(o, dir); err != nil {
			return err
		}
		entries, err := os.ReadDir(h.path(dir))
		if err != nil {
			continue // copies has told
		}
		for _, e := range entries {
			path := filepath.Join(dir, e.Name())
			if _, known := o.seen[path]; known || strings.Contains(e.Name(), backupMark) || dir == o.dir() && !isSocket(path) {
				continue
			}
			s, err := h.see(o.Kind, path)
			if err != nil {
				return err
			}
			if u, err := service.ParseUnit(string(s.Data)); dir == o.dir() && (err != nil || !slices.Contains(u.All("Socket", "Service"), o.Unit())) {
				continue // another service's listener
			}
			o.seen[path] = s
			if s.Prov.Ours && !s.Prov.Edited {
				o.extra = append(o.extra, path)
			} else {
				o.Theirs = append(o.Theirs, path)
			}
		}
	}
	return nil
}

// copies finds what was kept of earlier files of this service.
func (h Host) copies(o *Observed, dir string) error {
	entries, err := os.ReadDir(h.path(dir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	own := filepath.Base(o.file())
	for _, e := range entries {
		name, _, ok := strings.Cut(e.Name(), backupMark)
		if ok && (name == own || filepath.Base(dir) == own+".d") {
			o.Copies = append(o.Copies, filepath.Join(dir, e.Name()))
		}
	}
	return nil
}

// notice gathers what a person should know.
func (h Host) notice(o *Observed) {
	say := func(text string) { o.Notices = append(o.Notices, text) }
	if old := h.legacy(o.Target); old != "" {
		say(old + " is upstream's old unit and would start a second gateway; systemctl disable --now hermes.service")
	}
	if o.Kind == Systemd && o.Scope == service.System {
		for _, f := range h.twins(o) {
			say(f + " serves the same home; keep one of the two")
		}
	}
	if o.Kind == Systemd && h.wsl() && o.Scope == service.User {
		say("short wsl.exe calls end the user manager of WSL; a system service does not mind (install --system)")
	}
	if o.State != Absent && o.Scope == service.User && o.Linger == "no" {
		say("linger is off: it ends when " + o.Account.Name + " logs out; loginctl enable-linger " + o.Account.Name)
	}
	if o.File.Prov.Edited {
		say(o.File.Path + " was edited by hand; systemctl edit " + o.Unit() + " makes a drop-in that updates leave alone")
	}
	for _, s := range o.Sockets {
		if s.Ours && !s.open() && o.Props.Running() {
			say(s.Unit + " is " + s.Active + ": clients are refused while the gateway restarts; hermes-appliance restart opens it")
		}
	}
	switch {
	case o.Props.Stale && (o.Kind == Tasks || o.Kind == SCM):
		say("what is registered is not what it shall be; hermes-appliance install registers it anew")
	case o.Props.Stale:
		say("the manager has not read the newest definition; systemctl daemon-reload")
	}
	if o.Kind == Tasks && h.exists(o.startup()) {
		if o.Props.Sub == byStartup {
			say("no task could be registered: the Startup folder starts it (" + o.startup() + "); hermes-appliance uninstall, then install, tries again")
		} else {
			say(o.startup() + " starts it a second time at logon; remove it")
		}
	}
	for _, dir := range tempDirs() {
		if dirOf, _ := pinned(o.Kind, string(o.File.Data)); strings.HasPrefix(dirOf, dir+"/") {
			say(o.File.Path + " is pinned to " + dirOf + ", which does not survive a restart of the machine; uninstall it and install it for another home")
		}
	}
}

// twins are services of the same home in the other scope.
func (h Host) twins(o *Observed) []string {
	other := o.Target
	other.Scope = service.User
	found, err := h.find(other)
	if err != nil {
		return nil // another user's directory, which we may not read
	}
	var out []string
	for _, f := range found {
		if f.Home == o.Home.Dir {
			out = append(out, f.File)
		}
	}
	return slices.Compact(out)
}
