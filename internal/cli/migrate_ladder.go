// SPDX-License-Identifier: MIT

package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/migrate"
)

// stepDoc is one step of migrate --list --json and --explain --json.
type stepDoc struct {
	To        int    `json:"to"`
	ID        string `json:"id"`
	Title     string `json:"title"`
	Detail    string `json:"detail"`
	LegacyKey bool   `json:"legacy_key"` // runs on a file without a version
	AnyStamp  bool   `json:"any_stamp"`  // runs whatever version the file says
}

func docOf(s migrate.Step) stepDoc {
	return stepDoc{s.To, s.ID, s.Title, s.Detail, s.LegacyKey, s.AnyStamp}
}

func (o *migrateOptions) printLadder(env Env) error {
	steps := migrate.Released().Steps()
	if o.json {
		docs := make([]stepDoc, len(steps))
		for i, s := range steps {
			docs[i] = docOf(s)
		}
		return printJSON(env.Stdout, envelope{Schema: schemaVersion, Command: "migrate", Result: map[string]any{"steps": docs}})
	}
	var b strings.Builder
	for _, s := range steps {
		fmt.Fprintf(&b, "%-26s %s\n", s.ID, s.Title)
	}
	_, err := io.WriteString(env.Stdout, b.String())
	return err
}

func (o *migrateOptions) printStep(env Env) error {
	s, _ := migrate.Released().Step(o.explain)
	if o.json {
		return printJSON(env.Stdout, envelope{Schema: schemaVersion, Command: "migrate", Result: map[string]any{"step": docOf(s)}})
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n\n%s\n", s.ID, s.Title, wrap(s.Detail, 96))
	switch {
	case s.AnyStamp:
		b.WriteString("\nIt runs whatever version a file says, and on a file without a version.\n")
	case s.LegacyKey:
		b.WriteString("\nIt also runs on a file without a version: the key alone shows what it is.\n")
	default:
		b.WriteString("\nIt does not run on a file without a version, where a value may be your own choice;\n--assume-version N makes it run.\n")
	}
	_, err := io.WriteString(env.Stdout, b.String())
	return err
}

// wrap breaks text at words.
func wrap(s string, width int) string {
	var b strings.Builder
	line := 0
	for i, word := range strings.Fields(s) {
		switch {
		case i == 0:
		case line+1+len(word) > width:
			b.WriteByte('\n')
			line = 0
		default:
			b.WriteByte(' ')
			line++
		}
		b.WriteString(word)
		line += len(word)
	}
	return b.String()
}
