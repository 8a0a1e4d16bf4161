// SPDX-License-Identifier: MIT

package config

import (
	"slices"
	"strings"
	"testing"
)

// TestKeysAreWhole holds the reference to the defaults: each has an entry, and no entry is
// there twice or says less than what it is for.
func TestKeysAreWhole(t *testing.T) {
	t.Parallel()
	keys, err := Keys()
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, k := range keys {
		if slices.Contains(paths, k.Path) {
			t.Errorf("%s is there twice", k.Path)
		}
		if k.Kind == "" || len(k.What) < 4 {
			t.Errorf("%s: kind %q, what %q", k.Path, k.Kind, k.What)
		}
		paths = append(paths, k.Path)
	}
	c, err := Parse(File{}, File{})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range c.knownPaths() {
		if p := strings.Join(path, "."); !slices.Contains(paths, p) {
			t.Errorf("%s has a default and is not in the reference", p)
		}
	}
	for _, b := range bridge() {
		if p := "terminal." + b.key; !slices.Contains(paths, p) {
			t.Errorf("%s is bridged and is not in the reference", p)
		}
	}
}
