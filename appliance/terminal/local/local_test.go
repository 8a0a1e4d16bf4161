// SPDX-License-Identifier: MIT

//go:build linux

package local_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/appliance/process"
	"github.com/hermes-appliance/hermes-appliance/appliance/terminal"
	"github.com/hermes-appliance/hermes-appliance/appliance/terminal/local"
	"github.com/hermes-appliance/hermes-appliance/internal/terminaltest"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

func maker(t testing.TB, c *terminal.Config, v *terminaltest.Vars) {
	t.Helper()
	_, err := exec.LookPath("bash")
	testkit.Need(t, "bash", err == nil, "commands are run by bash")
	r := process.New(discard())
	c.Temp = t.TempDir()
	home := t.TempDir()
	t.Cleanup(func() { r.KillNow() }) // before the directories go
	c.Host = local.New(local.Config{Registry: r, Temp: c.Temp, Home: home})
	c.Env = v.Env("PATH="+os.Getenv("PATH"), "HOME="+home, "LC_ALL=C.UTF-8")
}

func TestConformance(t *testing.T) {
	t.Parallel()
	terminaltest.Run(t, maker)
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestPath(t *testing.T) {
	t.Parallel()
	var c terminal.Config
	maker(t, &c, &terminaltest.Vars{})
	h := local.New(local.Config{Registry: process.New(discard()), Temp: c.Temp, Home: "/home/me", Path: []string{"/opt/runtime/bin"}})
	c.Log = discard()
	for in, want := range map[string]string{
		"PATH=/mine::/usr/bin:": "/mine:/usr/bin:/usr/local/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin:/opt/runtime/bin:/home/me/.local/bin",
		"PATH=":                 "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin:/opt/runtime/bin:/home/me/.local/bin",
		"NO=path":               "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin:/opt/runtime/bin:/home/me/.local/bin",
	} {
		c.Host = h
		c.Env = func(context.Context, process.Kind) (terminal.Env, error) {
			return terminal.Env{Vars: []string{in}}, nil
		}
		out, err := terminal.New(c).Exec(t.Context(), terminal.Script{Text: `printf %s "$PATH"`})
		if err != nil || string(out.Stdout) != want {
			t.Errorf("%s: got %s, %v", in, out.Stdout, err)
		}
	}
}

// A machine without bash is a fault of the place, with a way out.
func TestNoBash(t *testing.T) {
	t.Parallel()
	var c terminal.Config
	maker(t, &c, &terminaltest.Vars{})
	c.Log = discard()
	c.Host = local.New(local.Config{Registry: process.New(discard()), Temp: c.Temp, Bash: "no-bash-here"})
	_, err := terminal.New(c).Run(t.Context(), terminal.Command{Text: "true"})
	var conn *terminal.ConnError
	if !errors.As(err, &conn) || conn.Hint == "" {
		t.Errorf("got %v", err)
	}
}

func TestTempDir(t *testing.T) {
	t.Parallel()
	all := map[string]string{"TERMINAL_TEMP_DIR": "/t", "TMPDIR": "/tmpdir", "TMP": "/tmp1", "TEMP": "/temp"}
	usable := map[string]bool{"/t": true, "/tmpdir": true, "/tmp1": true, "/temp": true, "/h/cache/terminal": true}
	for _, step := range []struct{ want, then string }{
		{"/t", "TERMINAL_TEMP_DIR"}, {"/tmpdir", "TMPDIR"}, {"/tmp1", "TMP"}, {"/temp", "TEMP"}, {"/h/cache/terminal", ""},
	} {
		got := local.TempDir(func(n string) string { return all[n] }, "/h", "/sys", func(d string) bool { return usable[d] })
		if got != step.want {
			t.Errorf("got %s, want %s", got, step.want)
		}
		delete(all, step.then)
	}
	all["TMPDIR"], all["TMP"] = "relative", "/not/usable"
	if got := local.TempDir(func(n string) string { return all[n] }, "", "/sys", func(d string) bool { return usable[d] }); got != "/sys" {
		t.Errorf("got %s", got)
	}
}
