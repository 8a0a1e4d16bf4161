// SPDX-License-Identifier: MIT

package images

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

func both(t *testing.T, f func(t *testing.T, d *desk)) {
	t.Helper()
	for _, referrers := range []bool{true, false} {
		t.Run(fmt.Sprintf("referrers=%t", referrers), func(t *testing.T) {
			t.Parallel()
			f(t, newDesk(t, referrers))
		})
	}
}

func TestPublish(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, d *desk) {
		dir, digests := makeLayout(t, release("1.2.0")...)
		imgs := load(t, dir)
		p, err := d.Publish(t.Context(), d.options(imgs, RollingTag))
		if err != nil {
			t.Fatal(err)
		}
		v := d.want(RollingTag)
		if v.Digest != p.Digest || d.at("1.2.0-desktop") != p.Digest || d.at("desktop-history-0001") != p.Digest {
			t.Errorf("tags: desktop %s, release %s, history %s; want %s", v.Digest, d.at("1.2.0-desktop"), d.at("desktop-history-0001"), p.Digest)
		}
		// Digests are kept end to end, and so are bytes.
		for _, img := range imgs {
			m, err := d.manifest(t.Context(), d.repo.WithDigest(img.Digest))
			if err != nil || string(m.raw) != string(img.raw) {
				t.Errorf("%s: the manifest's bytes changed: %v", img.Platform, err)
			}
			if v.Images[img.Platform] != img.Digest || !slices.Contains(digests, img.Digest) {
				t.Errorf("%s is %s, want %s", img.Platform, v.Images[img.Platform], img.Digest)
			}
		}
		if v.Version != "1.2.0" || v.Builder != "https://example.org/builder" || len(v.SBOMs) != 2 {
			t.Errorf("verified %+v", v)
		}
		// Once more changes nothing.
		before := d.requests()
		again, err := d.client().Publish(t.Context(), d.options(imgs, RollingTag))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range again.Tags {
			if m.Moved {
				t.Errorf("published again, %s moved", m.Tag)
			}
		}
		for _, r := range d.requests()[len(before):] {
			if strings.Contains(r, "/blobs/uploads/") {
				t.Errorf("published again, a blob was sent: %s", r)
			}
		}
	})
}

// TestPublishWithoutTags: pushing, signing and verifying alone moves nothing.
func TestPublishWithoutTags(t *testing.T) {
	t.Parallel()
	d := newDesk(t, true)
	p := d.publish("1.0.0")
	tags, err := d.tags(t.Context(), d.repo)
	if err != nil {
		t.Fatal(err)
	}
	for _, tag := range tags {
		if !strings.HasPrefix(tag, "sha256-") {
			t.Errorf("tag %s appeared", tag)
		}
	}
	if _, err := d.Verify(t.Context(), VerifyOptions{Ref: d.repo.WithDigest(p.Digest), Key: d.signer.Key()}); err != nil {
		t.Error(err)
	}
}

