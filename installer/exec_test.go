// SPDX-License-Identifier: MIT

//go:build unix

package installer

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// TestSpawn: a program that outlives this one has the environment, directory and files that it was
// given, a session of its own, and nothing of this process.
func TestSpawn(t *testing.T) {
	t.Parallel()
	sh, err := exec.LookPath("sh")
	testkit.Need(t, "posix", err == nil, "there is no sh")
	dir := t.TempDir()
	out, errs := filepath.Join(dir, "out"), filepath.Join(dir, "err")
	testkit.WriteTree(t, dir, map[string]string{"out": "before\n"})
	pid, err := Spawn(t.Context(), Detached{
		Argv: []string{sh, "-c", `pwd -P; echo "$A $HOME"; echo bad >&2; cut -d' ' -f6 /proc/$$/stat 2>/dev/null || echo $$; : >done`},
		Env:  []string{"A=b", "PATH=/usr/bin:/bin"}, Dir: dir, Out: out, Err: errs,
	})
	if err != nil {
		t.Fatal(err)
	}
	for last := time.Now().Add(2 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(dir, "done")); err == nil {
			break
		}
		if time.Now().After(last) {
			t.Fatal("it does not end")
		}
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(out)
	if want := strings.Join([]string{"before", real, "b ", ""}, "\n"); err != nil || !strings.HasPrefix(string(got), want) {
		t.Errorf("%v, got %q, want %q and the session %d", err, got, want, pid)
	}
	if session := strings.TrimSpace(strings.TrimPrefix(string(got), strings.Join([]string{"before", real, "b ", ""}, "\n"))); session != strconv.Itoa(pid) {
		t.Errorf("session %s, want its own: %d", session, pid)
	}
	if bad, err := os.ReadFile(errs); err != nil || string(bad) != "bad\n" {
		t.Errorf("%v %q", err, bad)
	}
	if _, err := Spawn(t.Context(), Detached{Argv: []string{filepath.Join(dir, "none")}, Env: []string{"A=b"}}); err == nil {
		t.Error("a program that is not there was started")
	}
}

// TestExecHeldPipe: a grandchild that keeps the output is no failure of the program that left it.
func TestExecHeldPipe(t *testing.T) {
	t.Parallel()
	sh, err := exec.LookPath("sh")
	testkit.Need(t, "posix", err == nil, "there is no sh")
	for script, code := range map[string]int{"echo said; sleep 60 &": 0, "echo said; sleep 60 & exit 3": 3} {
		res, err := Exec(t.Context(), Command{Argv: []string{sh, "-c", script}, Env: []string{"PATH=/usr/bin:/bin"}})
		if err != nil || res.Code != code || res.Out != "said\n" && res.Out != "said" {
			t.Errorf("%s: %+v, %v", script, res, err)
		}
	}
}
