// SPDX-License-Identifier: MIT

package images

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
)

// upstream answers in the place of the hosts that a build fetches from.
type upstream struct {
	asked atomic.Int32
	last  atomic.Value // the URL
	cut   atomic.Bool  // answer with less than was announced
}

func (u *upstream) RoundTrip(r *http.Request) (*http.Response, error) {
	u.asked.Add(1)
	u.last.Store(r.URL.String())
	body := "content of " + r.URL.Path
	res := &http.Response{StatusCode: http.StatusOK, Status: "200 OK", Header: http.Header{}, ContentLength: int64(len(body)), Request: r}
	if strings.Contains(r.URL.Path, "absent") {
		res.StatusCode, res.Status = http.StatusNotFound, "404 Not Found"
	}
	var content io.Reader = strings.NewReader(body)
	if u.cut.Load() {
		content = io.MultiReader(strings.NewReader(body[:3]), broken{})
	}
	res.Body = io.NopCloser(content)
	return res, nil
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("the line broke") }

func TestMirror(t *testing.T) {
	t.Parallel()
	u := &upstream{}
	dir := t.TempDir()
	m, err := newMirror(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	m.client.Transport = u
	proxy, err := url.Parse(m.addr)
	if err != nil {
		t.Fatal(err)
	}
	tr := &http.Transport{Proxy: http.ProxyURL(proxy), DisableKeepAlives: true}
	defer tr.CloseIdleConnections()
	get := func(address string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := (&http.Client{Transport: tr}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, _ := io.ReadAll(res.Body) // a cut body is an error here, and wanted
		return res.StatusCode, string(body)
	}
	kept := func() int {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	for _, c := range []struct {
		url   string
		cut   bool
		code  int
		asked int32 // how often upstream was asked by then
		kept  int
	}{
		{"http://deb.debian.org/debian/pool/a_1_amd64.deb", false, 200, 1, 1},
		{"http://deb.debian.org/debian/pool/a_1_amd64.deb", false, 200, 1, 1}, // from the directory
		{"http://deb.debian.org/debian/dists/trixie/InRelease", false, 200, 2, 1},
		{"http://deb.debian.org/debian/dists/trixie/InRelease", false, 200, 3, 1}, // changes, so it is not kept
		{"http://deb.debian.org/absent.deb", false, 404, 4, 1},
		{"http://deb.debian.org/debian/pool/b_1_amd64.deb", true, 200, 5, 1}, // not whole, so it is not kept
		{"http://deb.debian.org/debian/pool/b_1_amd64.deb", false, 200, 6, 2},
		{"http://registry.npmjs.org/npm/-/npm-1.tgz", false, 200, 7, 3},
		{"http://example.com/a.deb", false, 403, 7, 3}, // no open proxy
		{"http://127.0.0.1/a.deb", false, 403, 7, 3},
	} {
		u.cut.Store(c.cut)
		code, body := get(c.url)
		if code != c.code || u.asked.Load() != c.asked || kept() != c.kept {
			t.Errorf("%s (cut %v): code %d, asked %d, kept %d; want %d, %d, %d", c.url, c.cut, code, u.asked.Load(), kept(), c.code, c.asked, c.kept)
		}
		if code == 200 && !c.cut && !strings.HasPrefix(body, "content of /") {
			t.Errorf("%s: %q", c.url, body)
		}
	}
	if got := u.last.Load(); got != "https://registry.npmjs.org/npm/-/npm-1.tgz" {
		t.Errorf("npm was asked at %v, want over TLS", got)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}
