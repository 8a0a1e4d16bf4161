// SPDX-License-Identifier: MIT

package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParseQuery(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                     "",
		"   ":                  "",
		"docker":               `(("docker"))`,
		"docker network":       `(("docker" AND "network"))`,
		`"docker network"`:     `(("docker network"))`,
		"a AND b":              `(("a" AND "b"))`,
		"a OR b c":             `(("a")) OR (("b" AND "c"))`,
		"python NOT java":      `(("python") NOT "java")`,
		"NOT java":             "",
		"NOT java OR go":       `(("go"))`,
		"OR OR a OR":           `(("a"))`,
		"AND":                  "",
		"deploy*":              `(("deploy"*))`,
		`"two words"*`:         `(("two words"*))`,
		"***":                  "",
		"*leading":             `(("*leading"))`,
		`un"closed quote`:      `(("un" AND "closed quote"))`,
		"and or not":           `(("and" AND "or" AND "not"))`,
		"NEAR(a b)":            `(("NEAR(a" AND "b)"))`,
		"content:secret":       `(("content:secret"))`,
		"my-app.config.ts":     `(("my-app.config.ts"))`,
		"-1 ^x {a b}:c + - ()": `(("-1" AND "^x" AND "{a" AND "b}:c"))`,
		"a\x00b":               `(("a" AND "b"))`,
		"日本":                   `(("日本"))`,
	} {
		if got := parseQuery(in).match(); got != want {
			t.Errorf("%q: got %s, want %s", in, got, want)
		}
	}
}

