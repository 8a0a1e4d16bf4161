// SPDX-License-Identifier: MIT

package childenv

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// finish makes what every child has.
func (b *builder) finish() {
	for i := range b.entries {
		e := &b.entries[i]
		switch {
		case !e.kept():
		case e.bits&isIdentityName != 0 && (!b.k.Grant || e.origin != Extra):
			e.rule = "K1"
		case e.bits&isMarkerName != 0:
			e.rule = "K2" // set again below
		case e.bits&isSessionName != 0 && e.origin != Extra && (b.s.SessionEngaged || b.k.NoSession),
			e.bits&isWorkerSession != 0 && e.origin != Extra && b.k.NoSession:
			e.rule = "SESSION"
		case e.folded == "PYTHONPATH":
			b.ownPython(e)
		}
	}
	b.session()
	if b.k.Base != baseForward {
		b.fix("HERMES_HOME", b.s.Target.Dir, Fixed)
		if h := b.s.Target.UserHome; h != "" {
			b.fix("HOME", h, Fixed)
		}
		b.path()
	}
	for _, name := range slices.Sorted(maps.Keys(b.k.Defaults)) {
		b.add(Var{Name: name, Value: b.k.Defaults[name], Origin: Fixed, Fill: true})
	}
	if b.k.Desktop {
		for _, v := range b.s.Desktop {
			if e, ok := b.entry(v); ok && e.bits&isTier == 0 {
				b.fix(v.Name, v.Value, Desktop)
			}
		}
	}
	b.fence()
}

// session gives the child the conversation at hand.
func (b *builder) session() {
	if !b.s.SessionEngaged || b.k.NoSession {
		return
	}
	for _, v := range b.s.Session {
		if e, ok := b.entry(v); ok && e.bits&isSessionName != 0 {
			b.fix(v.Name, v.Value, Session)
		}
	}
}

// fix sets a variable whatever was there.
func (b *builder) fix(name, value string, o Origin) {
	old := b.find(name)
	if old != nil && old.kept() && old.value() == value {
		return
	}
	if old != nil {
		name = old.name()
	}
	if e, ok := b.entry(Var{Name: name, Value: value, Origin: o}); ok {
		b.put(e)
	}
}

// ownPython takes Hermes' own code out of PYTHONPATH: a child that imports it could read
// what it reads (#22).
func (b *builder) ownPython(e *entry) {
	var keep []string
	parts := strings.Split(e.value(), string(filepath.ListSeparator))
	for _, part := range parts {
		if !slices.ContainsFunc(b.s.OwnPython, func(own string) bool { return inside(part, own) }) {
			keep = append(keep, part)
		}
	}
	switch {
	case len(keep) == len(parts):
	case len(keep) == 0:
		e.rule = "PYTHON"
	default:
		e.whole = e.name() + "=" + strings.Join(keep, string(filepath.ListSeparator))
	}
}

// inside reports whether a path is a directory or below it.
func inside(path, dir string) bool {
	if path == "" || dir == "" {
		return false
	}
	path, dir = filepath.Clean(path), filepath.Clean(dir)
	return path == dir || strings.HasPrefix(path, dir+string(filepath.Separator))
}

// path puts this program's directory and the standard ones behind what is on PATH.
func (b *builder) path() {
	const list = string(filepath.ListSeparator)
	value := ""
	if e := b.find("PATH"); e != nil && e.kept() {
		value = e.value()
	}
	more := []string{b.s.BinDir}
	if filepath.Separator == '/' {
		more = append(more, "/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin")
		if e := b.find("HOME"); e != nil && e.kept() && filepath.IsAbs(e.value()) {
			more = append(more, filepath.Join(e.value(), ".local", "bin"))
		}
	}
	have := filepath.SplitList(value)
	for _, d := range more {
		if d == "" || slices.Contains(have, d) {
			continue
		}
		have = append(have, d)
		value = strings.TrimPrefix(value+list+d, list)
	}
	if value != "" {
		b.fix("PATH", value, Fixed)
	}
}

// fence marks descendants of a board's worker, so that they cannot write the board; a grant
// takes the mark away. An inherited mark that is a path stays as it is: a descendant that
// moved its home is not fenced into a smaller one (K2). Only an inherited one counts: a mark
// in a profile's own files would be a way out.
func (b *builder) fence() {
	if b.k.Grant {
		return
	}
	mark := b.mark
	if b.s.Fence != "" && !filepath.IsAbs(mark) {
		mark = b.s.Fence
	}
	if mark != "" {
		b.fix(b.p.file.Kanban.Marker, mark, Fixed)
	}
}
