// SPDX-License-Identifier: MIT

//go:build linux

package local_test

import (
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
	r := process.New(slog.New(slog.DiscardHandler))
	t.Cleanup(func() { r.KillNow() })
	c.Temp = t.TempDir()
	home := t.TempDir()
	c.Host = local.New(local.Config{Registry: r, Temp: c.Temp, Home: home})
	c.Env = v.Env("PATH="+os.Getenv("PATH"), "HOME="+home, "LC_ALL=C.UTF-8")
}

func TestConformance(t *testing.T) {
	t.Parallel()
	terminaltest.Run(t, maker)
}
