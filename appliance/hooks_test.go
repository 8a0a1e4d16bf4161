// SPDX-License-Identifier: MIT

package appliance

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/appliance/platform/webhook"
	"github.com/hermes-appliance/hermes-appliance/appliance/session"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// served is a gateway that runs.
type served struct {
	t      *testing.T
	dir    string // the launch home
	log    *syncLog
	status gateway.Status
	stop   func() error
}

// hookOptions are those of a gateway of the home in dir, whose listeners take any free port.
func hookOptions(dir string, log io.Writer) (ServeOptions, error) {
	launch, err := home.Locate(dir, func(string) string { return "" })
	if err != nil {
		return ServeOptions{}, err
	}
	l := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	e, err := NewEnvironments(Options{Launch: launch, Log: l, Environ: []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Dir(dir), "HERMES_MANAGED_DIR=" + filepath.Join(dir, "none"), "BOB_EXPORT=exported",
	}})
	return ServeOptions{
		Environments: e, Log: l, Now: time.Now, Temp: filepath.Dir(dir),
		Listen: func(ctx context.Context, _, address string) (net.Listener, bool, error) {
			l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
			return l, false, err
		},
	}, err
}

// serveHooks runs a gateway on a home made of the given files until the test is over.
func serveHooks(t *testing.T, files map[string]string) *served {
	t.Helper()
	s := &served{t: t, dir: filepath.Join(t.TempDir(), "home"), log: &syncLog{}}
	testkit.WriteTree(t, s.dir, files)
	s.start()
	return s
}

func (s *served) start() {
	s.t.Helper()
	o, err := hookOptions(s.dir, s.log)
	if err != nil {
		s.t.Fatal(err)
	}
	ready, ended := make(chan gateway.Status, 1), make(chan error, 1)
	o.Ready = func(st gateway.Status) { ready <- st }
	ctx, cancel := context.WithCancel(context.Background())
	go func() { ended <- Serve(ctx, o) }()
	var once bool
	s.stop = func() error {
		cancel()
		if once {
			return nil
		}
		once = true
		return <-ended
	}
	s.t.Cleanup(func() {
		if err := s.stop(); err != nil {
			s.t.Error(err)
		}
	})
	select {
	case s.status = <-ready:
	case err := <-ended:
		ended <- err
		s.t.Fatalf("the gateway does not start: %v\n%s", err, s.log)
	}
}

// hookAnswer is what a post came to.
type hookAnswer struct {
	status int
	text   string
	RunID  string `json:"run_id"`
	Status string `json:"status"`
}

func postHook(t *testing.T, base, path, secret, body string, headers ...string) hookAnswer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	m := hmac.New(sha256.New, []byte(secret))
	m.Write([]byte(body))
	req.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(m.Sum(nil)))
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	a := hookAnswer{status: resp.StatusCode, text: string(data)}
	if err := json.Unmarshal(data, &a); err != nil {
		t.Errorf("%s answers %q", path, data)
	}
	return a
}

func (s *served) post(path, secret, body string, headers ...string) hookAnswer {
	s.t.Helper()
	return postHook(s.t, s.status.Platforms[hookName].Listener, path, secret, body, headers...)
}

// sessions are those of a home, after the gateway has stopped, with all that was said.
func (s *served) sessions(dir string) (list []session.Summary, all string) {
	s.t.Helper()
	store, err := session.Open(s.t.Context(), filepath.Join(dir, "state.db"), session.Options{})
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() {
		if err := store.Close(); err != nil {
			s.t.Error(err)
		}
	}()
	if list, err = store.List(s.t.Context(), session.Filter{Archived: session.Any, Hidden: true, Children: true}); err != nil {
		s.t.Fatal(err)
	}
	for _, l := range list {
		rows, err := store.History(s.t.Context(), l.ID)
		if err != nil {
			s.t.Fatal(err)
		}
		data, err := json.Marshal(rows)
		if err != nil {
			s.t.Fatal(err)
		}
		all += string(data)
	}
	return list, all
}

