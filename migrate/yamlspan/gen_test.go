// SPDX-License-Identifier: MIT

package yamlspan

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// gen writes random YAML text, with a seed of its own: every style, comments of all kinds,
// and all line ends. Each comment has its own number, so that a test can tell which stayed.
type gen struct {
	r      *rand.Rand
	b      strings.Builder
	word   func() string // one plain word of a value
	secret string        // a part of every value and comment, but of no key
	shared bool          // write anchors, aliases, merges, tags and double keys as well
	names  []string      // anchors of values
	maps   []string      // anchors of mappings
	n      int           // number of the next key or comment
}

// generate returns the document of a seed.
func generate(seed uint64, shared bool) string {
	g := &gen{r: rand.New(rand.NewPCG(seed, 47)), shared: shared}
	words := strings.Fields(`x yz a:b c#d C:\dir\new http://h:80/p v-1.2 50 -7 0.5 0x1F 1_000 true off null ~ 好 😀 ünï it's a&b *not-alias - ?q`)
	g.word = func() string { return words[g.r.IntN(len(words)-3)] }
	return g.document()
}

func (g *gen) chance(percent int) bool { return g.r.IntN(100) < percent }

func (g *gen) pick(s ...string) string { return s[g.r.IntN(len(s))] }

func (g *gen) document() string {
	if g.chance(12) {
		g.json(0, g.chance(50))
		g.b.WriteString(g.pick("", "\n"))
		return g.dress(g.b.String())
	}
	if g.chance(10) {
		g.b.WriteString(g.pick("%YAML 1.1\n---\n", "---\n", "--- # start\n"))
	}
	g.mapping(g.r.IntN(10)/9*2, 0)
	g.gap(0)
	text := g.b.String()
	if g.chance(20) {
		text = strings.TrimRight(text, "\n")
	}
	return g.dress(text)
}

// dress gives a document its line ends and its byte order mark.
func (g *gen) dress(text string) string {
	if g.chance(20) {
		text = crlf(text)
	}
	if g.chance(10) {
		text = bom + text
	}
	return text
}

func (g *gen) comment() string {
	g.n++
	return fmt.Sprintf("# c%d %s", g.n, g.secret+g.pick("", "note", "key: value", "\t- x", "'"))
}

// tail ends a line: with blanks or a comment now and then.
func (g *gen) tail() {
	switch g.r.IntN(8) {
	case 0:
		g.b.WriteString(g.pick(" ", "  ", "\t") + g.comment())
	case 1:
		g.b.WriteString(g.pick(" ", "   "))
	}
	g.b.WriteByte('\n')
}

// gap writes empty lines and comment lines, at col or anywhere.
func (g *gen) gap(col int) {
	for g.chance(25) {
		indent := strings.Repeat(" ", []int{col, 0, col, col + 2, g.r.IntN(7)}[g.r.IntN(5)])
		g.b.WriteString(g.pick("", indent+g.comment(), indent+g.comment()) + "\n")
	}
}

func (g *gen) key() string {
	g.n++
	k := fmt.Sprintf("k%d", g.n)
	if g.shared && g.chance(3) {
		k = "twin"
	}
	switch g.r.IntN(9) {
	case 0:
		return `"` + k + g.pick(" x", ": y", `\"`, "\\u00e9") + `"`
	case 1:
		return "'" + k + g.pick(" x", "''", " # z", ".a") + "'"
	case 2:
		return k + g.pick(".4", "/a", "-b", "é", " c", "#d") + g.pick("", " ")
	}
	return k
}

// properties are an anchor or a tag before a value.
func (g *gen) properties(mapping bool) string {
	if !g.shared || !g.chance(10) {
		return ""
	}
	if g.chance(30) {
		return g.pick("!!str ", "!x ")
	}
	g.n++
	name := fmt.Sprintf("n%d", g.n)
	if mapping {
		g.maps = append(g.maps, name)
	} else {
		g.names = append(g.names, name)
	}
	return "&" + name + " "
}

func (g *gen) mapping(col, depth int) {
	for i := range 1 + g.r.IntN(6-depth) {
		g.gap(col)
		if g.shared && len(g.maps) > 0 && g.chance(4) && i > 0 {
			g.b.WriteString(strings.Repeat(" ", col) + "<<: *" + g.pick(g.maps...))
			g.tail()
			continue
		}
		g.b.WriteString(strings.Repeat(" ", col))
		g.entry(col, depth)
	}
}

// entry writes a key, whose indentation is there already, and its value.
func (g *gen) entry(col, depth int) {
	if g.chance(4) {
		g.b.WriteString("? " + strings.TrimRight(g.key(), " ") + "\n" + strings.Repeat(" ", col) + ":")
	} else {
		g.b.WriteString(g.key() + ":")
	}
	g.value(col, depth)
}