// TestPublishRefuses: what is wrong before the first byte is refused before the first byte.
func TestPublishRefuses(t *testing.T) {
	t.Parallel()
	damage := func(t *testing.T, dir string, pick func(name string, size int64) bool) {
		t.Helper()
		blobs, err := os.ReadDir(filepath.Join(dir, "blobs", "sha256"))
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range blobs {
			path := filepath.Join(dir, "blobs", "sha256", b.Name())
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if pick(string(data), int64(len(data))) {
				data[len(data)/2] ^= 1
				if err := os.WriteFile(path, data, 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	good := release("1.0.0")
	tests := map[string]struct {
		images []made
		change func(t *testing.T, dir string, o *PublishOptions)
		want   error
	}{
		"not proven":   {good, func(_ *testing.T, _ string, o *PublishOptions) { o.Proofs = o.Proofs[:1] }, ErrUnproven},
		"smoke failed": {good, func(_ *testing.T, _ string, o *PublishOptions) { o.Proofs[1].Verdict = "fail" }, ErrUnproven},
		"failed beside passed": {good, func(_ *testing.T, _ string, o *PublishOptions) {
			f := o.Proofs[0]
			f.Verdict = "fail"
			o.Proofs = append(o.Proofs, f)
		}, ErrUnproven},
		"another digest":   {good, func(_ *testing.T, _ string, o *PublishOptions) { o.Proofs[0].Digest = DigestOf(nil) }, ErrUnproven},
		"one architecture": {good[:1], nil, ErrIncomplete},
		"other commits":    {[]made{good[0], {arch: "arm64", version: "1.0.0", revision: "b", layers: good[1].layers}}, nil, ErrMixed},
		"other versions":   {[]made{good[0], {arch: "arm64", version: "1.0.1", revision: good[0].revision, layers: good[1].layers}}, nil, ErrMixed},
		"no revision":      {[]made{good[0], {arch: "arm64", version: "1.0.0", layers: good[1].layers}}, nil, ErrMixed},
		"pre-release":      {release("1.0.0-rc.1"), nil, ErrPrerelease},
		"a damaged layer": {good, func(t *testing.T, dir string, _ *PublishOptions) {
			damage(t, dir, func(s string, _ int64) bool { return s[0] == 0x1f })
		}, ErrCorrupt},
		"production by hand": {good, func(_ *testing.T, _ string, o *PublishOptions) {
			o.Repository.Name = o.Repository.Host() + "/nousresearch/hermes-sandbox"
		}, ErrGuarded},
		"production, pull request": {good, func(_ *testing.T, _ string, o *PublishOptions) {
			o.Repository.Name, o.Run = o.Repository.Host()+"/nousresearch/hermes-sandbox", Run{CI: true, Event: "pull_request", Publish: true}
		}, ErrGuarded},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, true)
			dir, _ := makeLayout(t, tt.images...)
			o := d.options(load(t, dir), RollingTag)
			if tt.change != nil {
				tt.change(t, dir, &o)
			}
			_, err := d.Publish(t.Context(), o)
			if !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			for _, r := range d.requests() {
				if m, _, _ := strings.Cut(r, " "); m != "GET" && m != "HEAD" {
					t.Errorf("sent before it was refused: %s", r)
				}
			}
		})
	}
}

// TestStandInsStayHere: an image with stand-ins may be rehearsed with, on this machine.
func TestStandInsStayHere(t *testing.T) {
	t.Parallel()
	d := newDesk(t, true)
	dir, _ := makeLayout(t, release("1.0.0")...)
	o := d.options(load(t, dir), RollingTag)
	o.Proofs[0].StandIns = []string{"cua-driver"}
	o.Origin.Unresolved = []string{"base"}
	if _, err := d.Publish(t.Context(), o); err != nil {
		t.Errorf("to loopback: %v", err)
	}
	o.Repository = Ref{Name: "registry.invalid/me/sandbox"}
	if _, err := d.Publish(t.Context(), o); !errors.Is(err, ErrUnproven) {
		t.Errorf("to another machine: got %v, want %v", err, ErrUnproven)
	}
	o.Proofs[0].StandIns = nil
	if _, err := d.Publish(t.Context(), o); !errors.Is(err, ErrUnproven) || !strings.Contains(err.Error(), "unresolved") {
		t.Errorf("unresolved pins to another machine: got %v, want %v", err, ErrUnproven)
	}
}

// TestProofByImageID: engines without a content store know an image by its config.
func TestProofByImageID(t *testing.T) {
	t.Parallel()
	d := newDesk(t, true)
	dir, _ := makeLayout(t, release("1.0.0")...)
	imgs := load(t, dir)
	o := d.options(imgs)
	for i := range o.Proofs {
		o.Proofs[i].Digest = imgs[i].ConfigDigest
	}
	if _, err := d.Publish(t.Context(), o); err != nil {
		t.Error(err)
	}
}

// TestCrash kills a publication at every request that changes something, before the registry
// sees it or before we see the answer, and repeats it: no tag that people use ever points at
// what does not verify, and the end is the same as without the crash.
func TestCrash(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, d *desk) {
		referrers := strings.HasSuffix(t.Name(), "true")
		d.publish("1.0.0", RollingTag)
		imgs := imagesOf(t, "1.1.0")
		d.faults(nil)
		if _, err := d.client().Publish(t.Context(), d.options(imgs, RollingTag)); err != nil {
			t.Fatal(err)
		}
		changes := 0
		for i, r := range d.requests() {
			if strings.HasPrefix(r, "P") { // POST, PATCH, PUT
				crash(t, imgs, referrers, i+1, changes%2 == 0)
				changes++
			}
		}
		if changes < 40 {
			t.Errorf("a publication of %d changes: this tests nothing", changes)
		}
	})
}

