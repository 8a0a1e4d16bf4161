// SPDX-License-Identifier: MIT

package config

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/migrate/yamlspan"
)

// Declared are the keys that somebody else than the home's owner decides: the settings of a
// NixOS or home-manager configuration. It never changes.
type Declared struct {
	file   string
	leaves []declaredLeaf
	stamp  bool // a version of the format was among them
}

// declaredLeaf is a value as it is to be written: a scalar, a list, or an empty section.
type declaredLeaf struct {
	path []string
	text string // as YAML writes it, on one line
	node *yamlspan.Node
}

// section reports whether the leaf only says that there is a section.
func (l declaredLeaf) section() bool { return l.node.Kind == yamlspan.Mapping }

// ParseDeclared reads a JSON object of settings. A version of the format in it is dropped:
// that belongs to the program that writes the file. The error is an [*Error] of [ErrUnreadable].
func ParseDeclared(f File) (Declared, error) {
	d := Declared{file: f.Path}
	bad := func(msg string, err error) (Declared, error) {
		return d, &Error{Kind: ErrUnreadable, File: f.Path, Msg: msg, Fix: "expected one JSON object, as builtins.toJSON writes it", Err: err}
	}
	var line bytes.Buffer
	if err := json.Compact(&line, f.Data); err != nil {
		return bad("is not JSON", err)
	}
	l, err := newLayer(f.Path, line.Bytes(), User)
	if err != nil {
		return bad("cannot be read", err)
	}
	if l.doc.Root() == nil || l.doc.Root().Kind != yamlspan.Mapping {
		return bad("holds no object", nil)
	}
	leaves, err := declaredLeaves(line.String(), l.doc.Root(), nil)
	if err != nil {
		return bad(err.Error(), nil)
	}
	d.leaves = slices.DeleteFunc(leaves, func(l declaredLeaf) bool { return l.path[0] == stampKey })
	d.stamp = len(d.leaves) < len(leaves)
	return d, nil
}

// repeatedKeyError says that an object has a key twice.
type repeatedKeyError []string

func (k repeatedKeyError) Error() string { return yamlspan.PathString(k) + " is given twice" }

// declaredLeaves lists what is below a mapping, in the order of the file.
func declaredLeaves(src string, n *yamlspan.Node, path []string) ([]declaredLeaf, error) {
	var out []declaredLeaf
	seen := map[string]bool{}
	for _, p := range n.Pairs {
		here := append(slices.Clip(path), p.Key.Value)
		if seen[p.Key.Value] {
			return nil, repeatedKeyError(here)
		}
		seen[p.Key.Value] = true
		if p.Value.Kind != yamlspan.Mapping || len(p.Value.Pairs) == 0 {
			out = append(out, declaredLeaf{here, textOf(src[p.Value.Start:p.Value.End], p.Value), p.Value})
			continue
		}
		below, err := declaredLeaves(src, p.Value, here)
		if err != nil {
			return nil, err
		}
		out = append(out, below...)
	}
	return out, nil
}

// textOf writes a value of JSON as YAML: text bare where nothing could misread it, and a
// number with an exponent without one, which some readers of YAML take for text.
func textOf(src string, n *yamlspan.Node) string {
	if n.Kind != yamlspan.Scalar {
		return src
	}
	if strings.HasPrefix(src, `"`) {
		return yamlspan.Quote(n.Value)
	}
	if f, err := strconv.ParseFloat(src, 64); err == nil && strings.ContainsAny(src, "eE") {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	return src
}

// Decides reports whether a key, one above it or one below it is declared.
func (d Declared) Decides(path ...string) bool {
	return slices.ContainsFunc(d.leaves, func(l declaredLeaf) bool {
		n := min(len(l.path), len(path))
		return slices.Equal(l.path[:n], path[:n])
	})
}
