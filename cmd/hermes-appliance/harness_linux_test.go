// SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// deadline is when a test gives up on a process. Nothing is measured by it.
const deadline = 3 * time.Minute

// place is a directory in which gateways of a test run, with a HOME of its own.
type place struct {
	dir, home string
	env       []string
	program   string     // "" = the one of this test
	passed    []*os.File // what a manager would pass, from 3 on
}

func newPlace(t testing.TB, files map[string]string) *place {
	t.Helper()
	dir := t.TempDir()
	p := &place{dir: dir, home: filepath.Join(dir, "home")}
	for _, d := range []string{"user", "tmp"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	testkit.WriteTree(t, p.home, files)
	p.env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, "user"), "TMPDIR=" + filepath.Join(dir, "tmp"),
		"HERMES_MANAGED_DIR=" + filepath.Join(dir, "no-admin"), "API_SERVER_PORT=0",
	}
	return p
}

// state reads the state file, which follows what the socket says within moments.
func (p *place) state(t testing.TB) map[string]any {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(p.home, "gateway_state.json"))
	for end := time.Now().Add(deadline); errors.Is(err, fs.ErrNotExist) && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		data, err = os.ReadFile(filepath.Join(p.home, "gateway_state.json"))
	}
	if err != nil {
		t.Fatal(err)
	}
	var v map[string]any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	return v
}

// rewrite replaces a file of a running gateway in one step, as editors do: at no time is it empty.
func rewrite(t testing.TB, path, text string) {
	t.Helper()
	err := os.WriteFile(path+".next", []byte(text), 0o600)
	if err = errors.Join(err, os.Rename(path+".next", path)); err != nil {
		t.Fatal(err)
	}
}

// command runs the program to its end and returns what it printed and its exit code.
func (p *place) command(t testing.TB, args ...string) (out string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "hermes-appliance", args...)
	cmd.Env = p.env
	data, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	noRace(t, string(data))
	return string(data), cmd.ProcessState.ExitCode()
}

// buffer collects what a process prints while it runs.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// running is a gateway that a test started.
type running struct {
	t        testing.TB
	p        *place
	cmd      *exec.Cmd
	out, log buffer
	ready    chan string
	ended    chan struct{}
	url, key string
}

// start runs a command of the program that stays, e.g. "up", and waits until it says to its
// service manager that it is ready.
func (p *place) start(t testing.TB, args ...string) *running {
	t.Helper()
	r := p.launch(t, args...)
	select {
	case <-r.ready:
	case <-r.ended:
		t.Fatalf("%v ended with %d before it was ready:\n%s%s", args, r.cmd.ProcessState.ExitCode(), &r.out, &r.log)
	case <-time.After(deadline):
		t.Fatalf("%v is not ready after %s:\n%s%s", args, deadline, &r.out, &r.log)
	}
	platforms, _ := p.state(t)["platforms"].(map[string]any)
	api, _ := platforms["api_server"].(map[string]any)
	r.url, _ = api["listener_base"].(string)
	env, err := os.ReadFile(filepath.Join(p.home, ".env"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(env)) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "API_SERVER_KEY="); ok {
			r.key = v
		}
	}
	return r
}

// launch is start without the wait.
func (p *place) launch(t testing.TB, args ...string) *running {
	t.Helper()
	dir, err := os.MkdirTemp("", "n") // short: the path of a socket has a limit
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "n")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	r := &running{t: t, p: p, ready: make(chan string, 1), ended: make(chan struct{})}
	go func() {
		b := make([]byte, 4096)
		for {
			n, err := l.Read(b)
			if err != nil {
				return
			}
			if text := string(b[:n]); strings.HasPrefix(text, "READY=1") {
				r.ready <- text
			}
		}
	}()
	program := p.program
	if program == "" {
		program = "hermes-appliance"
	}
	r.cmd = exec.Command(program, args...)
	r.cmd.Env = append(slices.Clip(p.env), "NOTIFY_SOCKET="+path)
	r.cmd.Stdout, r.cmd.Stderr, r.cmd.ExtraFiles = &r.out, &r.log, p.passed
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		r.cmd.Wait()
		close(r.ended)
	}()
	t.Cleanup(func() {
		r.cmd.Process.Kill()
		<-r.ended
		l.Close()
		os.RemoveAll(dir)
		noRace(t, r.log.String())
		if t.Failed() {
			t.Logf("gateway said:\n%s%s", &r.out, &r.log)
		}
	})
	return r
}

