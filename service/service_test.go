// SPDX-License-Identifier: MIT

package service

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// system is a service that exists on every Debian host, so that systemd has nothing to say
// about its account and program.
func system() Spec {
	return Spec{
		Name: Base, Scope: System, Home: "/var/lib/hermes", Exec: []string{"/bin/true", "gateway", "run"}, Before: []string{"/bin/true", "migrate", "--home", "/var/lib/hermes", "a b %h $HOME"},
		Account: "daemon", Group: "daemon", AccountHome: "/var/lib/hermes", UID: 1000,
		Path: []string{"/usr/local/bin", "/usr/bin", "/bin"}, Watchdog: 2 * time.Minute, Cron: 30 * time.Second,
		Credentials: []Credential{{"env", "/etc/hermes/secrets.env"}}, Sockets: []Socket{{"api_server", "127.0.0.1:8642"}},
	}
}

func user() Spec {
	return Spec{
		Name: Base + "-work", Scope: User, Home: "/home/u/.hermes/profiles/work",
		Exec: []string{"/home/u/.local/bin/hermes-appliance", "--profile", "work", "gateway", "run"}, Cron: 30 * time.Second,
	}
}

func TestName(t *testing.T) {
	t.Parallel()
	for home, want := range map[string]string{
		"/home/u/.hermes":                  "hermes-gateway",
		"/home/u/.hermes/profiles/work":    "hermes-gateway-work",
		"/opt/data/profiles/a_b-2":         "hermes-gateway-a_b-2",
		"/opt/data":                        "hermes-gateway-2b62f7b0",
		"/tmp/x/profiles/Work":             "hermes-gateway-b5bbb1b1", // no profile's id: never the bare name
		"/home/u/.hermes/profiles/a/deep":  "hermes-gateway-",
		"/home/u/.hermes-old":              "hermes-gateway-",
		"/home/u/.hermes/profiles/a.b":     "hermes-gateway-",
		"/home/u/.hermes/profiles/-a":      "hermes-gateway-",
		"/home/u/.hermes/profiles/" + long: "hermes-gateway-",
	} {
		got := Name(home, "/home/u/.hermes")
		if strings.HasSuffix(want, "-") || len(want) == len("hermes-gateway-12345678") && want != "hermes-gateway-a_b-2" && !strings.HasSuffix(want, "work") {
			if len(got) != len("hermes-gateway-12345678") || !strings.HasPrefix(got, "hermes-gateway-") {
				t.Errorf("%s: got %s, want eight digits", home, got)
			}
			continue
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", home, got, want)
		}
	}
}

const long = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

func TestStopBudget(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ drain, cron, want time.Duration }{
		{0, 30 * time.Second, 70 * time.Second},
		{180 * time.Second, 30 * time.Second, 250 * time.Second},
		{0, 0, 70 * time.Second},
		{0, 10 * time.Minute, 640 * time.Second},
	} {
		s := Spec{Drain: c.drain, Cron: c.cron}
		if got := s.StopBudget(); got != c.want {
			t.Errorf("drain %v, cron %v: got %v, want %v", c.drain, c.cron, got, c.want)
		}
		if s.StopBudget() < s.Drain+ShutdownWatchdog+10*time.Second { // H#31981, H#94759
			t.Errorf("the manager kills before the service has diagnosed itself")
		}
	}
}

