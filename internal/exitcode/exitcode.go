// SPDX-License-Identifier: MIT

// Package exitcode is the table of exit codes: what the process says to scripts and to the
// service manager. Help texts, docs and rendered units take the numbers from here. It never
// ends the process.
package exitcode

import (
	"errors"
	"fmt"
	"strings"
)

// Code is an exit code.
type Code int

// The table. The numbers are a contract: a code keeps its meaning for ever.
const (
	OK          Code = 0
	Error       Code = 1
	Usage       Code = 2
	Pending     Code = 3
	Newer       Code = 4
	Managed     Code = 5
	BelowFloor  Code = 6
	Locked      Code = 7
	Unparseable Code = 8
	Restart     Code = 75
	Config      Code = 78
	Interrupted Code = 130
)

// row is one line of the table.
type row struct {
	code    Code
	slug    string
	meaning string
}

func table() []row {
	return []row{
		{OK, "ok", "done, or nothing to do"},
		{Error, "error", "something failed; nothing is half done"},
		{Usage, "usage", "the command line is wrong"},
		{Pending, "pending", "--check: there is work to do"},
		{Newer, "newer", "the home was written by a newer version than this binary"},
		{Managed, "managed", "the home is managed elsewhere or read-only; the plan was only reported"},
		{BelowFloor, "below-floor", "the config is older than this binary can migrate, or its version is unreadable"},
		{Locked, "locked", "another process holds the home"},
		{Unparseable, "unparseable", "a file cannot be read, or cannot be edited without guessing"},
		{Restart, "restart", "the service asks to be started again"},
		{Config, "config", "the configuration is wrong; starting again will not help"},
		{Interrupted, "interrupted", "stopped by a signal"},
	}
}

func (c Code) row() row {
	for _, r := range table() {
		if r.code == c {
			return r
		}
	}
	return row{c, fmt.Sprintf("exit-%d", int(c)), "unknown"}
}

// String returns the code's name as it stands in JSON output, e.g. "below-floor".
func (c Code) String() string { return c.row().slug }

// Meaning returns one line for people.
func (c Code) Meaning() string { return c.row().meaning }

// All returns every code in ascending order.
func All() []Code {
	var out []Code
	for _, r := range table() {
		out = append(out, r.code)
	}
	return out
}

// Block returns the EXIT STATUS part of a help text for the given codes.
func Block(codes ...Code) string {
	var b strings.Builder
	b.WriteString("EXIT STATUS\n")
	for _, c := range codes {
		fmt.Fprintf(&b, "  %3d  %s\n", int(c), c.Meaning())
	}
	return b.String()
}

// Of returns the code of an error: OK for nil, the code of the first error in its tree that
// has a method ExitCode() Code, else Error.
func Of(err error) Code {
	if err == nil {
		return OK
	}
	var coded interface{ ExitCode() Code }
	if errors.As(err, &coded) {
		return coded.ExitCode()
	}
	return Error
}
