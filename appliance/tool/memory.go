// SPDX-License-Identifier: MIT

package tool

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
)

// separator stands between two entries of a memory file, as upstream writes it.
const separator = "\n§\n"

// Memory is what an agent keeps from session to session: MEMORY.md for notes, USER.md for who
// the user is. Entries are separated by a line with "§". It is safe for concurrent use, also
// by several processes: every change reads the file under its lock.
type Memory struct {
	Home       string // the profile's home; the files are in memories/ in it
	NoteLimit  int    // characters of MEMORY.md; 0 = 2,200
	UserLimit  int    // characters of USER.md; 0 = 1,375
	NoteOff    bool   // memory.memory_enabled: false
	UserOff    bool   // memory.user_profile_enabled: false
	Files      atomicfile.Writer
	AskToWrite func(ctx context.Context, summary, detail string) error // memory.write_approval; nil = not asked. An error refuses
}

// change is one operation on a memory.
type change struct {
	action, content, old string
}

func (m *Memory) file(target string) (path string, limit int) {
	name, limit, usual := "MEMORY.md", m.NoteLimit, 2200
	if target == "user" {
		name, limit, usual = "USER.md", m.UserLimit, 1375
	}
	if limit <= 0 {
		limit = usual
	}
	return filepath.Join(m.Home, "memories", name), limit
}

func (m *Memory) on(target string) bool {
	return target == "user" && !m.UserOff || target == "memory" && !m.NoteOff
}

// entries reads a memory. A file that is not there is an empty one.
func (m *Memory) entries(target string) (entries []string, raw string, err error) {
	path, _ := m.file(target)
	data, _, err := atomicfile.Read(path)
	if err != nil {
		return nil, "", err
	}
	raw = strings.ReplaceAll(strings.TrimPrefix(string(data), "\ufeff"), "\r\n", "\n")
	for e := range strings.SplitSeq(raw, separator) {
		if e = strings.TrimSpace(e); e != "" && !slices.Contains(entries, e) {
			entries = append(entries, e)
		}
	}
	return entries, raw, nil
}

func count(entries []string) int { return utf8.RuneCountInString(strings.Join(entries, separator)) }

// Block renders a memory for the system prompt, "" if there is none. It is read once a
// session: what changes meanwhile shows in the next one, so that the prompt stays the same.
func (m *Memory) Block(target string) (string, error) {
	if !m.on(target) {
		return "", nil
	}
	entries, _, err := m.entries(target)
	if err != nil || len(entries) == 0 {
		return "", err
	}
	_, limit := m.file(target)
	body, n := strings.Join(entries, separator), count(entries)
	over := ""
	if n > limit {
		over = " ⚠ OVER BUDGET"
	}
	if most := max(2*limit, 4000); n > most { // somebody else wrote it; the prompt must not burst
		r := []rune(body)
		head, tail := most*7/10, most*2/10
		body = fmt.Sprintf("%s\n\n[... %d characters left out: over the budget; consolidate with memory(action=remove or replace) ...]\n\n%s", string(r[:head]), n-head-tail, string(r[n-tail:]))
	}
	title := "MEMORY (your personal notes)"
	if target == "user" {
		title = "USER PROFILE (who the user is)"
	}
	line := strings.Repeat("═", 46)
	return fmt.Sprintf("%s\n%s [%s%s]\n%s\n%s", line, title, usage(n, limit), over, line, body), nil
}

func usage(n, limit int) string {
	return fmt.Sprintf("%d%% — %s/%s chars", min(100, n*100/limit), thousands(n), thousands(limit))
}

func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}

