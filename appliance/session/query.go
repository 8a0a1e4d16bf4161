// SPDX-License-Identifier: MIT

package session

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// How much of a query is read. FTS5 refuses a few hundred terms.
const (
	mostQuery = 2048 // bytes
	mostTerms = 64
)

// term is something to look for.
type term struct {
	text   string
	prefix bool // word* : anything that begins so
	not    bool
}

// query is what a person typed, understood: groups joined by OR, terms in a group by AND.
// Every text is one: what is no operator is looked for.
type query [][]term

// parseQuery reads words, "phrases", prefix*, AND, OR and NOT. It never fails; a query with
// nothing to look for is empty.
func parseQuery(s string) query {
	if len(s) > mostQuery {
		s = strings.ToValidUTF8(s[:mostQuery], "")
	}
	s = strings.ReplaceAll(clean(s), "\x00", " ")
	var q query
	var group []term
	not, terms := false, 0
	end := func() {
		for _, t := range group {
			if !t.not {
				q = append(q, group)
				break
			}
		}
		group, not = nil, false
	}
	for s = strings.TrimSpace(s); s != "" && terms < mostTerms; s = strings.TrimSpace(s) {
		var word string
		quote := s[0] == '"'
		if quote {
			word, s, _ = strings.Cut(s[1:], `"`)
		} else {
			i := strings.IndexFunc(s, func(r rune) bool { return unicode.IsSpace(r) || r == '"' })
			if i < 0 {
				i = len(s)
			}
			word, s = s[:i], s[i:]
		}
		switch {
		case !quote && word == "OR":
			end()
		case !quote && word == "AND":
		case !quote && word == "NOT":
			not = true
		default:
			t := term{text: strings.TrimSpace(word), not: not}
			if strings.HasPrefix(s, "*") && quote {
				s, t.prefix = s[1:], true
			} else if !quote && strings.HasSuffix(word, "*") {
				t.text, t.prefix = strings.Trim(word, "*"), true
			}
			if t.searchable() {
				group = append(group, t)
				terms++
			}
			not = false
		}
	}
	end()
	return q
}

// searchable holds for terms of which an index keeps something.
func (t term) searchable() bool {
	return strings.IndexFunc(t.text, func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.Is(unicode.Co, r)
	}) >= 0
}

// match is the query in FTS5's language. Every term is quoted, so that none of its characters
// means anything.
func (q query) match() string {
	var groups []string
	for _, group := range q {
		var yes, no []string
		for _, t := range group {
			text := `"` + strings.ReplaceAll(t.text, `"`, `""`) + `"`
			if t.prefix {
				text += "*"
			}
			if t.not {
				no = append(no, " NOT "+text)
			} else {
				yes = append(yes, text)
			}
		}
		groups = append(groups, "(("+strings.Join(yes, " AND ")+")"+strings.Join(no, "")+")")
	}
	return strings.Join(groups, " OR ")
}

// readable is the content of the row m as SQL's text functions can read it: they stop at the NUL
// that marks structured content.
const readable = "CASE WHEN m.content < char(1) AND m.content > '' THEN CAST(substr(CAST(m.content AS BLOB), 2) AS TEXT) ELSE COALESCE(m.content, '') END"

// scan is the query as a condition on the messages themselves, of the alias m, with its values.
func (q query) scan() (cond string, args []any) {
	var groups []string
	for _, group := range q {
		var terms []string
		for _, t := range group {
			one := `(` + readable + ` LIKE ? ESCAPE '\' OR COALESCE(m.tool_name, '') LIKE ? ESCAPE '\' OR COALESCE(m.tool_calls, '') LIKE ? ESCAPE '\')`
			if t.not {
				one = "NOT " + one
			}
			terms = append(terms, one)
			p := like(t.text)
			args = append(args, p, p, p)
		}
		groups = append(groups, strings.Join(terms, " AND "))
	}
	return "(" + strings.Join(groups, " OR ") + ")", args
}

// each calls fn for all terms and reports whether it holds for all.
func (q query) all(fn func(term) bool) bool {
	for _, group := range q {
		for _, t := range group {
			if !fn(t) {
				return false
			}
		}
	}
	return true
}

// first is a term that a hit has, for the excerpt.
func (q query) first() string {
	for _, group := range q {
		for _, t := range group {
			if !t.not {
				return t.text
			}
		}
	}
	return ""
}

// long holds for terms that the trigram index can find.
func (t term) long() bool { return utf8.RuneCountInString(t.text) >= 3 }

// dense holds for terms in scripts that put no spaces between words, which the word index does
// not take apart.
func (t term) dense() bool {
	return strings.IndexFunc(t.text, func(r rune) bool {
		return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
	}) >= 0
}
