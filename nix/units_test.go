// SPDX-License-Identifier: MIT

package nix

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
	"github.com/hermes-appliance/hermes-appliance/service"
)

// section is a section of a unit as a module has it: a value, or several.
type section map[string]any

func (s section) all(name string) []string {
	switch v := s[name].(type) {
	case string:
		return []string{v}
	case []any:
		out := make([]string, len(v))
		for i, x := range v {
			out[i] = fmt.Sprint(x)
		}
		return out
	}
	return nil
}

// nixUnits are the units that the modules make.
type nixUnits struct {
	System map[string]struct {
		ServiceConfig, UnitConfig section
		Requires, After, Aliases  []string
	}
	User map[string]struct {
		Unit, Service, Install section
	}
	InHome, Bare section
	Agent        struct {
		ProgramArguments     []string
		EnvironmentVariables map[string]string
		ExitTimeOut          int
	}
}

// compare wants every line of the Go renderer in the module's section, and none beside those
// that differ on purpose.
func compare(t *testing.T, name string, got section, files []unitFile, in string, differ map[string]string) {
	t.Helper()
	want := map[string][]string{}
	for _, f := range files {
		for _, o := range f.Options {
			if o.Section == in {
				want[o.Name] = append(want[o.Name], o.Value)
			}
		}
	}
	for key, values := range want {
		if _, ok := differ[key]; !ok && !slices.Equal(got.all(key), values) {
			t.Errorf("%s: %s is %q, the renderer says %q", name, key, got.all(key), values)
		}
	}
	for key := range got {
		if _, ok := want[key]; !ok && differ[key] == "" {
			t.Errorf("%s: %s=%v is not the renderer's", name, key, got.all(key))
		}
	}
}

func loadUnits(t *testing.T, lib string) nixUnits {
	t.Helper()
	var u nixUnits
	evaluate(t, t.TempDir(), fmt.Sprintf("(import ./tests { lib = %s; }).units", lib), &u)
	return u
}

