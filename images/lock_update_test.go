// SPDX-License-Identifier: MIT

package images

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// sources answers like npm, a registry that wants a token, Debian's snapshots, GitHub and
// Playwright. What is in down is out of reach.
func sources(t *testing.T, l Lock, down ...string) Sources {
	t.Helper()
	mux := http.NewServeMux()
	handle := func(pattern string, h http.HandlerFunc) {
		if !slices.ContainsFunc(down, func(d string) bool { return strings.Contains(pattern, d) }) {
			mux.HandleFunc(pattern, h)
		}
	}
	for name, p := range l.Npm {
		handle("GET /npm/"+name+"/"+p.Version, func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"name":%q,"dist":{"integrity":%q}}`, name, p.Integrity)
		})
	}
	handle("HEAD /archive/debian/{at}/dists/trixie/InRelease", func(w http.ResponseWriter, r *http.Request) {
		if at := r.PathValue("at"); at != "20261129T203015Z" {
			http.Redirect(w, r, strings.Replace(r.URL.Path, at, "20261129T203015Z", 1), http.StatusMovedPermanently)
		}
	})
	handle("GET /token", func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("scope") == "repository:library/debian:pull" && r.FormValue("service") == "registry" {
			fmt.Fprint(w, `{"token":"anybody"}`)
		}
	})
	handle("HEAD /v2/library/debian/manifests/13", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer anybody" {
			w.Header().Set("WWW-Authenticate", `Bearer realm="http://`+r.Host+`/token",service="registry",scope="repository:library/debian:pull"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", typeIndex)
		w.Header().Set("Docker-Content-Digest", "sha256:"+strings.Repeat("1", 64))
	})
	for _, arch := range Arches() {
		handle("GET "+l.Cua.path(arch), func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "cua "+arch) })
		handle("GET "+l.Chromium.path(arch), func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "chromium "+arch) })
	}
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return Sources{Client: srv.Client(), Npm: srv.URL + "/npm", Registry: srv.URL, Snapshot: srv.URL, GitHub: srv.URL, CDN: srv.URL}
}

// nothingKnown is the lock with every value unresolved that may be.
func nothingKnown(t *testing.T) (empty, full Lock) {
	t.Helper()
	full, _ = readLock(t)
	empty, _ = readLock(t)
	empty.Base.Digest, empty.Apt.Snapshot = Unresolved, Unresolved
	for name, p := range empty.Npm {
		empty.Npm[name] = NpmLock{p.Version, Unresolved}
	}
	empty.Cua.SHA256 = map[string]string{"amd64": Unresolved, "arm64": Unresolved}
	empty.Chromium.SHA256 = map[string]string{"amd64": Unresolved, "arm64": Unresolved}
	return empty, full
}

func TestUpdateLearnsEverything(t *testing.T) {
	t.Parallel()
	empty, full := nothingKnown(t)
	got, err := empty.Update(t.Context(), sources(t, full))
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Missing) > 0 || len(got.Lock.Unresolved()) > 0 {
		t.Errorf("missing %q, unresolved %q; want none", got.Missing, got.Lock.Unresolved())
	}
	l := got.Lock
	for what, c := range map[string][2]string{
		"base":     {l.Base.Digest, "sha256:" + strings.Repeat("1", 64)},
		"snapshot": {l.Apt.Snapshot, "20261129T203015Z"}, // where the server led, not what was asked
		"npm":      {l.Npm["npm"].Integrity, full.Npm["npm"].Integrity},
		"cua":      {l.Cua.SHA256["arm64"], strings.TrimPrefix(sumOf([]byte("cua arm64")), "sha256:")},
		"chromium": {l.Chromium.SHA256["amd64"], strings.TrimPrefix(sumOf([]byte("chromium amd64")), "sha256:")},
	} {
		if c[0] != c[1] {
			t.Errorf("%s: got %s, want %s", what, c[0], c[1])
		}
	}
	if empty.Npm["npm"].Integrity != Unresolved {
		t.Error("the update changed the lock it was given")
	}
}

// TestUpdateInventsNothing takes each source away in turn: exactly its values stay unresolved.
func TestUpdateInventsNothing(t *testing.T) {
	t.Parallel()
	empty, full := nothingKnown(t)
	for down, want := range map[string][]string{
		"manifests":  {"base.digest"},
		"/token":     {"base.digest"},
		"InRelease":  {"apt.snapshot"},
		"npm/npm/":   {"npm.npm.integrity"},
		"cua-driver": {"cua_driver.sha256.amd64", "cua_driver.sha256.arm64"},
		"linux64":    {"chromium.sha256.amd64"},
	} {
		got, err := empty.Update(t.Context(), sources(t, full, down))
		if err != nil {
			t.Fatal(err)
		}
		if missing := got.Lock.Unresolved(); !slices.Equal(missing, want) || len(got.Missing) != len(want) {
			t.Errorf("without %s: unresolved %q (%q), want %q", down, missing, got.Missing, want)
		}
	}
}

// TestUpdateRefusesAnotherTarball is a registry that has other bytes under a pinned version.
func TestUpdateRefusesAnotherTarball(t *testing.T) {
	t.Parallel()
	l, _ := readLock(t)
	moved, _ := readLock(t)
	moved.Npm["npm"] = NpmLock{l.Npm["npm"].Version, "sha512-" + base64.StdEncoding.EncodeToString(make([]byte, 64))}
	if _, err := l.Update(t.Context(), sources(t, moved)); !errors.Is(err, ErrPinned) {
		t.Errorf("got %v, want ErrPinned", err)
	}
}
