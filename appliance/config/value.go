// SPDX-License-Identifier: MIT

package config

import (
	"slices"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/migrate/yamlspan"
)

// newValue is a value to write, and the ways in which it may be written, best first.
type newValue struct {
	node  *yamlspan.Node
	texts []string
}

// scalar reports whether the value is a single one.
func (n newValue) scalar() bool { return n.node.Kind == yamlspan.Scalar }

// parseValue reads a value as a person gives it on a command line: one YAML scalar, or a
// list or section in brackets. An empty text is an empty text, not null. The error is an
// [*Error] of [ErrUsage].
func parseValue(path []string, given string) (newValue, error) {
	s := strings.Trim(given, " \t")
	bad := func(msg, fix string) (newValue, error) {
		return newValue{}, &Error{Kind: ErrUsage, Path: path, Msg: msg, Fix: fix}
	}
	if s == "" {
		s = `""`
	}
	if strings.ContainsAny(s, "\n\r\u0085\u2028\u2029") {
		return bad("the value has more than one line", `write it in double quotes, with \n for a new line`)
	}
	quote := "to write it as text, put it in quotes: '" + yamlspan.Quote(s) + "'"
	doc, err := yamlspan.Parse([]byte(s))
	if err != nil {
		return bad("the value is not valid YAML", quote)
	}
	n := doc.Root()
	switch {
	case n == nil || n.Start != 0 || n.End != len(s):
		return bad("a part of the value would be taken for a comment or a marker", quote)
	case n.Kind == yamlspan.Mapping && n.Style != yamlspan.Flow:
		return bad("the value reads as a section of keys", "write it in brackets: '{"+s+"}', or "+quote)
	case n.Kind == yamlspan.Sequence && n.Style != yamlspan.Flow:
		return bad("the value reads as a list", "write it in brackets: '["+strings.TrimSpace(strings.TrimPrefix(s, "-"))+"]', or "+quote)
	case decorated(n):
		return bad("the value has a tag, an anchor or an alias; expected a plain value", quote)
	}
	v := newValue{n, []string{s}}
	if text, isText := yamlspan.Resolve(n).(string); isText {
		v.texts = append(v.texts, yamlspan.Quote(text))
	}
	return v, nil
}

// decorated reports whether a node, or one below it, has more than a value.
func decorated(n *yamlspan.Node) bool {
	if n.Tag != "" || n.Anchor != "" || n.Kind == yamlspan.Alias {
		return true
	}
	for _, p := range n.Pairs {
		if decorated(p.Key) || decorated(p.Value) {
			return true
		}
	}
	return slices.ContainsFunc(n.Items, decorated)
}

// fit shapes a value for a known key: what the key takes for text is written as text, also
// if YAML would take it for something else.
func (c *Config) fit(path []string, n newValue) (newValue, error) {
	k, ok := c.known(path)
	if !ok || !n.scalar() {
		return n, nil
	}
	v := yamlspan.Resolve(n.node)
	switch k {
	case kindText, kindWord, kindImage, kindDir:
		if _, isText := v.(string); !isText && (v != nil || k == kindDir && n.node.Value == "~") {
			n.texts = []string{yamlspan.Quote(n.node.Value)}
			v = n.node.Value
		}
	}
	s, isText := v.(string)
	blank := isText && strings.TrimSpace(s) == "" && (k == kindWord || k == kindImage || k == kindDir)
	if blank || v == nil && !c.nullable(path) {
		return n, &Error{Kind: ErrUsage, Path: path, Msg: "an empty value says nothing here", Fix: "to follow the default, unset the key"}
	}
	return n, nil
}
