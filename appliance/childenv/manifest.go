// SPDX-License-Identifier: MIT

package childenv

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
)

// maxManifest is the size beyond which a file is no manifest.
const maxManifest = 1 << 20

// Manifests knows which secrets the platform plugins of each home declare. It remembers
// them under the home's key for as long as no manifest changes. It never reads the plugins'
// code and is safe for concurrent use.
type Manifests struct {
	policy *Policy
	fs     manifestFS
	now    func() time.Time
	mu     sync.Mutex
	homes  map[string]*homeManifests
}

// manifestFS is what the scan asks of the file system.
type manifestFS struct {
	list func(dir string) ([]fs.DirEntry, error)
	stat func(path string) (fs.FileInfo, error)
	read func(path string) ([]byte, error)
}

// homeManifests is what is known of one home.
type homeManifests struct {
	mu    sync.Mutex
	stamp string // "" = scan again
	names []string
}

// Declarations are the secrets that the plugins of one home declare.
type Declarations struct {
	Names []string // sorted; not to be changed
	// Warnings are the manifests that could not be read this time. There are none when the
	// answer was remembered.
	Warnings []error
	// Partial says that some could not be read: the names this home had before are still
	// among Names, and the next call looks again.
	Partial bool
}

// NewManifests returns an empty store.
func (p *Policy) NewManifests() *Manifests {
	return &Manifests{
		policy: p, now: time.Now, homes: map[string]*homeManifests{},
		fs: manifestFS{list: os.ReadDir, stat: os.Stat, read: readSmall},
	}
}

// Read returns what the plugins in dir, the home with the given key, declare. The error says
// that a manifest below plugins/platforms cannot be read: no child of the home must start
// (M4); it belongs into [Profile.DeclaredErr].
func (m *Manifests) Read(key, dir string) (Declarations, error) {
	m.mu.Lock()
	h, ok := m.homes[key]
	if !ok {
		h = &homeManifests{}
		m.homes[key] = h
	}
	m.mu.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	started := m.now()
	found, err := m.scan(dir)
	if err != nil {
		return Declarations{}, err
	}
	if stamp := found.stamp(); h.stamp != "" && h.stamp == stamp {
		return Declarations{Names: h.names}, nil
	}
	d, err := m.parse(found)
	if err != nil {
		return Declarations{}, err
	}
	h.stamp = found.stamp()
	switch {
	case d.Partial:
		d.Names = union(d.Names, h.names)
		h.stamp = ""
	case found.changed(m.fs, started):
		h.stamp = ""
	}
	h.names = d.Names
	return d, nil
}

// Forget drops what is known of a home, as when its profile is deleted.
func (m *Manifests) Forget(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.homes, key)
}

// Bundled reads the manifests of the plugins that come with the program, once and strictly:
// any that cannot be read is an error. One that makes no sense declares nothing (M1).
func (m *Manifests) Bundled(dir string) ([]string, error) {
	if _, err := m.fs.stat(dir); err != nil {
		return nil, err
	}
	found := &manifestScan{}
	if err := m.scanRoot(found, dir, true); err != nil {
		return nil, err
	}
	d, err := m.parse(found)
	return d.Names, err
}

// candidate is a manifest, or what stands where one would be read.
type candidate struct {
	path   string
	strict bool // below plugins/platforms: of a platform by its place
	info   fs.FileInfo
	err    error // why nothing can be told of it; info is nil
}

// manifestScan is what one look at the directories found.
type manifestScan struct {
	home string // as it was given: a link to it leads to the same files (M7)
	all  []candidate
}

// stamp changes whenever a manifest does.
func (s *manifestScan) stamp() string {
	var sb strings.Builder
	sb.WriteString("scan\n")
	for _, c := range s.all {
		fmt.Fprintf(&sb, "%q ", strings.TrimPrefix(c.path, s.home))
		if c.info == nil {
			sb.WriteString("?\n")
			continue
		}
		sb.WriteString(atomicfile.Stamp(c.info) + "\n")
	}
	return sb.String()
}

