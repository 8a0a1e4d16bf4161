// SPDX-License-Identifier: MIT

package files

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// jail runs scripts in another root: a machine of which this one has no file.
type jail struct{ root string }

func (j jail) Run(ctx context.Context, script string, stdin []byte) (Output, error) {
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", script)
	cmd.Dir, cmd.Env = "/proj", []string{"PATH=/bin", "HOME=/jailed/me"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: j.root}
	if stdin != nil {
		cmd.Stdin = bytes.NewReader(stdin)
	}
	out, err := cmd.Output()
	if _, ok := errors.AsType[*exec.ExitError](err); ok {
		err = nil
	}
	return Output{out, cmd.ProcessState.ExitCode()}, err
}

// newJail makes a root with busybox and what it is linked with.
func newJail(t *testing.T) jail {
	t.Helper()
	testkit.NeedRoot(t)
	busybox, err := exec.LookPath("busybox")
	testkit.Need(t, "busybox", err == nil, "no busybox here")
	root := tempDir(t)
	testkit.WriteTree(t, root, map[string]string{"proj/": "", "jailed/me/": "", "bin/": "", "dev/": "", "tmp/": "", "proj/only there.txt": "one\ntwo\n"})
	put(t, filepath.Join(root, "dev", "null"), "")
	copyFile := func(from, to string) {
		data, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		testkit.WriteFile(t, to, data, 0o700)
	}
	copyFile(busybox, filepath.Join(root, "bin", "busybox"))
	libs, _ := exec.CommandContext(t.Context(), "ldd", busybox).Output()
	for word := range strings.FieldsSeq(string(libs)) {
		if strings.HasPrefix(word, "/") {
			copyFile(word, filepath.Join(root, word))
		}
	}
	for _, name := range []string{"sh", "base64", "readlink", "stat", "sha256sum", "cat", "mv", "rm", "cp", "chmod", "chown", "touch", "mkdir", "head", "tail", "wc", "cut", "find", "xargs", "grep", "tr", "printf"} {
		if err := os.Symlink("busybox", filepath.Join(root, "bin", name)); err != nil {
			t.Fatal(err)
		}
	}
	return jail{root}
}

// TestReport8NeverLooksHere: a directory that exists on the backend alone is good, and no
// operation looks at this machine's files for it.
func TestReport8NeverLooksHere(t *testing.T) {
	t.Parallel()
	j := newJail(t)
	if _, err := os.Stat("/jailed"); err == nil {
		t.Fatal("this machine has that directory too")
	}
	f := New(&Shell{Label: "jail", Runner: j}, Guard{Homes: []Home{{"/proj", "default"}}}, Limits{})
	if r := f.Read(t.Context(), ReadRequest{Path: "only there.txt"}); r.Content != "1|one\n2|two" {
		t.Errorf("%+v", r)
	}
	if r := f.Write(t.Context(), WriteRequest{Path: "~/new/f", Content: "x"}); r.Resolved != "/jailed/me/new/f" || r.Error != "" || get(t, filepath.Join(j.root, "jailed/me/new/f")) != "x" {
		t.Errorf("%+v", r)
	}
	if r := f.Replace(t.Context(), ReplaceRequest{Path: "/proj/only there.txt", Old: "two", New: "three"}); !r.Success {
		t.Errorf("%+v", r)
	}
	if r := f.Search(t.Context(), SearchRequest{Pattern: "three", Path: "/"}); len(r.Matches) != 1 || r.Matches[0].Path != "/proj/only there.txt" {
		t.Errorf("%+v", r)
	}
	if r := f.Patch(t.Context(), "*** Move File: only there.txt -> /jailed/me/moved\n", false); !r.Success {
		t.Errorf("%+v", r)
	}
}
