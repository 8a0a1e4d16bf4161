// SPDX-License-Identifier: MIT

package session

import (
	"database/sql"
	"errors"
	"fmt"

	"modernc.org/sqlite"
)

// Result codes of SQLite (https://sqlite.org/rescode.html).
const (
	codeBusy        = 5
	codeLocked      = 6
	codeReadOnly    = 8
	codeCorrupt     = 11
	codeFull        = 13
	codeCantOpen    = 14
	codeConstraint  = 19
	codeNotADB      = 26
	codeCorruptVtab = 267 // of a virtual table: an index
	codeForeignKey  = 787
	codePrimaryKey  = 1555
)

// indexError is a key that exists already where a message was inserted. A message's own key is
// new each time: it is the index that misread itself and wants to write what it has.
type indexError struct{ err error }

func (e *indexError) Error() string { return "search index: " + e.err.Error() }
func (e *indexError) Unwrap() error { return e.err }

// ofMessage marks the error of an insert into messages.
func ofMessage(err error) error {
	if code(err) == codePrimaryKey {
		return &indexError{err}
	}
	return err
}

// code is the extended result code of an error, 0 if it has none.
func code(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code()
	}
	return 0
}

func busy(err error) bool { c := code(err) & 0xff; return c == codeBusy || c == codeLocked }

func readOnlyFile(err error) bool { return code(err)&0xff == codeReadOnly }

// corrupt holds for errors that say the file is damaged, in its canonical part or not.
func corrupt(err error) bool {
	c := code(err) & 0xff
	return c == codeCorrupt || c == codeNotADB || searchOnly(err)
}

// searchOnly holds for errors that say themselves that only a search index is damaged.
func searchOnly(err error) bool {
	return code(err) == codeCorruptVtab || errors.As(err, new(*indexError))
}

// fault gives an error of SQLite its meaning for the caller.
func fault(err error) error {
	switch c := code(err); {
	case err == nil:
		return nil
	case busy(err):
		return fmt.Errorf("state.db: %w (%v)", ErrBusy, err) //nolint:errorlint // one cause for the caller, one for people
	case c&0xff == codeFull:
		return fmt.Errorf("state.db: %w (%v)", ErrFull, err) //nolint:errorlint // as above
	case c&0xff == codeReadOnly:
		return fmt.Errorf("state.db: %w (%v)", ErrReadOnly, err) //nolint:errorlint // as above
	case c != 0:
		return fmt.Errorf("state.db: %w", err)
	}
	return err
}

// none turns the error of an empty result into another.
func none(err, as error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return as
	}
	return fault(err)
}