// crash is one crash, at request n.
func crash(t *testing.T, imgs []*Image, referrers bool, n int, answerLost bool) {
	t.Helper()
	d := newDirectDesk(t, referrers)
	d.publish("1.0.0", RollingTag)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var crashed atomic.Bool // requests run side by side
	d.faults(func(i int, _ http.ResponseWriter, r *http.Request) bool {
		if i < n {
			watch(t, d, r)
			return false
		}
		if i == n && answerLost {
			watch(t, d, r)
			d.next.ServeHTTP(httptest.NewRecorder(), r)
		}
		crashed.Store(true)
		cancel()
		panic(http.ErrAbortHandler)
	})
	_, err := d.client().Publish(ctx, d.options(imgs, RollingTag))
	d.faults(nil)
	if !crashed.Load() || err == nil {
		t.Fatalf("crash at request %d: crashed %t, %v", n, crashed.Load(), err)
	}
	for _, tag := range userTags(t, d) {
		d.want(tag)
	}
	d.faults(func(_ int, _ http.ResponseWriter, r *http.Request) bool { watch(t, d, r); return false })
	p, err := d.client().Publish(t.Context(), d.options(imgs, RollingTag))
	if err != nil {
		t.Fatalf("after a crash at request %d: %v", n, err)
	}
	d.faults(nil)
	want := []string{"1.0.0-desktop", "1.1.0-desktop", "desktop", "desktop-history-0001", "desktop-history-0002"}
	if got := userTags(t, d); !slices.Equal(got, want) || d.at(RollingTag) != p.Digest || d.at("1.0.0-desktop") == p.Digest {
		t.Fatalf("after a crash at request %d: tags %v, want %v", n, got, want)
	}
	if layers, err := d.signatures(t.Context(), d.repo.WithTag(p.Digest.attached(signatureSuffix))); err != nil || len(layers) != 1 {
		t.Errorf("after a crash at request %d: %d signatures, %v", n, len(layers), err)
	}
}

// watch verifies, before a tag that people use is written, what it is going to point at.
func watch(t *testing.T, d *desk, r *http.Request) {
	tag := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	if r.Method != http.MethodPut || !strings.Contains(r.URL.Path, "/manifests/") || strings.HasPrefix(tag, "sha256") {
		return
	}
	body, err := peek(r)
	if err != nil {
		t.Error(err)
		return
	}
	d.hush(true)
	defer d.hush(false)
	if _, err := d.client().Verify(t.Context(), VerifyOptions{Ref: d.repo.WithDigest(DigestOf(body)), Key: d.signer.Key(), Blobs: true}); err != nil {
		t.Errorf("tag %s is set to what does not verify: %v", tag, err)
	}
}

func (d *desk) hush(quiet bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.quiet = quiet
}

// TestPublishReadsBack: what the registry gives back is what decides, not what was sent to it.
func TestPublishReadsBack(t *testing.T) {
	t.Parallel()
	for name, path := range map[string]string{"layers": "/blobs/", "manifests": "/manifests/sha256:"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, true)
			d.publish("1.0.0", RollingTag)
			imgs := imagesOf(t, "1.1.0")
			before := userTags(t, d)
			var signed atomic.Bool // all is pushed, and was good until here
			d.faults(func(_ int, w http.ResponseWriter, r *http.Request) bool {
				if r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, ".sig") {
					signed.Store(true)
				}
				if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, path) || !signed.Load() {
					return false
				}
				rec := httptest.NewRecorder()
				d.next.ServeHTTP(rec, r)
				w.Header().Set("Content-Type", rec.Header().Get("Content-Type"))
				w.WriteHeader(rec.Code)
				w.Write(flip(rec.Body.Bytes()))
				return true
			})
			if _, err := d.client().Publish(t.Context(), d.options(imgs, "1.1.0-desktop")); !errors.Is(err, ErrTampered) || !signed.Load() {
				t.Errorf("got %v, want %v", err, ErrTampered)
			}
			d.faults(nil)
			if got := userTags(t, d); !slices.Equal(got, before) || d.want(RollingTag).Version != "1.0.0" {
				t.Errorf("tags %v, want %v", got, before)
			}
		})
	}
}

// userTags are the tags that people use.
func userTags(t testing.TB, d *desk) []string {
	t.Helper()
	tags, err := d.client().tags(t.Context(), d.repo)
	if err != nil {
		t.Fatal(err)
	}
	tags = slices.DeleteFunc(tags, func(s string) bool { return strings.HasPrefix(s, "sha256-") })
	slices.Sort(tags)
	return tags
}
