// SPDX-License-Identifier: MIT

//go:build linux

package mcp

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// provider is an authorization server and the MCP server that it guards, in one.
type provider struct {
	*httptest.Server

	mu      sync.Mutex
	clients map[string][]string // registered, with their redirect addresses
	codes   map[string]url.Values
	access  map[string]bool // tokens that count
	refresh map[string]bool
	n       int
	grants  []string // grant types that were asked for
	broken  bool     // no token counts
	auths   []string // Authorization headers that the MCP server got
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	p := &provider{clients: map[string][]string{}, codes: map[string]url.Values{}, access: map[string]bool{}, refresh: map[string]bool{}}
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, status int, v any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		json.NewEncoder(w).Encode(v)
	}
	mux.HandleFunc("/.well-known/oauth-protected-resource/mcp", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, fields{"resource": p.URL + "/mcp", "authorization_servers": []string{p.URL}})
	})
	mux.HandleFunc("/.well-known/oauth-authorization-server", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, fields{
			"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "registration_endpoint": p.URL + "/register",
			"response_types_supported": []string{"code"}, "code_challenge_methods_supported": []string{"S256"}, "x_vendor": "kept",
		})
	})
	mux.HandleFunc("/register", func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			RedirectURIs []string `json:"redirect_uris"`
		}
		json.NewDecoder(r.Body).Decode(&m)
		p.mu.Lock()
		defer p.mu.Unlock()
		id := fmt.Sprint("client-", len(p.clients))
		p.clients[id] = m.RedirectURIs
		answer(w, 201, fields{"client_id": id, "redirect_uris": m.RedirectURIs, "token_endpoint_auth_method": "none"})
	})
	mux.HandleFunc("/authorize", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.n++
		code := fmt.Sprint("code-", p.n)
		p.codes[code] = q
		http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"code": {code}, "state": {q.Get("state")}}.Encode(), http.StatusFound)
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) {
		r.ParseForm()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.grants = append(p.grants, r.Form.Get("grant_type"))
		switch r.Form.Get("grant_type") {
		case "authorization_code":
			q, ok := p.codes[r.Form.Get("code")]
			sum := sha256.Sum256([]byte(r.Form.Get("code_verifier")))
			if !ok || q.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) || r.Form.Get("client_id") != q.Get("client_id") {
				answer(w, 400, fields{"error": "invalid_grant", "error_description": "canary-in-an-answer"})
				return
			}
		case "refresh_token":
			if !p.refresh[r.Form.Get("refresh_token")] {
				answer(w, 400, fields{"error": "invalid_grant", "error_description": "canary-in-an-answer"})
				return
			}
			delete(p.refresh, r.Form.Get("refresh_token")) // it is rotated
		}
		p.n++
		access, refresh := fmt.Sprint("secret-access-", p.n), fmt.Sprint("secret-refresh-", p.n)
		p.access[access], p.refresh[refresh] = !p.broken, true
		answer(w, 200, fields{"access_token": access, "refresh_token": refresh, "token_type": "Bearer", "expires_in": 3600, "scope": "all"})
	})
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.auths = append(p.auths, r.Header.Get("Authorization"))
		if !p.access[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")] {
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+p.URL+`/.well-known/oauth-protected-resource/mcp"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		var m frame
		body, _ := io.ReadAll(r.Body)
		if r.Method != http.MethodPost || json.Unmarshal(body, &m) != nil {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		switch m.Method {
		case "initialize":
			answer(w, 200, fields{"jsonrpc": "2.0", "id": m.ID, "result": fields{"protocolVersion": "2025-11-25", "capabilities": fields{"tools": fields{}}, "serverInfo": fields{"name": "p", "version": "1"}}})
		case "tools/list":
			answer(w, 200, fields{"jsonrpc": "2.0", "id": m.ID, "result": fields{"tools": []any{fields{"name": "look", "inputSchema": fields{"type": "object"}}}}})
		case "tools/call":
			answer(w, 200, fields{"jsonrpc": "2.0", "id": m.ID, "result": fields{"content": []any{fields{"type": "text", "text": "seen"}}}})
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	})
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	return p
}

func (p *provider) server() Server {
	list, problems := Parse(fields{"my server": fields{"url": p.URL + "/mcp", "auth": "oauth"}})
	if len(list) != 1 || len(problems) > 0 {
		panic(fmt.Sprint(list, problems))
	}
	return list[0]
}

// revoke makes every access token worthless, refreshToo every refresh token.
func (p *provider) revoke(refreshToo bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.access = map[string]bool{}
	if refreshToo {
		p.refresh = map[string]bool{}
	}
}

// browse opens an address as a browser does and returns where it ended.
func browse(t *testing.T, address string, follow bool) string {
	t.Helper()
	c := &http.Client{}
	if !follow {
		c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	}
	resp, err := c.Get(address)
	if err != nil {
		t.Error(err)
		return ""
	}
	resp.Body.Close()
	return resp.Header.Get("Location")
}

// TestOAuthLogin: a person logs in by a browser of this machine, or of another one by pasting
// the address; the login is kept where upstream keeps it, for the owner alone; a host uses it, renews it,
// keeps what it does not know in its files, and says what to do when it has no longer one.
func TestOAuthLogin(t *testing.T) {
	t.Parallel()
	for _, remote := range []bool{false, true} {
		t.Run(fmt.Sprint("remote ", remote), func(t *testing.T) {
			t.Parallel()
			p := newProvider(t)
			dir := filepath.Join(t.TempDir(), "mcp-tokens")
			pasted := make(chan string, 2)
			var said []string
			var browser sync.WaitGroup
			tools, err := LogIn(soon(t), Login{
				Server: p.server(), Tokens: dir, Version: "test", Pasted: pasted, Say: func(s string) { said = append(said, s) },
				Show: func(address, ends string) {
					if !remote {
						browse(t, ends+"?code=evil&state=guessed", true) // any page can send that
						browser.Go(func() { browse(t, address, true) })
						return
					}
					pasted <- "http://127.0.0.1:1/callback?code=evil&state=other"
					pasted <- " " + browse(t, address, false) + "\n"
				},
			})
			browser.Wait()
			if err != nil || tools != 1 || (len(said) == 1) != remote {
				t.Fatal(tools, err, said)
			}
			var kept map[string]any
			for name, want := range map[string]string{
				"my_server.json": "secret-refresh-", "my_server.client.json": "client-0", "my_server.meta.json": `"x_vendor": "kept"`,
			} {
				info, err := os.Stat(filepath.Join(dir, name))
				if err != nil || info.Mode().Perm() != 0o600 {
					t.Errorf("%s: %v, %v", name, info, err)
				}
				data, _ := os.ReadFile(filepath.Join(dir, name))
				has(t, string(data), want)
				if name == "my_server.json" {
					json.Unmarshal(data, &kept)
				}
			}
			if kept["hermes_issuer"] != p.URL || kept["expires_at"] == nil {
				t.Errorf("%v", kept)
			}
		})
	}
}

// worldOf is a host whose profile has these files of a login.
func worldOf(t *testing.T, p *provider, files map[string]string) (*world, string) {
	t.Helper()
	w := newWorld(t, once)
	dir := filepath.Join(w.dir, "mcp-tokens")
	testkit.WriteTree(t, dir, files)
	pr := w.profile("a")
	pr.Tokens, pr.Login = dir, "hermes-appliance mcp login"
	w.profiles["a"] = pr
	return w, dir
}

func (p *provider) meta() string {
	return `{"issuer": "` + p.URL + `", "token_endpoint": "` + p.URL + `/token", "authorization_endpoint": "` + p.URL + `/authorize"}`
}

// TestOAuthRuntime: the host uses upstream's files of a login.
func TestOAuthRuntime(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	p.access["upstream-access"], p.refresh["upstream-refresh"] = true, true
	token := func(more string) string {
		return `{"access_token": "upstream-access", "refresh_token": "upstream-refresh", "token_type": "Bearer", "x_unknown": {"a": 12345678901234567890}` + more + `}`
	}
	w, dir := worldOf(t, p, map[string]string{
		"my_server.json": token(fmt.Sprintf(`, "expires_at": %d.5`, time.Now().Add(time.Hour).Unix())), "my_server.client.json": `{"client_id": "client-9"}`, "my_server.meta.json": p.meta(),
	})
	w.apply("a", p.server())
	equal(t, "tools", w.tools("a"), []string{"mcp__my_server__look"})
	has(t, w.call("a", "mcp__my_server__look"), "seen")
	if len(p.grants) != 0 {
		t.Errorf("a token that counts was renewed: %v", p.grants)
	}
	// The server takes the token no longer: it is renewed, and the call goes on.
	p.revoke(false)
	has(t, w.call("a", "mcp__my_server__look"), "seen")
	data, err := os.ReadFile(filepath.Join(dir, "my_server.json"))
	if err != nil {
		t.Fatal(err)
	}
	has(t, string(data), "secret-access-", "secret-refresh-", `"a": 12345678901234567890`)
	hasNot(t, string(data), "upstream-")
	equal(t, "grants", p.grants, []string{"refresh_token"})
	// Another program renews it: that one's counts.
	p.revoke(true)
	p.access["theirs"] = true
	testkit.WriteTree(t, dir, map[string]string{"my_server.json": `{"access_token": "theirs", "token_type": "Bearer"}`})
	has(t, w.call("a", "mcp__my_server__look"), "seen")
	equal(t, "grants", p.grants, []string{"refresh_token"})
	hasNot(t, w.log.String(), "secret-", "upstream-", "theirs")
}

// TestOAuthRefusals: without a login that counts the host says which command makes one, and
// sends nothing that it must not.
func TestOAuthRefusals(t *testing.T) {
	t.Parallel()
	old := `{"access_token": "gone-access", "refresh_token": "gone-refresh", "expires_at": 1`
	for name, c := range map[string]struct {
		files map[string]string
		want  string
		sent  bool // to the token endpoint
	}{
		"none":           {nil, "nobody has logged in", false},
		"broken":         {map[string]string{"my_server.json": `{"access_token": "gone`}, "my_server.json is no JSON object", false},
		"no refresh":     {map[string]string{"my_server.json": `{"access_token": "gone", "expires_at": 1}`}, "has run out", false},
		"no metadata":    {map[string]string{"my_server.json": old + "}"}, "nothing says where", false},
		"no client":      {map[string]string{"my_server.json": old + "}", "my_server.meta.json": "META"}, "nothing says as whom", false},
		"another issuer": {map[string]string{"my_server.json": old + `, "hermes_issuer": "https://other.example"}`, "my_server.client.json": `{"client_id": "c"}`, "my_server.meta.json": "META"}, "another provider", false},
		"clear text":     {map[string]string{"my_server.json": old + "}", "my_server.client.json": `{"client_id": "c"}`, "my_server.meta.json": `{"token_endpoint": "http://provider.example/token"}`}, "without encryption", false},
		"revoked":        {map[string]string{"my_server.json": old + "}", "my_server.client.json": `{"client_id": "c"}`, "my_server.meta.json": "META"}, "not valid any more (invalid_grant)", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProvider(t)
			for k, v := range c.files {
				c.files[k] = strings.ReplaceAll(v, "META", p.meta())
			}
			w, dir := worldOf(t, p, c.files)
			w.apply("a", p.server())
			w.tools("a")
			st := w.status("a", "my server")
			has(t, st.Error, c.want, "log in with: hermes-appliance mcp login 'my server'")
			hasNot(t, st.Error+w.log.String(), "gone-", "canary")
			if got := len(p.grants) > 0; got != c.sent {
				t.Errorf("asked for %v", p.grants)
			}
			for k, v := range c.files {
				if data, err := os.ReadFile(filepath.Join(dir, k)); err != nil || string(data) != v {
					t.Errorf("%s: %q, %v", k, data, err)
				}
			}
		})
	}
}