const hookConfig = `_config_version: 50
gateway:
  multiplex_profiles: true
approvals:
  mode: manual
platforms:
  webhook:
    enabled: true
    extra:
      host: 127.0.0.1
      port: 0
      routes:
        run:
          secret: launch-route-secret
          toolsets: [terminal]
          prompt: "run: {command}"
        plain:
          prompt: "run: {command}"
        for-bob:
          profile: bob
          prompt: "event {v}"
        bad-target:
          deliver: telegram
        bad-filter:
          filters:
            - field: action
              equal: opened
        scripted:
          script: x.py
        for-nobody:
          profile: nobody
`

func hookFiles() map[string]string {
	return map[string]string{
		"config.yaml":              hookConfig,
		".env":                     "WEBHOOK_SECRET=secret-canary-launch\n",
		"profiles/bob/config.yaml": "_config_version: 50\nplatforms:\n  webhook:\n    enabled: true\n    routes:\n      own:\n        prompt: \"{v}\"\n        skills: [triage]\n      for-bob: {prompt: other}\n",
		"profiles/bob/.env":        "WEBHOOK_SECRET=secret-canary-bob\n",
		"profiles/bob/skills/ops/triage/SKILL.md": "---\nname: triage\ndescription: how to triage\n---\nTriage-rules-of-bob.\n",
		"profiles/eve/config.yaml":                "_config_version: 50\nplatforms:\n  webhook:\n    enabled: true\n    routes:\n      own: {prompt: x}\n      theft: {profile: bob, secret: aaaa, prompt: x}\n",
	}
}

// TestHooksAreServed runs a whole gateway: what it says of its routes, who gets in where, and
// that nothing of one profile is found with another.
func TestHooksAreServed(t *testing.T) {
	t.Parallel()
	s := serveHooks(t, hookFiles())
	st := s.status.Platforms[hookName]
	if st.State != "connected" || !st.Attention || s.status.Platforms["api_server"].State == "failed" {
		t.Fatalf("%+v", s.status.Platforms)
	}
	for _, want := range []string{
		"route bad-target is off: " + filepath.Join(s.dir, "config.yaml") + ", line 23, platforms.webhook.extra.routes.bad-target.deliver: nothing is delivered to \"telegram\"",
		"line 25, ", "filters", "route scripted is off", "script: is not done by hermes-appliance yet", "route for-nobody is off: profile: ",
	} {
		if !strings.Contains(st.Message, want) || !strings.Contains(s.log.String(), "this webhook route is off") {
			t.Errorf("the state does not say %q:\n%s", want, st.Message)
		}
	}
	for _, fine := range []string{"route run ", "route plain ", "route for-bob "} {
		if strings.Contains(st.Message, fine) {
			t.Errorf("%sis off: %s", fine, st.Message)
		}
	}
	if m := s.status.Platforms["eve:webhook"].Message; !strings.Contains(m, "route own is off") || !strings.Contains(m, "WEBHOOK_SECRET in the .env of the profile eve") || !strings.Contains(m, "for itself only") {
		t.Errorf("eve: %q", m)
	}
	if m := s.status.Platforms["bob:webhook"].Message; !strings.Contains(m, "route for-bob is off") || strings.Contains(m, "route own ") {
		t.Errorf("bob: %q", m)
	}
	if p, ok := s.status.Platforms["webhook"]; !ok || p.State == "unserved" {
		t.Errorf("webhook: %+v", p)
	}
	v := `{"v":"payload-canary-bob"}`
	for _, c := range []struct {
		path, secret string
		want         int
	}{
		{"/webhooks/for-bob", "secret-canary-bob", 404},
		{"/p/bob/webhooks/for-bob", "secret-canary-launch", 401}, // never the launch profile's
		{"/p/bob/webhooks/for-bob", "secret-canary-bob", 202},
		{"/p/bob/webhooks/own", "secret-canary-launch", 401},
		{"/p/bob/webhooks/own", "secret-canary-bob", 202},
		{"/p/bob/webhooks/plain", "secret-canary-launch", 404},
		{"/p/eve/webhooks/own", "secret-canary-launch", 404},
		{"/p/bob/webhooks/theft", "aaaa", 404},
		{"/webhooks/bad-filter", "secret-canary-launch", 404},
		{"/webhooks/plain", "secret-canary-bob", 401},
	} {
		if got := s.post(c.path, c.secret, v); got.status != c.want {
			t.Errorf("%s with %s: %d %s, want %d", c.path, c.secret, got.status, got.text, c.want)
		}
	}
	if got := s.post("/webhooks/plain", "secret-canary-launch", `{"command":"echo payload-canary-launch"}`); got.status != 202 {
		t.Errorf("plain: %d %s", got.status, got.text)
	}
	s.answers(3)
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	s.foundNowhere()
}

