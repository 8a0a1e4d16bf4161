// SPDX-License-Identifier: MIT

package main

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit/modelserver"
)

func profileNames() []string { return []string{"default", "alice", "bob"} }

// canary is a value that one profile has in one place.
func canary(profile, place string) string { return "cnry-" + profile + "-" + place + "-<&>7f3a" }

// canaries finds whose canaries a text holds, in raw, base64, hexadecimal, URL or JSON form.
func canaries(text string) []string {
	var out []string
	for _, p := range profileNames() {
		mark := "cnry-" + p + "-"
		quoted, _ := json.Marshal(mark)
		forms := []string{mark, hex.EncodeToString([]byte(mark)), url.QueryEscape(mark), strings.Trim(string(quoted), `"`)}
		for shift := range 3 {
			enc := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", shift) + mark))
			forms = append(forms, enc[4:len(enc)-4])
		}
		if slices.ContainsFunc(forms, func(f string) bool { return strings.Contains(text, f) }) {
			out = append(out, p)
		}
	}
	return out
}

// estate is a multiplexed home with canaries of every origin in every profile.
type estate struct {
	t       *testing.T
	p       *place
	dumps   string // where children write their environment
	planted map[string]string

	mu    sync.Mutex
	steps map[string]int // answers that each profile's model gave
}

func (e *estate) dir(profile string) string {
	if profile == "default" {
		return e.p.home
	}
	return filepath.Join(e.p.home, "profiles", profile)
}

func newEstate(t *testing.T) *estate {
	t.Helper()
	e := &estate{t: t, p: newPlace(t, nil), planted: map[string]string{}, steps: map[string]int{}}
	e.dumps = filepath.Join(e.p.dir, "dumps")
	if err := os.Mkdir(e.dumps, 0o700); err != nil {
		t.Fatal(err)
	}
	dumper, err := exec.LookPath("mcp-dump")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range profileNames() {
		srv := modelserver.NewFunc(t, func(r modelserver.Request) modelserver.Reply { return e.model(p, r) })
		config := "_config_version: 50\nmodel:\n  provider: custom\n  default: scripted\n  base_url: " + srv.URL + "/v1\n" +
			"terminal:\n  ssh_user: " + quote(canary(p, "bridge")) + "\nmcp_servers:\n  dump:\n    command: " + dumper +
			"\n    args: [" + filepath.Join(e.dumps, "mcp-"+p) + "]\n    env:\n      MCP_ENTRY: " + quote(canary(p, "entry")) +
			"\nsecrets:\n  command:\n    enabled: true\n    command: \"cat \\\"$HERMES_HOME/vault.txt\\\"\"\n"
		if p == "default" {
			config += "gateway:\n  multiplex_profiles: true\n"
		}
		env := "API_SERVER_KEY=" + canary(p, "api") + "\nOPENAI_API_KEY=" + canary(p, "provider") + "\nFREE_TEXT=" + canary(p, "text") +
			"\nTELEGRAM_BOT_TOKEN=" + canary(p, "adapter") + "\n" + strings.ToUpper(p) + "_ONLY=" + canary(p, "own") + "\n"
		vault := "VAULT_NOTE=" + canary(p, "vault") + "\n"
		if p == "default" {
			env += "API_SERVER_ENABLED=true\n" + e.removed()
			vault += "LOST_NOTE=" + canary(p, "supplied") + "\n"
		}
		testkit.WriteTree(t, e.dir(p), map[string]string{
			"config.yaml": config, ".env": env, "vault.txt": vault,
			"SOUL.md": "I am " + canary(p, "soul") + "\n", "memories/MEMORY.md": canary(p, "memory") + "\n",
			"skills/x/s/SKILL.md": "---\nname: s\ndescription: " + canary(p, "skill") + "\n---\n",
			".op.env":             "OP_SERVICE_ACCOUNT_TOKEN=" + canary(p, "op") + "\n",
		})
	}
	e.planted = testkit.ReadTree(t, e.p.home)
	for name, place := range map[string]string{ // whoever started the gateway had these of its own profile
		"REMOVED_NOTE": "removed", "LOST_NOTE": "lost", "GROQ_API_KEY": "export", "DISCORD_ALLOWED_CHANNELS": "gate",
		"TERMINAL_SSH_USER": "bridged", "_HERMES_FORCE_X": "forced", "HERMES_SESSION_CHAT_ID": "session",
	} {
		e.p.env = append(e.p.env, name+"="+canary("default", place))
	}
	return e
}

