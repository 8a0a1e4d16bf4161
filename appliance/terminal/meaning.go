// SPDX-License-Identifier: MIT

package terminal

import (
	"path"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// meaning explains an exit code that is no failure, or that a signal made, so that no turn is
// spent on it. "" = nothing to say.
func meaning(command string, res Result) string {
	if res.Code == 0 || res.TimedOut || res.Interrupted || res.NoDir || res.NotStarted {
		return ""
	}
	if s := map[int]string{
		132: "SIGILL: an illegal instruction", 134: "SIGABRT: it gave up by itself", 135: "SIGBUS: a misaligned access to memory",
		136: "SIGFPE: an arithmetic error", 137: "SIGKILL: often the kernel, out of memory, or kill -9", 139: "SIGSEGV: the program crashed",
		141: "SIGPIPE: nobody read its output any more", 143: "SIGTERM: it was asked to stop",
	}[res.Code]; s != "" {
		return "usually ended by " + s
	}
	return map[string]map[int]string{
		"grep": {1: "no match (not an error)"}, "egrep": {1: "no match (not an error)"}, "fgrep": {1: "no match (not an error)"}, "rg": {1: "no match (not an error)"},
		"diff": {1: "the files differ (not an error)"}, "cmp": {1: "the files differ (not an error)"},
		"test": {1: "the condition is false (not an error)"}, "[": {1: "the condition is false (not an error)"},
		"curl": {6: "the host cannot be resolved", 7: "no connection to the host", 22: "the server answered with an error", 28: "it took too long"},
	}[last(command)][res.Code]
}

// last is the name of the program whose exit code a command has: the last one of it.
func last(command string) string {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(command), "")
	if err != nil || len(file.Stmts) == 0 {
		return ""
	}
	s := file.Stmts[len(file.Stmts)-1]
	for {
		switch c := s.Cmd.(type) {
		case *syntax.BinaryCmd:
			s = c.Y
		case *syntax.CallExpr:
			if len(c.Args) == 0 {
				return ""
			}
			return path.Base(c.Args[0].Lit())
		default:
			return ""
		}
	}
}