// TestUnitsAreTheRenderers: a unit of the modules is, line by line, the one that the program
// would install itself. That also closes what upstream's module lacked (services spec §1.7): the
// exit codes 75 and 78, KillMode, ExecReload and a TimeoutStopSec that fits the drain.
func TestUnitsAreTheRenderers(t *testing.T) {
	t.Parallel()
	libs(t, func(t *testing.T, lib string) {
		u := loadUnits(t, lib)
		exec := "the arguments that the test adds"
		system := map[string]string{"ExecReload": "NixOS has no /bin/kill", "ExecStart": exec}
		gateway := u.System["hermes-gateway"]
		args := []string{"--scope", "system", "--writable", "/var/lib/hermes", "--writable", "/srv/work", "--program", "/program/bin/hermes-appliance", "--drain", "180s"}
		compare(t, "system", gateway.ServiceConfig, rendered(t, args...), "Service", system)
		compare(t, "system", gateway.UnitConfig, rendered(t, args...), "Unit", map[string]string{"Description": "an option", "Wants": "an option", "After": "an option"})
		words, err := service.Words(gateway.ServiceConfig.all("ExecStart")[0], true)
		if want := []string{"/program/bin/hermes-appliance", "gateway", "run", "--profile", `a b%$"\`}; err != nil || !slices.Equal(words, want) {
			t.Errorf("ExecStart is read as %q, %v; want %q", words, err, want)
		}
		if got := gateway.ServiceConfig.all("ExecReload"); !slices.Equal(got, []string{"/usr/bin/kill -USR1 $MAINPID"}) {
			t.Errorf("ExecReload %q", got)
		}
		user := map[string]string{"ExecReload": "as above", "ExecStart": exec, "UMask": "the home is the person's alone", "Environment": "a PATH more"}
		mine := u.User["hermes-gateway"]
		userArgs := []string{"--scope", "user", "--home", "/home/me/.hermes", "--writable", "/home/me/.hermes", "--writable", "/srv/work", "--program", "/program/bin/hermes-appliance", "--drain", "180s"}
		compare(t, "user", mine.Service, rendered(t, userArgs...), "Service", user)
		compare(t, "user", mine.Unit, rendered(t, userArgs...), "Unit", map[string]string{"Requires": "the preparation", "After": "the preparation", "X-Restart-Triggers": "a new declaration"})
		compare(t, "user", mine.Install, rendered(t, userArgs...), "Install", map[string]string{"Alias": "upstream's name"})
		home := []string{"--home", "/home/bot/hermes/.hermes", "--writable", "/home/bot/hermes", "--writable", "/home/bot/hermes/workspace", "--hardening", "agent", "--program", "/program/bin/hermes-appliance"}
		compare(t, "in a home", u.InHome, rendered(t, home...), "Service", map[string]string{"ExecReload": "as above"})
		bare := []string{"--hardening", "none", "--program", "/program/bin/hermes-appliance", "--drain", "12500ms"}
		compare(t, "no hardening", u.Bare, rendered(t, bare...), "Service", map[string]string{"ExecReload": "as above"})
	})
}

// TestPreparationIsAsConfined: what runs before the gateway is kept from the same things.
func TestPreparationIsAsConfined(t *testing.T) {
	t.Parallel()
	u := loadUnits(t, "import ./tests/stub/lib.nix")
	gateway, prepare := u.System["hermes-gateway"].ServiceConfig, u.System["hermes-gateway-prepare"].ServiceConfig
	same := 0
	for name := range gateway {
		if strings.HasPrefix(name, "Protect") || strings.HasPrefix(name, "Private") || strings.HasPrefix(name, "Restrict") ||
			strings.HasPrefix(name, "System") || slices.Contains([]string{"NoNewPrivileges", "CapabilityBoundingSet", "User", "Group", "UMask"}, name) {
			same++
			if !slices.Equal(gateway.all(name), prepare.all(name)) {
				t.Errorf("%s: %q for the gateway, %q before it", name, gateway.all(name), prepare.all(name))
			}
		}
	}
	if same < 20 || gateway.all("User")[0] == "root" {
		t.Errorf("only %d directives are alike", same)
	}
}

// TestStopTimes: the modules compute the same time for a stop as the program.
func TestStopTimes(t *testing.T) {
	t.Parallel()
	libs(t, func(t *testing.T, lib string) {
		var got []string
		evaluate(t, t.TempDir(), fmt.Sprintf("(import ./tests { lib = %s; }).stops", lib), &got)
		for i, drain := range []float64{0, 1, 180, 12.5, 3600} {
			d := time.Duration(drain * float64(time.Second))
			budget := service.Spec{Drain: d}.StopBudget()
			if want := strconv.Itoa(int((budget + time.Second - 1) / time.Second)); i >= len(got) || got[i] != want {
				t.Errorf("drain %v: %v, want %s", drain, got, want)
			}
		}
	})
}

// TestAgentIsTheRenderers compares the launchd agent with the property list.
func TestAgentIsTheRenderers(t *testing.T) {
	t.Parallel()
	u := loadUnits(t, "import ./tests/stub/lib.nix")
	f, err := service.Spec{
		Name: service.Base, Scope: service.User, Home: "/home/me/.hermes", Exec: append([]string{"/program/bin/hermes-appliance", "gateway", "run"}, "-v"),
		Env: map[string]string{"PATH": u.Agent.EnvironmentVariables["PATH"]},
	}.Launchd()
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range u.Agent.ProgramArguments {
		if !strings.Contains(f.Data, "<string>"+word+"</string>") {
			t.Errorf("the property list lacks the argument %q", word)
		}
	}
	if n := strings.Count(f.Data[strings.Index(f.Data, "<array>"):strings.Index(f.Data, "</array>")], "<string>"); n != len(u.Agent.ProgramArguments) {
		t.Errorf("the property list has %d arguments, the agent %q", n, u.Agent.ProgramArguments)
	}
	for name, value := range u.Agent.EnvironmentVariables {
		if !strings.Contains(f.Data, "<key>"+name+"</key>\n\t\t<string>"+value+"</string>") {
			t.Errorf("the property list lacks %s=%s", name, value)
		}
	}
	if !strings.Contains(f.Data, fmt.Sprintf("<key>ExitTimeOut</key>\n\t<integer>%d</integer>", u.Agent.ExitTimeOut)) {
		t.Errorf("another ExitTimeOut than %d", u.Agent.ExitTimeOut)
	}
}

// TestSystemdTakesTheUnits lets systemd read what NixOS would write of them.
func TestSystemdTakesTheUnits(t *testing.T) {
	t.Parallel()
	_, err := exec.LookPath("systemd-analyze")
	testkit.Need(t, "systemd-analyze", err == nil, "no systemd-analyze")
	u := loadUnits(t, "import ./tests/stub/lib.nix")
	dir := t.TempDir()
	var paths []string
	for name, s := range u.System {
		var b strings.Builder
		b.WriteString("[Unit]\n")
		for _, list := range []struct {
			name  string
			units []string
		}{{"Requires", s.Requires}, {"After", s.After}} {
			fmt.Fprintf(&b, "%s=%s\n", list.name, strings.Join(list.units, " "))
		}
		write := func(s section) {
			for key := range s {
				for _, v := range s.all(key) {
					// What stands for the program and the scripts is not on this machine.
					v = strings.NewReplacer(`"/program/bin/hermes-appliance"`, "/bin/true").Replace(v)
					if key == "ExecStart" && strings.HasSuffix(name, "-prepare") {
						v = "/bin/true"
					}
					fmt.Fprintf(&b, "%s=%s\n", key, v)
				}
			}
		}
		write(s.UnitConfig)
		b.WriteString("[Service]\n")
		write(s.ServiceConfig)
		path := filepath.Join(dir, name+".service")
		if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	cmd := exec.CommandContext(t.Context(), "systemd-analyze", append([]string{"verify", "--man=no"}, paths...)...)
	cmd.Env = append(os.Environ(), "SYSTEMD_LOG_LEVEL=warning")
	out, err := cmd.CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, dir) || strings.Contains(line, "hermes-gateway") {
			t.Errorf("systemd: %s", line)
		}
	}
	if err != nil && len(out) == 0 {
		t.Errorf("systemd-analyze: %v", err)
	}
}
