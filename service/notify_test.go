// SPDX-License-Identifier: MIT

package service

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

func TestNotifier(t *testing.T) {
	t.Parallel()
	testkit.Need(t, "posix", runtime.GOOS != "windows", "there are no datagram sockets in the file system")
	dir, err := os.MkdirTemp("", "n")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	n := Notifier{path}
	for _, c := range []struct {
		send func() error
		want string
	}{
		{func() error { return n.Ready(t.Context(), "1 profile\nREADY=0") }, "READY=1\nSTATUS=1 profile READY=0"},
		{func() error { return n.Alive(t.Context()) }, "WATCHDOG=1"},
		{func() error { return n.Wait(t.Context(), 90*time.Second) }, "EXTEND_TIMEOUT_USEC=90000000"},
		{func() error { return n.Stopping(t.Context()) }, "STOPPING=1"},
	} {
		if err := c.send(); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 1000)
		k, err := l.Read(buf)
		if err != nil || string(buf[:k]) != c.want {
			t.Errorf("got %q, %v, want %q", buf[:k], err, c.want)
		}
	}
	if err := (Notifier{}).Ready(t.Context(), "x"); err != nil {
		t.Errorf("nobody listens: %v", err)
	}
	if err := (Notifier{filepath.Join(dir, "none")}).Ready(t.Context(), "x"); err == nil {
		t.Error("a socket that is not there took it")
	}
}
