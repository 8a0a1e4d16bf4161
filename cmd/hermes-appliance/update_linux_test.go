// SPDX-License-Identifier: MIT

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/images"
)

// The releases of these tests. The gateway of the last one never serves.
const (
	first  = "1.0.0"
	second = "1.1.0"
	broken = "1.2.0"
)

// releases are real builds of the program in a directory, signed.
type releases struct{ dir, key string }

func (r releases) file(version string) string {
	return filepath.Join(r.dir, fmt.Sprintf("hermes-appliance_%s_linux_%s", version, runtime.GOARCH))
}

// build makes the releases in a directory of the test.
func build(t *testing.T) releases {
	t.Helper()
	dir := t.TempDir()
	r := releases{dir, filepath.Join(dir, "cosign.pub")}
	overlay, err := brokenGateway(dir)
	if err != nil {
		t.Fatal(err)
	}
	list := ""
	for _, v := range []string{first, second, broken} {
		args := []string{"build", "-ldflags", "-X github.com/hermes-appliance/hermes-appliance/internal/buildinfo.version=" + v, "-o", r.file(v)}
		if v == broken {
			args = append(args, "-overlay", overlay)
		}
		if out, err := exec.CommandContext(t.Context(), "go", append(args, ".")...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		data, err := os.ReadFile(r.file(v))
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(data)
		list += hex.EncodeToString(sum[:]) + "  " + filepath.Base(r.file(v)) + "\n"
	}
	if err := r.sign(list); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestUpdate runs real builds of the program, side by side: one build serves them all.
func TestUpdate(t *testing.T) {
	t.Parallel()
	r := build(t)
	for name, test := range map[string]func(*testing.T, releases){
		"apply": testApply, "comes back": testComesBack, "managed program": testManagedProgram,
		"killed, good":                func(t *testing.T, r releases) { testUpdaterKilled(t, r, second, second) },
		"killed, broken":              func(t *testing.T, r releases) { testUpdaterKilled(t, r, broken, first) },
		"report 2.10: manual gateway": testManualGateway,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, r)
		})
	}
}

func (r releases) sign(list string) error {
	private, public, err := images.GenerateKey(nil)
	if err != nil {
		return err
	}
	s, err := images.ParseSigner(private, nil)
	if err != nil {
		return err
	}
	sig, err := s.Detached([]byte(list))
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{"checksums.txt": []byte(list), "checksums.txt.sig": sig, "cosign.pub": public} {
		if err := os.WriteFile(filepath.Join(r.dir, name), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// brokenGateway writes an overlay for the build of a program whose gateway ends with an error.
func brokenGateway(dir string) (string, error) {
	source, err := filepath.Abs("../../internal/cli/gateway.go")
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(source)
	if err != nil {
		return "", err
	}
	const serve = "\treturn appliance.Serve("
	if strings.Count(string(text), serve) != 1 {
		return "", fmt.Errorf("%s does not call appliance.Serve once", source)
	}
	changed := strings.Replace(string(text), serve, "\tif h.Dir != \"\" {\n\t\treturn errors.New(\"this release is broken\")\n\t}\n"+serve, 1)
	path := filepath.Join(dir, "gateway.go.txt")
	if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
		return "", err
	}
	data, err := json.Marshal(map[string]any{"Replace": map[string]string{source: path}})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, data, 0o600)
}

// updatePlace is a home and the first release, installed in a directory of its own.
func updatePlace(t *testing.T, r releases) *place {
	t.Helper()
	p := newPlace(t, map[string]string{"config.yaml": "# mine\n_config_version: 50\ngateway:\n  restart_drain_timeout: 80\n", ".env": apiOn})
	p.program = filepath.Join(p.dir, "bin", "hermes-appliance")
	if err := os.Mkdir(filepath.Dir(p.program), 0o755); err != nil {
		t.Fatal(err)
	}
	// Not written by this process: what the tests beside this one start would have it open for
	// writing for a moment, and then it cannot be run.
	if out, err := exec.CommandContext(t.Context(), "cp", r.file(first), p.program).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return p
}

// do runs the installed program.
func (p *place) do(t *testing.T, args ...string) (out string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), p.program, append(args, "--home", p.home)...)
	cmd.Env = p.env
	data, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(data), cmd.ProcessState.ExitCode()
}

// installed is what the program in place calls itself.
func (p *place) installed(t *testing.T) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), p.program, "version")
	cmd.Env = p.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return strings.Fields(string(out))[1]
}

// supervisor starts a gateway again whenever it ends, as a service manager does.
type supervisor struct {
	t    *testing.T
	p    *place
	stop chan struct{}
	done chan struct{}
	log  buffer
}