func TestSearch(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	tele, cron := create(t, s, Session{Title: "Chat", Model: "m"}), create(t, s, Session{Source: "cron"})
	add := func(n Session, m Message) int64 { return appendTo(t, s, n.ID, m) }
	docker := add(tele, Message{Role: "user", Content: "How do I configure docker networking?"})
	answer := add(tele, Message{Role: "assistant", Content: "Use a bridge network for docker-compose v2.1"})
	call := add(tele, Message{Role: "assistant", ToolCalls: json.RawMessage(`[{"id":"z","function":{"name":"web_search","arguments":"{\"q\":\"quokka\"}"}}]`)})
	long := add(tele, Message{Role: "tool", CallID: "z", ToolName: "web_search", Content: "beginning " + strings.Repeat("filler ", 2000) + " endmarker"})
	job := add(cron, Message{Role: "assistant", Content: "nightly docker prune"})
	cjk := add(tele, Message{Role: "user", Content: "修改youer服务端的配置文件"})
	parts := add(tele, Message{Role: "user", Parts: json.RawMessage(`[{"type":"text","text":"picture of 富士山 at dawn"}]`)})
	add(tele, Message{Role: "user", Content: "secret instruction docker", Display: "hidden"})
	for _, c := range []struct {
		q    Query
		want []int64
	}{
		{Query{Text: "docker"}, []int64{docker, answer, job}},
		{Query{Text: "docker networking"}, []int64{docker}},
		{Query{Text: `"bridge network"`}, []int64{answer}},
		{Query{Text: "docker NOT nightly NOT bridge"}, []int64{docker}},
		{Query{Text: "bridge OR nightly"}, []int64{answer, job}},
		{Query{Text: "configur*"}, []int64{docker}},
		{Query{Text: "docker-compose"}, []int64{answer}},
		{Query{Text: "v2.1"}, []int64{answer}},
		{Query{Text: "quokka"}, []int64{call}},
		{Query{Text: "web_search"}, []int64{call, long}},
		{Query{Text: "beginning"}, []int64{long}},
		{Query{Text: "endmarker"}, nil},                                    // beyond what the index has of a result …
		{Query{Text: "endmarker", Roles: []string{"tool"}}, []int64{long}}, // … but there when results are asked for
		{Query{Text: "docker", Sources: []string{"cron"}}, []int64{job}},
		{Query{Text: "docker", Except: []string{"cron"}}, []int64{docker, answer}},
		{Query{Text: "docker", Roles: []string{"user"}}, []int64{docker}},
		{Query{Text: "docker", Order: Newest}, []int64{job, answer, docker}},
		{Query{Text: "docker", Order: Oldest, Limit: 1, Offset: 1}, []int64{answer}},
		{Query{Text: "配置文件"}, []int64{cjk}},
		{Query{Text: "配置"}, []int64{cjk}}, // too short for trigrams
		{Query{Text: "配置 OR nightly"}, []int64{cjk, job}},
		{Query{Text: "youer"}, []int64{cjk}},       // part of a word for the word index
		{Query{Text: "etworkin"}, []int64{docker}}, // likewise
		{Query{Text: "dawn"}, []int64{parts}},
		{Query{Text: "富士"}, []int64{parts}},
		{Query{Text: "富士山 at"}, []int64{parts}},
		{Query{Text: "nowhere"}, nil},
		{Query{Text: ""}, nil},
		{Query{Text: "!!!"}, nil},
	} {
		hits, err := s.Search(t.Context(), c.q)
		var got []int64
		for _, h := range hits {
			got = append(got, h.MessageID)
		}
		if c.q.Order == ByRelevance {
			slices.Sort(got)
			slices.Sort(c.want)
		}
		if !slices.Equal(got, c.want) || err != nil {
			t.Errorf("%+v: got %v %v, want %v", c.q, got, err, c.want)
		}
	}
	h := find(t, s, "bridge")[0]
	if !strings.Contains(h.Snippet, ">>>bridge<<<") || h.SessionID != tele.ID || h.Source != "telegram" || h.Title != "Chat" || h.Model != "m" || h.Role != "assistant" || h.Time.IsZero() || h.Started.IsZero() {
		t.Errorf("hit %+v", h)
	}
	if h := find(t, s, "配置")[0]; !strings.Contains(h.Snippet, "配置") {
		t.Errorf("excerpt of a scan: %q", h.Snippet)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Search(ctx, Query{Text: "docker"}); !errors.Is(err, context.Canceled) {
		t.Errorf("a search that is not wanted any more: %v", err)
	}
}

// hostile are queries that upset one FTS5 grammar or another.
func hostile() []string {
	return []string{
		`"`, `""`, `"""`, `" OR "`, `*`, `a*b*`, `^`, `^a`, `a^`, `(`, `)`, `(()`, `{`, `}`, `{a}:b`, `:`, `a:b`, `-`, `--`, `-a`, `+`, `a + b`, `NEAR`, `NEAR(`, `NEAR(a b, 3)`, `NEAR/3`,
		`AND`, `OR`, `NOT`, `NOT NOT a`, `a NOT`, `a AND AND b`, `OR a`, `a OR OR b`, `'`, `''; DROP TABLE messages; --`, `\`, "\x00", "a\x00\"b", "\xff\xfe", "\u0301", `"\u0301"`, "😀", "%", "_", `\%`,
		`content : x`, `messages_fts`, `rank`, `a"b"c`, `"a" "b"`, `"a"*"b"`, `"a"**`, "\u200b", "ﬃ", "İ", "ß", "a\nb\tc", strings.Repeat("(", 5000), strings.Repeat(`"`, 5000), strings.Repeat("a OR ", 900), strings.Repeat("NOT ", 900) + "a", strings.Repeat("NOT a ", 340) + "b", "b" + strings.Repeat(" NOT a", 340), strings.Repeat("a* ", 680),
		strings.Repeat("x", 100_000), strings.Repeat("日", 1000), "日*", `"日本" NOT 語`, "ab OR 日", "\ue000", "\U000F0000",
	}
}

func TestHostileQueries(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	id := create(t, s, Session{}).ID
	say(t, s, id, "user", "a b c x 日本語 rank content")
	for _, text := range hostile() {
		for _, q := range []Query{{Text: text}, {Text: text, Roles: []string{"tool"}}, {Text: text, Sources: []string{"cron"}}} {
			if _, err := s.Search(t.Context(), q); err != nil {
				t.Errorf("%.60q: %v", text, err)
			}
		}
		// Without the net of the scan: the index itself must understand it.
		if p := parseQuery(text); len(p) > 0 {
			for _, ix := range []string{wordIndex, trigramIndex} {
				if _, err := s.match(t.Context(), Query{Limit: 1}, p, ix); err != nil {
					t.Errorf("%.60q in %s as %.80s: %v", text, ix, p.match(), err)
				}
			}
		}
	}
	if d, err := s.Check(t.Context()); err != nil || d.Class != Whole {
		t.Errorf("check %+v %v", d, err)
	}
}

// FuzzQuery holds the query language against an index: whatever is typed is understood by FTS5,
// and a plain word that is in a message finds it.
func FuzzQuery(f *testing.F) {
	for _, q := range hostile() {
		f.Add(q)
	}
	s, err := Open(context.Background(), dbPath(f), Options{Synchronous: "off"})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { s.Close() })
	n, err := s.Create(context.Background(), Session{Source: "cli"})
	if err != nil {
		f.Fatal(err)
	}
	if _, err := s.Append(context.Background(), n.ID, Message{Role: "user", Content: "the needle in words"}); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p := parseQuery(text)
		if len(p) == 0 {
			return
		}
		for _, ix := range []string{wordIndex, trigramIndex} {
			if _, err := s.match(t.Context(), Query{Limit: 1}, p, ix); err != nil {
				t.Fatalf("%q as %s in %s: %v", text, p.match(), ix, err)
			}
		}
		if _, err := s.scan(t.Context(), Query{Limit: 1}, p, 0, 1<<62); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if len(text) > mostQuery-20 || len(strings.Fields(text)) > mostTerms-1 || strings.Count(text, `"`)%2 != 0 || strings.HasSuffix(strings.TrimSpace(text), "NOT") {
			return
		}
		if hits, err := s.Search(t.Context(), Query{Text: text + " OR needle"}); err != nil || len(hits) == 0 {
			t.Fatalf("%q OR needle: %d hits, %v", text, len(hits), err)
		}
	})
}

