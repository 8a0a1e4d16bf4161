// SPDX-License-Identifier: MIT

package main

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// upstreamSession is the conversation in the database of upstream's making.
const upstreamSession = "20260911_080000_0a1b2c3d"

// upstreamHome is a home as upstream leaves it.
func upstreamHome(t testing.TB) *place {
	t.Helper()
	p := newPlace(t, map[string]string{
		"config.yaml":                  "# my settings\n_config_version: 50\nmodel:\n  default: \"\"   # none yet\ndisplay:\n  busy_input_mode: queue\nmy_plugin: {a: 1}\n",
		".env":                         apiOn + "# keys\nexport NOTES_DIR='/srv/notes'\n",
		"SOUL.md":                      "I am Parcel, the helper of a post office.\n",
		"memories/MEMORY.md":           "The hall is on the left.\n§\nParcels come at nine.\n",
		"memories/USER.md":             "The user is Ada.\n",
		"memories/ARCHIVE.jsonl":       "{\"old\": true}\n",
		"skills/post/weigh/SKILL.md":   "---\nname: weigh\ndescription: Weigh a parcel\n---\nPut it on the scale.\n",
		"skills/.hub/lock.json":        "{}",
		"skills/.bundled_manifest":     "x\n",
		"cron/jobs.json":               "{\"jobs\": [], \"updated_at\": \"2026-09-11T08:00:00+00:00\"}\n",
		"cron/ticker_heartbeat":        "1789113600.0",
		"auth.json":                    "{\"tokens\": {\"x\": \"y\"}, \"future\": 1}\n",
		"mcp-tokens/s.json":            "{}",
		"hooks/h/HOOK.yaml":            "name: h\n",
		"hooks/h/handler.py":           "pass\n",
		"scripts/s.sh":                 "echo\n",
		"plugins/p/plugin.yaml":        "name: p\n",
		"kanban.db":                    "not ours",
		"logs/agent.log":               "old lines\n",
		"sessions/sessions.json":       "{}",
		"channel_directory.json":       "{}",
		"gateway_state.json":           `{"gateway_state": "stopped", "desired_state": "running", "pid": 1, "platforms": {"telegram": {"state": "connected"}}}`,
		"profiles/work/config.yaml":    "_config_version: 50\n",
		"profiles/work/SOUL.md":        "Work.\n",
		"profiles/.deleted/gone":       "",
		"pairing/telegram-approved":    "42\n",
		"cron/output/0a/2026-09-11.md": "done\n",
	})
	schema, err := os.ReadFile("../../appliance/session/testdata/upstream30.sql")
	if err != nil {
		t.Fatal(err)
	}
	execute(t, filepath.Join(p.home, "state.db"), "PRAGMA journal_mode = wal", string(schema))
	return p
}

func execute(t testing.TB, path string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
}

