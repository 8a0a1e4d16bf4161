// SPDX-License-Identifier: MIT

package gateway

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// shortHome is a home whose sockets' paths are short enough for every system.
func shortHome(t *testing.T) home.Home {
	t.Helper()
	dir, err := os.MkdirTemp("", "hb")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return home.Home{Dir: dir, Profile: home.Default}
}

// TestHeart: what upstream's programs read of it: the process, that the socket is there, and its
// one byte; while what must answer hangs, nobody is answered.
func TestHeart(t *testing.T) {
	t.Parallel()
	testkit.Need(t, "posix", runtime.GOOS != "windows", "upstream asks over TCP there")
	h := shortHome(t)
	if _, _, err := ReadBeat(h); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no heart: %v", err)
	}
	testkit.WriteTree(t, h.Dir, map[string]string{"state/gateway.loop-tick.999999999.sock": "", "state/gateway.loop-tick.1.sock": "", "state/gateway.loop-tick.x.sock": ""})
	hang := make(chan struct{}, 1)
	asked := make(chan struct{}, 8)
	hang <- struct{}{}
	c, err := NewHeart(t.Context(), h, time.Unix(1700000000, 5e8), func() { asked <- struct{}{}; <-hang })
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Beat(time.Unix(1700000001, 0)); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(h.Dir, "state", "gateway.heartbeat"))
	var b map[string]any
	if err != nil || json.Unmarshal(data, &b) != nil {
		t.Fatalf("%v %s", err, data)
	}
	if b["pid"] != float64(os.Getpid()) || b["start_time"] != 1700000000.5 || b["loop_tick_socket"] != true || b["updated_at"] != "2023-11-14T22:13:21Z" {
		t.Errorf("got %s", data)
	}
	if pid, at, err := ReadBeat(h); err != nil || pid != os.Getpid() || at.IsZero() {
		t.Errorf("%d %v %v", pid, at, err)
	}
	dial := func() net.Conn {
		conn, err := net.Dial("unix", tickSocket(h, os.Getpid()))
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	answer := func(conn net.Conn) string {
		said, err := io.ReadAll(conn)
		if err != nil {
			t.Error(err)
		}
		return string(said)
	}
	if said := answer(dial()); said != "1" {
		t.Errorf("got %q", said)
	}
	<-asked
	first, second := dial(), dial()
	<-asked // of the first, which hangs; the second is not even asked for
	select {
	case <-asked:
		t.Error("the second one was answered while the first hangs")
	default:
	}
	hang <- struct{}{}
	hang <- struct{}{}
	if answer(first) != "1" || answer(second) != "1" {
		t.Error("not answered in the end")
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	for name, want := range map[string]bool{"999999999": false, "1": true, "x": true, strconv.Itoa(os.Getpid()): false} {
		if _, err := os.Lstat(filepath.Join(h.Dir, "state", "gateway.loop-tick."+name+".sock")); (err == nil) != want {
			t.Errorf("socket of %s: %v", name, err)
		}
	}
}

// TestHeartWithoutSocket: a home whose path is too long for a socket has a heartbeat that says
// so: nobody may take its gateway for wedged.
func TestHeartWithoutSocket(t *testing.T) {
	t.Parallel()
	testkit.Need(t, "posix", runtime.GOOS != "windows", "upstream asks over TCP there")
	h := home.Home{Dir: filepath.Join(t.TempDir(), strings.Repeat("x", 120)), Profile: home.Default}
	c, err := NewHeart(t.Context(), h, time.Now(), func() {})
	if err == nil {
		t.Fatal("a socket with a path that no system takes")
	}
	if err := c.Beat(time.Now()); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(beatFile(h))
	if err != nil || !strings.Contains(string(data), `"loop_tick_socket":false`) {
		t.Errorf("%v %s", err, data)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
