// SPDX-License-Identifier: MIT

package files

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// ignoreRule is one line of a .gitignore.
type ignoreRule struct {
	path    *regexp.Regexp // from the directory of the file on
	keep    bool           // the line starts with "!"
	dirOnly bool
}

// ignores are the rules that count in a directory: its own and those of the directories
// above it, up to the root of the repository.
type ignores struct {
	dir   string // slashes
	rules []ignoreRule
	above *ignores
}

// parseIgnore reads a .gitignore.
func parseIgnore(text string) []ignoreRule {
	var out []ignoreRule
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
			line = line[:len(line)-1]
		}
		if line == "" || line[0] == '#' {
			continue
		}
		var r ignoreRule
		if line[0] == '!' {
			r.keep, line = true, line[1:]
		}
		if rest, ok := strings.CutSuffix(line, "/"); ok {
			r.dirOnly, line = true, rest
		}
		if line == "" {
			continue
		}
		// A slash that is not the last character binds the pattern to the directory.
		if strings.Contains(line, "/") {
			line = strings.TrimPrefix(line, "/")
		} else {
			line = "**/" + line
		}
		if re, err := glob(line, false); err == nil {
			r.path = re
			out = append(out, r)
		}
	}
	return out
}

// ignored reports whether a path, with slashes, is left out. Of the rules that fit, the last
// one of the innermost file decides.
func (g *ignores) ignored(p string, isDir bool) bool {
	for ; g != nil; g = g.above {
		rel, ok := strings.CutPrefix(p, strings.TrimSuffix(g.dir, "/")+"/")
		if !ok {
			continue
		}
		for _, r := range slices.Backward(g.rules) {
			if r.dirOnly && !isDir {
				continue
			}
			if r.path.MatchString(rel) {
				return !r.keep
			}
		}
	}
	return false
}

// within returns the rules for a directory below g's.
func (g *ignores) within(dir string) *ignores {
	rules := readIgnore(filepath.Join(dir, ".gitignore"))
	if len(rules) == 0 {
		return g
	}
	return &ignores{dir: filepath.ToSlash(dir), rules: rules, above: g}
}

func readIgnore(file string) []ignoreRule {
	const most = 1 << 20
	info, err := os.Lstat(file)
	if err != nil || !info.Mode().IsRegular() || info.Size() > most {
		return nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	return parseIgnore(string(data))
}

// ignoresAt returns the rules that count in a directory, nil if it is in no repository.
func ignoresAt(dir string) *ignores {
	chain := []string{}
	for d := dir; ; d = filepath.Dir(d) {
		chain = append(chain, d)
		if _, err := os.Lstat(filepath.Join(d, ".git")); err == nil {
			g := &ignores{dir: filepath.ToSlash(d), rules: readIgnore(filepath.Join(d, ".git", "info", "exclude"))}
			for _, c := range slices.Backward(chain) {
				g = g.within(c)
			}
			return g
		}
		if path.Dir(filepath.ToSlash(d)) == filepath.ToSlash(d) || filepath.Dir(d) == d {
			return nil
		}
	}
}
