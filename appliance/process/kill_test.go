// SPDX-License-Identifier: MIT

//go:build linux

package process

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// deaf is a shell that prints its pid when it ignores SIGTERM and then never ends.
const deaf = `sh -c 'trap "" TERM; echo $$; exec sleep 3600'`

var stubborn = []struct {
	name   string
	script string
	pids   int
	signal syscall.Signal // how the child itself ends under a graceful kill; 0 = either way
	parent bool           // found only through its parent, which an immediate kill does not look for
}{
	{"obedient", `echo $$; exec sleep 3600`, 1, syscall.SIGTERM, false},
	{"ignores TERM", `trap '' TERM; echo $$; sleep 3600`, 1, syscall.SIGKILL, false},
	{"restarts its child", `trap '' TERM; echo $$; while :; do sleep 0.02; done`, 1, syscall.SIGKILL, false},
	{"many", `i=0; while [ $i -lt 40 ]; do i=$((i+1)); ` + deaf + ` & done; wait`, 40, 0, false},
	{"keeps forking", `trap '' TERM; echo $$; while :; do sh -c 'sleep 3600 & sleep 3600 &' ; sleep 0.05; done`, 1, syscall.SIGKILL, false},
	{"own group", `timeout 3600 ` + deaf + ` & wait`, 1, 0, false},
	{"double fork", `(` + deaf + ` &); sleep 3600`, 1, 0, false},
	{"setsid", `setsid ` + deaf + ` & wait`, 1, 0, false},
	{"setsid, double fork", `(setsid ` + deaf + ` &); sleep 3600`, 1, 0, false},
	{"daemon of a daemon", `(setsid sh -c 'trap "" TERM; (setsid ` + `sh -c "trap \"\" TERM; echo \$\$; exec sleep 3600"` + ` &); exec sleep 3600' &); sleep 3600`, 1, 0, false},
	{"empty environment", `(env -i "$(command -v sh)" -c 'trap "" TERM; echo $$; exec '"$(command -v sleep)"' 3600' &); sleep 3600`, 1, 0, false},
	{"setsid, empty environment", `env -i "$(command -v setsid)" "$(command -v sh)" -c 'trap "" TERM; echo $$; exec '"$(command -v sleep)"' 3600' & wait`, 1, 0, true},
	{"execs for ever", `export f='exec sh -c "$f"'; (setsid sh -c 'trap "" TERM; echo $$; eval "$f"' &); sleep 3600`, 1, 0, false},
	{"parent of a zombie", `sh -c 'true & trap "" TERM; echo $$; exec sleep 3600' & wait`, 1, 0, false},
	{"child has exited", deaf + ` & exit 0`, 1, 0, false},
	{"child has exited, setsid", `setsid ` + deaf + ` & exit 0`, 1, 0, false},
}

// TestReport80204IgnoresTERM: what ignores SIGTERM gets SIGKILL, wherever it has gone (H#80204, PR#94187).
func TestReport80204IgnoresTERM(t *testing.T) {
	t.Parallel()
	needSetsid(t)
	for _, tc := range stubborn {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := sh(tc.script)
			c.Grace = 200 * time.Millisecond
			child, ids := startPrinting(t, newRegistry(t), c, tc.pids)
			begin := time.Now()
			if err := child.Kill(t.Context()); err != nil {
				t.Fatal(err)
			}
			if d := time.Since(begin); d > slack*(c.Grace+KillDeadline) {
				t.Errorf("took %v", d)
			}
			if !allDead(ids)() {
				t.Error("alive after Kill has returned")
			}
			if left := withEnv(t, child.tree.id); len(left) > 0 {
				t.Errorf("alive after Kill has returned: %v", left)
			}
			if exit := wait(t, child); tc.signal != 0 && exit.Signal != tc.signal {
				t.Errorf("got signal %v, want %v", exit.Signal, tc.signal)
			}
		})
	}
}

func TestKillNowStubborn(t *testing.T) {
	t.Parallel()
	needSetsid(t)
	for _, tc := range stubborn {
		if tc.parent {
			continue
		}
		for way, kill := range map[string]func(r *Registry, c *Child){
			"child":    func(_ *Registry, c *Child) { c.KillNow() },
			"registry": func(r *Registry, _ *Child) { r.KillNow() },
		} {
			if way == "registry" && (tc.name == "child has exited" || tc.name == "child has exited, setsid") {
				continue // no longer a live command
			}
			t.Run(tc.name+"/"+way, func(t *testing.T) {
				t.Parallel()
				r := newRegistry(t)
				child, ids := startPrinting(t, r, sh(tc.script), tc.pids)
				begin := time.Now()
				kill(r, child)
				if d := time.Since(begin); d > slack*HardDeadline {
					t.Errorf("took %v", d)
				}
				eventually(t, HardDeadline, "all dead", func() bool {
					return allDead(ids)() && len(withEnv(t, child.tree.id)) == 0
				})
				wait(t, child)
			})
		}
	}
}

