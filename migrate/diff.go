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
		before, after := unixLines(e.old), unixLines(e.new)
		d, err := udiff.ToUnifiedDiff("a/"+e.name, "b/"+e.name, before, udiff.Lines(before, after), contextLines)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "--- %s\n+++ %s\n", d.From, d.To)
		oldLines, newLines := p.masked(e.name, before), p.masked(e.name, after)
		shift := 0 // lines the new file has more than the old one so far
		for _, h := range d.Hunks {
			shift += writeHunk(&b, h, shift, oldLines, newLines)
		}
	}
	return b.String(), nil
}

// unixLines gives every line a line feed, so that lines are counted as the readers of the
// files count them, which also take a lone carriage return for a break.
func unixLines(b []byte) string {
	return strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(b))
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
	fmt.Fprintf(b, "@@ -%s +%s @@\n%s", lineRange(h.FromLine, gone), lineRange(h.FromLine+shift, come), body.String())
	return come - gone
}

// lineRange is one half of a hunk's header. A range without lines names the line before it.
func lineRange(from, n int) string {
	if n == 0 {
		from--
	}
	return fmt.Sprintf("%d,%d", from, n)
}

func lineAt(lines []string, n int) string {
	if n < 1 || n > len(lines) {
		return ""
	}
	return lines[n-1]
}

// masked returns a file's lines as a diff may show them.
func (p *Plan) masked(name, src string) []string {
	switch name {
	case FileConfig:
		if doc, err := yamlspan.Parse([]byte(src)); err == nil {
			return doc.Masked(p.shown)
		}
	case FileEnv:
		return maskEnv(src, p.changed(FileEnv))
	case FileSoul:
		var headings []string
		for _, c := range p.Changes {
			if c.File == FileSoul {
				headings = append(headings, c.Path...)
			}
		}
		return maskAll(src, headings)
	}
	return maskAll(src, nil)
}

// changed returns the paths that the plan changes in a file and whose values it names.
func (p *Plan) changed(file string) [][]string {
	out := [][]string{{stampKey}}
	for _, c := range p.Changes {
		hidden := c.Action == Moved || strings.HasPrefix(c.Old, "(") || strings.HasPrefix(c.New, "(")
		if c.File == file && !hidden && len(c.Path) > 0 {
			out = append(out, c.Path)
		}
	}
	return out
}

func (p *Plan) shown(path []string) bool {
	return slices.ContainsFunc(p.changed(FileConfig), func(c []string) bool { return slices.Equal(c, path) })
}

// maskEnv shows keys, and the values of the keys given.
func maskEnv(src string, shown [][]string) []string {
	out := maskAll(src, nil)
	f, err := dotenv.Parse([]byte(src))
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

// maskAll hides every line that has text, except headings that consist of a shown name.
func maskAll(src string, shown []string) []string {
	var out []string
	for line := range strings.Lines(src) {
		text := strings.TrimSpace(line)
		if text != "" && !slices.Contains(shown, strings.TrimLeft(text, "# ")) {
			text = "***"
		}
		out = append(out, text)
	}
	return out
}