// foundNowhere looks for the canaries of [TestHooksAreServed] where they must not be.
func (s *served) foundNowhere() {
	s.t.Helper()
	log := s.log.String()
	for _, never := range []string{"secret-canary", "launch-route-secret"} {
		if strings.Contains(log, never) {
			s.t.Errorf("the log holds %s", never)
		}
	}
	tree := testkit.ReadTree(s.t, s.dir)
	for name, text := range tree {
		bob := strings.HasPrefix(name, "profiles/bob/")
		if strings.HasSuffix(name, ".env") || strings.HasSuffix(name, "config.yaml") {
			continue
		}
		if !bob && strings.Contains(text, "canary-bob") || bob && strings.Contains(text, "canary-launch") || strings.Contains(text, "secret-canary") {
			s.t.Errorf("%s holds what is not its own", name)
		}
	}
	list, all := s.sessions(filepath.Join(s.dir, "profiles", "bob"))
	if len(list) != 2 || strings.Count(all, "payload-canary-bob") == 0 || !strings.HasPrefix(list[0].SessionKey, "agent:bob:webhook:webhook:webhook:") {
		s.t.Errorf("bob's sessions: %v", list)
	}
	for _, l := range list {
		if l.EndReason != webhook.Complete || l.Source != "webhook" {
			s.t.Errorf("%s: %s of %s", l.ID, l.EndReason, l.Source)
		}
	}
	list, all = s.sessions(s.dir)
	// The default toolset of webhooks has no terminal: nothing ran.
	if len(list) != 1 || !strings.Contains(all, "no tool of this session runs commands") || strings.Contains(all, "tool_calls\":[") {
		s.t.Errorf("the launch profile's sessions: %v\n%s", list, all)
	}
}

// TestReportB14HookCommandsAreDenied: H#30882. A route with a terminal asks for what is
// dangerous: nobody is there to answer, so it is denied at once, and what is harmless runs.
func TestReportB14HookCommandsAreDenied(t *testing.T) {
	t.Parallel()
	testkit.Need(t, "posix", runtime.GOOS != "windows", "the commands of this test need a POSIX shell")
	s := serveHooks(t, hookFiles())
	victim := filepath.Join(t.TempDir(), "victim")
	testkit.WriteTree(t, victim, map[string]string{"keep": "x"})
	body, err := json.Marshal(map[string]string{"command": "rm -rf " + victim})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.post("/webhooks/run", "launch-route-secret", string(body)); got.status != 202 {
		t.Fatalf("%d %s", got.status, got.text)
	}
	s.answers(1)
	if got := s.post("/webhooks/run", "launch-route-secret", `{"command":"echo h4rmless-$((6*7))"}`); got.status != 202 {
		t.Fatalf("%d %s", got.status, got.text)
	}
	s.answers(2)
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(victim, "keep")); err != nil {
		t.Errorf("the command ran: %v", err)
	}
	if _, all := s.sessions(s.dir); !strings.Contains(all, "BLOCKED") || !strings.Contains(all, "h4rmless-42") {
		t.Errorf("got %s", all)
	}
}

// answers waits until n answers of webhooks are in the log.
func (s *served) answers(n int) {
	s.t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); strings.Count(s.log.String(), "webhook answer") < n; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("no answer:\n%s", s.log)
		}
	}
}

