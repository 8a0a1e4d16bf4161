// SPDX-License-Identifier: MIT

package files

import (
	"fmt"
	"slices"
	"strings"
)

// strategy is one way to find old text in a file. The names are upstream's, which counts them.
type strategy string

const (
	exact     strategy = "exact"
	trimmed   strategy = "line_trimmed"
	indented  strategy = "indentation_flexible"
	spaced    strategy = "whitespace_normalized"
	unicoded  strategy = "unicode_normalized"
	unescaped strategy = "escape_normalized"
	anchored  strategy = "block_anchor"
	maxListed          = 5
	// maxCompared bounds how many lines a strategy compares; a file of equal lines must not
	// take for ever.
	maxCompared = 5_000_000
	anchorLike  = 0.7 // how much alike the inner lines of an anchored block must be
)

// span is a place in the text of a file, in bytes.
type span struct{ from, to int }

// edit is one replacement that was found.
type edit struct {
	at   span
	text string
	how  strategy
}

// AmbiguousError says that old text fits several places.
type AmbiguousError struct {
	Lines []int // 1-based, where it fits
	text  string
}

func (e *AmbiguousError) Error() string { return e.text }

// NoMatchError says that old text is nowhere in the file.
type NoMatchError struct {
	Near []int // 1-based lines that look like its first line
	text string
}

func (e *NoMatchError) Error() string { return e.text }

// find returns the places of old in text by the strictest strategy that has any. pick, if not
// nil, leaves out places that do not count.
func find(text, old, with string, all bool, pick func([]span) []span) ([]edit, error) {
	for _, s := range ladder() {
		places := s.find(text, old)
		if len(places) > 0 && pick != nil {
			places = pick(places)
		}
		if len(places) == 0 {
			continue
		}
		if len(places) > 1 && (!all || s.how == anchored) {
			return nil, ambiguous(text, places, s.how, all)
		}
		edits := make([]edit, len(places))
		for i, p := range places {
			put, err := s.put(text[p.from:p.to], old, with)
			if err != nil {
				return nil, err
			}
			edits[i] = edit{p, put, s.how}
		}
		return edits, nil
	}
	return nil, noMatch(text, old)
}

// rung is a strategy: how it finds, and what it puts in place of a region that it found.
type rung struct {
	how  strategy
	find func(text, old string) []span
	put  func(region, old, with string) (string, error)
}

func ladder() []rung {
	return []rung{
		{exact, func(text, old string) []span { return all(text, old) }, func(_, _, with string) (string, error) { return with, nil }},
		// What differs in a common indentation fits line by line too: the stricter comes first.
		{indented, byLines(nil, true), putLines},
		{trimmed, byLines(strings.TrimSpace, false), putLines},
		{spaced, byMap(collapse), putMapped(collapse)},
		{unicoded, byMap(plain), putMapped(plain)},
		{unescaped, func(text, old string) []span {
			if u := unescape(old); u != old {
				return all(text, u)
			}
			return nil
		}, func(_, _, with string) (string, error) { return unescape(with), nil }},
		{anchored, byAnchors, putLines},
	}
}

// looser returns the strategy that is further down the ladder.
func looser(a, b strategy) strategy {
	rank := func(s strategy) int { return slices.IndexFunc(ladder(), func(r rung) bool { return r.how == s }) }
	if rank(b) > rank(a) {
		return b
	}
	return a
}

// all returns the places of s that do not overlap.
func all(text, s string) []span {
	var out []span
	for from := 0; s != ""; {
		i := strings.Index(text[from:], s)
		if i < 0 {
			break
		}
		out = append(out, span{from + i, from + i + len(s)})
		from += i + len(s)
	}
	return out
}

// splitLines returns lines without their newline and where each starts. What stands after the
// last newline is a line; nothing there is none.
func splitLines(text string) (lines []string, starts []int) {
	at := 0
	for l := range strings.Lines(text) {
		lines, starts = append(lines, strings.TrimSuffix(l, "\n")), append(starts, at)
		at += len(l)
	}
	return lines, starts
}

// byLines finds whole lines that are equal after norm, or, with relative, that differ in a
// common indentation only.
func byLines(norm func(string) string, relative bool) func(text, old string) []span {
	return func(text, old string) []span {
		want, _ := splitLines(old)
		have, starts := splitLines(text)
		if len(want) == 0 || len(want) > len(have) {
			return nil
		}
		if relative {
			want = dedent(want)
		} else {
			want, have = mapLines(want, norm), mapLines(have, norm)
		}
		if !slices.ContainsFunc(want, func(l string) bool { return strings.TrimSpace(l) != "" }) {
			return nil
		}
		head := strings.TrimSpace(want[0])
		compared := 0
		var out []span
		for i := 0; i+len(want) <= len(have); i++ {
			if strings.TrimSpace(have[i]) != head {
				continue
			}
			if compared += len(want); compared > maxCompared {
				return nil
			}
			window := have[i : i+len(want)]
			if relative {
				window = dedent(window)
			}
			if slices.Equal(window, want) {
				out = append(out, region(text, old, starts, i, len(want)))
				i += len(want) - 1
			}
		}
		return out
	}
}

