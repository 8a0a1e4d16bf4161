// SPDX-License-Identifier: MIT

package terminal

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Background rewrites "A && B &" to "A && { B & };": bash would start a shell that waits for
// both, holds the output of the command open and hides a failure of A. What stands in quotes,
// here-documents and substitutions stays as it is, and so does a text that cannot be parsed.
func Background(text string) string {
	if !strings.Contains(text, "&") {
		return text
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
	if err != nil {
		return text
	}
	type edit struct {
		at, cut int
		text    string
	}
	var edits []edit
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CmdSubst, *syntax.ProcSubst:
			return false
		case *syntax.Stmt:
			list, ok := n.Cmd.(*syntax.BinaryCmd)
			if !ok || !n.Background || n.Negated || list.Op != syntax.AndStmt && list.Op != syntax.OrStmt {
				return true
			}
			amp := int(n.Semicolon.Offset())
			if amp >= len(text) || text[amp] != '&' {
				return true
			}
			edits = append(edits, edit{int(list.Y.Pos().Offset()), 0, "{ "}, edit{amp, 1, "& };"})
		}
		return true
	})
	slices.SortFunc(edits, func(a, b edit) int { return b.at - a.at })
	for _, e := range edits {
		text = text[:e.at] + e.text + text[e.at+e.cut:]
	}
	return text
}
