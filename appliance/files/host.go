// SPDX-License-Identifier: MIT

// Package files is what an agent does with files: read with line numbers, write whole, patch,
// search, on this machine or inside a terminal backend. A path means what it means where the
// files are: it is resolved there, judged there, and what was judged is what is opened. The
// package never resolves a path of a backend on the gateway's machine, never reads or writes
// anything but regular files, never guesses which of two places an edit means, and never says
// that bytes were written that it did not find there afterwards.
package files

import (
	"context"
	"errors"
	"io/fs"
)

// Kind is what a path leads to.
type Kind int

// The kinds. Other is a FIFO, socket or device.
const (
	Missing Kind = iota
	Regular
	Directory
	Other
)

// Place is what a path led to when it was located. Operations act on Path and refuse with
// [ErrMoved] if that is not the same place any more.
type Place struct {
	Path  string // absolute; no link, "~" or ".." in it. The last parts may not exist
	Abs   string // absolute, as asked for, with its links
	Dir   string // the host's working directory
	Home  string // the home of the host's user; "" = unknown
	Kind  Kind
	Size  int64
	Mode  fs.FileMode // permission bits; 0 for what is missing
	Stamp string      // changes when the file does; "" for what is missing
}

// Errors of a host. Others wrap those of io/fs.
var (
	// ErrMoved: the path does not lead any more to what was judged. Locating it again helps.
	ErrMoved = errors.New("changed while it was being worked on")
	// ErrTooLarge: the file is longer than the caller takes.
	ErrTooLarge = errors.New("too large")
	// ErrNotRegular: a directory, FIFO, socket or device.
	ErrNotRegular = errors.New("not a regular file")
	// ErrDangling: the path is a link that leads nowhere.
	ErrDangling = errors.New("link leads nowhere")
	// ErrNoHome: the path starts with ~ and the host does not say what that is.
	ErrNoHome = errors.New("home directory unknown")
	// ErrDiffers: what is in the file is not what was written.
	ErrDiffers = errors.New("bytes in the file differ from those written")
	// ErrUnavailable: the backend did not run what it was given; nothing is known about any file.
	ErrUnavailable = errors.New("terminal backend unavailable")
)

// Host is where files are. [Direct] is this machine, [Shell] the inside of a backend.
// Implementations are safe for concurrent use.
type Host interface {
	// Name tells people and models which machine a path is on.
	Name() string
	// Local reports whether the gateway's own files are on this host.
	Local() bool
	// Locate resolves a path as the host's user writes it: relative to the working directory,
	// with ~ and ~user. What is missing is no error.
	Locate(ctx context.Context, path string) (Place, error)
	// Read returns the whole content of a regular file of at most limit bytes.
	Read(ctx context.Context, at Place, limit int64) ([]byte, error)
	// Page returns lines of a regular file of any size.
	Page(ctx context.Context, at Place, want PageRange) (Page, error)
	// Write replaces or makes a file whole, with directories on the way, and reads back what it
	// wrote. An existing file keeps mode, owner and links; a new one gets mode, or what the umask
	// leaves if that is 0. The returned place has the new stamp. verified is false where the host
	// has no means to compare more than the length.
	Write(ctx context.Context, at Place, data []byte, mode fs.FileMode) (now Place, verified bool, err error)
	// Remove deletes a regular file.
	Remove(ctx context.Context, at Place) error
	// Names lists a directory, at most limit names, without "." and "..".
	Names(ctx context.Context, dir string, limit int) ([]string, error)
	// Find lists the files below a directory, or the file itself, that q names.
	Find(ctx context.Context, root Place, q Query) (Found, error)
}

// PageRange says which lines are wanted.
type PageRange struct {
	From, To int // 1-based, both inclusive
	Width    int // a line is cut after this many bytes
	Bytes    int // no more lines are added once the page has this many bytes
}

// sampleSize is how much of the start of a file is looked at to tell text from binary.
const sampleSize = 8192

// Page is a part of a file.
type Page struct {
	Sample   []byte // the first bytes of the file, at most 8192
	Size     int64
	Newlines int      // in the whole file
	Ended    bool     // the last byte of the file is a newline
	Lines    [][]byte // without their newline, cut at PageRange.Width
}

// Total returns the number of lines in the file; what stands after the last newline is one.
func (p *Page) Total() int {
	if p.Size > 0 && !p.Ended {
		return p.Newlines + 1
	}
	return p.Newlines
}
