// SPDX-License-Identifier: MIT

package approval

import (
	"maps"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// Stand-ins for what is not known. A hole may hold anything, blanks included; a quoted hole is
// one word; an own hole comes from a search that names this gateway. None of these bytes can be
// in a real argument that matters: NUL ends a C string, and control characters are a finding of
// their own.
const (
	hole    = "\x00"
	qhole   = "\x02"
	ownHole = "\x03"
	holes   = hole + qhole + ownHole
)

// procSubst starts the file name of a process substitution; its index follows.
const procSubst = "/dev/fd/\x01"

// What a search for our own process yields, or one for others.
const (
	pidGateway = "\x01gateway"
	pidOther   = "\x01pid"
)

func hasHole(s string) bool { return strings.ContainsAny(s, holes) }

func startsUnknown(s string) bool { return s != "" && strings.Contains(holes, s[:1]) }

// unhole writes text with holes as shell source that parses and stays unknown.
func unhole(s string) string {
	return strings.NewReplacer(hole, `${_}`, ownHole, `${_}`, qhole, `"${_}"`).Replace(s)
}

// shown writes text with holes for people and globs.
func shown(s string) string {
	return strings.NewReplacer(hole, "$_", qhole, "$_", ownHole, "$_", procSubst, "/dev/fd/", "\x01", "").Replace(s)
}

// variable is what a name may hold: one of values, and as an array its elements.
type variable struct {
	values []string
	array  []string
}

// params are $0, $1, …
type params struct {
	name   string
	list   []string
	known  bool
	opaque bool // set, but to what nobody knows
}

// world is one choice for the variables a command names.
type world struct {
	pick map[string]string
	// What is never assigned here comes from outside: it is unknown, or empty.
	empty bool
	why   string
}

// worlds lists the choices worth looking at for the variables in some nodes.
func (k *checker) worlds(nodes []*syntax.Word) []world {
	var names []string
	outside := ""
	for _, n := range nodes {
		syntax.Walk(n, func(n syntax.Node) bool {
			p, ok := n.(*syntax.ParamExp)
			if !ok || p.Param == nil {
				return true
			}
			name := k.named(p.Param.Value)
			switch v, ok := k.vars[name]; {
			case ok && len(v.values) > 1:
				names = append(names, name)
			case !ok && outside == "" && k.fromOutside(name):
				outside = name
			}
			return true
		})
	}
	out := []world{{pick: map[string]string{}}}
	for _, name := range names {
		if _, done := out[0].pick[name]; done {
			continue
		}
		values := k.vars[name].values
		if len(out)*len(values) > maxWorlds {
			values = []string{qhole}
		}
		var next []world
		for _, w := range out {
			for _, v := range values {
				pick := make(map[string]string, len(w.pick)+1)
				maps.Copy(pick, w.pick)
				pick[name] = v
				next = append(next, world{pick: pick})
			}
		}
		out = next
	}
	if outside != "" {
		for _, w := range out {
			w.empty, w.why = true, "if $"+outside+" is empty"
			out = append(out, w)
		}
	}
	return out
}

// fields expands words the way a shell does, in one world. What the file system would add
// (globs) stays as it is written.
func (k *checker) fields(words []*syntax.Word, w world) []string {
	b := fieldBuilder{k: k, w: w}
	for _, word := range words {
		for _, one := range k.braces(word) {
			b.word(one)
			b.flush()
		}
		if len(b.out) > maxFields {
			break
		}
	}
	return b.out
}

// allFields are the fields of words in all worlds.
func (k *checker) allFields(words []*syntax.Word) []string {
	var out []string
	for _, w := range k.worlds(words) {
		out = append(out, k.fields(words, w)...)
	}
	return out
}

// value expands a word that is not split: an assignment, a redirection, a here-document.
func (k *checker) value(word *syntax.Word, w world) string {
	if word == nil {
		return ""
	}
	b := fieldBuilder{k: k, w: w, whole: true}
	b.word(word)
	b.flush()
	return strings.Join(b.out, " ")
}

func (k *checker) values(word *syntax.Word) []string {
	if word == nil {
		return []string{""}
	}
	var out []string
	for _, w := range k.worlds([]*syntax.Word{word}) {
		if !w.empty || hasDefault(word) {
			out = append(out, k.value(word, w))
		}
	}
	return lastOf(out)
}

// hasDefault reports whether a word says what to take when a variable is empty.
func hasDefault(word *syntax.Word) bool {
	found := false
	syntax.Walk(word, func(n syntax.Node) bool {
		p, ok := n.(*syntax.ParamExp)
		found = found || ok && p.Exp != nil && (p.Exp.Op == syntax.DefaultUnset || p.Exp.Op == syntax.DefaultUnsetOrNull ||
			p.Exp.Op == syntax.AssignUnset || p.Exp.Op == syntax.AssignUnsetOrNull)
		return true
	})
	return found
}

// braces splits {a,b} and {1..9}. What goes over the limit is a hole.
func (k *checker) braces(w *syntax.Word) []*syntax.Word {
	open := 0
	for _, p := range w.Parts {
		if p, ok := p.(*syntax.Lit); ok {
			open += strings.Count(p.Value, "{")
		}
	}
	unknown := &syntax.Word{Parts: []syntax.WordPart{&syntax.SglQuoted{Value: qhole}}}
	switch {
	case open == 0:
		return []*syntax.Word{w}
	case open > maxBraces:
		k.emit(MustLimit)
		return []*syntax.Word{unknown}
	}
	w = &syntax.Word{Parts: w.Parts} // the tree stays as it is: syntax.Walk knows no brace expression
	syntax.SplitBraces(w)
	var out []*syntax.Word
	for one, err := range expand.BracesSeq(nil, w) {
		if err != nil || len(out) == maxFields {
			return append(out, unknown)
		}
		out = append(out, one)
	}
	return out
}

// fieldBuilder collects fields from word parts.
type fieldBuilder struct {
	k     *checker
	w     world
	whole bool // do not split
	out   []string
	cur   strings.Builder
	open  bool // cur is a field even if empty
}

func (b *fieldBuilder) flush() {
	if b.open || b.cur.Len() > 0 {
		switch {
		case len(b.out) < maxFields:
			b.out = append(b.out, b.cur.String())
		case len(b.out) == maxFields:
			b.out = append(b.out, hole)
			b.k.emit(MustLimit)
		}
	}
	b.cur.Reset()
	b.open = false
}

// add appends text to the current field. Over the limit it is a hole.
func (b *fieldBuilder) add(s string) {
	b.k.steps += len(s) / 64
	if b.cur.Len()+len(s) > maxCommand {
		s = qhole
	}
	b.cur.WriteString(s)
}

func (b *fieldBuilder) split(s string) {
	if b.whole {
		b.add(strings.ReplaceAll(s, hole, qhole))
		return
	}
	var blanks strings.Builder
	blanks.WriteString(" \t\n")
	for _, v := range b.k.vars["IFS"].values {
		if !hasHole(v) && len(v) < 16 {
			blanks.WriteString(v)
		}
	}
	for {
		i := strings.IndexAny(s, blanks.String())
		if i < 0 {
			b.add(s)
			return
		}
		b.add(s[:i])
		b.flush()
		s = strings.TrimLeft(s[i:], blanks.String())
	}
}

func (b *fieldBuilder) word(w *syntax.Word) {
	for i, p := range w.Parts {
		b.part(p, false, i == 0)
	}
}

func (b *fieldBuilder) part(p syntax.WordPart, quoted, first bool) {
	switch p := p.(type) {
	case *syntax.Lit:
		text := unescape(p.Value, quoted)
		if first && !quoted {
			text = tilde(text)
		}
		b.add(strings.TrimSuffix(text, "\r"))
	case *syntax.SglQuoted:
		b.open = true
		b.add(sglQuoted(p))
	case *syntax.DblQuoted:
		b.open = true
		for _, q := range p.Parts {
			b.part(q, true, false)
		}
	case *syntax.ParamExp:
		b.values(b.k.param(p, b.w), quoted, isAt(p))
	case *syntax.CmdSubst:
		out, known := b.k.outputOf(p.Stmts, input{}, b.w)
		if out = strings.TrimRight(out, "\n"); !known {
			if out = hole; b.k.mentionsGateway(p) {
				out = ownHole
			}
		}
		b.values([]string{out}, quoted, false)
	case *syntax.ProcSubst:
		b.add(b.k.proc(p, b.w))
	case *syntax.ExtGlob:
		b.add("*")
	default: // arithmetic
		b.add(qhole)
	}
}

// values appends what an expansion yields; "$@" and "${a[@]}" are a field for each.
func (b *fieldBuilder) values(vals []string, quoted, each bool) {
	for i, v := range vals {
		if i > 0 {
			if b.whole || quoted && !each {
				b.add(" ")
			} else {
				b.flush()
			}
		}
		if quoted {
			b.open = true
			b.add(strings.ReplaceAll(v, hole, qhole))
			continue
		}
		b.split(v)
	}
}

func isAt(p *syntax.ParamExp) bool {
	if p.Param != nil && p.Param.Value == "@" {
		return true
	}
	i, ok := p.Index.(*syntax.Word)
	return ok && i.Lit() == "@"
}

// proc notes what a process substitution yields and returns a name for it.
func (k *checker) proc(p *syntax.ProcSubst, w world) string {
	if p.Op == syntax.CmdOut {
		return "/dev/fd/" + qhole
	}
	in := input{present: true}
	in.text, in.known = k.outputOf(p.Stmts, input{}, w)
	in.remote = fetches(p)
	k.procs = append(k.procs, in)
	return procSubst + strconv.Itoa(len(k.procs)-1)
}
