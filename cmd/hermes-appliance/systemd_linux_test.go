// SPDX-License-Identifier: MIT

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit/machine"
	"github.com/hermes-appliance/hermes-appliance/service"
)

// program is where machines have it.
const program = "/usr/local/bin/hermes-appliance"

// served is a gateway that the init of a machine runs as a service.
type served struct {
	t    testing.TB
	m    *machine.Machine
	spec service.Spec
	user string // whose manager runs it; "" = the machine's
	port int
	key  string
	http http.Client
}

// serve puts a home and its service into a machine; nothing is started.
func serve(t testing.TB, m *machine.Machine, s *served) *served {
	t.Helper()
	s.t, s.m = t, m
	s.key = "key-of-" + s.spec.Name + "-1"
	s.http = http.Client{Timeout: deadline, Transport: &http.Transport{DialContext: m.Dial, DisableKeepAlives: true}}
	owner := s.user
	if owner == "" {
		owner = s.spec.Account
	}
	m.Run("root", fmt.Sprintf("install -d -o %s -g %s -m 700 %s", owner, owner, s.spec.Home))
	m.Put(s.spec.Home+"/config.yaml", owner, 0o600, []byte("_config_version: 50\ngateway:\n  restart_drain_timeout: 20\n"))
	m.Put(s.spec.Home+"/.env", owner, 0o600, []byte(fmt.Sprintf("API_SERVER_ENABLED=true\nAPI_SERVER_KEY=%s\nAPI_SERVER_PORT=%d\n", s.key, s.port)))
	s.write()
	return s
}

// systemSpec is the service of a machine.
func systemSpec(m *machine.Machine) service.Spec {
	m.Run("root", "id hermes >/dev/null 2>&1 || useradd --system --home-dir /var/lib/hermes --shell /usr/sbin/nologin hermes")
	return service.Spec{
		Name: service.Base, Scope: service.System, Home: "/var/lib/hermes", Exec: []string{program, "gateway", "run"},
		Account: "hermes", Group: "hermes", AccountHome: "/var/lib/hermes",
		Path: []string{"/usr/local/bin", "/usr/bin", "/bin"}, Watchdog: 2 * time.Minute, Drain: 20 * time.Second,
	}
}

// write renders the service anew and has the manager read it.
func (s *served) write() {
	s.t.Helper()
	files, err := s.spec.Systemd()
	if err != nil {
		s.t.Fatal(err)
	}
	dir, owner := "/etc/systemd/system", "root"
	if s.user != "" {
		dir, owner = s.m.Run(s.user, "echo $HOME")+"/.config/systemd/user", s.user
	}
	s.m.Run("root", "rm -rf "+dir+"/"+s.spec.Name+"*")
	for _, f := range files {
		s.m.Put(path.Join(dir, f.Name), owner, 0o644, []byte(f.Data))
	}
	s.ctl("daemon-reload")
}

// dropIn is what a person adds to the unit; "" takes it back.
func (s *served) dropIn(text string) {
	s.t.Helper()
	file := "/etc/systemd/system/" + s.spec.Name + ".service.d/50-mine.conf"
	if text == "" {
		s.m.Run("root", "rm -f "+file)
	} else {
		s.m.Put(file, "root", 0o644, []byte(text))
	}
	s.ctl("daemon-reload")
}

func (s *served) systemctl(args string) string {
	if s.user != "" {
		return "systemctl --user " + args
	}
	return "systemctl " + args
}

// ctl runs a verb of the manager, which must succeed.
func (s *served) ctl(args string) string {
	s.t.Helper()
	user := s.user
	if user == "" {
		user = "root"
	}
	return s.m.Run(user, s.systemctl(args))
}

// fresh starts it as if it had not been started for long: restarts of other tests are no storm.
func (s *served) fresh() {
	s.t.Helper()
	s.ctl("stop " + s.spec.Name + ".service")
	s.m.Run("root", "rm -f "+s.spec.Home+"/gateway-starts.log")
	s.ctl("start " + s.spec.Name + ".service")
}

func (s *served) prop(name string) string {
	s.t.Helper()
	return s.ctl("show --value -p " + name + " " + s.spec.Name + ".service")
}