func (p *place) supervise(t *testing.T) *supervisor {
	t.Helper()
	s := &supervisor{t: t, p: p, stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(s.done)
		for {
			cmd := exec.Command(p.program, "gateway", "run", "--home", p.home)
			cmd.Env = append(slices.Clip(p.env), "HERMES_GATEWAY_EXTERNAL_SUPERVISOR=1")
			cmd.Stdout, cmd.Stderr = &s.log, &s.log
			if err := cmd.Start(); err != nil {
				fmt.Fprintln(&s.log, err)
				time.Sleep(50 * time.Millisecond)
				continue
			}
			ended := make(chan struct{})
			go func() {
				cmd.Wait()
				close(ended)
			}()
			select {
			case <-ended:
				fmt.Fprintln(&s.log, "supervisor: exit", cmd.ProcessState.ExitCode())
				time.Sleep(50 * time.Millisecond)
			case <-s.stop:
				cmd.Process.Kill()
				<-ended
				return
			}
			select {
			case <-s.stop:
				return
			default:
			}
		}
	}()
	t.Cleanup(func() {
		close(s.stop)
		<-s.done
		if t.Failed() {
			t.Logf("supervisor said:\n%s", &s.log)
		}
	})
	return s
}

// serves waits for a gateway of a version that serves and is another process than not.
func (s *supervisor) serves(version string, not int) (pid int) {
	s.t.Helper()
	for end := time.Now().Add(2 * deadline); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		out, code := s.p.do(s.t, "status", "--json")
		var v struct {
			Result struct {
				Running bool
				Status  struct {
					PID     int    `json:"pid"`
					Version string `json:"code_version"`
					Phase   string `json:"gateway_state"`
				}
			}
		}
		if code == 0 && json.Unmarshal([]byte(out), &v) == nil && v.Result.Running && v.Result.Status.Phase == "running" &&
			v.Result.Status.Version == version && v.Result.Status.PID != not {
			return v.Result.Status.PID
		}
	}
	s.t.Fatalf("no gateway of version %s serves", version)
	return 0
}

// settled fails if an update is under way.
func (p *place) settled(t *testing.T) {
	t.Helper()
	if _, err := os.Lstat(filepath.Join(p.home, ".appliance", "update.json")); err == nil {
		t.Error("an update is still under way")
	}
	for _, path := range []string{".hermes-appliance.new"} {
		if _, err := os.Lstat(filepath.Join(p.dir, "bin", path)); err == nil {
			t.Errorf("%s is left", path)
		}
	}
}

// testApply: check says what would happen and changes nothing; apply has the gateway drain
// and start on the new program; the generations lead back.
func testApply(t *testing.T, r releases) {
	t.Helper()
	p := updatePlace(t, r)
	s := p.supervise(t)
	pid := s.serves(first, 0)
	if out, code := p.do(t, "update", "--check", r.file(second)); code != 1 || !strings.Contains(out, "--key") {
		t.Errorf("without a key: %d %s", code, out)
	}
	out, code := p.do(t, "update", "--check", r.file(second), "--key", r.key)
	if code != 3 || !strings.Contains(out, first+" -> "+second) || p.installed(t) != first {
		t.Errorf("check: %d %s", code, out)
	}
	if _, err := os.Lstat(filepath.Join(p.home, ".appliance", "generations")); err == nil {
		t.Error("check recorded something")
	}
	out, code = p.do(t, "update", "--apply", r.file(second), "--key", r.key)
	if code != 0 || !strings.Contains(out, "started again and serves") || p.installed(t) != second {
		t.Fatalf("apply: %d %s", code, out)
	}
	pid = s.serves(second, pid)
	p.settled(t)
	if out, code := p.do(t, "update", "--check", r.file(second), "--key", r.key); code != 0 || !strings.Contains(out, "already") {
		t.Errorf("check of what runs: %d %s", code, out)
	}
	if out, code := p.do(t, "update", "--apply", r.file(first), "--key", r.key); code != 1 || !strings.Contains(out, "--allow-downgrade") {
		t.Errorf("downgrade: %d %s", code, out)
	}
	if out, code := p.do(t, "generations", "diff", "1", "2"); code != 0 || !strings.Contains(out, first) || !strings.Contains(out, second) {
		t.Errorf("diff: %d %s", code, out)
	}
	if out, code := p.do(t, "generations", "rollback", "1"); code != 0 || p.installed(t) != first {
		t.Fatalf("rollback: %d %s", code, out)
	}
	s.serves(first, pid)
	out, code = p.do(t, "generations", "list", "--json")
	if code != 0 || strings.Count(out, `"reason": "rollback"`) != 1 || strings.Count(out, `"number"`) != 3 {
		t.Errorf("list: %d %s", code, out)
	}
}

// testComesBack: a release whose gateway does not come up is taken back, and the old one
// serves again.
func testComesBack(t *testing.T, r releases) {
	t.Helper()
	p := updatePlace(t, r)
	s := p.supervise(t)
	pid := s.serves(first, 0)
	out, code := p.do(t, "update", "--apply", r.file(broken), "--key", r.key, "--wait", "15s")
	if code != 1 || !strings.Contains(out, "did not come up with version "+broken) || p.installed(t) != first {
		t.Errorf("%d %s", code, out)
	}
	s.serves(first, pid)
	p.settled(t)
}

