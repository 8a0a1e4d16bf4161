// SPDX-License-Identifier: MIT

package files

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// verb is what a V4A operation does with a file.
type verb string

const (
	addFile    verb = "Add"
	updateFile verb = "Update"
	deleteFile verb = "Delete"
	moveFile   verb = "Move"
)

// operation is one file of a patch.
type operation struct {
	verb  verb
	path  string
	to    string // a move, or an update that also moves
	text  string // of an added file
	hunks []hunk
	line  int // of the patch, 1-based
}

// hunk is one change of an update. Its lines start with ' ', '-' or '+'.
type hunk struct {
	hint  string // a line that stands above it in the file; "" = none
	lines []string
	atEnd bool // it is at the end of the file
}

// texts returns what a hunk looks for and what it puts there.
func (h hunk) texts() (old, with []string) {
	for _, l := range h.lines {
		if l[0] != '+' {
			old = append(old, l[1:])
		}
		if l[0] != '-' {
			with = append(with, l[1:])
		}
	}
	return old, with
}

var (
	reBegin  = regexp.MustCompile(`^\*\*\*\s*Begin\s+Patch\s*$`)
	reEnd    = regexp.MustCompile(`^\*\*\*\s*End\s+Patch\s*$`)
	reOp     = regexp.MustCompile(`^\*\*\*\s*(Add|Update|Delete|Move)\s+File:\s*(.*?)\s*$`)
	reMoveTo = regexp.MustCompile(`^\*\*\*\s*Move\s+to:\s*(.*?)\s*$`)
	reEOF    = regexp.MustCompile(`^\*\*\*\s*End\s+of\s+File\s*$`)
	reHint   = regexp.MustCompile(`^@@\s*(.*?)\s*(?:@@)?\s*$`)
	reRange  = regexp.MustCompile(`^-\d+(,\d+)? \+\d+(,\d+)?( @@ ?(.*))?$`)
)

// parsePatch reads a V4A patch. Text before "*** Begin Patch" and behind "*** End Patch" is
// not part of it; both may be missing.
func parsePatch(patch string) ([]operation, error) {
	lines := strings.Split(strings.ReplaceAll(patch, "\r\n", "\n"), "\n")
	from, to := 0, len(lines)
	for i, l := range lines {
		if reBegin.MatchString(l) && from == 0 {
			from = i + 1
		} else if reEnd.MatchString(l) {
			to = i
			break
		}
	}
	var p patchParser
	for i := from; i < to; i++ {
		if err := p.line(lines[i], i+1); err != nil {
			return nil, fmt.Errorf("patch line %d: %w", i+1, err)
		}
	}
	p.closeHunk()
	for _, op := range p.ops {
		if err := op.check(); err != nil {
			return nil, fmt.Errorf("patch line %d: %w", op.line, err)
		}
	}
	if len(p.ops) == 0 {
		return nil, errors.New(`the patch has no operation: write "*** Update File: PATH", "*** Add File: PATH", "*** Delete File: PATH" or "*** Move File: FROM -> TO"`)
	}
	return p.ops, nil
}

type patchParser struct {
	ops  []operation
	hunk *hunk
	add  []string
}

func (p *patchParser) line(l string, n int) error {
	if m := reOp.FindStringSubmatch(l); m != nil {
		p.closeHunk()
		op := operation{verb: verb(m[1]), path: m[2], line: n}
		if op.verb == moveFile {
			op.path, op.to, _ = strings.Cut(m[2], "->")
			op.path, op.to = strings.TrimSpace(op.path), strings.TrimSpace(op.to)
		}
		p.ops = append(p.ops, op)
		return nil
	}
	if len(p.ops) == 0 {
		if strings.TrimSpace(l) == "" {
			return nil
		}
		return fmt.Errorf("%q stands before the first \"*** … File:\" line", clip(l, 60))
	}
	op := &p.ops[len(p.ops)-1]
	switch op.verb {
	case addFile:
		return p.addLine(l)
	case updateFile:
		return p.updateLine(op, l)
	case deleteFile, moveFile:
	}
	if strings.TrimSpace(l) != "" {
		return fmt.Errorf("%q: nothing follows a %s", clip(l, 60), op.verb)
	}
	return nil
}

func (p *patchParser) addLine(l string) error {
	switch {
	case strings.HasPrefix(l, "+"):
		p.add = append(p.add, l[1:])
	case reEOF.MatchString(l), strings.HasPrefix(l, "@@"), strings.HasPrefix(l, `\ `), strings.TrimSpace(l) == "":
	default:
		return fmt.Errorf("%q: the lines of an added file start with \"+\"", clip(l, 60))
	}
	return nil
}

