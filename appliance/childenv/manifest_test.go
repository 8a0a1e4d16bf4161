// SPDX-License-Identifier: MIT

package childenv

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

const photon = "plugins/platforms/photon/plugin.yaml"

func secretManifest(names ...string) string {
	return "kind: platform\nrequires_env: [" + strings.Join(names, ", ") + "]\n"
}

// store is a store whose files are long settled, with counters and injected failures.
type store struct {
	*Manifests
	home               string
	lists, stats, read atomic.Int64
	fail               map[string]error // by path below the home and what is done: "list plugins"
	onRead             func()
}

func newStore(t *testing.T, files map[string]string) *store {
	t.Helper()
	s := &store{Manifests: load(t).NewManifests(), home: t.TempDir(), fail: map[string]error{}}
	s.now = func() time.Time { return time.Now().Add(time.Hour) }
	real := s.fs
	hook := func(op, path string) error {
		rel, err := filepath.Rel(s.home, path)
		if err != nil {
			return err
		}
		if err := s.fail[op+" "+filepath.ToSlash(rel)]; err != nil {
			return &fs.PathError{Op: op, Path: path, Err: err}
		}
		return nil
	}
	s.fs.list = func(dir string) ([]fs.DirEntry, error) {
		s.lists.Add(1)
		if err := hook("list", dir); err != nil {
			return nil, err
		}
		return real.list(dir)
	}
	s.fs.stat = func(path string) (fs.FileInfo, error) {
		s.stats.Add(1)
		if err := hook("stat", path); err != nil {
			return nil, err
		}
		return real.stat(path)
	}
	s.fs.read = func(path string) ([]byte, error) {
		s.read.Add(1)
		if err := hook("read", path); err != nil {
			return nil, err
		}
		src, err := real.read(path)
		if s.onRead != nil {
			s.onRead()
		}
		return src, err
	}
	testkit.WriteTree(t, s.home, files)
	return s
}

func (s *store) want(t *testing.T, partial bool, names ...string) Declarations {
	t.Helper()
	d, err := s.Read("key", s.home)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(d.Names, names) || d.Partial != partial {
		t.Errorf("got %v, partial %v (%v); want %v, %v", d.Names, d.Partial, d.Warnings, names, partial)
	}
	return d
}

func (s *store) path(rel string) string { return filepath.Join(s.home, rel) }

