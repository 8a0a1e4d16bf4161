// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"net/http"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit/machine"
)

// slot is a gateway in an s6 slot.
type slot struct {
	*served

	dir string
}

// newSlot puts the rendered slot under a real s6-svscan. A tmpfs of Docker runs no programs, so the
// slots are not in /run.
func newSlot(t *testing.T) slot {
	t.Helper()
	m := machine.Boot(t, machine.None)
	m.Install(machine.Program(t), program)
	s := slot{served: &served{t: t, m: m, spec: systemSpec(m), port: 8642, key: "key-of-the-slot-1"}}
	s.http = http.Client{Timeout: deadline, Transport: &http.Transport{DialContext: m.Dial, DisableKeepAlives: true}}
	m.Run("root", "install -d -o hermes -g hermes -m 700 "+s.spec.Home)
	m.Put(s.spec.Home+"/config.yaml", "hermes", 0o600, []byte("_config_version: 50\n"))
	m.Put(s.spec.Home+"/.env", "hermes", 0o600, []byte("API_SERVER_ENABLED=true\nAPI_SERVER_KEY="+s.key+"\n"))
	files, err := s.spec.S6()
	if err != nil {
		t.Fatal(err)
	}
	s.dir = path.Join("/srv/service", s.spec.Slot())
	for _, f := range files {
		mode := os.FileMode(0o644)
		if strings.HasPrefix(f.Data, "#!") {
			mode = 0o755
		}
		m.Put(path.Join(s.dir, f.Name), "root", mode, []byte(f.Data))
	}
	m.Run("root", "(setsid s6-svscan /srv/service >/run/svscan.log 2>&1 </dev/null &)")
	return s
}

// up waits until a process other than old serves and the slot's log, which s6-log writes, has said of
// so many that they are up. It returns the process.
func (s slot) up(old string, n int) string {
	s.t.Helper()
	pid := ""
	s.m.Until("the slot serves", func() bool {
		out, code := s.m.Try("root", "s6-svstat -o up,pid "+s.dir)
		up, is, _ := strings.Cut(strings.TrimSpace(out), " ")
		if code != 0 || up != "true" || is == old {
			return false
		}
		status, _, err := s.request("/health", "")
		pid = is
		return err == nil && status == http.StatusOK
	})
	s.m.Until("its log says so", func() bool {
		log, _ := s.m.Try("root", "cat "+s.spec.Home+"/logs/gateways/default/current")
		return strings.Count(log, "gateway is up") >= n
	})
	s.m.Run("root", "rm -f "+s.spec.Home+"/gateway-starts.log") // restarts of a test are no storm
	return pid
}

// parked waits until the slot is down for good after an exit code.
func (s slot) parked(code string) {
	s.t.Helper()
	s.m.Until("the slot is down for good after "+code, func() bool {
		out, _ := s.m.Try("root", "s6-svstat -o up,wantedup,exitcode "+s.dir)
		return strings.TrimSpace(out) == "false false "+code
	})
}

// TestS6 is the rendered slot under Debian's s6: what comes back, what stays down, who wins.
func TestS6(t *testing.T) {
	t.Parallel()
	testkit.NeedRoot(t)
	s := newSlot(t)
	pid := s.up("", 1)
	if got := s.run("id -un"); !strings.Contains(got, "hermes") {
		t.Errorf("a command says %s", got)
	}
	for i, signal := range []string{"KILL", "USR1", "TERM"} { // TERM: nobody announced it (H#42675)
		s.m.Run("root", "kill -"+signal+" "+pid)
		pid = s.up(pid, i+2)
	}
	if log := s.m.Run("root", "cat "+s.spec.Home+"/logs/gateways/default/current; stat -c %U "+s.spec.Home+"/logs/gateways"); strings.Count(log, "gateway is up") != 4 || !strings.HasSuffix(log, "hermes") {
		t.Errorf("the slot's log:\n%s", log)
	}
	s.m.Run("root", fmt.Sprintf(`start=$(sed 's/.*) //' /proc/%s/stat | cut -d' ' -f20)
printf '{"target_pid":%s,"target_start_time":%%s,"target_hermes_home":"%s","written_at":%%s}' $start $(date +%%s) >%s/.gateway-planned-stop.json
kill -TERM %s`, pid, pid, s.spec.Home, s.spec.Home, pid))
	s.parked("0") // H#76435
	// A gateway outside of the slot gives way to it, and is not told that it failed.
	s.m.Run("root", "(cd "+s.spec.Home+" && HERMES_HOME=$PWD setsid s6-setuidgid hermes sh -c '"+program+" gateway run; echo $? >outside.new; mv outside.new outside' >/run/outside.log 2>&1 </dev/null &)")
	s.m.Until("the outside gateway serves", func() bool { status, _, err := s.request("/health", ""); return err == nil && status == http.StatusOK })
	s.m.Run("root", "s6-svc -u "+s.dir)
	s.m.Until("the outside gateway ended", func() bool { return s.m.Exists(s.spec.Home + "/outside") })
	if got := s.m.Read(s.spec.Home + "/outside"); strings.TrimSpace(got) != "0" {
		t.Errorf("the outside gateway exits %s", got)
	}
	pid = s.up(pid, 5)
	// A home that the program cannot run on is not tried again (H#49567).
	s.m.Run("root", "sed -i s/50/46/ "+s.spec.Home+"/config.yaml; kill -USR1 "+pid)
	s.parked("78")
	if out, code := s.m.Try("root", "pgrep -u hermes -x hermes-applianc"); code == 0 {
		t.Errorf("it runs: %s", out)
	}
}