// value writes what stands behind a colon, to the end of its last line.
func (g *gen) value(col, depth int) {
	deeper := col + 1 + g.r.IntN(4)
	switch kind := g.r.IntN(20); {
	case kind < 5 && depth < 3:
		g.b.WriteString(strings.TrimRight(" "+g.properties(true), " "))
		g.tail()
		g.mapping(deeper, depth+1)
		return
	case kind < 8 && depth < 3:
		g.tail()
		g.list(col+g.r.IntN(3), depth+1)
		return
	case kind == 8:
		g.block(col)
		return
	case kind == 9:
		g.tail() // no value
		return
	case kind == 10 && len(g.names) > 0:
		g.b.WriteString(" *" + g.pick(g.names...))
	case kind == 11:
		g.b.WriteString("\n" + strings.Repeat(" ", deeper) + g.scalar(false))
	case kind == 12:
		g.b.WriteString(" " + g.word() + "w\n" + strings.Repeat(" ", deeper) + g.word() + g.pick("", "\n") + "\n" + strings.Repeat(" ", deeper) + "w" + g.secret)
	case kind == 13:
		g.b.WriteString(" \"" + g.secret + g.pick("x", `\\`, "y: z") + "\n" + strings.Repeat(" ", deeper) + g.pick("k: v", "# no", "- \\\n   z") + g.secret + "\"")
	case kind < 17:
		g.b.WriteString(" " + g.properties(false) + g.flow(depth, col+2))
	default:
		g.b.WriteString(" " + g.properties(false) + g.scalar(false))
	}
	g.tail()
}

// scalar is text on one line; in brackets some plain text is not allowed.
func (g *gen) scalar(flow bool) string {
	switch g.r.IntN(6) {
	case 0:
		return `"` + g.pick("", "x y", `a\tb`, `\"`, "# c", ": ", `C:\\`, "😀") + g.secret + `"`
	case 1:
		return "'" + g.pick("", "x y", "it''s", "# c", ": ", `C:\`, "值") + g.secret + "'"
	case 2:
		return g.word() + " " + g.pick("y", "z")
	}
	if flow {
		return g.pick("x", "yz", "5", "null", "true", "-1", "a.b/c") + g.secret
	}
	return g.word()
}

// block writes a literal or folded text.
func (g *gen) block(col int) {
	g.b.WriteString(g.pick(" |", " >") + g.pick("", "", "-", "+"))
	g.tail()
	indent := strings.Repeat(" ", col+1+g.r.IntN(3))
	for i := range 1 + g.r.IntN(3) {
		g.b.WriteString(indent + g.pick("", "", "  "[:2*min(i, 1)]) + g.pick("x", "# t", "k: v", "- i", "好") + g.secret + "\n" + g.pick("", "", "\n"))
	}
}

func (g *gen) list(col, depth int) {
	indent := strings.Repeat(" ", col)
	for range 1 + g.r.IntN(4) {
		g.gap(col)
		g.b.WriteString(indent + "-")
		switch g.r.IntN(9) {
		case 0:
			g.b.WriteByte(' ')
			g.entry(col+2, depth+1)
			for g.chance(50) {
				g.b.WriteString(indent + "  ")
				g.entry(col+2, depth+1)
			}
			continue
		case 1:
			if depth < 3 {
				g.b.WriteString(" - " + g.scalar(false))
			}
		case 2:
			g.block(col)
			continue
		case 3:
			g.b.WriteString(" " + g.flow(depth, col+2))
		default:
			g.b.WriteString(" " + g.scalar(false))
		}
		g.tail()
	}
}

// flow is a collection in brackets, on one line or on several.
func (g *gen) flow(depth, col int) string {
	n := g.r.IntN(4)
	lines := g.chance(30)
	open, end := "[", "]"
	if g.chance(60) {
		open, end = "{", "}"
	}
	var b strings.Builder
	b.WriteString(open)
	gap := g.pick("", " ")
	if lines {
		gap = "\n" + strings.Repeat(" ", col)
	}
	for i := range n {
		if lines && g.chance(20) {
			b.WriteString(gap + g.comment())
		}
		b.WriteString(gap)
		v := g.scalar(true)
		if depth < 3 && g.chance(25) {
			v = g.flow(depth+1, col+2)
		}
		if open == "{" {
			b.WriteString(g.key() + ": ")
		}
		b.WriteString(v)
		if i+1 < n || g.chance(20) {
			b.WriteString(",")
		}
		if lines && g.chance(20) {
			b.WriteString(" " + g.comment())
		}
	}
	if lines {
		b.WriteString("\n" + strings.Repeat(" ", col-1))
	}
	if !lines {
		b.WriteString(gap)
	}
	b.WriteString(end)
	return b.String()
}

// json writes a mapping as JSON.
func (g *gen) json(depth int, pretty bool) {
	sep, colon, indent, outdent := "", ":", "", ""
	if pretty {
		sep, colon = "\n", ": "
		indent, outdent = strings.Repeat("  ", depth+1), strings.Repeat("  ", depth)
	}
	g.b.WriteString("{" + sep)
	n := 1 + g.r.IntN(4)
	for i := range n {
		g.n++
		fmt.Fprintf(&g.b, "%s\"k%d%s\"%s", indent, g.n, g.pick("", ".x", " y", `\n`), colon)
		switch g.r.IntN(7) {
		case 0, 1:
			if depth < 3 {
				g.json(depth+1, pretty)
				break
			}
			fallthrough
		case 2:
			g.b.WriteString(g.pick("[]", `["a","b"]`, `[ 1, 2 ]`, "{}", `[{"a":1}]`))
		default:
			g.b.WriteString(g.pick("1", "-2.5e+3", "true", "null", `"x"`, `"a\u00e9\n"`, `"C:\\d"`, `""`))
		}
		if i+1 < n {
			g.b.WriteString("," + sep)
		}
	}
	g.b.WriteString(sep + outdent + "}")
}
