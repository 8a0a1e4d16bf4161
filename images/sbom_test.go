// SPDX-License-Identifier: MIT

package images

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// one makes the image of one architecture.
func one(t testing.TB, layers ...[]file) *Image {
	t.Helper()
	dir, _ := makeLayout(t, made{arch: "amd64", version: "1.0.0", revision: "a", layers: layers})
	return load(t, dir)[0]
}

func components(t testing.TB, img *Image) []string {
	t.Helper()
	list, err := img.Components(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, c := range list {
		out = append(out, c.purl(""))
	}
	return out
}

func TestComponents(t *testing.T) {
	t.Parallel()
	gone := func(name string) file { return file{name: name} }
	status := "Package: bash\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1:5.2+b1\nDescription: a shell\n Version: 9\n\nPackage: gone\nStatus: deinstall ok config-files\nVersion: 1\n"
	tests := map[string]struct {
		layers [][]file
		want   string
	}{
		"dpkg":                {[][]file{{text("var/lib/dpkg/status", status)}}, "pkg:deb/debian/bash@1%3A5.2%2Bb1?arch=amd64"},
		"a leading dot":       {[][]file{{text("./var/lib/dpkg/status", status)}}, "pkg:deb/debian/bash@1%3A5.2%2Bb1?arch=amd64"},
		"dpkg, status.d":      {[][]file{{text("var/lib/dpkg/status.d/tz", "Package: tzdata\nVersion: 2026a\n"), text("var/lib/dpkg/status.d/tz.md5sums", "Package: no\nVersion: 1\n")}}, "pkg:deb/debian/tzdata@2026a"},
		"the last layer":      {[][]file{{text("var/lib/dpkg/status", status)}, {text("var/lib/dpkg/status", "Package: dash\nStatus: install ok installed\nVersion: 2\n")}}, "pkg:deb/debian/dash@2"},
		"pypi":                {[][]file{{text("usr/lib/python3/dist-packages/Typing_Extensions-4.1.dist-info/METADATA", "Metadata-Version: 2.1\nName: Typing_Extensions\nVersion: 4.1\n\nVersion: 0\n")}}, "pkg:pypi/typing-extensions@4.1"},
		"npm":                 {[][]file{{text("usr/lib/node_modules/npm/package.json", `{"name":"npm","version":"11.0.0"}`), text("usr/lib/node_modules/@a/b/package.json", `{"name":"@a/b","version":"1.0.0"}`), text("usr/lib/node_modules/npm/test/package.json", `{"name":"fixture","version":"1.0.0"}`), text("usr/lib/node_modules/x/package.json", `{"type":"module"}`), text("app/package.json", `{"name":"app","version":"1.0.0"}`)}}, "pkg:npm/%40a/b@1.0.0 pkg:npm/npm@11.0.0"},
		"removed":             {[][]file{{text("a/node_modules/x/package.json", `{"name":"x","version":"1.0.0"}`)}, {gone("a/node_modules/x/.wh.package.json")}}, ""},
		"a directory removed": {[][]file{{text("a/node_modules/x/package.json", `{"name":"x","version":"1.0.0"}`)}, {gone("a/.wh.node_modules")}}, ""},
		"opaque":              {[][]file{{text("a/node_modules/x/package.json", `{"name":"x","version":"1.0.0"}`)}, {gone("a/node_modules/.wh..wh..opq"), text("a/node_modules/y/package.json", `{"name":"y","version":"1.0.0"}`)}}, "pkg:npm/y@1.0.0"},
		"replaced by a link":  {[][]file{{text("a/node_modules/x/package.json", `{"name":"x","version":"1.0.0"}`)}, {{name: "a/node_modules", kind: tar.TypeSymlink}}}, ""},
		"a similar name":      {[][]file{{text("a/node_modules/x/package.json", `{"name":"x","version":"1.0.0"}`)}, {gone("a/node_modules/.wh.x2")}}, "pkg:npm/x@1.0.0"},
		"nothing":             {[][]file{{text("etc/passwd", "root")}}, ""},
	}
	for name, tt := range tests {
		if got := strings.Join(components(t, one(t, tt.layers...)), " "); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

// TestComponentsOfGo reads the modules of a real Go program: this test.
func TestComponentsOfGo(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	testkit.Need(t, "elf", bytes.HasPrefix(data, []byte("\x7fELF")), "programs are no ELF files here")
	got := components(t, one(t, []file{{name: "usr/local/bin/tool", mode: 0o755, data: data}}))
	if want := "pkg:golang/stdlib@" + strings.TrimPrefix(runtime.Version(), "go"); !slices.Contains(got, want) {
		t.Errorf("%s is not in %v", want, got)
	}
	// Not executable, or not there any more.
	if got := components(t, one(t, []file{{name: "tool", mode: 0o644, data: data}})); len(got) != 0 {
		t.Errorf("a file that nobody can run: %v", got)
	}
}

func TestModules(t *testing.T) {
	t.Parallel()
	info := debug.BuildInfo{GoVersion: "go1.26.8", Path: "example.org/a/cmd/a", Main: debug.Module{Path: "example.org/a", Version: "v1.0.0"}, Deps: []*debug.Module{
		{Path: "example.org/b", Version: "v2.0.0", Sum: "h1:x"},
		{Path: "example.org/c", Version: "v3.0.0", Replace: &debug.Module{Path: "example.org/d", Version: "v4.0.0"}},
	}}
	v := newInventory()
	v.golang("bin/a", info.String())
	var got []string
	for _, c := range sortComponents(v.components) {
		got = append(got, c.purl(""))
	}
	want := []string{"pkg:golang/example.org/a@v1.0.0", "pkg:golang/example.org/b@v2.0.0", "pkg:golang/example.org/d@v4.0.0", "pkg:golang/stdlib@1.26.8"}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestSBOM(t *testing.T) {
	t.Parallel()
	img := one(t, release("1.0.0")[0].layers...)
	data, err := img.SBOM(t.Context(), "docker.io/me/sandbox", "tool-1")
	if err != nil {
		t.Fatal(err)
	}
	again, err := img.SBOM(t.Context(), "docker.io/me/sandbox", "tool-1")
	if err != nil || !bytes.Equal(data, again) {
		t.Errorf("again it is not the same: %v", err)
	}
	text := strings.ReplaceAll(strings.ReplaceAll(string(data), string(img.Digest), "sha256:DIGEST"), img.Digest.hex(), "DIGEST")
	testkit.Golden(t, filepath.Join("testdata", "sbom.spdx.json"), []byte(text))
	var doc spdxDocument
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{doc.ID: true}
	for _, p := range doc.Packages {
		if ids[p.ID] {
			t.Errorf("%s is there twice", p.ID)
		}
		ids[p.ID] = true
	}
	for _, r := range doc.Relationships {
		if !ids[r.From] || !ids[r.To] {
			t.Errorf("%v relates what is not there", r)
		}
	}
}

// TestSBOMOfHost compares what we read of this machine's package database with what dpkg says.
func TestSBOMOfHost(t *testing.T) {
	t.Parallel()
	query, err := exec.LookPath("dpkg-query")
	testkit.Need(t, "dpkg", err == nil, "the program dpkg-query is not on PATH")
	cmd := exec.CommandContext(t.Context(), query, "-W", "-f", "${db:Status-Status} ${Package} ${Version} ${Architecture}\n")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for line := range strings.Lines(string(out)) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "installed "); ok {
			want = append(want, rest)
		}
	}
	status, err := os.ReadFile("/var/lib/dpkg/status")
	if err != nil {
		t.Fatal(err)
	}
	list, err := one(t, []file{text("var/lib/dpkg/status", string(status))}).Components(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range list {
		got = append(got, fmt.Sprintf("%s %s %s", c.Name, c.Version, c.Arch))
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("we see %d packages, dpkg %d", len(got), len(want))
	}
}

func TestLayoutRefuses(t *testing.T) {
	t.Parallel()
	if _, err := OpenLayout(t.TempDir()); err == nil || !strings.Contains(err.Error(), "images build") {
		t.Errorf("an empty directory: %v", err)
	}
	dir, digests := makeLayout(t, release("1.0.0")[0])
	manifest := filepath.Join(dir, "blobs", "sha256", digests[0].hex())
	raw, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	l, err := OpenLayout(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := l.Image(t.Context(), DigestOf(nil)); err == nil || !strings.Contains(err.Error(), string(digests[0])) {
		t.Errorf("a digest that is not there: %v, want what is there", err)
	}
	// A manifest that is not the digest's.
	if err := os.WriteFile(manifest, append(raw, ' '), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Image(t.Context(), digests[0]); !errors.Is(err, ErrCorrupt) {
		t.Errorf("another manifest: %v", err)
	}
	// A link out of the layout is not followed.
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, raw, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(manifest); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, manifest); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Image(t.Context(), digests[0]); err == nil {
		t.Error("a link out of the layout was followed")
	}
}

// TestLayers: what a layer can be, and what it cannot.
func TestLayers(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		mediaType string
		change    func(packed []byte) []byte
		want      error
	}{
		"gzip":          {"application/vnd.oci.image.layer.v1.tar+gzip", nil, nil},
		"Docker's":      {"application/vnd.docker.image.rootfs.diff.tar.gzip", nil, nil},
		"zstd":          {"application/vnd.oci.image.layer.v1.tar+zstd", nil, errMediaType},
		"a flipped bit": {"application/vnd.oci.image.layer.v1.tar+gzip", flip, ErrCorrupt},
		"cut":           {"application/vnd.oci.image.layer.v1.tar+gzip", func(b []byte) []byte { return b[:len(b)/2] }, ErrCorrupt},
		"longer":        {"application/vnd.oci.image.layer.v1.tar+gzip", func(b []byte) []byte { return append(bytes.Clone(b), 0) }, ErrCorrupt},
		"not packed":    {"application/vnd.oci.image.layer.v1.tar", nil, ErrCorrupt}, // its diff ID is another
	} {
		plain := tarOf(t, []file{text("a", strings.Repeat("text ", 1000))})
		data := packed(t, plain)
		d := descriptor(tt.mediaType, data)
		if tt.change != nil {
			data = tt.change(data)
		}
		if err := checkLayer(0, d, DigestOf(plain), bytes.NewReader(data), nil); !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v, want %v", name, err, tt.want)
		}
	}
	// A good layer, and a config that lies about it.
	plain := tarOf(t, []file{text("a", "x")})
	data := packed(t, plain)
	if err := checkLayer(0, descriptor("application/vnd.oci.image.layer.v1.tar+gzip", data), DigestOf(nil), bytes.NewReader(data), nil); !errors.Is(err, ErrCorrupt) {
		t.Errorf("another diff ID: %v", err)
	}
}
