// SPDX-License-Identifier: MIT

package images

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

func TestParseRef(t *testing.T) {
	t.Parallel()
	d := string(DigestOf(nil))
	for in, want := range map[string]string{
		"nousresearch/hermes-sandbox":         "docker.io/nousresearch/hermes-sandbox",
		"nousresearch/hermes-sandbox:desktop": "docker.io/nousresearch/hermes-sandbox:desktop",
		"debian":                              "docker.io/library/debian",
		"index.docker.io/me/x:1":              "docker.io/me/x:1",
		"localhost:5000/me/x@" + d:            "localhost:5000/me/x@" + d,
		"localhost:5000/me/x:t@" + d:          "localhost:5000/me/x:t@" + d,
		"ghcr.io/a/b/c:v1.0.0-desktop":        "ghcr.io/a/b/c:v1.0.0-desktop",
		"":                                    "", "UPPER/x": "", "a b": "", "x:": "", "x@sha256:1": "", "x@sha512:" + strings.Repeat("0", 128): "", "https://x/y": "",
	} {
		r, err := ParseRef(in)
		if r.String() != want && err == nil || (err != nil) != (want == "") {
			t.Errorf("%q: got %q, %v; want %q", in, r, err, want)
		}
	}
	if _, err := ParseRepository("a/b:tag"); err == nil {
		t.Error("a repository with a tag")
	}
}

// FuzzParseRef: what is read once reads the same again.
func FuzzParseRef(f *testing.F) {
	for _, s := range []string{"a/b:c", "localhost:5000/x@" + string(DigestOf(nil)), "nousresearch/hermes-sandbox:desktop", "x:", "/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParseRef(s)
		if err != nil {
			return
		}
		again, err := ParseRef(r.String())
		if err != nil || again != r {
			t.Errorf("%q is %q, and that is %q, %v", s, r, again, err)
		}
		if r.Host() == "" || r.path() == "" || strings.ContainsAny(r.Tag, "/:@ ") {
			t.Errorf("%q is %+v", s, r)
		}
	})
}

// FuzzInventory: no package database or header makes it fail or name nothing.
func FuzzInventory(f *testing.F) {
	f.Add([]byte("Package: a\nStatus: install ok installed\nVersion: 1\n"))
	f.Add([]byte("\n\n\n: :\n x\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, c := range dpkg("p", data) {
			if c.Name == "" || c.Version == "" {
				t.Errorf("%+v of %q", c, data)
			}
		}
		distro(data)
	})
}

// FuzzEntries: any tar as a layer.
func FuzzEntries(f *testing.F) {
	f.Add(tarOf(f, []file{text("var/lib/dpkg/status", "Package: a"), {name: "a/.wh.b"}, {name: ".wh..wh..opq"}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		inv := newInventory()
		d := descriptor("application/vnd.oci.image.layer.v1.tar", data)
		if err := checkLayer(0, d, DigestOf(data), strings.NewReader(string(data)), inv.see); err == nil {
			inv.sum()
		}
	})
}

func TestParseProof(t *testing.T) {
	t.Parallel()
	d := string(DigestOf(nil))
	for in, want := range map[string]string{
		`{"schema":1,"digest":"` + d + `","verdict":"pass","stand_ins":[],"steps":[{}],"more":1}`: "",
		`{"schema":1,"digest":"` + d + `","verdict":"fail","stand_ins":["cua-driver"]}`:           "",
		`{"schema":2,"digest":"` + d + `","verdict":"pass","stand_ins":[]}`:                       "schema",
		`{"schema":1,"digest":"sha256:1","verdict":"pass","stand_ins":[]}`:                        "digest",
		`{"schema":1,"digest":"` + d + `","verdict":"pass"}`:                                      "stand_ins",
		`{"schema":1,"digest":"` + d + `","verdict":"pass","stand_ins":null}`:                     "stand_ins",
		`{`: "images smoke",
	} {
		p, err := ParseProof("r.json", []byte(in))
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "r.json")) {
			t.Errorf("%s: %+v, %v; want an error with %q", in, p, err, want)
		}
		if err == nil && string(p.JSON) != in {
			t.Errorf("the report is not kept byte for byte: %s", p.JSON)
		}
	}
}

func TestLockMaterials(t *testing.T) {
	t.Parallel()
	lock := `{"base":{"ref":"docker.io/library/debian:13","digest":"sha256:` + strings.Repeat("1", 64) + `"},"apt":{"snapshot":"unresolved"},
"npm":{"@a/b":{"version":"1.0.0","integrity":"sha512-` + strings.Repeat("A", 86) + `=="}},
"cua_driver":{"version":"0.28.2","sha256":{"amd64":"` + strings.Repeat("2", 64) + `"}},"chromium":{"revision":"12","version":"153.0","sha256":{"arm64":"unresolved"}}}`
	list, unresolved, err := LockMaterials("images/lock.json", []byte(lock))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range list {
		got = append(got, m.Name+" "+m.URI+" "+m.Digest["sha256"]+m.Digest["sha512"])
	}
	want := []string{
		"lock images/lock.json " + DigestOf([]byte(lock)).hex(),
		"base docker.io/library/debian:13 " + strings.Repeat("1", 64),
		"npm @a/b pkg:npm/%40a/b@1.0.0 " + strings.Repeat("0", 128),
		"cua-driver amd64 pkg:generic/cua-driver@0.28.2?arch=amd64 " + strings.Repeat("2", 64),
	}
	if !slices.Equal(got, want) || !slices.Equal(unresolved, []string{"apt", "chromium arm64"}) {
		t.Errorf("got %q, unresolved %q\nwant %q", got, unresolved, want)
	}
	if _, _, err := LockMaterials("l", []byte(`{"npm":{"x":{"integrity":"sha1-x"}}}`)); err == nil {
		t.Error("a pin that is no sha512")
	}
}

// TestCredentials: what is handed in wins, then Docker's config, then nobody.
func TestCredentials(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	testkit.WriteTree(t, dir, map[string]string{"config.json": `{"auths":{"ghcr.io":{"auth":"` + b64([]byte("me:pw")) + `"},"https://index.docker.io/v1/":{"auth":"` + b64([]byte("hub:pw2")) + `"}}}`})
	for _, tt := range []struct {
		k          keychain
		repo, want string
	}{
		{keychain{dir: dir}, "ghcr.io/a/b", "me:pw"},
		{keychain{dir: dir}, "docker.io/a/b", "hub:pw2"},
		{keychain{dir: dir}, "quay.io/a/b", ":"},
		{keychain{Auth{"you", "pw3"}, dir}, "ghcr.io/a/b", "you:pw3"},
		{keychain{}, "ghcr.io/a/b", ":"},
		{keychain{dir: filepath.Join(dir, "none")}, "ghcr.io/a/b", ":"},
	} {
		repo, err := name.NewRepository(tt.repo)
		if err != nil {
			t.Fatal(err)
		}
		a, err := tt.k.Resolve(repo)
		if err != nil {
			t.Fatal(err)
		}
		c, err := authn.Authorization(t.Context(), a)
		if err != nil || c.Username+":"+c.Password != tt.want {
			t.Errorf("%s: got %s:%s, %v; want %s", tt.repo, c.Username, c.Password, err, tt.want)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	repo, err := name.NewRepository("ghcr.io/a/b")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (keychain{dir: dir}).Resolve(repo); err == nil {
		t.Error("a broken config was taken for none")
	}
}