// The deadlines that callers rely on: what ignores SIGTERM is gone with the defaults.
func TestKillDefaults(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	var all []ident
	for range 3 {
		_, ids := startPrinting(t, r, sh(`trap '' TERM; echo $$; sleep 3600`), 1)
		all = append(all, ids...)
	}
	begin := time.Now()
	if err := r.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	d := time.Since(begin)
	if d < Grace {
		t.Errorf("SIGKILL after %v, want a grace of %v", d, Grace)
	}
	if d > slack*(Grace+KillDeadline) {
		t.Errorf("took %v", d)
	}
	if !allDead(all)() {
		t.Error("alive after Kill has returned")
	}
}

func TestKillStopped(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		script string
		kill   func(c *Child) error
		code   int
	}{
		{"woken to obey", `trap 'exit 7' TERM; echo $$; kill -STOP $$`, func(c *Child) error { return c.Kill(t.Context()) }, 7},
		{"deaf", `trap '' TERM; echo $$; kill -STOP $$; sleep 3600`, func(c *Child) error { return c.Kill(t.Context()) }, 137},
		{"at once", `trap 'exit 7' TERM; echo $$; kill -STOP $$`, func(c *Child) error { c.KillNow(); return nil }, 137},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := sh(tc.script)
			if tc.code == 137 {
				c.Grace = 200 * time.Millisecond
			} else {
				c.Grace = time.Minute // it must end by itself
			}
			child, ids := startPrinting(t, newRegistry(t), c, 1)
			eventually(t, time.Second, "stopped", func() bool { return stateOf(t, ids[0].pid) == "T" })
			if err := tc.kill(child); err != nil {
				t.Fatal(err)
			}
			exit := wait(t, child)
			if exit.Code != tc.code || !exit.Killed {
				t.Errorf("got %+v, want code %d, killed", exit, tc.code)
			}
		})
	}
}

// A context that ends cuts the grace short, not the kill.
func TestKillHurried(t *testing.T) {
	t.Parallel()
	for _, second := range []bool{false, true} {
		c := sh(`trap '' TERM; echo $$; sleep 3600`)
		c.Grace = time.Hour
		child, ids := startPrinting(t, newRegistry(t), c, 1)
		ctx, cancel := context.WithCancel(t.Context())
		first := make(chan error, 1)
		if second {
			go func() { first <- child.Kill(t.Context()) }()
		} else {
			go func() { first <- child.Kill(ctx) }()
		}
		eventually(t, time.Second, "a kill under way", func() bool { return len(child.turn) == 1 })
		cancel()
		if second {
			if err := child.Kill(ctx); err != nil {
				t.Error(err)
			}
		}
		select {
		case err := <-first:
			if err != nil {
				t.Error(err)
			}
		case <-soon(t).Done():
			t.Fatal("waits for the grace")
		}
		if !allDead(ids)() {
			t.Error("alive")
		}
	}
}

func TestKillAgain(t *testing.T) {
	t.Parallel()
	c := sh(`trap '' TERM; echo $$; sleep 3600`)
	c.Grace = 50 * time.Millisecond
	r := newRegistry(t)
	child, ids := startPrinting(t, r, c, 1)
	var work sync.WaitGroup
	for range 8 {
		work.Go(func() {
			if err := child.Kill(t.Context()); err != nil {
				t.Error(err)
			}
		})
		work.Go(child.KillNow)
	}
	work.Wait()
	wait(t, child)
	if !allDead(ids)() {
		t.Error("alive")
	}
	if err := child.Kill(t.Context()); err != nil {
		t.Error(err)
	}
	child.KillNow()
	if n := r.KillNow(); n != 0 {
		t.Errorf("got %d live commands, want 0", n)
	}
}

// TestReport107029OwnGroup: our own group and session are never signalled (H#107029). Signal 0 asks
// without sending, so that a broken guard fails the test and not the machine.
func TestReport107029OwnGroup(t *testing.T) {
	t.Parallel()
	sid, err := unix.Getsid(0)
	if err != nil {
		t.Fatal(err)
	}
	for _, pgid := range []int{-1, 0, 1, os.Getpid(), unix.Getpgrp(), sid} {
		if err := signalGroup(pgid, 0); !errors.Is(err, ErrProtected) {
			t.Errorf("group %d: got %v, want %v", pgid, err, ErrProtected)
		}
	}
	mate := exec.Command("sleep", "3600") // in our session
	mate.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := mate.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mate.Process.Kill(); mate.Wait() })
	if err := signalGroup(mate.Process.Pid, 0); !errors.Is(err, ErrProtected) {
		t.Errorf("group in our session: got %v, want %v", err, ErrProtected)
	}
	for _, pid := range []int{-1, 0, 1, os.Getpid(), mate.Process.Pid} {
		start, _ := startOf(pid)
		if err := signalOne(ident{pid, start}, 0); !errors.Is(err, ErrProtected) {
			t.Errorf("pid %d: got %v, want %v", pid, err, ErrProtected)
		}
	}
}

