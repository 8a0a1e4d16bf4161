// SPDX-License-Identifier: MIT

// Package machine boots whole machines for tests: containers in the tests' Docker engine whose
// first process is a real init, systemd 252 or OpenRC, from the images that .ci/machines makes.
// A machine has no network but its own loopback, belongs to one test, and is removed when that
// test ends; what its services said is logged if the test failed. Machines know nothing of each
// other: any number may run at a time. It is imported by tests only.
package machine

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// Init is what a machine's first process is.
type Init string

// The inits. The variable names the image; without it the test is skipped, and the part that it
// then misses is "machine-systemd", "machine-openrc".
const (
	Systemd Init = "systemd" // HERMES_TEST_MACHINE_SYSTEMD
	OpenRC  Init = "openrc"  // HERMES_TEST_MACHINE_OPENRC
	// None runs nothing but what the test starts, in OpenRC's image: s6 is in it.
	None Init = "none"
)

// Deadline is when a machine's test gives up on it. Nothing is measured by it.
const Deadline = 3 * time.Minute

// label marks the containers of this package with the time of their making, by which
// .ci/machines finds what a killed test left.
const label = "hermes-test.machine"

// Machine is a booted machine. Its methods fail the test when the machine does not do what they
// say. They may be called from several goroutines of the test.
type Machine struct {
	t      testing.TB
	host   string // the engine's address
	id     string
	init   Init
	docker string
	pid    atomic.Int64 // of its first process, as this host sees it
}

// Boot starts a machine and waits until it has booted.
func Boot(t testing.TB, init Init) *Machine {
	t.Helper()
	host := testkit.Docker(t)
	of := init
	if init == None {
		of = OpenRC
	}
	variable := "HERMES_TEST_MACHINE_" + strings.ToUpper(string(of))
	image := os.Getenv(variable)
	testkit.Need(t, "machine-"+string(of), image != "", variable+" names no image (.ci/machines makes it)")
	docker, err := exec.LookPath("docker")
	testkit.Need(t, "docker", err == nil, "there is no docker command")
	m := &Machine{t: t, host: host, init: init, docker: docker}
	t.Cleanup(m.remove)
	m.id = "hermes-machine-" + strings.ToLower(rand.Text()[:12]) // first, so that a half-made one is removed, too
	args := []string{
		"run", "-d", "--name", m.id, "--hostname", "machine", "--label", label + "=" + strconv.FormatInt(time.Now().Unix(), 10), "--network", "none",
		"--cap-add", "ALL", "--cap-drop", "SYS_RESOURCE", "--security-opt", "seccomp=unconfined", "--security-opt", "apparmor=unconfined",
		"--cgroupns=host", "-v", "/sys/fs/cgroup:/sys/fs/cgroup:rw", "--tmpfs", "/run", "--tmpfs", "/run/lock", "--tmpfs", "/tmp:exec",
		"-e", "container=docker",
	}
	switch init {
	case Systemd:
		// Mounts that systemd makes in a namespace of their own, as for credentials, must come back
		// from there. It shares them itself, except in a container.
		args = append(args, "--stop-signal", "SIGRTMIN+3", image, "sh", "-c", "mount --make-rshared / && exec /sbin/init")
	case OpenRC:
		args = append(args, "--stop-signal", "SIGINT", image, "/sbin/init")
	case None:
		args = append(args, "--init", image, "sleep", "infinity")
	}
	if out, err := m.engine(t.Context(), nil, args...); err != nil {
		t.Fatalf("docker run: %v\n%s", err, out)
	}
	m.booted()
	return m
}

// engine runs the Docker command.
func (m *Machine) engine(ctx context.Context, stdin io.Reader, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, Deadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, m.docker, append([]string{"-H", m.host}, args...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent"}
	cmd.Stdin = stdin
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// remove takes the machine away, whatever state it is in.
func (m *Machine) remove() {
	ctx := context.WithoutCancel(m.t.Context())
	if m.id == "" {
		return
	}
	if m.t.Failed() {
		out, err := m.engine(ctx, nil, "exec", m.id, "sh", "-c", m.evidence())
		said, err2 := m.engine(ctx, nil, "logs", "--tail", "40", m.id)
		m.t.Logf("the machine %s:\n%s\n%s\n%v", m.id, out, said, errors.Join(err, err2))
	}
	if out, err := m.engine(ctx, nil, "rm", "-f", "-v", m.id); err != nil && !strings.Contains(out, "No such container") {
		m.t.Errorf("docker rm: %v\n%s", err, out)
	}
}

// evidence prints what its services said.
func (m *Machine) evidence() string {
	if m.init == Systemd {
		return "journalctl --no-pager -o short-monotonic -n 200; systemctl list-units --failed --no-pager"
	}
	return "ps axf; tail -n 100 /var/log/*.log /run/*.log 2>/dev/null; rc-status -a 2>/dev/null"
}

// booted waits until the init has started everything.
func (m *Machine) booted() {
	m.t.Helper()
	out, err := m.engine(m.t.Context(), nil, "inspect", "-f", "{{.State.Pid}}", m.id)
	pid, convErr := strconv.ParseInt(strings.TrimSpace(out), 10, 64)
	if err != nil || convErr != nil {
		m.t.Fatalf("docker inspect: %v\n%s", err, out)
	}
	m.pid.Store(pid)
	m.Until("it has booted", func() bool {
		switch m.init {
		case Systemd:
			out, _ := m.Try("root", "systemctl is-system-running --wait")
			out = strings.TrimSpace(out)
			return strings.HasSuffix(out, "running") || strings.HasSuffix(out, "degraded")
		case OpenRC:
			out, _ := m.Try("root", "rc-status --runlevel")
			return strings.TrimSpace(out) == "default"
		case None:
		}
		return true
	})
}

// Reboot shuts the machine down as its init does it, and starts it again.
func (m *Machine) Reboot() {
	m.t.Helper()
	if out, err := m.engine(m.t.Context(), nil, "restart", "-t", "150", m.id); err != nil {
		m.t.Fatalf("docker restart: %v\n%s", err, out)
	}
	m.booted()
}

// PowerCut ends every process of the machine at once, and starts it again.
func (m *Machine) PowerCut() {
	m.t.Helper()
	for _, verb := range []string{"kill", "start"} {
		if out, err := m.engine(m.t.Context(), nil, verb, m.id); err != nil {
			m.t.Fatalf("docker %s: %v\n%s", verb, err, out)
		}
	}
	m.booted()
}

// Until waits until ok returns true.
func (m *Machine) Until(what string, ok func() bool) {
	m.t.Helper()
	for end := time.Now().Add(Deadline); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			m.t.Fatalf("the machine: not within %s: %s", Deadline, what)
		}
	}
}

