// SPDX-License-Identifier: MIT

package session

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

func TestOpenMakesAFileOfItsOwn(t *testing.T) {
	t.Parallel()
	path := dbPath(t)
	s := openStore(t, path, Options{})
	h := s.Health()
	if h.State != Sound || !h.Index.Ready || h.Schema != SchemaVersion || h.JournalMode != "wal" && remoteFS(filepath.Dir(path)) == "" || len(h.Notices) > 0 {
		t.Errorf("health of a new file: %+v", h)
	}
	if runtime.GOOS != "windows" {
		for _, p := range []string{path, path + "-wal", path + "-shm"} {
			info, err := os.Stat(p)
			if err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s: %v %v, want 0600", p, info.Mode(), err)
			}
		}
	}
	db := rawDB(t, path)
	if got := ask(t, db, "SELECT version FROM schema_version"); got != "30" {
		t.Errorf("schema_version %q, want 30", got)
	}
	if got := ask(t, db, "SELECT value FROM state_meta WHERE key = 'fts_storage_version'"); got != "3" {
		t.Errorf("fts_storage_version %q, want 3", got)
	}
	// What upstream stamps: the number of the header comes from the first digits of the name.
	gen := ask(t, db, "SELECT value FROM state_meta WHERE key = 'db_file_generation'")
	if !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(gen) || ask(t, db, "PRAGMA application_id") == "0" {
		t.Errorf("file generation %q, application id %s", gen, ask(t, db, "PRAGMA application_id"))
	}
}