// testUpdaterKilled: an updater is killed while a turn keeps the gateway from ending. The turn
// finishes, and the next start finishes the update, or takes it back if it does not come up.
func testUpdaterKilled(t *testing.T, r releases, version, want string) {
	t.Helper()
	p := updatePlace(t, r)
	s := p.supervise(t)
	pid := s.serves(first, 0)
	answer := p.turn(t)
	updater := exec.CommandContext(t.Context(), p.program, "update", "--apply", r.file(version), "--key", r.key, "--home", p.home)
	updater.Env = p.env
	if err := updater.Start(); err != nil {
		t.Fatal(err)
	}
	p.journal(t, `"phase": "swapped"`)
	s.draining()
	updater.Process.Signal(syscall.SIGKILL)
	updater.Wait()
	answer()
	s.serves(want, pid)
	for end := time.Now().Add(deadline); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if _, err := os.Lstat(filepath.Join(p.home, ".appliance", "update.json")); err != nil {
			break
		}
	}
	p.settled(t)
	if got := p.installed(t); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if out, code := p.do(t, "update"); code != 0 || !strings.Contains(out, "no update was cut off") {
		t.Errorf("%d %s", code, out)
	}
}

// turn starts a turn whose command waits; the function lets it go on and checks its answer.
func (p *place) turn(t *testing.T) func() {
	t.Helper()
	g := &running{t: t, p: p}
	await(t, "a state file that names the API", func() bool { // what the socket says comes first
		platforms, _ := p.state(t)["platforms"].(map[string]any)
		api, _ := platforms["api_server"].(map[string]any)
		g.url, _ = api["listener_base"].(string)
		return g.url != ""
	})
	for line := range strings.SplitSeq(apiOn, "\n") {
		if v, ok := strings.CutPrefix(line, "API_SERVER_KEY="); ok {
			g.key = v
		}
	}
	started, heard := fifo(t, p.dir)
	gate := filepath.Join(p.dir, "gate")
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	got := make(chan string, 1)
	go func() {
		_, body, err := g.try(g.key, "/v1/chat/completions", `{"messages":[{"role":"user","content":`+quote("run: echo > "+started+"; cat "+gate)+`}]}`)
		got <- fmt.Sprint(body, err)
	}()
	heard()
	return func() {
		t.Helper()
		if err := os.WriteFile(gate, []byte("the turn went on\n"), 0); err != nil {
			t.Fatal(err)
		}
		select {
		case text := <-got:
			if !strings.Contains(text, "the turn went on") {
				t.Errorf("the turn was cut off: %s", text)
			}
		case <-time.After(deadline):
			t.Error("the turn never ended")
		}
	}
}

// journal waits until an update says how far it is.
func (p *place) journal(t *testing.T, text string) {
	t.Helper()
	var data []byte
	for end := time.Now().Add(deadline); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if data, _ = os.ReadFile(filepath.Join(p.home, ".appliance", "update.json")); strings.Contains(string(data), text) {
			return
		}
	}
	t.Fatalf("no %s in %q", text, data)
}

// draining waits until the gateway was asked to end.
func (s *supervisor) draining() {
	s.t.Helper()
	for end := time.Now().Add(deadline); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if out, _ := s.p.do(s.t, "status", "--json"); strings.Contains(out, `"gateway_state": "draining"`) {
			return
		}
	}
	s.t.Fatal("the gateway does not drain")
}

// testManualGateway: a gateway that somebody started by hand is never ended: nobody
// would start it again (services spec §2.10). It is named.
func testManualGateway(t *testing.T, r releases) {
	t.Helper()
	p := updatePlace(t, r)
	g := p.start(t, "gateway", "run", "--home", p.home)
	out, code := p.do(t, "update", "--apply", r.file(second), "--key", r.key)
	if code != 0 || !strings.Contains(out, fmt.Sprintf("process %d was started by hand", g.cmd.Process.Pid)) || p.installed(t) != second {
		t.Errorf("%d %s", code, out)
	}
	if got := g.ask("", g.key, "hello"); got == "" {
		t.Error("it does not answer any more")
	}
	p.settled(t)
}

// testManagedProgram: what a package owns is left to it, and so is a directory that
// cannot be written.
func testManagedProgram(t *testing.T, r releases) {
	t.Helper()
	p := updatePlace(t, r)
	dir := filepath.Dir(p.program)
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(dir, 0o755) })
	out, code := p.do(t, "update", "--apply", r.file(second), "--key", r.key)
	if code != 5 || !strings.Contains(out, "read-only directory") || !strings.Contains(out, "sudo") || p.installed(t) != first {
		t.Errorf("%d %s", code, out)
	}
}
