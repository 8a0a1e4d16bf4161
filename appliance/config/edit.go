// SPDX-License-Identifier: MIT

package config

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/migrate/yamlspan"
)

// Editor changes single keys of a home's config.yaml. Every other byte of the file stays,
// and what cannot be changed without touching more is refused. It is safe for concurrent
// use, also by several processes: the second waits for the first.
type Editor struct {
	Home     home.Home
	AdminDir string              // the administrator's directory; "" = none
	Getenv   func(string) string // tells whether the home is managed
	Latest   int                 // the newest version of the file that may be written; 0 = any
	LockWait time.Duration       // how long to wait for another writer
	Files    atomicfile.Writer
}

// Change is what an edit did.
type Change struct {
	Path    []string
	Changed bool     // false: the file said so already, and was not written
	Notes   []string // what follows from it, one line each
}

// Set writes a value, given as one YAML scalar or as a list or section in brackets. What
// looks like a number can be forced to be text by quotes. Setting terminal.docker_image,
// also to the default, is a pin. The error is an [*Error] or that of the lock.
func (e Editor) Set(ctx context.Context, path []string, value string) (Change, error) {
	v, err := parseValue(path, value)
	if err != nil {
		return Change{Path: path}, err
	}
	return e.edit(ctx, path, func(d *draft) error { return d.set(v) })
}

// SetText writes a text, which stays one whatever it looks like; otherwise it is [Editor.Set].
func (e Editor) SetText(ctx context.Context, path []string, text string) (Change, error) {
	return e.Set(ctx, path, "'"+strings.ReplaceAll(text, "'", "''")+"'")
}

// Edit is one edit of several.
type Edit struct {
	Path  []string
	Value string // as for [Editor.Set]; "" = the key is removed
}

// Preview returns what the file holds now, and what it would hold after the edits. It writes
// nothing, and fails as the edits would.
func (e Editor) Preview(edits ...Edit) (before, after []byte, err error) {
	for i, x := range edits {
		apply := (*draft).unset
		if x.Value != "" {
			v, err := parseValue(x.Path, x.Value)
			if err != nil {
				return nil, nil, err
			}
			apply = func(d *draft) error { return d.set(v) }
		}
		if err := editable(x.Path); err != nil {
			return nil, nil, err
		}
		d, err := e.draft(x.Path, apply)
		if err == nil && i > 0 { // on top of the edits before it
			if d, err = newDraft(File{e.Home.Config(), after}, x.Path); err == nil {
				err = apply(d)
			}
		}
		if err != nil {
			return nil, nil, err
		}
		if i == 0 {
			before = d.file.Data
		}
		after = d.doc.Bytes()
	}
	if string(before) == string(after) {
		return before, after, nil
	}
	return before, after, e.unmanaged(edits[len(edits)-1].Path)
}

// Unset removes a key with all below it, so that the default counts again. A key that is not
// there is no error.
func (e Editor) Unset(ctx context.Context, path []string) (Change, error) {
	return e.edit(ctx, path, (*draft).unset)
}

func (e Editor) edit(ctx context.Context, path []string, apply func(*draft) error) (c Change, err error) {
	c.Path = path
	if err := editable(path); err != nil {
		return c, err
	}
	// First without the lock, which would make a file: nothing to do, or to refuse, writes nothing.
	d, err := e.draft(path, apply)
	if err != nil || !d.changed() {
		return c, err
	}
	if err := e.unmanaged(path); err != nil {
		return c, err
	}
	release, err := e.lock(ctx)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, release()) }()
	if d, err = e.draft(path, apply); err != nil || !d.changed() {
		return c, err
	}
	if err := e.commit(d); err != nil {
		return c, err
	}
	c.Changed, c.Notes = true, e.notes(d)
	return c, nil
}

// editable refuses keys that have another owner than the person.
func editable(path []string) error {
	bad := func(msg, fix string) error { return &Error{Kind: ErrUsage, Path: path, Msg: msg, Fix: fix} }
	if _, ok := join(path); !ok || len(path) == 0 {
		return bad("no key that a file can hold", "write it like terminal.timeout")
	}
	if path[0] == stampKey {
		return bad("the version of the file belongs to the programs that migrate it", "run hermes-appliance migrate")
	}
	if len(path) == 1 && path[0] == strings.ToUpper(path[0]) && isName(path[0]) && strings.ToLower(path[0]) != path[0] {
		return bad("is the name of a variable, and a config is no place for a secret", "write it into .env")
	}
	return nil
}

// draft reads the file and applies an edit to it in memory. A fault that keeps the file from
// being edited at all comes before those of the edit.
func (e Editor) draft(path []string, apply func(*draft) error) (*draft, error) {
	data, st, err := atomicfile.Read(e.Home.Config())
	if err == nil && !st.Exists {
		return nil, &Error{
			Kind: ErrNoFile, File: e.Home.Config(), Msg: "is not there",
			Fix: "run hermes-appliance up to make one; it brings the version of the format with it",
		}
	}
	if err != nil {
		return nil, unreadable(e.Home.Config(), err)
	}
	d, err := newDraft(File{e.Home.Config(), data}, path)
	if err != nil {
		return nil, err
	}
	d.state = st
	if err := e.notNewer(d); err != nil {
		return nil, err
	}
	if err := e.undecided(path); err != nil {
		return nil, err
	}
	return d, apply(d)
}

