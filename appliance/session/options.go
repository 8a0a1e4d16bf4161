// SPDX-License-Identifier: MIT

package session

import (
	"fmt"
	"io/fs"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Options say how a file is opened. The zero value is what a file on a local disk wants.
type Options struct {
	// JournalMode is database.journal_mode: "wal" or "delete"; "" = wal. It says how a file
	// that is not in WAL mode yet is written. A file in WAL mode stays so, since others may
	// have it open; on a network file system WAL is never turned on.
	JournalMode string
	// Synchronous is database.synchronous: off, normal, full, extra or 0 to 3; "" = full: a
	// message whose write has returned survives a power cut. Never below full on darwin.
	Synchronous string
	// BusyTimeout is how long a write waits for another program's; 0 = 20 s.
	BusyTimeout time.Duration

	Mode     fs.FileMode // of a file that does not exist yet; 0 = 0600
	KeepMode bool        // leave the mode of an existing file alone: managed homes, containers, shared volumes

	// Profile is written into new sessions as profile_name; "" = none.
	Profile string
	// Role is a name that one process at a time has for this file; the caller guards that, the
	// gateway by the lock of its home. Turns that an earlier process of the same role left are
	// over, also where its process id can prove nothing (another container). "" = none.
	Role string

	// MaxHistory is how many messages History loads at most (sessions.max_resume_messages);
	// 0 = 20,000, negative = no limit.
	MaxHistory int
	// CheckEvery is how long a sound whole-file check holds; 0 = a day. After an unclean stop
	// the file is checked in any case. The check runs after Open has returned.
	CheckEvery time.Duration
	// CheckAfter is how long after Open the check begins, so that it takes nothing from the start
	// of a program; 0 = half a minute, negative = at once. After an unclean stop it begins at once.
	CheckAfter time.Duration

	Log *slog.Logger     // nil = nothing is logged
	Now func() time.Time // nil = the clock
}

const (
	defaultBusy    = 20 * time.Second
	defaultHistory = 20_000
	defaultCheck   = 24 * time.Hour
	walSizeLimit   = 64 << 20 // bytes that an emptied -wal keeps
)

// settled returns the options with their defaults, or says which value is not understood.
func (o Options) settled() (Options, error) {
	o.JournalMode = strings.ToLower(o.JournalMode)
	if o.JournalMode == "" {
		o.JournalMode = "wal"
	}
	if o.JournalMode != "wal" && o.JournalMode != "delete" {
		return o, fmt.Errorf("database.journal_mode: %q is neither wal nor delete", o.JournalMode)
	}
	levels := []string{"off", "normal", "full", "extra"}
	switch i := slices.Index(levels, strings.ToLower(o.Synchronous)); {
	case o.Synchronous == "":
		o.Synchronous = "full"
	case i >= 0:
		o.Synchronous = levels[i]
	case len(o.Synchronous) == 1 && o.Synchronous[0] >= '0' && o.Synchronous[0] <= '3':
		o.Synchronous = levels[o.Synchronous[0]-'0']
	default:
		return o, fmt.Errorf("database.synchronous: %q is none of off, normal, full, extra, 0 to 3", o.Synchronous)
	}
	if runtime.GOOS == "darwin" && o.Synchronous != "extra" {
		o.Synchronous = "full" // its fsync orders nothing: less leaves half-written pages
	}
	if o.BusyTimeout <= 0 {
		o.BusyTimeout = defaultBusy
	}
	if o.Mode == 0 {
		o.Mode = 0o600
	}
	if o.MaxHistory == 0 {
		o.MaxHistory = defaultHistory
	}
	if o.CheckEvery == 0 {
		o.CheckEvery = defaultCheck
	}
	if o.CheckAfter == 0 {
		o.CheckAfter = 30 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o, nil
}