// removed is the line of the launch profile's .env that is gone soon after the start.
func (e *estate) removed() string { return "REMOVED_NOTE=" + canary("default", "removed") + "\n" }

// remove takes it out.
func (e *estate) remove() {
	e.t.Helper()
	e.planted[".env"] = strings.Replace(e.planted[".env"], e.removed(), "", 1)
	rewrite(e.t, filepath.Join(e.p.home, ".env"), e.planted[".env"])
}

// model answers for a profile: one tool after the other, then a text. It looks at all it is
// shown.
func (e *estate) model(profile string, r modelserver.Request) modelserver.Reply {
	e.only("request to the model of "+profile, profile, string(r.Body))
	if key := r.Header.Get("Authorization"); key != "Bearer "+canary(profile, "provider") {
		e.t.Errorf("the model of %s was given the key %q", profile, key)
	}
	var body struct {
		Messages []struct{ Role string }
	}
	if err := json.Unmarshal(r.Body, &body); err != nil {
		e.t.Error(err)
	}
	done := 0
	for _, m := range slices.Backward(body.Messages) {
		if m.Role == "user" {
			break
		}
		if m.Role == "tool" {
			done++
		}
	}
	e.mu.Lock()
	e.steps[profile]++
	n := e.steps[profile]
	e.mu.Unlock()
	neighbour := "bob"
	if profile == "bob" {
		neighbour = "alice"
	}
	calls := []struct{ name, args string }{
		{"terminal", `{"command":` + quote(fmt.Sprintf("export LATER=1; env > %s/term-%s-%d; env", e.dumps, profile, n)) + `}`},
		{"terminal", `{"command":` + quote(fmt.Sprintf("env > %s/again-%s-%d; echo $LATER", e.dumps, profile, n)) + `}`},
		{"read_file", `{"path":` + quote(e.dir(neighbour)+"/.env") + `}`},
		{"read_file", `{"path":` + quote(e.dir(profile)+"/.env") + `}`},
		{"mcp__dump__dump", `{}`},
		{"session_search", `{"query":"cnry"}`},
		{"skills_list", `{}`},
	}
	if done >= len(calls) {
		return modelserver.Reply{Text: "done " + profile}
	}
	return modelserver.Reply{Calls: []modelserver.Call{{ID: fmt.Sprintf("call_%s_%d", profile, n), Name: calls[done].name, Args: calls[done].args}}}
}

// only fails if a text holds another profile's canary.
func (e *estate) only(what, profile, text string) {
	e.t.Helper()
	for _, p := range canaries(text) {
		if p != profile {
			e.t.Errorf("%s holds canaries of %s", what, p)
		}
	}
}

