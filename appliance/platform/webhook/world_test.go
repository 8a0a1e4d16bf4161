// SPDX-License-Identifier: MIT

package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/agent"
	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
	"github.com/hermes-appliance/hermes-appliance/appliance/secret"
)

const testSecret = "it's a secret to everybody"

// world is a server over profiles, with the real registry of turns.
type world struct {
	t     testing.TB
	srv   *Server
	http  *httptest.Server
	log   *lockedBuffer
	turns *gateway.Turns
	now   time.Time

	profiles map[string]*prof
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// prof is a profile whose routes are given as a config has them.
type prof struct {
	w      *world
	name   string
	routes map[string]any
	given  Given
	dir    string
	run    gateway.Runner

	mu    sync.Mutex
	asks  []gateway.Ask
	ended map[string]string // session → reason
	done  map[string]bool   // chat keys handled in an earlier life
	err   error             // of Ask
}

func (w *world) Profile(_ context.Context, name string) (Profile, error) {
	if p := w.profiles[name]; p != nil {
		return p, nil
	}
	return nil, ErrNoProfile
}

func (p *prof) Key() string { return p.name }
func (p *prof) ChatKey(chat string) string {
	return gateway.SessionKey(p.name, Source, Source, chat, "")
}

func (p *prof) Route(_ context.Context, name string) (Route, error) {
	v, ok := p.routes[name]
	if !ok {
		return Route{}, ErrNoRoute
	}
	return ParseRoute(name, v, p.given)
}

func (p *prof) File(_ context.Context, name string) ([]byte, error) {
	return fs.ReadFile(os.DirFS(p.dir), name)
}

func (p *prof) Handled(_ context.Context, key string) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done[key], nil
}

func (p *prof) Ask(_ context.Context, a gateway.Ask) (*gateway.Turn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return nil, p.err
	}
	p.asks = append(p.asks, a)
	return p.w.turns.Start(context.Background(), p.name, a, 0, p.run)
}

func (p *prof) End(_ context.Context, session, reason string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended[session] = reason
	return nil
}

func (p *prof) Redact(_ context.Context, text string) string {
	return strings.ReplaceAll(text, "canary-of-"+p.name, "***")
}

func (p *prof) asked() []gateway.Ask {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]gateway.Ask(nil), p.asks...)
}

// echo answers with what it was asked.
func echo(_ context.Context, t *gateway.Turn, _ func(agent.Event)) (agent.Result, error) {
	t.Named("session-" + t.ID)
	return agent.Result{Text: "you said: " + t.Ask.Input.Text(), Stop: agent.Answered}, nil
}

func newWorld(t testing.TB, routes map[string]any) *world {
	t.Helper()
	w := &world{t: t, log: &lockedBuffer{}, turns: gateway.NewTurns(time.Now, nil), now: time.Now(), profiles: map[string]*prof{}}
	w.srv = New(Options{
		Host: w, Now: func() time.Time { return w.now }, Multiplex: func() bool { return true },
		Log: slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	w.http = httptest.NewServer(w.srv.Handler())
	w.profiles[""] = w.add("default", routes)
	t.Cleanup(func() {
		w.http.Close()
		w.settle()
	})
	return w
}

func (w *world) add(name string, routes map[string]any) *prof {
	p := &prof{
		w: w, name: name, routes: routes, dir: w.t.TempDir(), run: echo, ended: map[string]string{}, done: map[string]bool{},
		given: Given{Fallback: secret.Wrap(testSecret), FallbackName: "WEBHOOK_SECRET", Limits: DefaultLimits(), Loopback: true},
	}
	w.profiles[name] = p
	return p
}

// settle waits until every turn is over and followed.
func (w *world) settle() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := errors.Join(w.turns.Stop(ctx, "over"), w.srv.Shutdown(ctx)); err != nil {
		w.t.Error(err)
	}
}

// reply is what a request came to.
type reply struct {
	status int
	body   map[string]any
	text   string
	header http.Header
}

// send posts a body; headers come in pairs.
func (w *world) send(path, body string, headers ...string) reply {
	w.t.Helper()
	return w.do(http.MethodPost, path, strings.NewReader(body), headers...)
}

func (w *world) do(method, path string, body io.Reader, headers ...string) reply {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.http.URL+path, body)
	if err != nil {
		w.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	r := reply{status: resp.StatusCode, text: string(data), header: resp.Header}
	if method != http.MethodHead {
		if err := json.Unmarshal(data, &r.body); err != nil {
			w.t.Errorf("%s %s answers %d with no JSON: %q", method, path, r.status, data)
		}
	}
	return r
}

// sign is the header of GitHub.
func sign(secret, body string) []string {
	return []string{"X-Hub-Signature-256", "sha256=" + sum(secret, body)}
}

func sum(secret, text string) string {
	m := hmac.New(sha256.New, []byte(secret))
	m.Write([]byte(text))
	return hex.EncodeToString(m.Sum(nil))
}

// post sends a signed event.
func (w *world) post(route, body string, headers ...string) reply {
	w.t.Helper()
	return w.send("/webhooks/"+route, body, append(sign(testSecret, body), headers...)...)
}

func (p *prof) write(name, text string) {
	p.w.t.Helper()
	if err := os.MkdirAll(filepath.Dir(filepath.Join(p.dir, name)), 0o700); err != nil {
		p.w.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600); err != nil {
		p.w.t.Fatal(err)
	}
}
