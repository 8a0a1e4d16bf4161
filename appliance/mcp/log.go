// SPDX-License-Identifier: MIT

package mcp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/redact"
)

// Bounds of a profile's log of its servers' error output.
const (
	MaxLog    = 1 << 20   // of the file; then its older half is dropped
	floodSize = 256 << 10 // that one server may write in floodTime; the rest is counted
	floodTime = time.Minute
	maxLine   = 4 << 10
	maxTail   = 400 // that an error quotes
)

// stderrLog is the log of one profile.
type stderrLog struct {
	warn *slog.Logger

	mu     sync.Mutex
	path   string // of file; "" = none is open
	file   *os.File
	size   int64
	broken string // path that cannot be opened, said once
}

func newStderrLog(warn *slog.Logger) *stderrLog { return &stderrLog{warn: warn} }

// append writes one line to path. A log that cannot be written costs the line, nothing else.
func (l *stderrLog) append(path string, line []byte) {
	if path == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.open(path); err != nil {
		if l.broken != path {
			l.broken = path
			l.warn.Warn("log of mcp servers' error output cannot be opened", "path", path, "err", err)
		}
		return
	}
	if l.size+int64(len(line)) > MaxLog {
		if err := l.halve(); err != nil {
			return
		}
	}
	n, err := l.file.Write(line)
	l.size += int64(n)
	if err != nil {
		l.shut()
	}
}

// open opens the log, again if it was moved away.
func (l *stderrLog) open(path string) error {
	before, err := os.Lstat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if l.file != nil {
		if now, serr := l.file.Stat(); serr == nil && err == nil && l.path == path && os.SameFile(before, now) {
			return nil
		}
		l.shut()
	}
	if err == nil && !before.Mode().IsRegular() {
		return errors.New("it is no regular file")
	}
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND|noFollow, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || before != nil && !os.SameFile(before, info)) {
		err = errors.New("it was exchanged while it was opened")
	}
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		err = f.Chmod(0o600)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	l.path, l.file, l.size, l.broken = path, f, info.Size(), ""
	return nil
}

// halve drops the older half of the log, from the start of a line on.
func (l *stderrLog) halve() error {
	keep := make([]byte, MaxLog/2)
	n, err := l.file.ReadAt(keep, max(l.size-MaxLog/2, 0))
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	keep = keep[:n]
	if i := bytes.IndexByte(keep, '\n'); i >= 0 {
		keep = keep[i+1:]
	}
	if err := l.file.Truncate(0); err != nil {
		return err
	}
	n, err = l.file.Write(keep)
	l.size = int64(n)
	return err
}

func (l *stderrLog) shut() {
	if l.file != nil {
		l.file.Close() //nolint:errcheck // every line was written before
	}
	l.file, l.path, l.size = nil, "", 0
}

func (l *stderrLog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shut()
}

// stderrWriter takes the error output of one process: it makes lines of it, bounds them and
// hides credentials. Its Write never fails and never waits for anything but the disk.
type stderrWriter struct {
	server string
	out    func(line []byte)
	secret func() *redact.Redactor
	now    func() time.Time

	mu      sync.Mutex
	line    []byte // not ended yet
	cut     bool   // the rest of this line is thrown away
	window  time.Time
	used    int
	dropped int
	tail    string // the last line that says something
}

func (w *stderrWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(p)
	if now := w.now(); now.Sub(w.window) >= floodTime {
		w.note()
		w.window, w.used = now, 0
	}
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		part := p
		if i >= 0 {
			part = p[:i]
		}
		w.collect(part)
		if i < 0 {
			break
		}
		w.end()
		p = p[i+1:]
	}
	return n, nil
}

func (w *stderrWriter) collect(part []byte) {
	room := min(maxLine-len(w.line), max(floodSize-w.used-len(w.line), 0))
	if len(part) > room {
		w.dropped += len(part) - room
		part, w.cut = part[:room], true
	}
	w.line = append(w.line, part...)
}

// end passes a whole line on.
func (w *stderrWriter) end() {
	line := w.line
	w.line = w.line[:0]
	w.cut = false
	if len(bytes.TrimSpace(line)) == 0 {
		return
	}
	w.used += len(line) + 1
	w.put(string(bytes.ToValidUTF8(line, []byte("?"))))
}

func (w *stderrWriter) put(line string) {
	line = w.secret().String(line)
	w.tail = line[:min(len(line), maxTail)]
	w.out(fmt.Appendf(nil, "%s [%s] %s\n", w.now().UTC().Format(time.RFC3339), w.server, line))
}

// note says how much was thrown away.
func (w *stderrWriter) note() {
	if w.dropped > 0 {
		w.out(fmt.Appendf(nil, "%s [%s] … %d bytes of error output were dropped\n", w.now().UTC().Format(time.RFC3339), w.server, w.dropped))
		w.dropped = 0
	}
}

// say adds a line of our own.
func (w *stderrWriter) say(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.out(fmt.Appendf(nil, "%s [%s] %s\n", w.now().UTC().Format(time.RFC3339), w.server, w.secret().String(text)))
}

// last returns the last line, and ends what the process left without an end.
func (w *stderrWriter) last() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.end()
	w.note()
	return w.tail
}
