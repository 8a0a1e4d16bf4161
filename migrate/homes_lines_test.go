// SPDX-License-Identifier: MIT

package migrate

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// These tests look at lines of text only, with nothing of the editor: what must not happen
// to a person's file is that a line which no step has business with is lost or rewritten.

// textLines splits into lines without their breaks and a byte order mark.
func textLines(b []byte) []string {
	return strings.Split(strings.ReplaceAll(strings.TrimPrefix(string(b), "\ufeff"), "\r\n", "\n"), "\n")
}

// lineDiff returns the lines of old that have no partner in now, and the other way round,
// by the longest common subsequence.
func lineDiff(old, now []string) (gone, come []string) {
	n, m := len(old), len(now)
	best := make([][]int, n+1)
	for i := range best {
		best[i] = make([]int, m+1)
	}
	for i := n - 1; i >= 0; i-- {
		for j := m - 1; j >= 0; j-- {
			if old[i] == now[j] {
				best[i][j] = best[i+1][j+1] + 1
			} else {
				best[i][j] = max(best[i+1][j], best[i][j+1])
			}
		}
	}
	i, j := 0, 0
	for i < n || j < m {
		switch {
		case i < n && j < m && old[i] == now[j]:
			i, j = i+1, j+1
		case j == m || i < n && best[i+1][j] >= best[i][j+1]:
			gone = append(gone, old[i])
			i++
		default:
			come = append(come, now[j])
			j++
		}
	}
	return gone, come
}

// inPlan reports whether a line shows a planned key, or a value that the plan removes.
func inPlan(p *Plan, file, line string) bool {
	return slices.ContainsFunc(p.Changes, func(c Change) bool {
		if c.File != file {
			return false
		}
		if c.Action == Moved {
			return movedLine.MatchString(line)
		}
		grows := c.Action == Added && (strings.ContainsAny(line, "{[~") || strings.Contains(line, "null"))
		if grows && slices.ContainsFunc(c.Path, func(k string) bool { return strings.Contains(line, k) }) {
			return true // a section in brackets, or an empty one
		}
		item := strings.HasPrefix(strings.TrimSpace(line), "- ") && c.Old == "(list)" || strings.Contains(line, "://") && c.Old == "(an address)"
		if item || strings.Contains(line, c.Path[len(c.Path)-1]) {
			return true
		}
		return showsItem(line, c.Old)
	})
}

// showsItem reports whether a line shows one of the values that a change names.
func showsItem(line, old string) bool {
	return slices.ContainsFunc(strings.Split(old, ", "), func(item string) bool {
		return item != "" && strings.Contains(line, item)
	})
}

// movedLine matches the lines of a custom provider, in the shapes that the frozen homes have.
var movedLine = regexp.MustCompile(`^\s*(- |#|(name|api|base_url|url|api_key|model|default_model|api_mode|transport|models|key_env|context_length|grok-4.6|qwen3:32b|custom_providers|providers|office|[a-z0-9-]+):)`)

// header matches a line that only opens a section.
var header = regexp.MustCompile(`^(\s*["']?[\w-]+["']?:)\s*(#.*)?$`)

func TestHomesKeepLines(t *testing.T) {
	t.Parallel()
	eachHome(t, func(t *testing.T, in Input) {
		p := planOf(t, in, Options{})
		keepsLines(t, p, in, afterPlan(in, p))
	})
}

// keepsLines fails for every line that is lost or new and belongs to no planned key.
func keepsLines(t *testing.T, p *Plan, in, out Input) {
	t.Helper()
	gone, come := lineDiff(textLines(in.Config), textLines(out.Config))
	for _, line := range gone {
		h := header.FindStringSubmatch(line)
		emptied := h != nil && slices.ContainsFunc(come, func(s string) bool {
			return strings.HasPrefix(s, h[1]+" {}") || strings.HasPrefix(s, h[1]+" []")
		})
		if line == "{}" && slices.Contains(come, `{"_config_version": 50}`) {
			continue // a file that held an empty mapping
		}
		comma := slices.Contains(come, strings.Replace(line, ",", "", 1)) || slices.Contains(come, line+",")
		if !emptied && !comma && !inPlan(p, FileConfig, line) {
			t.Errorf("the line %q is lost; changes: %q", line, changesOf(p.Changes))
		}
	}
	gone, come = lineDiff(textLines(in.Env), textLines(out.Env))
	for _, line := range slices.Concat(gone, come) {
		if !inPlan(p, FileEnv, line) {
			t.Errorf(".env: the line %q is lost or new", line)
		}
	}
	if _, come = lineDiff(textLines(in.Soul), textLines(out.Soul)); len(come) > 0 {
		t.Errorf("SOUL.md: new lines %q", come)
	}
}

// comment matches a comment, also what looks like one in text: that must stay as well.
var comment = regexp.MustCompile(`(^|\s)#.*$`)

func TestHomesKeepComments(t *testing.T) {
	t.Parallel()
	eachHome(t, func(t *testing.T, in Input) {
		p := planOf(t, in, Options{})
		out := afterPlan(in, p)
		keepsComments(t, p, FileConfig, in.Config, out.Config)
		keepsComments(t, p, FileEnv, in.Env, out.Env)
	})
}

// keepsComments fails for every comment that is lost and stood on no deleted line.
func keepsComments(t *testing.T, p *Plan, file string, old, now []byte) {
	t.Helper()
	have := map[string]int{}
	for _, line := range textLines(now) {
		have[strings.TrimSpace(comment.FindString(line))]++
	}
	for _, line := range textLines(old) {
		c := strings.TrimSpace(comment.FindString(line))
		if c == "" {
			continue
		}
		if have[c]--; have[c] >= 0 {
			continue
		}
		own := strings.HasPrefix(strings.TrimSpace(line), "#")
		if own || !removedLine(p, file, line) {
			t.Errorf("%s: the comment %q of %q is lost", file, c, line)
		}
	}
}

// removedLine reports whether the key on a line is one that the plan removes.
func removedLine(p *Plan, file, line string) bool {
	return slices.ContainsFunc(p.Changes, func(c Change) bool {
		return c.File == file && c.Action == Removed && (strings.Contains(line, c.Path[len(c.Path)-1]) || showsItem(line, c.Old))
	})
}

// TestHomesLineNumbers: what the report says stands on a line stands there, in the file as
// the person has it.
func TestHomesLineNumbers(t *testing.T) {
	t.Parallel()
	eachHome(t, func(t *testing.T, in Input) {
		p := planOf(t, in, Options{})
		look := func(file string, path []string, line int) {
			text := map[string][]byte{FileConfig: in.Config, FileEnv: in.Env, FileSoul: in.Soul}[file]
			lines := textLines(text)
			if line == 0 {
				return
			}
			if line > len(lines) || !strings.Contains(lines[line-1], path[len(path)-1]) {
				t.Errorf("%s: %q is said to be on line %d: %q", file, path, line, lines[min(line, len(lines))-1])
			}
		}
		for _, c := range slices.Concat(p.Changes, p.NotApplied) {
			look(c.File, c.Path, c.Line)
			if c.Line == 0 && c.Action != Added && !addedBefore(p, c) {
				t.Errorf("%s %q has no line", c.Action, c.Path)
			}
		}
		for _, k := range p.Kept {
			look(k.File, k.Path, k.Line)
		}
	})
}

// addedBefore reports whether the plan itself added what a change changes.
func addedBefore(p *Plan, c Change) bool {
	return slices.ContainsFunc(p.Changes, func(b Change) bool {
		return b.Action == Added && b.Step < c.Step && slices.Equal(b.Path, c.Path)
	})
}