// TestM1: bundled manifests are read strictly; one that makes no sense declares nothing.
func TestM1(t *testing.T) {
	t.Parallel()
	s := newStore(t, map[string]string{"b/one/plugin.yaml": secretManifest("ONE_TOKEN"), "b/two/plugin.yml": "requires_env: [TWO_SECRET]", "b/bad/plugin.yaml": "a: [\n"})
	if got, err := s.Bundled(s.path("b")); err != nil || !slices.Equal(got, []string{"ONE_TOKEN", "TWO_SECRET"}) {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := s.Bundled(s.path("nowhere")); err == nil {
		t.Error("a directory that is not there is no error")
	}
	for _, op := range []string{"list b", "stat b/one/plugin.yaml", "read b/one/plugin.yaml"} {
		s.fail = map[string]error{op: syscall.EIO}
		if got, err := s.Bundled(s.path("b")); err == nil {
			t.Errorf("%s fails: got %v", op, got)
		}
	}
}

// TestM2: what one profile's plugin declares is tier 1 for it, and nothing to another.
func TestM2(t *testing.T) {
	t.Parallel()
	s := newStore(t, map[string]string{"a/plugins/foo/plugin.yaml": secretManifest("FOO_TOKEN"), "b/": ""})
	p := load(t)
	for _, tt := range []struct {
		home  string
		there bool
	}{{"a", false}, {"b", true}} {
		d, err := s.Read(tt.home, s.path(tt.home))
		if err != nil {
			t.Fatal(err)
		}
		snap := world{mux: true}.snapshot("B")
		snap.Target.Vars, snap.Target.Declared = []Var{own("FOO_TOKEN", "mine")}, d.Names
		env, err := p.Build("cli", snap)
		if err != nil || slices.Contains(env, "FOO_TOKEN=mine") != tt.there {
			t.Errorf("%s: %v in %q", tt.home, err, env)
		}
	}
}

// TestM3: a manifest does not reclassify what the core declares.
func TestM3(t *testing.T) {
	t.Parallel()
	newStore(t, map[string]string{photon: secretManifest("OPENAI_API_KEY", "openai_api_key", "TELEGRAM_BOT_TOKEN", "{name: PATH, secret: true}", "{name: HTTPS_PROXY, secret: true}", "MINE_KEY")}).
		want(t, false, "MINE_KEY")
}

// TestM4: what cannot be read below plugins/platforms stops the child; elsewhere it is a
// warning.
func TestM4(t *testing.T) {
	t.Parallel()
	files := map[string]string{photon: secretManifest("PHOTON_KEY"), "plugins/flat/plugin.yaml": secretManifest("FLAT_KEY"), "plugins/other/plugin.yaml": secretManifest("OTHER_KEY")}
	for _, err := range []error{syscall.EACCES, syscall.EPERM, syscall.EIO} {
		for _, op := range []string{"list plugins/platforms", "stat " + photon, "read " + photon} {
			s := newStore(t, files)
			s.want(t, false, "FLAT_KEY", "OTHER_KEY", "PHOTON_KEY")
			s.fail[op] = err
			if strings.HasPrefix(op, "read") {
				if werr := os.WriteFile(s.path(photon), []byte(secretManifest("NEW_KEY")), 0o600); werr != nil {
					t.Fatal(werr)
				}
			}
			if d, got := s.Read("key", s.home); got == nil {
				t.Errorf("%s: %v: got %v", op, err, d)
			}
			delete(s.fail, op)
			s.want(t, false, append([]string{"FLAT_KEY"}, map[bool][]string{true: {"NEW_KEY", "OTHER_KEY"}, false: {"OTHER_KEY", "PHOTON_KEY"}}[strings.HasPrefix(op, "read")]...)...)
		}
		for op, lost := range map[string]string{"list plugins": "plugins", "stat plugins/flat/plugin.yaml": "plugins/flat", "read plugins/flat/plugin.yaml": "plugins/flat/plugin.yaml"} {
			s := newStore(t, files)
			s.fail[op] = err
			names := []string{"OTHER_KEY", "PHOTON_KEY"}
			if op == "list plugins" {
				names = []string{"PHOTON_KEY"}
			}
			d := s.want(t, true, names...)
			if len(d.Warnings) != 1 || !strings.Contains(filepath.ToSlash(d.Warnings[0].Error()), lost) {
				t.Errorf("%s: %v: warnings %v, want one about %s", op, err, d.Warnings, lost)
			}
		}
	}
	s := newStore(t, map[string]string{photon: secretManifest("PHOTON_KEY"), "plugins/flat/plugin.yaml": "a: [\n"})
	s.want(t, true, "PHOTON_KEY")
}

// TestM5: names survive while their manifest cannot be read, recovery is seen at once, and a
// plugin that is gone releases its names.
func TestM5(t *testing.T) {
	t.Parallel()
	s := newStore(t, map[string]string{"plugins/flat/plugin.yaml": secretManifest("FLAT_KEY"), photon: secretManifest("PHOTON_KEY")})
	s.want(t, false, "FLAT_KEY", "PHOTON_KEY")
	for _, op := range []string{"stat plugins/flat/plugin.yaml", "list plugins"} {
		s.fail[op] = syscall.EACCES
		for range 2 { // a partial answer is not remembered: it is found out again, and warned of
			if d := s.want(t, true, "FLAT_KEY", "PHOTON_KEY"); len(d.Warnings) != 1 {
				t.Errorf("warnings %v", d.Warnings)
			}
		}
		delete(s.fail, op)
		s.want(t, false, "FLAT_KEY", "PHOTON_KEY")
	}
	// half a file, as while it is being written
	testkit.WriteTree(t, s.home, map[string]string{photon: "requires_env: [PHOTON_KE", "plugins/flat/plugin.yaml": "- a\n- b\n"})
	s.want(t, true, "FLAT_KEY", "PHOTON_KEY")
	testkit.WriteTree(t, s.home, map[string]string{photon: secretManifest("NEW_KEY")})
	s.want(t, true, "FLAT_KEY", "NEW_KEY", "PHOTON_KEY")
	if err := os.RemoveAll(s.path("plugins/flat")); err != nil {
		t.Fatal(err)
	}
	s.want(t, false, "NEW_KEY")
	s.Forget("key")
	s.want(t, false, "NEW_KEY")
}

// TestM6: every change takes effect at the next spawn; without one nothing is read, and each
// candidate is looked at once.
func TestM6(t *testing.T) {
	t.Parallel()
	testkit.Need(t, "posix", runtime.GOOS != "windows", "the change time of a file is not told without opening it")
	s := newStore(t, map[string]string{photon: secretManifest("PHOTON_KEY"), "plugins/flat/plugin.yml": secretManifest("FLAT_KEY"), "plugins/a-file": "x"})
	s.want(t, false, "FLAT_KEY", "PHOTON_KEY")
	s.lists.Store(0)
	s.stats.Store(0)
	s.read.Store(0)
	s.want(t, false, "FLAT_KEY", "PHOTON_KEY")
	if s.lists.Load() != 2 || s.stats.Load() != 3 || s.read.Load() != 0 {
		t.Errorf("%d listings, %d stats, %d reads; want 2, 3 (plugin.yaml twice, plugin.yml once), 0", s.lists.Load(), s.stats.Load(), s.read.Load())
	}
	info, err := os.Stat(s.path(photon))
	if err != nil {
		t.Fatal(err)
	}
	stamp := func(path string) {
		t.Helper()
		if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
			t.Fatal(err)
		}
	}
	// in place, with the same length and the time stamp put back
	testkit.WriteTree(t, s.home, map[string]string{photon: secretManifest("EDITED_KEY")})
	stamp(s.path(photon))
	s.want(t, false, "EDITED_KEY", "FLAT_KEY")
	// replaced, as by cp -p or rsync -t
	testkit.WriteTree(t, s.home, map[string]string{"new": secretManifest("COPIED_KEY")})
	stamp(s.path("new"))
	if err := os.Rename(s.path("new"), s.path(photon)); err != nil {
		t.Fatal(err)
	}
	s.want(t, false, "COPIED_KEY", "FLAT_KEY")
	// another file takes precedence
	testkit.WriteTree(t, s.home, map[string]string{"plugins/flat/plugin.yaml": secretManifest("YAML_KEY")})
	s.want(t, false, "COPIED_KEY", "YAML_KEY")
	if err := os.RemoveAll(s.path("plugins")); err != nil {
		t.Fatal(err)
	}
	s.want(t, false)
}

