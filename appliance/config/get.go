// SPDX-License-Identifier: MIT

package config

import (
	"strings"

	"github.com/hermes-appliance/hermes-appliance/migrate/yamlspan"
)

// Entry is what is known about one key.
type Entry struct {
	Path   []string
	Value  any    // decoded, with ${NAME} as it is written
	Text   string // as it is written; of a section with its comments
	Origin Origin
	File   string // that decides it; of a section, the highest that has it
	Line   int    // of the key in that file, 1-based
}

// Get returns what counts for a key and where that is written. A key that no file has and
// that has no default is an [*Error] of [ErrNoKey]. The caller decides whether a value may
// be shown: it can be a secret.
func (c *Config) Get(path ...string) (Entry, error) {
	if c.deciding(path) == Unset {
		e := &Error{Kind: ErrNoKey, Path: path, Msg: "is not set and has no default"}
		if near := c.neighbour(path); near != nil {
			e.Fix = "did you mean " + yamlspan.PathString(near) + "?"
		}
		return Entry{}, e
	}
	v, err := c.With(nil).Value(path...)
	if err != nil {
		return Entry{}, err
	}
	out := Entry{Path: path, Value: v, Origin: c.Origin(path...)}
	out.File, out.Line = c.sectionAt(path)
	l := c.layers[out.Origin]
	if f, ok := l.doc.Find(path...); ok {
		out.Text = strings.TrimSpace(string(l.doc.Bytes()[f.Node.Body:f.Node.End]))
	}
	return out, nil
}

// neighbour returns the known key whose last segment is nearest to that of a path.
func (c *Config) neighbour(path []string) []string {
	if len(path) == 0 {
		return nil
	}
	var words []string
	at := map[string][]string{}
	for _, p := range c.knownPaths() {
		if len(p) == len(path) && hasPrefix(p, path[:len(path)-1]) {
			words = append(words, p[len(p)-1])
			at[p[len(p)-1]] = p
		}
	}
	return at[nearest(path[len(path)-1], words)]
}