// changed reports whether a manifest may have been written since it was looked at, or so
// shortly before that its time stamp cannot tell.
func (s *manifestScan) changed(f manifestFS, started time.Time) bool {
	again := &manifestScan{home: s.home, all: slices.Clone(s.all)}
	for i := range again.all {
		c := &again.all[i] // all were read, so each has been looked at
		if started.Sub(atomicfile.ChangeTime(c.info)).Abs() < atomicfile.Settle {
			return true
		}
		c.info, c.err = f.stat(c.path) // of one that is gone by now the stamp is another
	}
	return again.stamp() != s.stamp()
}

// scan looks at one home's plugins: one listing of each root, one stat of each candidate.
func (m *Manifests) scan(home string) (*manifestScan, error) {
	s := &manifestScan{home: home}
	root := filepath.Join(home, "plugins")
	if err := m.scanRoot(s, filepath.Join(root, "platforms"), true); err != nil {
		return nil, err
	}
	return s, m.scanRoot(s, root, false)
}

// scanRoot looks at every plugin in a directory. In a strict one the first that cannot be
// looked at is an error.
func (m *Manifests) scanRoot(s *manifestScan, root string, strict bool) error {
	entries, err := m.fs.list(root)
	switch {
	case err != nil && missing(err):
		return nil
	case err != nil && strict:
		return fmt.Errorf("plugins that cannot be listed: %w", err)
	case err != nil:
		s.all = append(s.all, candidate{path: root, err: err})
		return nil //nolint:nilerr // reported with the candidates
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "__") || e.Type()&(fs.ModeDir|fs.ModeSymlink) == 0 {
			continue // as the plugin loader does; a link may lead to a directory
		}
		if !strict && e.Name() == "platforms" {
			continue // the other root
		}
		c := m.look(filepath.Join(root, e.Name()))
		c.strict = strict
		switch {
		case c.err != nil && strict:
			return fmt.Errorf("a platform plugin's manifest that cannot be read: %w", c.err)
		case c.path != "":
			s.all = append(s.all, c)
		}
	}
	return nil
}

// look finds the manifest of one plugin; no path = it has none.
func (m *Manifests) look(dir string) candidate {
	for _, name := range []string{"plugin.yaml", "plugin.yml"} {
		path := filepath.Join(dir, name)
		info, err := m.fs.stat(path)
		switch {
		case err == nil && info.Mode().IsRegular():
			return candidate{path: path, info: info}
		case err == nil || missing(err):
			continue
		case errors.Is(err, fs.ErrPermission):
			return candidate{path: dir, err: err} // the directory is what cannot be searched
		}
		return candidate{path: path, err: err}
	}
	return candidate{}
}

// missing reports whether something is not there, a link that leads nowhere included, as
// opposed to unreadable.
func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.ENOTDIR)
}

// parse reads all that a scan found. The error is that of a manifest in a strict place.
func (m *Manifests) parse(s *manifestScan) (Declarations, error) {
	var d Declarations
	secret := map[string]bool{} // the first declaration of a name wins
	for _, c := range s.all {
		err := c.err
		if err == nil {
			var src []byte
			if src, err = m.fs.read(c.path); err != nil && c.strict {
				return d, fmt.Errorf("a platform plugin's manifest that cannot be read: %w", err)
			}
			if err == nil {
				err = m.declared(src, c.strict, secret)
			}
		}
		if err != nil {
			d.Partial = true
			d.Warnings = append(d.Warnings, fmt.Errorf("%s: %w", c.path, err))
		}
	}
	for name, is := range secret {
		if is {
			d.Names = append(d.Names, name)
		}
	}
	slices.Sort(d.Names)
	return d, nil
}

func readSmall(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // opened for reading
	return io.ReadAll(io.LimitReader(f, maxManifest+1))
}

// union returns the sorted names of both.
func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}
