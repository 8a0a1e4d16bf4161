// SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit/modelserver"
)

// literals are the places of a config in which secrets are written out.
func literals() []string {
	return []string{
		"model", "provider", "fallback", "auxiliary", "route", "hooks", "api", "bearer", "mcpenv", "mcparg", "mcpurl", "header", "cookie",
	}
}

func literal(profile, place string) string { return "words-of-" + profile + "-for-" + place }

// literalConfig is a config with a secret in each of those places.
func literalConfig(profile, url, dumper, dump string) string {
	s := func(place string) string { return literal(profile, place) }
	return `_config_version: 50
model: {provider: custom, default: scripted, base_url: ` + url + `/v1, api_key: ` + s("model") + `, extra_headers: {X-Api-Token: ` + s("header") + `}}
providers:
  other: {base_url: "http://127.0.0.1:9/v1", api_key: ` + s("provider") + `}
fallback_providers:
  - {provider: custom, model: m, base_url: ` + url + `/v1, api_key: ` + s("fallback") + `}
auxiliary:
  title_generation: {provider: custom, model: m, base_url: ` + url + `/v1, api_key: ` + s("auxiliary") + `}
mcp_servers:
  dump:
    command: ` + dumper + `
    args: [` + dump + `, --token, ` + s("mcparg") + `]
    env: {SERVICE_TOKEN: ` + s("mcpenv") + `}
  far:
    url: "http://127.0.0.1:9/mcp?api_key=` + s("mcpurl") + `"
    headers: {Authorization: Bearer ` + s("bearer") + `, Cookie: ` + s("cookie") + `}
platforms:
  api_server: {enabled: true, extra: {key: ` + s("api") + `}}
  webhook:
    enabled: true
    extra:
      host: 127.0.0.1
      port: 0
      secret: ` + s("hooks") + `
      routes:
        own: {secret: ` + s("route") + `, prompt: "event {text}"}
        quiet: {deliver_only: true, deliver: log, prompt: "event {text}"}
`
}