// exercise uses every surface of a profile once, and returns ids that are its own.
func (e *estate) exercise(g *running, profile string) map[string]string {
	base, key := "/p/"+profile, canary(profile, "api")
	if profile == "default" {
		base = ""
	}
	said := quote("please, " + canary(profile, "said"))
	ask := func(path, body string, want int) string {
		status, got, err := g.try(key, base+path, body)
		if err != nil || status != want {
			e.t.Errorf("%s %s: %v %d %s", profile, path, err, status, got)
		}
		e.only(path+" of "+profile, profile, got)
		return got
	}
	ids := map[string]string{}
	done := "done " + profile
	chat := `{"messages":[{"role":"user","content":` + said + `}]`
	answers := []string{
		ask("/v1/chat/completions", chat+`}`, 200), ask("/v1/chat/completions", chat+`,"stream":true}`, 200),
	}
	response := ask("/v1/responses", `{"input":`+said+`}`, 200)
	ids["/v1/responses/"] = field[string](e.t, response, "id")
	answers = append(answers, response, ask("/v1/responses/"+ids["/v1/responses/"], "", 200))
	ids["/v1/runs/"] = field[string](e.t, ask("/v1/runs", `{"input":`+said+`}`, 202), "run_id")
	answers = append(answers, ask("/v1/runs/"+ids["/v1/runs/"]+"/events", "", 200), ask("/v1/runs/"+ids["/v1/runs/"], "", 200))
	session := field[map[string]any](e.t, ask("/api/sessions", `{}`, 201), "session")["id"].(string)
	ids["/api/sessions/"] = session
	answers = append(answers, ask("/api/sessions/"+session+"/chat", `{"message":`+said+`}`, 200), ask("/api/sessions/"+session+"/chat/stream", `{"message":`+said+`}`, 200))
	for i, a := range answers {
		if plain := strings.ReplaceAll(a, `"`, ""); !strings.Contains(plain, profile) || !strings.Contains(plain, "done") {
			e.t.Errorf("answer %d of %s is not %q: %s", i, profile, done, a)
		}
	}
	for _, path := range []string{"/v1/models", "/v1/capabilities", "/v1/skills", "/v1/toolsets", "/health/detailed", "/api/sessions", "/api/sessions/" + session + "/messages"} {
		ask(path, "", 200)
	}
	return ids
}

