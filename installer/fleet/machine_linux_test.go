// SPDX-License-Identifier: MIT

package fleet

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit/machine"
)

// host is a booted machine with the program and a home of ada's with three profiles.
type host struct {
	*machine.Machine
	t *testing.T
}

const dir = "/home/ada/.hermes"

func boot(t *testing.T) host {
	t.Helper()
	m := host{machine.Boot(t, machine.Systemd), t}
	data, err := os.ReadFile(machine.Program(t))
	if err != nil {
		t.Fatal(err)
	}
	m.Put("/usr/local/bin/hermes-appliance", "root", 0o755, data)
	m.AddUser("ada")
	for i, p := range []string{"", "/profiles/fun", "/profiles/work"} {
		m.Put(dir+p+"/config.yaml", "ada", 0o600, fmt.Appendf(nil, "# mine %d\n_config_version: 50\n", i))
		m.Put(dir+p+"/.env", "ada", 0o600, fmt.Appendf(nil, "API_SERVER_ENABLED=true\nAPI_SERVER_KEY=key-%d-of-a-profile\nAPI_SERVER_PORT=%d\n", i, 8700+i))
	}
	return m
}

// lasting is what a way back must bring back: units, links, drop-ins, configs. The gateways of the
// home make and rename files meanwhile.
func (m host) lasting() string {
	m.t.Helper()
	return m.Run("root", `set +e; cd /; for f in $(find etc/systemd/system home/ada/.config -name '*hermes*' 2>/dev/null; find etc/systemd/system home/ada/.config -path '*hermes*.d/*' 2>/dev/null; find home/ada/.hermes -ignore_readdir_race -name config.yaml) ; do
  echo "$f $(stat -c '%a %U %F' "$f") $(readlink "$f" || sha256sum <"$f" 2>/dev/null)"; done | sort`)
}

// migrate runs the command; it must end with the code.
func (m host) migrate(user, way string, want int) string {
	m.t.Helper()
	out, code := m.Try(user, "hermes-appliance gateway migrate --home "+dir+" --yes "+way)
	if code != want {
		m.t.Fatalf("gateway migrate %s: exit %d, want %d\n%s", way, code, want, out)
	}
	return out
}

// active are the units of gateways that run.
func (m host) active(user, flag string) string {
	m.t.Helper()
	return m.Run(user, `for u in hermes-gateway hermes-gateway-fun hermes-gateway-work; do echo "$u $(systemctl `+flag+` is-active $u || true)"; done`)
}

func (m host) served() string {
	m.t.Helper()
	var doc struct {
		Result struct {
			Running bool
			Status  struct {
				Served []string `json:"served_profiles"`
			}
		}
	}
	out := m.Run("ada", "hermes-appliance status --json --home "+dir)
	if err := json.Unmarshal([]byte(out), &doc); err != nil || !doc.Result.Running {
		m.t.Fatalf("status: %v\n%s", err, out)
	}
	return strings.Join(doc.Result.Status.Served, " ")
}

const (
	allOfThem = "hermes-gateway active\nhermes-gateway-fun active\nhermes-gateway-work active"
	onlyOne   = "hermes-gateway active\nhermes-gateway-fun inactive\nhermes-gateway-work inactive"
)

// foreign is a unit as another program writes it, with a drop-in of a person.
func (m host) foreign(name, home string) {
	m.Put("/etc/systemd/system/"+name+".service", "root", 0o644, fmt.Appendf(nil, `# not ours
[Unit]
Description=Hermes Agent Gateway - Messaging Platform Integration
[Service]
Type=simple
User=ada
Group=ada
Environment="HERMES_HOME=%s" "HOME=/home/ada"
ExecStart=/usr/local/bin/hermes-appliance gateway run
RestartForceExitStatus=75
SuccessExitStatus=75
RestartPreventExitStatus=78
Restart=always
[Install]
WantedBy=multi-user.target
`, home))
	m.Put("/etc/systemd/system/"+name+".service.d/mine.conf", "root", 0o600, []byte("[Service]\nNice=3\n"))
	m.Run("root", "systemctl daemon-reload && systemctl enable --now "+name)
}

