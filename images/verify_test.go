// SPDX-License-Identifier: MIT

package images

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// answer makes the registry give other bytes for a path that ends in suffix.
func (d *desk) answer(suffix string, change func([]byte) []byte) {
	d.faults(nil)
	resp, err := http.Get("http://" + d.repo.Host() + "/v2/" + d.repo.path() + suffix)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		d.t.Fatalf("%s: %v, %d", suffix, err, resp.StatusCode)
	}
	data := change(b.Bytes())
	d.faults(func(_ int, w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, suffix) {
			return false
		}
		w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
		if data == nil {
			w.WriteHeader(http.StatusNotFound)
			return true
		}
		w.Write(data)
		return true
	})
}

// put writes a manifest under a tag, as somebody with write access can.
func (d *desk) put(tag string, data []byte, mediaType string) {
	d.t.Helper()
	if err := d.client().putManifest(d.t.Context(), d.repo.WithTag(tag), rawManifest{data, mediaType}); err != nil {
		d.t.Fatal(err)
	}
}

func flip(b []byte) []byte {
	b = bytes.Clone(b)
	b[len(b)/2] ^= 1
	return b
}

func gone([]byte) []byte { return nil }

// TestVerifyRefuses: each kind of tampering has its own error, with either way of listing
// what refers to an image.
func TestVerifyRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		tamper func(t *testing.T, d *desk, p *Published, o *VerifyOptions)
		want   error
	}{
		"wrong key": {func(t *testing.T, _ *desk, _ *Published, o *VerifyOptions) { o.Key = newSigner(t).Key() }, ErrWrongKey},
		"unsigned": {func(_ *testing.T, d *desk, p *Published, _ *VerifyOptions) {
			d.answer("/manifests/"+p.Digest.attached("sig"), gone)
		}, ErrUnsigned},
		"an empty list of signatures": {func(t *testing.T, d *desk, p *Published, _ *VerifyOptions) {
			d.answer("/manifests/"+p.Digest.attached("sig"), func(b []byte) []byte {
				var m v1.Manifest
				if err := json.Unmarshal(b, &m); err != nil {
					t.Fatal(err)
				}
				m.Layers = nil
				return mustJSON(t, m)
			})
		}, ErrUnsigned},
		"signed for another repository": {func(t *testing.T, d *desk, _ *Published, o *VerifyOptions) {
			// A whole repository copied to another name: everything holds but the name.
			you := Ref{Name: d.repo.Host() + "/you/hermes-sandbox"}
			o2 := d.options(imagesOf(t, "1.0.0"))
			o2.Repository = you
			p, err := d.client().Publish(t.Context(), o2)
			if err != nil {
				t.Fatal(err)
			}
			copySignature(t, d, p.Digest, you)
			o.Ref = you.WithDigest(p.Digest)
		}, ErrOtherRepository},
		"a tag moved to an unsigned index": {func(t *testing.T, d *desk, p *Published, _ *VerifyOptions) {
			m, err := d.manifest(t.Context(), d.repo.WithDigest(p.Digest))
			if err != nil {
				t.Fatal(err)
			}
			d.put(RollingTag, append(bytes.Clone(m.raw), '\n'), m.mediaType)
		}, ErrUnsigned},
		"a signature copied beside another index": {func(t *testing.T, d *desk, p *Published, _ *VerifyOptions) {
			m, err := d.manifest(t.Context(), d.repo.WithDigest(p.Digest))
			if err != nil {
				t.Fatal(err)
			}
			other := append(bytes.Clone(m.raw), '\n')
			d.put(RollingTag, other, m.mediaType)
			sig, err := d.manifest(t.Context(), d.repo.WithTag(p.Digest.attached("sig")))
			if err != nil {
				t.Fatal(err)
			}
			d.put(DigestOf(other).attached("sig"), sig.raw, sig.mediaType)
		}, ErrTampered},
		"the index's bytes": {func(_ *testing.T, d *desk, p *Published, o *VerifyOptions) {
			o.Ref = d.repo.WithDigest(p.Digest)
			d.answer("/manifests/"+string(p.Digest), flip)
		}, ErrTampered},
		"a manifest's bytes": {func(_ *testing.T, d *desk, p *Published, _ *VerifyOptions) {
			d.answer("/manifests/"+string(p.Images["linux/arm64"]), flip)
		}, ErrTampered},
		"a layer's bytes": {func(t *testing.T, d *desk, p *Published, _ *VerifyOptions) {
			d.answer("/blobs/"+string(layerOf(t, d, p.Images["linux/amd64"])), flip)
		}, ErrTampered},
		"a config's bytes": {func(t *testing.T, d *desk, p *Published, _ *VerifyOptions) {
			m, err := d.manifest(t.Context(), d.repo.WithDigest(p.Images["linux/amd64"]))
			if err != nil {
				t.Fatal(err)
			}
			var man v1.Manifest
			if err := json.Unmarshal(m.raw, &man); err != nil {
				t.Fatal(err)
			}
			d.answer("/blobs/"+man.Config.Digest.String(), flip)
		}, ErrTampered},
		"the signed payload's bytes": {func(t *testing.T, d *desk, p *Published, _ *VerifyOptions) {
			l, err := d.signatures(t.Context(), d.repo.WithTag(p.Digest.attached("sig")))
			if err != nil {
				t.Fatal(err)
			}
			d.answer("/blobs/"+l[0].Digest.String(), flip)
		}, ErrTampered},
		"the SBOM is gone": {func(t *testing.T, d *desk, p *Published, _ *VerifyOptions) {
			d.hide(t, p.Images["linux/amd64"])
		}, ErrNoSBOM},
		"another SBOM": {func(t *testing.T, d *desk, p *Published, _ *VerifyOptions) {
			dir, _ := makeLayout(t, release("1.0.0")...)
			for _, img := range load(t, dir) {
				if err := d.client().attach(t.Context(), d.repo, img, document{kindSBOM, img.Platform, SPDXType, []byte(`{"packages":[]}`)}); err != nil {
					t.Fatal(err)
				}
			}
			d.show(t, p.Images["linux/amd64"], DigestOf([]byte(`{"packages":[]}`)))
		}, ErrTampered},
		"the provenance is gone": {func(t *testing.T, d *desk, p *Published, _ *VerifyOptions) { d.hide(t, p.Digest) }, ErrNoProvenance},
		"provenance by another key": {func(t *testing.T, d *desk, p *Published, _ *VerifyOptions) {
			forge(t, d, p, newSigner(t), p.Digest)
		}, ErrWrongKey},
		"provenance of another image": {func(t *testing.T, d *desk, p *Published, _ *VerifyOptions) {
			forge(t, d, p, d.signer, DigestOf([]byte("another")))
		}, ErrTampered},
		"no index but one image": {func(t *testing.T, d *desk, p *Published, o *VerifyOptions) {
			img := p.Images["linux/amd64"]
			if err := d.client().putSignature(t.Context(), d.repo, img, d.signer); err != nil {
				t.Fatal(err)
			}
			o.Ref = d.repo.WithDigest(img)
		}, ErrNoIndex},
		"a platform that is wanted is missing": {func(_ *testing.T, _ *desk, _ *Published, o *VerifyOptions) {
			o.Platforms = append(Platforms(), "linux/riscv64")
		}, ErrIncomplete},
		"nothing there": {func(_ *testing.T, d *desk, _ *Published, o *VerifyOptions) { o.Ref = d.repo.WithTag("never") }, errNotFound},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			both(t, func(t *testing.T, d *desk) {
				p := d.publish("1.0.0", RollingTag)
				d.want(RollingTag)
				o := VerifyOptions{Ref: d.repo.WithTag(RollingTag), Key: d.signer.Key(), Blobs: true}
				tt.tamper(t, d, p, &o)
				_, err := d.client().Verify(t.Context(), o)
				if !errors.Is(err, tt.want) {
					t.Errorf("got %v, want %v", err, tt.want)
				}
				for _, other := range []error{ErrUnsigned, ErrWrongKey, ErrOtherRepository, ErrTampered, ErrNoSBOM, ErrNoProvenance, ErrNoIndex, ErrIncomplete} {
					if !errors.Is(other, tt.want) && errors.Is(err, other) {
						t.Errorf("%v is also %v", err, other)
					}
				}
			})
		})
	}
}

