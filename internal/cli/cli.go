// SPDX-License-Identifier: MIT

// Package cli is the command line: it turns arguments into option structs, calls the
// packages that do the work, and prints what they return. Handlers see an [Env] and their
// options, never the flag library. It holds no logic of its own that another program would
// need, and it never ends the process.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermes-appliance/hermes-appliance/appliance"
	"github.com/hermes-appliance/hermes-appliance/appliance/config"
	"github.com/hermes-appliance/hermes-appliance/installer"
	"github.com/hermes-appliance/hermes-appliance/installer/generation"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
	"github.com/hermes-appliance/hermes-appliance/migrate"
)

// Name is the name of the program.
const Name = "hermes-appliance"

// Env is the world as a command sees it.
type Env struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Getenv         func(string) string
	Now            func() time.Time
	Restart        <-chan struct{} // somebody asks the gateway to drain and start again; nil = nobody can
	Exit           func(code int)  // ends the process at once; nil = it cannot be
}

// Main runs one command line and returns the exit code. The result goes to Stdout, errors to
// Stderr; with --json an error is an object there. ctx ends the command early.
func Main(ctx context.Context, args []string, env Env) exitcode.Code {
	st := &state{env: env}
	root := newRoot(st)
	root.SetArgs(args)
	root.SetIn(env.Stdin)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitcode.OK
	}
	if !st.started {
		err = &usageError{err}
	}
	code := exitcode.Of(err)
	if _, said := errors.AsType[*appliance.StopError](err); ctx.Err() != nil && code == exitcode.Error && !said {
		code = exitcode.Interrupted
	}
	if f := cmd.Flags().Lookup("json"); f != nil && f.Value.String() == "true" {
		printJSONError(env.Stderr, strings.TrimPrefix(cmd.CommandPath(), Name+" "), code, err)
	} else {
		printError(env.Stderr, cmd, err)
	}
	return code
}

// state is shared by the commands of one tree.
type state struct {
	env     Env
	started bool // a handler runs: what fails from here on is no usage error
}

// usageError is a wrong command line.
type usageError struct{ err error }

func (e *usageError) Error() string           { return e.err.Error() }
func (e *usageError) Unwrap() error           { return e.err }
func (e *usageError) ExitCode() exitcode.Code { return exitcode.Usage }

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// codeError is an outcome that is no failure to explain: the text is printed already.
type codeError struct {
	code exitcode.Code
	msg  string
}

func (e *codeError) Error() string           { return e.msg }
func (e *codeError) ExitCode() exitcode.Code { return e.code }

func printError(w io.Writer, cmd *cobra.Command, err error) {
	if msg := err.Error(); msg != "" {
		fmt.Fprintf(w, "%s: %s\n", Name, strings.ReplaceAll(msg, "\n", "\n  ")) //nolint:errcheck // nowhere left to say it
	}
	if _, ok := errors.AsType[*usageError](err); ok {
		fmt.Fprintf(w, "See \"%s --help\".\n", cmd.CommandPath()) //nolint:errcheck // nowhere left to say it
	}
}

// schemaVersion is that of everything printed with --json. It grows when a field changes its
// meaning or goes away; new fields do not change it.
const schemaVersion = 1

// envelope is the frame of every --json output.
type envelope struct {
	Schema  int       `json:"schema"`
	Command string    `json:"command"`
	Exit    int       `json:"exit"`
	Result  any       `json:"result,omitempty"`
	Error   *errorDoc `json:"error,omitempty"`
}

// errorDoc is an error as --json prints it.
type errorDoc struct {
	Kind    string   `json:"kind"` // the exit code's name
	Message string   `json:"message"`
	File    string   `json:"file,omitempty"`
	Line    int      `json:"line,omitempty"`
	Path    []string `json:"path,omitempty"`
	Fix     string   `json:"fix,omitempty"`
	Reason  string   `json:"reason,omitempty"` // a word for why the host is left alone
}

func describe(err error) *errorDoc {
	if err == nil {
		return nil
	}
	d := &errorDoc{Kind: exitcode.Of(err).String(), Message: err.Error()}
	if r, ok := errors.AsType[*migrate.Refusal](err); ok {
		d.File, d.Line, d.Path, d.Fix = r.File, r.Line, r.Path, r.Fix
	}
	if r, ok := errors.AsType[*generation.Refusal](err); ok {
		d.File, d.Fix = r.File, r.Fix
	}
	if c, ok := errors.AsType[*config.Error](err); ok {
		d.File, d.Line, d.Path, d.Fix = c.File, c.Line, c.Path, c.Fix
	}
	if r, ok := errors.AsType[*installer.Refusal](err); ok {
		d.File, d.Fix, d.Reason = r.File, r.Fix, r.Reason
	}
	return d
}

func printJSONError(w io.Writer, command string, code exitcode.Code, err error) {
	d := describe(err)
	d.Kind = code.String()
	printJSON(w, envelope{Schema: schemaVersion, Command: command, Exit: int(code), Error: d}) //nolint:errcheck // nowhere left to say it
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
