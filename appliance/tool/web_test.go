// SPDX-License-Identifier: MIT

package tool

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

func TestPublic(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]bool{
		"8.8.8.8": true, "93.184.216.34": true, "2606:4700::1111": true, "64:ff9b::808:808": true,
		"127.0.0.1": false, "127.8.8.8": false, "0.0.0.0": false, "0.1.2.3": false, "10.0.0.1": false, "172.16.0.1": false, "172.31.255.255": false, "192.168.1.1": false,
		"169.254.169.254": false, "100.64.0.1": false, "100.127.255.255": false, "192.0.0.192": false, "198.18.0.1": false, "224.0.0.1": false, "240.0.0.1": false, "255.255.255.255": false,
		"203.0.113.5": false, "::1": false, "::": false, "fe80::1": false, "fc00::1": false, "fd00:ec2::254": false, "ff02::1": false, "::ffff:127.0.0.1": false, "::ffff:10.0.0.1": false,
		"::127.0.0.1": false, "::ffff:100.64.0.1": false, "::ffff:198.18.0.1": false, "2001:db8::1%eth0": false, "64:ff9b::7f00:1": false, "64:ff9b::a9fe:a9fe": false, "64:ff9b:1::1": false, "2002:7f00:1::": false, "2001::1": false, "2001:db8::1": false, "fec0::1": false,
		"::ffff:8.8.8.8": true, "172.32.0.1": true, "100.128.0.1": true,
	} {
		if got := public(netip.MustParseAddr(addr)); got != want {
			t.Errorf("public(%s) = %v", addr, got)
		}
	}
}

func extract(t *testing.T, w *Web, urls ...string) []map[string]any {
	t.Helper()
	args, err := json.Marshal(map[string]any{"urls": urls})
	if err != nil {
		t.Fatal(err)
	}
	tl := w.Tool()
	tl.MaxChars = -1
	var out []map[string]any
	for _, p := range call(t, tl, string(args))["results"].([]any) {
		out = append(out, p.(map[string]any))
	}
	return out
}

// site is a server of which the guard knows that it counts as public.
func site(t *testing.T, h http.Handler) (url string, allow func(netip.AddrPort) bool) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	at := netip.MustParseAddrPort(s.Listener.Addr().String())
	return s.URL, func(a netip.AddrPort) bool { return a == at }
}

// TestWebRefusesInternal: a real server on this machine is not reached, by whatever spelling.
func TestWebRefusesInternal(t *testing.T) {
	t.Parallel()
	var hits atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		hits.Add(1)
		fmt.Fprint(w, "SECRET")
	}))
	t.Cleanup(s.Close)
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	w := &Web{}
	for _, host := range []string{"127.0.0.1", "localhost", "localhost.", "0.0.0.0", "[::ffff:127.0.0.1]", "[::1]", "127.1.2.3", "[::ffff:7f00:1]"} {
		r := extract(t, w, "http://"+host+":"+port+"/")[0]
		if r["error"] == nil || strings.Contains(fmt.Sprint(r), "SECRET") {
			t.Errorf("%s: %v", host, r)
		}
	}
	for _, u := range []string{"file:///etc/passwd", "ftp://example.org/", "gopher://127.0.0.1/", "http://", "javascript:alert(1)", "http://user:pw@" + s.Listener.Addr().String(), "/etc/passwd", "http://[::1%25lo]:" + port} {
		if r := extract(t, w, u)[0]; r["error"] == nil {
			t.Errorf("%s: %v", u, r)
		}
	}
	if n := hits.Load(); n != 0 {
		t.Errorf("the server was reached %d times", n)
	}
	if r := extract(t, &Web{AllowPrivate: true}, s.URL)[0]; r["content"] != "SECRET" {
		t.Errorf("with allow_private_urls: %v", r)
	}
}

// TestWebMetadata: no setting opens the services that hand out a machine's credentials.
func TestWebMetadata(t *testing.T) {
	t.Parallel()
	w := &Web{AllowPrivate: true}
	for _, host := range []string{"169.254.169.254", "169.254.170.2", "[::ffff:169.254.169.254]", "[64:ff9b::a9fe:a9fe]", "[fd00:ec2::254]", "[fd20:ce::254]", "100.100.100.200", "168.63.129.16"} {
		if r := extract(t, w, "http://"+host+"/latest/meta-data/")[0]; !strings.Contains(fmt.Sprint(r["error"]), "refused: the address belongs to a cloud's metadata service") {
			t.Errorf("%s: %v", host, r)
		}
	}
}

// TestWebRedirects: each step is judged anew.
func TestWebRedirects(t *testing.T) {
	t.Parallel()
	var hits atomic.Int32
	inner := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		hits.Add(1)
		fmt.Fprint(w, "SECRET")
	}))
	t.Cleanup(inner.Close)
	mux := http.NewServeMux()
	url, allow := site(t, mux)
	for path, to := range map[string]string{
		"/inner": inner.URL, "/meta": "http://169.254.169.254/latest/", "/file": "file:///etc/passwd", "/login": strings.Replace(url, "http://", "http://a:b@", 1) + "/fine", "/ok": "/fine", "/loop": "/loop",
	} {
		mux.Handle(path, http.RedirectHandler(to, http.StatusFound))
	}
	mux.HandleFunc("/fine", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "fine") })
	w := &Web{allow: allow}
	for path, want := range map[string]string{"/inner": "refused", "/meta": "refused", "/file": "only http", "/login": "user name", "/loop": "redirects", "/ok": ""} {
		r := extract(t, w, url+path)[0]
		if want == "" {
			if r["content"] != "fine" {
				t.Errorf("%s: %v", path, r)
			}
			continue
		}
		if text, _ := r["error"].(string); !strings.Contains(text, want) || r["content"] != "" {
			t.Errorf("%s: %v, want %q", path, r, want)
		}
	}
	if hits.Load() != 0 {
		t.Error("a redirect reached the inner server")
	}
}