// rows reads what a query finds, the columns of a row joined.
func rows(t testing.TB, path, query string) []string {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(60000)") // a gateway may run on it
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	found, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer found.Close()
	names, err := found.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for found.Next() {
		cells := make([]any, len(names))
		into := make([]any, len(names))
		for i := range cells {
			into[i] = &cells[i]
		}
		if err := found.Scan(into...); err != nil {
			t.Fatal(err)
		}
		var texts []string
		for _, c := range cells {
			if b, ok := c.([]byte); ok {
				c = string(b)
			}
			texts = append(texts, fmt.Sprint(c))
		}
		out = append(out, strings.Join(texts, "|"))
	}
	if err := found.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// writes are what a gateway may write in a home.
func writes(name string) bool {
	top, _, _ := strings.Cut(name, "/")
	return slices.Contains([]string{"state.db", "state.db-wal", "state.db-shm", "gateway.lock", "gateway.pid", "gateway.sock", "gateway_state.json", "gateway-starts.log", "cache"}, top) ||
		name == "logs/gateway.log" || name == ".appliance/gateway.commands" || name == "state/gateway.heartbeat"
}

// TestUpstreamHomeSurvivesAKill: a home of upstream's is turned, the gateway is killed while a
// tool runs, and started again: each call has one result, the history is whole, and nothing
// else in the home was touched.
func TestUpstreamHomeSurvivesAKill(t *testing.T) {
	t.Parallel()
	p := upstreamHome(t)
	db := filepath.Join(p.home, "state.db")
	const old = "SELECT * FROM messages WHERE id <= 4 ORDER BY id"
	before, oldRows := testkit.ReadTree(t, p.home), rows(t, db, old)

	g := p.start(t, "up", "--home", p.home)
	status, body := g.request(g.key, "/api/sessions/"+upstreamSession+"/chat", `{"message":"run: echo again-$((5*5))"}`)
	if status != 200 || !strings.Contains(body, "again-25") {
		t.Fatalf("%d %s", status, body)
	}
	path, heard := fifo(t, p.dir)
	const sleep = "sleep 300.0625"
	go g.try(g.key, "/api/sessions/"+upstreamSession+"/chat", `{"message":"run: echo > `+path+`; `+sleep+`"}`)
	heard()
	g.end(syscall.SIGKILL)
	// The next gateway would end the command: this is about its rows.
	for _, pid := range processes(t, sleep) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Logf("process %d: %v", pid, err)
		}
	}

	// What a kill in the middle of such writes leaves, the next gateway removes.
	testkit.WriteTree(t, p.home, map[string]string{".gateway_state.json.ABCDEFG2.new": "{", "state/.gateway.heartbeat.ABCDEFG2.new": ""})

	g = p.start(t, "gateway", "run", "--home", p.home)
	status, body = g.request(g.key, "/api/sessions/"+upstreamSession+"/chat", `{"message":"run: echo third-$((3*3))"}`)
	if status != 200 || !strings.Contains(body, "third-9") {
		t.Fatalf("after the kill: %d %s", status, body)
	}
	if code := g.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit %d", code)
	}

	if got := rows(t, db, old); !slices.Equal(got, oldRows) {
		t.Errorf("rows of upstream's changed:\n%v\n%v", oldRows, got)
	}
	oneResultEach(t, db)
	said := strings.Join(rows(t, db, "SELECT role || ':' || substr(ifnull(content, ''), 1, 40) FROM messages WHERE session_id = '"+upstreamSession+"' ORDER BY id"), "\n")
	for _, want := range []string{"user:where is the parcel?", "assistant:It is in the hall.", "user:run: echo again", "again-25", `tool:{"error":"interrupted"`, "third-9"} {
		if !strings.Contains(said, want) {
			t.Errorf("the history has no %q:\n%s", want, said)
		}
	}
	for query, want := range map[string]string{
		"SELECT * FROM plugin_notes":                                      "1|kept",
		"SELECT count(*) FROM session_turn_leases":                        "0",
		"PRAGMA integrity_check":                                          "ok",
		"SELECT version FROM schema_version":                              "30",
		"SELECT title FROM sessions WHERE id = '" + upstreamSession + "'": "Parcel",
	} {
		if got := strings.Join(rows(t, db, query), ","); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	after := testkit.ReadTree(t, p.home)
	for name, text := range before {
		if !writes(name) && after[name] != text {
			t.Errorf("%s was changed: %q", name, after[name])
		}
	}
	for name := range after {
		if _, ok := before[name]; !ok && !writes(name) {
			t.Errorf("%s is new", name)
		}
	}
	if p.state(t)["desired_state"] != "running" {
		t.Error("desired_state, which is somebody else's word, is gone")
	}
}

// oneResultEach checks that every tool call of a database has exactly one result.
func oneResultEach(t testing.TB, db string) {
	t.Helper()
	calls, results := map[string]int{}, map[string]int{}
	for _, row := range rows(t, db, "SELECT session_id, tool_calls FROM messages WHERE tool_calls IS NOT NULL AND ifnull(active, 1) = 1") {
		session, text, _ := strings.Cut(row, "|")
		var list []struct{ ID string }
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		for _, c := range list {
			calls[session+" "+c.ID]++
		}
	}
	for _, row := range rows(t, db, "SELECT session_id, tool_call_id FROM messages WHERE role = 'tool' AND ifnull(active, 1) = 1") {
		results[strings.Replace(row, "|", " ", 1)]++
	}
	if len(calls) == 0 {
		t.Error("there are no calls to look at")
	}
	for id, n := range calls {
		if n != 1 || results[id] != 1 {
			t.Errorf("call %s: %d times, %d results", id, n, results[id])
		}
	}
	for id := range results {
		if calls[id] == 0 {
			t.Errorf("result %s has no call", id)
		}
	}
}

// TestRehearsalOnUpstreamHome: what a home of upstream's says of identity, memory and skills
// reaches the model and its tools.
func TestRehearsalOnUpstreamHome(t *testing.T) {
	t.Parallel()
	p := upstreamHome(t)
	g := p.start(t, "gateway", "run", "--home", p.home)
	for call, want := range map[string]string{
		`call: skill_view {"name": "weigh"}`:                 "Put it on the scale",
		`call: session_search {"query": "parcel"}`:           upstreamSession,
		`call: read_file {"path": "` + p.home + `/.env"}`:    "access denied",
		`call: read_file {"path": "` + p.home + `/SOUL.md"}`: "post office",
	} {
		if got := g.ask("", g.key, call); !strings.Contains(got, want) {
			t.Errorf("%s: no %q in %s", call, want, got)
		}
	}
	g.end(syscall.SIGTERM)
	prompts := strings.Join(rows(t, filepath.Join(p.home, "state.db"), "SELECT * FROM system_prompts"), "\n")
	for _, want := range []string{"I am Parcel", "The hall is on the left", "The user is Ada", "Weigh a parcel"} {
		if !strings.Contains(prompts, want) {
			t.Errorf("the system prompt has no %q", want)
		}
	}
}
