// SPDX-License-Identifier: MIT

package childenv

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Table renders the policy as Markdown: the kinds, the tiers and the answers to what the
// spec leaves open.
func (p *Policy) Table() string {
	var sb strings.Builder
	names, kinds := p.Kinds()
	sb.WriteString("| kind | what it is | starts from | tier 1 | tier 2 | besides |\n|---|---|---|---|---|---|\n")
	for _, n := range names {
		k := kinds[n]
		fmt.Fprintf(&sb, "| `%s` | %s | %s | %s | %s | %s |\n", n, k.About, baseText(k), k.Tier1, tier2Text(k), strings.Join(traits(k), "; "))
	}
	for i, groups := range [][]Group{p.file.Tier1, p.file.Tier2} {
		fmt.Fprintf(&sb, "\n| tier %d | why | names |\n|---|---|---|\n", i+1)
		for _, g := range groups {
			fmt.Fprintf(&sb, "| %s | %s | `%s` |\n", g.Rule, g.Reason, strings.Join(g.Names, "` `"))
		}
		if i == 0 {
			for _, s := range append(append([]Shape{}, p.file.Dynamic...), p.file.Buzz) {
				fmt.Fprintf(&sb, "| %s | %s | %s |\n", s.Rule, s.Reason, shapeText(s))
			}
		}
	}
	sb.WriteString("\n| rule | question | answer | because |\n|---|---|---|---|\n")
	for _, g := range p.file.Gaps {
		fmt.Fprintf(&sb, "| %s | %s | %s | %s |\n", g.Rule, g.Question, g.Decision, g.Reason)
	}
	return sb.String()
}

func baseText(k KindPolicy) string {
	switch k.Base {
	case baseOwn:
		return "the inherited environment and the profile's values"
	case baseForward:
		return "the forwarded names"
	}
	return "the list `" + k.Base + "`"
}

func tier2Text(k KindPolicy) string {
	if k.Tier2 == ask {
		return "the profile's, on demand"
	}
	return k.Tier2
}

func shapeText(s Shape) string {
	if len(s.Suffixes) == 0 {
		return "`" + s.Prefix + "*`"
	}
	out := make([]string, len(s.Suffixes))
	for i, x := range s.Suffixes {
		out[i] = "`" + s.Prefix + "*" + x + "`"
	}
	return strings.Join(out, " ")
}

// traits says what else is special about a kind.
func traits(k KindPolicy) []string {
	var out []string
	for _, t := range []struct {
		has  bool
		text string
	}{
		{k.Verbatim, "a verbatim copy for the launch profile"},
		{k.Passthrough, "what the profile passes through"},
		{k.Applied, "of the profile only what its sources applied"},
		{k.ExtraSecrets, "extras may be credentials"},
		{k.Desktop, "the screen's variables"},
		{k.Buzz, "a buzz session's variables"},
		{k.BackendKeys, "no credentials of plugin backends"},
		{k.Grant, "may be granted a board's task"},
		{k.Detached, "belongs to no tree of processes"},
		{k.NoSession, "nothing of a conversation"},
		{k.RefuseTerminal, "refused without a terminal policy"},
	} {
		if t.has {
			out = append(out, t.text)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(k.Defaults)) {
		out = append(out, "`"+name+"="+k.Defaults[name]+"` unless set")
	}
	return out
}
