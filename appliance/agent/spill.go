// SPDX-License-Identifier: MIT

package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	previewBytes = 1500
	leastSpill   = 4000 // a smaller result stays inline, however little of the budget is left
)

// spill moves a result that is too big for the conversation to a file and returns what the
// model sees instead. budget is what all results of one message may take together.
func (t *turn) spill(ctx context.Context, r *running, text string, budget *int) string {
	limit := min(t.o.SpillOver, max(*budget, leastSpill))
	if r.traits.Inline || len(text) <= limit {
		*budget -= len(text)
		return text
	}
	full := pageable(text)
	short, more := preview(full)
	if t.o.Spill == nil {
		return fmt.Sprintf("%s\n\n[Truncated: the result has %d bytes, and no place to keep them.]", short, len(full))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTime)
	defer cancel()
	path, err := t.o.Spill.Spill(ctx, r.call.ID, full)
	if err != nil {
		t.o.Log.WarnContext(ctx, "result not spilled", "session", t.session.ID(), "tool", r.call.Name, "error", err.Error())
		return fmt.Sprintf("%s\n\n[Truncated: the result has %d bytes, and they could not be saved.]", short, len(full))
	}
	out := pointer(short, more, full, path)
	*budget -= len(out)
	return out
}

// pointer is the block that stands for a result in a file, in upstream's form.
func pointer(short string, more bool, full, path string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "<persisted-output>\nThis tool result was too large (%s characters, %s).\n", thousands(utf8.RuneCountInString(full)), size(len(full)))
	fmt.Fprintf(&b, "Full output saved to: %s\n", path)
	b.WriteString("Use the read_file tool with offset and limit to access specific sections of this output. Do not ask for the same data again: all of it is in the file.\n\n")
	fmt.Fprintf(&b, "Preview (first %d chars):\n%s", utf8.RuneCountInString(short), short)
	if more {
		b.WriteString("\n...")
	}
	b.WriteString("\n</persisted-output>")
	return b.String()
}

func size(n int) string {
	if n >= 1<<20 {
		return fmt.Sprintf("%.1f MB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f KB", float64(n)/(1<<10))
}

func thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// preview cuts at a line break if there is one in the second half, and never inside a
// character.
func preview(s string) (string, bool) {
	if len(s) <= previewBytes {
		return s, false
	}
	cut := previewBytes
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	if nl := strings.LastIndexByte(s[:cut], '\n'); nl > cut/2 {
		cut = nl + 1
	}
	return s[:cut], true
}

// pageable unwraps the result of an MCP tool, a JSON object of result, structuredContent and
// _meta, into the text it holds, with the rest after it. As one line of JSON it could not be
// read in pieces (upstream report 90426). Any other text comes back as it is.
func pageable(text string) string {
	var object map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &object) != nil || len(object) == 0 {
		return text
	}
	var result string
	if json.Unmarshal(object["result"], &result) != nil || result == "" {
		return text
	}
	delete(object, "result")
	for name := range object {
		if name != "structuredContent" && name != "_meta" {
			return text
		}
	}
	if len(object) == 0 {
		return result
	}
	meta, err := json.MarshalIndent(object, "", " ")
	if err != nil {
		return result
	}
	return result + "\n\n<mcp-result-metadata>\n" + string(meta) + "\n</mcp-result-metadata>\n"
}
