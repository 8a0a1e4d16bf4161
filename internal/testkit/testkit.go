// SPDX-License-Identifier: MIT

// Package testkit is what the tests of several packages share: golden files, parts of the
// outside world that a test needs, and files of a home. It is imported by tests only and
// never by the program.
package testkit

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// update makes [Golden] write what it got. The test fails all the same, so that a run that
// blesses its own output cannot pass.
//
//nolint:gochecknoglobals // a flag can only be registered once, before the tests run
var update = flag.Bool("update", false, "rewrite golden files, and fail the run")

// Golden compares got with the file at path, relative to the test's package.
func Golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		t.Errorf("%s: golden file rewritten; look at the difference, then run without -update", path)
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (run with -update to make it)", err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (-want +got):\n%s", path, cmp.Diff(string(want), string(got)))
	}
}

// Updating reports whether golden files are being rewritten.
func Updating() bool { return *update }

// RequireEnv names the parts that must be there, separated by commas: a test that misses one
// of them fails instead of being skipped. "all" means every part.
const RequireEnv = "HERMES_TEST_REQUIRE"

// Need says that the rest of the test needs a part of the outside world. Without it the
// test is skipped with the reason, or fails where [RequireEnv] names the part.
func Need(t testing.TB, part string, ok bool, reason string) {
	t.Helper()
	if ok {
		return
	}
	required := strings.Split(os.Getenv(RequireEnv), ",")
	if slices.Contains(required, part) || slices.Contains(required, "all") {
		t.Fatalf("%s is required here and missing: %s", part, reason)
	}
	t.Skipf("needs %s: %s", part, reason)
}

// NeedRoot needs the part "root".
func NeedRoot(t testing.TB) {
	t.Helper()
	Need(t, "root", os.Geteuid() == 0, "the test changes owners or mounts and must run as root")
}

// CorpusEnv is the directory of real configs that some tests run on.
const CorpusEnv = "HERMES_CORPUS"

// Corpus returns the directory of real configs; without one the test is skipped.
func Corpus(t testing.TB) string {
	t.Helper()
	dir := os.Getenv(CorpusEnv)
	Need(t, "corpus", dir != "", CorpusEnv+" names no directory of real configs")
	return dir
}

// WriteTree writes files, given by their path below dir, and makes the directories on the
// way. A path that ends in a slash is a directory.
func WriteTree(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if strings.HasSuffix(name, "/") {
			if err := os.MkdirAll(path, 0o700); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// WriteProgram writes a program that is run next. Nothing is forked meanwhile: such a child would
// have the file open for writing until its own exec, and to run it would fail (text file busy).
func WriteProgram(t testing.TB, path, text string) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
}

// ReadTree returns every regular file below dir by its relative path, with the content and,
// for a link, "-> target".
func ReadTree(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if e.Type()&os.ModeSymlink != 0 {
			to, err := os.Readlink(path)
			out[rel] = "-> " + to
			return err
		}
		data, err := os.ReadFile(path)
		out[rel] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
