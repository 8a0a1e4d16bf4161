// SPDX-License-Identifier: MIT

package control

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// TestAnotherUser: a user other than the owner and root is refused even if he reaches the socket.
func TestAnotherUser(t *testing.T) {
	t.Parallel()
	testkit.NeedRoot(t)
	h := short(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(h.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(h.Dir, "client")
	data, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	testkit.WriteFile(t, copied, data, 0o755)
	path := filepath.Join(h.Dir, "gateway.sock")
	l, err := net.Listen("unix", path) // a server of root's whose mode lets everybody in
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	seen := make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			seen <- err
			return
		}
		err = nil
		for me, want := range map[int]bool{0: false, 1000: false, 65534: true} {
			if got := trustedBy(conn, me); (got == nil) != want {
				err = fmt.Errorf("a gateway of user %d: trusted %v", me, got == nil)
			}
		}
		seen <- err
		json.NewEncoder(conn).Encode(Reply{OK: true})
		conn.Close()
	}()
	cmd := exec.CommandContext(t.Context(), copied)
	cmd.Env = []string{"CONTROL_TEST_CALL=" + h.Dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := <-seen; err != nil {
		t.Error(err)
	}
}
