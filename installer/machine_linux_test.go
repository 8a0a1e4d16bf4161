// SPDX-License-Identifier: MIT

package installer_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit/machine"
	"github.com/hermes-appliance/hermes-appliance/migrate"
)

// fleet boots machines that have the program at /usr/local/bin, built once.
type fleet struct{ program string }

func (f fleet) boot(t *testing.T, init machine.Init) *host {
	t.Helper()
	m := machine.Boot(t, init)
	m.Install(f.program, "/usr/local/bin/hermes-appliance")
	m.AddUser("ada")
	return &host{Machine: m, t: t}
}

// host is a real machine.
type host struct {
	*machine.Machine
	t *testing.T
}

// do runs the program as a user; its exit code must be the one that is wanted.
func (h *host) do(user string, want int, args string) string {
	h.t.Helper()
	out, code := h.Try(user, "hermes-appliance "+args)
	if code != want {
		h.t.Fatalf("%s: hermes-appliance %s: exit %d, want %d\n%s", user, args, code, want, out)
	}
	return out
}

// hostFiles lists what a service leaves on a machine, with hashes.
func (h *host) hostFiles() string {
	return h.Run("root", `for d in /etc/systemd /etc/init.d /etc/runlevels /var/lib/hermes-appliance /var/lib/systemd/linger /home/ada/.config; do
[ -e $d ] || continue; find $d -type f -exec sha256sum {} + -o -type l -printf '%p -> %l\n' -o -type d -printf '%p\n'; done | grep -v '/service.lock$\|^/home/ada/.config/systemd/user$\|^/home/ada/.config/systemd$\|^/home/ada/.config$\|^/var/lib/systemd/linger$' | LC_ALL=C sort`)
}

// state is the service as status --json tells it.
func (h *host) state(user string) (state string, pid int) {
	h.t.Helper()
	out, _ := h.Try(user, "hermes-appliance status --json")
	var doc struct {
		Result struct {
			Service *struct {
				State string
				Unit  struct{ PID int }
			}
		}
	}
	if err := json.NewDecoder(strings.NewReader(out)).Decode(&doc); err != nil { // an error may follow
		h.t.Fatalf("%v in %s", err, out)
	}
	if doc.Result.Service == nil {
		return "absent", 0
	}
	return doc.Result.Service.State, doc.Result.Service.Unit.PID
}

func (h *host) ready(user string) (pid int) {
	h.t.Helper()
	h.Until("the service is ready", func() bool {
		var s string
		s, pid = h.state(user)
		return s == "ready"
	})
	return pid
}

func TestMachines(t *testing.T) {
	t.Parallel()
	machine.Boot(t, machine.Systemd) // a machine that cannot be had skips this before anything is built
	f := fleet{machine.Program(t)}
	for name, test := range map[string]func(*testing.T, fleet){
		"system": machineSystem, "user": machineUser, "undone": machineUndone, "killed": machineKilled, "openrc": machineOpenRC,
		"socket": machineSocket, "user socket": machineUserSocket,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, f)
		})
	}
}

