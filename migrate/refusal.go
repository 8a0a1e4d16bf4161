// SPDX-License-Identifier: MIT

package migrate

import (
	"errors"
	"fmt"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
	"github.com/hermes-appliance/hermes-appliance/migrate/yamlspan"
)

// The reasons for which a home is left alone. In every case no byte of it has changed.
var (
	// ErrNewerStamp: a newer program wrote the config; only that one, or a newer one, can
	// know what it means.
	ErrNewerStamp = errors.New("config is newer than this binary")
	// ErrBelowFloor: the config is older than the ladder reaches; it must be brought to
	// [Floor] by hand.
	ErrBelowFloor = errors.New("config is too old to migrate")
	// ErrBadStamp: the stamp is there and is no version.
	ErrBadStamp = errors.New("config version is unreadable")
	// ErrManaged: somebody else writes these files, or they cannot be written; the plan is
	// valid and must be carried out there.
	ErrManaged = errors.New("home is managed or read-only")
	// ErrAmbiguous: the file cannot be read, or cannot be edited without guessing.
	ErrAmbiguous = errors.New("file cannot be edited safely")
	// ErrChanged: a file changed while it was being migrated, or since the backup that was
	// to be restored. Trying again is safe.
	ErrChanged = errors.New("file was changed by someone else")
)

// Refusal is an error that says where the obstacle is and what removes it.
type Refusal struct {
	Kind error    // one of the errors above
	File string   // path of the file
	Line int      // 1-based, 0 = none
	Path []string // key in the file
	Msg  string   // what was found and what was expected
	Fix  string   // what to do, often a command
}

func (r *Refusal) Error() string {
	var b strings.Builder
	b.WriteString(r.File)
	if r.Line > 0 {
		fmt.Fprintf(&b, ", line %d", r.Line)
	}
	if len(r.Path) > 0 {
		b.WriteString(", " + yamlspan.PathString(r.Path))
	}
	b.WriteString(": " + r.Msg)
	if r.Fix != "" {
		b.WriteString("; " + r.Fix)
	}
	return b.String()
}

// Unwrap returns Kind.
func (r *Refusal) Unwrap() error { return r.Kind }

// ExitCode follows the table.
func (r *Refusal) ExitCode() exitcode.Code {
	switch {
	case errors.Is(r.Kind, ErrNewerStamp):
		return exitcode.Newer
	case errors.Is(r.Kind, ErrBelowFloor), errors.Is(r.Kind, ErrBadStamp):
		return exitcode.BelowFloor
	case errors.Is(r.Kind, ErrManaged):
		return exitcode.Managed
	case errors.Is(r.Kind, ErrAmbiguous):
		return exitcode.Unparseable
	}
	return exitcode.Error
}

// ambiguous turns an error of the editor into a refusal for a file.
func ambiguous(file string, err error) *Refusal {
	r := &Refusal{Kind: ErrAmbiguous, File: file, Msg: err.Error(), Fix: "nothing was changed; mend the line and run again"}
	var syntax *yamlspan.SyntaxError
	var edit *yamlspan.EditError
	switch {
	case errors.As(err, &edit):
		r.Line, r.Path, r.Msg = edit.Line, edit.Path, edit.Msg
	case errors.As(err, &syntax):
		r.Line, r.Msg = syntax.Line, fmt.Sprintf("not valid YAML at column %d: %s", syntax.Column, syntax.Msg)
	}
	return r
}