// apply makes changes in order, all or none. Only the end must fit the limit.
func (m *Memory) apply(ctx context.Context, target string, changes []change) (any, error) {
	if !m.on(target) {
		return nil, fmt.Errorf("the memory %q is switched off in config.yaml", target)
	}
	path, limit := m.file(target)
	if err := m.Files.Mkdir(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	release, err := home.LockFile(ctx, path)
	if err != nil {
		return nil, err
	}
	out, err := m.locked(target, path, limit, changes)
	return out, errors.Join(err, release())
}

func (m *Memory) locked(target, path string, limit int, changes []change) (any, error) {
	entries, raw, err := m.entries(target)
	if err != nil {
		return nil, err
	}
	current := func(text string) error {
		return &CallError{text, map[string]any{"success": false, "current_entries": entries, "usage": thousands(count(entries)) + "/" + thousands(limit)}}
	}
	if err := drifted(path, raw, entries, limit, changes); err != nil {
		return nil, err
	}
	now := slices.Clone(entries)
	for i, c := range changes {
		if now, err = c.apply(now); err != nil {
			where := ""
			if len(changes) > 1 {
				where = fmt.Sprintf("operation %d: ", i+1)
			}
			return nil, current(fmt.Sprintf("%s%s. Nothing was changed", where, err))
		}
	}
	if n := count(now); n > limit && n > count(entries) {
		return nil, current(fmt.Sprintf("with this, the memory has %s of %s characters. Remove or shorten entries in the same call, with 'operations'", thousands(n), thousands(limit)))
	}
	note := "Saved. It is complete: do not repeat it."
	if slices.Equal(now, entries) {
		note = "The memory has this already; nothing was written."
	} else if err := m.Files.Write(path, []byte(strings.Join(now, separator)), atomicfile.Options{}); err != nil {
		return nil, err
	}
	return map[string]any{"success": true, "done": true, "target": target, "usage": usage(count(now), limit), "entry_count": len(now), "note": note}, nil
}

// drifted refuses to rewrite a file that somebody else wrote in a way that a rewrite would
// lose: an entry longer than the whole memory may be. Adding to it is safe.
func drifted(path, raw string, entries []string, limit int, changes []change) error {
	if !slices.ContainsFunc(changes, func(c change) bool { return c.action != "add" }) || strings.TrimSpace(raw) == "" {
		return nil
	}
	if slices.ContainsFunc(entries, func(e string) bool { return utf8.RuneCountInString(e) > limit }) {
		return &CallError{fmt.Sprintf("%s has an entry that is longer than the whole memory may be: somebody wrote text into it without \"§\" lines. Split it with write_file or ask the user; nothing was changed", path), map[string]any{"success": false}}
	}
	return nil
}

func (c change) apply(entries []string) ([]string, error) {
	content, old := strings.TrimSpace(c.content), strings.TrimSpace(c.old)
	if c.action != "remove" {
		switch {
		case content == "":
			return nil, fmt.Errorf("'%s' needs content", c.action)
		case strings.Contains("\n"+content+"\n", separator):
			return nil, errors.New("an entry has no line with only \"§\" in it: add two entries")
		}
	}
	if c.action == "add" {
		if slices.Contains(entries, content) {
			return entries, nil
		}
		return append(entries, content), nil
	}
	if old == "" {
		return nil, fmt.Errorf("'%s' needs old_text, a part of the one entry it means", c.action)
	}
	found := -1
	for i, e := range entries {
		if !strings.Contains(e, old) {
			continue
		}
		if found >= 0 {
			return nil, fmt.Errorf("%q is in several entries: use more of the one you mean", clip(old, 60))
		}
		found = i
	}
	if found < 0 {
		return nil, fmt.Errorf("no entry has %q in it", clip(old, 60))
	}
	entries = slices.Clone(entries)
	if c.action == "remove" || slices.Contains(slices.Delete(slices.Clone(entries), found, found+1), content) {
		return slices.Delete(entries, found, found+1), nil
	}
	entries[found] = content
	return entries, nil
}

// Tool returns the tool "memory".
func (m *Memory) Tool() Tool {
	action := choice("What to do; leave out with 'operations'", "add", "replace", "remove")
	one := object(map[string]Schema{
		"action": choice("What to do", "add", "replace", "remove"), "content": text("The entry, for add and replace"), "old_text": text("Part of the entry, for replace and remove"),
	}, "action")
	return Tool{
		Name: "memory", Toolset: "memory",
		Available: func() bool { return !m.NoteOff || !m.UserOff },
		Description: "Keep durable facts over sessions. They are part of every prompt: keep entries short.\n" +
			"Make all changes in one call with 'operations': they apply together, and only the result must fit the limit. " +
			"Save what the user prefers, corrects or tells about themselves, and stable facts about the environment; not progress, logs or what is easily found again.\n" +
			"target 'user': who the user is. target 'memory': your notes. A full memory shows its entries: remove or shorten some in the same call.",
		Schema: object(map[string]Schema{
			"action":     action,
			"target":     choice("Which memory", "memory", "user"),
			"content":    text("The entry, for add and replace"),
			"old_text":   text("For replace and remove: a part of the entry that no other has. replace overwrites the whole entry"),
			"operations": list("Several changes, made together", one),
		}, "target"),
		Run: m.run,
	}
}

func (m *Memory) run(ctx context.Context, a Args) (any, error) {
	var changes []change
	for _, o := range a.Objects("operations") {
		changes = append(changes, change{o.String("action"), o.String("content"), o.String("old_text")})
	}
	if len(changes) == 0 {
		if a.String("action") == "" {
			return nil, errors.New("name an action (add, replace, remove) or pass operations")
		}
		changes = []change{{a.String("action"), a.String("content"), a.String("old_text")}}
	}
	if m.AskToWrite != nil {
		var detail strings.Builder
		for _, c := range changes {
			fmt.Fprintf(&detail, "%s: %s", c.action, c.content)
			if c.old != "" {
				fmt.Fprintf(&detail, " (for the entry with %q)", c.old)
			}
			detail.WriteByte('\n')
		}
		if err := m.AskToWrite(ctx, fmt.Sprintf("%d changes of the memory %q", len(changes), a.String("target")), detail.String()); err != nil {
			return nil, err
		}
	}
	return m.apply(ctx, a.String("target"), changes)
}
