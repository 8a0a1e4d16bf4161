// SPDX-License-Identifier: MIT

// Package yamlspan edits YAML by replacing byte ranges: it finds where a key, a value or a
// list item stands in the file and cuts or inserts exactly there, so that every other byte
// (comments, order, quotes, anchors, line endings, a byte order mark) stays what it was.
// It never emits a document from a tree, never writes a file and never guesses: what it
// cannot edit without side effects (a node behind an alias or a merge, a key given twice)
// is an [*EditError] that names the line.
//
// A [Doc] is immutable; an edit returns a new one. Docs are safe for concurrent reading.
package yamlspan

import "fmt"

// Kind is the shape of a node.
type Kind uint8

// The kinds of node.
const (
	Scalar Kind = iota + 1
	Mapping
	Sequence
	Alias
)

func (k Kind) String() string {
	switch k {
	case Scalar:
		return "scalar"
	case Mapping:
		return "mapping"
	case Sequence:
		return "list"
	case Alias:
		return "alias"
	default:
		return "unknown"
	}
}

// Style is how a node is written.
type Style uint8

// The styles: the first five are a scalar's, the last two a collection's.
const (
	Plain Style = iota + 1
	SingleQuoted
	DoubleQuoted
	Literal
	Folded
	Block
	Flow
)

// Node is one node of the document and where it stands. All offsets are bytes from the
// start of the file; End is exclusive.
type Node struct {
	Kind   Kind
	Style  Style
	Tag    string // explicit tag as written, e.g. "!!str"; "" = none
	Anchor string // without the ampersand; "" = none
	Value  string // scalar: decoded text; alias: the anchor's name

	Start int // first byte, properties (tag, anchor) included
	Body  int // first byte after the properties
	End   int // after the last byte of content; Start == End for a value left empty

	Pairs []Pair  // Mapping
	Items []*Node // Sequence

	propEnd int   // after the properties, without the blanks behind them; 0 = none
	dashes  []int // block sequence: offset of each item's '-'
	open    int   // flow collection: offset of the opening bracket
	column  int   // block collection: column of its keys or dashes
}

// Empty reports whether the node is a value left out, as in "key:" with nothing behind it.
func (n *Node) Empty() bool { return n.Kind == Scalar && n.Body == n.End && n.Style == Plain }

// Pair is one entry of a mapping.
type Pair struct {
	Key, Value *Node
	start      int // the key's first byte, or that of an explicit "?"
	colon      int // offset of ':', -1 if the entry has none
}

// SyntaxError says where a document stops being YAML that this package understands.
type SyntaxError struct {
	Line, Column int // 1-based; Column counts bytes
	Msg          string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Msg)
}

// EditError says why a node cannot be edited without changing something else.
type EditError struct {
	Line int // 1-based line to look at
	Path []string
	Msg  string
}

func (e *EditError) Error() string {
	return fmt.Sprintf("line %d: %s: %s", e.Line, PathString(e.Path), e.Msg)
}
