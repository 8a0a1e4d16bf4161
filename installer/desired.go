// SPDX-License-Identifier: MIT

package installer

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/service"
)

// Role is what a file is there for.
type Role string

// The roles.
const (
	Definition Role = "definition" // the unit itself
	DropIn     Role = "drop-in"    // a layer of it that a person may replace
	Listener   Role = "listener"   // a socket unit
	Autostart  Role = "autostart"  // a link by which an image starts it
	LingerMark Role = "linger"     // a mark by which an image keeps a user's manager
	Notes      Role = "notes"      // what uninstall must know
)

// Artefact is a file, or a link, that shall be on the host.
type Artefact struct {
	Path string      `json:"path"` // on the host
	Role Role        `json:"role"`
	Data []byte      `json:"-"`
	Mode fs.FileMode `json:"-"`
	Link string      `json:"link,omitempty"` // what a link names; "" = a file
}

// Desired is what shall be.
type Desired struct {
	Target

	Files  []Artefact
	Units  []string // that start by themselves, the service last
	Enable bool
	Linger bool
	Start  bool
}

// Options are how far an installation goes.
type Options struct {
	NoStart  bool // it is not started now; one that runs is left as it is
	NoEnable bool // it does not start by itself
	Force    bool // what was edited or is not ours is backed up and replaced
}

// Desired returns what shall be on the host for a service. The error is a
// [*service.InputError].
func (h Host) Desired(s service.Spec, t Target, o Options) (Desired, error) {
	d := Desired{Target: t, Enable: !o.NoEnable, Start: !o.NoStart && !h.Offline}
	var err error
	switch t.Kind {
	case Launchd:
		err = d.launchd(s)
	case Tasks:
		var f service.File
		f, err = s.Task(taskUser(h, t.Account))
		d.add(Definition, filepath.Join(t.dir(), f.Name), f.Data, 0o600)
		script, serr := s.Launcher()
		err = errors.Join(err, serr)
		d.add(Definition, filepath.Join(t.dir(), script.Name), script.Data, 0o600)
		d.Units = []string{t.Unit()}
	case SCM:
		var f service.File
		f, err = s.SCM()
		d.add(Definition, filepath.Join(t.dir(), f.Name), f.Data, 0o644)
		d.Units = []string{t.Unit()}
	case OpenRC, SysV:
		f, ferr := s.OpenRC()
		if t.Kind == SysV {
			f, ferr = s.SysV()
		}
		err = ferr
		d.add(Definition, filepath.Join(t.dir(), f.Name), f.Data, 0o755)
		d.Units = []string{t.Unit()}
		if h.Offline && d.Enable && t.Kind == OpenRC {
			d.link("/etc/runlevels/default/"+t.Name, t.file())
		}
	case Systemd:
		err = d.systemd(h, s)
	}
	return d, err
}

func (d *Desired) paths() []string {
	out := make([]string, 0, len(d.Files))
	for _, f := range d.Files {
		out = append(out, f.Path)
	}
	return out
}

func (d *Desired) add(role Role, path, data string, mode fs.FileMode) {
	d.Files = append(d.Files, Artefact{Path: path, Role: role, Data: []byte(data), Mode: mode})
}

func (d *Desired) link(path, to string) {
	d.Files = append(d.Files, Artefact{Path: path, Role: Autostart, Link: to})
}

func (d *Desired) systemd(h Host, s service.Spec) error {
	files, err := s.Systemd()
	if err != nil {
		return err
	}
	d.Linger = d.Scope == service.User || d.Account.UID != 0
	for _, f := range files {
		role := Definition
		switch {
		case strings.Contains(f.Name, ".d/"):
			role = DropIn
		case isSocket(f.Name):
			role = Listener
			d.Units = append(d.Units, f.Name)
		}
		d.add(role, filepath.Join(d.dir(), filepath.FromSlash(f.Name)), f.Data, 0o644)
	}
	d.Units = append(d.Units, d.Unit())
	if !h.Offline {
		return nil
	}
	if d.Enable {
		for _, u := range d.Units {
			wants := "sockets.target.wants"
			switch {
			case isSocket(u):
			case d.Scope == service.System:
				wants = "multi-user.target.wants"
			default:
				wants = "default.target.wants"
			}
			d.link(filepath.Join(d.dir(), wants, u), filepath.Join(d.dir(), u))
		}
	}
	if d.Linger && d.Enable {
		d.add(LingerMark, "/var/lib/systemd/linger/"+d.Account.Name, "", 0o644)
	}
	return nil
}

// notes are what a later uninstall must know and could not see.
type notes struct {
	Version  int    `json:"version"`
	Lingered string `json:"lingered,omitempty"` // the user for whom linger was enabled by us
}

func (h Host) readNotes(t Target) notes {
	var n notes
	if json.Unmarshal([]byte(h.read(t.notes())), &n) != nil {
		return notes{}
	}
	return n
}

func (n notes) artefact(t Target) (Artefact, error) {
	n.Version = 1
	data, err := json.Marshal(n)
	return Artefact{Path: t.notes(), Role: Notes, Data: append(data, '\n'), Mode: 0o600}, err
}