// TestLiteralSecretsOfAConfig writes secrets into every place of two profiles' configs, has the
// profiles read them to their models, their logs and their clients, and looks for them there.
// A profile's own are hidden, and another's are text like any other. A secret that was changed
// counts from the next turn on.
func TestLiteralSecretsOfAConfig(t *testing.T) {
	t.Parallel()
	w := &literalWorld{t: t, p: newPlace(t, nil), seen: map[string]string{}}
	dumper, err := exec.LookPath("mcp-dump")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, profile := range []string{"default", "bob"} {
		for _, place := range append(literals(), "lent", "later") {
			all = append(all, literal(profile, place))
		}
	}
	notes := filepath.Join(w.p.dir, "notes.txt")
	if err := os.WriteFile(notes, []byte(strings.Join(all, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, profile := range []string{"default", "bob"} {
		srv := modelserver.NewFunc(t, func(r modelserver.Request) modelserver.Reply { return w.model(profile, notes, r) })
		config := literalConfig(profile, srv.URL, dumper, filepath.Join(w.p.dir, "dump-"+profile))
		dir := filepath.Join(w.p.home, "profiles", profile)
		if profile == "default" {
			dir = w.p.home
			config += "        for-bob: {profile: bob, secret: " + literal("bob", "lent") + ", deliver_only: true, deliver: log, prompt: \"event {text}\"}\ngateway: {multiplex_profiles: true}\n"
		}
		testkit.WriteTree(t, dir, map[string]string{"config.yaml": config})
	}
	g := w.p.start(t, "gateway", "run", "--home", w.p.home)
	for _, profile := range []string{"default", "bob"} {
		w.asked(g, profile, literals(), all)
	}
	w.events(g, all)
	w.reload(g, all)
	if code := g.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit %d", code)
	}
	w.written(g.log.String() + g.out.String())
}

type literalWorld struct {
	t    *testing.T
	p    *place
	mu   sync.Mutex
	seen map[string]string // what the models were sent, by profile
}

// model reads the notes and the environment of the MCP server, fails with all it was told, or
// answers.
func (w *literalWorld) model(profile, notes string, r modelserver.Request) modelserver.Reply {
	w.mu.Lock()
	defer w.mu.Unlock()
	body := string(r.Body)
	if strings.Contains(body, "please read") { // and not what an event says
		w.seen[profile] += body
	}
	switch {
	case strings.Contains(body, "please fail"):
		text, err := os.ReadFile(notes)
		if err != nil {
			w.t.Error(err)
		}
		return modelserver.Reply{Status: 400, Body: `{"error":{"message":` + quote("cannot do this with "+string(text)) + `}}`}
	case !strings.Contains(body, "please read") || strings.Contains(body, "c_mcp"):
		return modelserver.Reply{Text: "done"}
	}
	return modelserver.Reply{Calls: []modelserver.Call{
		{ID: "c_term", Name: "terminal", Args: `{"command":` + quote("cat "+notes) + `}`},
		{ID: "c_file", Name: "read_file", Args: `{"path":` + quote(notes) + `}`},
		{ID: "c_mcp", Name: "mcp__dump__dump", Args: `{}`},
	}}
}

// hidden fails if a text holds a profile's own secrets, or lacks another's that it could hold.
func (w *literalWorld) hidden(what, profile, text string, places, all []string) {
	w.t.Helper()
	for _, place := range places {
		if strings.Contains(text, literal(profile, place)) {
			w.t.Errorf("%s of %s holds the secret of %s", what, profile, place)
		}
	}
	for _, s := range all {
		// What is lent stands in the launch profile's config, too.
		if !strings.Contains(s, "-"+profile+"-") && !strings.HasSuffix(s, "-lent") && !strings.Contains(text, s) {
			w.t.Errorf("%s of %s lacks %s, which is another profile's", what, profile, s)
		}
	}
}

func (w *literalWorld) asked(g *running, profile string, places, all []string) {
	w.t.Helper()
	base, key := "/p/"+profile, literal(profile, "api")
	if profile == "default" {
		base = ""
	}
	w.mu.Lock()
	w.seen[profile] = ""
	w.mu.Unlock()
	run := func(text string) string {
		_, body := g.request(key, base+"/v1/runs", `{"input":`+quote(text)+`}`)
		id := field[string](w.t, body, "run_id")
		_, events := g.request(key, base+"/v1/runs/"+id+"/events", "")
		_, state := g.request(key, base+"/v1/runs/"+id, "")
		return events + state
	}
	events := run("please read")
	w.mu.Lock()
	w.hidden("what the model saw", profile, w.seen[profile], places, all)
	w.mu.Unlock()
	w.hidden("events", profile, events, places, nil)
	w.hidden("an error", profile, run("please fail"), places, nil)
	_, list := g.request(key, base+"/api/sessions", "")
	_, health := g.request(key, base+"/health/detailed", "")
	w.hidden("sessions and health", profile, list+health, places, nil)
}

// events sends every secret back in the payload of a webhook.
func (w *literalWorld) events(g *running, all []string) {
	w.t.Helper()
	platforms := w.p.state(w.t)["platforms"].(map[string]any)
	base := platforms["webhook"].(map[string]any)["listener_base"].(string)
	for path, secret := range map[string]string{
		"/webhooks/own":           literal("default", "route"),
		"/webhooks/quiet":         literal("default", "hooks"),
		"/p/bob/webhooks/own":     literal("bob", "route"),
		"/p/bob/webhooks/quiet":   literal("bob", "hooks"),
		"/p/bob/webhooks/for-bob": literal("bob", "lent"),
	} {
		body := `{"text":` + quote(strings.Join(all, " ")) + `}`
		status, text := signed(w.t, base+path, secret, body)
		if status != 200 && status != 202 {
			w.t.Errorf("%s: %d %s", path, status, text)
		}
	}
}

func signed(t testing.TB, url, secret, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	m := hmac.New(sha256.New, []byte(secret))
	m.Write([]byte(body))
	req.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(m.Sum(nil)))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

// reload changes a secret of the running gateway.
func (w *literalWorld) reload(g *running, all []string) {
	w.t.Helper()
	path := filepath.Join(w.p.home, "profiles", "bob", "config.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		w.t.Fatal(err)
	}
	rewrite(w.t, path, strings.ReplaceAll(string(text), literal("bob", "mcpenv"), literal("bob", "later")))
	w.asked(g, "bob", []string{"later", "mcparg", "lent"}, all)
}

// written looks at the files of the home, and at the lines of the log, for the secrets of their
// owner.
func (w *literalWorld) written(log string) {
	w.t.Helper()
	looked := 0
	err := filepath.WalkDir(w.p.home, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || d.Name() == "config.yaml" || d.Name() == "gateway.log" || strings.Contains(path, "/backups/") {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		looked++
		text, owner := string(data), "default"
		if strings.HasPrefix(d.Name(), "state.db") { // holds what the events said, too
			text = strings.Join(rows(w.t, filepath.Join(filepath.Dir(path), "state.db"), "SELECT content FROM messages WHERE role = 'tool'"), "\n")
		}
		if strings.Contains(path, "/profiles/bob/") {
			owner = "bob"
		}
		for _, place := range literals() {
			if place != "mcpenv" && strings.Contains(text, literal(owner, place)) {
				w.t.Errorf("%s holds the secret of %s", path, place)
			}
		}
		return nil
	})
	if err != nil || looked < 5 {
		w.t.Errorf("looked at %d files: %v", looked, err)
	}
	deliveries := 0
	for line := range strings.Lines(log) {
		owner, places := "default", literals()
		if strings.Contains(line, "profile=bob") || strings.Contains(line, "profile="+filepath.Join(w.p.home, "profiles", "bob")) {
			owner, places = "bob", append(places, "lent")
		}
		delivery := strings.Contains(line, `msg="webhook delivery"`)
		if delivery {
			deliveries++
		}
		for _, place := range places {
			if (delivery || place != "mcpenv") && strings.Contains(line, literal(owner, place)) {
				w.t.Errorf("the log holds the secret of %s: %s", place, line)
			}
		}
	}
	if deliveries != 3 {
		w.t.Errorf("%d events were logged, want 3", deliveries)
	}
}