// TestSystemUnits: three units of a machine, one of them somebody else's, become one that serves
// three profiles, also after the next start of the machine; and three again, byte for byte.
func TestSystemUnits(t *testing.T) {
	t.Parallel()
	m := boot(t)
	m.foreign("hermes-gateway-fun", dir+"/profiles/fun")
	for _, p := range []string{"", "/profiles/work"} {
		m.Run("root", "hermes-appliance install --system --run-as-user ada --home "+dir+p)
	}
	m.Run("root", "systemctl disable hermes-gateway hermes-gateway-work") // the way back leaves them so
	if got := m.active("root", ""); got != allOfThem {
		t.Fatalf("at first:\n%s", got)
	}
	before := m.lasting()
	if out := m.migrate("ada", "--multiplex", 1); !strings.Contains(out, "sudo") {
		t.Errorf("without root: %s", out)
	}
	m.migrate("root", "--multiplex --dry-run", 0)
	m.migrate("root", "--standalone --dry-run", 0)
	if got := m.lasting(); got != before {
		t.Fatalf("a dry run or a refusal changed:\n%s\nwas\n%s", got, before)
	}
	m.migrate("root", "--multiplex", 0)
	if out, code := m.Try("root", "hermes-appliance install --system --run-as-user ada --home "+dir+"/profiles/work"); code != 78 || !strings.Contains(out, "--standalone") {
		t.Errorf("a service for a profile that is served: exit %d, %s", code, out)
	}
	for range 2 {
		if got, served := m.active("root", ""), m.served(); got != onlyOne || served != "default fun work" {
			t.Fatalf("one gateway: %s\n%s", served, got)
		}
		m.Reboot()
		m.Until("the gateway is back", func() bool {
			_, code := m.Try("ada", "systemctl is-active hermes-gateway && hermes-appliance status --home "+dir)
			return code == 0
		})
	}
	m.migrate("root", "--standalone", 0)
	if got := m.active("root", ""); got != allOfThem {
		t.Errorf("after the way back:\n%s", got)
	}
	if got := m.lasting(); got != before {
		t.Errorf("not as before:\n%s\nwas\n%s", got, before)
	}
	if owners := m.Run("root", "find "+dir+" -ignore_readdir_race ! -user ada"); owners != "" {
		t.Errorf("root left files of its own in the home: %s", owners)
	}
}

// TestUserUnits: the same for the units of an account, without root.
func TestUserUnits(t *testing.T) {
	t.Parallel()
	m := boot(t)
	m.Run("root", "loginctl enable-linger ada")
	m.Until("the user's manager runs", func() bool {
		out, _ := m.Try("ada", "systemctl --user is-system-running")
		return strings.TrimSpace(out) == "running"
	})
	for _, p := range []string{"", "/profiles/fun", "/profiles/work"} {
		m.Run("ada", "hermes-appliance install --user --home "+dir+p)
	}
	before := m.lasting()
	m.migrate("ada", "--multiplex", 0)
	if got, served := m.active("ada", "--user"), m.served(); got != onlyOne || served != "default fun work" {
		t.Fatalf("one gateway: %s\n%s", served, got)
	}
	if out := m.migrate("root", "--standalone", 1); !strings.Contains(out, "run the same command as that user") {
		t.Errorf("as root: %s", out)
	}
	m.migrate("ada", "--standalone", 0)
	if got := m.active("ada", "--user"); got != allOfThem {
		t.Errorf("after the way back:\n%s", got)
	}
	if got := m.lasting(); got != before {
		t.Errorf("not as before:\n%s\nwas\n%s", got, before)
	}
}

// TestReport17_TheUnitDoesNotStart: H#110850. The default profile has no unit, gets one, and its
// gateway cannot start: the units of the others are back and run, and nothing is left.
func TestReport17_TheUnitDoesNotStart(t *testing.T) {
	t.Parallel()
	m := boot(t)
	m.foreign("hermes-gateway-fun", dir+"/profiles/fun")
	m.foreign("hermes-gateway-work", dir+"/profiles/work")
	m.Run("ada", "mkdir "+dir+"/gateway.lock")
	before := m.lasting()
	out := m.migrate("root", "--multiplex", 1)
	if !strings.Contains(out, "was taken back") {
		t.Errorf("it says:\n%s", out)
	}
	if got, want := m.active("root", ""), strings.Replace(allOfThem, "gateway active", "gateway inactive", 1); got != want {
		t.Errorf("after that:\n%s\n%s", got, out)
	}
	if got := m.lasting(); got != before {
		t.Errorf("not as before:\n%s\nwas\n%s", got, before)
	}
	m.Run("ada", "rmdir "+dir+"/gateway.lock")
	m.migrate("root", "--multiplex", 0)
	if got, served := m.active("root", ""), m.served(); got != onlyOne || served != "default fun work" {
		t.Errorf("one gateway: %s\n%s", served, got)
	}
	if got := m.Run("root", "systemctl show -p User --value hermes-gateway"); got != "ada" {
		t.Errorf("the new unit runs as %q", got)
	}
	// Report 19, H#79048: a supervised gateway has no right to take another one over.
	if got := m.Run("root", "systemctl show -p ExecStart --value hermes-gateway"); strings.Contains(got, "--replace") || !strings.Contains(got, "gateway run") {
		t.Errorf("the new unit runs %s", got)
	}
	m.migrate("root", "--standalone", 0)
	if got := m.Run("root", "ls /etc/systemd/system"); strings.Contains(got, "hermes-gateway.service") {
		t.Errorf("the unit that the migration made is still there:\n%s", got)
	}
}