// TestReportB7ProfilesOfOneGateway plants canaries of every origin in three profiles of a
// running gateway, uses every surface of all of them at once, and looks for foreign ones in
// all that came of it: requests to models, answers, environments of children, logs, state
// files, databases, snapshots (H#51029, #52446, #82936, #111151).
func TestReportB7ProfilesOfOneGateway(t *testing.T) {
	t.Parallel()
	e := newEstate(t)
	g := e.p.start(t, "gateway", "run", "--home", e.p.home)
	e.remove()
	ids := map[string]map[string]string{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, p := range profileNames() {
		wg.Go(func() {
			for range 2 {
				own := e.exercise(g, p)
				mu.Lock()
				ids[p] = own
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	e.crossing(g, ids)
	e.files() // shell snapshots are there only while it runs
	out, _ := e.p.command(t, "status", "--home", e.p.home, "--json")
	if got := canaries(out); got != nil {
		t.Errorf("status holds canaries of %v", got)
	}
	if code := g.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit %d", code)
	}
	if left := processes(t, e.dumps); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
	if got := canaries(g.log.String() + g.out.String()); got != nil {
		t.Errorf("the log holds canaries of %v", got)
	}
	e.files()
	e.children()
}

// crossing asks with other profiles' keys and ids.
func (e *estate) crossing(g *running, ids map[string]map[string]string) {
	for _, c := range []struct {
		key, path string
		want      int
	}{
		{"", "/p/alice/v1/models", 401},
		{canary("default", "api"), "/p/alice/v1/models", 401},
		{canary("bob", "api"), "/p/alice/v1/models", 401},
		{canary("alice", "api"), "/v1/models", 401},
		{canary("default", "api"), "/p/nobody/v1/models", 404},
		{canary("alice", "api"), "/p/nobody/v1/models", 404},
		{"", "/p/alice/health/detailed", 401},
	} {
		status, body := g.request(c.key, c.path, "")
		if status != c.want || canaries(body) != nil {
			e.t.Errorf("%s with the key %q: %d, want %d: %s", c.path, c.key, status, c.want, body)
		}
	}
	for _, p := range profileNames() {
		base := "/p/" + p
		if p == "default" {
			base = ""
		}
		for _, other := range profileNames() {
			for path, id := range ids[other] {
				want := 404
				if other == p {
					want = 200
				}
				if status, body := g.request(canary(p, "api"), base+path+id, ""); status != want {
					e.t.Errorf("%s asks for %s of %s: %d, want %d: %s", p, path, other, status, want, body)
				}
			}
		}
	}
}

// files looks into everything that was written below the place.
func (e *estate) files() {
	e.t.Helper()
	looked := 0
	err := filepath.WalkDir(e.p.dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the gateway runs: what it staged is in its place by now
		}
		if err != nil || !d.Type().IsRegular() || strings.HasPrefix(path, e.dumps) {
			return err
		}
		rel, err := filepath.Rel(e.p.home, path)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if want, ok := e.planted[rel]; ok {
			if want != string(data) {
				e.t.Errorf("%s was changed", rel)
			}
			return nil
		}
		owner := "default"
		if rest, ok := strings.CutPrefix(rel, "profiles/"); ok {
			owner, _, _ = strings.Cut(rest, "/")
		}
		text := string(data)
		if filepath.Base(rel) == "state.db" {
			text += e.everything(path)
		}
		if of := canaries(text); strings.HasPrefix(filepath.Base(rel), "hermes-snap-") && len(of) == 1 {
			owner = of[0] // a shell's state, which is of one session and nobody else's to read
			if info, err := d.Info(); err == nil && info.Mode().Perm() != 0o600 || err != nil && !errors.Is(err, fs.ErrNotExist) {
				e.t.Errorf("%s: %v %v", rel, info, err)
			}
		} else if strings.HasPrefix(rel, "..") || rel == "gateway_state.json" || filepath.Base(rel) == "gateway.log" {
			owner = "nobody"
		}
		looked++
		e.only(rel, owner, text)
		for _, secret := range []string{"provider", "api", "adapter", "op", "vault"} {
			if strings.Contains(text, canary(owner, secret)) {
				e.t.Errorf("%s holds the %s secret of its own profile", rel, secret)
			}
		}
		return nil
	})
	if err != nil || looked < 10 {
		e.t.Errorf("looked at %d files: %v", looked, err)
	}
}

// everything is all the text of a database.
func (e *estate) everything(path string) string {
	var b strings.Builder
	for _, table := range rows(e.t, path, "SELECT name FROM sqlite_master WHERE type = 'table'") {
		b.WriteString(strings.Join(rows(e.t, path, `SELECT * FROM "`+table+`"`), "\n"))
	}
	return b.String()
}

// children looks at what every child had in its environment.
func (e *estate) children() {
	e.t.Helper()
	found, err := os.ReadDir(e.dumps)
	if err != nil {
		e.t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, f := range found {
		data, err := os.ReadFile(filepath.Join(e.dumps, f.Name()))
		if err != nil {
			e.t.Fatal(err)
		}
		kind, rest, _ := strings.Cut(f.Name(), "-")
		profile, _, _ := strings.Cut(rest, "-")
		kinds[kind+" "+profile]++
		text := string(data)
		e.only("child "+f.Name(), profile, text)
		for _, never := range []string{"provider", "api", "adapter", "op"} {
			if strings.Contains(text, canary(profile, never)) {
				e.t.Errorf("child %s has the %s secret", f.Name(), never)
			}
		}
		want := canary(profile, "text")
		if kind == "mcp" {
			want = canary(profile, "entry")
		}
		for _, place := range []string{"removed", "lost", "gate"} { // the launch profile's own keep theirs
			if kind == "term" && profile == "default" && !strings.Contains(text, canary(profile, place)) {
				e.t.Errorf("child %s has no %s: the test would see no leak either", f.Name(), canary(profile, place))
			}
		}
		if !strings.Contains(text, want) {
			e.t.Errorf("child %s has no %s: the test would see no leak either\n%s", f.Name(), want, text)
		}
	}
	for _, p := range profileNames() {
		for _, kind := range []string{"term", "again", "mcp"} {
			if kinds[kind+" "+p] == 0 {
				e.t.Errorf("no child %s of %s ran", kind, p)
			}
		}
	}
}
