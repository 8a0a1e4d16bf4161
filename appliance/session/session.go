// SPDX-License-Identifier: MIT

// Package session keeps the conversations of one profile in its state.db, in upstream's schema,
// so that either program opens what the other wrote. A [Store] gives sessions, messages that
// are written one by one as they happen, turn leases, search, usage and routing; it settles
// tool calls that a stop left without a result, watches the file for damage, and stops writing
// when the file cannot be trusted.
//
// It never drops a table, a column or a row it does not know, never lowers or raises the schema
// number of a file it did not make, never keeps a transcript in memory, and never opens
// state.db other than through SQLite: closing any other descriptor would drop the locks that
// SQLite holds for this process. It knows no config and no profile: one Store belongs to one
// file, and the caller hands it the options.
//
// # Derived and canonical
//
// The rows of the ordinary tables are canonical. The search indexes are derived from them and
// may be thrown away: while they are damaged or being rebuilt, messages are still written and
// search reads the rows themselves. Damage to the canonical part ends all writing.
//
// # Sharing the file
//
// Other processes, upstream's among them, may have the file open at the same time; every
// change is one transaction that takes the write lock first. Within this process a file has
// one Store.
package session

import (
	"errors"
	"fmt"
)

// SchemaVersion is the number written into a file that this package makes. It is upstream's.
const SchemaVersion = 30

// What a call can fail with, besides errors of SQLite and of the context.
var (
	// ErrNoSession says that there is no session of that id. Nothing was written.
	ErrNoSession = errors.New("no such session")
	// ErrNoMessage says that the session has no message of that id.
	ErrNoMessage = errors.New("no such message")
	// ErrOpen says that this process already has a Store of the file; use that one.
	ErrOpen = errors.New("already open in this process")
	// ErrClosed says that the Store was closed.
	ErrClosed = errors.New("session store is closed")
	// ErrReadOnly says that the Store has stopped writing, or never could: [Store.Health] says why.
	ErrReadOnly = errors.New("session store takes no writes")
	// ErrReplaced says that the path no longer names the file that was opened (something was
	// restored over it). What is written to the old one would be lost, so writing has ended.
	ErrReplaced = errors.New("state.db was replaced while it was open")
	// ErrBusy says that another program held the write lock for longer than Options.BusyTimeout.
	// Nothing was written; the file is healthy.
	ErrBusy = errors.New("another program holds the write lock")
	// ErrFull says that the disk is full. Nothing was written.
	ErrFull = errors.New("disk is full")
	// ErrTurnRunning says that another turn of the conversation has the lease.
	ErrTurnRunning = errors.New("another turn of this conversation is running")
	// ErrTurnLost says that the lease of the turn was taken over: what it still wants to write
	// would land in the middle of a newer turn.
	ErrTurnLost = errors.New("the lease of this turn is lost")
	// ErrCompressing says that another process is compressing the session.
	ErrCompressing = errors.New("another process is compressing this session")
)

// ContinuedError says that a session was closed by compression and goes on under another id.
type ContinuedError struct {
	Session string
	Tip     string // where the conversation goes on; the same as Session if no child is known
}

func (e *ContinuedError) Error() string {
	return fmt.Sprintf("session %s was compressed and goes on as %s", e.Session, e.Tip)
}

// TitleTakenError says that another session has the title.
type TitleTakenError struct{ Title, Session string }

func (e *TitleTakenError) Error() string {
	return fmt.Sprintf("title %q is the title of session %s", e.Title, e.Session)
}

// TooLongError says that a session has more messages than may be loaded at once.
type TooLongError struct {
	Session string // "" = it is not begun: what was to stand in it is too long
	Limit   int
}

func (e *TooLongError) Error() string {
	if e.Session == "" {
		return fmt.Sprintf("a session cannot begin with a history of %d messages or more (sessions.max_resume_messages)", e.Limit)
	}
	return fmt.Sprintf("session %s has more than %d messages (sessions.max_resume_messages); compress it or start a new one", e.Session, e.Limit)
}

// DamagedError says that the file cannot be used at all: not even its schema can be read.
type DamagedError struct {
	Path   string
	Backup Backup // the zero value when none could be made
	Err    error
}

func (e *DamagedError) Error() string {
	text := fmt.Sprintf("%s: the database is damaged: %v", e.Path, e.Err)
	if e.Backup.Path != "" {
		text += "; a copy of it as it is was kept at " + e.Backup.Path
	}
	return text
}

func (e *DamagedError) Unwrap() error { return e.Err }