func TestOpenTwice(t *testing.T) {
	t.Parallel()
	path := dbPath(t)
	s := openStore(t, path, Options{})
	link := filepath.Join(filepath.Dir(path), "link.db")
	for _, p := range []string{path, filepath.Join(filepath.Dir(path), ".", "state.db"), link} {
		if p == link {
			if err := os.Symlink(path, link); err != nil {
				continue // not everywhere
			}
		}
		if _, err := Open(t.Context(), p, Options{}); !errors.Is(err, ErrOpen) {
			t.Errorf("second open of %s: got %v, want ErrOpen", p, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("closing again: %v", err)
	}
	if _, err := s.Append(t.Context(), "x", Message{Role: "user"}); !errors.Is(err, ErrClosed) {
		t.Errorf("append after close: got %v, want ErrClosed", err)
	}
	again := openStore(t, path, Options{})
	if h := again.Health(); h.State != Sound {
		t.Errorf("health after reopening: %+v", h)
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for _, o := range []Options{{JournalMode: "truncate"}, {Synchronous: "sometimes"}, {Synchronous: "4"}} {
		if _, err := Open(t.Context(), dbPath(t), o); err == nil || !strings.Contains(err.Error(), "database.") {
			t.Errorf("%+v: got %v, want an error that names the key", o, err)
		}
	}
	s := openStore(t, dbPath(t), Options{JournalMode: "DELETE", Synchronous: "1", KeepMode: true, Mode: 0o640})
	if h := s.Health(); h.JournalMode != "delete" || runtime.GOOS != "darwin" && h.Synchronous != "normal" {
		t.Errorf("health %+v", h)
	}
	id := create(t, s, Session{}).ID
	say(t, s, id, "user", "written without wal")
	if len(find(t, s, "written")) != 1 {
		t.Error("not found")
	}
	if _, err := Open(t.Context(), filepath.Join(t.TempDir(), "no", "state.db"), Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
	if _, err := Open(t.Context(), t.TempDir(), Options{}); err == nil {
		t.Error("a directory was opened")
	}
}

func TestJournalModeOfAnExistingFileStays(t *testing.T) {
	t.Parallel()
	path := dbPath(t)
	if err := openStore(t, path, Options{}).Close(); err != nil {
		t.Fatal(err)
	}
	h := openStore(t, path, Options{JournalMode: "delete"}).Health()
	if h.JournalMode != "wal" || len(h.Notices) != 1 || !strings.Contains(h.Notices[0], "PRAGMA journal_mode=delete") {
		t.Errorf("health %+v: want wal, and how to change it", h)
	}
}

func TestModeOfAnExistingFile(t *testing.T) {
	t.Parallel()
	testkit.Need(t, "posix", runtime.GOOS != "windows", "there are no modes there")
	for _, keep := range []bool{false, true} {
		path := dbPath(t)
		if err := openStore(t, path, Options{}).Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, 0o664); err != nil {
			t.Fatal(err)
		}
		openStore(t, path, Options{KeepMode: keep})
		info, err := os.Stat(path)
		if want := map[bool]os.FileMode{true: 0o664, false: 0o600}[keep]; err != nil || info.Mode().Perm() != want {
			t.Errorf("KeepMode %v: mode %v, want %v", keep, info.Mode().Perm(), want)
		}
	}
}

func TestSessionRow(t *testing.T) {
	t.Parallel()
	s := openStore(t, dbPath(t), Options{Profile: "work"})
	in := Session{
		Source: "telegram", UserID: "7", SessionKey: "agent:main:telegram:dm:7", ChatID: "7", ChatType: "dm", ThreadID: "3", DisplayName: "Ann",
		OriginJSON: `{"a":1}`, Model: "m1", ModelConfig: json.RawMessage(`{"provider":"p"}`), SystemPrompt: "You are.", Title: " a\ttitle\u200b ",
		Cwd: "/w", Transport: "bot", Pinned: true,
	}
	got := create(t, s, in)
	if !regexp.MustCompile(`^\d{8}_\d{6}_[0-9a-f]{8}$`).MatchString(got.ID) {
		t.Errorf("id %q", got.ID)
	}
	want := in
	want.ID, want.Started, want.Active, want.CreatedSource, want.Profile = got.ID, got.Started, got.Active, "telegram", "work"
	want.Title, want.TitleSource = "a title", TitleUser
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("read back (-want +got):\n%s", d)
	}
	if time.Since(got.Started) > time.Minute {
		t.Errorf("started %v", got.Started)
	}
	if _, err := s.Create(t.Context(), Session{ID: got.ID, Source: "cli"}); err == nil {
		t.Error("an id was taken twice")
	}
	if _, err := s.Create(t.Context(), Session{Source: "cli", Parent: "nobody"}); !errors.Is(err, ErrNoSession) {
		t.Errorf("unknown parent: %v", err)
	}
	if _, err := s.Get(t.Context(), "nobody"); !errors.Is(err, ErrNoSession) {
		t.Errorf("unknown session: %v", err)
	}
}

func TestSystemPromptsAreShared(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	a, b := create(t, s, Session{SystemPrompt: "same"}), create(t, s, Session{SystemPrompt: "same"})
	db := rawDB(t, s.Path())
	// sha256 of "same": what upstream computes for it.
	if got := ask(t, db, "SELECT hash, prompt FROM system_prompts"); got != "0967115f2813a3541eaef77de9d9d5773f1c0c04314b0bbfe4ff3b3b1c55b5d5|same" {
		t.Errorf("prompts %q", got)
	}
	if err := s.SetSystemPrompt(t.Context(), a.ID, "other"); err != nil {
		t.Fatal(err)
	}
	if got := ask(t, db, "SELECT prompt FROM system_prompts ORDER BY 1"); got != "other\nsame" {
		t.Errorf("prompts %q", got)
	}
	if err := s.Delete(t.Context(), b.ID); err != nil {
		t.Fatal(err)
	}
	if got := ask(t, db, "SELECT prompt FROM system_prompts"); got != "other" {
		t.Errorf("prompts %q after the last user of one is gone", got)
	}
}

func TestMessageRow(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	id := create(t, s, Session{}).ID
	empty := ""
	at := time.Date(2026, 10, 1, 12, 0, 0, 500_000_000, time.UTC)
	in := []Message{
		{Role: "user", Content: "hi \x00 there\xff", Time: at, PlatformID: "55", Observed: true},
		{Role: "user", Parts: json.RawMessage(`[{"type":"text","text":"look"},{"type":"image_url","image_url":{"url":"u"}}]`), Time: at},
		{
			Role: "assistant", ToolCalls: calling("a:terminal").ToolCalls, Finish: "tool_calls", Reasoning: "r", ReasoningContent: &empty, ReasoningDetails: json.RawMessage(`[{"x":1}]`),
			CodexReasoning: json.RawMessage(`[1]`), CodexMessages: json.RawMessage(`[2]`), Tokens: 9, Time: at,
		},
		{Role: "tool", CallID: "a", ToolName: "terminal", Content: "", Effect: "none", Time: at},
		{Role: "user", Content: structured + `{"not":"json of ours"}`, Time: at, APIContent: "sent", Display: "steer", Metadata: json.RawMessage(`{"k":1}`), Summary: true},
	}
	var want []Message
	for _, m := range in {
		m.ID, m.SessionID = appendTo(t, s, id, m), id
		want = append(want, m)
	}
	want[0].Content = "hi \x00 there\uFFFD"
	want[1].Content = "look"
	want[4].Content = strings.TrimPrefix(structured, "\x00") + `{"not":"json of ours"}`
	got, err := s.History(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("read back (-want +got):\n%s", d)
	}
	db := rawDB(t, s.Path())
	if got := ask(t, db, "SELECT typeof(content), typeof(reasoning_content) FROM messages WHERE role = 'assistant'"); got != "null|text" {
		t.Errorf("an assistant that only calls has content of type %s", got)
	}
	if got := ask(t, db, "SELECT message_count, tool_call_count FROM sessions"); got != "5|1" {
		t.Errorf("counters %s, want 5|1", got)
	}
	for _, m := range []Message{{}, {Role: "user", Parts: json.RawMessage("{")}, {Role: "assistant", ToolCalls: json.RawMessage("[")}} {
		if _, err := s.Append(t.Context(), id, m); err == nil {
			t.Errorf("%+v was written", m)
		}
	}
	if _, err := s.Append(t.Context(), "nobody", Message{Role: "user"}); !errors.Is(err, ErrNoSession) {
		t.Errorf("unknown session: %v", err)
	}
}

func TestEndAndReopen(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ctx := t.Context()
	n := create(t, s, Session{SessionKey: "k"})
	if err := errors.Join(s.End(ctx, n.ID, "session_reset"), s.End(ctx, n.ID, "later")); err != nil {
		t.Fatal(err)
	}
	got, err := s.Get(ctx, n.ID)
	if err != nil || got.EndReason != "session_reset" || got.Ended.IsZero() {
		t.Errorf("ended as %q at %v: the first reason must stay (%v)", got.EndReason, got.Ended, err)
	}
	if g, err := s.Generation(ctx, "telegram", "k"); g != 1 || err != nil {
		t.Errorf("generation %d, want 1 (%v)", g, err)
	}
	if err := s.Reopen(ctx, n.ID); err != nil {
		t.Fatal(err)
	}
	if got, _ := s.Get(ctx, n.ID); got.EndReason != "" || !got.Ended.IsZero() {
		t.Errorf("still ended: %+v", got)
	}
	if err := s.End(ctx, n.ID, "agent_close"); err != nil {
		t.Fatal(err)
	}
	if g, _ := s.Generation(ctx, "telegram", "k"); g != 1 {
		t.Errorf("generation %d after an end that is no fresh start", g)
	}
	if err := s.End(ctx, "nobody", "x"); !errors.Is(err, ErrNoSession) {
		t.Errorf("unknown session: %v", err)
	}
}

func TestDelete(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ctx := t.Context()
	top := create(t, s, Session{Title: "top"})
	mark := func(id string) json.RawMessage { return json.RawMessage(`{"_delegate_from":"` + id + `"}`) }
	sub := create(t, s, Session{Source: "subagent", Parent: top.ID, ModelConfig: mark(top.ID)})
	subsub := create(t, s, Session{Source: "subagent", Parent: sub.ID, ModelConfig: mark(sub.ID)})
	branch, err := s.Fork(ctx, top.ID, Branch{})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{top.ID, sub.ID, subsub.ID, branch.ID} {
		say(t, s, id, "user", "word "+id)
		if err := s.AddUsage(ctx, id, "m", "", Usage{Calls: 1}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(s.SetRoute(ctx, "", "k1", `{"session_id":"`+top.ID+`"}`), s.SetRoute(ctx, "", "k2", `{"session_id":"`+branch.ID+`"}`), s.SetRoute(ctx, "", "k3", `no json`)); err != nil {
		t.Fatal(err)
	}
	turn, err := s.Begin(ctx, top.ID, "t")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(ctx, top.ID); !errors.Is(err, ErrTurnRunning) {
		t.Errorf("deleting a session in a turn: got %v, want ErrTurnRunning", err)
	}
	if err := errors.Join(turn.Close(ctx), s.Delete(ctx, top.ID)); err != nil {
		t.Fatal(err)
	}
	db := rawDB(t, s.Path())
	if got := ask(t, db, "SELECT id, parent_session_id FROM sessions"); got != branch.ID+"|<nil>" {
		t.Errorf("left: %s; want the branch alone, without parent", got)
	}
	if got := ask(t, db, "SELECT (SELECT count(*) FROM messages), (SELECT count(*) FROM session_model_usage), (SELECT group_concat(session_key) FROM gateway_routing)"); got != "1|1|k2,k3" {
		t.Errorf("messages, usage, routes: %s", got)
	}
	if hits := find(t, s, "word"); len(hits) != 1 || hits[0].SessionID != branch.ID {
		t.Errorf("search still finds %v", hits)
	}
	if d, err := s.Check(ctx); err != nil || d.Class != Whole {
		t.Errorf("check: %+v %v", d, err)
	}
	if err := s.Delete(ctx, top.ID); !errors.Is(err, ErrNoSession) {
		t.Errorf("deleting again: %v", err)
	}
}

func TestModelKeepsMarks(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	n := create(t, s, Session{ModelConfig: json.RawMessage(`{"_branched_from":"x","old":1}`)})
	if err := s.SetModel(t.Context(), n.ID, "m2", json.RawMessage(`{"new":2}`)); err != nil {
		t.Fatal(err)
	}
	got, err := s.Get(t.Context(), n.ID)
	if err != nil || got.Model != "m2" || string(got.ModelConfig) != `{"_branched_from":"x","new":2}` {
		t.Errorf("got %s %s %v", got.Model, got.ModelConfig, err)
	}
	if err := s.SetModel(t.Context(), n.ID, "m", json.RawMessage(`[`)); err == nil {
		t.Error("config that is no object was taken")
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ctx := t.Context()
	n := create(t, s, Session{})
	u := Usage{Calls: 1, Input: 10, Output: 5, CacheRead: 3, CacheWrite: 2, Reasoning: 1, EstimatedCost: 0.25, Provider: "p", CostStatus: "estimated"}
	for _, task := range []string{"", "", "compression"} {
		if err := s.AddUsage(ctx, n.ID, "m", task, u); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.Get(ctx, n.ID)
	want := Usage{Calls: 2, Input: 20, Output: 10, CacheRead: 6, CacheWrite: 4, Reasoning: 2, EstimatedCost: 0.5, Provider: "p", CostStatus: "estimated"}
	if d := cmp.Diff(want, got.Usage); d != "" || err != nil || got.Model != "m" {
		t.Errorf("session (-want +got, %v):\n%s", err, d)
	}
	rows, err := s.UsageByModel(ctx, n.ID)
	if err != nil || len(rows) != 2 || rows[0].Calls+rows[1].Calls != 3 {
		t.Errorf("by model: %+v %v", rows, err)
	}
	for _, task := range []string{"", "vision"} {
		if err := s.AddUsage(ctx, "nobody", "m", task, u); !errors.Is(err, ErrNoSession) {
			t.Errorf("unknown session, task %q: %v", task, err)
		}
	}
}

func TestRoutesAndResume(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := openStore(t, dbPath(t), Options{Now: func() time.Time { now = now.Add(time.Second); return now }})
	ctx := t.Context()
	if err := errors.Join(s.SetRoute(ctx, "", "k", `{"v":1}`), s.SetRoute(ctx, "", "k", `{"v":2}`), s.SetRoute(ctx, "other", "k", `{"v":3}`)); err != nil {
		t.Fatal(err)
	}
	got, err := s.Routes(ctx, "")
	if d := cmp.Diff(map[string]string{"k": `{"v":2}`}, got); d != "" || err != nil {
		t.Errorf("routes: %s %v", d, err)
	}
	if err := s.DropRoute(ctx, "", "k"); err != nil {
		t.Fatal(err)
	}
	if got, _ := s.Routes(ctx, ""); len(got) != 0 {
		t.Errorf("routes: %v", got)
	}

	old := create(t, s, Session{SessionKey: "c"})
	say(t, s, old.ID, "user", "x")
	if err := s.End(ctx, old.ID, "agent_close"); err != nil { // nobody meant it
		t.Fatal(err)
	}
	if n, err := s.Resume(ctx, "telegram", "c"); err != nil || n.ID != old.ID {
		t.Errorf("resume %v %v, want %s", n.ID, err, old.ID)
	}
	fresh := create(t, s, Session{SessionKey: "c"})
	if n, err := s.Resume(ctx, "telegram", "c"); err != nil || n.ID != old.ID {
		t.Errorf("resume %v %v: one with messages goes before an empty one", n.ID, err)
	}
	if err := s.End(ctx, fresh.ID, "session_reset"); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Resume(ctx, "telegram", "c"); !errors.Is(err, ErrNoSession) {
		t.Errorf("resume reached behind a fresh start: %v %v", n.ID, err)
	}
}

func TestBeat(t *testing.T) {
	t.Parallel()
	s := openStore(t, dbPath(t), Options{Profile: "p"})
	ctx := t.Context()
	for range 2 {
		if err := s.Beat(ctx, "gateway", time.Unix(5, 0)); err != nil {
			t.Fatal(err)
		}
	}
	db := rawDB(t, s.Path())
	if got := ask(t, db, "SELECT backend_id, pid = ?, started_at, profile FROM gateway_heartbeats", os.Getpid()); got != "gateway|1|5|p" {
		t.Errorf("heartbeat %s", got)
	}
	if err := s.Gone(ctx, "gateway"); err != nil || ask(t, db, "SELECT count(*) FROM gateway_heartbeats") != "0" {
		t.Errorf("still there: %v", err)
	}
}