// notNewer refuses a file that a newer program wrote.
func (e Editor) notNewer(d *draft) error {
	s := d.config.Stamp()
	if e.Latest == 0 || s.Version <= e.Latest {
		return nil
	}
	return &Error{
		Kind: ErrNewer, File: e.Home.Config(), Path: []string{stampKey},
		Msg: fmt.Sprintf("version %d was written by a newer program; this binary knows up to %d", s.Version, e.Latest), Fix: "use that program, or update this one",
	}
}

// undecided refuses a key that the administrator decides: a value of the user's would look
// written and have no effect. Files that cannot be read decide nothing.
func (e Editor) undecided(path []string) error {
	if e.AdminDir == "" {
		return nil
	}
	refuse := func(file string, line int) error {
		return &Error{
			Kind: ErrManaged, File: file, Line: line, Path: path,
			Msg: "the administrator decides this; a value of yours would have no effect", Fix: "ask for a change there",
		}
	}
	if f, err := readFile(filepath.Join(e.AdminDir, fileConfig)); err == nil {
		c, err := Parse(File{}, f)
		if err != nil {
			return err
		}
		for i := range path {
			l, section, ok := c.at(path[:i+1])
			whole := i == len(path)-1
			if ok && (!section && l.layer.from == Admin || whole && c.Origin(path...) == Admin) {
				return refuse(c.sectionAt(path[:i+1]))
			}
		}
	}
	name := BridgeName(path...)
	if env, err := readEnv(filepath.Join(e.AdminDir, ".env")); err == nil && env != nil && name != "" {
		for _, a := range env.All() {
			if value, _ := env.Lookup(name); a.Key == name && strings.TrimSpace(value) != "" {
				return refuse(filepath.Join(e.AdminDir, ".env"), a.Line)
			}
		}
	}
	return nil
}

// unmanaged refuses a home that somebody else writes, or that cannot be written.
func (e Editor) unmanaged(path []string) error {
	managed := func(msg, fix string) error {
		return &Error{Kind: ErrManaged, File: e.Home.Config(), Path: path, Msg: msg, Fix: fix}
	}
	option := "set services.hermes-agent.settings." + yamlspan.PathString(path) + " there"
	manager, err := e.Home.Manager(e.Getenv)
	switch {
	case err != nil:
		return &Error{Kind: ErrUnreadable, File: filepath.Join(e.Home.Dir, ".managed"), Msg: reason(err), Err: err}
	case manager == "nixos" || manager == "home-manager":
		return managed("this home is managed by "+manager, option)
	case manager != "":
		return managed("this home is managed by "+manager, "change it there")
	}
	return writable(e.Home.Config(), path, option)
}

// writable refuses a file that cannot be replaced; built says what to do about one of Nix.
func writable(file string, path []string, built string) error {
	owner, err := home.FileOwner(file)
	switch {
	case err != nil:
		return &Error{Kind: ErrUnreadable, File: file, Msg: reason(err), Err: err}
	case owner == "nix store":
		return &Error{Kind: ErrManaged, File: file, Path: path, Msg: "this file is built by Nix", Fix: built}
	case owner != "":
		return &Error{Kind: ErrManaged, File: file, Path: path, Msg: "cannot be written: " + owner, Fix: "make it writable, or change it where it is made"}
	}
	return nil
}

func (e Editor) lock(ctx context.Context) (func() error, error) {
	ctx, cancel := context.WithTimeout(ctx, e.LockWait)
	defer cancel()
	release, err := e.Home.Lock(ctx)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil, &Error{Kind: ErrManaged, File: e.Home.Dir, Msg: "this user cannot write the home", Fix: "run as the user who owns it", Err: err}
	case errors.Is(err, syscall.EROFS):
		return nil, &Error{Kind: ErrManaged, File: e.Home.Dir, Msg: "is on a read-only file system", Fix: "remount it, then run again", Err: err}
	}
	return release, err
}

// commit puts the edited file in place, if it still is what it was when it was read.
func (e Editor) commit(d *draft) (err error) {
	s, err := e.Files.Stage(e.Home.Config(), d.doc.Bytes(), d.made)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Discard()) }()
	changed, err := d.state.Changed()
	if err != nil {
		return err
	}
	if changed {
		return &Error{Kind: ErrChanged, File: e.Home.Config(), Msg: "someone wrote the file meanwhile", Fix: "nothing was changed; run again"}
	}
	if err = s.Commit(); errors.Is(err, atomicfile.ErrInPlace) {
		return s.CommitInPlace()
	}
	return err
}

// notes says what follows from an edit that was made.
func (e Editor) notes(d *draft) []string {
	name := BridgeName(d.path...)
	if name == "" {
		return nil
	}
	pinned := name == imageEnv
	if d.wrote {
		if pinned {
			return []string{"this pins the sandbox image: a sandbox made from another image is replaced on its next use"}
		}
		return nil
	}
	if env, err := readEnv(e.Home.Env()); err == nil && env != nil {
		if value, ok := env.Lookup(name); ok && strings.TrimSpace(value) != "" {
			return []string{name + " in .env decides now"}
		}
	}
	if pinned {
		return []string{"the sandbox image follows the default again; before a sandbox made from another image is replaced, you are asked"}
	}
	return nil
}