func TestGoldens(t *testing.T) {
	t.Parallel()
	agent := system()
	agent.Hardening, agent.Writable = Agent, []string{"/srv/work", "/home/h"}
	agent.Sockets = append(agent.Sockets, Socket{"webhook", "0.0.0.0:8644"})
	for name, s := range map[string]Spec{"system": system(), "user": user(), "agent": agent} {
		files, err := s.Systemd()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			testkit.Golden(t, filepath.Join("testdata", name, filepath.Base(f.Name)), []byte(f.Data))
		}
	}
	plist, err := user().Launchd()
	if err != nil {
		t.Fatal(err)
	}
	testkit.Golden(t, filepath.Join("testdata", "launchd", plist.Name), []byte(plist.Data))
	task, err := user().Task(`DOMAIN\u`)
	if err != nil {
		t.Fatal(err)
	}
	testkit.Golden(t, filepath.Join("testdata", "windows", task.Name), []byte(task.Data))
	windows := user()
	windows.Home = "/home/Zoë \"x\"/.hermes/100%" // whatever a home may be called
	script, err := windows.Launcher()
	if err != nil {
		t.Fatal(err)
	}
	testkit.Golden(t, filepath.Join("testdata", "windows", script.Name), []byte(script.Data))
	machine, err := system().SCM()
	if err != nil {
		t.Fatal(err)
	}
	testkit.Golden(t, filepath.Join("testdata", "windows", machine.Name), []byte(machine.Data))
	if words, err := ReadSCM(machine.Data); err != nil || len(words) != 6 || words[0][len(words[0])-1] != "/bin/true gateway run --home /var/lib/hermes" {
		t.Errorf("%v %q", err, words)
	}
	for _, bad := range []string{"", "x\n", "x\n[\"cmd.exe\",\"create\",\"x\"]\n", "x\n[\"sc.exe\",\"delete\",\"x\"]\n", "x\nsc.exe create x\n"} {
		if _, err := ReadSCM(bad); err == nil {
			t.Errorf("%q is carried out", bad)
		}
	}
	testkit.Golden(t, filepath.Join("testdata", "windows", windows.Startup().Name), []byte(windows.Startup().Data))
	windows.Home = `/Users/R&D(x)/.hermes` // cmd would take that apart
	if got := windows.Startup().Data; !strings.Contains(got, ` "/Users/R&D(x)/.hermes/gateway-service/Hermes_Gateway_work.js"`) {
		t.Errorf("the Startup folder's entry: %s", got)
	}
	odd := system()
	odd.Env = map[string]string{"A": "a|b"}
	if f, err := odd.SCM(); err == nil {
		t.Errorf("an entry that ends in its middle: %s", f.Data)
	}
	slot, err := system().S6()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range slot {
		testkit.Golden(t, filepath.Join("testdata", "s6", strings.ReplaceAll(f.Name, "/", "_")), []byte(f.Data))
	}
}

// TestEveryDirectiveHasAReason also finds reasons that are for nothing.
func TestEveryDirectiveHasAReason(t *testing.T) {
	t.Parallel()
	s := system()
	agent := s
	agent.Hardening = Agent
	left := Directives()
	for _, s := range []Spec{s, agent, user()} {
		files, err := s.Systemd()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			u, err := ParseUnit(f.Data)
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range u.Options {
				if Directives()[o.Name] == "" {
					t.Errorf("%s: %s has no reason", f.Name, o.Name)
				}
				delete(left, o.Name)
			}
		}
	}
	for name := range left {
		t.Errorf("a reason for %s, which no unit has", name)
	}
}

// TestContract holds the unit to the exit codes and to what reports ask of it.
func TestContract(t *testing.T) {
	t.Parallel()
	files, err := system().Systemd()
	if err != nil {
		t.Fatal(err)
	}
	u, err := ParseUnit(files[0].Data)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"RestartForceExitStatus": "75", "SuccessExitStatus": "75", "RestartPreventExitStatus": "78", "Restart": "always",
		"KillMode": "mixed", "Type": "notify", "TimeoutStopSec": "70", "WatchdogSec": "120",
		"WorkingDirectory": "/var/lib/hermes", // PR#34805: never a checkout
	} {
		if got := u.All("Service", name); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %v, want %s", name, got, want)
		}
	}
	if got := u.All("Unit", "StartLimitIntervalSec"); !slices.Equal(got, []string{"0"}) { // nixpkgs#45786: not in [Service]
		t.Errorf("StartLimitIntervalSec in [Unit]: %v", got)
	}
	if strings.Contains(files[0].Data, "--replace") { // H#79048
		t.Error("a supervised start takes over")
	}
	for _, kv := range u.All("Service", "Environment") {
		if strings.Contains(strings.ToUpper(kv), "KEY=") || strings.Contains(kv, "TOKEN") { // O#66219
			t.Errorf("a secret in the unit: %s", kv)
		}
	}
	mine, err := user().Systemd()
	if err != nil {
		t.Fatal(err)
	}
	own, err := ParseUnit(mine[0].Data)
	if err != nil {
		t.Fatal(err)
	}
	if got := own.All("Install", "WantedBy"); !slices.Equal(got, []string{"default.target"}) { // kardianos PR#415
		t.Errorf("a user's unit is wanted by %v", got)
	}
	if got := own.All("Unit", "After"); got != nil { // dotfiles#206
		t.Errorf("a user's unit waits for %v", got)
	}
	if len(mine) != 1 {
		t.Errorf("a user's service gets drop-ins it did not ask for: %d files", len(mine))
	}
}

