// SPDX-License-Identifier: MIT

package appliance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/hermes-appliance/hermes-appliance/appliance/agent"
	"github.com/hermes-appliance/hermes-appliance/appliance/config"
	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/appliance/mcp"
	"github.com/hermes-appliance/hermes-appliance/appliance/metrics"
	"github.com/hermes-appliance/hermes-appliance/appliance/profile"
	"github.com/hermes-appliance/hermes-appliance/appliance/redact"
	"github.com/hermes-appliance/hermes-appliance/appliance/secret"
	"github.com/hermes-appliance/hermes-appliance/appliance/session"
)

// Tenant is one profile of a running gateway, with what is open for it: its sessions, its
// terminal, its MCP servers. Everything it does is bound to its own home and secrets, anew for
// each activity (S11, S14). It is safe for concurrent use.
type Tenant struct {
	rt   *Runtime
	home home.Home
	key  profile.Key

	opening sync.Mutex
	shut    bool // nothing is opened any more
	store   *session.Store
	unable  error                // why the store could not be opened the last time
	todos   map[string]*todoList // by session

	term  terminals
	mcp   servers
	lives lifetimes
	veil  atomic.Pointer[veil] // of the last activity; nil = there was none

	choosing sync.Mutex // of the sandbox's image

	counting sync.Mutex
	counts   *metrics.Store // nil = nobody was counted yet
}

func newTenant(r *Runtime, h home.Home, key profile.Key) *Tenant {
	t := &Tenant{rt: r, home: h, key: key}
	t.term.t, t.mcp.t, t.lives.t = t, t, t
	return t
}

// Name is the profile's id.
func (t *Tenant) Name() string { return t.home.Profile }

// Key is the home key that turns of this profile are filed under.
func (t *Tenant) Key() string { return string(t.key) }

// log is the gateway's, with the profile's name in each record: its secrets are hidden there.
func (t *Tenant) log() *slog.Logger { return t.rt.log.With("profile", t.home.Profile) }

// bound is what one activity of the profile works with: its secrets and its config of now.
type bound struct {
	scope  *secret.Scope
	view   config.View
	lookup config.Lookup
	redact *redact.Redactor
}

// bind binds an activity to the profile: every read of a secret in the context it returns is
// the profile's or fails.
func (t *Tenant) bind(ctx context.Context) (context.Context, bound, error) {
	ctx = profile.Bind(ctx, profile.Task{Home: t.home})
	scope, err := t.rt.env.Scope(ctx, t.home)
	if err != nil {
		return ctx, bound{}, err
	}
	ctx = secret.Bind(ctx, scope)
	b := bound{scope: scope, lookup: func(name string) (string, bool) {
		v, ok, err := t.rt.env.secrets.Get(ctx, name)
		return v.Text.Reveal(), ok && err == nil
	}}
	c, err := t.rt.env.configs.Load(t.home, t.rt.env.configOptions())
	if err != nil {
		return ctx, b, err
	}
	b.view = c.With(b.lookup)
	b.redact = t.redactor(b)
	return ctx, b, nil
}

// Sessions opens the profile's state.db, once. A failure is not remembered but for the health.
func (t *Tenant) Sessions(ctx context.Context) (*session.Store, error) {
	t.opening.Lock()
	defer t.opening.Unlock()
	if t.shut {
		return nil, session.ErrClosed
	}
	if t.store == nil {
		t.store, t.unable = t.openSessions(ctx)
	}
	return t.store, t.unable
}

func (t *Tenant) openSessions(ctx context.Context) (*session.Store, error) {
	_, b, err := t.bind(ctx)
	if err != nil {
		return nil, err
	}
	o := session.Options{Log: t.log(), Role: "gateway", Now: t.rt.now}
	if t.home.Profile != home.Default {
		o.Profile = t.home.Profile
	}
	if o.JournalMode, err = b.view.String("database", "journal_mode"); err != nil {
		return nil, err
	}
	if b.view.Has("database", "synchronous") {
		if o.Synchronous, err = b.view.String("database", "synchronous"); err != nil {
			return nil, err
		}
	}
	if b.view.Has("sessions", "max_resume_messages") {
		most, err := b.view.Int("sessions", "max_resume_messages")
		if err != nil {
			return nil, err
		}
		o.MaxHistory = int(most)
	}
	manager, err := t.home.Manager(t.rt.env.Getenv)
	o.KeepMode = manager != "" || err != nil || t.rt.env.Getenv("HERMES_SKIP_CHMOD") != "" || t.home.Shared()
	return session.Open(context.WithoutCancel(ctx), filepath.Join(t.home.Dir, "state.db"), o)
}

// StoreHealth is how the profile's state.db is; ok is false while it is not open. The error is
// why it could not be opened.
func (t *Tenant) StoreHealth() (h session.Health, ok bool, err error) {
	t.opening.Lock()
	defer t.opening.Unlock()
	if t.store == nil {
		return h, false, t.unable
	}
	return t.store.Health(), true, nil
}

// MCP is how the profile's MCP servers are.
func (t *Tenant) MCP() []mcp.Status {
	all, _ := t.rt.servers.Health()
	return slices.DeleteFunc(all, func(s mcp.Status) bool { return s.Profile != string(t.key) })
}

// Turn finds a turn of this profile.
func (t *Tenant) Turn(id string) (*gateway.Turn, bool) { return t.rt.Turns.Get(string(t.key), id) }

