// SPDX-License-Identifier: MIT

package approval

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Mode says what happens to dangerous commands. The zero value asks a person.
type Mode uint8

// Smart lets the auxiliary model look first; Off lets dangerous commands run.
const (
	Manual Mode = iota
	Smart
	Off
)

// DefaultTimeout is how long a person has to answer; after it the answer is no.
const DefaultTimeout = 300 * time.Second

// Policy is one profile's approval configuration. The zero value is the strictest: ask a
// person, and refuse where nobody is.
type Policy struct {
	Mode     Mode
	Timeout  time.Duration // 0 = [DefaultTimeout]
	Deny     []string      // globs; what matches is refused, whatever the mode
	Required []Requirement

	// Where nobody can answer, true lets dangerous commands run instead of refusing them.
	ApproveCron, ApproveSingleQuery, ApproveUnattended bool
}

// Requirement is a rule of the user's own (command_approval_required).
type Requirement struct {
	Pattern     string
	Description string
	Reviewer    Reviewer
}

func (p Policy) unattended(who Presence) bool {
	switch who {
	case Cron:
		return p.ApproveCron
	case SingleQuery:
		return p.ApproveSingleQuery
	case Unattended:
		return p.ApproveUnattended
	}
	return false
}

// ParsePolicy reads the "approvals" section of a config as YAML decodes it; nil is an absent
// section, with upstream's default mode smart. What it cannot read becomes the strict value
// and a problem, one line each: an unknown mode asks, and a deny or required list with an
// entry that is no text never leaves the mode below manual.
func ParsePolicy(section any) (Policy, []string) {
	if section == nil {
		return Policy{Mode: Smart}, nil
	}
	m, ok := section.(map[string]any)
	if !ok {
		return Policy{}, []string{"approvals: not a mapping; every dangerous command is asked"}
	}
	var p Policy
	var problems []string
	note := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }

	if p.Mode, ok = parseMode(m["mode"]); !ok {
		note("approvals.mode: unknown value; using manual")
	}
	var strict bool
	if p.Deny, ok = textList(m["deny"]); !ok {
		strict = true
		note("approvals.deny: an entry is not text; using mode manual")
	}
	if p.Required, ok = parseRequired(m["command_approval_required"]); !ok {
		strict = true
		note("approvals.command_approval_required: an entry has no pattern; using mode manual")
	}
	if strict {
		p.Mode = Manual
	}
	for _, u := range []struct {
		key string
		to  *bool
	}{{"cron_mode", &p.ApproveCron}, {"single_query_mode", &p.ApproveSingleQuery}, {"unattended_mode", &p.ApproveUnattended}} {
		if *u.to, ok = parseApprove(m[u.key]); !ok {
			note("approvals.%s: unknown value; using deny", u.key)
		}
	}
	if p.Timeout, ok = parseSeconds(m["timeout"]); !ok {
		note("approvals.timeout: not a number of seconds; using %d", int(DefaultTimeout.Seconds()))
	}
	return p, problems
}

// parseMode reads a mode; YAML 1.1 makes an unquoted off a boolean.
func parseMode(v any) (Mode, bool) {
	switch v := v.(type) {
	case nil:
		return Smart, true
	case bool:
		if !v {
			return Off, true
		}
	case string:
		switch strings.ToLower(strings.TrimSpace(v)) {
		case "manual":
			return Manual, true
		case "smart":
			return Smart, true
		case "off":
			return Off, true
		}
	}
	return Manual, false
}

func parseApprove(v any) (approve, ok bool) {
	switch v := v.(type) {
	case nil:
		return false, true
	case string:
		switch strings.ToLower(strings.TrimSpace(v)) {
		case "approve":
			return true, true
		case "deny", "":
			return false, true
		}
	}
	return false, false
}

func parseSeconds(v any) (time.Duration, bool) {
	var n float64
	switch v := v.(type) {
	case nil:
		return DefaultTimeout, true
	case int:
		n = float64(v)
	case int64:
		n = float64(v)
	case float64:
		n = v
	}
	if n > 0 && n <= 7*24*3600 {
		return time.Duration(n * float64(time.Second)), true
	}
	return DefaultTimeout, false
}

// textList reads a list of texts, or one text. Blank entries are dropped; ok is false if an entry
// is something else.
func textList(v any) (out []string, ok bool) {
	var list []any
	switch v := v.(type) {
	case nil:
		return nil, true
	case []any:
		list = v
	case []string:
		for _, s := range v {
			list = append(list, s)
		}
	default:
		list = []any{v}
	}
	ok = true
	for _, e := range list {
		switch e := e.(type) {
		case string:
			if s := strings.TrimSpace(e); s != "" {
				out = append(out, s)
			}
		case int, int64, uint64, float64:
			out = append(out, fmt.Sprint(e))
		default:
			ok = false
		}
	}
	return out, ok
}

func parseRequired(v any) (out []Requirement, ok bool) {
	if v == nil {
		return nil, true
	}
	list, ok := v.([]any)
	if !ok {
		return nil, false
	}
	for _, e := range list {
		m, _ := e.(map[string]any)
		pattern, _ := m["pattern"].(string)
		if strings.TrimSpace(pattern) == "" {
			ok = false
			continue
		}
		r := Requirement{Pattern: strings.TrimSpace(pattern)}
		r.Description, _ = m["description"].(string)
		if s, _ := m["review"].(string); strings.EqualFold(strings.TrimSpace(s), "smart") {
			r.Reviewer = Guardian
		}
		out = append(out, r)
	}
	return out, ok
}

// key is the grant of a user's rule. It holds the reviewer, so a grant given under a laxer
// rule is none under a stricter one (A2).
func (r Requirement) key(who Reviewer) string {
	name := "human"
	if who == Guardian {
		name = "smart"
	}
	return "approval_required:" + name + ":" + r.Pattern
}

// denied finds the user's deny globs.
func (k *checker) denied(p Policy) []Finding {
	if k.matches(p.Deny) < 0 {
		return nil
	}
	return []Finding{{ID: FloorDenied, Level: Floor, Text: FloorDenied.text(), End: len(k.text)}}
}

// required finds the user's own rules, and the grants they take back.
func (k *checker) required(p Policy, c Context) (found []Finding, revoke []string) {
	for _, r := range p.Required {
		if k.matches([]string{r.Pattern}) < 0 {
			continue
		}
		f := Finding{ID: "required", Text: r.Description, End: len(k.text), key: r.key(r.Reviewer), human: r.Reviewer == Human}
		if f.Text = strings.TrimSpace(f.Text); f.Text == "" {
			f.Text = "a rule of the user asks for approval"
		}
		found = append(found, f)
		if old := r.key(Guardian); r.Reviewer == Human && (slices.Contains(c.Permanent, old) || slices.Contains(c.Session, old)) {
			revoke = append(revoke, old)
		}
	}
	return found, revoke
}

// matches returns the index of the first glob that matches the command or a part of it that
// is run, or -1. Case does not matter.
func (k *checker) matches(globs []string) int {
	for i, g := range globs {
		g = strings.ToLower(strings.TrimSpace(g))
		if g == "" {
			continue
		}
		for _, c := range k.candidates {
			if fnmatch(g, c) {
				return i
			}
		}
	}
	return -1
}
