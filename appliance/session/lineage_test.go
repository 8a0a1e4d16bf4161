// SPDX-License-Identifier: MIT

package session

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

func compress(t testing.TB, s *Store, id string, c Compression) Session {
	t.Helper()
	l, err := s.LockCompression(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	child, err := l.Publish(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return child
}

func handoff() []Message {
	return []Message{{Role: "user", Content: "[summary]", Summary: true}}
}

func TestCompression(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ctx := t.Context()
	n := create(t, s, Session{Title: "x", SessionKey: "k", ChatID: "1", SystemPrompt: "sp", ModelConfig: json.RawMessage(`{"a":1}`), Pinned: true})
	turn := begin(t, s, n.ID)
	put(t, turn, Message{Role: "user", Content: "old"}, Message{Role: "assistant", Content: "older"})
	l, err := s.LockCompression(ctx, n.ID)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.LockCompression(ctx, n.ID); !errors.Is(err, ErrCompressing) {
		t.Errorf("second lock: got %v, want ErrCompressing", err)
	}
	if err := s.Delete(ctx, n.ID); !errors.Is(err, ErrTurnRunning) {
		t.Errorf("deleted meanwhile: %v", err)
	}
	// While the summary is made the user goes on.
	put(t, turn, Message{Role: "user", Content: "meanwhile"}, calling("q:x"), result("q", "r"))
	if _, err := l.Publish(ctx, Compression{}); err == nil {
		t.Error("an empty handoff was published")
	}
	child, err := l.Publish(ctx, Compression{Child: Session{Model: "m2"}, Handoff: handoff()})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := history(t, s, child.ID), "user:[summary] user:meanwhile assistant:call(q) tool(q):r"; got != want {
		t.Errorf("child\n got %s\nwant %s", got, want)
	}
	if child.Title != "x #2" || child.Parent != n.ID || child.SessionKey != "k" || child.ChatID != "1" || child.SystemPrompt != "sp" || child.Model != "m2" ||
		string(child.ModelConfig) != `{"a":1}` || !child.Pinned || child.Messages != 4 || child.ToolCalls != 1 {
		t.Errorf("child %+v", child)
	}
	parent, err := s.Get(ctx, n.ID)
	if err != nil || parent.EndReason != "compression" || parent.Title != "x" {
		t.Errorf("parent %+v %v", parent, err)
	}
	// The turn still writes to the parent: it learns where the conversation is.
	var cont *ContinuedError
	if _, err := turn.Append(ctx, Message{Role: "user"}); !errors.As(err, &cont) || cont.Tip != child.ID {
		t.Errorf("got %v, want a ContinuedError to %s", err, child.ID)
	}
	turn.Continue(child.ID)
	put(t, turn, Message{Role: "assistant", Content: "on"})
	if _, err := s.Begin(ctx, child.ID, "other"); !errors.Is(err, ErrTurnRunning) {
		t.Errorf("the lease does not cover the child: %v", err)
	}
	if err := turn.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Begin(ctx, n.ID, "x"); !errors.As(err, &cont) {
		t.Errorf("a turn began in the compressed part: %v", err)
	}
	if err := s.Reopen(ctx, n.ID); !errors.As(err, &cont) {
		t.Errorf("the compressed part was reopened: %v", err)
	}
	third := compress(t, s, child.ID, Compression{Handoff: handoff()})
	if third.Title != "x #3" {
		t.Errorf("title %q, want x #3", third.Title)
	}
	if tip, err := s.Tip(ctx, n.ID); tip != third.ID || err != nil {
		t.Errorf("tip %s %v, want %s", tip, err, third.ID)
	}
	if got, err := s.Parts(ctx, child.ID); strings.Join(got, " ") != n.ID+" "+child.ID+" "+third.ID || err != nil {
		t.Errorf("parts %v %v", got, err)
	}
	list, err := s.List(ctx, Filter{})
	if err != nil || len(list) != 1 || list[0].ID != third.ID {
		t.Errorf("list %v %v: want the last part alone", list, err)
	}
	// The user names the conversation as it was called: the title moves to the tip.
	if err := s.SetTitle(ctx, third.ID, "x", TitleUser); err != nil {
		t.Errorf("the title of an earlier part could not be taken: %v", err)
	}
}

func TestCompressionLockOfTheDead(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := openStore(t, dbPath(t), Options{Now: func() time.Time { return now }})
	id := create(t, s, Session{}).ID
	l, err := s.LockCompression(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(LeaseTime)
	l2, err := s.LockCompression(t.Context(), id)
	if err != nil {
		t.Fatalf("an expired lock: %v", err)
	}
	if err := l.Refresh(t.Context()); !errors.Is(err, ErrCompressing) {
		t.Errorf("the loser goes on: %v", err)
	}
	if _, err := l.Publish(t.Context(), Compression{Handoff: handoff()}); !errors.Is(err, ErrCompressing) {
		t.Errorf("the loser published: %v", err)
	}
	if err := errors.Join(l.Release(t.Context()), l2.Refresh(t.Context()), l2.Release(t.Context())); err != nil {
		t.Error(err)
	}
}

func TestFork(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ctx := t.Context()
	n := create(t, s, Session{Title: "x", SessionKey: "k", SystemPrompt: "sp", Model: "m", ModelConfig: json.RawMessage(`{"a":1}`)})
	say(t, s, n.ID, "user", "one")
	at := appendTo(t, s, n.ID, calling("q:x"))
	appendTo(t, s, n.ID, result("q", "r"))
	say(t, s, n.ID, "user", "two")
	whole, err := s.Fork(ctx, n.ID, Branch{})
	if err != nil {
		t.Fatal(err)
	}
	if got := history(t, s, whole.ID); got != history(t, s, n.ID) {
		t.Errorf("fork: %s", got)
	}
	if whole.Title != "x #2" || whole.Parent != n.ID || whole.SessionKey != "" || whole.SystemPrompt != "sp" || string(whole.ModelConfig) != `{"_branched_from":"`+n.ID+`","a":1}` || whole.Messages != 4 {
		t.Errorf("fork %+v", whole)
	}
	part, err := s.Fork(ctx, n.ID, Branch{Session: Session{Title: "mine", Source: "api_server"}, Through: at})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := history(t, s, part.ID), "user:one assistant:call(q) tool(q):interrupted"; got != want || part.Title != "mine" || part.Source != "api_server" {
		t.Errorf("fork in the middle of a turn: %s, %+v", got, part)
	}
	say(t, s, whole.ID, "user", "only there")
	if strings.Contains(history(t, s, n.ID), "only there") {
		t.Error("the original changed")
	}
	if _, err := s.Fork(ctx, "nobody", Branch{}); !errors.Is(err, ErrNoSession) {
		t.Errorf("unknown session: %v", err)
	}
	if _, err := s.Fork(ctx, whole.ID, Branch{Through: at}); !errors.Is(err, ErrNoMessage) {
		t.Errorf("another session's message: %v", err)
	}
	// A branch is a conversation of its own: it has its own lease and its own place in lists.
	a, b := begin(t, s, n.ID), begin(t, s, whole.ID)
	if err := errors.Join(a.Close(ctx), b.Close(ctx)); err != nil {
		t.Fatal(err)
	}
	if list, err := s.List(ctx, Filter{}); len(list) != 3 || err != nil {
		t.Errorf("list %v %v", list, err)
	}
}

func TestLineageWithACycle(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	a, b := create(t, s, Session{}).ID, create(t, s, Session{}).ID
	db := rawDB(t, s.Path())
	must(t, db, "UPDATE sessions SET end_reason = 'compression', ended_at = 1", "UPDATE sessions SET parent_session_id = '"+b+"' WHERE id = '"+a+"'", "UPDATE sessions SET parent_session_id = '"+a+"' WHERE id = '"+b+"'")
	if _, err := s.Tip(t.Context(), a); err != nil {
		t.Error(err)
	}
	if _, err := s.Parts(t.Context(), a); err != nil {
		t.Error(err)
	}
	if _, err := s.root(t.Context(), a); err != nil {
		t.Error(err)
	}
}

func TestTitles(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ctx := t.Context()
	a, b := create(t, s, Session{}).ID, create(t, s, Session{}).ID
	title := func(id string) string {
		n, err := s.Get(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		return n.TitleSource + ":" + n.Title
	}
	for _, step := range []struct{ id, title, source, want string }{
		{a, "first words", TitleDerived, "derived:first words"},
		{a, "other words", TitleDerived, "derived:first words"},
		{a, "A Name", TitleModel, "llm:A Name"},
		{a, "late words", TitleDerived, "llm:A Name"},
		{b, "A Name", TitleModel, "llm:A Name #2"},
		{b, "A Name", TitleModel, "llm:A Name #2"},
		{a, "Mine", "", "user:Mine"},
		{a, "Model", TitleModel, "user:Mine"},
		{a, "Mine", TitleUser, "user:Mine"},
		{a, " \u202eodd\u200b\n  spaces ", TitleUser, "user:odd spaces"},
		{b, strings.Repeat("ä", 140), TitleDerived, "llm:A Name #2"},
		{b, "", TitleUser, ":"},
		{b, strings.Repeat("ä", 140), TitleDerived, "derived:" + strings.Repeat("ä", 99) + "…"},
	} {
		if err := s.SetTitle(ctx, step.id, step.title, step.source); err != nil {
			t.Fatalf("%+v: %v", step, err)
		}
		if got := title(step.id); got != step.want {
			t.Errorf("%q by %s: got %q, want %q", step.title, step.source, got, step.want)
		}
	}
	var taken *TitleTakenError
	if err := s.SetTitle(ctx, b, "odd spaces", TitleUser); !errors.As(err, &taken) || taken.Session != a {
		t.Errorf("a title twice: %v", err)
	}
	if err := s.SetTitle(ctx, b, strings.Repeat("ä", 101), TitleUser); err == nil || !strings.Contains(err.Error(), "101 characters, at most 100") {
		t.Errorf("101 characters: %v", err)
	}
	if err := s.SetTitle(ctx, b, strings.Repeat("ä", 100), TitleUser); err != nil {
		t.Errorf("100 characters: %v", err)
	}
	if next, err := s.NextTitle(ctx, strings.Repeat("ä", 100)); err != nil || len([]rune(next)) > MaxTitle {
		t.Errorf("next %q %v", next, err)
	}
	if err := s.SetTitle(ctx, "nobody", "x", ""); !errors.Is(err, ErrNoSession) {
		t.Errorf("unknown session: %v", err)
	}
	create(t, s, Session{Title: "100% _x_ #7"})
	if next, _ := s.NextTitle(ctx, "100% _x_"); next != "100% _x_ #8" {
		t.Errorf("next %q", next)
	}
	if n, err := s.ByTitle(ctx, "100% _x_"); err != nil || n.Title != "100% _x_ #7" {
		t.Errorf("by title: %q %v", n.Title, err)
	}
	if _, err := s.ByTitle(ctx, "100"); !errors.Is(err, ErrNoSession) {
		t.Errorf("by a part of a title: %v", err)
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_790_000_000, 0)
	s := openStore(t, dbPath(t), Options{Now: func() time.Time { now = now.Add(time.Second); return now }})
	ctx := t.Context()
	ids := map[string]string{}
	add := func(name string, n Session) {
		n.DisplayName = name
		ids[name] = create(t, s, n).ID
	}
	add("tele", Session{SessionKey: "k", Title: "Talk"})
	add("cli", Session{Source: "cli"})
	add("sub", Session{Source: "subagent", Parent: ids["tele"], ModelConfig: json.RawMessage(`{"_delegate_from":"` + ids["tele"] + `"}`)})
	add("orphan", Session{Source: "subagent", ModelConfig: json.RawMessage(`{"_delegate_from":"gone"}`)})
	add("reset", Session{Parent: ids["cli"], ModelConfig: json.RawMessage(`{"_reset_from":"` + ids["cli"] + `"}`)})
	add("bot", Session{Hidden: true})
	add("arch", Session{})
	if err := s.SetArchived(ctx, ids["arch"], true); err != nil {
		t.Fatal(err)
	}
	appendTo(t, s, ids["tele"], Message{Role: "user", Content: "hidden", Display: "hidden"})
	appendTo(t, s, ids["tele"], Message{Role: "user", Content: "the  very\nfirst " + strings.Repeat("long ", 30)})
	appendTo(t, s, ids["cli"], Message{Role: "user", Parts: json.RawMessage(`[{"type":"text","text":"with a picture"}]`)})
	for _, c := range []struct {
		f    Filter
		want string
	}{
		{Filter{}, "cli tele reset"},
		{Filter{Limit: 1, Offset: 1}, "tele"},
		{Filter{Sources: []string{"cli", "x"}}, "cli"},
		{Filter{Except: []string{"cli"}}, "tele reset"},
		{Filter{Key: "k"}, "tele"},
		{Filter{Text: "alk"}, "tele"},
		{Filter{Text: "%"}, ""},
		{Filter{Archived: Archived}, "arch"},
		{Filter{Archived: Any}, "cli tele arch reset"},
		{Filter{Children: true}, "cli tele reset orphan sub"},
		{Filter{Hidden: true, Least: 1}, "cli tele"},
	} {
		list, err := s.List(ctx, c.f)
		var got []string
		for _, n := range list {
			got = append(got, n.DisplayName)
		}
		if strings.Join(got, " ") != c.want || err != nil {
			t.Errorf("%+v: got %v %v, want %s", c.f, got, err, c.want)
		}
		if n, err := s.Count(ctx, c.f); err != nil || c.f.Limit == 0 && n != len(list) {
			t.Errorf("%+v: count %d %v", c.f, n, err)
		}
	}
	list, _ := s.List(ctx, Filter{})
	if list[0].Preview != "with a picture" || !strings.HasPrefix(list[1].Preview, "the very first long long") || !strings.HasSuffix(list[1].Preview, "…") {
		t.Errorf("previews %q, %q", list[0].Preview, list[1].Preview)
	}
	if n := len([]rune(list[1].Preview)); n > 60 {
		t.Errorf("preview of %d characters", n)
	}
}