// machineSystem: the life of a system service on a real systemd.
func machineSystem(t *testing.T, f fleet) {
	h := f.boot(t, machine.Systemd)
	before := h.hostFiles()
	h.do("root", 2, "install --system")
	if out := h.do("root", 0, "install --system --run-as-user ada --dry-run --diff"); !strings.Contains(out, "+User=ada") || h.hostFiles() != before {
		t.Errorf("dry run:\n%s", out)
	}
	h.do("root", 0, "install --system --run-as-user ada")
	first := h.ready("root")
	installed := h.hostFiles()
	// Like status, doctor looks at the home of the service that stands.
	h.Until("doctor sees it", func() bool { // one that is busy is not ready for a moment
		out, _ := h.Try("root", "hermes-appliance doctor --offline --json")
		return strings.Contains(out, `"home": "/home/ada/.hermes"`) && strings.Contains(out, "hermes-gateway.service is ready")
	})
	for _, want := range []string{"multi-user.target.wants/hermes-gateway.service", "/linger/ada"} {
		if !strings.Contains(installed, want) {
			t.Errorf("lacks %s:\n%s", want, installed)
		}
	}
	if got := h.Run("root", "stat -c '%U %a' /home/ada/.hermes /home/ada/.hermes/.env /home/ada/.hermes/config.yaml"); got != "ada 700\nada 600\nada 600" {
		t.Errorf("the home that was made: %s", got)
	}
	if out := h.do("root", 0, "install"); !strings.Contains(out, "nothing to do") || h.hostFiles() != installed {
		t.Errorf("a second time: %s", out)
	}
	if pid := h.ready("ada"); pid != first {
		t.Errorf("as an ordinary user: process %d", pid)
	}
	h.do("root", 0, "restart")
	if second := h.ready("root"); second == first {
		t.Error("the same process after a restart")
	}
	t.Run("what runs with the gateway only asks", func(t *testing.T) {
		pid := h.ready("root")
		// What still runs there when the gateway has ended is killed with it.
		out, _ := h.Try("root", fmt.Sprintf(`d=/sys/fs/cgroup/systemd c=$(sed -n 's/^[0-9]*:name=systemd://p' /proc/%[1]d/cgroup)
[ -n "$c" ] || d=/sys/fs/cgroup c=$(sed -n 's/^0:://p' /proc/%[1]d/cgroup)
case $c in */hermes-gateway.service) echo $$ >"$d$c/cgroup.procs" || exit 1 ;; *) exit 1 ;; esac
hermes-appliance uninstall || echo refused; hermes-appliance stop || echo refused; hermes-appliance restart`, pid))
		if !strings.Contains(out, "asked") || strings.Count(out, "refused\n") != 2 {
			t.Errorf("%s", out)
		}
		h.Until("it restarted", func() bool { s, now := h.state("root"); return s == "ready" && now != pid })
	})
	h.Reboot()
	h.ready("root")
	// A config that is older than the program is brought up to date before the start.
	h.Run("ada", "sed -i 's/^_config_version: .*/_config_version: 47 # mine/' ~/.hermes/config.yaml")
	h.do("root", 0, "restart")
	h.ready("root")
	if got := h.Run("ada", "grep _config_version ~/.hermes/config.yaml"); got != fmt.Sprintf("_config_version: %d # mine", migrate.Latest()) {
		t.Errorf("after a start on an old config: %s", got)
	}
	h.Until("the heartbeat is this process's", func() bool { // it is written aside
		got, _ := h.Try("ada", `sed 's/.*"pid":\([0-9]*\),.*"loop_tick_socket":true.*/\1/' ~/.hermes/state/gateway.heartbeat`)
		return strings.TrimSpace(got) == h.Run("root", "systemctl show -p MainPID --value hermes-gateway")
	})
	// What could not even be started left its reason in the journal alone.
	h.Run("root", "cp /usr/local/bin/hermes-appliance /root/copy; chmod 0 /usr/local/bin/hermes-appliance; systemctl restart hermes-gateway || true")
	h.Until("logs says why", func() bool {
		out, _ := h.Try("root", "/root/copy logs --home /home/ada/.hermes")
		return strings.Contains(out, "gateway is up") && strings.Contains(out, "203/EXEC")
	})
	h.Run("root", "chmod 755 /usr/local/bin/hermes-appliance")
	h.do("root", 0, "start")
	// What cannot run is refused before the one that runs is touched.
	pid := h.ready("root")
	h.Run("ada", "cp ~/.hermes/config.yaml ~/good && echo '  - [' >> ~/.hermes/config.yaml")
	h.do("root", 78, "restart")
	if now := h.ready("root"); now != pid {
		t.Errorf("a refused restart touched it: process %d", now)
	}
	h.Run("root", "systemctl restart hermes-gateway || true")
	h.Until("it is parked", func() bool { s, _ := h.state("root"); return s == "parked" })
	if out, code := h.Try("ada", "hermes-appliance doctor --offline"); code != 1 || !strings.Contains(out, "hermes-gateway.service is parked") {
		t.Errorf("doctor of a parked service: exit %d\n%s", code, out)
	}
	h.Run("ada", "cp ~/good ~/.hermes/config.yaml")
	h.do("root", 0, "start")
	h.ready("root")
	h.Run("root", "echo '# mine' >> /etc/systemd/system/hermes-gateway.service; mkdir -p /etc/systemd/system/hermes-gateway.service.d; printf '[Service]\\nNice=5\\n' > /etc/systemd/system/hermes-gateway.service.d/zz.conf; systemctl daemon-reload")
	edited := h.hostFiles()
	h.do("root", 5, "install")
	if diff := cmp.Diff(edited, h.hostFiles()); diff != "" {
		t.Errorf("a hand edit was not kept:\n%s", diff)
	}
	h.do("root", 0, "install --force")
	if out := h.hostFiles(); !strings.Contains(out, "hermes-gateway.service.bak-") || !strings.Contains(out, "zz.conf") {
		t.Errorf("forced:\n%s", out)
	}
	if got := h.Run("root", "systemctl show -p Nice --value hermes-gateway"); got != "5" {
		t.Errorf("the user's drop-in does not count: Nice %s", got)
	}
	h.Run("root", "rm /etc/systemd/system/hermes-gateway.service.d/zz.conf")
	h.do("root", 0, "uninstall --purge")
	if diff := cmp.Diff(before, h.hostFiles()); diff != "" {
		t.Errorf("uninstall left something (-before +after):\n%s", diff)
	}
	if out, _ := h.Try("root", "pidof hermes-appliance; systemctl is-enabled hermes-gateway"); strings.Contains(out, "enabled") {
		t.Errorf("after uninstall: %s", out)
	}
	if !h.Exists("/home/ada/.hermes/config.yaml") || !h.Exists("/home/ada/.hermes/.env") {
		t.Error("the home was touched")
	}
	if out := h.do("ada", 0, "generations list"); !strings.Contains(out, "  install  ") || !regexp.MustCompile(`(?m)^\*.*  uninstall `).MatchString(out) {
		t.Errorf("generations: %s", out)
	}
	h.do("root", 0, "uninstall")
	h.do("root", 0, "uninstall --home /home/ada/.hermes")
}

