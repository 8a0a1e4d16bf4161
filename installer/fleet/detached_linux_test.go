// SPDX-License-Identifier: MIT

package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit/machine"
)

// program runs the built program on a home of its own.
type program struct {
	t         *testing.T
	bin, home string
}

func (p program) cmd(ctx context.Context, env []string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, p.bin, args...)
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Dir(p.home), "HERMES_HOME=" + p.home, "TMPDIR=" + filepath.Dir(p.home), "HERMES_MANAGED_DIR=/nonexistent",
	}, env...)
	return cmd
}

// run runs a command to its end, as for a person without a terminal.
func (p program) run(env []string, args ...string) (out string, code int) {
	p.t.Helper()
	b, err := p.cmd(p.t.Context(), env, args...).CombinedOutput()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if err != nil && !ok {
		p.t.Fatal(err)
	}
	if ok {
		code = exit.ExitCode()
	}
	return string(b), code
}

// pid is the live gateway of a home, 0 = none.
func (p program) pid(dir string) int {
	data, err := os.ReadFile(filepath.Join(dir, "gateway.pid"))
	var r struct{ PID int }
	if err != nil || json.Unmarshal(data, &r) != nil || syscall.Kill(r.PID, 0) != nil {
		return 0
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", r.PID))
	if err != nil || strings.HasPrefix(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " Z") {
		return 0
	}
	return r.PID
}

// TestDetached: gateways without any manager, as processes of the built program. The command is
// started for a profile, and nothing of that profile's environment reaches the gateway of
// another home that it starts (isolation spec R9, R11).
func TestDetached(t *testing.T) {
	t.Parallel()
	p := program{t: t, bin: machine.Program(t), home: filepath.Join(t.TempDir(), "h")}
	testkit.WriteTree(t, p.home, map[string]string{
		"config.yaml": "# mine\n_config_version: 50\n", "profiles/work/config.yaml": "_config_version: 50\n", "profiles/fun/config.yaml": "_config_version: 50\n",
		"profiles/work/.env": "CANARY_OF_WORK=canary-file\nTELEGRAM_BOT_TOKEN=1:canary-token\n",
	})
	homes := []string{p.home, filepath.Join(p.home, "profiles", "fun"), filepath.Join(p.home, "profiles", "work")}
	t.Cleanup(func() {
		for _, dir := range homes {
			if pid := p.pid(dir); pid > 0 {
				if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
					t.Error(err)
				}
				p.until("it is gone, and writes no more", func() bool { return p.pid(dir) == 0 })
			}
		}
	})
	for _, dir := range homes {
		cmd := p.cmd(t.Context(), nil, "gateway", "run", "--home", dir)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		go func() { _ = cmd.Wait() }()
	}
	p.until("all run", func() bool { return !slices.ContainsFunc(homes, func(d string) bool { return p.pid(d) == 0 }) })
	before := p.config()
	// As a shell of the profile has it.
	env := []string{"HERMES_HOME=" + homes[2], "CANARY_OF_WORK=canary-file", "TELEGRAM_BOT_TOKEN=1:canary-token", "OPERATOR=stays"}
	old := p.pid(p.home)
	if out, code := p.run(env, "gateway", "migrate", "--multiplex", "--yes"); code != 0 || !strings.Contains(out, "serves 3 profiles: default, fun, work") {
		t.Fatalf("exit %d\n%s", code, out)
	}
	now := p.pid(p.home)
	if now == 0 || now == old || p.pid(homes[1]) != 0 || p.pid(homes[2]) != 0 {
		t.Fatalf("processes: default %d, was %d, fun %d, work %d", now, old, p.pid(homes[1]), p.pid(homes[2]))
	}
	p.clean(now, p.home)
	if out, code := p.run(env, "gateway", "migrate", "--standalone", "--yes"); code != 0 {
		t.Fatalf("exit %d\n%s", code, out)
	}
	for _, dir := range homes {
		if p.pid(dir) == 0 {
			t.Errorf("no gateway in %s", dir)
		}
	}
	p.clean(p.pid(p.home), p.home)
	p.clean(p.pid(homes[1]), homes[1])
	if diff := cmp.Diff(before, p.config()); diff != "" {
		t.Errorf("not as before:\n%s", diff)
	}
}

func (p program) config() string {
	data, err := os.ReadFile(filepath.Join(p.home, "config.yaml"))
	if err != nil {
		p.t.Fatal(err)
	}
	return string(data)
}

// clean fails the test if a process has something of the profile work in its environment.
func (p program) clean(pid int, dir string) {
	p.t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		p.t.Fatal(err)
	}
	vars := strings.Split(string(data), "\x00")
	for _, kv := range vars {
		if strings.Contains(kv, "canary") || strings.HasPrefix(kv, "HERMES_HOME=") && kv != "HERMES_HOME="+dir {
			p.t.Errorf("the gateway of %s has %s", dir, kv)
		}
	}
	if !slices.Contains(vars, "OPERATOR=stays") {
		p.t.Errorf("the gateway of %s has nothing of the operator's environment: %v", dir, vars)
	}
}

func (p program) until(what string, ok func() bool) {
	p.t.Helper()
	for end := time.Now().Add(machine.Deadline); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			p.t.Fatalf("not within %s: %s", machine.Deadline, what)
		}
	}
}
