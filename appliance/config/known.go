// SPDX-License-Identifier: MIT

package config

import (
	"errors"
	"slices"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/migrate/yamlspan"
)

// known says what a key that this program reads may hold; ok is false for every other key,
// about which nobody here has an opinion.
func (c *Config) known(path []string) (k kind, ok bool) {
	if len(path) == 2 && path[0] == terminalKey {
		if b, ok := bridgedKey(path[1]); ok {
			return b.kind, true
		}
	}
	f, ok := c.layers[Default].doc.Find(path...)
	switch {
	case !ok:
		return 0, false
	case f.Node.Kind == yamlspan.Sequence:
		return kindList, true
	case f.Node.Kind == yamlspan.Mapping:
		return 0, false // a section; its keys are known
	}
	switch yamlspan.Resolve(f.Node).(type) {
	case bool:
		return kindBool, true
	case int64, nil:
		if strings.HasSuffix(path[len(path)-1], "_seconds") {
			return kindNumber, true
		}
		return kindWhole, true
	case float64:
		return kindNumber, true
	}
	if words(path) != nil {
		return kindWord, true
	}
	return kindText, true
}

// words returns what a key may say, nil if that is open.
func words(path []string) []string {
	switch {
	case slices.Equal(path, []string{terminalKey, "backend"}):
		return Backends()
	case slices.Equal(path, []string{terminalKey, "home_mode"}):
		return []string{"auto", "real", "profile"}
	case slices.Equal(path, []string{"database", "journal_mode"}):
		return []string{"wal", "delete"}
	}
	return nil
}

// nullable reports whether null means something else than nothing for a known key.
func (c *Config) nullable(path []string) bool {
	f, ok := c.layers[Default].doc.Find(path...)
	return ok && isNull(f.Node)
}

// knownPaths returns the paths of all keys that have a default, in the order of its file.
func (c *Config) knownPaths() [][]string {
	var out [][]string
	var visit func(n *yamlspan.Node, path []string)
	visit = func(n *yamlspan.Node, path []string) {
		for _, p := range n.Pairs {
			here := append(slices.Clip(path), p.Key.Value)
			if p.Value.Kind == yamlspan.Mapping && len(p.Value.Pairs) > 0 {
				visit(p.Value, here)
				continue
			}
			out = append(out, here)
		}
	}
	visit(c.layers[Default].doc.Root(), nil)
	return out
}

// fault returns what is wrong with the value of a known key, nil if nothing is. A value that
// depends on a variable is judged only where variables can be looked up.
func (v View) fault(path []string) *Error {
	k, ok := v.known(path)
	if !ok {
		return nil
	}
	if l, _, _ := v.at(path); v.lookup == nil {
		if s, isText := l.value().(string); isText && strings.Contains(s, "${") {
			return nil
		}
	}
	var value string
	var err error
	if k == kindList && BridgeName(path...) == "" {
		_, err = v.Strings(path...)
	} else {
		value, ok, err = v.bridgeText(bridged{path[len(path)-1], k}, path)
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if w := words(path); ok && w != nil && !slices.Contains(w, strings.ToLower(value)) {
		l, _, _ := v.find(path, "") //nolint:errcheck // it was found before
		e := l.wrong(path, "one of "+strings.Join(w, ", "))
		if near := nearest(value, w); near != "" {
			e.Fix = "did you mean " + near + "?"
		}
		return e
	}
	return nil
}

// nearest returns the word that a text most likely means, "" if there is none.
func nearest(s string, words []string) string {
	best, least := "", 3
	for _, w := range words {
		if d := distance(strings.ToLower(s), w); d < least {
			best, least = w, d
		}
	}
	return best
}

// distance is how many letters must be added, dropped or changed between two words.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
