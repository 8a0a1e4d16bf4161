// SPDX-License-Identifier: MIT

package yamlspan

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Tree is what a document says, without where it stands: the reading that a library gives
// of it, independent of this package's own parser. Two trees that are [Tree.Equal] mean the
// same to a reader and hold their keys in the same order; comments, quotes and indentation do
// not count, the difference between 1 and "1" does.
type Tree struct {
	Kind   Kind
	Scalar string // canonical: type and value, e.g. "int 5" or "text five"
	Anchor string
	Alias  string
	Keys   []*Tree
	Values []*Tree // of a mapping beside Keys; of a list its items

	tag   string // of a list or mapping; a scalar's is part of Scalar
	flow  bool   // list or mapping: written in brackets
	plain bool   // scalar: written without quotes
	typed bool   // scalar: its type comes from a tag
	text  string // scalar: decoded text
	line  int    // 1-based, as the library counts
}

// Text returns the decoded text of a scalar.
func (t *Tree) Text() string { return t.text }

// ReadTree reads src with the library. A nil tree is a file without content.
func ReadTree(src []byte) (*Tree, error) {
	dec := yaml.NewDecoder(bytes.NewReader(src))
	var doc yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		return nil, unnamed(err)
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		if err == nil {
			err = errors.New("more than one document")
		}
		return nil, err
	}
	if len(doc.Content) != 1 {
		return nil, nil
	}
	t := convert(doc.Content[0])
	if t.Kind == Scalar && t.plain && t.Scalar == "null" && t.text == "" && t.Anchor == "" {
		return nil, nil
	}
	return t, nil
}

// unnamed keeps the library from quoting the file: what it takes for the name of an anchor may be a
// password that begins with "*" and has no quotes.
func unnamed(err error) error {
	if strings.Contains(err.Error(), "anchor '") {
		return errors.New("an alias has no anchor before it, or stands for itself; a text that begins with * needs quotes")
	}
	return err
}

func convert(n *yaml.Node) *Tree {
	t := &Tree{Anchor: n.Anchor, flow: n.Style&yaml.FlowStyle != 0, line: n.Line}
	tag := ""
	if n.Style&yaml.TaggedStyle != 0 {
		tag = n.Tag
	}
	switch n.Kind {
	case yaml.ScalarNode:
		t.Kind = Scalar
		t.text = n.Value
		t.plain = n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) == 0
		t.Scalar, t.typed = canonical(n.Value, t.plain, tag), tag != ""
	case yaml.AliasNode:
		t.Kind, t.Alias = Alias, n.Value
	case yaml.SequenceNode:
		t.Kind, t.tag = Sequence, tag
		for _, c := range n.Content {
			t.Values = append(t.Values, convert(c))
		}
	case yaml.MappingNode:
		t.Kind, t.tag = Mapping, tag
		for i := 0; i+1 < len(n.Content); i += 2 {
			t.Keys = append(t.Keys, convert(n.Content[i]))
			t.Values = append(t.Values, convert(n.Content[i+1]))
		}
	}
	return t
}

// canonical names the type and the value of a scalar.
func canonical(text string, plain bool, tag string) string {
	if tag != "" && tag != "!!str" && tag != "!" && tag != "!!int" && tag != "!!bool" && tag != "!!null" && tag != "!!float" {
		return tag + " " + text
	}
	if tag == "" && !plain {
		return "text " + text
	}
	style := Plain
	if !plain {
		style = DoubleQuoted
	}
	switch v := Resolve(&Node{Kind: Scalar, Style: style, Tag: tag, Value: text}).(type) {
	case nil:
		return "null"
	case bool:
		if v {
			return "bool true"
		}
		return "bool false"
	case int64:
		return "int " + strconv.FormatInt(v, 10)
	case float64:
		return fmt.Sprintf("float %v", v)
	}
	return "text " + text
}

// ScalarTree is the tree of one scalar as YAML writes it.
func ScalarTree(text string) (*Tree, error) {
	t, err := ReadTree([]byte(text))
	if err != nil || t == nil {
		return &Tree{Kind: Scalar, Scalar: "null", plain: true}, err
	}
	return t, nil
}

// Equal reports whether two trees mean the same; where is the path of the first difference.
func (t *Tree) Equal(u *Tree) (equal bool, where []string) {
	if t == nil || u == nil {
		return t == u || t.bare() && u.bare(), nil
	}
	if t.Kind != u.Kind || t.Scalar != u.Scalar || t.tag != u.tag || t.Anchor != u.Anchor || t.Alias != u.Alias ||
		len(t.Values) != len(u.Values) || len(t.Keys) != len(u.Keys) {
		return false, nil
	}
	for i := range t.Values {
		if t.Kind == Mapping {
			if ok, _ := t.Keys[i].Equal(u.Keys[i]); !ok {
				return false, []string{t.Keys[i].label()}
			}
		}
		if ok, w := t.Values[i].Equal(u.Values[i]); !ok {
			name := strconv.Itoa(i)
			if t.Kind == Mapping {
				name = t.Keys[i].label()
			}
			return false, append([]string{name}, w...)
		}
	}
	return true, nil
}

// bare reports whether t says nothing: no content or an empty mapping.
func (t *Tree) bare() bool {
	return t == nil || t.Kind == Mapping && len(t.Keys) == 0 || t.Kind == Scalar && t.Scalar == "null"
}

func (t *Tree) label() string {
	if t.Kind == Scalar {
		return t.text
	}
	return "(" + t.Kind.String() + ")"
}