func TestAround(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	n := create(t, s, Session{})
	var ids []int64
	for i := range 9 {
		ids = append(ids, say(t, s, n.ID, "user", fmt.Sprint(i)))
	}
	for _, c := range []struct {
		at, window    int
		want          string
		before, after int
	}{
		{4, 2, "2 3 4 5 6", 2, 2},
		{0, 2, "0 1 2", 0, 2},
		{8, 2, "6 7 8", 2, 0},
		{4, 99, "0 1 2 3 4 5 6 7 8", 4, 4},
		{4, 0, "3 4 5", 1, 1},
	} {
		v, err := s.Around(t.Context(), n.ID, ids[c.at], c.window)
		if got := strings.ReplaceAll(shapeOf(v.Messages), "user:", ""); got != c.want || v.Before != c.before || v.After != c.after || err != nil {
			t.Errorf("around %d by %d: got %s, %d before, %d after, %v", c.at, c.window, got, v.Before, v.After, err)
		}
	}
	child := compress(t, s, n.ID, Compression{Handoff: handoff()})
	v, err := s.Around(t.Context(), child.ID, ids[3], 1)
	if err != nil || v.Session.ID != n.ID {
		t.Errorf("a message of an earlier part: %s %v", v.Session.ID, err)
	}
	if _, err := s.Around(t.Context(), create(t, s, Session{}).ID, ids[3], 1); !errors.Is(err, ErrNoMessage) {
		t.Errorf("a message of a stranger: %v", err)
	}
	if _, err := s.Around(t.Context(), n.ID, 999, 1); !errors.Is(err, ErrNoMessage) {
		t.Errorf("no message: %v", err)
	}
	if v, err := s.Around(t.Context(), n.ID, ids[8], 1); err != nil || v.Before != 1 {
		t.Errorf("%+v %v", v, err)
	}
}

