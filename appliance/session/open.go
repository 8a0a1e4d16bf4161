// SPDX-License-Identifier: MIT

package session

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
)

// Store is an open state.db. It is safe for concurrent use; writes queue up, reads run beside
// them.
type Store struct {
	path string // absolute
	opts Options
	self holder
	w    *sql.DB // one connection
	r    *sql.DB // a few, that may only read

	stop context.CancelFunc // of the background work
	work sync.WaitGroup
	kick chan struct{}

	mu      sync.Mutex
	line    []*waiting    // writes that wait
	writing bool          // somebody sees to them
	idle    chan struct{} // closed while the background has nothing to do
	info    fs.FileInfo   // of the file that was opened
	wal     fs.FileInfo   // of its -wal once there was one
	closed  bool
	halted  error // why nothing is written any more; nil = it is
	backup  bool  // a copy was made or is being made
	health  Health
}

// registry is what this process has open.
type registry struct {
	mu     sync.Mutex
	stores []*Store
}

// opened keeps the promise that a file has one Store in this process.
//
//nolint:gochecknoglobals // file locks of POSIX belong to the process, so what is open does too
var opened registry

// readers is how many reads run side by side.
const readers = 4

// Open opens the state.db at path and makes it if it does not exist; the directory must. It
// adds the tables and columns that are missing. Tool calls of turns whose process is gone get
// their "interrupted" result before it returns. Checks of the whole file and work on the
// indexes go on in the background until Close.
//
// A file that cannot be written is opened for reading, as is one that turns out to be damaged:
// see [Store.Health]. Errors are [ErrOpen], a [*DamagedError] when not even the schema can be
// read, or those of SQLite and the file system. The values of ctx are used until Close; its
// end stops only Open.
func Open(ctx context.Context, path string, o Options) (*Store, error) {
	o, err := o.settled()
	if err != nil {
		return nil, err
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	s := &Store{path: path, opts: o, self: newHolder(o.Role), kick: make(chan struct{}, 1), idle: make(chan struct{})}
	fresh, err := opened.claim(s)
	if err != nil {
		return nil, err
	}
	// Somebody has it open, or had and did not close it.
	unclean := leftover(path+"-wal") || leftover(path+"-journal")
	if err := s.start(ctx, fresh, unclean); err != nil {
		err = errors.Join(err, s.closeHandles())
		opened.release(s)
		return nil, err
	}
	return s, nil
}

// claim enters a store and makes its file. Nothing may touch a file that is open already other
// than by its name.
func (g *registry) claim(s *Store) (fresh bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	info, err := os.Stat(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		fresh = true
		if err = (atomicfile.Writer{}).Touch(s.path, s.opts.Mode); err == nil {
			info, err = os.Stat(s.path)
		}
	}
	if err != nil {
		return false, fmt.Errorf("state.db: %w", err)
	}
	if !info.Mode().IsRegular() {
		return false, fmt.Errorf("%s: %w", s.path, atomicfile.ErrNotRegular)
	}
	for _, other := range g.stores {
		if other.path == s.path || os.SameFile(other.info, info) {
			return false, fmt.Errorf("%s: %w", s.path, ErrOpen)
		}
	}
	s.info = info
	g.stores = append(g.stores, s)
	return fresh || info.Size() == 0, nil
}

func (g *registry) release(s *Store) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, other := range g.stores {
		if other == s {
			g.stores = append(g.stores[:i:i], g.stores[i+1:]...)
			return
		}
	}
}

func leftover(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Size() > 0
}

// start opens the connections and brings the file into shape.
func (s *Store) start(ctx context.Context, fresh, unclean bool) error {
	s.health = Health{Path: s.path, State: Sound}
	var err error
	if s.w, err = sql.Open("sqlite", s.dsn(false)); err != nil {
		return err
	}
	s.w.SetMaxOpenConns(1)
	if s.r, err = sql.Open("sqlite", s.dsn(true)); err != nil {
		return err
	}
	s.r.SetMaxOpenConns(readers)
	s.r.SetMaxIdleConns(readers) // for a minute
	s.r.SetConnMaxIdleTime(time.Minute)

	if err := s.journal(ctx); err != nil {
		return s.unreadable(err)
	}
	if !s.opts.KeepMode {
		s.tighten()
	}
	if err := s.ensure(ctx, fresh); err != nil {
		if !readOnlyFile(err) {
			return s.unreadable(err)
		}
		s.unwritable(err)
	}
	if s.writable() == nil {
		s.probe(ctx)
	}
	if s.writable() == nil {
		if err := s.settleDead(ctx); err != nil && s.writable() == nil {
			s.note("turns that an earlier process left could not be settled: " + err.Error())
		}
	}
	back, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = cancel
	s.work.Go(func() { s.maintain(back, fresh, unclean) })
	return ctx.Err()
}

