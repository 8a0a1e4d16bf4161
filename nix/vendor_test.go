// SPDX-License-Identifier: MIT

package nix

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// vendorDoc is vendor.json: the directories the package is built from, and the hash of the
// modules they need.
type vendorDoc struct {
	Dirs       []string `json:"dirs"`
	VendorHash string   `json:"vendorHash"`
}

func vendorFile(t *testing.T) vendorDoc {
	t.Helper()
	data, err := os.ReadFile("vendor.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc vendorDoc
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// TestReport1VendorHash: H#37692, H#48318 and their family: a hash that is not refreshed when the
// modules move breaks everybody's build. What buildGoModule hashes is made here, by the same
// command from the same files, so the hash is proven and not only compared with go.sum.
func TestReport1VendorHash(t *testing.T) {
	t.Parallel()
	doc := vendorFile(t)
	src := t.TempDir()
	for _, name := range []string{"go.mod", "go.sum"} {
		copyFile(t, filepath.Join("..", name), filepath.Join(src, name))
	}
	for _, dir := range doc.Dirs {
		err := filepath.WalkDir(filepath.Join("..", dir), func(path string, e os.DirEntry, err error) error {
			if err == nil && e.Type().IsRegular() && strings.HasSuffix(path, ".go") {
				copyFile(t, path, filepath.Join(src, strings.TrimPrefix(filepath.ToSlash(path), "../")))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(src, "vendor")
	cmd := exec.CommandContext(t.Context(), "go", "mod", "vendor")
	cmd.Dir, cmd.Env = src, append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	if said, err := cmd.CombinedOutput(); err != nil {
		testkit.Need(t, "go-modules", false, "go mod vendor: "+string(said))
	}
	sum := sha256.New()
	if err := narFile(sum, out); err != nil {
		t.Fatal(err)
	}
	doc.VendorHash = "sha256-" + base64.StdEncoding.EncodeToString(sum.Sum(nil))
	golden(t, "vendor.json", doc)
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(to), 0o750)
	}
	if err == nil {
		err = os.WriteFile(to, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// narFile writes a file or directory as Nix archives it, with the magic before it.
func narFile(w io.Writer, path string) error {
	narText(w, "nix-archive-1")
	return narNode(w, path)
}

func narText(w io.Writer, s string) {
	var n [8]byte
	binary.LittleEndian.PutUint64(n[:], uint64(len(s)))
	w.Write(append(n[:], s...))
	w.Write(make([]byte, (8-len(s)%8)%8))
}

func narNode(w io.Writer, path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	narText(w, "(")
	narText(w, "type")
	if !info.IsDir() {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		narText(w, "regular")
		if info.Mode()&0o100 != 0 {
			narText(w, "executable")
			narText(w, "")
		}
		narText(w, "contents")
		narText(w, string(data))
		narText(w, ")")
		return nil
	}
	narText(w, "directory")
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, e := range entries { // by name
		narText(w, "entry")
		narText(w, "(")
		narText(w, "name")
		narText(w, e.Name())
		narText(w, "node")
		if err := narNode(w, filepath.Join(path, e.Name())); err != nil {
			return err
		}
		narText(w, ")")
	}
	narText(w, ")")
	return nil
}

// TestNarIsNixs compares our archive's hash with that of Nix itself.
func TestNarIsNixs(t *testing.T) {
	t.Parallel()
	needNix(t)
	dir := t.TempDir()
	testkit.WriteTree(t, dir, map[string]string{"a": "", "b/c": "12345678", "b/d": "x", "a.b": "y", "e/": ""})
	if err := os.Chmod(filepath.Join(dir, "b", "d"), 0o755); err != nil {
		t.Fatal(err)
	}
	sum := sha256.New()
	if err := narFile(sum, dir); err != nil {
		t.Fatal(err)
	}
	want := strings.TrimSpace(string(runNix(t, "nix-hash", "--type", "sha256", "--base32", dir)))
	got := strings.TrimSpace(string(runNix(t, "nix-hash", "--type", "sha256", "--to-base32", hexOf(sum.Sum(nil)))))
	if got != want {
		t.Errorf("got %s, nix says %s", got, want)
	}
}

// TestPackageSources: every package of the program is below a directory that the package is
// built from, so that a new one is not forgotten.
func TestPackageSources(t *testing.T) {
	t.Parallel()
	doc := vendorFile(t)
	cmd := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}", "./...")
	cmd.Dir, cmd.Env = "..", os.Environ()
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		rel, err := filepath.Rel(root, strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		top, _, _ := strings.Cut(filepath.ToSlash(rel), "/")
		used[top] = true
		if top != "nix" && !slices.Contains(doc.Dirs, top) {
			t.Errorf("%s is not in nix/vendor.json: add %q to dirs", rel, top)
		}
	}
	for _, dir := range doc.Dirs {
		if !used[dir] {
			t.Errorf("nix/vendor.json names %s, which has no package", dir)
		}
	}
}
