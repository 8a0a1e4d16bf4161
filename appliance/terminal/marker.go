// SPDX-License-Identifier: MIT

package terminal

import (
	"bytes"
	"io"
	"strings"
	"sync"
)

// noDir is what stands between two markers when a directory is not there. A path begins with
// a slash, on Windows too: it is bash that prints it.
const noDir = "!"

// lostMark stands before a directory when there was no snapshot to continue from.
const lostMark = "?"

// markerRoom is how much may follow a marker that is the last: what a command's own EXIT trap
// or a process that it left behind prints.
const markerRoom = 4096

// filter passes output on and takes the directory out that the wrapper prints at its end.
// What may become a marker is held back until it is clear. It is safe for concurrent use.
type filter struct {
	mu    sync.Mutex
	w     io.Writer
	eol   string
	start []byte // a line end and the marker
	end   []byte // the marker and a line end
	held  []byte // not passed on yet
	found int    // of held, the length of a whole marker with its directory; 0 = none
	dir   string
	err   error // of w
}

// newFilter returns a filter; eol is what the output has for a line end.
func newFilter(w io.Writer, marker, eol string) *filter {
	return &filter{w: w, eol: eol, start: []byte(eol + marker), end: []byte(marker + eol)}
}

// Write never fails but for w.
func (f *filter) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held = append(f.held, p...)
	for f.step() {
	}
	f.flush()
	err := f.err
	f.err = nil
	return len(p), err
}

// step looks for a later marker, or for the end of the one that has begun.
func (f *filter) step() bool {
	if from := f.found; from > 0 {
		if i := bytes.Index(f.held[from:], f.start); i < 0 {
			return false
		} else if j := f.complete(from + i); j == 0 {
			return false
		}
		// A later one is whole: this one was output.
		f.pass(from)
		f.found = 0
		return true
	}
	i := bytes.Index(f.held, f.start)
	if i < 0 {
		return false
	}
	f.pass(i)
	if n := f.complete(0); n > 0 {
		// What began before the last start in it was output. The end brings a start too.
		if k := bytes.LastIndex(f.held[:n-len(f.end)-len(f.eol)], f.start); k > 0 {
			f.pass(k)
			n -= k
		}
		f.found, f.dir = n, string(f.held[len(f.start):n-len(f.end)])
		return true
	}
	if len(f.held) > markerRoom+len(f.start)+len(f.end) { // no path is as long
		f.pass(1)
		return true
	}
	return false
}

// complete returns where a marker that begins at i is over; 0 = not yet.
func (f *filter) complete(i int) int {
	j := bytes.Index(f.held[i+len(f.start):], f.end)
	if j < 0 || j > markerRoom {
		return 0
	}
	return i + len(f.start) + j + len(f.end)
}

// flush passes on what cannot be, or begin, the last marker.
func (f *filter) flush() {
	switch {
	case f.found > 0:
		if len(f.held)-f.found > markerRoom {
			n := len(f.held) - f.partial(f.held)
			if i := bytes.Index(f.held[f.found:], f.start); i >= 0 {
				n = f.found + i
			}
			f.found = 0
			f.pass(n)
		}
	case bytes.HasPrefix(f.held, f.start):
	default:
		f.pass(len(f.held) - f.partial(f.held))
	}
}

// partial is how much of the end of b may begin a marker.
func (f *filter) partial(b []byte) int {
	for n := min(len(b), len(f.start)-1); n > 0; n-- {
		if bytes.HasPrefix(f.start, b[len(b)-n:]) {
			return n
		}
	}
	return 0
}

func (f *filter) pass(n int) {
	if n == 0 {
		return
	}
	if _, err := f.w.Write(f.held[:n]); f.err == nil {
		f.err = err
	}
	f.held = append(f.held[:0], f.held[n:]...)
}

// finish passes on the rest. It returns the directory that was reported, if one was. A report
// that a kill has cut off is dropped.
func (f *filter) finish(killed bool) (dir string, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.found > 0 {
		dir = strings.TrimSuffix(f.dir, f.eol)
		ok = dir == noDir || strings.HasPrefix(strings.TrimPrefix(dir, lostMark), "/")
		f.held = append(f.held[:0], f.held[f.found:]...)
		f.found = 0
	}
	if killed && bytes.HasPrefix(f.held, f.start) {
		f.held = nil
	}
	f.pass(len(f.held))
	return dir, ok
}