// openrcScript has OpenRC's supervise-daemon run the gateway.
const openrcScript = `#!/sbin/openrc-run
supervisor=supervise-daemon
command=` + program + `
command_args="gateway run"
command_user=hermes
directory=/var/lib/hermes
respawn_delay=1
respawn_max=0
output_log=/var/log/hermes-gateway.log
error_log=/var/log/hermes-gateway.log
export HERMES_HOME=/var/lib/hermes HERMES_SUPERVISED_CHILD=1 HOME=/var/lib/hermes
start_pre() { checkpath -f -o hermes /var/log/hermes-gateway.log; }
`

// TestOpenRC: the gateway under supervise-daemon comes back after a kill and a reboot, and a
// stop leaves nothing.
func TestOpenRC(t *testing.T) {
	t.Parallel()
	testkit.NeedRoot(t)
	m := machine.Boot(t, machine.OpenRC)
	m.Install(machine.Program(t), program)
	s := &served{t: t, m: m, spec: systemSpec(m), port: 8642, key: "key-under-openrc-1"}
	s.http = http.Client{Timeout: deadline, Transport: &http.Transport{DialContext: m.Dial, DisableKeepAlives: true}}
	m.Run("root", "install -d -o hermes -g hermes -m 700 "+s.spec.Home)
	m.Put(s.spec.Home+"/config.yaml", "hermes", 0o600, []byte("_config_version: 50\n"))
	m.Put(s.spec.Home+"/.env", "hermes", 0o600, []byte("API_SERVER_ENABLED=true\nAPI_SERVER_KEY="+s.key+"\n"))
	m.Put("/etc/init.d/hermes-gateway", "root", 0o755, []byte(openrcScript))
	m.Run("root", "rc-update add hermes-gateway default && rc-service hermes-gateway start")
	up := func(why string) {
		t.Helper()
		m.Until("it serves after "+why, func() bool { status, _, err := s.request("/health", ""); return err == nil && status == http.StatusOK })
	}
	up("its start")
	if got := s.run("id -un"); !strings.Contains(got, "hermes") {
		t.Errorf("a command says %s", got)
	}
	s.hang("trap '' TERM HUP; sleep 4007; sleep 4008", "sleep 4007")
	pid := field[float64](t, m.Read(s.spec.Home+"/gateway.pid"), "pid")
	m.Run("root", fmt.Sprintf("kill -KILL %d", int(pid)))
	m.Until("another process runs", func() bool {
		out, code := m.Try("root", "cat "+s.spec.Home+"/gateway.pid")
		return code == 0 && field[float64](t, out, "pid") != pid
	})
	up("a kill")
	if s.alive("sleep 4007") || s.alive("sleep 4008") { // no cgroup was emptied: the next gateway did it
		t.Error("a command outlived its gateway")
	}
	m.Reboot()
	up("a reboot")
	s.hang("trap '' TERM HUP; sleep 4009", "sleep 4009")
	m.Run("root", "rc-service hermes-gateway stop")
	m.Until("nothing is left", func() bool { _, code := m.Try("root", "pgrep -u hermes"); return code != 0 })
}
