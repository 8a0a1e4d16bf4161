// SPDX-License-Identifier: MIT

package files

import (
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"
)

// errDrift says that both texts have backslashes before quotes that the file does not have.
var errDrift = errors.New(`old_string and new_string have a backslash before a quote that the file does not have there: pass the text without escaping quotes`)

// drifted finds quotes that were escaped on the way to us.
func drifted(region, old, with string) bool {
	for _, q := range []string{`\'`, `\"`} {
		if strings.Contains(old, q) && strings.Contains(with, q) && !strings.Contains(region, q) {
			return true
		}
	}
	return false
}

// putLines writes with in place of lines that fit old but for their blanks: lines that old and
// with share stay as the file has them, new lines move by the difference in indentation.
func putLines(region, old, with string) (string, error) {
	if drifted(region, old, with) {
		return "", errDrift
	}
	have, _ := splitLines(region)
	was, _ := splitLines(old)
	now, _ := splitLines(with)
	if len(have) != len(was) {
		return with, nil // cannot be: these strategies match line by line
	}
	cr := len(have) > 0 && strings.HasSuffix(have[0], "\r")
	move := shift(have, was)
	var out []string
	i := 0
	for _, step := range lineSteps(was, now) {
		switch step.kind {
		case same2:
			out = append(out, have[i])
			i++
		case gone:
			i++
		case added:
			l := move(step.text)
			if cr && !strings.HasSuffix(l, "\r") && i < len(have) {
				l += "\r"
			}
			out = append(out, l)
		}
	}
	text := strings.Join(out, "\n")
	if strings.HasSuffix(with, "\n") && len(now) > 0 {
		text += "\n"
	}
	return text, nil
}

// shift returns how a new line moves: as the line of old with the same indentation did, else
// by what the first line did.
func shift(have, was []string) func(string) string {
	moved := map[string]string{}
	from, to, first := "", "", true
	for i, l := range was {
		if strings.TrimSpace(l) == "" {
			continue
		}
		in, out := indent(l), indent(have[i])
		if first {
			from, to, first = in, out, false
		}
		if _, ok := moved[in]; !ok {
			moved[in] = out
		}
	}
	return func(s string) string {
		in := indent(s)
		if strings.TrimSpace(s) == "" {
			return s
		}
		if out, ok := moved[in]; ok {
			return out + s[len(in):]
		}
		if rest, ok := strings.CutPrefix(s, from); ok {
			return to + rest
		}
		return s
	}
}

type stepKind int

const (
	same2 stepKind = iota
	gone
	added
)

type lineStep struct {
	kind stepKind
	text string
}

