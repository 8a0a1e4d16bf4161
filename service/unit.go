// SPDX-License-Identifier: MIT

package service

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// Option is one line of a unit: Name=Value in a section. Value is as systemd reads it, escaped.
type Option struct{ Section, Name, Value string }

// Unit is a file for systemd: its options in order. Sections need not be together when it is
// made; they are when it is written.
type Unit struct {
	Home    string // the home it is pinned to, for the header
	Options []Option
}

// header is how a file of ours begins; what follows names the hash of the rest and the home.
const header = "# hermes-appliance "

// String writes the unit. Its first line holds the hash of the rest, by which a hand edit is
// told from a new version of ours (H#11312), and the home that it serves.
func (u Unit) String() string {
	var b strings.Builder
	section := ""
	var order []string
	in := map[string][]Option{}
	for _, o := range u.Options {
		if _, ok := in[o.Section]; !ok {
			order = append(order, o.Section)
		}
		in[o.Section] = append(in[o.Section], o)
	}
	for _, name := range order {
		if section != "" {
			b.WriteByte('\n')
		}
		section = name
		fmt.Fprintf(&b, "[%s]\n", name)
		for _, o := range in[name] {
			fmt.Fprintf(&b, "%s=%s\n", o.Name, o.Value)
		}
	}
	return Stamp(u.Home, b.String())
}

// Stamp puts the line before a text by which [Inspect] knows it again: the hash of the text, and
// the home that it serves.
func Stamp(home, body string) string {
	sum := sha256.Sum256([]byte(body))
	return header + "sha256=" + hex.EncodeToString(sum[:]) + " home=" + home + "\n" + body
}

// Provenance is what the first line of a file says of it.
type Provenance struct {
	Ours   bool   `json:"ours"`           // written by this program
	Edited bool   `json:"edited"`         // and changed since by somebody else
	Home   string `json:"home,omitempty"` // that it serves
}

// Inspect tells where a unit file comes from.
func Inspect(data string) Provenance {
	rest, ok := strings.CutPrefix(data, header+"sha256=")
	if !ok {
		return Provenance{}
	}
	first, body, _ := strings.Cut(rest, "\n")
	hash, home, ok := strings.Cut(first, " home=")
	if !ok {
		return Provenance{}
	}
	sum := sha256.Sum256([]byte(body))
	return Provenance{Ours: true, Edited: hash != hex.EncodeToString(sum[:]), Home: home}
}

// ErrSyntax says that a unit file is none.
var ErrSyntax = errors.New("not a unit file")

// ParseUnit reads a unit file as systemd does: continued lines are joined by a space, comments
// are dropped. There is no limit on the length of a line.
func ParseUnit(data string) (Unit, error) {
	u := Unit{Home: Inspect(data).Home}
	section := ""
	data = strings.TrimPrefix(data, "\ufeff")
	lines := strings.Split(strings.ReplaceAll(data, "\r\n", "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		at := i + 1
		line := strings.TrimSpace(lines[i])
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		if line[0] == '[' {
			name, ok := strings.CutSuffix(line[1:], "]")
			if !ok || name == "" {
				return Unit{}, fmt.Errorf("line %d: %w: want [Section]", at, ErrSyntax)
			}
			section = name
			continue
		}
		for strings.HasSuffix(line, `\`) {
			next := "" // nothing follows the last line
			if i++; i < len(lines) {
				next = strings.TrimSpace(lines[i])
			}
			if next != "" && (next[0] == '#' || next[0] == ';') {
				continue // a comment between two parts is dropped
			}
			line = strings.TrimSuffix(line, `\`) + " " + next
		}
		name, value, ok := strings.Cut(line, "=")
		if name = strings.TrimSpace(name); !ok || section == "" || name == "" {
			return Unit{}, fmt.Errorf("line %d: %w: want Name=Value in a section", at, ErrSyntax)
		}
		u.Options = append(u.Options, Option{section, name, strings.TrimSpace(value)})
	}
	return u, nil
}

// All returns the values of a name in a section, in order. An empty one takes back those
// before it, as in systemd.
func (u Unit) All(section, name string) []string {
	var out []string
	for _, o := range u.Options {
		if o.Section != section || o.Name != name {
			continue
		}
		if o.Value == "" {
			out = nil
			continue
		}
		out = append(out, o.Value)
	}
	return out
}
