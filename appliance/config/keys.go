// SPDX-License-Identifier: MIT

package config

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
)

// keyLines has a line for each key: path, kind and what it is for, divided by tabs. A kind that
// a default shows is left out.
//
//go:embed keys.txt
var keyLines string

// Key is a key of config.yaml that this program knows.
type Key struct {
	Path    string `json:"path"`              // segments joined by dots; <name> stands for any one
	Kind    string `json:"kind"`              // what it may hold, in words
	Default string `json:"default,omitempty"` // as YAML; "" = there is none
	What    string `json:"what"`
}

// Keys returns all keys, by their paths. About keys that are not among them nobody here has an
// opinion: they stay where they are, for upstream.
func Keys() ([]Key, error) {
	c, err := Parse(File{}, File{})
	if err != nil {
		return nil, err
	}
	var out []Key
	for line := range strings.Lines(keyLines) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		if len(f) != 3 {
			return nil, fmt.Errorf("keys.txt: %q: expected path, kind and text", line)
		}
		out = append(out, Key{Path: f[0], Kind: f[1], What: f[2]})
	}
	for i := range out {
		k := &out[i]
		path := strings.Split(k.Path, ".")
		f, ok := c.layers[Default].doc.Find(path...)
		if !ok {
			continue
		}
		k.Default = string(c.layers[Default].doc.Bytes()[f.Node.Body:f.Node.End])
		if kind, ok := c.known(path); ok && k.Kind == "" {
			k.Kind = kind.String()
		}
		if w := words(path); w != nil {
			k.Kind = strings.Join(w, ", ")
		}
		if strings.HasSuffix(k.Path, "_seconds") || k.Path == "terminal.timeout" {
			k.Kind = "seconds"
		}
	}
	slices.SortFunc(out, func(a, b Key) int { return strings.Compare(a.Path, b.Path) })
	return out, nil
}