// dsn is the address of the file for the driver. What it sets holds for each connection.
func (s *Store) dsn(reading bool) string {
	q := url.Values{}
	set := func(pragma, value string) { q.Add("_pragma", pragma+"("+value+")") }
	set("busy_timeout", strconv.FormatInt(s.opts.BusyTimeout.Milliseconds(), 10))
	if reading {
		set("query_only", "1")
	} else {
		q.Set("_txlock", "immediate")
		set("foreign_keys", "1")
		set("synchronous", s.opts.Synchronous)
		set("journal_size_limit", strconv.Itoa(walSizeLimit))
		if runtime.GOOS == "darwin" {
			set("checkpoint_fullfsync", "1")
		}
	}
	return fileURL(s.path) + "?" + q.Encode()
}

// fileURL is an absolute path as SQLite reads it in a URI.
func fileURL(path string) string {
	path = filepath.ToSlash(path)
	if path[0] != '/' {
		path = "/" + path // C:/…
	}
	return (&url.URL{Scheme: "file", Path: path}).String()
}

// journal settles how changes are written. A file in WAL mode is never taken out of it here:
// where locks do not hold, that would destroy what others have committed.
func (s *Store) journal(ctx context.Context) error {
	var mode string
	if err := s.w.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode); err != nil {
		return err
	}
	remote := remoteFS(filepath.Dir(s.path))
	const convert = "; to change it, stop every program that uses it and run: sqlite3 %s 'PRAGMA journal_mode=delete'"
	switch {
	case mode == "wal" && remote != "":
		s.note(fmt.Sprintf("%s is in WAL mode on a %s file system, which can damage it"+convert, s.path, remote, s.path))
	case mode == "wal" && s.opts.JournalMode == "delete":
		s.note(fmt.Sprintf("database.journal_mode is delete, but %s is in WAL mode and stays so"+convert, s.path, s.path))
	case mode != "wal" && s.opts.JournalMode == "wal" && remote != "":
		s.note(fmt.Sprintf("%s is on a %s file system: WAL is not used", s.path, remote))
	case mode != "wal" && s.opts.JournalMode == "wal":
		err := s.w.QueryRowContext(ctx, "PRAGMA journal_mode = wal").Scan(&mode)
		if err != nil && !busy(err) && !readOnlyFile(err) {
			return err
		}
		if mode != "wal" {
			s.note(fmt.Sprintf("%s could not be put into WAL mode and is written in mode %s", s.path, mode))
		}
	}
	s.health.JournalMode, s.health.Synchronous = mode, s.opts.Synchronous
	return nil
}

// tighten takes an existing file from other users. Its -wal and -shm get its mode from SQLite.
// Only the path is touched: a descriptor of our own would end the locks when it is closed.
func (s *Store) tighten() {
	for _, path := range []string{s.path, s.path + "-wal", s.path + "-shm"} {
		info, err := os.Lstat(path)
		if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&^s.opts.Mode == 0 || runtime.GOOS == "windows" {
			continue
		}
		if err := os.Chmod(path, s.opts.Mode); err != nil {
			s.note(fmt.Sprintf("%s can be read by others and its mode cannot be changed: %v", path, err))
		}
	}
}

// Close stops the background work and closes the file. Turns that are still open stay so: close
// them first. A file that was replaced or is damaged is not closed but left to the end of the
// process, because closing it would write to it; it cannot be opened again in this process.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	unsafe := s.halted != nil && (errors.Is(s.halted, ErrReplaced) || s.health.Damage != nil)
	s.mu.Unlock()
	s.stop()
	s.work.Wait()
	if unsafe {
		return nil
	}
	err := s.closeHandles()
	opened.release(s)
	return err
}

func (s *Store) closeHandles() error {
	var errs []error
	for _, db := range []*sql.DB{s.r, s.w} { // the writer last: it does the closing checkpoint
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(errs...)
}

// Path is the absolute path of the file.
func (s *Store) Path() string { return s.path }
