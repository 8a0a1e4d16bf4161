// SPDX-License-Identifier: MIT

package images

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/ecdsa"
	"crypto/elliptic"
	crand "crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
)

// file is one entry of a made-up layer.
type file struct {
	name string
	mode int64
	data []byte
	kind byte // 0 = a regular file
}

func text(name, data string) file { return file{name: name, mode: 0o644, data: []byte(data)} }

// made describes an image to make.
type made struct {
	arch, version, revision string
	layers                  [][]file
	noise                   int // bytes of a further layer that does not compress
}

// makeLayout writes images into one OCI layout and returns its directory and their digests.
func makeLayout(t testing.TB, images ...made) (string, []Digest) {
	t.Helper()
	dir := t.TempDir()
	write := func(path string, data []byte) {
		t.Helper()
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	blob := func(mediaType string, data []byte) map[string]any {
		d := DigestOf(data)
		write("blobs/sha256/"+d.hex(), data)
		return map[string]any{"mediaType": mediaType, "digest": d, "size": len(data)}
	}
	var digests []Digest
	var list []any
	for _, m := range images {
		var layers []any
		var diffs []Digest
		for _, files := range m.layers {
			plain := tarOf(t, files)
			diffs = append(diffs, DigestOf(plain))
			layers = append(layers, blob("application/vnd.oci.image.layer.v1.tar+gzip", packed(t, plain)))
		}
		if m.noise > 0 {
			noise := make([]byte, m.noise)
			src := rand.NewChaCha8([32]byte{byte(len(m.arch)), m.arch[0]})
			src.Read(noise)
			plain := tarOf(t, []file{{name: "noise", mode: 0o644, data: noise}})
			diffs = append(diffs, DigestOf(plain))
			layers = append(layers, blob("application/vnd.oci.image.layer.v1.tar", plain))
		}
		labels := map[string]string{LabelSource: "https://example.org/source"}
		if m.version != "" {
			labels[LabelVersion] = m.version
		}
		if m.revision != "" {
			labels[LabelRevision] = m.revision
		}
		config := mustJSON(t, map[string]any{
			"architecture": m.arch, "os": "linux", "created": "2026-11-30T00:00:00Z",
			"config": map[string]any{"Labels": labels}, "rootfs": map[string]any{"type": "layers", "diff_ids": diffs},
		})
		raw := mustJSON(t, map[string]any{
			"schemaVersion": 2, "mediaType": imageManifestType, "config": blob(imageConfigType, config), "layers": layers,
		})
		entry := blob(imageManifestType, raw)
		entry["platform"] = map[string]string{"os": "linux", "architecture": m.arch}
		list = append(list, entry)
		digests = append(digests, DigestOf(raw))
	}
	write("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`))
	write("index.json", mustJSON(t, map[string]any{"schemaVersion": 2, "mediaType": imageIndexType, "manifests": list}))
	return dir, digests
}

func mustJSON(t testing.TB, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func tarOf(t testing.TB, files []file) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		h := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.data)), Typeflag: f.kind}
		if f.kind == 0 {
			h.Typeflag = tar.TypeReg
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(f.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func packed(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// load opens every image of a layout until the end of the test.
func load(t testing.TB, dir string) []*Image {
	t.Helper()
	l, err := OpenLayout(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	var out []*Image
	for _, d := range l.Digests() {
		img, err := l.Image(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { img.Close() })
		out = append(out, img)
	}
	return out
}

// release makes the two images of a version.
func release(version string) []made {
	system := []file{
		text("etc/os-release", "ID=debian\nVERSION_ID=\"13\"\n"),
		text("var/lib/dpkg/status", "Package: bash\nStatus: install ok installed\nArchitecture: amd64\nVersion: 5.2.37-2+b5\n\nPackage: gone\nStatus: deinstall ok config-files\nVersion: 1\n"),
	}
	app := []file{text("opt/app", "release "+version)}
	revision := strings.Repeat("a", 39) + version[len(version)-1:]
	return []made{
		{arch: "amd64", version: version, revision: revision, layers: [][]file{system, app}},
		{arch: "arm64", version: version, revision: revision, layers: [][]file{system, app}},
	}
}

// proofs makes passed smoke reports.
func proofs(t testing.TB, imgs []*Image) []Proof {
	t.Helper()
	var out []Proof
	for _, i := range imgs {
		p, err := ParseProof("smoke.json", fmt.Appendf(nil, `{"schema":1,"digest":%q,"verdict":"pass","stand_ins":[],"steps":[]}`, i.Digest))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
	}
	return out
}

// newSigner makes a key without the file around it, whose encryption takes its time.
func newSigner(t testing.TB) *Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &Signer{key}
}

// desk is a registry with a client, and what tests want to do to it.
type desk struct {
	t      testing.TB
	direct http.RoundTripper // nil = over the network
	next   http.Handler      // the registry itself
	repo   Ref
	signer *Signer
	*Registry

	mu     sync.Mutex
	quiet  bool                                                     // requests are neither counted nor disturbed
	log    []string                                                 // "METHOD path" of each request
	before func(n int, w http.ResponseWriter, r *http.Request) bool // true = answered
}

func (d *desk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	before := d.before
	if !d.quiet {
		d.log = append(d.log, r.Method+" "+r.URL.Path)
	}
	n := len(d.log)
	if d.quiet {
		before = nil
	}
	d.mu.Unlock()
	if before != nil && before(n, w, r) {
		return
	}
	d.next.ServeHTTP(w, r)
}

// newDesk starts an empty registry on loopback.
func newDesk(t testing.TB, referrers bool) *desk {
	t.Helper()
	d := &desk{t: t, signer: newSigner(t)}
	server := httptest.NewServer(d.handler(referrers))
	t.Cleanup(server.Close)
	d.repo = Ref{Name: strings.TrimPrefix(server.URL, "http://") + "/me/hermes-sandbox"}
	d.Registry = d.client()
	return d
}

// newDirectDesk makes an empty registry that is called without a network, for tests with
// many thousand requests.
func newDirectDesk(t testing.TB, referrers bool) *desk {
	t.Helper()
	d := &desk{t: t, signer: newSigner(t), repo: Ref{Name: "127.0.0.1:1/me/hermes-sandbox"}}
	d.direct = called{d.handler(referrers)}
	d.Registry = d.client()
	return d
}

func (d *desk) handler(referrers bool) http.Handler {
	d.next = registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(referrers))
	return d
}

// called is a transport that calls a handler. A handler that aborts is a broken connection.
type called struct{ http.Handler }

func (c called) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	defer func() {
		if recover() != nil {
			err = io.ErrUnexpectedEOF
		}
	}()
	in := r.Clone(r.Context())
	if in.Body == nil {
		in.Body = http.NoBody
	}
	w := httptest.NewRecorder()
	c.ServeHTTP(w, in)
	resp = w.Result()
	resp.Request = r
	return resp, nil
}

// client makes a fresh client, as another process has one. It tries as often as the product does: an
// upload is four requests, and each of them may fail once before the next one is reached.
func (d *desk) client() *Registry {
	d.t.Helper()
	r, err := NewRegistry(RegistryOptions{Backoff: time.Millisecond, Transport: d.direct})
	if err != nil {
		d.t.Fatal(err)
	}
	return r
}

// faults sets what happens to requests; nil = nothing.
func (d *desk) faults(f func(n int, w http.ResponseWriter, r *http.Request) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.before, d.log = f, nil
}

func (d *desk) requests() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string{}, d.log...)
}

