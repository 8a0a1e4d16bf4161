// SPDX-License-Identifier: MIT

//go:build linux

package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// serveHTTP runs a streamable HTTP server with a few tools.
func serveHTTP(t testing.TB, around func(http.Handler) http.Handler) string {
	t.Helper()
	url, _, _ := serveCancel(t, around)
	return url
}

// serveCancel also returns what says that a call of the tool wait is there, and was cancelled.
func serveCancel(t testing.TB, around func(http.Handler) http.Handler) (url string, called, cancelled chan struct{}) {
	t.Helper()
	called, cancelled = make(chan struct{}), make(chan struct{})
	server := sdk.NewServer(&sdk.Implementation{Name: "http", Version: "1"}, nil)
	type in struct {
		Text string `json:"text,omitempty"`
	}
	add := func(name string, f func(context.Context, *sdk.CallToolRequest, in) (string, error)) {
		sdk.AddTool(server, &sdk.Tool{Name: name}, func(ctx context.Context, r *sdk.CallToolRequest, i in) (*sdk.CallToolResult, any, error) {
			text, err := f(ctx, r, i)
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}, nil, err
		})
	}
	add("echo", func(_ context.Context, _ *sdk.CallToolRequest, i in) (string, error) { return i.Text, nil })
	add("auth", func(_ context.Context, r *sdk.CallToolRequest, _ in) (string, error) {
		return r.Extra.Header.Get("Authorization"), nil
	})
	add("huge", func(context.Context, *sdk.CallToolRequest, in) (string, error) {
		return strings.Repeat("h", maxFrame), nil
	})
	add("wait", func(ctx context.Context, _ *sdk.CallToolRequest, _ in) (string, error) {
		close(called)
		<-ctx.Done()
		close(cancelled)
		return "", ctx.Err()
	})
	var h http.Handler = sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil)
	if around != nil {
		h = around(h)
	}
	return serve(t, h), called, cancelled
}

// connKey is the key of a request's connection: its address may be another one's by and by.
type connKey struct{}

func serve(t testing.TB, h http.Handler) string {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) }
	s.Start()
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s.URL
}

func httpServer(name, url string, headers ...string) Server {
	s := fake(name)
	s.Command, s.Env, s.URL, s.Headers = "", nil, url, map[string]string{}
	for i := 0; i+1 < len(headers); i += 2 {
		s.Headers[headers[i]] = headers[i+1]
	}
	return s
}

func TestHTTP(t *testing.T) {
	t.Parallel()
	var deleted atomic.Int32
	url, called, cancelled := serveCancel(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodDelete {
				deleted.Add(1)
			}
			next.ServeHTTP(w, r)
		})
	})
	w := newWorld(t)
	w.apply("a", httpServer("h", url))
	equal(t, "tools", w.tools("a"), []string{"mcp__h__auth", "mcp__h__echo", "mcp__h__huge", "mcp__h__wait"})
	if got := w.call("a", "mcp__h__echo", "text", "x"); got != "x" {
		t.Errorf("got %q", got)
	}
	if st := w.status("a", "h"); st.Transport != "http" || st.State != Ready || st.PID != 0 {
		t.Errorf("got %+v", st)
	}
	ctx, cancel := context.WithCancel(soon(t))
	defer cancel()
	go func() {
		select {
		case <-called:
			cancel()
		case <-ctx.Done():
		}
	}()
	if _, err := w.host.Call(ctx, "a", "mcp__h__wait", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	select {
	case <-cancelled:
	case <-soon(t).Done():
		t.Fatal("the server was not told that the call is cancelled")
	}
	if err := w.host.Remove(soon(t), "a"); err != nil {
		t.Fatal(err)
	}
	if deleted.Load() != 1 {
		t.Errorf("the session was ended %d times", deleted.Load())
	}
}

// The server forgets its sessions: a call is made again, once, on a new one.
func TestHTTPSessionForgotten(t *testing.T) {
	t.Parallel()
	var forget atomic.Bool
	url := serveHTTP(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Mcp-Session-Id") != "" && r.Method == http.MethodPost && forget.CompareAndSwap(true, false) {
				http.Error(w, "session not found", http.StatusNotFound)
				return
			}
			next.ServeHTTP(w, r)
		})
	})
	w := newWorld(t)
	w.apply("a", httpServer("h", url))
	w.tools("a")
	forget.Store(true)
	if got := w.call("a", "mcp__h__echo", "text", "x"); got != "x" {
		t.Errorf("got %q", got)
	}
	if st := w.status("a", "h"); st.Connects != 2 {
		t.Errorf("got %+v", st)
	}
}

