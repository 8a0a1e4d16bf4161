// SPDX-License-Identifier: MIT

package config

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/migrate/yamlspan"
)

// Merged is what a merge did.
type Merged struct {
	Created bool       // there was no config
	Wrote   [][]string // the declared keys that the file said otherwise, or not at all
	Notes   []string   // what is worth knowing, one line each
}

// fileMarker says who manages a home, see [home.Home.Manager].
const fileMarker = ".managed"

// modeShared is how a manager's files are made where there are none: less the process's umask,
// so that the module says who shares them (H#6044, H#14181). What is there keeps its mode.
const modeShared = 0o660

// Merge lays declared keys over the home's config.yaml on behalf of the manager who declares
// them, and leaves the marker that says so. Declared keys win, lists and single values whole;
// every other key and every comment stays, and a second merge writes nothing. A new file gets
// the version e.Latest; that of an older one is left to the program that migrates it.
//
// It writes a managed home if manager is who manages it, or nobody does yet. Managers other
// than that, an unreadable marker and a file that is not there to be written are refused. The
// error is an [*Error] or that of the lock.
func (e Editor) Merge(ctx context.Context, manager string, declared Declared) (m Merged, err error) {
	if err := e.manages(manager); err != nil {
		return m, err
	}
	if err := writable(e.Home.Config(), nil, "make it a file of its own: remove the link, and keep its settings in the option settings"); err != nil {
		return m, err
	}
	if declared.stamp {
		m.Notes = append(m.Notes, stampKey+" is not a setting: the program that writes the file knows its version; take it out")
	}
	release, err := e.lock(ctx)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, release()) }()
	d, err := e.mergeDraft()
	if err != nil {
		return m, err
	}
	m.Created = !d.state.Exists
	for _, l := range declared.leaves {
		wrote, err := d.lay(l)
		if err != nil {
			return m, err
		}
		if wrote {
			m.Wrote = append(m.Wrote, l.path)
		}
	}
	if err := d.declaredValid(declared); err != nil {
		return m, err
	}
	if m.Created || d.changed() {
		if err := e.commit(d); err != nil {
			return m, err
		}
	}
	return m, e.mark(manager)
}

// mergeDraft reads the file; one that is not there, or empty, begins with the version.
func (e Editor) mergeDraft() (*draft, error) {
	data, st, err := atomicfile.Read(e.Home.Config())
	if err != nil {
		return nil, unreadable(e.Home.Config(), err)
	}
	if !st.Exists || len(data) == 0 {
		if data = nil; e.Latest > 0 {
			data = fmt.Appendf(nil, "%s: %d\n", stampKey, e.Latest)
		}
	}
	d, err := newDraft(File{e.Home.Config(), data}, nil)
	if err != nil {
		return nil, err
	}
	d.state, d.made = st, atomicfile.Options{Mode: modeShared, Umask: true}
	d.empty = len(data) > 0 && st.Size() == 0
	return d, e.notNewer(d)
}

var reManager = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)

// manages refuses everybody but the one who manages the home; where nobody does, anybody may.
func (e Editor) manages(manager string) error {
	bad := func(kind error, file, msg, fix string) error {
		return &Error{Kind: kind, File: file, Msg: msg, Fix: fix}
	}
	read, err := (home.Home{}).Manager(func(string) string { return manager })
	if !reManager.MatchString(manager) || err != nil || read != manager {
		return bad(ErrUsage, "", fmt.Sprintf("%q is no name of a manager", manager), "expected one such as nixos or home-manager")
	}
	have, err := e.Home.Manager(e.Getenv)
	if err != nil {
		return &Error{Kind: ErrUnreadable, File: filepath.Join(e.Home.Dir, fileMarker), Msg: reason(err), Err: err}
	}
	if have != "" && have != manager {
		return bad(ErrManaged, e.Home.Dir, "this home is managed by "+have+", not by "+manager, "let one of the two manage it: the other's option off, and "+fileMarker+" removed")
	}
	return nil
}

// mark leaves the name of the manager in the home.
func (e Editor) mark(manager string) error {
	have, err := e.Home.Manager(func(string) string { return "" })
	if err != nil || have == manager {
		return err
	}
	return e.Files.Write(filepath.Join(e.Home.Dir, fileMarker), []byte(manager+"\n"), atomicfile.Options{Mode: 0o644})
}

// lay makes the file say a declared value, and reports whether it did not.
func (d *draft) lay(l declaredLeaf) (bool, error) {
	path, value := l.path, yamlspan.Value{Scalar: l.text}
	for i := 1; i < len(l.path); i++ { // what stands where a section belongs steps aside
		f, ok := d.doc.Find(l.path[:i]...)
		if !ok {
			break
		}
		if !isSection(f.Node) && !isNull(f.Node) {
			path, value = l.path[:i], nested(l.path[i:], value)
			break
		}
	}
	if len(path) == len(l.path) {
		f, ok := d.doc.Find(path...)
		if ok && (l.section() && isSection(f.Node) || d.same(f.Node, l.text)) {
			return false, nil
		}
	}
	d.path = path
	doc, err := d.putValue(value)
	if err != nil {
		return false, err
	}
	d.doc = doc
	if d.before, err = yamlspan.ReadTree(doc.Bytes()); err != nil {
		return false, d.refuse(err)
	}
	return true, nil
}

// nested is a value behind the keys that lead to it.
func nested(path []string, v yamlspan.Value) yamlspan.Value {
	for _, key := range slices.Backward(path) {
		v = yamlspan.Value{Map: []yamlspan.Field{{Key: key, Value: v}}}
	}
	return v
}

// declaredValid checks the kinds of the known keys that are declared.
func (d *draft) declaredValid(declared Declared) error {
	c, err := Parse(File{d.file.Path, d.doc.Bytes()}, File{})
	if err != nil {
		return err
	}
	for _, p := range c.knownPaths() {
		if !declared.Decides(p...) {
			continue
		}
		if e := c.With(nil).fault(p); e != nil {
			return &Error{Kind: ErrType, File: declared.file, Path: p, Msg: "the declared value " + e.Msg, Fix: e.Fix}
		}
	}
	return nil
}