// A stranger in our session is not touched, whatever it claims to be.
func TestFindProtected(t *testing.T) {
	t.Parallel()
	tr := newTree("TestFindProtected")
	mate := exec.Command("sleep", "3600")
	mate.Env = []string{Mark + "=" + tr.id}
	if err := mate.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mate.Process.Kill(); mate.Wait() })
	tr.pid, _ = unix.Getsid(0)
	known := members{}
	if pids, ok := tr.alive(known); !ok || len(pids) > 0 {
		t.Errorf("got %v, want none", pids)
	}
	list, err := scan(0)
	if err != nil || len(list) == 0 {
		t.Fatalf("%d processes, %v", len(list), err)
	}
	for _, p := range list {
		if p.pid <= 1 || p.pid == os.Getpid() || p.pid == os.Getppid() {
			t.Errorf("pid %d can be signalled", p.pid)
		}
	}
}

func TestSignalRecycled(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	child, ids := startPrinting(t, r, sh(`echo $$; exec sleep 3600`), 1)
	for _, off := range []int64{-1, 1} {
		err := signalOne(ident{ids[0].pid, ids[0].start + off}, unix.SIGKILL)
		if err == nil {
			t.Errorf("start %+d: signalled", off)
		}
	}

	// A tree whose leader was reaped before the present holder of its number started.
	stranger := &tree{pid: child.PID(), id: "no such mark"}
	stranger.reapedAt.Store(ids[0].start)
	if pids, ok := stranger.alive(members{}); !ok || len(pids) > 0 {
		t.Errorf("got members %v, want none", pids)
	}
	stranger.strike(time.Now().Add(HardDeadline))
	stranger.force(members{})
	sweep([]*tree{stranger}, time.Now().Add(HardDeadline))
	if !isAlive(ids[0]) {
		t.Fatal("the holder of a recycled number was killed")
	}

	// The same process one tick earlier would be a descendant.
	stranger.reapedAt.Add(1)
	if pids, _ := stranger.alive(members{}); len(pids) != 1 {
		t.Errorf("got members %v, want %d", pids, child.PID())
	}
	if err := signalOne(ids[0], unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if exit := wait(t, child); exit.Signal != unix.SIGKILL || exit.Killed {
		t.Errorf("got %+v, want SIGKILL from outside", exit)
	}
}

// What a child left behind when it was reaped is known by the session alone.
func TestKillAfterReap(t *testing.T) {
	t.Parallel()
	script := `env -i "$(command -v sleep)" 3600 & echo $!; exit 3`
	out := NewCapture(0)
	c := sh(script)
	c.Stdout = out
	r := newRegistry(t)
	child := startCmd(t, r, c)
	exit := wait(t, child)
	if exit.Code != 3 || !exit.Held || exit.Killed {
		t.Errorf("got %+v, want 3, held", exit)
	}
	var pid int
	for _, b := range out.Bytes() {
		if b != '\n' {
			pid = pid*10 + int(b-'0')
		}
	}
	id := identOf(t, pid)
	if err := child.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if isAlive(id) {
		t.Error("alive")
	}
}

// While a kill is under way the child that has exited is not reaped, so that the number of
// its group stays its own.
func TestKillKeepsNumber(t *testing.T) {
	t.Parallel()
	c := sh(`trap 'exit 4' TERM; ` + deaf + ` & wait`)
	c.Grace = time.Hour
	child, ids := startPrinting(t, newRegistry(t), c, 1)
	killed := make(chan error, 1)
	go func() { killed <- child.Kill(t.Context()) }()
	<-child.exited
	eventually(t, time.Second, "a look after the exit", func() bool { return len(child.turn) == 1 })
	for range 20 {
		if s := stateOf(t, child.PID()); s != "Z" {
			t.Fatalf("got state %s, want Z", s)
		}
		time.Sleep(time.Millisecond)
	}
	child.KillNow()
	if err := <-killed; err != nil {
		t.Fatal(err)
	}
	if exit := wait(t, child); exit.Code != 4 || !exit.Killed {
		t.Errorf("got %+v, want 4, killed", exit)
	}
	if !allDead(ids)() {
		t.Error("alive")
	}
}