func (d *desk) options(imgs []*Image, tags ...string) PublishOptions {
	return PublishOptions{
		Repository: d.repo, Images: imgs, Proofs: proofs(d.t, imgs), Signer: d.signer, Tags: tags, Tool: "hermes-appliance-test",
		Origin: Origin{Builder: "https://example.org/builder", Materials: []Material{{Name: "base", URI: "docker.io/library/debian:13", Digest: map[string]string{"sha256": strings.Repeat("1", 64)}}}},
	}
}

// publish publishes a version with tags and must succeed.
func (d *desk) publish(version string, tags ...string) *Published {
	d.t.Helper()
	dir, _ := makeLayout(d.t, release(version)...)
	p, err := d.client().Publish(d.t.Context(), d.options(load(d.t, dir), tags...))
	if err != nil {
		d.t.Fatalf("publish %s: %v", version, err)
	}
	return p
}

// at returns what a tag points at, "" if nothing.
func (d *desk) at(tag string) Digest {
	d.t.Helper()
	s, err := d.client().standing(d.t.Context(), d.repo.WithTag(tag))
	if err != nil {
		d.t.Fatal(err)
	}
	return s.digest
}

// want verifies a tag.
func (d *desk) want(tag string) *Verified {
	d.t.Helper()
	v, err := d.client().Verify(d.t.Context(), VerifyOptions{Ref: d.repo.WithTag(tag), Key: d.signer.Key(), Blobs: true})
	if err != nil {
		d.t.Fatalf("verify %s: %v", tag, err)
	}
	return v
}