// machineUser: a service of an ordinary user, who is not logged in: it takes linger, and then it
// is there after a reboot (H#43748, H#1005).
func machineUser(t *testing.T, f fleet) {
	h := f.boot(t, machine.Systemd)
	before := h.hostFiles()
	if out := h.do("ada", 1, "install --user"); !strings.Contains(out, "sudo loginctl enable-linger ada") || !strings.Contains(out, "everything is undone") {
		t.Errorf("without a manager: %s", out)
	}
	if diff := cmp.Diff(before, h.hostFiles()); diff != "" {
		t.Errorf("a refused install left something:\n%s", diff)
	}
	h.Run("root", "loginctl enable-linger ada")
	before = h.hostFiles()
	h.do("ada", 0, "install")
	h.ready("ada")
	if out := h.do("ada", 0, "install --user"); !strings.Contains(out, "nothing to do") {
		t.Errorf("a second time: %s", out)
	}
	if out, code := h.Try("root", "SUDO_USER=ada hermes-appliance install --user"); code != 1 || !strings.Contains(out, "without sudo") {
		t.Errorf("through sudo: %d %s", code, out)
	}
	if out, code := h.Try("ada", "XDG_RUNTIME_DIR=/run/user/0 DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/0/bus hermes-appliance install"); code != 0 {
		t.Errorf("with another user's runtime directory: %d %s", code, out)
	}
	h.Reboot()
	h.ready("ada")
	h.do("ada", 0, "restart")
	h.do("ada", 0, "stop")
	h.do("ada", 0, "start")
	h.do("ada", 0, "uninstall")
	if diff := cmp.Diff(before, h.hostFiles()); diff != "" {
		t.Errorf("uninstall left something (-before +after):\n%s", diff)
	}
}