// names is a DNS server whose answers change: public first, then this machine.
func names(t *testing.T, answers ...string) *net.Resolver {
	t.Helper()
	conn, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	var n atomic.Int32
	go func() {
		buf := make([]byte, 1500)
		for {
			size, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buf[:size]) != nil || len(m.Questions) != 1 {
				continue
			}
			m.Response, m.Additionals = true, nil
			if m.Questions[0].Type == dnsmessage.TypeA {
				a := netip.MustParseAddr(answers[min(int(n.Add(1)), len(answers))-1]).As4()
				m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Class: dnsmessage.ClassINET}, Body: &dnsmessage.AResource{A: a}}}
			}
			if out, err := m.Pack(); err == nil {
				_, _ = conn.WriteTo(out, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// TestWebRebinding: a name that means a public address at first and this machine at the next
// lookup is refused where it is dialled.
func TestWebRebinding(t *testing.T) {
	t.Parallel()
	var hits atomic.Int32
	inner := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	t.Cleanup(inner.Close)
	port := netip.MustParseAddrPort(inner.Listener.Addr().String()).Port()
	mux := http.NewServeMux()
	outer := httptest.NewServer(mux)
	t.Cleanup(outer.Close)
	outerAt := netip.MustParseAddrPort(outer.Listener.Addr().String())
	mux.Handle("/", http.RedirectHandler(fmt.Sprintf("http://rebind.test:%d/", port), http.StatusFound))
	w := &Web{Resolver: names(t, "127.0.0.1"), allow: func(a netip.AddrPort) bool { return a == outerAt }}
	for _, u := range []string{fmt.Sprintf("http://rebind.test:%d/", port), fmt.Sprintf("http://rebind.test:%d/", outerAt.Port())} {
		r := extract(t, w, u)[0]
		if text, _ := r["error"].(string); !strings.Contains(text, "refused") {
			t.Errorf("%s: %v", u, r)
		}
	}
	if hits.Load() != 0 {
		t.Error("the inner server was reached")
	}
}

func TestWebExtract(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	url, allow := site(t, mux)
	serve := func(path, kind, body string) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			fmt.Fprint(w, body)
		})
	}
	serve("/page", "text/html; charset=utf-8", `<html><head><title> A  page </title><style>x{}</style></head><body><nav>menu</nav><main><h1>Head</h1><p>Some <b>bold</b> text with a <a href="/x">link</a>.</p>
<table><tr><th>a</th></tr><tr><td>1</td></tr></table><ul><li>one</li></ul><pre><code>x := 1</code></pre><script>alert(1)</script><p hidden>unseen</p><p style="display: none">injected</p></main><footer>foot</footer></body></html>`)
	serve("/latin", "text/html; charset=iso-8859-1", "<p>gr\xfc\xdfe</p>")
	serve("/json", "application/json", `{"a":1}`)
	serve("/pdf", "application/pdf", "%PDF")
	serve("/long", "text/plain", strings.Repeat("x", maxPageChars+10))
	serve("/deep", "text/html", strings.Repeat("<div>", 20_000)+"deep")
	mux.HandleFunc("/bomb", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Content-Type", "text/plain")
		z := gzip.NewWriter(w)
		for range 64 {
			_, _ = z.Write(make([]byte, 1<<20))
		}
		_ = z.Close()
	})
	mux.HandleFunc("/missing", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "not here", http.StatusNotFound) })
	w := &Web{allow: allow, Redact: func(s string) string { return strings.ReplaceAll(s, "topsecret", "***") }}
	r := extract(t, w, url+"/page", url+"/latin", url+"/json", url+"/pdf", url+"/missing")
	page := r[0]["content"].(string)
	for _, want := range []string{"# Head", "**bold**", "](" + url + "/x)", "- one", "```\nx := 1\n```"} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not in\n%s", want, page)
		}
	}
	for _, no := range []string{"menu", "foot", "alert", "unseen", "injected"} {
		if strings.Contains(page, no) {
			t.Errorf("%q is in\n%s", no, page)
		}
	}
	if r[0]["title"] != "A page" || r[1]["content"] != "grüße" || r[2]["content"] != `{"a":1}` {
		t.Errorf("%v", r)
	}
	for i, want := range map[int]string{3: "no text", 4: "404"} {
		if text, _ := r[i]["error"].(string); !strings.Contains(text, want) {
			t.Errorf("%v, want %q", r[i], want)
		}
	}
	r = extract(t, w, url+"/long", url+"/deep", url+"/bomb", url+"/page?q=topsecret", url+"/page?q=top%73ecret")
	if n := len(r[0]["content"].(string)); n > maxPageChars+100 {
		t.Errorf("%d characters", n)
	}
	if n := len([]rune(r[2]["content"].(string))); n > maxPageChars+100 {
		t.Errorf("a bomb became %d characters", n)
	}
	for _, i := range []int{3, 4} {
		if text, _ := r[i]["error"].(string); !strings.Contains(text, "credential") {
			t.Errorf("%v", r[i])
		}
	}
	if got := call(t, w.Tool(), `{"urls":["a","b","c","d","e","f"]}`); got["error"] == nil {
		t.Errorf("six: %v", got)
	}
}