// lineSteps is the way from one list of lines to another.
func lineSteps(was, now []string) []lineStep {
	n, m := len(was), len(now)
	if n*m > 4_000_000 { // a whole file: no line is worth keeping by its blanks
		var out []lineStep
		for range was {
			out = append(out, lineStep{gone, ""})
		}
		for _, l := range now {
			out = append(out, lineStep{added, l})
		}
		return out
	}
	common := make([][]int32, n+1)
	for i := range common {
		common[i] = make([]int32, m+1)
	}
	for i := n - 1; i >= 0; i-- {
		for j := m - 1; j >= 0; j-- {
			if was[i] == now[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var out []lineStep
	i, j := 0, 0
	for i < n || j < m {
		switch {
		case i < n && j < m && was[i] == now[j]:
			out = append(out, lineStep{same2, now[j]})
			i, j = i+1, j+1
		case i < n && (j == m || common[i+1][j] >= common[i][j+1]):
			out = append(out, lineStep{gone, ""})
			i++
		default:
			out = append(out, lineStep{added, now[j]})
			j++
		}
	}
	return out
}

// normaliser maps text to a plainer one; at[i] is where the i-th byte of the result comes
// from, and at[len] the end.
type normaliser func(text string) (out string, at []int)

// collapse makes one blank of every run of blanks, and none of those at the ends of lines.
func collapse(text string) (string, []int) {
	var b strings.Builder
	at := make([]int, 0, len(text)+1)
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c != ' ' && c != '\t' && c != '\r' {
			b.WriteByte(c)
			at = append(at, i)
			continue
		}
		from := i
		for i+1 < len(text) && (text[i+1] == ' ' || text[i+1] == '\t' || text[i+1] == '\r') {
			i++
		}
		if i+1 == len(text) || text[i+1] == '\n' || from == 0 || text[from-1] == '\n' {
			continue
		}
		b.WriteByte(' ')
		at = append(at, from)
	}
	return b.String(), append(at, len(text))
}

// plain writes typographic characters as a keyboard has them.
func plain(text string) (string, []int) {
	var b strings.Builder
	at := make([]int, 0, len(text)+1)
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		s := text[i : i+n]
		switch {
		case r == '\u201c' || r == '\u201d' || r == '\u201e' || r == '\u00ab' || r == '\u00bb':
			s = `"`
		case r == '\u2018' || r == '\u2019' || r == '\u201a':
			s = "'"
		case r == '\u2014':
			s = "--"
		case r == '\u2013' || r == '\u2212' || r == '\u2010' || r == '\u2011':
			s = "-"
		case r == '\u2026':
			s = "..."
		case r == '\u00a0' || r != ' ' && unicode.Is(unicode.Zs, r):
			s = " "
		case r == '\u200b' || r == '\u200d' || r == '\ufeff' || r == '\u00ad':
			s = ""
		}
		b.WriteString(s)
		for range len(s) {
			at = append(at, i)
		}
		i += n
	}
	return b.String(), append(at, len(text))
}

// byMap finds old where both are equal after norm.
func byMap(norm normaliser) func(text, old string) []span {
	return func(text, old string) []span {
		want, _ := norm(old)
		if strings.TrimSpace(want) == "" {
			return nil
		}
		have, at := norm(text)
		if have == text && want == old {
			return nil
		}
		var out []span
		for _, p := range all(have, want) {
			s := span{at[p.from], at[p.to]}
			// The match ends behind the last character that is part of it, not before the next:
			// blanks that norm dropped in between are not ours.
			if p.to > p.from {
				_, n := utf8.DecodeRuneInString(text[at[p.to-1]:])
				if end := at[p.to-1] + n; end <= s.to && !endsBlank(want) {
					s.to = end
				}
			}
			if len(out) == 0 || s.from >= out[len(out)-1].to {
				out = append(out, s)
			}
		}
		return out
	}
}

func endsBlank(s string) bool { return strings.HasSuffix(s, " ") || strings.HasSuffix(s, "\n") }

// putMapped changes in a region what differs between old and with, and keeps what the file
// has for all that is the same.
func putMapped(norm normaliser) func(region, old, with string) (string, error) {
	return func(region, old, with string) (string, error) {
		if drifted(region, old, with) {
			return "", errDrift
		}
		was, _ := norm(old)
		have, at := norm(region)
		now, _ := norm(with)
		if was != have {
			return with, nil
		}
		if was == old { // the model's text is the plain one: its changes are exact
			now = with
		}
		var b strings.Builder
		last := 0
		edits := udiff.Strings(was, now)
		udiff.SortEdits(edits)
		for _, e := range edits {
			from, to := at[e.Start], at[e.End]
			if from < last {
				return with, nil // inside one character of the file
			}
			b.WriteString(region[last:from])
			b.WriteString(e.New)
			last = max(to, from)
		}
		b.WriteString(region[last:])
		return b.String(), nil
	}
}

// unescape undoes escapes that a text went through once too often.
func unescape(s string) string {
	return strings.NewReplacer(`\\`, `\\`, `\n`, "\n", `\t`, "\t", `\r`, "\r", `\"`, `"`, `\'`, `'`).Replace(s)
}
