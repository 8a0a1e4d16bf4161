// SPDX-License-Identifier: MIT

package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// guarded is an MCP server that wants a login, and the provider that makes it.
func guarded(t *testing.T) *httptest.Server {
	t.Helper()
	var srv *httptest.Server
	srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		say := func(status int, format string, args ...any) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			fmt.Fprintf(w, format, args...)
		}
		switch r.URL.Path {
		case "/.well-known/oauth-authorization-server":
			say(200, `{"issuer":%q,"authorization_endpoint":%q,"token_endpoint":%q,"registration_endpoint":%q,"code_challenge_methods_supported":["S256"],"response_types_supported":["code"]}`,
				srv.URL, srv.URL+"/authorize", srv.URL+"/token", srv.URL+"/register")
		case "/register":
			say(201, `{"client_id":"me","redirect_uris":[],"token_endpoint_auth_method":"none"}`)
		case "/authorize":
			q := r.URL.Query()
			http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"code": {"c"}, "state": {q.Get("state")}}.Encode(), http.StatusFound)
		case "/token":
			say(200, `{"access_token":"secret-access","refresh_token":"secret-refresh","token_type":"Bearer","expires_in":60}`)
		case "/mcp":
			var m struct {
				ID     json.RawMessage
				Method string
			}
			body, _ := io.ReadAll(r.Body)
			switch err := json.Unmarshal(body, &m); {
			case r.Header.Get("Authorization") != "Bearer secret-access":
				say(401, "{}")
			case err != nil || r.Method != http.MethodPost:
				say(405, "{}")
			case m.Method == "initialize":
				say(200, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"p","version":"1"}}}`, m.ID)
			case m.Method == "tools/list":
				say(200, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"look","inputSchema":{"type":"object"}}]}}`, m.ID)
			default:
				say(202, "")
			}
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(srv.Close)
	return srv
}

// TestMCPLogin: the command prints the address, takes what the browser ended on, keeps the login
// in the profile that was named, and prints no token.
func TestMCPLogin(t *testing.T) {
	t.Parallel()
	srv := guarded(t)
	dir := t.TempDir()
	entries := "_config_version: 50\nmcp_servers:\n  notes: {url: '" + srv.URL + "/mcp', auth: oauth}\n  open: {url: '" + srv.URL + "/mcp'}\n  wrong: {url: '" + srv.URL + "/mcp', auth: basic}\n"
	testkit.WriteTree(t, dir, map[string]string{"config.yaml": "_config_version: 50\n", "profiles/work/config.yaml": entries})
	run := func(in io.Reader, server string) (exitcode.Code, string) {
		r, w := io.Pipe()
		var out bytes.Buffer
		code := make(chan exitcode.Code, 1)
		go func() {
			env := Env{Stdin: in, Stdout: &out, Stderr: w, Getenv: func(string) string { return "" }, Now: time.Now}
			code <- Main(t.Context(), []string{"mcp", "login", server, "--home", dir, "--profile", "work"}, env)
			w.Close()
		}()
		if server != "notes" {
			text, _ := io.ReadAll(r)
			return <-code, string(text)
		}
		typed := in.(*typing)
		var seen strings.Builder
		for s := bufio.NewScanner(r); s.Scan(); {
			seen.WriteString(s.Text() + "\n")
			if address := strings.TrimSpace(s.Text()); strings.HasPrefix(address, srv.URL+"/authorize") {
				c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
				resp, err := c.Get(address)
				if err != nil {
					t.Error(err)
					break
				}
				resp.Body.Close()
				typed.lines <- "what is this\n"
				typed.lines <- resp.Header.Get("Location") + "\n"
			}
		}
		return <-code, seen.String() + out.String()
	}
	code, text := run(&typing{lines: make(chan string, 2)}, "notes")
	if code != exitcode.OK || !strings.Contains(text, "paste it here") || !strings.Contains(text, "not the address") || !strings.Contains(text, "work: logged in to notes, which offers 1 tools") {
		t.Errorf("%d: %s", code, text)
	}
	if strings.Contains(text, "secret-") {
		t.Errorf("a token is printed: %s", text)
	}
	at := filepath.Join(dir, "profiles", "work", "mcp-tokens", "notes.json")
	if data, err := os.ReadFile(at); err != nil || !strings.Contains(string(data), "secret-refresh") {
		t.Errorf("%s: %v", data, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "mcp-tokens")); err == nil {
		t.Error("the default profile has a login too")
	}
	for server, want := range map[string]string{"nobody": "has no mcp_servers.nobody", "open": "mcp_servers.open has no auth: oauth", "wrong": "mcp_servers.wrong.auth is \"basic\""} {
		if code, text := run(strings.NewReader(""), server); code != exitcode.Error || !strings.Contains(text, want) {
			t.Errorf("%s: %d: %s", server, code, text)
		}
	}
}

// typing is a terminal that somebody types at.
type typing struct {
	lines chan string
	rest  []byte
}

func (t *typing) Read(p []byte) (int, error) {
	if len(t.rest) == 0 {
		t.rest = []byte(<-t.lines)
	}
	n := copy(p, t.rest)
	t.rest = t.rest[n:]
	return n, nil
}
