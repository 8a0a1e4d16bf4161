// SPDX-License-Identifier: MIT

package process

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
)

// A ledger file is begun anew when nothing runs and it is longer than ledgerFull, and not read
// if it is longer than ledgerMost: then it is none of ours.
const (
	ledgerFull = 64 << 10
	ledgerMost = 64 << 20
)

// lost is a child that an earlier appliance wrote down and did not see end.
type lost struct {
	mark  string // the value of Mark it was started with
	since int64  // nothing of it is older, in the unit of now
	pid   int    // 0 = it may not have been started
	start int64  // of pid
}

// ledger is the file in which the registry writes down its children. A line is one write, so
// that a kill leaves whole lines: "begin MARK SINCE" before a child is started, "pid MARK PID
// START" once it runs, "end MARK". It is not synced: what outlives the appliance does not
// outlive the machine.
type ledger struct {
	log *slog.Logger

	mu   sync.Mutex
	file *os.File
	size int64
	live int
	sick bool // a write failed, and that was said
}

// Keep has the registry write down in a file every child that it starts, and first kills what
// is alive of the children that are written there: an earlier appliance was killed before it
// could end them. A process is only killed if it carries the random mark of such a child, or is
// in the session of one whose pid, start time and mark are all as they were written. It returns
// how many there were. The caller makes sure that the file is no living appliance's, and calls
// it once, before anything is started. Windows reaches the children, not their descendants.
func (r *Registry) Keep(path string) (killed int, err error) {
	data, err := read(path)
	if err != nil {
		return 0, err
	}
	if left := parseLedger(data); len(left) > 0 {
		killed = reap(left)
	}
	if err := (atomicfile.Writer{}).Mkdir(filepath.Dir(path), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return killed, err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_TRUNC|noFollow, 0o600)
	if err != nil {
		return killed, err
	}
	r.ledger.Store(&ledger{log: r.log, file: f})
	return killed, nil
}

// read returns the content of a ledger; one that is not there is empty.
func read(path string) ([]byte, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && (!info.Mode().IsRegular() || info.Size() > ledgerMost) {
		err = fmt.Errorf("%s: is no list of commands; remove it", path)
	}
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

// parseLedger returns the children that were begun and not ended. Lines that make no sense, as a
// machine that lost its power leaves them, are skipped.
func parseLedger(data []byte) []lost {
	at := map[string]*lost{}
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) < 2 || len(f[1]) < 20 || !strings.HasSuffix(line, "\n") {
			continue
		}
		n := make([]int64, len(f)-2)
		bad := false
		for i, text := range f[2:] {
			v, err := strconv.ParseInt(text, 10, 64)
			n[i], bad = v, bad || err != nil || v < 0
		}
		l := at[f[1]]
		switch {
		case bad:
		case f[0] == "begin" && len(n) == 1:
			at[f[1]] = &lost{mark: f[1], since: n[0]}
		case f[0] == "pid" && len(n) == 2 && l != nil && n[0] > 1 && n[0] < 1<<31:
			l.pid, l.start = int(n[0]), n[1]
		case f[0] == "end" && len(n) == 0:
			delete(at, f[1])
		}
	}
	out := make([]lost, 0, len(at))
	for _, l := range at {
		out = append(out, *l)
	}
	return out
}

// note writes a line. A file that cannot be written stops nothing.
func (l *ledger) note(live int, line string) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.live += live
	var err error
	if l.live == 0 && l.size > ledgerFull {
		if err = l.file.Truncate(0); err == nil {
			l.size = 0
			return
		}
	}
	n := 0
	if err == nil {
		n, err = l.file.WriteString(line)
	}
	l.size += int64(n)
	if err != nil && !l.sick {
		l.log.Warn("commands are not written down any more: should this process be killed, they outlive it", "error", err)
	}
	l.sick = err != nil
}

func (l *ledger) begin(mark string) {
	if l != nil {
		l.note(1, fmt.Sprintf("begin %s %d\n", mark, max(now(), 0)))
	}
}

// runs is about a child that is not reaped.
func (l *ledger) runs(mark string, pid int) {
	if l == nil {
		return
	}
	if start, err := StartTime(pid); err == nil {
		l.note(0, fmt.Sprintf("pid %s %d %d\n", mark, pid, start))
	}
}

func (l *ledger) end(mark string) { l.note(-1, "end "+mark+"\n") }

// reapDeadline bounds the kill of what an earlier appliance left.
const reapDeadline = 5 * time.Second
