// SPDX-License-Identifier: MIT

package apiserver

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/agent"
	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
	"github.com/hermes-appliance/hermes-appliance/appliance/model"
	"github.com/hermes-appliance/hermes-appliance/appliance/secret"
	"github.com/hermes-appliance/hermes-appliance/appliance/session"
)

// world is a server over profiles, with the real registry of turns.
type world struct {
	t     testing.TB
	host  *host
	srv   *Server
	http  *httptest.Server
	log   *lockedBuffer
	turns *gateway.Turns
}

// lockedBuffer collects what is logged.
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

// host has its lock because requests of another process come in between, of which the race
// detector cannot know that they follow.
type host struct {
	mu       sync.Mutex
	profiles map[string]*prof
}

func (h *host) Profile(_ context.Context, name string) (Profile, error) {
	if p := h.get(name); p != nil {
		return p, nil
	}
	return nil, ErrNoProfile
}

func (h *host) get(name string) *prof {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.profiles[name]
}

func (h *host) put(name string, p *prof) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.profiles[name] = p
}

// prof is a profile whose turns run as run says.
type prof struct {
	w     *world
	name  string
	most  int
	store *session.Store
	run   gateway.Runner

	mu  sync.Mutex
	set Settings
	got []gateway.Ask
	ids []string // of its turns, in order

	forgotten []string // sessions

	box    Sandbox
	unable error // of its engine
}

func (p *prof) Name() string { return p.name }

func (p *prof) Settings(context.Context) (Settings, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.set, nil
}

func (p *prof) change(f func(*Settings)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(&p.set)
}

func (p *prof) Health(context.Context) Health {
	return Health{State: "running", Checks: []Check{
		{Name: "config", Status: OK},
		{Name: "model", Status: Degraded, Detail: "no provider is configured", Counts: map[string]int{"routes": 1}},
	}}
}

func (p *prof) Sessions(context.Context) (*session.Store, error) {
	if p.store == nil {
		return nil, errors.New("no store in this test")
	}
	return p.store, nil
}

func (p *prof) Forget(_ context.Context, session string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forgotten = append(p.forgotten, session)
}

func (p *prof) Ask(_ context.Context, a gateway.Ask) (*gateway.Turn, error) {
	if strings.Contains(a.Route.Provider, "unheard") {
		return nil, &RequestError{Param: "provider", Message: "no such provider"}
	}
	t, err := p.w.turns.Start(context.Background(), p.name, a, p.most, p.run)
	if err == nil {
		p.mu.Lock()
		p.got, p.ids = append(p.got, a), append(p.ids, t.ID)
		p.mu.Unlock()
	}
	return t, err
}

func (p *prof) last() gateway.Ask {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.got[len(p.got)-1]
}

// turn is the last turn.
func (p *prof) turn() *gateway.Turn {
	p.mu.Lock()
	defer p.mu.Unlock()
	t, ok := p.w.turns.Get(p.name, p.ids[len(p.ids)-1])
	if !ok {
		p.w.t.Fatal("the turn is gone")
	}
	return t
}

func (p *prof) Turn(id string) (*gateway.Turn, bool) { return p.w.turns.Get(p.name, id) }

func (p *prof) Skills(context.Context) ([]Skill, error) {
	return []Skill{{Name: "deploy", Description: "how to deploy", Category: "ops"}}, nil
}

func (p *prof) Toolsets(context.Context) ([]Toolset, error) {
	return []Toolset{{Name: "terminal", Enabled: true, Tools: []string{"terminal"}}}, nil
}

func (p *prof) Sandbox(context.Context) (Sandbox, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.box, p.unable
}

func (p *prof) AnswerSandbox(_ context.Context, yes bool) (SandboxAnswer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.box.Choice == nil || p.unable != nil {
		return SandboxAnswer{}, cmp.Or(p.unable, error(&SandboxError{Code: "no_choice", Message: "nothing", Conflict: true}))
	}
	image := map[bool]string{true: p.box.Choice.Target, false: p.box.Choice.Current}[yes]
	p.box.Choice, p.box.Pin = nil, "config.yaml"
	return SandboxAnswer{Image: image}, nil
}

const testKey = "key-of-the-launch-profile"

// newWorld makes a server with a launch profile that answers by run; nil = it rehearses, with
// a session store.
func newWorld(t testing.TB, run gateway.Runner) *world {
	t.Helper()
	t.TempDir() // so that it is removed after the stores in it are closed
	w := &world{t: t, log: &lockedBuffer{}, turns: gateway.NewTurns(time.Now, nil), host: &host{profiles: map[string]*prof{}}}
	w.srv = New(Options{
		Host: w.host, Version: "v0-test", Multiplex: func() bool { return true },
		Log: slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	w.http = httptest.NewServer(w.srv.Handler())
	p := w.add("default", testKey, run)
	w.host.put("", p)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := w.turns.Stop(ctx, "the test is over"); err != nil {
			t.Error(err)
		}
		w.http.Close()
		for _, p := range w.host.profiles {
			if p.store != nil {
				if err := p.store.Close(); err != nil && !errors.Is(err, session.ErrClosed) {
					t.Error(err)
				}
			}
		}
	})
	return w
}

