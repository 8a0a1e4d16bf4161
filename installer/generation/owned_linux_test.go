// SPDX-License-Identifier: MIT

package generation

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// TestReplaceable: what a store or a package put there is theirs to replace.
func TestReplaceable(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	if err := Replaceable(t.Context(), h.program); err != nil {
		t.Errorf("one's own: %v", err)
	}
	_, err := os.Stat("/usr/bin/dpkg-query")
	testkit.Need(t, "dpkg", err == nil, "no dpkg-query")
	store := filepath.Join(h.dir, "store")
	if err := os.Symlink("/nix/store/x/bin/hermes-appliance", store); err != nil {
		t.Fatal(err)
	}
	cellar := filepath.Join(h.dir, "Cellar", "bin", "x")
	testkit.WriteTree(t, h.dir, map[string]string{"Cellar/bin/x": "x", "ro/x": "x"})
	if err := os.Chmod(filepath.Join(h.dir, "ro"), 0o555); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(filepath.Join(h.dir, "ro"), 0o755) })
	for path, want := range map[string]string{
		"/usr/bin/dpkg-query":           "belongs to the package dpkg; apt-get",
		cellar:                          "brew upgrade",
		filepath.Join(h.dir, "ro", "x"): "read-only directory",
		filepath.Join(h.dir, "ro"):      "no regular file",
	} {
		var refusal *Refusal
		if err := Replaceable(t.Context(), path); !errors.As(err, &refusal) || !strings.Contains(err.Error(), want) || exitcode.Of(err) != exitcode.Managed {
			t.Errorf("%s: got %v", path, err)
		}
	}
	if err := Replaceable(t.Context(), store); err == nil {
		t.Error("a link into a store is replaceable")
	}
}

// TestFullDisk: an update for which there is no room changes nothing.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	testkit.NeedRoot(t)
	h := newHost(t)
	dir := filepath.Join(h.dir, "small")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k")
	testkit.Need(t, "root", err == nil, "mounting is not allowed")
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	h.program = filepath.Join(dir, "hermes-appliance")
	if err := os.WriteFile(h.program, []byte(oldProgram), 0o755); err != nil {
		t.Fatal(err)
	}
	a := h.activation(atomicfile.Writer{}, nil)
	large := bytes.Repeat([]byte("x"), 1<<20)
	_, err = a.Update(t.Context(), Binary{Version: "1.1.0", SHA256: atomicfile.Hash(large)}, large)
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v", err)
	}
	if got := h.whole(t); got != before {
		t.Errorf("got %s", got)
	}
	h.clean(t)
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 { // the program and the kept ones
		t.Errorf("%v %v", entries, err)
	}
}