// A server that cannot be reached is not taken for a live one that gave an answer.
func TestReportB22HTTPLiveness(t *testing.T) {
	t.Parallel()
	var down atomic.Bool
	url := serveHTTP(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if down.Load() {
				panic(http.ErrAbortHandler)
			}
			next.ServeHTTP(w, r)
		})
	})
	w := newWorld(t)
	w.apply("a", httpServer("h", url))
	w.tools("a")
	c, err := w.host.of("a").find("h").connected(soon(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.alive(soon(t), forever); err != nil {
		t.Errorf("alive: got %v", err)
	}
	down.Store(true)
	if err := c.alive(soon(t), forever); err == nil {
		t.Error("a dead server is called alive")
	}
	down.Store(false)
}

func TestHTTPAuth(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, challenge string
		status          int
		headers         []string
		want            string
	}{
		{"oauth", `Bearer resource_metadata="https://x/.well-known"`, 401, nil, "asks for an OAuth login: set auth: oauth"},
		{"plain", "", 401, nil, "it wants a credential; put it into headers"},
		{"wrong", "Bearer", 401, []string{"authorization", "Bearer canary-token"}, "the credential in headers.Authorization is not accepted"},
		{"forbidden", "", 403, []string{"Authorization", "Bearer canary-token"}, "it answers HTTP 403"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if tc.challenge != "" {
					w.Header().Set("WWW-Authenticate", tc.challenge)
				}
				http.Error(w, "no: "+r.Header.Get("Authorization"), tc.status)
			}))
			w := newWorld(t, once)
			w.apply("a", httpServer("h", url+"/mcp?key=canary-query", tc.headers...))
			w.tools("a")
			st := w.status("a", "h")
			has(t, st.Error, tc.want, "mcp server h: ")
			hasNot(t, st.Error+w.log.String(), "canary")
			_, err := w.host.of("a").find("h").connected(soon(t))
			var auth *AuthError
			if !errors.As(err, &auth) || auth.Status != tc.status {
				t.Errorf("got %v", err)
			}
		})
	}
}

// A redirect to another origin would take the credential along.
func TestHTTPRedirect(t *testing.T) {
	t.Parallel()
	var stolen atomic.Int32
	other := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { stolen.Add(1) }))
	real := serveHTTP(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/away":
				http.Redirect(w, r, other+"/mcp", http.StatusTemporaryRedirect)
			case "/near":
				http.Redirect(w, r, "/mcp", http.StatusTemporaryRedirect)
			default:
				next.ServeHTTP(w, r)
			}
		})
	})
	w := newWorld(t, once)
	w.apply("a", httpServer("away", real+"/away", "Authorization", "Bearer x"), httpServer("near", real+"/near", "Authorization", "Bearer x"))
	w.tools("a")
	has(t, w.status("a", "away").Error, "redirects to "+other)
	if stolen.Load() > 0 {
		t.Error("the other host was asked")
	}
	if got := w.call("a", "mcp__near__auth", "text", ""); got != "Bearer x" {
		t.Errorf("got %q", got)
	}
}

// A server that never answers a GET has no stream; it must not hold up the connection.
func TestHTTPHangingStream(t *testing.T) {
	t.Parallel()
	url := serveHTTP(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				<-r.Context().Done()
				return
			}
			next.ServeHTTP(w, r)
		})
	})
	w := newWorld(t)
	w.host.waits.stream = 50 * time.Millisecond
	w.apply("a", httpServer("h", url))
	w.tools("a")
	if got := w.call("a", "mcp__h__echo", "text", "x"); got != "x" {
		t.Errorf("got %q", got)
	}
}

func TestHTTPHostile(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]http.HandlerFunc{
		"no json": func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>") },
		"wrong json": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, "{")
		},
		"endless": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			for io.WriteString(w, "{\"jsonrpc\":\""); ; {
				if _, err := io.WriteString(w, strings.Repeat("x", 1<<20)); err != nil {
					return
				}
			}
		},
		"endless event": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for io.WriteString(w, "data: "); ; {
				if _, err := io.WriteString(w, strings.Repeat("x", 1<<20)); err != nil {
					return
				}
			}
		},
		"server error": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "canary", http.StatusInternalServerError) },
		"circles":      func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", http.StatusTemporaryRedirect) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, once)
			w.apply("a", httpServer("h", serve(t, h)))
			if got := w.tools("a"); len(got) > 0 {
				t.Errorf("got %v", got)
			}
			if st := w.status("a", "h"); st.State == Ready || st.Error == "" || st.Tries != 1 {
				t.Errorf("got %+v", st)
			}
		})
	}
}

func TestHTTPHangs(t *testing.T) {
	t.Parallel()
	url := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	w := newWorld(t, once)
	s := httpServer("h", url)
	s.ConnectTimeout = 50 * time.Millisecond
	w.apply("a", s)
	w.tools("a")
	has(t, w.status("a", "h").Error, "no answer to the connection within 50ms")
}

// An answer that is too large fails, and the server is there for the next call.
func TestHTTPHugeResult(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply("a", httpServer("h", serveHTTP(t, nil)))
	w.tools("a")
	if r, err := w.try("a", "mcp__h__huge"); err == nil {
		t.Errorf("got %d bytes", len(r.JSON))
	}
	eventually(t, func() string {
		r, err := w.try("a", "mcp__h__echo", "text", "x")
		if err == nil && r.JSON == `{"result":"x"}` {
			return ""
		}
		return fmt.Sprint("no answer: ", r.JSON, err)
	})
}

// The config's headers cannot replace the protocol's.
func TestHTTPHeaders(t *testing.T) {
	t.Parallel()
	seen := make(chan http.Header, 100)
	url := serveHTTP(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h := r.Header.Clone()
			h.Set("Host", r.Host)
			seen <- h
			next.ServeHTTP(w, r)
		})
	})
	w := newWorld(t)
	w.apply("a", httpServer("h", url, "X-Org", "me", "content-type", "text/evil", "User-Agent", "mine", "Host", "other.example"))
	w.tools("a")
	h := <-seen
	for k, want := range map[string]string{"X-Org": "me", "Content-Type": "application/json", "User-Agent": "mine", "Host": "other.example"} {
		if got := h.Get(k); got != want {
			t.Errorf("%s: got %q, want %q", k, got, want)
		}
	}
}