func TestRecall(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_790_000_000, 0)
	s := openStore(t, dbPath(t), Options{Now: func() time.Time { now = now.Add(time.Second); return now }})
	fill := func(n Session, words ...string) Session {
		n = create(t, s, n)
		for i, w := range words {
			say(t, s, n.ID, []string{"user", "assistant"}[i%2], w)
		}
		return n
	}
	plain := fill(Session{}, "start a", "start b", "start c", "m1", "m2", "m3", "m4", "m5", "giraffe here", "n1", "n2", "n3", "n4", "n5", "end a", "end b", "end c")
	fill(Session{Source: "cron"}, strings.Repeat("giraffe ", 50))
	fill(Session{Source: "subagent"}, "giraffe giraffe")
	second := fill(Session{}, "one giraffe more", "giraffe giraffe giraffe")
	mine := fill(Session{}, "my own giraffe")
	appendTo(t, s, plain.ID, result("x", "giraffe in a tool"))

	finds, err := s.Recall(t.Context(), Recall{Query: Query{Text: "giraffe"}, Current: mine.ID})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range finds {
		got = append(got, f.Source)
		if f.SessionID == mine.ID {
			t.Error("what the model has before its eyes is told again")
		}
	}
	if strings.Join(got, " ") != "telegram telegram cron" {
		t.Errorf("sources %v: people's conversations first, subagents not at all", got)
	}
	if len(finds[0].Messages) < 2 || len(finds[1].Messages) != 1 {
		t.Errorf("%d and %d messages: want the surroundings of the best hit only", len(finds[0].Messages), len(finds[1].Messages))
	}
	one, err := s.Recall(t.Context(), Recall{Query: Query{Text: `"giraffe here"`}, Most: 1, Full: true})
	if err != nil || len(one) != 1 {
		t.Fatalf("%v %v", one, err)
	}
	if got, want := shapeOf(one[0].Start)+" | "+shapeOf(one[0].Messages)+" | "+shapeOf(one[0].End),
		"user:start a assistant:start b user:start c | assistant:m1 user:m2 assistant:m3 user:m4 assistant:m5 user:giraffe here assistant:n1 user:n2 assistant:n3 user:n4 assistant:n5 | user:end a assistant:end b user:end c"; strings.NewReplacer("user:", "", "assistant:", "").Replace(got) != strings.NewReplacer("user:", "", "assistant:", "").Replace(want) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	// A part that was compressed away is not before the eyes of its continuation.
	child := compress(t, s, second.ID, Compression{Handoff: handoff()})
	finds, err = s.Recall(t.Context(), Recall{Query: Query{Text: `"one giraffe"`}, Current: child.ID})
	if err != nil || len(finds) != 1 || finds[0].SessionID != second.ID {
		t.Errorf("%v %v: want what was compressed away", finds, err)
	}
	head, tail, total, err := s.Read(t.Context(), plain.ID)
	if err != nil || len(head) != 18 || len(tail) != 0 || total != 18 {
		t.Errorf("read: %d, %d of %d, %v", len(head), len(tail), total, err)
	}
	for range 20 {
		say(t, s, plain.ID, "user", "x")
	}
	head, tail, total, err = s.Read(t.Context(), plain.ID)
	if err != nil || len(head) != 20 || len(tail) != 10 || total != 38 || head[0].Content != "start a" || tail[9].Content != "x" {
		t.Errorf("read: %d, %d of %d, %v", len(head), len(tail), total, err)
	}
}

// TestSearchCommonWord has a word in more messages than are ranked: the newest are meant, and a
// filter that leaves none of those is answered from all.
func TestSearchCommonWord(t *testing.T) {
	t.Parallel()
	path := dbPath(t)
	s := openStore(t, path, Options{})
	old, late := create(t, s, Session{Source: "cli"}).ID, create(t, s, Session{}).ID
	db := rawDB(t, path)
	must(t, db, "INSERT INTO messages (session_id, role, content, timestamp) VALUES ('"+old+"', 'user', 'common', 1)",
		fmt.Sprintf("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) INSERT INTO messages (session_id, role, content, timestamp) SELECT '%s', 'user', 'common word', 2 FROM n", ranked+10, late))
	if hits := find(t, s, "common"); len(hits) != 20 || hits[0].SessionID != late {
		t.Errorf("%d hits, first %+v", len(hits), hits[0])
	}
	hits, err := s.Search(t.Context(), Query{Text: "common", Sources: []string{"cli"}})
	if err != nil || len(hits) != 1 || hits[0].SessionID != old {
		t.Errorf("%v %v", hits, err)
	}
	for order, want := range map[string]string{Newest: late, Oldest: old} {
		if hits, err := s.Search(t.Context(), Query{Text: "common", Order: order, Limit: 1}); err != nil || hits[0].SessionID != want {
			t.Errorf("%s: %v %v", order, hits, err)
		}
	}
}