// machineUndone: what fails on a real machine is undone on it.
func machineUndone(t *testing.T, f fleet) {
	h := f.boot(t, machine.Systemd)
	for _, c := range []struct {
		name, make, mend string
		code             int
		says             string
	}{
		{"masked", "systemctl mask hermes-gateway.service", "systemctl unmask hermes-gateway.service", 5, "unmask"},
		{"masked for now", "systemctl mask --runtime hermes-gateway.service", "systemctl unmask --runtime hermes-gateway.service", 5, "unmask"},
		{"read-only directory", "mount -o bind /etc/systemd/system /etc/systemd/system && mount -o remount,bind,ro /etc/systemd/system", "umount /etc/systemd/system", 5, "read-only"},
		{
			"full disk", "cp -a /etc/systemd/system /root/copy && mount -t tmpfs -o size=64k tmpfs /etc/systemd/system && cp -a /root/copy/. /etc/systemd/system/ && (cat /dev/zero > /etc/systemd/system/fill || true)",
			"umount /etc/systemd/system; rm -r /root/copy", 1, "everything is undone",
		},
		{
			"a program that does not start", "mkdir -p /etc/systemd/system/hermes-gateway.service.d && printf '[Service]\\nExecStart=\\nExecStart=/bin/false\\n' > /etc/systemd/system/hermes-gateway.service.d/zz.conf",
			"rm -r /etc/systemd/system/hermes-gateway.service.d", 1, "everything is undone",
		},
	} {
		h.Run("root", c.make)
		before := h.hostFiles()
		if out := h.do("root", c.code, "install --system --run-as-user ada"); !strings.Contains(out, c.says) {
			t.Errorf("%s: does not say %q:\n%s", c.name, c.says, out)
		}
		if diff := cmp.Diff(before, h.hostFiles()); diff != "" {
			t.Errorf("%s: not undone (-before +after):\n%s", c.name, diff)
		}
		h.Run("root", c.mend)
		if out, _ := h.Try("root", "pidof hermes-appliance"); out != "" {
			t.Errorf("%s: it still runs: %s", c.name, out)
		}
	}
	h.do("root", 0, "install --system --run-as-user ada")
	h.ready("root")
}

// machineKilled: the real program, killed at ever later moments, and the run after it.
func machineKilled(t *testing.T, f fleet) {
	h := f.boot(t, machine.Systemd)
	h.do("root", 0, "install --system --run-as-user ada")
	h.do("root", 0, "uninstall")
	before := h.hostFiles()
	for ms := 20; ms < 1500; ms = ms*3/2 + 10 {
		h.Try("root", fmt.Sprintf("timeout -s KILL %d.%03d hermes-appliance install --system --run-as-user ada", ms/1000, ms%1000))
		h.do("root", 0, "install --system --run-as-user ada")
		h.ready("root")
		h.Try("root", fmt.Sprintf("timeout -s KILL %d.%03d hermes-appliance uninstall", ms/1000, ms%1000))
		h.do("root", 0, "uninstall --home /home/ada/.hermes --system")
		if diff := cmp.Diff(before, h.hostFiles()); diff != "" {
			t.Fatalf("killed after %d ms: left (-before +after):\n%s", ms, diff)
		}
	}
}

// machineOpenRC: the same on OpenRC.
func machineOpenRC(t *testing.T, f fleet) {
	h := f.boot(t, machine.OpenRC)
	before := h.hostFiles()
	h.do("root", 2, "install --user")
	if out := h.do("root", 2, "install --run-as-user ada --socket"); !strings.Contains(out, "OpenRC cannot hold a listener open") || h.hostFiles() != before {
		t.Errorf("a socket on OpenRC: %s", out)
	}
	h.do("root", 0, "install --run-as-user ada")
	first := h.ready("root")
	if out := h.do("root", 0, "install"); !strings.Contains(out, "nothing to do") {
		t.Errorf("a second time: %s", out)
	}
	h.do("root", 0, "restart")
	if second := h.ready("root"); second == first {
		t.Error("the same process after a restart")
	}
	h.Reboot()
	h.ready("root")
	h.do("root", 0, "stop")
	h.do("root", 0, "start")
	h.do("root", 0, "uninstall")
	if diff := cmp.Diff(before, h.hostFiles()); diff != "" {
		t.Errorf("uninstall left something (-before +after):\n%s", diff)
	}
	if out, _ := h.Try("root", "pidof supervise-daemon hermes-appliance"); out != "" {
		t.Errorf("it still runs: %s", out)
	}
}