// Agrees checks that this package's reading of the file is the library's. An error means
// that the file holds something one of the two misreads, so that no edit can be trusted.
func (d *Doc) Agrees(t *Tree) error {
	own := d.tree()
	if own == nil && t == nil {
		return nil
	}
	if ok, where := own.Equal(t); !ok {
		return &EditError{d.lineOf(d.nearest(where)), where, "two parsers read this differently; write it in a simpler form"}
	}
	return nil
}

// nearest follows a path that [Tree.Equal] gave as far as it goes.
func (d *Doc) nearest(path []string) *Node {
	n := d.root
	for _, name := range path {
		i, err := strconv.Atoi(name)
		if n.Kind == Sequence && err == nil && i < len(n.Items) {
			n = n.Items[i]
			continue
		}
		i, _ = n.get(name)
		if i < 0 {
			return n
		}
		n = n.Pairs[i].Value
	}
	return n
}

func ownTree(n *Node) *Tree {
	if n == nil {
		return nil
	}
	t := &Tree{Kind: n.Kind, Anchor: n.Anchor}
	if n.Tag != "!" && n.Kind != Scalar {
		t.tag = n.Tag
	}
	switch n.Kind {
	case Scalar:
		t.text, t.plain = n.Value, n.Style == Plain
		t.Scalar, t.typed = canonical(n.Value, t.plain, n.Tag), n.Tag != ""
	case Alias:
		t.Alias = n.Value
	case Mapping:
		for _, p := range n.Pairs {
			t.Keys = append(t.Keys, ownTree(p.Key))
			t.Values = append(t.Values, ownTree(p.Value))
		}
	case Sequence:
		for _, it := range n.Items {
			t.Values = append(t.Values, ownTree(it))
		}
	}
	return t
}

// index returns the position of the only key with this text, -1 if there is none.
func (t *Tree) index(key string) int {
	if t == nil || t.Kind != Mapping {
		return -1
	}
	for i, k := range t.Keys {
		if k.Kind == Scalar && k.text == key {
			return i
		}
	}
	return -1
}

// At returns the tree at path, nil if there is none.
func (t *Tree) At(path ...string) *Tree {
	for _, key := range path {
		i := t.index(key)
		if i < 0 {
			return nil
		}
		t = t.Values[i]
	}
	return t
}

// Clone returns a deep copy.
func (t *Tree) Clone() *Tree {
	if t == nil {
		return nil
	}
	c := *t
	c.Keys, c.Values = nil, nil
	for _, k := range t.Keys {
		c.Keys = append(c.Keys, k.Clone())
	}
	for _, v := range t.Values {
		c.Values = append(c.Values, v.Clone())
	}
	return &c
}

// Remove takes the entry at path out of the tree.
func (t *Tree) Remove(path ...string) error {
	parent := t.At(path[:len(path)-1]...)
	i := parent.index(path[len(path)-1])
	if i < 0 {
		return fmt.Errorf("%s: not in the file", PathString(path))
	}
	parent.Keys = append(parent.Keys[:i:i], parent.Keys[i+1:]...)
	parent.Values = append(parent.Values[:i:i], parent.Values[i+1:]...)
	return nil
}

// Put sets the value at path, and makes the sections on the way to it.
func (t *Tree) Put(v *Tree, path ...string) {
	for k, key := range path {
		if t.Kind != Mapping {
			*t = Tree{Kind: Mapping, Anchor: t.Anchor}
		}
		i := t.index(key)
		last := k == len(path)-1
		switch {
		case i >= 0 && last:
			v.Anchor = t.Values[i].Anchor
			t.Values[i] = v
		case i < 0:
			t.Keys = append(t.Keys, &Tree{Kind: Scalar, Scalar: "text " + key, text: key})
			t.Values = append(t.Values, &Tree{Kind: Mapping})
			i = len(t.Keys) - 1
			if last {
				t.Values[i] = v
			}
		}
		t = t.Values[i]
	}
}

// PutBefore adds an entry in front of the entry with the key before.
func (t *Tree) PutBefore(before string, v *Tree, key string) {
	i := max(t.index(before), 0)
	t.Keys = slices.Insert(t.Keys, i, &Tree{Kind: Scalar, Scalar: "text " + key, text: key})
	t.Values = slices.Insert(t.Values, i, v)
}

// Rename gives the key at path another name.
func (t *Tree) Rename(name string, path ...string) error {
	parent := t.At(path[:len(path)-1]...)
	i := parent.index(path[len(path)-1])
	if i < 0 {
		return fmt.Errorf("%s: not in the file", PathString(path))
	}
	parent.Keys[i] = &Tree{Kind: Scalar, Scalar: "text " + name, Anchor: parent.Keys[i].Anchor, text: name}
	return nil
}

// Tree makes the tree of a Value.
func (v Value) Tree() (*Tree, error) {
	switch {
	case v.Map != nil:
		t := &Tree{Kind: Mapping}
		for _, f := range v.Map {
			c, err := f.Value.Tree()
			if err != nil {
				return nil, err
			}
			t.Put(c, f.Key)
		}
		return t, nil
	case v.List != nil:
		t := &Tree{Kind: Sequence}
		for _, it := range v.List {
			c, err := ScalarTree(it)
			if err != nil {
				return nil, err
			}
			t.Values = append(t.Values, c)
		}
		return t, nil
	}
	return ScalarTree(strings.TrimSpace(v.Scalar))
}
