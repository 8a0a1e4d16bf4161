// SPDX-License-Identifier: MIT

//go:build unix

package process

import (
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// noFollow refuses a link in the place of a file of ours.
const noFollow = unix.O_NOFOLLOW

// ident names one process for ever: a pid may be used again, but not with the same start.
type ident struct {
	pid   int
	start int64 // in the unit of now
}

// members are processes that are known to belong to a tree, with their groups.
type members map[ident]int

// tree is a child with all that descends from it.
type tree struct {
	pid   int
	id    string // its mark
	since int64  // nothing of it is older

	mu       sync.Mutex   // held for single system calls that do not block
	reapedAt atomic.Int64 // set under mu; 0 = the number pid is still reserved
}

func newTree(id string) *tree { return &tree{id: id, since: now()} }

func (t *tree) attr(terminal bool) (*syscall.SysProcAttr, error) {
	return &syscall.SysProcAttr{Setsid: true, Setctty: terminal}, nil // Ctty 0: its input
}

func (t *tree) attach(p *os.Process) error {
	t.pid = p.Pid
	return nil
}

// wait waits until the child has exited, and leaves it to be reaped.
func (t *tree) wait(*os.Process) {
	if waitExit(t.pid) == nil {
		return
	}
	// Somebody else reaps our children, or the system cannot wait without reaping.
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unpin()
}

func (t *tree) unpin() {
	t.reapedAt.CompareAndSwap(0, max(now(), 1))
}

func (t *tree) reap(p *os.Process) (*os.ProcessState, error) {
	if t.reapedAt.Load() != 0 { // then Wait may block
		return p.Wait()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unpin()
	return p.Wait()
}

// lock takes mu, but not after the deadline.
func (t *tree) lock(deadline time.Time) bool {
	for !t.mu.TryLock() {
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(50 * time.Microsecond)
	}
	return true
}

// group signals the child's group as long as its number is surely the child's.
func (t *tree) group(sig syscall.Signal, deadline time.Time) error {
	if !t.lock(deadline) {
		return os.ErrDeadlineExceeded
	}
	defer t.mu.Unlock()
	if t.reapedAt.Load() != 0 {
		return os.ErrProcessDone
	}
	return signalGroup(t.pid, sig)
}

// send signals the group at once, and what is not in it, or could not be reached that way
// (EPERM), one by one.
func (t *tree) send(sig syscall.Signal, known members) {
	err := t.group(sig, time.Now().Add(HardDeadline))
	for id, pgid := range known {
		if err != nil || pgid != t.pid {
			ignore(signalOne(id, sig))
		}
	}
}

// ignore drops the error of a signal: the process may be gone or another user's, and the
// next look at the process table says whether it lives.
func ignore(error) {}

// ask sends SIGTERM, and wakes what is stopped so that it can act on it.
func (t *tree) ask(known members) {
	t.send(unix.SIGTERM, known)
	t.send(unix.SIGCONT, known)
}

func (t *tree) force(known members) { t.send(unix.SIGKILL, known) }

// strike kills the group, and no more. It is false if the lock was not free in time.
func (t *tree) strike(deadline time.Time) bool {
	return !errors.Is(t.group(unix.SIGKILL, deadline), os.ErrDeadlineExceeded)
}

// alive looks at the process table: known is brought up to date and returned as pids. It is
// false where there is no table to look at.
func (t *tree) alive(known members) ([]int, bool) {
	for try := 0; ; try++ {
		sure, err := find([]*tree{t}, known)
		if err != nil {
			return nil, false
		}
		if sure || len(known) > 0 || try == 100 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	pids := make([]int, 0, len(known))
	for id := range known {
		pids = append(pids, id.pid)
	}
	return pids, true
}

// find replaces known by what belongs to one of the trees, which includes all that was known
// and is still alive. It is not sure if a process that it has left out could not be read.
func find(trees []*tree, known members) (sure bool, err error) {
	since := trees[0].since
	sessions, ids := map[int]*tree{}, map[string]bool{}
	for _, t := range trees {
		since = min(since, t.since)
		sessions[t.pid] = t
		ids[t.id] = true
	}
	list, err := scan(since)
	if err != nil {
		return false, err
	}
	sure = true
	children := map[int][]*proc{}
	var todo []*proc
	for _, p := range list {
		children[p.ppid] = append(children[p.ppid], p)
		_, ours := known[p.ident]
		ours = ours || sessions[p.sid].leads(p)
		if !ours {
			value, ok := marks(p.pid)
			sure = sure && ok
			ours = slices.ContainsFunc(strings.Split(value, ","), func(id string) bool { return ids[id] })
		}
		if ours {
			todo = append(todo, p)
		}
	}
	clear(known)
	for len(todo) > 0 {
		p := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if _, done := known[p.ident]; !done {
			known[p.ident] = p.pgid
			todo = append(todo, children[p.pid]...)
		}
	}
	return sure, nil
}

// leads reports whether a process with the session's number is surely in the child's session.
func (t *tree) leads(p *proc) bool {
	if t == nil {
		return false
	}
	reapedAt := t.reapedAt.Load()
	return reapedAt == 0 || p.start < reapedAt
}

// sweep kills one by one what is alive of the trees until nothing is found.
func sweep(trees []*tree, deadline time.Time) {
	known := members{}
	for time.Now().Before(deadline) {
		sure, err := find(trees, known)
		if err != nil {
			return
		}
		left := 0
		for id := range known {
			if signalOne(id, unix.SIGKILL) == nil {
				left++
			}
		}
		if left == 0 && sure {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// signalGroup is the only place that signals a group.
func signalGroup(pgid int, sig syscall.Signal) error {
	if pgid <= 1 || pgid == os.Getpid() || pgid == unix.Getpgrp() || ownSession(pgid) {
		return ErrProtected
	}
	return unix.Kill(-pgid, sig)
}

// signalOne is the only place that signals a single process. It signals the one that id
// names and no later holder of the pid: FindProcess opens a pidfd where there are any, so
// that the start time, which is read after that, is the start time of what gets the signal.
func signalOne(id ident, sig syscall.Signal) error {
	if id.pid <= 1 || id.pid == os.Getpid() || ownSession(id.pid) {
		return ErrProtected
	}
	p, err := os.FindProcess(id.pid)
	if err != nil {
		return err
	}
	start, err := startOf(id.pid)
	if err == nil && start != id.start {
		err = os.ErrProcessDone
	}
	if err == nil {
		err = p.Signal(sig)
	}
	return errors.Join(err, p.Release())
}

// ownSession reports whether a process is in the appliance's own session.
func ownSession(pid int) bool {
	own, err := unix.Getsid(0)
	if err != nil {
		return true
	}
	sid, err := unix.Getsid(pid)
	return err == nil && sid == own
}

// proc is a line of the process table.
type proc struct {
	ident
	ppid, pgid, sid int
}

// self is what must never be signalled.
type self struct{ pid, sid int }

func whoami() (self, error) {
	sid, err := unix.Getsid(0)
	return self{os.Getpid(), sid}, err
}

func (s self) is(p *proc) bool { return p.pid <= 1 || p.pid == s.pid || p.sid == s.sid }

// reap kills what is alive of lost children and returns how many processes that were.
func reap(left []lost) int {
	trees := make([]*tree, 0, len(left))
	for _, l := range left {
		t := &tree{pid: l.pid, id: l.mark, since: l.since}
		if !l.leads() {
			t.reapedAt.Store(1) // its number may be anybody's by now: only the mark counts
		}
		trees = append(trees, t)
	}
	known := members{}
	for range 100 {
		if sure, err := find(trees, known); sure || err != nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	n := len(known)
	sweep(trees, time.Now().Add(reapDeadline))
	return n
}

// leads reports whether the process that has the child's pid is still the child.
func (l lost) leads() bool {
	if l.pid <= 1 {
		return false
	}
	start, err := StartTime(l.pid)
	if err != nil || start != l.start {
		return false
	}
	value, sure := marks(l.pid)
	return sure && slices.Contains(strings.Split(value, ","), l.mark)
}
