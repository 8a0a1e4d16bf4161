// SPDX-License-Identifier: MIT

package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Limits of what one call takes and gives. The zero value of a field is its default.
type Limits struct {
	ReadChars  int   // characters one read returns; 100,000
	LineChars  int   // characters of a line that are shown; 2,000
	ReadLines  int   // most lines one read returns; 2,000
	EditBytes  int64 // largest file that is patched or written; 50 MiB
	MatchChars int   // characters of a matching line that are shown; 500
}

func (l Limits) withDefaults() Limits {
	set := func(p *int, v int) {
		if *p <= 0 {
			*p = v
		}
	}
	set(&l.ReadChars, 100_000)
	set(&l.LineChars, 2000)
	set(&l.ReadLines, 2000)
	set(&l.MatchChars, 500)
	if l.EditBytes <= 0 {
		l.EditBytes = 50 << 20
	}
	return l
}

// FS does what the file tools do, on one host for one profile. It remembers which files it
// showed, to say when one was changed behind the agent's back. Safe for concurrent use; edits
// of one file wait for each other.
type FS struct {
	host   Host
	guard  Guard
	limits Limits

	mu    sync.Mutex
	shown map[string]string // path -> stamp when it was last shown or written
	order []string          // of shown, oldest first
	busy  map[string]*gate
}

// gate lets one edit of a file through at a time.
type gate struct {
	mu    sync.Mutex
	users int
}

// maxShown bounds what an FS remembers.
const maxShown = 1000

// New returns the file tools of a host.
func New(host Host, guard Guard, limits Limits) *FS {
	return &FS{host: host, guard: guard, limits: limits.withDefaults(), shown: map[string]string{}, busy: map[string]*gate{}}
}

// Host returns the host it was made for.
func (f *FS) Host() Host { return f.host }

// locate resolves a path of the agent.
func (f *FS) locate(ctx context.Context, p string) (Place, error) {
	switch {
	case strings.TrimSpace(p) == "":
		return Place{}, errors.New("path is empty: name a file")
	case strings.ContainsRune(p, 0):
		return Place{}, fmt.Errorf("%q: a path has no NUL in it", p)
	case strings.HasPrefix(p, "file:"):
		return Place{}, fmt.Errorf("%s: pass a path, not a URL", p)
	}
	at, err := f.host.Locate(ctx, p)
	return at, f.explain(p, err)
}

// explain names the machine in an error, so that nobody takes a path of the gateway for one
// of the backend or the reverse.
func (f *FS) explain(p string, err error) error {
	if err == nil || f.host.Local() {
		return err
	}
	if _, ok := errors.AsType[*RefusedError](err); ok {
		return err
	}
	return fmt.Errorf("%s on %s: %w", p, f.host.Name(), err)
}

// lock takes the gates of files in one order for all callers.
func (f *FS) lock(paths ...string) (unlock func()) {
	paths = slices.Clone(paths)
	slices.Sort(paths)
	paths = slices.Compact(paths)
	gates := make([]*gate, len(paths))
	for i, p := range paths {
		f.mu.Lock()
		g := f.busy[p]
		if g == nil {
			g = &gate{}
			f.busy[p] = g
		}
		g.users++
		f.mu.Unlock()
		g.mu.Lock()
		gates[i] = g
	}
	return func() {
		for i, g := range gates {
			g.mu.Unlock()
			f.mu.Lock()
			if g.users--; g.users == 0 {
				delete(f.busy, paths[i])
			}
			f.mu.Unlock()
		}
	}
}

// show remembers what the agent knows of a file; "" forgets it.
func (f *FS) show(p, stamp string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.shown[p]; ok {
		f.order = slices.DeleteFunc(f.order, func(s string) bool { return s == p })
		delete(f.shown, p)
	}
	if stamp == "" {
		return
	}
	f.shown[p] = stamp
	if f.order = append(f.order, p); len(f.order) > maxShown {
		delete(f.shown, f.order[0])
		f.order = f.order[1:]
	}
}

