// SPDX-License-Identifier: MIT

package home

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// env makes a lookup from pairs.
func env(pairs map[string]string) func(string) string {
	return func(name string) string { return pairs[name] }
}

func TestLocate(t *testing.T) {
	t.Parallel()
	abs := func(path string) string {
		out, err := filepath.Abs(path)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	all := map[string]string{"HERMES_HOME": "/env/home", "HOME": "/me", "USERPROFILE": "/windows/me"}
	for _, row := range []struct {
		name    string
		dir     string
		env     map[string]string
		want    string
		profile string
	}{
		{"the argument wins", "/arg", all, "/arg", Default},
		{"then HERMES_HOME", "", all, "/env/home", Default},
		{"then the user's home", "", map[string]string{"HOME": "/me", "USERPROFILE": "/windows/me"}, "/me/.hermes", Default},
		{"Windows has another name for it", "", map[string]string{"USERPROFILE": "/windows/me"}, "/windows/me/.hermes", Default},
		{"an empty HERMES_HOME counts as none", "", map[string]string{"HERMES_HOME": "", "HOME": "/me"}, "/me/.hermes", Default},
		{"relative", "some/dir", all, abs("some/dir"), Default},
		{"cleaned", "/a/b/../c/", all, "/a/c", Default},
		{"HERMES_HOME is a profile", "", map[string]string{"HERMES_HOME": "/x/profiles/work"}, "/x/profiles/work", "work"},
		{"the argument is a profile", "/x/profiles/work/", all, "/x/profiles/work", "work"},
		{"not every name is one", "/x/profiles/Work", all, "/x/profiles/Work", Default},
		{"default is none", "/x/profiles/default", all, "/x/profiles/default", Default},
		{"the directory of profiles is none", "/x/profiles", all, "/x/profiles", Default},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			got, err := Locate(row.dir, env(row.env))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(Home{Dir: abs(row.want), Profile: row.profile}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if _, err := Locate("", env(nil)); err == nil || !strings.Contains(err.Error(), EnvHome) {
		t.Errorf("nothing to go by: got %v, want an error that names %s", err, EnvHome)
	}
}

func TestPaths(t *testing.T) {
	t.Parallel()
	h := Home{Dir: filepath.FromSlash("/h"), Profile: Default}
	got := []string{h.Config(), h.Env(), h.Soul(), h.Plugins(), h.Backups(), h.State()}
	want := []string{"/h/config.yaml", "/h/.env", "/h/SOUL.md", "/h/plugins", "/h/backups/config", "/h/.appliance"}
	for i := range got {
		got[i] = filepath.ToSlash(got[i])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRoot(t *testing.T) {
	t.Parallel()
	root := Home{Dir: filepath.FromSlash("/x"), Profile: Default}
	if got := root.Root(); got != root {
		t.Errorf("got %+v", got)
	}
	if got := (Home{Dir: filepath.FromSlash("/x/profiles/work"), Profile: "work"}).Root(); got != root {
		t.Errorf("got %+v", got)
	}
}

func TestValidID(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]bool{
		"a": true, "0": true, "work": true, "a-b_c9": true, "main": true, strings.Repeat("a", 64): true,
		"": false, "Work": false, "-a": false, "_a": false, ".a": false, "a.b": false, "a b": false, "a/b": false, "..": false,
		"ä": false, "a\n": false, strings.Repeat("a", 65): false, ".deleted": false,
	} {
		if got := ValidID(id); got != want {
			t.Errorf("ValidID(%q) = %v", id, got)
		}
	}
}

// profileTree is a home with everything that may stand in profiles/.
func profileTree(t *testing.T) Home {
	t.Helper()
	dir := t.TempDir()
	testkit.WriteTree(t, dir, map[string]string{
		"config.yaml":                   "",
		"profiles/config/config.yaml":   "",
		"profiles/dotenv/.env":          "",
		"profiles/soul/SOUL.md":         "",
		"profiles/yaml/profile.yaml":    "",
		"profiles/auth/auth.json":       "",
		"profiles/state/state.db":       "",
		"profiles/unmarked/notes.txt":   "",
		"profiles/nothing/":             "",
		"profiles/file":                 "",
		"profiles/Upper/config.yaml":    "",
		"profiles/.hidden/config.yaml":  "",
		"profiles/a.b/config.yaml":      "",
		"profiles/default/config.yaml":  "",
		"profiles/buried/config.yaml":   "",
		"profiles/.deleted/buried":      "",
		"profiles/dirstone/config.yaml": "",
		"profiles/.deleted/dirstone/":   "",
		"profiles/.deleted/long-gone":   "",
		"profiles/dangling/":            "",
		"elsewhere/config.yaml":         "",
	})
	for link, to := range map[string]string{
		"profiles/dangling/config.yaml": "nowhere", "profiles/linked": "../elsewhere", "profiles/lost": "../nowhere",
	} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	return Home{Dir: dir, Profile: Default}
}

func TestProfiles(t *testing.T) {
	t.Parallel()
	h := profileTree(t)
	want := []string{"auth", "config", "dangling", "dotenv", "linked", "soul", "state", "yaml"}
	for _, from := range []Home{h, {Dir: filepath.Join(h.Dir, "profiles", "soul"), Profile: "soul"}} {
		homes, err := from.Profiles()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range homes {
			got = append(got, p.Profile)
			if p.Dir != filepath.Join(h.Dir, "profiles", p.Profile) {
				t.Errorf("%s is in %s", p.Profile, p.Dir)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("from %s (-want +got):\n%s", from.Profile, diff)
		}
	}
	empty := Home{Dir: t.TempDir(), Profile: Default}
	if got, err := empty.Profiles(); err != nil || got != nil {
		t.Errorf("no profiles: got %v %v", got, err)
	}
	testkit.WriteTree(t, empty.Dir, map[string]string{"profiles": "a file"})
	if _, err := empty.Profiles(); err == nil {
		t.Error("profiles is a file: no error")
	}
}

// TestProfilesOddTombstones: what is no directory holds no tombstone.
func TestProfilesOddTombstones(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	testkit.WriteTree(t, dir, map[string]string{"profiles/a/config.yaml": "", "profiles/.deleted": "a file"})
	got, err := Home{Dir: dir, Profile: Default}.Profiles()
	if err != nil || len(got) != 1 {
		t.Errorf("got %v %v", got, err)
	}
	if err := os.Remove(filepath.Join(dir, "profiles", ".deleted")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(".deleted", filepath.Join(dir, "profiles", ".deleted")); err != nil {
		t.Fatal(err)
	}
	if got, err := (Home{Dir: dir, Profile: Default}).Profiles(); err == nil {
		t.Errorf("tombstones cannot be looked for: got %v and no error", got)
	}
}

func TestNamedProfile(t *testing.T) {
	t.Parallel()
	h := profileTree(t)
	for _, from := range []Home{h, {Dir: filepath.Join(h.Dir, "profiles", "soul"), Profile: "soul"}} {
		if got, err := from.NamedProfile(Default); err != nil || got != h {
			t.Errorf("default: got %+v %v", got, err)
		}
		got, err := from.NamedProfile("config")
		if want := (Home{Dir: filepath.Join(h.Dir, "profiles", "config"), Profile: "config"}); err != nil || got != want {
			t.Errorf("config: got %+v %v", got, err)
		}
	}
	for _, id := range []string{"absent", "buried", "dirstone", "unmarked", "file", "lost", "Upper", "..", "../..", "", "a.b", ".deleted"} {
		if _, err := h.NamedProfile(id); !errors.Is(err, ErrNoProfile) {
			t.Errorf("%q: got %v, want ErrNoProfile", id, err)
		}
	}
}

// TestLocateFile: a file is no home, whatever names it; a directory that is not there may become
// one.
func TestLocateFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if h, err := Locate(file, os.Getenv); err == nil {
		t.Errorf("%+v", h)
	}
	if _, err := Locate("", func(string) string { return file }); err == nil {
		t.Error("HERMES_HOME was taken")
	}
	if _, err := Locate(file+"/not/there", os.Getenv); err != nil {
		t.Error(err)
	}
}