// end sends a signal and returns the exit code.
func (r *running) end(sig syscall.Signal) int {
	r.t.Helper()
	if err := r.cmd.Process.Signal(sig); err != nil {
		r.t.Fatal(err)
	}
	return r.wait()
}

func (r *running) wait() int {
	r.t.Helper()
	select {
	case <-r.ended:
	case <-time.After(deadline):
		r.t.Fatalf("the gateway still runs after %s:\n%s", deadline, &r.log)
	}
	return r.cmd.ProcessState.ExitCode()
}

// request asks the API; body "" is a GET. path may hold a method before it.
func (r *running) request(key, path, body string) (int, string) {
	r.t.Helper()
	status, text, err := r.try(key, path, body)
	if err != nil {
		r.t.Fatal(err)
	}
	return status, text
}

func (r *running) try(key, path, body string) (int, string, error) {
	method, path := cutMethod(path)
	status, data, err := exchange(r.t.Context(), key, strings.TrimSpace(method+" "+r.url+path), body)
	return status, string(data), err
}

// cutMethod takes the method off that may stand before a path.
func cutMethod(path string) (method, rest string) {
	if m, p, ok := strings.Cut(path, " "); ok {
		return m, p
	}
	return "", path
}

// exchange sends a body, "" is a GET, and reads the answer. url may hold a method before it.
func exchange(ctx context.Context, key, url, body string) (int, []byte, error) {
	method := http.MethodPost
	if body == "" {
		method = http.MethodGet
	}
	if m, u, ok := strings.Cut(url, " "); ok {
		method, url = m, u
	}
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return resp.StatusCode, data, err
}

// ask sends one message as a chat completion and returns the answer's text.
func (r *running) ask(path, key, text string) string {
	r.t.Helper()
	status, body := r.request(key, path+"/v1/chat/completions", `{"messages":[{"role":"user","content":`+quote(text)+`}]}`)
	var v struct {
		Choices []struct{ Message struct{ Content string } }
	}
	if err := json.Unmarshal([]byte(body), &v); err != nil || status != 200 || len(v.Choices) != 1 {
		r.t.Fatalf("%d %s", status, body)
	}
	return v.Choices[0].Message.Content
}

func quote(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

// field reads a field of a JSON object.
func field[T any](t testing.TB, body, name string) T {
	t.Helper()
	v := map[string]json.RawMessage{}
	var out T
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	if raw, ok := v[name]; !ok {
		t.Fatalf("no %s in %s", name, body)
	} else if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatalf("%s: %v in %s", name, err, body)
	}
	return out
}

// processes lists the ids of processes whose command line holds a text, zombies left out.
func processes(t testing.TB, text string) []int {
	t.Helper()
	found, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var out []int
	for _, path := range found {
		data, err := os.ReadFile(path)
		if err != nil || !strings.Contains(strings.ReplaceAll(string(data), "\x00", " "), text) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil && pid != os.Getpid() {
			out = append(out, pid)
		}
	}
	return out
}

// fifo is a pipe on which a command of a test says that it runs.
func fifo(t testing.TB, dir string) (path string, heard func()) {
	t.Helper()
	path = filepath.Join(dir, fmt.Sprintf("fifo%d", time.Now().UnixNano()))
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	said := make(chan error, 1)
	go func() {
		f, err := os.Open(path) // waits for a writer
		if err == nil {
			_, err = io.ReadAll(f)
			f.Close()
		}
		said <- err
	}()
	return path, func() {
		t.Helper()
		select {
		case err := <-said:
			if err != nil {
				t.Fatal(err)
			}
		case <-time.After(deadline):
			t.Fatal("the command never ran")
		}
	}
}