func (w *world) add(name, key string, run gateway.Runner) *prof {
	w.t.Helper()
	p := &prof{w: w, name: name, run: run, set: Settings{Key: secret.Wrap(key)}}
	if run == nil {
		p.open()
	}
	w.host.put(name, p)
	return p
}

func (p *prof) open() {
	p.w.t.Helper()
	var err error
	p.store, err = session.Open(context.Background(), filepath.Join(p.w.t.TempDir(), "state.db"), session.Options{Profile: p.name, Synchronous: "off"})
	if err != nil {
		p.w.t.Fatal(err)
	}
	if p.run == nil {
		p.run = p.rehearse
	}
}

func (w *world) launch() *prof { return w.host.get("") }

// reply is an answer that was read whole.
type reply struct {
	status int
	header http.Header
	body   string
}

func (r reply) json(t testing.TB) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(r.body), &v); err != nil {
		t.Fatalf("status %d, no JSON: %v: %.300s", r.status, err, r.body)
	}
	return v
}

// code is the code of an error.
func (r reply) code(t testing.TB) string {
	t.Helper()
	e, ok := r.json(t)["error"].(map[string]any)
	if !ok {
		t.Fatalf("status %d, no error: %.300s", r.status, r.body)
	}
	if e["message"] == "" || e["type"] == "" {
		t.Errorf("an error says nothing: %s", r.body)
	}
	return fmt.Sprint(e["code"])
}

func request(ctx context.Context, t testing.TB, method, url string, body any, headers ...string) *http.Request {
	t.Helper()
	var in io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		in = strings.NewReader(b)
	default:
		data, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		in = bytes.NewReader(data)
	}
	r, err := http.NewRequestWithContext(ctx, method, url, in)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+testKey)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

// do sends a request to the server and reads the whole answer.
func (w *world) do(method, path string, body any, headers ...string) reply {
	w.t.Helper()
	res, err := w.http.Client().Do(request(context.Background(), w.t, method, w.http.URL+path, body, headers...))
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return reply{res.StatusCode, res.Header, string(data)}
}

// event is one event of a stream.
type event struct{ name, id, data string }

// events reads a stream to its end.
func (r reply) events(t testing.TB) (out []event) {
	t.Helper()
	for block := range strings.SplitSeq(strings.TrimSuffix(r.body, "\n\n"), "\n\n") {
		var e event
		for line := range strings.Lines(block) {
			line = strings.TrimSuffix(line, "\n")
			if v, ok := strings.CutPrefix(line, "data: "); ok {
				e.data = v
			} else if v, ok := strings.CutPrefix(line, "event: "); ok {
				e.name = v
			} else if v, ok := strings.CutPrefix(line, "id: "); ok {
				e.id = v
			} else if !strings.HasPrefix(line, ":") {
				t.Fatalf("no event line: %q in\n%.500s", line, r.body)
			}
		}
		if e.data != "" {
			out = append(out, e)
		}
	}
	return out
}

func (e event) json(t testing.TB) map[string]any {
	t.Helper()
	return reply{body: e.data}.json(t)
}

// chat is the body of a chat completion.
func chat(text string, more ...any) map[string]any {
	b := map[string]any{"model": "hermes-agent", "messages": []any{map[string]any{"role": "user", "content": text}}}
	for i := 0; i < len(more); i += 2 {
		b[more[i].(string)] = more[i+1]
	}
	return b
}

// says answers every turn with a text, word by word.
func says(text string) gateway.Runner {
	return func(_ context.Context, t *gateway.Turn, emit func(agent.Event)) (agent.Result, error) {
		for _, word := range strings.SplitAfter(text, " ") {
			emit(agent.Event{Kind: agent.TextDelta, Text: word})
		}
		emit(agent.Event{Kind: agent.MessageDone, Text: text})
		emit(agent.Event{Kind: agent.Final, Text: text})
		return agent.Result{Text: text, Stop: agent.Answered, Usage: model.Usage{Input: 10, Output: 5, CacheRead: 3}}, nil
	}
}

// fails ends every turn with an error, after some events.
func fails(err error, before ...agent.Event) gateway.Runner {
	return func(_ context.Context, _ *gateway.Turn, emit func(agent.Event)) (agent.Result, error) {
		for _, e := range before {
			emit(e)
		}
		emit(agent.Event{Kind: agent.Failed, Err: err})
		return agent.Result{Stop: agent.Errored}, err
	}
}

// waits runs until it is interrupted, after some events.
func waits(before ...agent.Event) gateway.Runner {
	return func(ctx context.Context, t *gateway.Turn, emit func(agent.Event)) (agent.Result, error) {
		for _, e := range before {
			emit(e)
		}
		for !t.Stopping() {
			select {
			case <-time.After(time.Millisecond):
			case <-ctx.Done():
				return agent.Result{}, ctx.Err()
			}
		}
		emit(agent.Event{Kind: agent.Stopped})
		return agent.Result{Stop: agent.Interrupted}, nil
	}
}