// region is where n lines from the i-th stand, with their last newline only if old has one.
func region(text, old string, starts []int, i, n int) span {
	end := len(text)
	if i+n < len(starts) {
		end = starts[i+n]
	}
	if !strings.HasSuffix(old, "\n") && strings.HasSuffix(text[starts[i]:end], "\n") {
		end--
	}
	return span{starts[i], end}
}

func mapLines(lines []string, f func(string) string) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = f(l)
	}
	return out
}

func indent(line string) string { return line[:len(line)-len(strings.TrimLeft(line, " \t"))] }

// dedent takes the common indentation off, and blanks off the ends of lines.
func dedent(lines []string) []string {
	common, first := "", true
	for _, l := range lines {
		if strings.TrimSpace(l) == "" {
			continue
		}
		if in := indent(l); first {
			common, first = in, false
		} else {
			common = common[:commonPrefix(common, in)]
		}
	}
	return mapLines(lines, func(l string) string {
		return strings.TrimRight(strings.TrimPrefix(l, common), " \t\r")
	})
}

func commonPrefix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// byAnchors finds blocks of as many lines whose first and last line fit and whose inner lines
// are much alike.
func byAnchors(text, old string) []span {
	want, _ := splitLines(old)
	have, starts := splitLines(text)
	if len(want) < 3 || len(want) > len(have) {
		return nil
	}
	want, have = mapLines(want, strings.TrimSpace), mapLines(have, strings.TrimSpace)
	first, last := want[0], want[len(want)-1]
	if first == "" || last == "" {
		return nil
	}
	const most = 20_000
	var out []span
	compared := 0
	for i := 0; i+len(want) <= len(have); i++ {
		if have[i] != first || have[i+len(want)-1] != last {
			continue
		}
		if compared += len(want); compared > most {
			return nil
		}
		sum := 0.0
		for j := 1; j < len(want)-1; j++ {
			if have[i+j] == want[j] {
				sum++
				continue
			}
			sum += likeness(have[i+j], want[j])
		}
		if sum/float64(len(want)-2) >= anchorLike {
			out = append(out, region(text, old, starts, i, len(want)))
		}
	}
	return out
}

// lineOf returns the 1-based line of an offset.
func lineOf(text string, at int) int { return strings.Count(text[:at], "\n") + 1 }

func ambiguous(text string, places []span, how strategy, all bool) error {
	e := &AmbiguousError{}
	var b strings.Builder
	what := "Add lines around it until it fits one place, or pass replace_all=true."
	if all {
		what = "replace_all takes text that fits exactly, and these only look alike: pass the text as it is in the file."
	}
	fmt.Fprintf(&b, "old_string fits %d places (%s). %s", len(places), how, what)
	for i, p := range places {
		line := lineOf(text, p.from)
		e.Lines = append(e.Lines, line)
		if i < maxListed {
			fmt.Fprintf(&b, "\n  line %d: %s", line, snippet(text, p.from))
		}
	}
	if n := len(places) - maxListed; n > 0 {
		fmt.Fprintf(&b, "\n  and %d more", n)
	}
	e.text = b.String()
	return e
}

// snippet is the line at an offset, for people.
func snippet(text string, at int) string {
	from := strings.LastIndexByte(text[:at], '\n') + 1
	line, _, _ := strings.Cut(text[from:], "\n")
	return clip(strings.TrimSpace(line), 80)
}

func clip(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-3]) + "..."
	}
	return s
}

// noMatch names the lines that look most like the first line of old.
func noMatch(text, old string) error {
	e := &NoMatchError{text: "old_string was not found in the file"}
	lines, _ := splitLines(text)
	wanted := ""
	for l := range strings.Lines(old) {
		if wanted = strings.TrimSpace(l); wanted != "" {
			break
		}
	}
	type near struct {
		line  int
		score float64
	}
	var found []near
	like := newLikener(wanted)
	for i, l := range lines {
		if l = strings.TrimSpace(l); l == "" || len(l) > 4*len(wanted)+20 {
			continue
		}
		if s := like.to(l); s >= 0.6 {
			found = append(found, near{i + 1, s})
		}
	}
	slices.SortStableFunc(found, func(a, b near) int { return int((b.score - a.score) * 1e6) })
	if len(found) == 0 {
		e.text += ": read the file again, it may have changed"
		return e
	}
	e.text += ". Did you mean one of these places?"
	for _, n := range found[:min(3, len(found))] {
		e.Near = append(e.Near, n.line)
		e.text += fmt.Sprintf("\n  line %d: %s", n.line, clip(strings.TrimSpace(lines[n.line-1]), 160))
	}
	return e
}