// TestOAuthSpent: a server that refuses even a renewed login is not asked without end.
func TestOAuthSpent(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	p.refresh["r"], p.broken = true, true
	w, _ := worldOf(t, p, map[string]string{
		"my_server.json": `{"access_token": "x", "refresh_token": "r"}`, "my_server.client.json": `{"client_id": "c"}`, "my_server.meta.json": p.meta(),
	})
	w.apply("a", p.server())
	w.tools("a")
	has(t, w.status("a", "my server").Error, "refuses a login that was just renewed", "log in with")
	equal(t, "grants", p.grants, []string{"refresh_token"})
}

// TestOAuthLoginFails: a login that comes to nothing leaves what was there.
func TestOAuthLoginFails(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	dir := filepath.Join(t.TempDir(), "mcp-tokens")
	before := map[string]string{"my_server.json": `{"access_token": "old"}`}
	testkit.WriteTree(t, dir, before)
	login := func(change func(*Login), answer string) error {
		pasted := make(chan string, 1)
		l := Login{Server: p.server(), Tokens: dir, Pasted: pasted, Say: func(string) {}, Show: func(address, _ string) {
			u, _ := url.Parse(address)
			pasted <- "?" + answer + "&state=" + u.Query().Get("state")
		}}
		if change != nil {
			change(&l)
		}
		_, err := LogIn(soon(t), l)
		return err
	}
	slow := func(l *Login) {
		o := *l.Server.OAuth
		o.Timeout = time.Millisecond
		l.Server.OAuth, l.Show = &o, func(string, string) {}
	}
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"refused":    {login(nil, "error=access_denied"), `"access_denied"`},
		"wrong code": {login(nil, "code=made-up"), "HTTP 400 invalid_grant"},
		"nobody":     {login(slow, ""), "nobody logged in within 1ms"},
		"no oauth":   {login(func(l *Login) { l.Server.OAuth = nil }, ""), "has no auth: oauth"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) || strings.Contains(c.err.Error(), "canary") {
			t.Errorf("%s: %v, want %s", name, c.err, c.want)
		}
	}
	open := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("Authorization", "Bearer anything")
		p.mu.Lock()
		p.access["anything"] = true
		p.mu.Unlock()
		p.Config.Handler.ServeHTTP(w, r)
	}))
	defer open.Close()
	if err := login(func(l *Login) { l.Server.URL = open.URL + "/mcp" }, ""); !errors.Is(err, ErrNoLogin) {
		t.Errorf("a server that wants no login: %v", err)
	}
	if got := testkit.ReadTree(t, dir); len(got) != 1 || got["my_server.json"] != before["my_server.json"] {
		t.Errorf("left %v", got)
	}
}