func TestInspect(t *testing.T) {
	t.Parallel()
	files, err := user().Systemd()
	if err != nil {
		t.Fatal(err)
	}
	data := files[0].Data
	for name, c := range map[string]struct {
		data string
		want Provenance
	}{
		"ours":          {data, Provenance{true, false, user().Home}},
		"a line edited": {strings.Replace(data, "RestartSec=100ms", "RestartSec=50", 1), Provenance{true, true, user().Home}},
		"a line added":  {data + "\n[Service]\nNice=5\n", Provenance{true, true, user().Home}},
		"somebody's":    {"[Unit]\nDescription=x\n", Provenance{}},
		"nothing":       {"", Provenance{}},
		"a torn header": {header + "sha256=12", Provenance{}},
	} {
		if got := Inspect(c.data); got != c.want {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

func TestRefuses(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Spec){
		"no program":                func(s *Spec) { s.Exec = nil },
		"a relative program":        func(s *Spec) { s.Exec[0] = "hermes" },
		"a line break in a word":    func(s *Spec) { s.Exec = append(s.Exec, "a\nExecStart=/bin/sh") },
		"a line break in a home":    func(s *Spec) { s.Home = "/a\nb" },
		"a home that goes on":       func(s *Spec) { s.Home = `/var/lib/a\` },
		"a relative home":           func(s *Spec) { s.Home = "a" },
		"dots in a home":            func(s *Spec) { s.Home = "/a/../b" },
		"garbage in PATH":           func(s *Spec) { s.Path = []string{"/a", "npm help\x1b"} }, // systemd#43401
		"a colon in PATH":           func(s *Spec) { s.Path = []string{"/a:/b"} },
		"a bad variable":            func(s *Spec) { s.Env = map[string]string{"A B": "x"} },
		"a line break in a value":   func(s *Spec) { s.Env = map[string]string{"A": "x\ny"} },
		"no account":                func(s *Spec) { s.Account = "" },
		"an odd account":            func(s *Spec) { s.Account = "a b" },
		"an odd name":               func(s *Spec) { s.Name = "../x" },
		"a credential's directory":  func(s *Spec) { s.Credentials[0].Name = "a/b" },
		"a socket with a space":     func(s *Spec) { s.Sockets[0].Listen = "127.0.0.1:1 2" },
		"an unknown hardening":      func(s *Spec) { s.Hardening = "strict" },
		"no scope":                  func(s *Spec) { s.Scope = "" },
		"an account of a user unit": func(s *Spec) { s.Scope = User },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := system()
			change(&s)
			var bad *InputError
			for _, render := range []func() error{
				func() error { _, err := s.Systemd(); return err },
				func() error { _, err := s.Launchd(); return err },
				func() error { _, err := s.S6(); return err },
				func() error { _, err := s.Task("u"); return err },
			} {
				if err := render(); !errors.As(err, &bad) {
					t.Errorf("got %v", err)
				}
			}
		})
	}
}

// hostile is a text of characters that somebody might misread.
func hostile(r *rand.Rand) string {
	const alphabet = "ab/ %$\"'\\`;#&|<>(){}[]*?~=:,.@!^-_+€é\u00a0"
	runes := []rune(alphabet)
	var b strings.Builder
	for range 1 + r.IntN(12) {
		b.WriteRune(runes[r.IntN(len(runes))])
	}
	return strings.TrimRight(b.String(), `\`) + "."
}

func hostileSpec(r *rand.Rand) Spec {
	s := system()
	for range r.IntN(4) {
		s.Exec = append(s.Exec, hostile(r))
	}
	if r.IntN(4) == 0 {
		s.Exec = append(s.Exec, "")
	}
	s.Env = map[string]string{"A": hostile(r), "PERCENT": "100%n", "EMPTY": ""}
	s.Description = hostile(r)
	s.Home = filepath.Clean("/var/lib/" + strings.ReplaceAll(strings.TrimSpace(hostile(r)), "/", "x"))
	s.Path = append(s.Path, filepath.Clean("/opt/"+strings.NewReplacer(":", "x", "/", "x").Replace(hostile(r))+"x"))
	s.Writable = []string{"/srv/with space", filepath.Clean("/srv/" + strings.ReplaceAll(hostile(r), "/", "x") + "x")}
	return s
}

// TestRoundTrip: what is rendered is read back as what went in, by our reader.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		s := hostileSpec(r)
		files, err := s.Systemd()
		if err != nil {
			t.Fatalf("%+v: %v", s, err)
		}
		u, err := ParseUnit(files[0].Data)
		if err != nil {
			t.Fatal(err)
		}
		line, err := Words(u.All("Service", "ExecStart")[0], true)
		if err != nil || !slices.Equal(line, s.Exec) {
			t.Fatalf("exec: got %q, want %q (%v)", line, s.Exec, err)
		}
		env := map[string]string{}
		for _, v := range u.All("Service", "Environment") {
			words, err := Words(v, false)
			if err != nil || len(words) != 1 {
				t.Fatalf("environment %q: %q, %v", v, words, err)
			}
			name, value, _ := strings.Cut(words[0], "=")
			env[name] = value
		}
		if env["A"] != s.Env["A"] || env["PERCENT"] != "100%n" || env["PATH"] != strings.Join(s.Path, ":") || env["HERMES_HOME"] != s.Home {
			t.Fatalf("environment: %q of %+v", env, s)
		}
		if u.Home != s.Home || Inspect(files[0].Data) != (Provenance{true, false, s.Home}) {
			t.Fatalf("header: %q of %q", u.Home, s.Home)
		}
	}
}

func FuzzParseUnit(f *testing.F) {
	files, err := system().Systemd()
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		f.Add(file.Data)
	}
	f.Add("[A]\nb=c\\\n# d\n e\n")
	f.Fuzz(func(t *testing.T, data string) {
		u, err := ParseUnit(data)
		if err != nil {
			return
		}
		again, err := ParseUnit(Unit{Options: u.Options}.String())
		if err != nil {
			t.Fatalf("what was read cannot be read again: %v", err)
		}
		for _, o := range u.Options {
			if !slices.Contains(again.Options, o) {
				t.Fatalf("%+v is lost", o)
			}
		}
	})
}

// analyze is systemd's own view of rendered files.
func analyze(t *testing.T, args ...string) (string, error) {
	t.Helper()
	path, err := exec.LookPath("systemd-analyze")
	testkit.Need(t, "systemd-analyze", err == nil, "systemd-analyze is not installed")
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "XDG_RUNTIME_DIR=" + t.TempDir(), "SYSTEMD_LOG_LEVEL=info"}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func write(t *testing.T, files []File) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range files {
		path := filepath.Join(dir, f.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(f.Data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestSystemdAcceptsIt: systemd has nothing to say about any of our units, hostile ones included.
func TestSystemdAcceptsIt(t *testing.T) {
	t.Parallel()
	testkit.Need(t, "systemd-analyze", runtime.GOOS == "linux", "systemd is Linux's")
	specs := []Spec{system()}
	agent := system()
	agent.Hardening = Agent
	mine := user()
	mine.Exec[0] = "/bin/true"
	specs = append(specs, agent, mine)
	r := rand.New(rand.NewPCG(3, 4))
	for range 15 {
		s := hostileSpec(r)
		s.Exec[0] = "/bin/true"
		specs = append(specs, s)
	}
	for _, s := range specs {
		files, err := s.Systemd()
		if err != nil {
			t.Fatal(err)
		}
		dir := write(t, files)
		args := []string{"verify", "--man=no", "--recursive-errors=no"}
		if s.Scope == User {
			args = append(args, "--user")
		}
		out, err := analyze(t, append(args, filepath.Join(dir, files[0].Name))...)
		if err != nil || strings.Contains(out, dir) || strings.Contains(out, files[0].Name) {
			t.Errorf("systemd-analyze verify: %v\n%s\n%s", err, out, files[0].Data)
		}
	}
}

// TestExposure is the gate on how much a system service could do.
func TestExposure(t *testing.T) {
	t.Parallel()
	testkit.Need(t, "systemd-analyze", runtime.GOOS == "linux", "systemd is Linux's")
	for h, most := range map[Hardening]string{Balanced: "20", Agent: "28"} {
		s := system()
		s.Hardening = h
		files, err := s.Systemd()
		if err != nil {
			t.Fatal(err)
		}
		// What a drop-in says counts as if it stood in the unit.
		joined := write(t, []File{{files[0].Name, files[0].Data + files[1].Data}})
		out, err := analyze(t, "security", "--offline=true", "--no-pager", "--threshold="+most, filepath.Join(joined, files[0].Name))
		lines := strings.Split(strings.TrimSpace(out), "\n")
		t.Logf("%s: %s", h, lines[len(lines)-1])
		if err != nil {
			t.Errorf("%s: %v\n%s", h, err, out)
		}
	}
}

func TestPlistIsXML(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		s := hostileSpec(r)
		f, err := s.Launchd()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for dec := xml.NewDecoder(strings.NewReader(f.Data)); ; {
			tok, err := dec.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%v in\n%s", err, f.Data)
			}
			if text, ok := tok.(xml.CharData); ok {
				got = append(got, string(text))
			}
		}
		for _, w := range slices.Concat(s.Exec, []string{s.Home, s.Env["A"]}) {
			if w != "" && !slices.Contains(got, w) {
				t.Fatalf("%q is not in the property list", w)
			}
		}
	}
}

func TestTaskIsXML(t *testing.T) {
	t.Parallel()
	s := user()
	s.Exec = append(s.Exec, `a "quoted" \ word`, "", `trailing\`)
	f, err := s.Task(`D\u & co`)
	if err != nil {
		t.Fatal(err)
	}
	raw := []byte(f.Data)
	if !bytes.HasPrefix(raw, []byte{0xff, 0xfe}) || len(raw)%2 != 0 {
		t.Fatal("not UTF-16 with its mark")
	}
	var units []uint16
	for i := 2; i < len(raw); i += 2 {
		units = append(units, uint16(raw[i])|uint16(raw[i+1])<<8)
	}
	text := strings.Replace(string(utf16.Decode(units)), "UTF-16", "UTF-8", 1)
	var task struct {
		Command   string `xml:"Actions>Exec>Command"`
		Arguments string `xml:"Actions>Exec>Arguments"`
		Limit     string `xml:"Settings>ExecutionTimeLimit"`
		Battery   string `xml:"Settings>StopIfGoingOnBatteries"`
	}
	if err := xml.Unmarshal([]byte(text), &task); err != nil {
		t.Fatal(err)
	}
	if task.Limit != "PT0S" || task.Battery != "false" { // H#35692: killed after 72 hours, or on battery
		t.Errorf("%+v", task)
	}
	if want := `//B //Nologo //E:JScript /home/u/.hermes/profiles/work/gateway-service/Hermes_Gateway_work.js`; task.Command != "wscript.exe" || task.Arguments != want {
		t.Errorf("%s, arguments: %s, want %s", task.Command, task.Arguments, want)
	}
	script, err := s.Launcher()
	if err != nil {
		t.Fatal(err)
	}
	line := jsString(`/home/u/.local/bin/hermes-appliance --profile work gateway run "a \"quoted\" \ word" "" trailing\`)
	if !strings.Contains(script.Data, "shell.Run("+line+", 0, true)") {
		t.Errorf("want %s in\n%s", line, script.Data)
	}
	s.Exec[0] = "/home/%USERNAME%/hermes-appliance"
	if _, err := s.Launcher(); err == nil {
		t.Error("the scripting host would put a variable in its place")
	}
}

// TestS6Scripts runs the scripts with a real shell.
func TestS6Scripts(t *testing.T) {
	t.Parallel()
	sh, err := exec.LookPath("sh")
	testkit.Need(t, "posix", err == nil, "no POSIX shell")
	s := user()
	s.Home = t.TempDir()
	script := filepath.Join(t.TempDir(), "it's $HOME")
	testkit.WriteFile(t, script, []byte("#!/bin/sh\npwd; for a; do printf '<%s>' \"$a\"; done; printf '%s' \"$HERMES_HOME$A\"\n"), 0o755)
	s.Exec = []string{script, "a b", "'", "$(id)"}
	s.Env = map[string]string{"A": "`id`'\""}
	files, err := s.S6()
	if err != nil {
		t.Fatal(err)
	}
	slot := write(t, files)
	cmd := exec.CommandContext(t.Context(), sh, filepath.Join(slot, "run"))
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	out, err := cmd.Output()
	if want := s.Home + "\n<a b><'><$(id)><--replace>" + s.Home + "`id`'\""; err != nil || string(out) != want {
		t.Errorf("run: %q, want %q (%v)", out, want, err)
	}
	for code, want := range map[string]int{"0": 125, "78": 125, "1": 0, "75": 0, "256": 0} {
		err := exec.CommandContext(t.Context(), sh, filepath.Join(slot, "finish"), code, "0").Run()
		got := 0
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			got = exit.ExitCode()
		}
		if got != want {
			t.Errorf("finish after %s: %d, want %d", code, got, want)
		}
	}
}
