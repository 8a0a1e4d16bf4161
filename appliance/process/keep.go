// SPDX-License-Identifier: MIT

package process

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
)

// A ledger file is written anew, with what runs, when it has grown by ledgerFull, and not read if
// it is longer than ledgerMost: then it is none of ours.
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

// Away is a command that runs where no local signal reaches it, in a container say.
type Away struct {
	Mark  string // the value of Mark it was started with: random, 20 characters or more
	Where string // what its backend needs to find it again
}

// ledger is the file in which the registry writes down its children. A line is one write, so
// that a kill leaves whole lines: "begin MARK SINCE" before a child is started, "pid MARK PID
// START" once it runs, "end MARK"; and "away MARK WHERE" before one is started elsewhere. It is
// not synced: what outlives the appliance does not outlive the machine.
type ledger struct {
	log  *slog.Logger
	path string

	mu   sync.Mutex
	file *os.File
	size int64
	full int64             // of that size it is written anew
	live map[string]string // the lines of what runs, by mark
	left map[string]string // where what an earlier appliance left runs, by mark
	sick bool              // a write failed, and that was said
}

// Keep has the registry write down in a file every child that it starts, and first kills what
// is alive of the children that are written there: an earlier appliance was killed before it
// could end them. A process is only killed if it carries the random mark of such a child, or is
// in the session of one whose pid, start time and mark are all as they were written. It returns
// how many there were. What runs elsewhere is for its backend to end, see [Registry.Left]. The
// caller makes sure that the file is no living appliance's, and calls it once, before anything
// is started. Windows reaches the children, not their descendants.
func (r *Registry) Keep(path string) (killed int, err error) {
	data, err := read(path)
	if err != nil {
		return 0, err
	}
	here, away := parseLedger(data)
	if len(here) > 0 {
		killed = reap(here)
	}
	if err := (atomicfile.Writer{}).Mkdir(filepath.Dir(path), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return killed, err
	}
	l := &ledger{log: r.log, path: path, full: ledgerFull, live: map[string]string{}, left: map[string]string{}}
	for _, a := range away {
		l.live[a.Mark], l.left[a.Mark] = a.line(), a.Where
	}
	if len(away) > 0 {
		err = l.rewrite()
	} else { // as nearly always: without a flush, which a start would wait for
		l.file, err = os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_TRUNC|noFollow, 0o600)
	}
	if err != nil {
		return killed, err
	}
	r.ledger.Store(l)
	return killed, nil
}

// NoteAway writes down a command that is about to be started elsewhere. Whoever does not call
// [Registry.EndAway] leaves it to the next appliance.
func (r *Registry) NoteAway(a Away) {
	r.ledger.Load().note(a.Mark, a.line())
}

// EndAway says that a command elsewhere has ended.
func (r *Registry) EndAway(mark string) {
	r.ledger.Load().end(mark)
}

// Left returns what an earlier appliance left running elsewhere and nobody has ended since.
func (r *Registry) Left() []Away {
	l := r.ledger.Load()
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []Away
	for mark, where := range l.left {
		out = append(out, Away{Mark: mark, Where: where})
	}
	return out
}

func (a Away) line() string { return "away " + a.Mark + " " + url.QueryEscape(a.Where) + "\n" }

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

// parseLedger returns the children that were begun and not ended, here and elsewhere. Lines that
// make no sense, as a machine that lost its power leaves them, are skipped.
func parseLedger(data []byte) (here []lost, away []Away) {
	at, far := map[string]*lost{}, map[string]string{}
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) < 2 || len(f[1]) < 20 || !strings.HasSuffix(line, "\n") {
			continue
		}
		if f[0] == "away" {
			if where, err := url.QueryUnescape(f[len(f)-1]); err == nil && len(f) == 3 {
				far[f[1]] = where
			}
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
			delete(far, f[1])
		}
	}
	for _, l := range at {
		here = append(here, *l)
	}
	for mark, where := range far {
		away = append(away, Away{Mark: mark, Where: where})
	}
	return here, away
}

// rewrite puts a file with what runs in the place of the file.
func (l *ledger) rewrite() error {
	var b strings.Builder
	for _, lines := range l.live {
		b.WriteString(lines)
	}
	var err error
	if l.file != nil { // Windows replaces no open file
		err = l.file.Close()
	}
	err = errors.Join(err, (atomicfile.Writer{}).Write(l.path, []byte(b.String()), atomicfile.Options{Mode: 0o600}))
	f, oerr := os.OpenFile(l.path, os.O_WRONLY|os.O_APPEND|noFollow, 0)
	l.file, l.size = f, int64(b.Len())
	l.full = 2*l.size + ledgerFull
	return errors.Join(err, oerr)
}

// note writes down a child that is about to be started.
func (l *ledger) note(mark, line string) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.live[mark] = line
	l.write(line)
}

func (l *ledger) begin(mark string) {
	l.note(mark, fmt.Sprintf("begin %s %d\n", mark, max(now(), 0)))
}

// runs is about a child that is not reaped.
func (l *ledger) runs(mark string, pid int) {
	if l == nil {
		return
	}
	start, err := StartTime(pid)
	if err != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if lines, ok := l.live[mark]; ok { // else it has ended meanwhile
		line := fmt.Sprintf("pid %s %d %d\n", mark, pid, start)
		l.live[mark] = lines + line
		l.write(line)
	}
}

func (l *ledger) end(mark string) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.live, mark)
	delete(l.left, mark)
	l.write("end " + mark + "\n")
}

// write appends a line. A file that cannot be written stops nothing. The caller holds mu.
func (l *ledger) write(line string) {
	n, err := l.file.WriteString(line)
	l.size += int64(n)
	if err == nil && l.size > l.full {
		err = l.rewrite()
	}
	if err != nil && !l.sick {
		l.log.Warn("commands are not written down any more: should this process be killed, they outlive it", "error", err)
	}
	l.sick = err != nil
}

// reapDeadline bounds the kill of what an earlier appliance left.
const reapDeadline = 5 * time.Second