// TestOAuthParse: what cannot be meant is refused, with its key.
func TestOAuthParse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in   fields
		want string
	}{
		"command":   {fields{"a": fields{"command": "c", "auth": "oauth"}}, "mcp_servers.a.auth is for servers with a url"},
		"one login": {fields{"a b": fields{"url": "https://x", "auth": "oauth"}, "a.b": fields{"url": "https://y", "auth": "oauth"}}, "mcp_servers.a.b.auth would share the login of mcp_servers.a b"},
		"secret":    {fields{"a": fields{"url": "https://x", "auth": "oauth", "oauth": fields{"client_secret": "s"}}}, "mcp_servers.a.oauth.client_secret needs a client_id"},
		"port":      {fields{"a": fields{"url": "https://x", "auth": "oauth", "oauth": fields{"redirect_port": "high"}}}, "mcp_servers.a.oauth.redirect_port is no whole number"},
		"device":    {fields{"a": fields{"url": "https://x", "auth": "oauth", "oauth": fields{"flow": "device"}}}, "mcp_servers.a.oauth.flow device is not supported"},
		"unknown":   {fields{"a": fields{"url": "https://x", "auth": "oauth", "oauth": fields{"clientid": "s"}}}, "mcp_servers.a.oauth.clientid is not known"},
	} {
		_, problems := Parse(c.in)
		if len(problems) != 1 || !strings.Contains(problems[0].Error(), c.want) {
			t.Errorf("%s: %v", name, problems)
		}
	}
	for in, want := range map[string]string{"a.b c": "a_b_c", "_x_": "x", "日本-1": "日本-1", "..": "default", strings.Repeat("n", 200): strings.Repeat("n", 128)} {
		if got := tokenName(in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}
