// SPDX-License-Identifier: MIT

package tool

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/hermes-appliance/hermes-appliance/migrate/yamlspan"
)

const (
	maxSkillName  = 64
	maxSkillAbout = 1024
	maxSkillChars = 100_000
	maxSkillFile  = 1 << 20
)

var reFence = regexp.MustCompile(`(?m)^---[ \t]*\r?$`)

// splitFrontmatter returns the YAML between the fences of a SKILL.md and what follows it.
func splitFrontmatter(text string) (front, body string, ok bool) {
	text = strings.TrimPrefix(text, "\ufeff")
	if !strings.HasPrefix(text, "---") {
		return "", text, false
	}
	fences := reFence.FindAllStringIndex(text, 2)
	if len(fences) < 2 || fences[0][0] != 0 {
		return "", text, false
	}
	return text[fences[0][1]:fences[1][0]], strings.TrimLeft(text[fences[1][1]:], "\r\n"), true
}

// frontmatter is what a skill says of itself.
type frontmatter struct {
	name, about string
	values      map[string]any
}

// parseFrontmatter reads a SKILL.md for showing it: what cannot be read is left out.
func parseFrontmatter(text string) (frontmatter, string) {
	front, body, ok := splitFrontmatter(text)
	var f frontmatter
	if ok {
		if t, err := yamlspan.ReadTree([]byte(front)); err == nil && t != nil {
			f.values, _ = value(t, 0).(map[string]any)
		}
	}
	f.name, f.about = plainText(f.values["name"]), plainText(f.values["description"])
	if f.about == "" { // the first line that is no heading
		for l := range strings.Lines(body) {
			if l = strings.TrimSpace(l); l != "" && !strings.HasPrefix(l, "#") {
				f.about = l
				break
			}
		}
	}
	return f, body
}

func plainText(v any) string {
	switch x := v.(type) {
	case string:
		return strings.TrimSpace(x)
	case nil:
		return ""
	}
	return fmt.Sprint(v)
}

// value turns a tree into texts, lists and maps. Aliases are not followed.
func value(t *yamlspan.Tree, depth int) any {
	const deepest = 20
	if t == nil || depth > deepest {
		return nil
	}
	switch t.Kind {
	case yamlspan.Mapping:
		out := map[string]any{}
		for i, k := range t.Keys {
			out[k.Text()] = value(t.Values[i], depth+1)
		}
		return out
	case yamlspan.Sequence:
		out := []any{}
		for _, v := range t.Values {
			out = append(out, value(v, depth+1))
		}
		return out
	default:
		if strings.HasPrefix(t.Scalar, "null") {
			return nil
		}
		return t.Text() // as it is written: a skill may be called "off"
	}
}

// texts reads a list of words: a list, "[a, b]" or "a, b".
func texts(v any) []string {
	out := []string{}
	switch x := v.(type) {
	case []any:
		for _, e := range x {
			if s := plainText(e); s != "" {
				out = append(out, s)
			}
		}
	case string:
		for s := range strings.SplitSeq(strings.Trim(strings.TrimSpace(x), "[]"), ",") {
			if s = strings.Trim(strings.TrimSpace(s), `"'`); s != "" {
				out = append(out, s)
			}
		}
	}
	return out
}

// checkSkill checks a SKILL.md before it is written.
func checkSkill(text string) error {
	if n := utf8.RuneCountInString(text); n > maxSkillChars {
		return fmt.Errorf("SKILL.md has %d characters, at most %d: put details into files under references/", n, maxSkillChars)
	}
	front, body, ok := splitFrontmatter(text)
	if !ok {
		return errors.New("SKILL.md starts with YAML between two lines of \"---\", with name and description")
	}
	t, err := yamlspan.ReadTree([]byte(front))
	if err != nil {
		return fmt.Errorf("SKILL.md: its YAML cannot be read: %w", err)
	}
	values, isMap := value(t, 0).(map[string]any)
	if !isMap {
		return errors.New("SKILL.md: its YAML is no list of \"key: value\" lines")
	}
	for _, k := range []string{"name", "description"} {
		if plainText(values[k]) == "" {
			return fmt.Errorf("SKILL.md: its YAML has no %q", k)
		}
	}
	if n := utf8.RuneCountInString(plainText(values["description"])); n > maxSkillAbout {
		return fmt.Errorf("SKILL.md: the description has %d characters, at most %d", n, maxSkillAbout)
	}
	if strings.TrimSpace(body) == "" {
		return errors.New("SKILL.md has no instructions below its YAML")
	}
	return nil
}