// copySignature puts the signature of a digest in the desk's repository, which must be for
// the same digest, beside another repository's.
func copySignature(t *testing.T, d *desk, digest Digest, to Ref) {
	t.Helper()
	data, err := payload(d.repo, digest)
	if err != nil {
		t.Fatal(err)
	}
	sig, err := d.signer.sign(data)
	if err != nil {
		t.Fatal(err)
	}
	a := artifact{layers: []artifactLayer{{simpleSigningType, data, map[string]string{signatureAnnotation: b64(sig)}}}}
	if err := d.client().putArtifact(t.Context(), to, a, digest.attached("sig")); err != nil {
		t.Fatal(err)
	}
}

// hide makes the registry list nothing that refers to a digest, by either way.
func (d *desk) hide(t *testing.T, digest Digest) {
	t.Helper()
	d.faults(func(_ int, w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet && (strings.HasSuffix(r.URL.Path, "/referrers/"+string(digest)) || strings.HasSuffix(r.URL.Path, "/manifests/sha256-"+digest.hex())) {
			w.Header().Set("Content-Type", imageIndexType)
			w.Write([]byte(`{"schemaVersion":2,"mediaType":"` + imageIndexType + `","manifests":[]}`))
			return true
		}
		return false
	})
}

// show makes the registry list, of what refers to a digest, only what has a layer.
func (d *desk) show(t *testing.T, digest, layer Digest) {
	t.Helper()
	d.faults(nil)
	list, err := d.client().attachments(t.Context(), d.repo, digest, SPDXType)
	if err != nil {
		t.Fatal(err)
	}
	index := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex}
	for _, a := range list {
		if Digest(a.layer.Digest.String()) == layer {
			m, err := d.manifest(t.Context(), d.repo.WithDigest(a.manifest))
			if err != nil {
				t.Fatal(err)
			}
			e := descriptor(imageManifestType, m.raw)
			e.ArtifactType = SPDXType
			index.Manifests = append(index.Manifests, e)
		}
	}
	if len(index.Manifests) != 1 {
		t.Fatalf("%d of %d have the layer", len(index.Manifests), len(list))
	}
	raw := mustJSON(t, index)
	d.faults(func(_ int, w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet && (strings.HasSuffix(r.URL.Path, "/referrers/"+string(digest)) || strings.HasSuffix(r.URL.Path, "/manifests/sha256-"+digest.hex())) {
			w.Header().Set("Content-Type", imageIndexType)
			w.Write(raw)
			return true
		}
		return false
	})
}

