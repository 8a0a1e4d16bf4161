// SPDX-License-Identifier: MIT

package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/model"
	"github.com/hermes-appliance/hermes-appliance/appliance/secret"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit/modelserver"
)

// store is a session in memory that keeps what a disk would: encoded messages. It checks
// that the record is well formed after each step.
type store struct {
	t        testing.TB
	id       string
	parent   *store
	prompt   string
	rows     []json.RawMessage
	spent    []Spending
	children int
	fail     func(op string) error // nil = nothing fails
}

func newStore(t testing.TB) *store { return &store{t: t, id: "s"} }

func (s *store) ID() string { return s.id }

func (s *store) may(op string) error {
	if s.fail != nil {
		return s.fail(op)
	}
	return nil
}

func (s *store) Prompt(context.Context) (string, error) { return s.prompt, s.may("prompt") }

func (s *store) SetPrompt(_ context.Context, text string) error {
	if s.prompt != "" {
		s.t.Errorf("the prompt of %s is set twice", s.id)
	}
	s.prompt = text
	return s.may("set prompt")
}

func (s *store) History(context.Context) ([]model.Message, error) {
	return s.messages(), s.may("history")
}

func (s *store) messages() []model.Message {
	var out []model.Message
	for _, r := range s.rows {
		var m model.Message
		if err := json.Unmarshal(r, &m); err != nil {
			s.t.Fatal(err)
		}
		out = append(out, m)
	}
	return out
}

func (s *store) Append(ctx context.Context, m model.Message) error {
	if ctx.Err() != nil {
		s.t.Errorf("a record with a dead context: %v", ctx.Err())
	}
	if err := s.may("append " + string(m.Role)); err != nil {
		return err
	}
	data, err := json.Marshal(m)
	if err != nil {
		s.t.Fatal(err)
	}
	s.rows = append(s.rows, data)
	return nil
}

func (s *store) Spend(_ context.Context, sp Spending) error {
	s.spent = append(s.spent, sp)
	return s.may("spend")
}

func (s *store) Compress(ctx context.Context, history []model.Message) (Session, error) {
	if err := s.may("compress"); err != nil {
		return nil, err
	}
	s.children++
	c := &store{t: s.t, id: fmt.Sprintf("%s.%d", s.id, s.children), parent: s, fail: s.fail}
	for _, m := range history {
		if err := c.Append(ctx, m); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// wellFormed says what is wrong with a finished record: every call must have exactly one
// result, right after its message, in order.
func wellFormed(history []model.Message) error {
	for i := 0; i < len(history); i++ {
		m := history[i]
		if m.Role == model.Tool {
			return fmt.Errorf("row %d: a result that no call asked for: %+v", i, m)
		}
		for _, c := range m.Calls {
			i++
			if i >= len(history) || history[i].Role != model.Tool || history[i].CallID != c.ID {
				return fmt.Errorf("row %d: the call %s has no result there", i, c.ID)
			}
			if history[i].Text() == "" {
				return fmt.Errorf("row %d: empty result", i)
			}
		}
	}
	return nil
}

// box is a set of tools made of functions.
type box struct {
	tools  map[string]func(ctx context.Context, args json.RawMessage) Output
	traits map[string]Traits
}

func (b *box) Specs() []model.ToolSpec {
	var out []model.ToolSpec
	for _, name := range slices.Sorted(maps.Keys(b.tools)) {
		out = append(out, model.ToolSpec{Name: name, Description: "does " + name})
	}
	return out
}

func (b *box) Traits(c model.Call) Traits { return b.traits[c.Name] }

func (b *box) Call(ctx context.Context, c model.Call, args json.RawMessage) Output {
	return b.tools[c.Name](ctx, args)
}

func ok(text string) func(context.Context, json.RawMessage) Output {
	return func(context.Context, json.RawMessage) Output { return Output{Text: text} }
}

// quick is a clock whose waits are over at once. It remembers them.
type quick struct {
	mu    sync.Mutex
	waits []time.Duration
}

func (q *quick) Now() time.Time { return time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC) }

func (q *quick) After(d time.Duration) <-chan time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waits = append(q.waits, d)
	c := make(chan time.Time, 1)
	c <- q.Now()
	return c
}

// counts is a meter.
type counts struct {
	mu   sync.Mutex
	rows []string
}

func (c *counts) Count(name string, dims map[string]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(dims)) {
		if k != "provider" && k != "model" {
			parts = append(parts, k+"="+dims[k])
		}
	}
	c.rows = append(c.rows, strings.TrimPrefix(name, "hermes.")+" "+strings.Join(parts, " "))
}

// log collects events.
type events struct{ all []Event }

func (l *events) add(e Event) { l.all = append(l.all, e) }

func (l *events) kinds() []EventKind {
	var out []EventKind
	for _, e := range l.all {
		out = append(out, e.Kind)
	}
	return out
}

func (l *events) count(k EventKind) int {
	n := 0
	for _, e := range l.all {
		if e.Kind == k {
			n++
		}
	}
	return n
}

// shown is the text that a reader who honours Discard has in the end, message by message.
func (l *events) shown() string {
	var done, now strings.Builder
	for _, e := range l.all {
		switch e.Kind {
		case TextDelta:
			now.WriteString(e.Text)
		case Discard:
			now.Reset()
		case MessageDone:
			done.WriteString(now.String() + "|")
			now.Reset()
		}
	}
	return done.String() + now.String()
}

func route(s *modelserver.Server, mode model.APIMode, name string) model.Route {
	return model.Route{Provider: name, Model: "m1", BaseURL: s.URL + "/v1", Key: secret.Wrap("sk-test"), APIMode: mode, Stale: -1}
}

// desk is an agent with everything it needs.
type desk struct {
	Options
	clock *quick
	meter *counts
	store *store
	log   *events
}

func newDesk(t testing.TB, routes ...model.Route) *desk {
	t.Helper()
	c := model.New(nil)
	t.Cleanup(c.Close)
	d := &desk{clock: &quick{}, meter: &counts{}, store: newStore(t), log: &events{}}
	d.Options = Options{
		Model: c, Routes: routes, Clock: d.clock, Meter: d.meter,
		Tools:  &box{tools: map[string]func(context.Context, json.RawMessage) Output{"echo": ok(`{"output":"hi"}`), "look": ok(`{"output":"same"}`)}, traits: map[string]Traits{"look": {Parallel: true, ReadOnly: true}}},
		Prompt: func(context.Context) (string, error) { return "You are a test.", nil },
	}
	return d
}

func (d *desk) run(ctx context.Context, t testing.TB, text string, control *Control) (Result, error) {
	t.Helper()
	a, err := New(d.Options)
	if err != nil {
		t.Fatal(err)
	}
	res, err := a.Run(ctx, d.store, model.Text(model.User, text), control, d.log.add)
	if e := wellFormed(d.current(res).messages()); e != nil {
		t.Errorf("the record is broken: %v", e)
	}
	if n := d.log.count(Final) + d.log.count(Stopped) + d.log.count(Failed); n != 1 {
		t.Errorf("the turn ended %d times: %v", n, d.log.kinds())
	}
	return res, err
}

func (d *desk) current(res Result) *store {
	if s, ok := res.Session.(*store); ok {
		return s
	}
	return d.store
}

func eachWire(t *testing.T, f func(t *testing.T, mode model.APIMode)) {
	t.Helper()
	for _, mode := range []model.APIMode{model.ChatCompletions, model.AnthropicMessages} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			f(t, mode)
		})
	}
}