// Ask starts a turn. It goes on when ctx ends; [gateway.Turn.Stop] ends it. The error is a
// [*RouteError] when the model that a asks for cannot be had.
func (t *Tenant) Ask(ctx context.Context, a gateway.Ask) (*gateway.Turn, error) {
	_, b, err := t.bind(ctx)
	if err != nil {
		return nil, err
	}
	if a.Route != (gateway.RouteAsk{}) {
		if _, err := routes(b.view, b.lookup, a.Route); err != nil {
			return nil, err
		}
	}
	most := 0
	if a.Source == apiSource {
		set, err := t.apiSettings(b)
		if err != nil {
			return nil, err
		}
		most = set.most
	}
	return t.rt.Turns.Start(t.rt.base, string(t.key), a, most, t.run)
}

// run is a turn from its session to its answer.
func (t *Tenant) run(ctx context.Context, turn *gateway.Turn, emit func(agent.Event)) (agent.Result, error) {
	ctx, b, err := t.bind(ctx)
	if err != nil {
		return agent.Result{}, err
	}
	rs, err := routes(b.view, b.lookup, turn.Ask.Route)
	if err != nil {
		return agent.Result{}, err
	}
	rec, err := t.open(ctx, turn, rs[0].Model)
	if err != nil {
		return agent.Result{}, err
	}
	defer func() {
		if err := rec.turn.Close(context.WithoutCancel(ctx)); err != nil {
			t.rt.log.Warn("a turn was not closed", "profile", t.home.Profile, "session", rec.ID(), "error", err)
		}
	}()
	if a := turn.Ask; a.Stateless && a.Session == "" && a.Key == "" {
		// Nobody can come back to this conversation's shell; what it left running ends with it,
		// unless it was started to stay.
		end := context.WithoutCancel(ctx)
		defer t.forget(end, rec.ID())
		defer t.term.end(end, rec.ID())
	} else {
		defer t.lives.use(rec.ID())()
	}
	turn.Named(rec.ID())
	w := &work{t: t, b: b, turn: turn, session: rec.ID()}
	o, err := w.options(ctx, rs)
	if err != nil {
		return agent.Result{}, err
	}
	a, err := agent.New(o)
	if err != nil {
		return agent.Result{}, err
	}
	var s agent.Session = rec
	if !turn.Ask.Stateless { // of a new session: what the client says was before
		if err := rec.begin(ctx, turn.Ask.History); err != nil {
			return agent.Result{}, err
		}
	}
	if turn.Ask.Stateless {
		s = &stateless{record: rec, history: turn.Ask.History}
	}
	res, err := a.Run(ctx, s, turn.Ask.Input, turn.Control, emit)
	if err == nil && res.Stop == agent.Answered {
		w.entitle(ctx, turn.Ask.Input.Text(), res.Text)
	}
	return res, err
}

// open finds or makes the session of a turn and takes its lease.
func (t *Tenant) open(ctx context.Context, turn *gateway.Turn, modelName string) (*record, error) {
	store, err := t.Sessions(ctx)
	if err != nil {
		return nil, err
	}
	a := &turn.Ask
	if !a.Stateless { // before there is a session, so that none is left behind
		if err := store.Fits(len(a.History)); err != nil {
			return nil, err
		}
	}
	id := a.Session
	if id == "" && a.Key != "" {
		if s, err := store.Resume(ctx, a.Source, a.Key); err == nil {
			id = s.ID
		} else if !errors.Is(err, session.ErrNoSession) {
			return nil, err
		}
	}
	if id == "" {
		n := session.Session{Source: a.Source, SessionKey: a.Key, UserID: a.UserID, Title: a.Title, Model: modelName}
		if n.Title == "" { // many begin with the same words: the store numbers those
			n.Title, n.TitleSource = title(a), session.TitleDerived
		}
		s, err := store.Create(ctx, n)
		if err != nil {
			return nil, err
		}
		id = s.ID
	}
	lease, err := store.Begin(ctx, id, "gateway")
	if next, ok := errors.AsType[*session.ContinuedError](err); ok {
		id = next.Tip
		lease, err = store.Begin(ctx, id, "gateway")
	}
	if errors.Is(err, session.ErrTurnRunning) {
		err = t.rt.Turns.Waiting(string(t.key), id, err)
	}
	if err != nil {
		return nil, err
	}
	return &record{store, lease, id}, nil
}

// title is what a session is called until somebody names it: the beginning of its first
// message.
func title(a *gateway.Ask) string { return titleOf(a.Input.Text()) }

func titleOf(text string) string {
	first, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if r := []rune(first); len(r) > 60 {
		first = string(r[:59]) + "…"
	}
	return first
}

// reload has the profile's MCP servers be those of its config of now.
func (t *Tenant) reload(ctx context.Context, b bound) { t.mcp.apply(ctx, b) }

// close ends what the profile has open.
func (t *Tenant) close(ctx context.Context) error {
	t.lives.close()
	err := errors.Join(t.term.close(ctx), t.uncount(ctx))
	t.opening.Lock()
	defer t.opening.Unlock()
	t.shut = true
	if t.store != nil {
		err = errors.Join(err, t.store.Close())
		t.store = nil
	}
	if err != nil {
		return fmt.Errorf("profile %s: %w", t.home.Profile, err)
	}
	return nil
}

// dir is a directory of the profile's home, made if need be.
func (t *Tenant) dir(parts ...string) (string, error) {
	path := t.home.Dir
	for _, p := range parts {
		path = filepath.Join(path, p)
		if err := t.term.files.Mkdir(path, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return "", err
		}
	}
	return path, nil
}
