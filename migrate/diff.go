// SPDX-License-Identifier: MIT

package migrate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"github.com/hermes-appliance/hermes-appliance/appliance/dotenv"
	"github.com/hermes-appliance/hermes-appliance/migrate/yamlspan"
)

// contextLines is how many unchanged lines a hunk shows around a change.
const contextLines = 3

// Diff returns the plan's edits as a unified diff for reading. Values outside the plan, and
// all comments, are shown as ***: they may be secrets. It is not for patch(1).
func (p *Plan) Diff() (string, error) {
	var b strings.Builder
	for _, e := range p.edits {
		before, after := string(e.old), string(e.new)
		d, err := udiff.ToUnifiedDiff("a/"+e.name, "b/"+e.name, before, udiff.Lines(before, after), contextLines)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "--- %s\n+++ %s\n", d.From, d.To)
		oldLines, newLines := p.masked(e.name, e.old), p.masked(e.name, e.new)
		shift := 0 // lines the new file has more than the old one so far
		for _, h := range d.Hunks {
			shift += writeHunk(&b, h, shift, oldLines, newLines)
		}
	}
	return b.String(), nil
}

// writeHunk prints a hunk with the masked text of its lines, and returns how many lines it
// adds.
func writeHunk(b *strings.Builder, h *udiff.Hunk, shift int, oldLines, newLines []string) int {
	var body strings.Builder
	from, to := h.FromLine, h.FromLine+shift
	gone, come := 0, 0
	for _, l := range h.Lines {
		switch l.Kind {
		case udiff.Delete:
			body.WriteString("-" + lineAt(oldLines, from) + "\n")
			from, gone = from+1, gone+1
		case udiff.Insert:
			body.WriteString("+" + lineAt(newLines, to) + "\n")
			to, come = to+1, come+1
		default:
			body.WriteString(" " + lineAt(oldLines, from) + "\n")
			from, to, gone, come = from+1, to+1, gone+1, come+1
		}
	}
	fmt.Fprintf(b, "@@ -%d,%d +%d,%d @@\n%s", h.FromLine, gone, h.FromLine+shift, come, body.String())
	return come - gone
}

func lineAt(lines []string, n int) string {
	if n < 1 || n > len(lines) {
		return ""
	}
	return lines[n-1]
}

// masked returns a file's lines as a diff may show them.
func (p *Plan) masked(name string, src []byte) []string {
	switch name {
	case FileConfig:
		if doc, err := yamlspan.Parse(src); err == nil {
			return doc.Masked(p.shown)
		}
	case FileEnv:
		return maskEnv(src, p.changed(FileEnv))
	}
	return maskAll(src, p.changed(name))
}

// changed returns the paths that the plan changes in a file and whose values it names.
func (p *Plan) changed(file string) [][]string {
	out := [][]string{{stampKey}}
	for _, c := range p.Changes {
		hidden := c.Action == Moved || strings.HasPrefix(c.Old, "(") || strings.HasPrefix(c.New, "(")
		if c.File == file && !hidden {
			out = append(out, c.Path)
		}
	}
	return out
}

func (p *Plan) shown(path []string) bool {
	return slices.ContainsFunc(p.changed(FileConfig), func(c []string) bool { return slices.Equal(c, path) })
}

// maskEnv shows keys, and the values of the keys given.
func maskEnv(src []byte, shown [][]string) []string {
	out := maskAll(src, nil)
	f, err := dotenv.Parse(src)
	if err != nil {
		return out
	}
	for _, a := range f.All() {
		value := "***"
		if slices.ContainsFunc(shown, func(c []string) bool { return c[0] == a.Key }) {
			value = a.Value
		}
		if a.Value == "" {
			value = ""
		}
		out[a.Line-1] = a.Key + "=" + value
	}
	return out
}

// maskAll hides every line that has text, except those that consist of a shown name.
func maskAll(src []byte, shown [][]string) []string {
	var out []string
	for line := range strings.Lines(string(src)) {
		text := strings.TrimSpace(line)
		name := strings.TrimLeft(text, "# ")
		if text != "" && !slices.ContainsFunc(shown, func(c []string) bool { return len(c) > 0 && c[0] == name }) {
			text = "***"
		}
		out = append(out, text)
	}
	return out
}
