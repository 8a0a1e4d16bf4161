// SPDX-License-Identifier: MIT

package nix

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit/machine"
)

// nixosUnit is a unit as NixOS has it before it writes it.
type nixosUnit struct {
	Requires, After, Wants, Aliases []string
	UnitConfig, ServiceConfig       section
}

// text writes the unit as NixOS would.
func (u nixosUnit) text() string {
	var b strings.Builder
	b.WriteString("[Unit]\n")
	for _, l := range []struct {
		name  string
		words []string
	}{{"Requires", u.Requires}, {"After", u.After}, {"Wants", u.Wants}} {
		fmt.Fprintf(&b, "%s=%s\n", l.name, strings.Join(l.words, " "))
	}
	lines := func(s section) {
		for name := range s {
			for _, v := range s.all(name) {
				fmt.Fprintf(&b, "%s=%s\n", name, v)
			}
		}
	}
	lines(u.UnitConfig)
	b.WriteString("[Service]\nEnvironment=PATH=/usr/sbin:/usr/bin:/sbin:/bin\n")
	lines(u.ServiceConfig)
	fmt.Fprintf(&b, "[Install]\nWantedBy=multi-user.target\nAlias=%s\n", strings.Join(u.Aliases, " "))
	return b.String()
}

// nixos is a machine with systemd that has the units of a configuration, as a rebuild would leave them.
type nixos struct {
	*machine.Machine
	t           *testing.T
	store       string
	credentials bool // systemd can hand them over here
}

const (
	machineHome = "/var/lib/hermes/.hermes"
	machineProg = "/opt/hermes/bin/hermes-appliance"
)

func bootNixos(t *testing.T) *nixos {
	t.Helper()
	needNix(t)
	m := &nixos{Machine: machine.Boot(t, machine.Systemd), t: t, store: t.TempDir()}
	m.Run("root", "useradd --system --home-dir /var/lib/hermes --shell /bin/sh hermes && install -d -o hermes -g hermes -m 2750 /var/lib/hermes && mkdir -p /opt/hermes/bin")
	dir, err := built()
	if err != nil {
		t.Fatal(err)
	}
	m.Install(filepath.Join(dir, "bin", "hermes-appliance"), machineProg)
	// A container may not be allowed to mount the directory of credentials; then one of the same content stands in.
	m.Put("/root/secrets/probe", "root", 0o600, []byte("x"))
	_, code := m.Try("root", "systemd-run -q --wait -p User=hermes -p LoadCredential=probe:/root/secrets/probe sh -c 'cat $CREDENTIALS_DIRECTORY/probe'")
	if m.credentials = code == 0; !m.credentials {
		t.Log("systemd cannot hand over credentials in this container: a directory stands in for them")
	}
	return m
}

// handOver is the unit with what stands in for credentials, where they need it.
func (m *nixos) handOver(name string, u nixosUnit) string {
	given := u.ServiceConfig.all("LoadCredential")
	if m.credentials || len(given) == 0 {
		return u.text()
	}
	dir := "/var/lib/credentials/" + name
	m.Run("root", "install -d -o hermes -m 0700 "+dir)
	for _, c := range given {
		id, path, _ := strings.Cut(c, ":")
		m.Run("root", "if [ -e "+path+" ]; then install -o hermes -m 0400 "+path+" "+dir+"/"+id+"; fi")
	}
	delete(u.ServiceConfig, "LoadCredential")
	return strings.Replace(u.text(), "[Service]\n", "[Service]\nEnvironment=CREDENTIALS_DIRECTORY="+dir+"\n", 1)
}

// rebuild puts the units and the scripts of a configuration in place.
func (m *nixos) rebuild(cfg string) {
	m.t.Helper()
	var units map[string]nixosUnit
	evaluate(m.t, m.store, fmt.Sprintf("(import ./tests { program = %q; }).systemd (%s)", "/opt/hermes", cfg), &units)
	if len(units) < 2 {
		m.t.Fatalf("only %d units", len(units))
	}
	// A store below /tmp would be hidden from the service.
	store := filepath.Join(m.store, "store")
	moved := func(text string) []byte { return []byte(strings.ReplaceAll(text, store, "/nix/store")) }
	for name, u := range units {
		m.Put("/etc/systemd/system/"+name+".service", "root", 0o644, moved(m.handOver(name, u)))
	}
	err := filepath.WalkDir(store, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || !strings.Contains(path, "hermes") {
			return err
		}
		data, err := os.ReadFile(path)
		if err == nil {
			m.Put(string(moved(path)), "root", 0o755, moved(string(data)))
		}
		return err
	})
	if err != nil {
		m.t.Fatal(err)
	}
	m.Run("root", "systemctl daemon-reload")
}

func (m *nixos) state(unit string) string {
	out, _ := m.Try("root", "systemctl is-active "+unit)
	return strings.TrimSpace(out)
}

