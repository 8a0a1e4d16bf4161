// SPDX-License-Identifier: MIT

package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
	"github.com/hermes-appliance/hermes-appliance/migrate/yamlspan"
)

// The reasons of an [*Error].
var (
	// ErrUnreadable: a file is there and cannot be read or understood, or cannot be edited
	// without guessing. Nothing is known about any key of it.
	ErrUnreadable = errors.New("file cannot be read")
	// ErrType: a value is there and is not what its reader expects. Other keys can be read.
	ErrType = errors.New("value has the wrong type")
	// ErrUsage: what was asked for makes no sense, whatever the file says.
	ErrUsage = errors.New("not a usable key or value")
	// ErrNoKey: nothing, not even a default, is known under this key.
	ErrNoKey = errors.New("no such key")
	// ErrNoFile: the home has no config.yaml to edit.
	ErrNoFile = errors.New("no config file")
	// ErrManaged: somebody else writes this file or decides this key.
	ErrManaged = errors.New("decided elsewhere")
	// ErrNewer: a newer program wrote the file; it must not be written by this one.
	ErrNewer = errors.New("config is newer than this binary")
	// ErrChanged: the file was written by someone else meanwhile. Trying again is safe.
	ErrChanged = errors.New("file was changed by someone else")
)

// Error says where the obstacle is and what removes it. It never contains a value of a key
// that could be a secret.
type Error struct {
	Kind error    // one of the errors above
	File string   // path of the file, "" = none
	Line int      // 1-based, 0 = none
	Path []string // key in the file
	Msg  string   // what was found and what was expected
	Fix  string   // what to do
	Err  error    // the cause, nil = none
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ", line %d", e.Line)
	}
	if len(e.Path) > 0 {
		if b.Len() > 0 {
			b.WriteString(", ")
		}
		b.WriteString(yamlspan.PathString(e.Path))
	}
	if b.Len() > 0 {
		b.WriteString(": ")
	}
	b.WriteString(e.Msg)
	if e.Fix != "" {
		b.WriteString("; " + e.Fix)
	}
	return b.String()
}

// Unwrap returns Kind and the cause.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Err}
}

// ExitCode follows the table.
func (e *Error) ExitCode() exitcode.Code {
	switch {
	case errors.Is(e.Kind, ErrUnreadable):
		return exitcode.Unparseable
	case errors.Is(e.Kind, ErrType):
		return exitcode.Config
	case errors.Is(e.Kind, ErrUsage):
		return exitcode.Usage
	case errors.Is(e.Kind, ErrManaged):
		return exitcode.Managed
	case errors.Is(e.Kind, ErrNewer):
		return exitcode.Newer
	}
	return exitcode.Error
}

// unparsable turns an error of the parser or the editor into one for a file.
func unparsable(file string, err error) *Error {
	e := &Error{Kind: ErrUnreadable, File: file, Msg: err.Error(), Fix: "mend the line", Err: err}
	var own *Error
	var syntax *yamlspan.SyntaxError
	var edit *yamlspan.EditError
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &syntax):
		e.Line, e.Msg = syntax.Line, fmt.Sprintf("not valid YAML at column %d: %s", syntax.Column, syntax.Msg)
	case errors.As(err, &edit):
		e.Line, e.Path, e.Msg = edit.Line, edit.Path, edit.Msg
	}
	return e
}
