// SPDX-License-Identifier: MIT

package machine

import (
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// TestDial: a connection from outside arrives at a machine's loopback, and this process stays
// where it was.
func TestDial(t *testing.T) {
	t.Parallel()
	testkit.NeedRoot(t)
	m := Boot(t, None)
	here, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer here.Close()
	if c, err := m.Dial(t.Context(), "tcp", here.Addr().String()); err == nil {
		c.Close()
		t.Error("a connection to this host's loopback came from the machine's")
	}
	for range 20 {
		c, err := net.Dial("tcp", here.Addr().String())
		if err != nil {
			t.Fatalf("this process is in another network now: %v", err)
		}
		c.Close()
	}
}

// TestMachines proves the harness itself: it boots, tells users apart, keeps files over a
// reboot, brings a lingering user's manager back, and leaves nothing.
func TestMachines(t *testing.T) {
	t.Parallel()
	for _, init := range []Init{Systemd, OpenRC, None} {
		t.Run(string(init), func(t *testing.T) {
			t.Parallel()
			m := Boot(t, init)
			uid := m.AddUser("ada")
			if got := m.Run("ada", `echo "$HOME $USER"; id -u; echo ${XDG_RUNTIME_DIR-none}`); got != "/home/ada ada\n"+strconv.Itoa(uid)+"\nnone" {
				t.Errorf("the user's environment: %q", got)
			}
			m.Put("/home/ada/a/b", "ada", 0o640, []byte("text\x00"))
			if out, code := m.Try("ada", "exit 7"); code != 7 || out != "" {
				t.Errorf("exit 7 is %d: %s", code, out)
			}
			if init == Systemd {
				m.Run("root", "loginctl enable-linger ada")
			}
			if init != None {
				before := m.Run("root", "cat /proc/sys/kernel/random/boot_id; cut -d' ' -f22 /proc/1/stat")
				m.Reboot()
				if after := m.Run("root", "cat /proc/sys/kernel/random/boot_id; cut -d' ' -f22 /proc/1/stat"); after == before {
					t.Errorf("it did not reboot: %s", after)
				}
			}
			if got := m.Run("root", "stat -c '%U %a' /home/ada/a/b"); m.Read("/home/ada/a/b") != "text\x00" || got != "ada 640" {
				t.Errorf("the file: %s", got)
			}
			if init == Systemd {
				m.Until("the user's manager runs", func() bool {
					out, _ := m.Try("ada", "systemctl --user is-system-running")
					return strings.TrimSpace(out) == "running"
				})
				if got := m.Run("root", "systemctl is-system-running"); got != "running" {
					t.Errorf("the machine is %s: %s", got, m.Run("root", "systemctl --failed --no-pager"))
				}
			}
		})
	}
}