// forge replaces the provenance of an index by one of a signer about some digest.
func forge(t *testing.T, d *desk, p *Published, s *Signer, about Digest) {
	t.Helper()
	st := statement{Type: statementType, PredicateType: provenanceType, Subject: []resource{{Digest: sha(about)}}}
	sealed, err := s.seal(mustJSON(t, st))
	if err != nil {
		t.Fatal(err)
	}
	d.answer("/blobs/"+string(p.Provenance), func([]byte) []byte { return sealed })
	m, err := d.manifest(t.Context(), d.repo.WithDigest(p.Digest))
	if err != nil {
		t.Fatal(err)
	}
	d.faults(nil)
	if err := d.client().putProvenance(t.Context(), d.repo, rawManifest{m.raw, m.mediaType}, sealed); err != nil {
		t.Fatal(err)
	}
	// The real one is withheld.
	list, err := d.client().attachments(t.Context(), d.repo, p.Digest, dsseType)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(list, func(a attachment) bool { return Digest(a.layer.Digest.String()) == p.Provenance })
	d.answer("/manifests/"+string(list[i].manifest), gone)
}

// layerOf returns a layer of an image.
func layerOf(t *testing.T, d *desk, img Digest) Digest {
	t.Helper()
	m, err := d.manifest(t.Context(), d.repo.WithDigest(img))
	if err != nil {
		t.Fatal(err)
	}
	var man v1.Manifest
	if err := json.Unmarshal(m.raw, &man); err != nil {
		t.Fatal(err)
	}
	return Digest(man.Layers[0].Digest.String())
}

// TestVerifyAmongOthers: signatures, SBOMs and provenance that others added change nothing.
func TestVerifyAmongOthers(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, d *desk) {
		p := d.publish("1.0.0", RollingTag)
		before := d.want(RollingTag)
		stranger := newSigner(t)
		if err := d.client().putSignature(t.Context(), d.repo, p.Digest, stranger); err != nil {
			t.Fatal(err)
		}
		m, err := d.manifest(t.Context(), d.repo.WithDigest(p.Digest))
		if err != nil {
			t.Fatal(err)
		}
		sealed, err := stranger.seal([]byte(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		if err := d.client().putProvenance(t.Context(), d.repo, rawManifest{m.raw, m.mediaType}, sealed); err != nil {
			t.Fatal(err)
		}
		after := d.want(RollingTag)
		if after.Provenance != before.Provenance || !maps.Equal(after.SBOMs, before.SBOMs) {
			t.Errorf("was %+v, is %+v", before, after)
		}
		// And ours is put back beside theirs, not over it.
		if err := d.client().putSignature(t.Context(), d.repo, p.Digest, d.signer); err != nil {
			t.Fatal(err)
		}
		if l, err := d.signatures(t.Context(), d.repo.WithTag(p.Digest.attached("sig"))); err != nil || len(l) != 2 {
			t.Errorf("%d signatures, %v; want 2", len(l), err)
		}
		if _, err := d.client().Verify(t.Context(), VerifyOptions{Ref: d.repo.WithTag(RollingTag), Key: stranger.Key()}); !errors.Is(err, ErrNoProvenance) && !errors.Is(err, ErrWrongKey) {
			t.Errorf("by the stranger's key: %v", err)
		}
	})
}
