// SPDX-License-Identifier: MIT

package migrate

import (
	"bytes"
	"strings"
)

func v041() Step {
	return Step{
		To: 41, ID: "41-soul-section",
		Title: "SOUL.md loses the section \"Messaging other agents\" that a plugin had appended",
		Detail: "An old desktop plugin appended the section \"## Messaging other agents\"; newer programs put a live one into the " +
			"prompt and skip this one when they read the file. The section, up to the next heading of its level or above, and the empty " +
			"lines before it are removed. The plugin's exact text varied with the people's agents, so where the heading stands twice or in a " +
			"code block, nothing is removed and the line is reported.",
		run: func(w *work) error {
			if w.in.ConfigOnly {
				w.advise("on the home itself this step also looks for the old section \"Messaging other agents\" in SOUL.md")
				return nil
			}
			if w.soul == nil {
				return nil
			}
			s := v041Find(w.soul)
			switch {
			case s.line == 0:
				return nil
			case s.doubt != "":
				w.advise("SOUL.md line %d: the heading \"Messaging other agents\" %s; if it is the old plugin's section, remove it by hand", s.line, s.doubt)
				return nil
			}
			w.record(Change{
				File: FileSoul, Path: []string{"Messaging other agents"}, Action: Removed, Line: s.line,
				Old: "(a section)", Reason: "an old plugin's copy; the program puts a live one into the prompt",
			})
			w.soul = append(append([]byte(nil), w.soul[:s.from]...), w.soul[s.to:]...)
			return nil
		},
	}
}

// v041Section is where the section stands; line 0 = nowhere.
type v041Section struct {
	from, to int // with the empty lines before it
	line     int // of the heading, 1-based
	doubt    string
}

func v041Find(soul []byte) v041Section {
	var s v041Section
	fence, open := "", false // a code block, the section
	at, blanksFrom, line := 0, 0, 0
	for text := range bytes.SplitAfterSeq(soul, []byte("\n")) {
		line++
		trimmed := strings.TrimRight(string(text), " \t\r\n")
		switch {
		case fence != "":
			if strings.HasPrefix(strings.TrimLeft(trimmed, " "), fence) {
				fence = ""
			} else if trimmed == "## Messaging other agents" {
				return v041Section{line: line, doubt: "stands in a code block"}
			}
		case strings.HasPrefix(strings.TrimLeft(trimmed, " "), "```"):
			fence = "```"
		case strings.HasPrefix(strings.TrimLeft(trimmed, " "), "~~~"):
			fence = "~~~"
		case trimmed == "## Messaging other agents":
			if s.line > 0 {
				s.doubt = "stands there twice"
				return s
			}
			s = v041Section{from: blanksFrom, to: len(soul), line: line}
			open = true
		case open && (strings.HasPrefix(trimmed, "# ") || strings.HasPrefix(trimmed, "## ")):
			s.to, open = at, false
			if blanksFrom < at && blanksFrom > s.from {
				s.to = blanksFrom // the next heading keeps the empty lines before it
			}
		}
		at += len(text)
		if trimmed != "" {
			blanksFrom = at
		}
	}
	return s
}
