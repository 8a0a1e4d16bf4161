// SPDX-License-Identifier: MIT

package service

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// TestInitScripts: whatever is in the names, the scripts are shell, and they are known again.
func TestInitScripts(t *testing.T) {
	t.Parallel()
	sh, err := exec.LookPath("sh")
	testkit.Need(t, "posix", err == nil, "there is no sh")
	s := Spec{
		Name: "hermes-gateway", Scope: System, Home: `/srv/it's "home" $x`, Exec: []string{"/opt/a b/hermes-appliance", "gateway", "run"},
		Account: "ada", Group: "staff", AccountHome: "/home/ada", Path: []string{"/usr/bin"}, Env: map[string]string{"A": "`id`'"},
	}
	for name, render := range map[string]func() (File, error){"openrc": s.OpenRC, "sysv": s.SysV} {
		f, err := render()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), sh, "-n")
		cmd.Stdin = strings.NewReader(f.Data)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s\n%s", name, err, out, f.Data)
		}
		_, rest, _ := strings.Cut(f.Data, "\n")
		if p := Inspect(rest); !p.Ours || p.Edited || p.Home != s.Home {
			t.Errorf("%s: %+v", name, p)
		}
	}
	s.Name = "hermes-gateway-that-does-not-run"
	f, err := s.SysV()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), sh, "-s", "status")
	cmd.Stdin = strings.NewReader(f.Data)
	if out, err := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 3 { // by the LSB: it is not running
		t.Errorf("status: %v %s", err, out)
	}
	s.Account = ""
	if _, err := s.OpenRC(); err == nil {
		t.Error("a script without an account")
	}
}
