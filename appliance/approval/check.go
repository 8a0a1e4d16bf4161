// SPDX-License-Identifier: MIT

package approval

import (
	"errors"
	"maps"
	"regexp"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// What bounds the work. The kernel takes no argument longer than 128 KiB anyway.
const (
	maxCommand    = 128 << 10
	maxOperators  = 25_000 // ; & | and line breaks
	maxNesting    = 500    // brackets, quoted ones included
	maxDepth      = 60     // payloads in payloads, blocks in blocks
	maxSteps      = 100_000
	maxValue      = 16 << 10
	maxFields     = 4096
	maxBraces     = 12 // in one word
	maxWorlds     = 32
	maxValues     = 8
	maxFindings   = 64
	maxCandidates = 1 << 20 // bytes
)

// checker walks a command the way a shell would run it and notes what it finds. Values are
// strings in which a hole stands for what is not known.
type checker struct {
	text  string
	tree  []*syntax.Stmt // of text, if offsets in it are offsets in text
	ctx   Context
	found []Finding

	simple     bool     // one simple command without expansions
	candidates []string // what deny globs are matched with, in lower case
	size       int      // bytes in candidates
	seen       map[string]bool

	vars    map[string]variable
	params  params
	funcs   map[string]*syntax.Stmt
	refs    map[string]string // declare -n
	aliases map[string]string
	files   map[string]input  // what this command wrote where
	links   map[string]string // links this command made, and to what
	copies  map[string]string // copies, and of what
	procs   []input           // outputs of process substitutions

	start, end int    // span of the command being looked at
	fixed      bool   // inside a payload, whose offsets mean nothing to the caller
	soft       string // set while floors are only possible: why
	uncertain  int    // depth of branches, loops and other places that may not run
	loops      int
	depth      int
	steps      int
	running    map[string]bool // functions and aliases being looked into
}

// input is what a command reads.
type input struct {
	text    string
	present bool // there is something to read
	known   bool // text is all of it
	remote  bool // it comes from the network
	own     bool // it comes from a search that names this gateway
}

func check(command string, c Context) *checker {
	k := &checker{
		text: command, ctx: c, seen: map[string]bool{},
		vars: map[string]variable{}, funcs: map[string]*syntax.Stmt{},
		refs: map[string]string{}, aliases: map[string]string{}, files: map[string]input{}, running: map[string]bool{}, links: map[string]string{}, copies: map[string]string{},
	}
	k.end = len(command)
	k.candidate(command)
	if len(command) > maxCommand || strings.Count(command, "\n")+strings.Count(command, ";")+
		strings.Count(command, "&")+strings.Count(command, "|") > maxOperators || nesting(command) > maxNesting {
		k.emit(FloorTooComplex)
		return k
	}
	if deceptive(command) {
		k.emit(OddText)
	}
	dir := c.Dir
	if dir == "" {
		dir = "."
	}
	k.vars[cwd] = variable{values: []string{dir}}
	stmts := k.parse(strings.ReplaceAll(command, hole, ""))
	if !strings.Contains(command, hole) {
		k.tree = stmts
	}
	k.simple = len(stmts) == 1 && isSimple(stmts[0])
	k.guarded(func() {
		k.stmts(stmts, input{})
		k.wholeText()
	})
	return k
}

// guarded keeps a defect of ours or of the parser, met by text that anybody may send, from
// ending the gateway or letting a command through.
func (k *checker) guarded(f func()) {
	defer func() {
		if recover() != nil {
			k.soft = ""
			k.emit(MustBroken)
		}
	}()
	f()
}

// wholeText makes the command without its disguises a candidate, so that globs over pipelines
// and lists see through quotes too.
func (k *checker) wholeText() {
	if len(k.candidates) > 2 {
		k.candidate(strings.Join(k.candidates[1:], "; "))
	}
}

// parse returns the statements of a text; on an error, those before it. Bash reads line by
// line, so these are what it would run.
func (k *checker) parse(text string) (stmts []*syntax.Stmt) {
	k.guarded(func() { stmts = k.parseText(text) })
	return stmts
}

func (k *checker) parseText(text string) (stmts []*syntax.Stmt) {
	for range 4 {
		f, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
		if err == nil {
			return f.Stmts
		}
		// Bash takes a here-document that nobody ends.
		if m := openHeredoc.FindStringSubmatch(err.Error()); m != nil {
			text += "\n" + m[1] + "\n"
			continue
		}
		var pe syntax.ParseError
		if errors.As(err, &pe) && strings.Contains(pe.Text, "without closing quote") {
			k.emit(FloorMalformed)
		} else {
			k.emit(MustUnparsable)
		}
		break
	}
	for s, err := range syntax.NewParser(syntax.Variant(syntax.LangBash)).StmtsSeq(strings.NewReader(text)) {
		if err == nil { // it goes on after an error, and may not be left
			stmts = append(stmts, s)
		}
	}
	return stmts
}

var openHeredoc = regexp.MustCompile("unclosed here-document `([^`\n]+)`$")

// emit notes a finding at the current span. While only possible, a floor becomes a question.
func (k *checker) emit(id ID) {
	f := Finding{ID: id, Level: id.level(), Text: id.text(), Start: min(k.start, len(k.text)), End: min(k.end, len(k.text))}
	if f.Level == Floor && k.soft != "" {
		f.Level, f.Text = Must, f.Text+" ("+k.soft+")"
	}
	strongest := Danger
	for i, old := range k.found {
		if old.ID == id && old.Start == f.Start {
			if f.Level > old.Level {
				k.found[i] = f
			}
			return
		}
		strongest = max(strongest, old.Level)
	}
	if len(k.found) < maxFindings || f.Level > strongest {
		k.found = append(k.found, f)
	}
}

// when looks at something that is only possible.
func (k *checker) when(why string, f func()) {
	old := k.soft
	if k.soft == "" {
		k.soft = why
	}
	f()
	k.soft = old
}

// maybe looks at something that may not run, or not as often as it is looked at.
func (k *checker) maybe(f func()) {
	k.uncertain++
	f()
	k.uncertain--
}

// deeper reports whether there is work left to spend on one more level, and takes it.
func (k *checker) deeper() bool {
	k.steps++
	if k.depth >= maxDepth || k.steps > maxSteps {
		k.emit(MustLimit)
		return false
	}
	k.depth++
	return true
}

// payload looks at text that another program hands to a shell of its own. args are its $0,
// $1, …
func (k *checker) payload(text string, in input, args []string) {
	k.subshell(func() {
		if args != nil {
			k.params = params{name: args[0], list: args[1:], known: true}
		}
		k.sourced(text, in)
	})
}

// sourced looks at text that this shell reads as if it stood here.
func (k *checker) sourced(text string, in input) {
	if !k.deeper() {
		return
	}
	defer func() { k.depth-- }()
	k.steps += len(text) / 16
	if strings.ContainsAny(text, control) {
		k.simple = false // it only looked like one command
	}
	text = unhole(text)
	if deceptive(text) {
		k.emit(OddText)
	}
	fixed := k.fixed
	k.fixed = true
	k.stmts(k.parse(text), in)
	k.fixed = fixed
}

// subshell looks at something that cannot change the variables here.
func (k *checker) subshell(f func()) {
	k.steps += len(k.vars) / 8
	vars, params, uncertain := k.vars, k.params, k.uncertain
	k.vars, k.uncertain = maps.Clone(vars), 0
	f()
	k.vars, k.params, k.uncertain = vars, params, uncertain
}

// candidate records what deny globs are matched with.
func (k *checker) candidate(text string) {
	k.steps += len(text) / 128
	text = strings.ToLower(strings.TrimSpace(shown(text)))
	if text == "" || k.seen[text] {
		return
	}
	if k.size += len(text); k.size > maxCandidates && len(k.candidates) > 0 {
		if k.size-len(text) <= maxCandidates {
			k.emit(MustLimit)
		}
		return
	}
	k.seen[text] = true
	k.candidates = append(k.candidates, text)
}

// nesting is an upper bound of how deep brackets nest.
func nesting(s string) int {
	depth, deepest := 0, 0
	for i := range len(s) {
		switch s[i] {
		case '(', '{', '[':
			depth++
			deepest = max(deepest, depth)
		case ')', '}', ']':
			depth = max(0, depth-1)
		}
	}
	return deepest
}

// deceptive finds characters that make a command look like another one: control characters,
// a carriage return that is no line end, bidirectional controls, bytes that are no UTF-8.
func deceptive(s string) bool {
	if !utf8.ValidString(s) {
		return true
	}
	crlf := strings.Count(s, "\r\n")
	if cr := strings.Count(s, "\r"); cr != crlf || cr > 0 && crlf != strings.Count(s, "\n") {
		return true
	}
	for _, r := range s {
		switch {
		case r < ' ' && r != '\t' && r != '\n' && r != '\r', r == 0x7f, r >= 0x80 && r < 0xa0:
			return true
		case r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
			return true
		}
	}
	return false
}

// isSimple reports whether a statement is one command with literal arguments: no redirection,
// no expansion, no assignment, nothing that another interpreter would take apart (isolation
// spec 4: an allowlist entry never applies to compound commands).
func isSimple(s *syntax.Stmt) bool {
	call, ok := s.Cmd.(*syntax.CallExpr)
	if !ok || s.Negated || s.Background || s.Coprocess || s.Disown || len(s.Redirs) > 0 || len(call.Assigns) > 0 {
		return false
	}
	special, reread := false, false
	for _, w := range call.Args {
		text, ok := literal(w)
		if !ok {
			return false
		}
		special = special || strings.ContainsAny(text, control)
		reread = reread || reinterprets.MatchString(text)
	}
	return !special || !reread
}

// control are the characters that make shell syntax.
const control = "\n\r;&|<>`$()"

var reinterprets = regexp.MustCompile(`^(-[^-]*[ce]|--(command|eval))(=.*)?$`)

// literal is the text of a word without expansions.
func literal(w *syntax.Word) (string, bool) {
	var b strings.Builder
	for _, p := range w.Parts {
		switch p := p.(type) {
		case *syntax.Lit:
			b.WriteString(unescape(p.Value, false))
		case *syntax.SglQuoted:
			b.WriteString(sglQuoted(p))
		case *syntax.DblQuoted:
			for _, q := range p.Parts {
				l, ok := q.(*syntax.Lit)
				if !ok {
					return "", false
				}
				b.WriteString(unescape(l.Value, true))
			}
		default:
			return "", false
		}
	}
	return b.String(), true
}
