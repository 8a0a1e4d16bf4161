// SPDX-License-Identifier: MIT

package gateway

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// TestMain is also the gateway of another process that claims a home and waits.
func TestMain(m *testing.M) {
	if dir := os.Getenv("GATEWAY_TEST_CLAIM"); dir != "" {
		c, err := NewClaim(home.Home{Dir: dir}, os.Args)
		if err != nil {
			fmt.Println("refused:", err)
			os.Exit(1)
		}
		fmt.Println("claimed", c.Record.PID)
		var b [1]byte
		os.Stdin.Read(b[:])
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestClaim(t *testing.T) {
	t.Parallel()
	h := home.Home{Dir: t.TempDir(), Profile: home.Default}
	c, err := NewClaim(h, []string{"hermes-appliance", "gateway", "run"})
	if err != nil {
		t.Fatal(err)
	}
	r, ok, err := Running(h)
	if err != nil || !ok || r.PID != os.Getpid() || r.Kind != "hermes-gateway" || r.Home != h.Dir {
		t.Errorf("running: %+v %v %v", r, ok, err)
	}
	var locked *home.LockedError
	if _, err := NewClaim(h, nil); !errors.As(err, &locked) || locked.Holder != fmt.Sprint(os.Getpid()) {
		t.Errorf("second claim: %v", err)
	}
	if err := c.Release(); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := Running(h); ok || err != nil {
		t.Errorf("after release: %v %v", ok, err)
	}
	if c, err = NewClaim(h, nil); err != nil {
		t.Fatal(err)
	}
	// Somebody else's record is not removed.
	testkit.WriteTree(t, h.Dir, map[string]string{"gateway.pid": "1\n"})
	if err := c.Release(); err != nil {
		t.Fatal(err)
	}
	if r, err := ReadRecord(h); err != nil || r.PID != 1 {
		t.Errorf("foreign record: %+v %v", r, err)
	}
}

// TestClaimOfAnotherProcess: two processes on one home; the second is refused, and when the
// first is killed its leftovers are no obstacle (H#31981).
func TestClaimOfAnotherProcess(t *testing.T) {
	t.Parallel()
	h := home.Home{Dir: t.TempDir(), Profile: home.Default}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), "GATEWAY_TEST_CLAIM="+h.Dir)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 100)
	n, _ := out.Read(buf)
	if !strings.HasPrefix(string(buf[:n]), "claimed") {
		t.Fatalf("child: %s", buf[:n])
	}
	var locked *home.LockedError
	if _, err := NewClaim(h, nil); !errors.As(err, &locked) || locked.Holder != fmt.Sprint(cmd.Process.Pid) || !strings.Contains(err.Error(), "stop it first") {
		t.Errorf("claimed beside a running gateway: %v", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	if _, ok, err := Running(h); ok || err != nil {
		t.Errorf("a dead gateway runs: %v %v", ok, err)
	}
	c, err := NewClaim(h, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Release(); err != nil {
		t.Fatal(err)
	}
}

func TestRecords(t *testing.T) {
	t.Parallel()
	self := Self(home.Home{Dir: "/h"}, nil)
	for name, c := range map[string]struct {
		text  string
		alive bool
		fails bool
	}{
		"bare number":    {fmt.Sprint(os.Getpid()), true, false},
		"own record":     {fmt.Sprintf(`{"pid":%d,"start_time":%d}`, self.PID, self.StartTime), true, false},
		"unknown start":  {fmt.Sprintf(`{"pid":%d}`, self.PID), true, false},
		"recycled pid":   {fmt.Sprintf(`{"pid":%d,"start_time":%d}`, self.PID, self.StartTime+1), false, false},
		"dead pid":       {`{"pid":2147483646,"start_time":1}`, false, false},
		"no pid":         {`{}`, false, false},
		"unknown fields": {fmt.Sprintf(`{"pid":%d,"future":{"a":1}}`, self.PID), true, false},
		"torn":           {`{"pid":`, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "recycled pid" {
				testkit.Need(t, "posix", runtime.GOOS != "freebsd" && self.StartTime != 0, "this system cannot tell start times")
			}
			h := home.Home{Dir: t.TempDir()}
			testkit.WriteTree(t, h.Dir, map[string]string{"gateway.pid": c.text})
			_, ok, err := Running(h)
			if ok != c.alive || (err != nil) != c.fails {
				t.Errorf("got %v, %v", ok, err)
			}
		})
	}
	if _, ok, err := Running(home.Home{Dir: filepath.Join(t.TempDir(), "none")}); ok || err != nil {
		t.Errorf("no home: %v %v", ok, err)
	}
}