// TestM6Race: what was written while it was read, or a moment before, is not remembered.
func TestM6Race(t *testing.T) {
	t.Parallel()
	s := newStore(t, map[string]string{photon: secretManifest("PHOTON_KEY")})
	s.onRead = func() {
		testkit.WriteTree(t, s.home, map[string]string{photon: secretManifest("LATER_KEY")})
	}
	s.want(t, false, "PHOTON_KEY")
	s.onRead = nil
	s.want(t, false, "LATER_KEY")

	s = newStore(t, map[string]string{photon: secretManifest("PHOTON_KEY")})
	info, err := os.Stat(s.path(photon))
	if err != nil {
		t.Fatal(err)
	}
	s.now = func() time.Time { return atomicfile.ChangeTime(info) } // however long the machine takes
	s.want(t, false, "PHOTON_KEY")
	s.want(t, false, "PHOTON_KEY")
	if s.read.Load() != 2 {
		t.Errorf("%d reads of a file that was written just now, want 2", s.read.Load())
	}
	s.onRead = func() { _ = os.Remove(s.path(photon)) }
	s.now = func() time.Time { return time.Now().Add(time.Hour) }
	s.want(t, false, "PHOTON_KEY")
	s.want(t, false)
}

// TestM7: a link to a home has the home's key, and so its entry.
func TestM7(t *testing.T) {
	t.Parallel()
	s := newStore(t, map[string]string{"h/" + photon: secretManifest("PHOTON_KEY")})
	if err := os.Symlink(s.path("h"), s.path("alias")); err != nil {
		testkit.Need(t, "link", false, err.Error())
	}
	for _, dir := range []string{"h", "alias", "h"} {
		d, err := s.Read("one key", s.path(dir))
		if err != nil || !slices.Equal(d.Names, []string{"PHOTON_KEY"}) {
			t.Errorf("%s: %v, %v", dir, d, err)
		}
	}
	if len(s.homes) != 1 || s.read.Load() != 1 {
		t.Errorf("%d entries, %d reads", len(s.homes), s.read.Load())
	}
}

