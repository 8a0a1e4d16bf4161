// SPDX-License-Identifier: MIT

package config

import (
	"slices"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/migrate/yamlspan"
)

// misspelt names keys that mean nothing here and look like one that does: a section with one
// wrong letter is a bot without channels (PicoClaw #2742). Any other unknown key is upstream's.
func (p *problems) misspelt(c *Config) {
	l := c.layers[User]
	keys, err := Keys()
	if l == nil || l.doc.Root() == nil || err != nil {
		return
	}
	var known [][]string
	for _, k := range keys {
		known = append(known, strings.Split(k.Path, "."))
	}
	var visit func(n *yamlspan.Node, path []string)
	visit = func(n *yamlspan.Node, path []string) {
		for _, pair := range n.Pairs {
			here := append(slices.Clip(path), pair.Key.Value)
			names := siblings(known, path)
			if slices.Contains(names, pair.Key.Value) || slices.ContainsFunc(names, func(s string) bool { return strings.HasPrefix(s, "<") }) {
				visit(pair.Value, here)
				continue
			}
			if near := typo(pair.Key.Value, names); near != "" && !has(n, near) {
				p.add(Fault, l.file, l.doc.Line(pair.Key.Start), here, "means nothing here", "did you mean "+near+"?")
			}
		}
	}
	visit(l.doc.Root(), nil)
}

// siblings are the names that the reference has below a path, where each may stand once.
func siblings(known [][]string, path []string) []string {
	var out []string
	for _, k := range known {
		if len(k) <= len(path) {
			continue
		}
		ok := true
		for i, seg := range path {
			ok = ok && (k[i] == seg || strings.HasPrefix(k[i], "<"))
		}
		if ok && !slices.Contains(out, k[len(path)]) {
			out = append(out, k[len(path)])
		}
	}
	return out
}

// typo returns the name that a word is a slip of the pen for, "" if there is none. Short words
// are near each other by chance, and a plural is another word.
func typo(s string, names []string) string {
	if len(s) < 5 {
		return ""
	}
	near := nearest(s, names)
	if near == "" || len(near) < 5 || distance(strings.ToLower(s), near)*4 > len(near)+1 {
		return ""
	}
	return near
}

func has(n *yamlspan.Node, key string) bool {
	return slices.ContainsFunc(n.Pairs, func(p yamlspan.Pair) bool { return p.Key.Value == key })
}
