// SPDX-License-Identifier: MIT

package mcp

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"path"
	"slices"
	"strings"
)

const (
	prefix     = "mcp__"
	delimiter  = "__"
	maxName    = 64 // of a function, at the strictest provider
	maxSlug    = 30
	hashDigits = 6
)

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func sortTools(tools []Tool) {
	slices.SortFunc(tools, func(a, b Tool) int { return cmp.Compare(a.Name, b.Name) })
}

// plain replaces every character that a function's name may not have.
func plain(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, name)
}

// slug is plain without a double or trailing underscore: what follows the first double
// underscore after the prefix is the tool, whatever the server calls it.
func slug(name string) string {
	s := plain(name)
	for strings.Contains(s, delimiter) {
		s = strings.ReplaceAll(s, delimiter, "_")
	}
	return strings.TrimRight(s, "_")
}

// slugs gives each server of a profile its part of the names.
func slugs(servers []string) map[string]string { return assign(servers, slug, maxSlug, "server") }

// toolNames gives each tool of a server its full name.
func toolNames(server string, tools []string) map[string]string {
	start := prefix + server + delimiter
	out := assign(tools, plain, maxName-len(start), "tool")
	for k, v := range out {
		out[k] = start + v
	}
	return out
}

// assign gives each name a spelling of its own of at most most bytes, independent of the
// order. A name that is its own spelling keeps it. Of the others one that is alone with its
// spelling has it; names that share one get a hash.
func assign(names []string, spell func(string) string, most int, empty string) map[string]string {
	names = slices.Clone(names)
	slices.Sort(names)
	names = slices.Compact(names)
	wanted := map[string]int{}
	for _, n := range names {
		wanted[spell(n)]++
	}
	out, taken := map[string]string{}, map[string]bool{}
	fits := func(n string) bool { s := spell(n); return s != "" && len(s) <= most }
	for _, n := range names {
		if s := spell(n); fits(n) && (s == n || wanted[s] == 1) {
			out[n], taken[s] = s, true
		}
	}
	for _, n := range names {
		if _, ok := out[n]; ok {
			continue
		}
		sum := sha256.Sum256([]byte(n))
		for digits := hashDigits; ; digits++ {
			tail := "_" + hex.EncodeToString(sum[:])[:digits]
			s := cmp.Or(spell(n), empty)
			s = strings.TrimRight(s[:min(len(s), most-len(tail))], "_") + tail
			if !taken[s] {
				out[n], taken[s] = s, true
				break
			}
		}
	}
	return out
}

// chosen reports whether the config wants a tool. Patterns are globs over the server's own
// name; one that is no glob is compared as it is.
func (s Server) chosen(tool string) bool {
	if s.Include != nil {
		return matches(*s.Include, tool)
	}
	return !matches(s.Exclude, tool)
}

func matches(patterns []string, tool string) bool {
	// path.Match stops a star at a slash, which is nothing special in a tool's name.
	flat := strings.ReplaceAll(tool, "/", "\x00")
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(strings.ReplaceAll(p, "/", "\x00"), flat)
		return ok && err == nil || p == tool
	})
}
