// SPDX-License-Identifier: MIT

// Package approval decides whether a command that an agent wants to run may run, needs a
// person's word, or is refused. It never runs a command, never looks at the file system and
// never changes its mind because of another profile.
//
// The decision is made on the shell syntax tree, in this order (gateway spec 1.9, isolation
// spec 4): floors, which nobody can lift; the user's deny globs; what cannot be checked, which
// a person may let through once; then, for dangerous findings, yolo or mode off, the profile's
// allowlist and the session's grants, and what is left is asked or, where nobody can answer,
// settled by policy.
package approval

import (
	"slices"
	"strings"
)

// Decision is what happens to a command. The zero value refuses.
type Decision uint8

// The decisions, from strict to lenient.
const (
	Refuse Decision = iota
	Ask
	Allow
)

func (d Decision) String() string { return [...]string{"refuse", "ask", "allow"}[min(d, Allow)] }

// Reviewer is who may answer an [Ask].
type Reviewer uint8

// Human means only a person may answer. Guardian means the auxiliary model may look first;
// whenever it is unsure or unavailable, a person is asked.
const (
	Human Reviewer = iota
	Guardian
)

// Presence says who could answer a question. The zero value is nobody.
type Presence uint8

// Unattended is a webhook, an API session without an approval channel, or a subagent.
const (
	Unattended Presence = iota
	Cron
	SingleQuery
	Attended
)

// Context is what is known about the moment a command is to run. Its zero value is the
// strictest: nobody is there, nothing was granted.
type Context struct {
	Presence  Presence
	Yolo      bool // the session's /yolo
	Contained bool // runs in a container: only floors and the user's own rules count

	Dir      string   // working directory; "" = unknown
	UserHome string   // home directory of the user the command runs as; "" = unknown
	Homes    []string // directories of all Hermes homes, profiles included, and the managed directory

	GatewayPID int      // 0 = unknown
	Units      []string // service units of this gateway, beside every name with "hermes" in it

	Permanent []string // the profile's command_allowlist, see [Lists.Read]
	Session   []string // grants of this session, see [Sessions.Granted]
}

// Verdict is the answer of [Decide]. The zero value refuses.
type Verdict struct {
	Decision Decision
	Reviewer Reviewer // for Ask
	Findings []Finding
	Reason   string   // one line for person and log; contains no part of the command
	Shown    string   // the command as a person may see it: secrets masked
	Grants   []string // what "session" and "always" would grant; empty = only "once" is possible
	Revoke   []string // permanent and session grants that a tightened rule takes back (A2)
}

// Decide judges a command. It is pure: the same arguments give the same verdict, and the work
// is bounded whatever the command is.
func Decide(p Policy, command string, c Context) Verdict {
	k := check(command, c)
	v := Verdict{Shown: maskText(command, k.tree), Findings: k.found}
	denied := k.denied(p)
	v.Findings = append(v.Findings, denied...)
	required, revoke := k.required(p, c)
	v.Findings = append(v.Findings, required...)
	v.Revoke = revoke
	v.settle(p, c, k)
	return v
}

func (v *Verdict) settle(p Policy, c Context, k *checker) {
	var floors, musts, dangers []Finding
	for _, f := range v.Findings {
		switch f.Level {
		case Floor:
			floors = append(floors, f)
		case Must:
			musts = append(musts, f)
		case Danger:
			dangers = append(dangers, f)
		}
	}
	if len(floors) > 0 {
		v.Decision, v.Reason = Refuse, "refused whatever the settings: "+texts(floors)
		return
	}
	if c.Contained {
		musts, dangers = nil, slices.DeleteFunc(dangers, func(f Finding) bool { return f.key == "" })
	}
	if p.Mode == Off || c.Yolo {
		dangers = nil
	}
	dangers = ungranted(dangers, c, k)
	open := append(musts, dangers...)
	switch {
	case len(open) == 0:
		v.Decision = Allow
	case c.Presence == Attended:
		v.Decision, v.Reason = Ask, texts(open)
		if p.Mode == Smart && len(musts) == 0 && !anyHuman(dangers) {
			v.Reviewer = Guardian
		}
		if len(musts) == 0 {
			v.Grants = keys(dangers)
		}
	case len(musts) == 0 && p.unattended(c.Presence):
		v.Decision = Allow
	default:
		v.Decision, v.Reason = Refuse, "nobody can approve this here: "+texts(open)
	}
}

// ungranted drops what the session or the profile's allowlist already granted. An entry that
// is command text counts for everything in a simple command, and for nothing in another.
func ungranted(dangers []Finding, c Context, k *checker) []Finding {
	if len(dangers) == 0 || k.simple && textListed(k.text, c.Permanent) && !anyHuman(dangers) {
		return nil
	}
	granted := make(map[string]bool, len(c.Permanent)+len(c.Session))
	for _, g := range c.Permanent {
		granted[strings.TrimSpace(g)] = true
	}
	for _, g := range c.Session {
		granted[g] = true
	}
	var out []Finding
next:
	for _, f := range dangers {
		for _, key := range f.keys() {
			if granted[key] {
				continue next
			}
		}
		out = append(out, f)
	}
	return out
}

func anyHuman(fs []Finding) bool {
	for _, f := range fs {
		if f.human {
			return true
		}
	}
	return false
}

func keys(fs []Finding) []string {
	var out []string
	seen := map[string]bool{}
	for _, f := range fs {
		if k := f.keys()[0]; !seen[k] {
			seen[k] = true
			out = append(out, k)
		}
	}
	return out
}

func texts(fs []Finding) string {
	var out []string
	seen := map[string]bool{}
	for _, f := range fs {
		if !seen[f.Text] {
			seen[f.Text] = true
			out = append(out, f.Text)
		}
	}
	const most = 5
	if len(out) > most {
		out = append(out[:most], "and more")
	}
	return strings.Join(out, "; ")
}
