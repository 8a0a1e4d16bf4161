// SPDX-License-Identifier: MIT

package images

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// layerTar makes a layer of one file.
func layerTar(t testing.TB, name, content string) []byte {
	t.Helper()
	var buf bytes.Buffer
	tw := tar.NewWriter(&buf)
	if err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(content)), ModTime: time.Unix(1, 0)}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(tw, content); err != nil {
		t.Fatal(err)
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

type archived struct {
	name, link string
	data       []byte
}

func pack(t testing.TB, files ...archived) []byte {
	t.Helper()
	var buf bytes.Buffer
	tw := tar.NewWriter(&buf)
	for _, f := range files {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: 0o644, Size: int64(len(f.data))}
		if f.link != "" {
			h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, f.link, 0
		}
		if err := tw.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := tw.Write(f.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// configOf makes the config of an image as the machine "host" builds it at a time.
func configOf(t testing.TB, host, arch string, at time.Time, layers ...[]byte) []byte {
	t.Helper()
	var ids []string
	history := []map[string]any{{"created": at, "comment": "Imported from -"}}
	for range layers {
		history = append(history, map[string]any{
			"created": at, "created_by": "|2 A=1 PROXY=" + host + " /bin/bash -euo pipefail -c make   ",
		})
	}
	history = append(history, map[string]any{"created": at, "created_by": `/bin/bash -euo pipefail -c #(nop)  CMD ["sleep"]`, "empty_layer": true})
	for _, l := range layers {
		ids = append(ids, sumOf(l))
	}
	data, err := json.Marshal(map[string]any{
		"architecture": arch, "os": "linux", "created": at, "docker_version": "20.10 on " + host, "container": host,
		"container_config": map[string]any{"Hostname": host, "Image": host},
		"config":           map[string]any{"Hostname": host, "Env": []string{"A=1"}, "Cmd": []string{"sleep"}, "Labels": map[string]string{"l": "v"}, "Image": host},
		"history":          history, "rootfs": map[string]any{"type": "layers", "diff_ids": ids},
	})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func manifestOf(t testing.TB, config string, layers ...string) []byte {
	t.Helper()
	data, err := json.Marshal([]map[string]any{{"Config": config, "Layers": layers}})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func gz(t testing.TB, data []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// archives returns one image as the engines of two machines save it: the old way with a link
// for a repeated layer, and the new way with compressed blobs and the manifest first.
func archives(t testing.TB) map[string][]byte {
	t.Helper()
	a, b := layerTar(t, "a", strings.Repeat("one", 1000)), layerTar(t, "b", "two")
	old := configOf(t, "alpha", "amd64", time.Unix(100, 0), a, b, a)
	recent := configOf(t, "beta", "amd64", time.Unix(200, 5), a, b, a)
	return map[string][]byte{
		"old": pack(t, archived{name: "1/layer.tar", data: a}, archived{name: "1/VERSION", data: []byte("1.0")}, archived{name: "2/layer.tar", data: b},
			archived{name: "3/layer.tar", link: "../1/layer.tar"}, archived{name: "c.json", data: old},
			archived{name: "manifest.json", data: manifestOf(t, "c.json", "1/layer.tar", "2/layer.tar", "3/layer.tar")}),
		"new": pack(t, archived{name: "manifest.json", data: manifestOf(t, "blobs/sha256/c", "blobs/sha256/a", "blobs/sha256/b", "blobs/sha256/a")},
			archived{name: "blobs/sha256/a", data: gz(t, a)}, archived{name: "blobs/sha256/b", data: gz(t, b)}, archived{name: "blobs/sha256/c", data: recent}),
	}
}

// TestExportIsTheSameFromEveryEngine holds the promise that the ID depends on layers and
// settings alone: not on the host, the builder, the time, or how the engine saves images.
func TestExportIsTheSameFromEveryEngine(t *testing.T) {
	t.Parallel()
	epoch := time.Unix(1_796_000_000, 0)
	var ids, digests []string
	for name, data := range archives(t) {
		dir := t.TempDir()
		got, err := export(t.Context(), bytes.NewReader(data), epoch, dir, "x:1")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		plain, err := export(t.Context(), bytes.NewReader(data), epoch, "", "x:1")
		if err != nil || plain.ID != got.ID || plain.Digest != "" {
			t.Errorf("%s: without a layout: %v, ID %s and digest %q, want ID %s alone", name, err, plain.ID, plain.Digest, got.ID)
		}
		ids, digests = append(ids, got.ID), append(digests, got.Digest)
		for _, word := range []string{"alpha", "beta", "1970", "PROXY", "docker_version", "container"} {
			if bytes.Contains(got.config, []byte(word)) {
				t.Errorf("%s: the config tells of %s: %s", name, word, got.config)
			}
		}
		if !bytes.Contains(got.config, []byte(`"created_by":"RUN make"`)) || !bytes.Contains(got.config, []byte(`"created":"2026-11-30T00:53:20Z"`)) {
			t.Errorf("%s: config %s", name, got.config)
		}
		checkBlobs(t, dir)
	}
	if ids[0] != ids[1] || digests[0] != digests[1] {
		t.Errorf("one image has the IDs %q and the digests %q", ids, digests)
	}
}

// checkBlobs holds every blob of a layout to its name, and finds nothing beside them.
func checkBlobs(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "blobs", "sha256"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, "blobs", "sha256", e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if got := sumOf(data); got != "sha256:"+e.Name() {
			t.Errorf("blob %s is %s", e.Name(), got)
		}
	}
	if len(entries) != 4 { // two layers, one of them used twice; config; manifest
		t.Errorf("%d blobs, want 4", len(entries))
	}
}

func TestLayoutKeepsOtherPlatforms(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	layer := layerTar(t, "a", "one")
	index := func(arch, content string) []string {
		l := layer
		if content != "" {
			l = layerTar(t, "a", content)
		}
		data := pack(t, archived{name: "l/layer.tar", data: l}, archived{name: "c.json", data: configOf(t, "h", arch, time.Unix(1, 0), l)},
			archived{name: "manifest.json", data: manifestOf(t, "c.json", "l/layer.tar")})
		if _, err := export(t.Context(), bytes.NewReader(data), time.Unix(2_000_000_000, 0), dir, arch); err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(filepath.Join(dir, "index.json"))
		if err != nil {
			t.Fatal(err)
		}
		var doc struct{ Manifests []descriptorDoc }
		if err := json.Unmarshal(raw, &doc); err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, m := range doc.Manifests {
			out = append(out, m.Platform.Architecture+" "+m.Annotations[refName])
		}
		return out
	}
	for _, c := range []struct {
		arch, content string
		want          []string
	}{
		{"amd64", "", []string{"amd64 amd64"}},
		{"arm64", "", []string{"arm64 arm64", "amd64 amd64"}},
		{"amd64", "anew", []string{"amd64 amd64", "arm64 arm64"}},
	} {
		if diff := cmp.Diff(c.want, index(c.arch, c.content)); diff != "" {
			t.Errorf("after %s (-want +got):\n%s", c.arch, diff)
		}
	}
}

func TestExportRefuses(t *testing.T) {
	t.Parallel()
	a, other := layerTar(t, "a", "one"), layerTar(t, "a", "two")
	config := configOf(t, "h", "amd64", time.Unix(1, 0), a)
	m := manifestOf(t, "c.json", "l/layer.tar")
	for name, data := range map[string][]byte{
		"another layer than the config says": pack(t, archived{name: "l/layer.tar", data: other}, archived{name: "c.json", data: config}, archived{name: "manifest.json", data: m}),
		"a missing layer":                    pack(t, archived{name: "c.json", data: config}, archived{name: "manifest.json", data: m}),
		"a missing config":                   pack(t, archived{name: "l/layer.tar", data: a}, archived{name: "manifest.json", data: m}),
		"no manifest":                        pack(t, archived{name: "l/layer.tar", data: a}, archived{name: "c.json", data: config}),
		"two images": pack(t, archived{name: "l/layer.tar", data: a}, archived{name: "c.json", data: config},
			archived{name: "manifest.json", data: []byte(`[{"Config":"c.json","Layers":["l/layer.tar"]},{}]`)}),
		"a cut archive": pack(t, archived{name: "l/layer.tar", data: a}, archived{name: "c.json", data: config}, archived{name: "manifest.json", data: m})[:700],
		"a loop of links": pack(t, archived{name: "l/layer.tar", link: "../m/layer.tar"}, archived{name: "m/layer.tar", link: "../l/layer.tar"},
			archived{name: "c.json", data: config}, archived{name: "manifest.json", data: m}),
	} {
		if got, err := export(t.Context(), bytes.NewReader(data), time.Unix(2_000_000_000, 0), t.TempDir(), "x"); err == nil {
			t.Errorf("%s: accepted as %s", name, got.ID)
		}
	}
}

func TestFirstDifference(t *testing.T) {
	t.Parallel()
	read := func(files ...archived) map[string]entry {
		list, _, err := listLayer(bytes.NewReader(pack(t, files...)))
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	base := []archived{{name: "a", data: []byte("1")}, {name: "b", data: []byte("2")}}
	for _, c := range []struct {
		name  string
		files []archived
		want  string
	}{
		{"content", []archived{base[0], {name: "b", data: []byte("3")}}, "layer 7: /b: the content differs"},
		{"missing", base[:1], "layer 7: /b: only in the first"},
		{"extra", append([]archived{{name: "0"}}, base...), "layer 7: /0: only in the second"},
		{"order", []archived{base[1], base[0]}, "layer 7: /a: entry 0 and 1 of the tar"},
		{"link", []archived{base[0], {name: "b", link: "a"}}, "layer 7: /b: 0 644 0:0 1 bytes 1970-01-01T00:00:00Z and 2 644 0:0 0 bytes 1970-01-01T00:00:00Z -> a"},
		{"nothing", base, "layer 7: tar: the files are the same, their packing is not"},
	} {
		if got := firstDifference(7, read(base...), read(c.files...)).String(); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}