// TestHookSurvivesItsLife: an event whose turn came to its end is known after a restart, by
// what state.db says.
func TestHookSurvivesItsLife(t *testing.T) {
	t.Parallel()
	s := serveHooks(t, hookFiles())
	send := func() hookAnswer {
		return s.post("/p/bob/webhooks/own", "secret-canary-bob", `{"v":"hello"}`, "X-GitHub-Delivery", "d-1")
	}
	if got := send(); got.status != 202 {
		t.Fatalf("%d %s", got.status, got.text)
	}
	s.answers(1)
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	s.start()
	if got := send(); got.status != 200 || got.Status != "duplicate" {
		t.Errorf("after a restart: %d %s", got.status, got.text)
	}
}

const hookChild = "HERMES_TEST_HOOK_HOME"

// TestHookChild is a gateway in a process of its own, for [TestHookKilledBetween].
func TestHookChild(t *testing.T) { //nolint:paralleltest // it is the whole process
	dir := os.Getenv(hookChild)
	if dir == "" {
		return // only as the child of another test
	}
	o, err := hookOptions(dir, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	o.Ready = func(st gateway.Status) { println("LISTENS " + st.Platforms[hookName].Listener) }
	if err := Serve(context.Background(), o); err != nil {
		t.Fatal(err)
	}
}

// TestHookKilledBetween kills the gateway after it took an event in and before the turn was
// over. Sent again, the event goes on in its session, and no call is without a result.
func TestHookKilledBetween(t *testing.T) {
	t.Parallel()
	testkit.Need(t, "posix", runtime.GOOS != "windows", "the commands of this test need a POSIX shell")
	s := &served{t: t, dir: filepath.Join(t.TempDir(), "home"), log: &syncLog{}}
	testkit.WriteTree(t, s.dir, hookFiles())
	mark := filepath.Join(t.TempDir(), "mark")
	body, err := json.Marshal(map[string]string{"command": "test -e " + mark + " || { touch " + mark + "; sleep 300; }"})
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHookChild$", "-test.timeout=5m")
	child.Env = append(os.Environ(), hookChild+"="+s.dir)
	child.Stderr = s.log
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	base := ""
	await(t, "the child listens", s.log.String, func() bool {
		_, after, ok := strings.Cut(s.log.String(), "LISTENS ")
		base, _, _ = strings.Cut(after, "\n")
		return ok && strings.Contains(after, "\n")
	})
	if got := postHook(t, base, "/webhooks/run", "launch-route-secret", string(body), "X-GitHub-Delivery", "d"); got.status != 202 {
		t.Fatalf("%d %s", got.status, got.text)
	}
	await(t, "the command runs", s.log.String, func() bool { _, err := os.Stat(mark); return err == nil })
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	var died *exec.ExitError
	if err := child.Wait(); !errors.As(err, &died) {
		t.Fatalf("the child was not killed: %v", err)
	}
	s.start()
	if got := s.post("/webhooks/run", "launch-route-secret", string(body), "X-GitHub-Delivery", "d"); got.status != 202 {
		t.Fatalf("sent again: %d %s", got.status, got.text)
	}
	s.answers(1)
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	list, all := s.sessions(s.dir)
	if len(list) != 1 || list[0].EndReason != webhook.Complete {
		t.Errorf("%d sessions: %+v", len(list), list)
	}
	if strings.Count(all, `"tool_call_id"`) < 2 || !strings.Contains(all, "interrupted") {
		t.Errorf("a call without a result:\n%s", all)
	}
}

func await(t *testing.T, what string, log func() string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within five minutes\n%s", what, log())
		}
	}
}