func (p *patchParser) updateLine(op *operation, l string) error {
	switch m := reMoveTo.FindStringSubmatch(l); {
	case m != nil:
		if len(op.hunks) > 0 || p.hunk != nil {
			return errors.New("\"*** Move to:\" stands right below its \"*** Update File:\"")
		}
		op.to = m[1]
	case reEOF.MatchString(l):
		if p.hunk != nil {
			p.hunk.atEnd = true
		}
	case strings.HasPrefix(l, "@@"):
		p.closeHunk()
		hint := reHint.FindStringSubmatch(l)[1]
		if r := reRange.FindStringSubmatch(hint); r != nil { // a unified diff's numbers say nothing here
			hint = r[4]
		}
		p.hunk = &hunk{hint: hint}
	case strings.HasPrefix(l, "***"):
		return fmt.Errorf("%q is not a line of a patch", clip(l, 60))
	case strings.HasPrefix(l, `\`): // "\ No newline at end of file"
	default:
		if p.hunk == nil {
			if strings.TrimSpace(l) == "" {
				return nil
			}
			p.hunk = &hunk{}
		}
		if l == "" || !strings.ContainsRune(" -+", rune(l[0])) {
			l = " " + l // context whose blank was lost
		}
		p.hunk.lines = append(p.hunk.lines, l)
	}
	return nil
}

// closeHunk ends a hunk, or the lines of an added file. Empty lines at a hunk's end separate
// it from what follows.
func (p *patchParser) closeHunk() {
	if len(p.ops) == 0 {
		return
	}
	op := &p.ops[len(p.ops)-1]
	if op.verb == addFile && op.text == "" && len(p.add) > 0 {
		op.text = strings.Join(p.add, "\n") + "\n"
	}
	p.add = nil
	if p.hunk == nil {
		return
	}
	h := *p.hunk
	p.hunk = nil
	for len(h.lines) > 0 && h.lines[len(h.lines)-1] == " " {
		h.lines = h.lines[:len(h.lines)-1]
	}
	if len(h.lines) > 0 {
		op.hunks = append(op.hunks, h)
	}
}

func (op operation) check() error {
	switch {
	case op.path == "":
		return fmt.Errorf("%s without a path", op.verb)
	case op.verb == moveFile && op.to == "":
		return errors.New("a move is written \"*** Move File: FROM -> TO\"")
	case op.verb == updateFile && len(op.hunks) == 0 && op.to == "":
		return fmt.Errorf("no change for %s: lines of a hunk start with \" \", \"-\" or \"+\"", op.path)
	}
	return nil
}

// update applies the hunks of an operation to a text. The strategy is the loosest that one of
// them needed, "" if none looked for text.
func (op operation) update(text string) (string, strategy, error) {
	cursor, loosest := 0, strategy("")
	for i, h := range op.hunks {
		next, at, how, err := h.apply(text, cursor)
		if err != nil {
			where := fmt.Sprintf("hunk %d", i+1)
			if h.hint != "" {
				where += fmt.Sprintf(" (%s)", clip(h.hint, 60))
			}
			return "", "", fmt.Errorf("%s: %w", where, err)
		}
		text, cursor, loosest = next, at, looser(loosest, how)
	}
	return text, loosest, nil
}

// apply returns the changed text, where the change ends, and how its place was found.
func (h hunk) apply(text string, cursor int) (string, int, strategy, error) {
	old, with := h.texts()
	if len(old) == 0 {
		text, cursor, err := h.insert(text, with, cursor)
		return text, cursor, "", err
	}
	was, now := strings.Join(old, "\n"), strings.Join(with, "\n")
	if was == now { // context only: an anchor
		if i := strings.Index(text[cursor:], was); i >= 0 {
			cursor += i + len(was)
		}
		return text, cursor, "", nil
	}
	if len(with) == 0 && strings.Contains(text, was+"\n") {
		was += "\n" // the lines go with their ends
	}
	edits, err := find(text, was, now, false, func(places []span) []span { return h.narrow(text, cursor, places) })
	var none *NoMatchError
	if errors.As(err, &none) && applied(text, was, now) {
		return text, cursor, "", nil
	}
	if err != nil {
		return "", 0, "", err
	}
	return apply(text, edits), edits[0].at.from + len(edits[0].text), edits[0].how, nil
}

// narrow leaves out places that are not whole lines, and picks from several those that the
// hunk's hint, the hunk above it or the end of the file point at.
func (h hunk) narrow(text string, cursor int, places []span) []span {
	places = slices.DeleteFunc(places, func(p span) bool {
		return p.from > 0 && text[p.from-1] != '\n' || p.to < len(text) && text[p.to] != '\n' && text[p.to-1] != '\n'
	})
	keep := func(ok func(span) bool) {
		var left []span
		for _, p := range places {
			if ok(p) {
				left = append(left, p)
			}
		}
		if len(left) > 0 {
			places = left
		}
	}
	if h.atEnd {
		keep(func(p span) bool { return strings.TrimSpace(text[p.to:]) == "" })
	}
	keep(func(p span) bool { return p.from >= cursor })
	if at := h.hinted(text, cursor); at >= 0 {
		keep(func(p span) bool { return p.from >= at })
		if len(places) > 1 { // the hint names what it stands in: the first below it
			places = places[:1]
		}
	}
	return places
}

// hinted returns the end of the line that the hint names, -1 if it names none or several.
func (h hunk) hinted(text string, cursor int) int {
	if h.hint == "" {
		return -1
	}
	lines, starts := splitLines(text)
	found := -1
	for _, from := range []int{cursor, 0} {
		for i, l := range lines {
			if starts[i] < from || !strings.Contains(l, h.hint) {
				continue
			}
			if found >= 0 {
				return -1
			}
			found = min(len(text), starts[i]+len(l)+1)
		}
		if found >= 0 {
			return found
		}
	}
	return found
}

// insert adds lines where there is nothing to look for: below the hint, or at the end.
func (h hunk) insert(text string, with []string, cursor int) (string, int, error) {
	at := len(text)
	if h.hint != "" {
		if at = h.hinted(text, cursor); at < 0 {
			return "", 0, fmt.Errorf("%q is not one line of the file, so it is not clear where the new lines go", h.hint)
		}
	}
	block := strings.Join(with, "\n") + "\n"
	if at > 0 && text[at-1] != '\n' {
		block = "\n" + strings.TrimSuffix(block, "\n") // the file has no newline at its end, and gets none
	}
	return text[:at] + block + text[at:], at + len(block), nil
}