// Cmd is a command to run in a machine.
type Cmd struct {
	User  string   // "" = root
	Env   []string // beside PATH, HOME, USER, LOGNAME and, if the user has a manager, XDG_RUNTIME_DIR
	Dir   string   // "" = /
	Stdin io.Reader
	Args  []string
}

// Exec runs a command to its end and returns what it printed on both streams, and its exit code.
func (m *Machine) Exec(c Cmd) (out string, code int) {
	m.t.Helper()
	user := c.User
	if user == "" {
		user = "root"
	}
	dir := c.Dir
	if dir == "" {
		dir = "/"
	}
	args := []string{"exec", "-u", user, "-w", dir}
	if c.Stdin != nil {
		args = append(args, "-i")
	}
	// What a login would set, found in the machine.
	const login = `home=$(getent passwd "$0" | cut -d: -f6); run=/run/user/$(id -u)
[ ! -d "$run" ] || set -- XDG_RUNTIME_DIR="$run" "$@"
exec env -u container -u HOSTNAME HOME="$home" USER="$0" LOGNAME="$0" "$@"`
	args = append(args, m.id, "sh", "-c", login, user)
	args = append(args, c.Env...)
	out, err := m.engine(m.t.Context(), c.Stdin, append(args, c.Args...)...)
	exit, ok := errors.AsType[*exec.ExitError](err)
	if err != nil && !ok {
		m.t.Fatalf("docker exec %q: %v\n%s", c.Args, err, out)
	}
	if ok {
		return out, exit.ExitCode()
	}
	return out, 0
}

// Try runs a shell script as a user.
func (m *Machine) Try(user, script string) (out string, code int) {
	m.t.Helper()
	return m.Exec(Cmd{User: user, Args: []string{"sh", "-c", script}})
}

// Run runs a shell script as a user; it must succeed. What it printed is returned without the
// line's end.
func (m *Machine) Run(user, script string) string {
	m.t.Helper()
	out, code := m.Exec(Cmd{User: user, Args: []string{"sh", "-ec", script}})
	if code != 0 {
		m.t.Fatalf("%s: exit %d\n%s", script, code, out)
	}
	return strings.TrimSuffix(out, "\n")
}

// Put writes a file and the directories on its way. owner is a user, who owns new directories, too.
func (m *Machine) Put(file, owner string, mode os.FileMode, data []byte) {
	m.t.Helper()
	script := `mkdir -p -- "$1" && cat >"$2" && chmod ` + strconv.FormatUint(uint64(mode), 8) + ` "$2"`
	if out, code := m.Exec(Cmd{User: owner, Stdin: bytes.NewReader(data), Args: []string{"sh", "-c", script, "sh", path.Dir(file), file}}); code != 0 {
		m.t.Fatalf("%s: exit %d\n%s", file, code, out)
	}
}

// Read returns the content of a file.
func (m *Machine) Read(file string) string {
	m.t.Helper()
	out, code := m.Exec(Cmd{Args: []string{"cat", "--", file}})
	if code != 0 {
		m.t.Fatalf("%s: exit %d\n%s", file, code, out)
	}
	return out
}

// Exists reports whether there is something at a path.
func (m *Machine) Exists(file string) bool {
	m.t.Helper()
	_, code := m.Exec(Cmd{Args: []string{"test", "-e", file}})
	return code == 0
}

// AddUser makes an ordinary account with a home and returns its number.
func (m *Machine) AddUser(name string) (uid int) {
	m.t.Helper()
	uid, err := strconv.Atoi(m.Run("root", "useradd -m -s /bin/sh "+name+" && id -u "+name))
	if err != nil {
		m.t.Fatal(err)
	}
	return uid
}

// Install puts a program of this host at a path of the machine, executable by all.
func (m *Machine) Install(program, file string) {
	m.t.Helper()
	if out, err := m.engine(m.t.Context(), nil, "cp", program, m.id+":"+file); err != nil {
		m.t.Fatalf("docker cp: %v\n%s", err, out)
	}
	m.Run("root", "chown 0:0 "+file+" && chmod 755 "+file)
}