// TestHookSettings: what the environment and both spellings of a config say.
func TestHookSettings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config, env string
		want        hookSettings
		wrong       string
	}{
		"nothing":   {"", "", hookSettings{port: 8644, limits: webhook.DefaultLimits()}, ""},
		"env":       {"", "WEBHOOK_ENABLED=true\nWEBHOOK_PORT=9000\n", hookSettings{enabled: true, port: 9000, limits: webhook.DefaultLimits()}, ""},
		"env wins":  {"platforms: {webhook: {enabled: true, port: 1}}", "WEBHOOK_ENABLED=false\nWEBHOOK_PORT=9000\n", hookSettings{port: 9000, limits: webhook.DefaultLimits()}, ""},
		"extra":     {"platforms: {webhook: {enabled: true, port: 1, host: h, extra: {port: 2, rate_limit: 3, max_body_bytes: 4}}}", "", hookSettings{enabled: true, host: "h", port: 2, limits: webhook.Limits{PerMinute: 3, Body: 4}}, ""},
		"gateway":   {"gateway: {platforms: {webhook: {port: 5}}}\nplatforms: {webhook: {port: 1}}", "", hookSettings{port: 5, limits: webhook.DefaultLimits()}, ""},
		"bad port":  {"platforms:\n  webhook:\n    port: x", "", hookSettings{}, "config.yaml, line 4, platforms.webhook.port: expected a number"},
		"bad env":   {"", "WEBHOOK_PORT=x\n", hookSettings{}, `WEBHOOK_PORT: "x"`},
		"bad rate":  {"platforms:\n  webhook:\n    rate_limit: 0", "", hookSettings{}, "line 4, platforms.webhook.rate_limit"},
		"no routes": {"platforms:\n  webhook:\n    routes: [a]", "", hookSettings{}, "platforms.webhook.routes"},
	} {
		e, launch, _ := world(t, map[string]string{"home/config.yaml": "_config_version: 50\n" + c.config + "\n", "home/.env": c.env})
		tenant := newTenant(&Runtime{env: e}, launch, e.host.LaunchKey())
		_, b, err := tenant.bind(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got, err := tenant.hookSettings(b)
		if c.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%s: got %v, want %s", name, err, c.wrong)
			}
			continue
		}
		if err != nil || got.enabled != c.want.enabled || got.host != c.want.host || got.port != c.want.port || got.limits != c.want.limits {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// TestHookToolsets: tools of MCP servers come to a webhook only by name.
func TestHookToolsets(t *testing.T) {
	t.Parallel()
	for config, cases := range map[string]map[string]string{
		"mcp_servers: {notes: {command: x}}": {
			"":                   "hermes-webhook no_mcp",
			"terminal":           "terminal no_mcp",
			"terminal notes":     "terminal notes",
			"terminal mcp-notes": "terminal mcp-notes",
		},
		"platform_toolsets: {webhook: [web]}": {"": "", "file": "file no_mcp"},
	} {
		e, launch, _ := world(t, map[string]string{"home/config.yaml": "_config_version: 50\n" + config + "\n"})
		tenant := newTenant(&Runtime{env: e}, launch, e.host.LaunchKey())
		_, b, err := tenant.bind(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, given := range slices.Sorted(maps.Keys(cases)) {
			if got := strings.Join(hookToolsets(b, strings.Fields(given)), " "); given != "" && got != cases[given] {
				t.Errorf("%s: got %q", given, got)
			}
		}
		if got := strings.Join(hookToolsets(b, nil), " "); got != cases[""] {
			t.Errorf("none: got %q", got)
		}
	}
}

// TestHookFiles: in_file reads below the home of its own profile and nowhere else.
func TestHookFiles(t *testing.T) {
	t.Parallel()
	testkit.Need(t, "link", runtime.GOOS != "windows", "the test makes links")
	e, launch, _ := world(t, map[string]string{
		"home/config.yaml": "_config_version: 50\n", "home/data/list": "a", "home/profiles/bob/config.yaml": "", "home/profiles/bob/x": "bob",
		"outside": "out", "home/large": strings.Repeat("x", mostHookFile+1),
	})
	if err := os.Symlink(filepath.Join(filepath.Dir(launch.Dir), "outside"), filepath.Join(launch.Dir, "link")); err != nil {
		t.Fatal(err)
	}
	p := hookProfile{t: newTenant(&Runtime{env: e}, launch, e.host.LaunchKey())}
	for name, want := range map[string]string{"data/list": "a", "link": "", "../outside": "", "profiles/bob/x": "", "large": "", "gone": ""} {
		if got, err := p.File(t.Context(), name); string(got) != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