// TestModuleOnSystemd runs the module's units under a real systemd: an old home is migrated and
// the declared settings are laid over it before the gateway starts, secrets are handed over as
// credentials that only root could read, and nothing that is wrong for good is tried for ever.
func TestModuleOnSystemd(t *testing.T) {
	t.Parallel()
	m := bootNixos(t)
	m.Put("/root/secrets/hermes", "root", 0o600, []byte("API_SERVER_ENABLED=true\nAPI_SERVER_KEY=0123456789abcdef0123456789abcdef\n"))
	m.Run("root", "install -d -o hermes -g hermes "+machineHome)
	m.Put(machineHome+"/config.yaml", "hermes", 0o640, []byte("# by hand\n_config_version: 47\nterminal:\n  docker_image: nikolaik/python-nodejs:python3.14-nodejs22\n  timeout: 77  # mine\n"))
	cfg := `{ settings.agent.name = "declared"; environmentFiles = [ "/root/secrets/hermes" ]; hermesHomeFiles."SOUL.md" = "You are a test."; }`
	m.rebuild(cfg)
	if out, code := m.Try("root", "systemctl enable hermes-gateway && systemctl start hermes-gateway"); code != 0 {
		t.Fatalf("start: %s", out)
	}
	m.Until("the gateway is up", func() bool { return m.state("hermes-gateway") == "active" })
	if alias := m.state("hermes-agent"); alias != "active" {
		t.Errorf("hermes-agent is %s", alias)
	}
	config := "# by hand\n_config_version: 50\nterminal:\n  timeout: 77  # mine\n  cwd: /var/lib/hermes/workspace\nagent:\n  name: declared\n"
	if got := m.Read(machineHome + "/config.yaml"); got != config {
		t.Errorf("config.yaml:\n%s\nwant\n%s", got, config)
	}
	if env := m.Run("root", "stat -c '%a %U' "+machineHome+"/.env; cat "+machineHome+"/.env"); !strings.HasPrefix(env, "640 hermes\n") || !strings.Contains(env, "API_SERVER_KEY=0123456789abcdef") {
		t.Errorf(".env: %s", env)
	}
	if shown := m.Run("root", "systemctl show hermes-gateway hermes-gateway-prepare; cat /etc/systemd/system/hermes-gateway*"); strings.Contains(shown, "0123456789abcdef") {
		t.Error("the secret is in a unit")
	}
	m.Until("the API answers", func() bool {
		out, _ := m.Try("hermes", machineProg+" status --home "+machineHome)
		return strings.Contains(out, "connected")
	})

	// A new declaration and the one before, each with a restart; what the agent wrote stays.
	m.Run("root", "echo '# by the agent' >>"+machineHome+"/config.yaml")
	for _, name := range []string{"other", "declared"} {
		m.rebuild(strings.Replace(cfg, "declared", name, 1))
		m.Run("root", "systemctl restart hermes-gateway")
		m.Until("the gateway is up again", func() bool { return m.state("hermes-gateway") == "active" })
		if got, want := m.Read(machineHome+"/config.yaml"), strings.Replace(config, "declared", name, 1)+"# by the agent\n"; got != want {
			t.Errorf("config.yaml:\n%s\nwant\n%s", got, want)
		}
	}

	// SIGUSR1 drains and exits 75: systemd starts it again.
	pid := m.Run("root", "systemctl show -p MainPID --value hermes-gateway")
	m.Run("root", "systemctl reload hermes-gateway")
	m.Until("it was started again after exit 75", func() bool {
		now := m.Run("root", "systemctl show -p MainPID --value hermes-gateway")
		return now != pid && now != "0" && m.state("hermes-gateway") == "active"
	})

	// Only the manager writes the config.
	if out, code := m.Try("hermes", machineProg+" config set agent.name x --home "+machineHome); code != 5 || !strings.Contains(out, "nixos") {
		t.Errorf("config set: exit %d, %s", code, out)
	}
}

// TestModuleParks: what is wrong for good does not start, and is not tried again and again.
func TestModuleParks(t *testing.T) {
	t.Parallel()
	m := bootNixos(t)
	starts := func() string { return m.Run("root", "systemctl show -p NRestarts --value hermes-gateway") }
	for _, row := range []struct{ name, scene, cfg, says string }{
		{"a secret that is not there", "true", `{ environmentFiles = [ "/root/secrets/none" ]; }`, ""},
		{"a config that is too old", "install -d -o hermes -g hermes " + machineHome + "; echo '_config_version: 3' >" + machineHome + "/config.yaml", `{ }`, "version"},
		{"a config of a newer program", "echo '_config_version: 99' >" + machineHome + "/config.yaml", `{ }`, "version 99"},
		{"a home of another manager", "echo '_config_version: 50' >" + machineHome + "/config.yaml; echo home-manager >" + machineHome + "/.managed", `{ }`, "managed by home-manager"},
	} {
		m.Run("root", row.scene+"; systemctl reset-failed; chown -R hermes:hermes /var/lib/hermes")
		m.rebuild(row.cfg)
		out, code := m.Try("root", "systemctl start hermes-gateway")
		if code == 0 {
			t.Errorf("%s: it started: %s", row.name, out)
		}
		if s := m.state("hermes-gateway"); !slices.Contains([]string{"inactive", "failed"}, s) || starts() != "0" {
			t.Errorf("%s: %s, %s restarts", row.name, s, starts())
		}
		m.Until(row.name+": the journal says "+row.says, func() bool {
			return strings.Contains(m.Run("root", "journalctl --no-pager -o cat -u hermes-gateway-prepare"), row.says)
		})
	}
}
