// SPDX-License-Identifier: MIT

//go:build linux

package process

import (
	"bufio"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// ledgerHostEnv names the ledger for the process that TestLedgerHost is when it is started again.
const ledgerHostEnv = "PROCESS_TEST_LEDGER"

// TestLedgerHost is an appliance that is about to be killed. It prints the pids of what it has.
func TestLedgerHost(t *testing.T) {
	path := os.Getenv(ledgerHostEnv)
	if path == "" {
		t.Skip("only when started by another test")
	}
	r := New(slog.New(slog.DiscardHandler))
	if _, err := r.Keep(path); err != nil {
		t.Fatal(err)
	}
	for _, script := range []string{
		"echo $$; exec sleep 3600",                            // a plain command
		"trap '' TERM HUP; echo $$; exec sleep 3601",          // a stubborn one
		"setsid sh -c 'echo $$; exec sleep 3602' & wait",      // one that left its session
		"env -i /bin/sh -c 'echo $$; exec sleep 3603' & wait", // one that emptied its environment
	} {
		c := sh(script)
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
		if _, err := r.Start(c); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(time.Hour)
}

// TestKilledApplianceLeavesNothing: what a killed appliance ran is ended by the next one.
func TestKilledApplianceLeavesNothing(t *testing.T) {
	t.Parallel()
	needSetsid(t)
	path := filepath.Join(t.TempDir(), "state", "commands")
	host := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestLedgerHost$")
	host.Env = append(basicEnv(), ledgerHostEnv+"="+path)
	out, err := host.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	var ids []ident
	for lines := bufio.NewScanner(out); len(ids) < 4 && lines.Scan(); {
		pid, err := strconv.Atoi(strings.TrimSpace(lines.Text()))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, identOf(t, pid))
	}
	if len(ids) < 4 {
		t.Fatalf("only %d commands started", len(ids))
	}
	host.Process.Kill()
	host.Wait()
	for _, id := range ids {
		if !isAlive(id) {
			t.Fatalf("%d died with its appliance: the test would see nothing", id.pid)
		}
	}
	bystander := startCmd(t, newRegistry(t), sh("exec sleep 3604"))
	r := newRegistry(t)
	n, err := r.Keep(path)
	if err != nil || n < 4 {
		t.Errorf("%d processes were found, want 4 and more (%v)", n, err)
	}
	eventually(t, time.Second, "all are dead", allDead(ids))
	if !isAlive(identOf(t, bystander.PID())) {
		t.Error("a stranger was killed")
	}
	if data, err := os.ReadFile(path); err != nil || len(data) > 0 {
		t.Errorf("the file still holds %q (%v)", data, err)
	}
}

// TestLedgerIdentity: a process that merely has a number that is written down lives on.
func TestLedgerIdentity(t *testing.T) {
	t.Parallel()
	stranger := startCmd(t, newRegistry(t), sh("exec sleep 3605"))
	id := identOf(t, stranger.PID())
	mark := stranger.tree.id
	other := rand.Text()
	for name, data := range map[string]string{
		"another start time":          fmt.Sprintf("begin %s 0\npid %s %d %d\n", other, other, id.pid, id.start-1),
		"another mark":                fmt.Sprintf("begin %s 0\npid %s %d %d\n", other, other, id.pid, id.start),
		"ended":                       fmt.Sprintf("begin %s 0\npid %s %d %d\nend %s\n", mark, mark, id.pid, id.start, mark),
		"cut off":                     fmt.Sprintf("begin %s 0", mark),
		"a mark that is none":         fmt.Sprintf("begin x 0\npid x %d %d\n", id.pid, id.start),
		"numbers that are none":       fmt.Sprintf("begin %s -1\nbegin %s z\npid %s 1 1\n\x00\x00\n", mark, mark, mark),
		"a later time than its start": fmt.Sprintf("begin %s %d\n", mark, id.start+1),
	} {
		path := filepath.Join(t.TempDir(), "commands")
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		if n, err := newRegistry(t).Keep(path); n != 0 || err != nil || !isAlive(id) {
			t.Errorf("%s: %d killed, %v", name, n, err)
		}
	}
	path := filepath.Join(t.TempDir(), "commands")
	if err := os.WriteFile(path, []byte("begin "+mark+" 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	// Killed between its start and the line with its number: the mark alone is enough.
	if n, err := newRegistry(t).Keep(path); n != 1 || err != nil {
		t.Errorf("its own mark: %d killed, %v", n, err)
	}
	eventually(t, time.Second, "it is dead", func() bool { return !isAlive(id) })
}

// TestLedgerHoldsWhatRuns: never less than that, also with many at a time, and it does not grow
// for ever.
func TestLedgerHoldsWhatRuns(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	path := filepath.Join(t.TempDir(), "commands")
	if _, err := r.Keep(path); err != nil {
		t.Fatal(err)
	}
	lasting := startCmd(t, r, sh("exec sleep 3606"))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 10 {
				if _, err := r.Run(soon(t), sh("exit 0")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	left := func() []lost {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		here, _ := parseLedger(data)
		return here
	}
	eventually(t, time.Second, "the ended ones are off the list", func() bool { return len(left()) == 1 })
	if l := left()[0]; l.mark != lasting.tree.id || l.pid != lasting.PID() || l.start == 0 || l.since > l.start {
		t.Errorf("got %+v of %d", l, lasting.PID())
	}
	// Also beside one that goes on running.
	book := r.ledger.Load()
	book.mu.Lock()
	book.full = book.size
	book.mu.Unlock()
	if _, err := r.Run(soon(t), sh("exit 0")); err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Second, "the file is written anew", func() bool {
		info, err := os.Stat(path)
		return err == nil && info.Size() < 500 && len(left()) == 1
	})
	if l := left()[0]; l.mark != lasting.tree.id || l.pid != lasting.PID() {
		t.Errorf("got %+v of %d", l, lasting.PID())
	}
	lasting.KillNow()
	wait(t, lasting)
	eventually(t, time.Second, "nothing is left", func() bool { return len(left()) == 0 })
}

// TestLedgerKeepsWhatIsElsewhere: what runs where no local signal reaches it stays written down,
// from one appliance to the next, until somebody says that it has ended.
func TestLedgerKeepsWhatIsElsewhere(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "commands")
	open := func() *Registry {
		r := newRegistry(t)
		if _, err := r.Keep(path); err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := open()
	a, b := Away{rand.Text(), "unix:///a b/\n%\"x"}, Away{rand.Text(), "x"}
	r.NoteAway(a)
	r.NoteAway(b)
	r.NoteAway(Away{Mark: rand.Text(), Where: "ends"})
	for mark := range r.ledger.Load().live {
		if mark != a.Mark && mark != b.Mark {
			r.EndAway(mark)
		}
	}
	if got := r.Left(); len(got) > 0 {
		t.Errorf("its own are no leftovers: %v", got)
	}
	r = open()
	if _, err := r.Run(soon(t), sh("exit 0")); err != nil {
		t.Fatal(err)
	}
	if got := open().Left(); !slices.Contains(got, a) || !slices.Contains(got, b) || len(got) != 2 {
		t.Errorf("after two starts: %q", got)
	}
	r = open()
	r.EndAway(b.Mark)
	if got := r.Left(); !slices.Equal(got, []Away{a}) {
		t.Errorf("after one has ended: %q", got)
	}
	r = open()
	r.EndAway(a.Mark)
	if got := open().Left(); len(got) > 0 {
		t.Errorf("after both have ended: %q", got)
	}
}

func TestLedgerRefusesWhatIsNone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	victim := filepath.Join(dir, "victim")
	if err := os.WriteFile(victim, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, put := range map[string]func(path string) error{
		"link":      func(path string) error { return os.Symlink(victim, path) },
		"directory": func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		path := filepath.Join(dir, name)
		if err := put(path); err != nil {
			t.Fatal(err)
		}
		r := newRegistry(t)
		if _, err := r.Keep(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := r.Run(soon(t), sh("exit 0")); err != nil { // it stops nothing
			t.Errorf("%s: %v", name, err)
		}
	}
	if data, err := os.ReadFile(victim); err != nil || string(data) != "mine" {
		t.Errorf("the link's target holds %q (%v)", data, err)
	}
}

func FuzzParseLedger(f *testing.F) {
	f.Add([]byte("begin AAAAAAAAAAAAAAAAAAAAAAAAAA 5\npid AAAAAAAAAAAAAAAAAAAAAAAAAA 77 8\n"))
	f.Add([]byte("end AAAAAAAAAAAAAAAAAAAAAAAAAA\npid x"))
	f.Fuzz(func(t *testing.T, data []byte) {
		here, _ := parseLedger(data)
		for _, l := range here {
			if l.pid < 0 || l.pid == 1 || len(l.mark) < 20 || l.since < 0 || strings.ContainsAny(l.mark, " \n") {
				t.Fatalf("%+v", l)
			}
		}
	})
}

// BenchmarkStart is a command with and without being written down.
func BenchmarkStart(b *testing.B) {
	for _, kept := range []bool{false, true} {
		b.Run(fmt.Sprintf("kept=%v", kept), func(b *testing.B) {
			r := newRegistry(b)
			if kept {
				if _, err := r.Keep(filepath.Join(b.TempDir(), "commands")); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				if _, err := r.Run(b.Context(), Cmd{Args: []string{"/bin/true"}, Env: basicEnv()}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkNote is what a command costs in the file alone.
func BenchmarkNote(b *testing.B) {
	r := newRegistry(b)
	if _, err := r.Keep(filepath.Join(b.TempDir(), "commands")); err != nil {
		b.Fatal(err)
	}
	book := r.ledger.Load()
	for b.Loop() {
		mark := rand.Text()
		book.begin(mark)
		book.runs(mark, os.Getpid())
		book.end(mark)
	}
}