func (s *served) pid() string { s.t.Helper(); return s.prop("MainPID") }

// again waits until another process than the given one serves.
func (s *served) again(old string) {
	s.t.Helper()
	s.m.Until("another process is ready", func() bool {
		return s.prop("ActiveState") == "active" && s.pid() != old && s.pid() != "0"
	})
}

// request asks the API once, as soon as it is called: nothing here tries again.
func (s *served) request(path, body string) (int, string, error) {
	method := http.MethodPost
	if body == "" {
		method = http.MethodGet
	}
	req, err := http.NewRequestWithContext(s.t.Context(), method, fmt.Sprintf("http://127.0.0.1:%d%s", s.port, path), strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Authorization", "Bearer "+s.key)
	resp, err := s.http.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(data), err
}

func chat(text string) string { return `{"messages":[{"role":"user","content":` + quote(text) + `}]}` }

// run has the agent run a command and returns what the agent answered.
func (s *served) run(command string) string {
	s.t.Helper()
	status, body, err := s.request("/v1/chat/completions", chat("run: "+command))
	var v struct {
		Choices []struct{ Message struct{ Content string } }
	}
	if err != nil || status != http.StatusOK || json.Unmarshal([]byte(body), &v) != nil || len(v.Choices) != 1 {
		s.t.Fatalf("run %s: %d %s %v", command, status, body, err)
	}
	return v.Choices[0].Message.Content
}

// hang has the agent run a command that does not end, and waits until it runs.
func (s *served) hang(command, sign string) {
	s.t.Helper()
	go s.request("/v1/chat/completions", chat("run: "+command))
	s.m.Until(sign+" runs", func() bool { return s.alive(sign) })
}

// alive reports whether a process with a word in its command line runs.
func (s *served) alive(sign string) bool {
	s.t.Helper()
	_, code := s.m.Try("root", `pgrep -f -- "[`+sign[:1]+`]`+sign[1:]+`" >/dev/null`)
	return code == 0
}

func (s *served) number(prop string) int {
	s.t.Helper()
	n, err := strconv.Atoi(s.prop(prop))
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// TestSystemd is the gateway under the real init: one machine, one part after the other.
func TestSystemd(t *testing.T) {
	t.Parallel()
	testkit.NeedRoot(t)
	m := machine.Boot(t, machine.Systemd)
	m.Install(machine.Program(t), program)
	s := serve(t, m, &served{spec: systemSpec(m), port: 8642})
	for _, part := range []struct {
		name string
		test func(t *testing.T, s *served)
	}{
		{"ready", systemdReady},
		{"hardening", systemdHardening},
		{"credentials", systemdCredentials},
		{"restart", systemdRestart},
		{"watchdog", systemdWatchdog},
		{"kill", systemdKill},
		{"stop", systemdStop},
		{"parked", systemdParked},
		{"storm", systemdStorm},
		{"load", systemdLoad},
		{"reboot", systemdReboot},
	} {
		if !t.Run(part.name, func(t *testing.T) {
			at := *s
			at.t = t
			part.test(t, &at)
			s.spec = at.spec
		}) {
			return
		}
	}
}

// systemdReady: start returns when the adapters were tried, not before: the first request is
// answered, and a command runs as the service's account.
func systemdReady(t *testing.T, s *served) {
	s.ctl("enable --now " + s.spec.Name + ".service")
	if status, body, err := s.request("/health", ""); err != nil || status != http.StatusOK {
		t.Fatalf("the first request: %d %s %v", status, body, err)
	}
	if got := s.run("id -un; echo home=$HERMES_HOME; pwd"); !strings.Contains(got, "hermes\n") || !strings.Contains(got, "home=/var/lib/hermes") {
		t.Errorf("a command says %s", got)
	}
	if got := s.prop("StatusText"); !strings.Contains(got, "serving 1 profile") {
		t.Errorf("status: %s", got)
	}
	if got := s.prop("Type") + s.prop("NotifyAccess"); got != "notifymain" {
		t.Errorf("type: %s", got)
	}
	if size := s.m.Run("root", "stat -c '%U %s' /var/lib/hermes/state.db"); !strings.HasPrefix(size, "hermes ") || strings.HasSuffix(size, " 0") {
		t.Errorf("state.db: %s", size)
	}
}

// systemdHardening: what the drop-in takes away is gone, what is needed works, and a person can
// give back one piece without touching the rest.
func systemdHardening(t *testing.T, s *served) {
	const look = "touch /etc/x 2>&1; touch /srv/extra/x && echo extra; unshare --user true && echo namespaces; touch $HERMES_HOME/y && echo own; " +
		"grep -c . /proc/self/mountinfo >/dev/null && echo looked; ls -A /root /home 2>&1 | head -3; grep NoNewPrivs /proc/self/status"
	s.m.Run("root", "install -d -o hermes -g hermes /srv/extra")
	for _, h := range []service.Hardening{service.Balanced, service.Agent} {
		s.spec.Hardening = h
		s.write()
		s.fresh()
		if got := s.prop("ProtectSystem"); got != "strict" {
			t.Errorf("%s: ProtectSystem=%s", h, got)
		}
		got := s.run(look)
		for want, is := range map[string]bool{
			"touch: cannot touch '/etc/x'": true, "extra\n": false, "namespaces\n": h == service.Agent, "own\n": true, "looked": true, "NoNewPrivs:\t1": true,
		} {
			if strings.Contains(got, want) != is {
				t.Errorf("%s: %q is there: %v, want %v in\n%s", h, want, !is, is, got)
			}
		}
		if !s.m.Exists("/var/lib/hermes/state.db") {
			t.Errorf("%s: no state.db", h)
		}
	}
	s.dropIn("[Service]\nReadWritePaths=/srv/extra\n")
	s.fresh()
	if got := s.run(look); !strings.Contains(got, "extra\n") || !strings.Contains(got, "cannot touch '/etc/x'") {
		t.Errorf("with a drop-in of one's own: %s", got)
	}
	s.dropIn("")
	s.spec.Hardening = ""
	s.write()
}

// systemdCredentials: a key that only root can read, and the manager hands over, is used and
// nowhere to be seen.
func systemdCredentials(t *testing.T, s *served) {
	const key = "a-key-from-the-manager-7"
	before := s.spec
	s.m.Put("/etc/hermes-secrets.env", "root", 0o600, []byte("# keys\nAPI_SERVER_KEY="+key+"\n"))
	s.m.Put("/etc/hermes-note", "root", 0o600, []byte("a-note-for-nobody-else\n"))
	s.spec.Credentials = []service.Credential{{Name: "env", Path: "/etc/hermes-secrets.env"}, {Name: "GITHUB_TOKEN", Path: "/etc/hermes-note"}}
	s.write()
	s.fresh()
	if status, _, err := s.request("/v1/models", ""); err != nil || status != http.StatusUnauthorized { // it beats .env
		t.Errorf("the old key: %d %v", status, err)
	}
	old := s.key
	s.key = key
	if got := s.run("env | sort"); strings.Contains(got, key) || strings.Contains(got, "a-note") || strings.Contains(got, "CREDENTIALS_DIRECTORY") || strings.Contains(got, "NOTIFY_SOCKET") || !strings.Contains(got, "HERMES_HOME=") {
		t.Errorf("a command's environment: %s", got)
	}
	seen := s.m.Run("root", "systemctl show hermes-gateway.service; journalctl --no-pager -u hermes-gateway.service; cat /var/lib/hermes/logs/* /var/lib/hermes/*.json")
	if strings.Contains(seen, key) || strings.Contains(seen, "a-note-for") || !strings.Contains(seen, "gateway is up") {
		t.Error("the manager or the log shows a credential")
	}
	// What it cannot use, it does not run on.
	s.m.Put("/etc/hermes-note", "root", 0o600, nil)
	if out, code := s.m.Try("root", "systemctl restart hermes-gateway.service"); code == 0 {
		t.Errorf("it started on an empty credential: %s", out)
	}
	if got := s.prop("ExecMainStatus") + s.prop("ActiveState"); got != "78failed" {
		t.Errorf("an empty credential: %s", got)
	}
	s.key, s.spec = old, before
	s.write()
	s.ctl("reset-failed " + s.spec.Name + ".service")
}