// TestM8: the filter is the plugin loader's.
func TestM8(t *testing.T) {
	t.Parallel()
	s := newStore(t, map[string]string{
		"plugins/__pycache__/plugin.yaml": secretManifest("DUNDER_KEY"), "plugins/platforms/__x__/plugin.yaml": secretManifest("DUNDER_KEY"),
		"plugins/.hidden/plugin.yaml": secretManifest("DOT_KEY"), "plugins/loop/plugin.yml": secretManifest("LOOP_KEY"),
		"plugins/dir/plugin.yaml/": "", "plugins/dir/plugin.yml": secretManifest("DIR_KEY"), "plugins/none/": "",
		"plugins/plugin.yaml": secretManifest("ROOT_KEY"), "plugins/platforms/plugin.yaml": secretManifest("ROOT_KEY"),
		"elsewhere/plugin.yaml": secretManifest("LINKED_KEY"), "a-file": "x",
	})
	for link, to := range map[string]string{
		"plugins/loop/plugin.yaml": "plugin.yaml", "plugins/linked": "../elsewhere", "plugins/dangling": "nowhere",
		"plugins/self": "self", "plugins/to-file": "../a-file", "plugins/platforms/loop": "loop", "plugins/platforms/to-file": "../../a-file",
	} {
		if err := os.Symlink(to, s.path(link)); err != nil {
			testkit.Need(t, "link", false, err.Error())
		}
	}
	s.want(t, false, "DIR_KEY", "DOT_KEY", "LINKED_KEY", "LOOP_KEY")

	for _, files := range []map[string]string{{}, {"plugins": "a file"}, {"plugins/platforms": "a file"}} {
		newStore(t, files).want(t, false)
	}
	s = newStore(t, map[string]string{"plugins/": ""})
	if err := os.Symlink("platforms", s.path("plugins/platforms")); err != nil {
		t.Fatal(err)
	}
	s.want(t, false)
}

// TestM8Fifo: a manifest that is no file does not hold up a spawn.
func TestM8Fifo(t *testing.T) {
	t.Parallel()
	s := newStore(t, map[string]string{"plugins/platforms/fifo/": ""})
	if err := mkfifo(s.path("plugins/platforms/fifo/plugin.yaml")); err != nil {
		testkit.Need(t, "pipe", false, err.Error())
	}
	s.want(t, false)
}

// TestManifestsConcurrently changes one home while many read several.
func TestManifestsConcurrently(t *testing.T) {
	t.Parallel()
	s := newStore(t, map[string]string{"h0/" + photon: secretManifest("A_KEY"), "h1/" + photon: secretManifest("A_KEY"), "h2/" + photon: secretManifest("A_KEY")})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 30 {
				home := fmt.Sprintf("h%d", (i+j)%3)
				if i == 0 && home == "h0" {
					next := s.path(fmt.Sprintf("next%d", j))
					testkit.WriteTree(t, s.home, map[string]string{filepath.Base(next): secretManifest("A_KEY", fmt.Sprintf("N%d_KEY", j))})
					if err := os.Rename(next, s.path(filepath.Join(home, photon))); err != nil {
						t.Error(err)
					}
				}
				d, err := s.Read(home, s.path(home))
				if err != nil || !slices.Contains(d.Names, "A_KEY") {
					t.Errorf("%s: %v, %v", home, d, err)
				}
				if i == 7 {
					s.Forget(home)
				}
			}
		})
	}
	wg.Wait()
	d, err := s.Read("h0", s.path("h0"))
	if err != nil || len(d.Names) != 2 {
		t.Errorf("%v, %v", d, err)
	}
}
