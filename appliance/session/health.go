// SPDX-License-Identifier: MIT

package session

import (
	"slices"
	"time"
)

// State says how far the store can be relied on.
type State string

// The states, from best to worst.
const (
	Sound    State = "ok"
	Degraded State = "degraded"  // all works, something is slower or wants attention: see Notices, Index, WriteError
	ReadOnly State = "read_only" // nothing is written any more: see Reason
)

// Class says which part of the file is damaged, by the owner of the damaged pages.
type Class string

// The classes, from harmless to grave.
const (
	Whole      Class = ""
	SearchOnly Class = "search index" // rebuilt from the messages
	IndexOnly  Class = "index"        // rebuilt from its table
	Structural Class = "structural"   // of a table, the schema or the list of free pages: nothing rebuilds it
)

// Damage is what a check found.
type Damage struct {
	Class    Class     `json:"class"`
	Parts    []string  `json:"parts"`    // names of the tables and indexes, "" among them for the file itself
	Findings []string  `json:"findings"` // SQLite's words, at most 20
	Seen     time.Time `json:"seen"`
}

// Backup is a copy that was made because of damage.
type Backup struct {
	Path string `json:"path"`
	// Sound says that the copy itself was checked and is whole. A copy of a damaged file is not:
	// it is evidence and the source of a recovery, nothing to restore from.
	Sound bool   `json:"sound"`
	Error string `json:"error,omitempty"` // why there is none
}

// Index is the state of the search indexes.
type Index struct {
	Ready   bool  `json:"ready"`             // false: search reads the messages themselves where the index has none
	Indexed int64 `json:"indexed,omitempty"` // while a rebuild runs: up to this message id …
	Total   int64 `json:"total,omitempty"`   // … of this
}

// Health is what there is to say about a store. It holds no content.
type Health struct {
	State       State     `json:"state"`
	Path        string    `json:"path"`
	Reason      string    `json:"reason,omitempty"` // why nothing is written
	Schema      int       `json:"schema"`           // the number in the file
	JournalMode string    `json:"journal_mode"`
	Synchronous string    `json:"synchronous"`
	Notices     []string  `json:"notices,omitempty"`
	Index       Index     `json:"index"`
	Damage      *Damage   `json:"damage,omitempty"`   // that was not repaired
	Repaired    *Damage   `json:"repaired,omitempty"` // that was, since Open
	Backup      *Backup   `json:"backup,omitempty"`
	WriteError  string    `json:"write_error,omitempty"` // of the last write, "" once one succeeds
	Settled     int       `json:"settled"`               // tool calls that Open gave an "interrupted" result
	Checked     time.Time `json:"checked,omitzero"`      // last whole-file check, also by an earlier process
}

// Health is the present state. It reads nothing from the file.
func (s *Store) Health() Health {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.health
	h.Notices = slices.Clone(h.Notices)
	switch {
	case s.halted != nil:
		h.State, h.Reason = ReadOnly, s.halted.Error()
	case len(h.Notices) > 0 || h.WriteError != "" || !h.Index.Ready || h.Damage != nil:
		h.State = Degraded
	}
	return h
}

// note keeps something that the owner should know, once.
func (s *Store) note(text string) {
	s.mu.Lock()
	known := slices.Contains(s.health.Notices, text)
	if !known {
		s.health.Notices = append(s.health.Notices, text)
	}
	s.mu.Unlock()
	if !known {
		s.opts.Log.Warn("session store", "path", s.path, "notice", text)
	}
}

// halt ends writing for good and returns the reason, the first one if there are several.
func (s *Store) halt(why error) error {
	s.mu.Lock()
	first := s.halted == nil
	if first {
		s.halted = why
	}
	why = s.halted
	s.mu.Unlock()
	if first {
		s.opts.Log.Error("session store takes no writes any more", "path", s.path, "reason", why.Error())
	}
	return why
}

// know changes the health.
func (s *Store) know(change func(h *Health)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.health)
}
