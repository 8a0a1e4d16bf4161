// SPDX-License-Identifier: MIT

package appliance

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-appliance/hermes-appliance/appliance/model"
	"github.com/hermes-appliance/hermes-appliance/appliance/session"
)

// anyText makes texts that a format could trip over.
func anyText(r *rand.Rand) string {
	texts := []string{"plain", "two\nlines", `quote " and \ back`, "<b>&amp;", "\u2028 é 漢 \U0001F680", "{\"json\": [1]}", "a NUL \x00json: inside", " spaces "}
	return texts[r.IntN(len(texts))] + fmt.Sprint(r.IntN(10))
}

func anyFields(r *rand.Rand) map[string]json.RawMessage {
	var m map[string]json.RawMessage
	for i := range r.IntN(3) {
		if m == nil {
			m = map[string]json.RawMessage{}
		}
		value := []string{`{"a":[1,null,"<x>"]}`, `"text"`, `12345678901234567890`, `""`, `null`}[r.IntN(5)]
		m[[]string{"thought_signature", "reasoning_content", "x"}[i]] = json.RawMessage(value)
	}
	return m
}

// anyMessage makes a message as a model, a tool or a person does.
func anyMessage(r *rand.Rand, n int) model.Message {
	m := model.Message{Role: []model.Role{model.User, model.Assistant, model.Tool}[r.IntN(3)]}
	for range 1 + r.IntN(3) {
		m.Parts = append(m.Parts, model.Part{Text: anyText(r)})
	}
	switch m.Role {
	case model.User:
		for range r.IntN(3) {
			im := &model.Image{URL: "https://h/" + anyText(r)}
			if r.IntN(2) == 0 {
				im = &model.Image{MediaType: "image/png", Data: []byte(anyText(r))}
			}
			m.Parts = slices.Insert(m.Parts, r.IntN(len(m.Parts)+1), model.Part{Image: im})
		}
	case model.Tool:
		m.CallID, m.Name = fmt.Sprint("call_", n), "terminal"
	case model.Assistant:
		for i := range r.IntN(3) {
			m.Calls = append(m.Calls, model.Call{ID: fmt.Sprintf("c%d_%d", n, i), Name: "tool", Args: anyText(r), Extra: anyFields(r)})
		}
		m.Reasoning = anyText(r)
		m.Origin = &model.Origin{APIMode: model.AnthropicMessages, Provider: "p", Model: "m", Fields: anyFields(r)}
		for range r.IntN(3) {
			m.Origin.Blocks = append(m.Origin.Blocks, json.RawMessage(`{"type":"thinking","thinking":"<t>","signature":"s=="}`))
		}
	}
	return m
}

// meaning is a message by what a model is shown of it: texts in one piece where no picture is
// among them, pictures by their URL, JSON by its value.
func meaning(m model.Message) any {
	var parts []string
	if slices.ContainsFunc(m.Parts, func(p model.Part) bool { return p.Image != nil }) {
		for _, p := range m.Parts {
			if p.Image != nil {
				parts = append(parts, "image "+p.Image.DataURL())
			} else {
				parts = append(parts, p.Text)
			}
		}
	} else {
		parts = []string{m.Text()}
	}
	value := func(raw json.RawMessage) any {
		var v any
		if json.Unmarshal(raw, &v) != nil {
			return string(raw)
		}
		return v
	}
	values := func(m map[string]json.RawMessage) map[string]any {
		out := map[string]any{}
		for k, raw := range m {
			out[k] = value(raw)
		}
		return out
	}
	out := map[string]any{"role": m.Role, "parts": parts, "id": m.CallID, "name": m.Name, "reasoning": m.Reasoning}
	for i, c := range m.Calls {
		out[fmt.Sprint("call ", i)] = []any{c.ID, c.Name, c.Args, values(c.Extra)}
	}
	if o := m.Origin; o != nil && (len(o.Fields) > 0 || len(o.Blocks) > 0) {
		var blocks []any
		for _, b := range o.Blocks {
			blocks = append(blocks, value(b))
		}
		out["origin"] = []any{o.APIMode, o.Provider, o.Model, values(o.Fields), blocks}
	}
	return out
}

// TestRecordKeepsMessages writes random conversations into a real state.db and reads them back.
func TestRecordKeepsMessages(t *testing.T) {
	t.Parallel()
	store := openSessions(t)
	r := rand.New(rand.NewPCG(5, 9))
	for range 40 {
		rec := newRecord(t, store)
		var want []model.Message
		for n := range 1 + r.IntN(8) {
			m := anyMessage(r, n)
			if n == 0 {
				m.Role, m.Calls, m.CallID, m.Name, m.Origin, m.Reasoning = model.User, nil, "", "", nil, ""
			}
			want = append(want, m)
			if err := rec.Append(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
		got, err := rec.History(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != len(want) {
			t.Fatalf("%d messages of %d came back", len(got), len(want))
		}
		for i := range want {
			if d := cmp.Diff(meaning(want[i]), meaning(got[i])); d != "" {
				t.Fatalf("message %d of %d (-written +read):\n%s", i, len(want), d)
			}
		}
		if err := rec.turn.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func openSessions(t *testing.T) *session.Store {
	t.Helper()
	store, err := session.Open(t.Context(), filepath.Join(t.TempDir(), "state.db"), session.Options{Synchronous: "off"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

func newRecord(t *testing.T, store *session.Store) *record {
	t.Helper()
	s, err := store.Create(t.Context(), session.Session{Source: "test"})
	if err != nil {
		t.Fatal(err)
	}
	turn, err := store.Begin(t.Context(), s.ID, "test")
	if err != nil {
		t.Fatal(err)
	}
	return &record{store, turn, s.ID}
}

// TestRecordOfAnotherVersion: no row that somebody else wrote can keep a conversation from
// going on.
func TestRecordOfAnotherVersion(t *testing.T) {
	t.Parallel()
	store := openSessions(t)
	rec := newRecord(t, store)
	for _, m := range []session.Message{
		{Role: "user", Content: "hello"},
		{Role: "system", Content: "kept by an old version"},
		{Role: "assistant", ToolCalls: json.RawMessage(`[{"id":"a","type":"function","function":{"name":"terminal","arguments":{"command":"ls"}}}, {"id":7}, {"type":"custom"}]`)},
		{Role: "tool", CallID: "a", ToolName: "terminal", Content: "x"},
		{Role: "assistant", ToolCalls: json.RawMessage(`"no list"`), Content: "text"},
		{Role: "user", Parts: json.RawMessage(`{"type":"later"}`)},
		{Role: "user", Parts: json.RawMessage(`[{"type":"text","text":"look"}, 3, {"type":"image_url","image_url":"a text"}, {"type":"video"}]`)},
		{Role: "assistant", Content: "fine", Metadata: json.RawMessage(`{"appliance_origin": 3}`)},
	} {
		if _, err := rec.turn.Append(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	got, err := rec.History(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 7 {
		t.Fatalf("%d messages", len(got))
	}
	if c := got[1].Calls; len(c) != 1 || c[0].Name != "terminal" || c[0].Args != `{"command":"ls"}` {
		t.Errorf("calls %+v", c)
	}
	if got[3].Text() != "text" || got[5].Text() != "look" || got[6].Text() != "fine" {
		t.Errorf("texts %+v", got[3:])
	}
	if err := rec.turn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}