// stale returns a warning if a file is not what the agent last saw.
func (f *FS) stale(at Place) string {
	f.mu.Lock()
	was, ok := f.shown[at.Path]
	f.mu.Unlock()
	if !ok || at.Kind == Missing || was == at.Stamp {
		return ""
	}
	return fmt.Sprintf("%s was changed by somebody else since you last read it: read it again and check that nothing was lost", at.Path)
}

// outside returns a warning if a relative path led out of the working directory.
func outside(asked string, at Place) string {
	if path.IsAbs(asked) || filepath.IsAbs(asked) || strings.HasPrefix(asked, "~") || at.Dir == "" || under(norm(at.Abs), norm(at.Dir)) {
		return ""
	}
	return fmt.Sprintf("%q is outside the working directory %s: it means %s", asked, at.Dir, at.Path)
}

func join(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " | ")
}

// notFound makes the error for a missing file, with names like it.
func (f *FS) notFound(ctx context.Context, asked string, at Place) (names []string, err error) {
	where := ""
	if !f.host.Local() {
		where = " on " + f.host.Name() + " (the terminal's machine, not the gateway's)"
	}
	err = fmt.Errorf("file not found: %s%s: %w", at.Path, where, fs.ErrNotExist)
	if asked == at.Path && where == "" {
		err = fmt.Errorf("file not found: %s: %w", asked, fs.ErrNotExist)
	}
	dir := at.Path[:max(0, strings.LastIndexAny(at.Path, `/\`))]
	if dir == "" {
		dir = "/"
	}
	there, lerr := f.host.Names(ctx, dir, 2000)
	if lerr != nil {
		return nil, err
	}
	return similar(filepath.Base(filepath.ToSlash(at.Path)), dir, there), err
}

// similar returns up to five names like base.
func similar(base, dir string, names []string) []string {
	type scored struct {
		name  string
		score float64
	}
	var found []scored
	l := newLikener(strings.ToLower(base))
	for _, n := range names {
		s := l.to(strings.ToLower(n))
		if stem := strings.TrimSuffix(n, path.Ext(n)); stem != "" && stem == strings.TrimSuffix(base, path.Ext(base)) {
			s = max(s, 0.9)
		}
		if s >= 0.5 {
			found = append(found, scored{n, s})
		}
	}
	slices.SortFunc(found, func(a, b scored) int {
		if a.score != b.score {
			return int((b.score - a.score) * 1e6)
		}
		return strings.Compare(a.name, b.name)
	})
	var out []string
	for _, s := range found[:min(5, len(found))] {
		out = append(out, strings.TrimSuffix(dir, "/")+"/"+s.name)
	}
	return out
}

// likeness is how much of their pairs of bytes two strings share, 0 to 1.
func likeness(a, b string) float64 { return newLikener(a).to(b) }

// likener compares many strings with one.
type likener struct {
	text  string
	pairs []int16 // how often each pair of bytes is in text
	taken []uint16
}

func newLikener(text string) *likener {
	l := &likener{text: text, pairs: make([]int16, 1<<16)}
	for i := 0; i+1 < len(text); i++ {
		l.pairs[pair(text, i)]++
	}
	return l
}

func pair(s string, i int) uint16 { return uint16(s[i])<<8 | uint16(s[i+1]) }

func (l *likener) to(s string) float64 {
	if s == l.text {
		return 1
	}
	if len(s) < 2 || len(l.text) < 2 {
		return 0
	}
	l.taken = l.taken[:0]
	for i := 0; i+1 < len(s); i++ {
		if k := pair(s, i); l.pairs[k] > 0 {
			l.pairs[k]--
			l.taken = append(l.taken, k)
		}
	}
	for _, k := range l.taken {
		l.pairs[k]++
	}
	return 2 * float64(len(l.taken)) / float64(len(l.text)+len(s)-2)
}
