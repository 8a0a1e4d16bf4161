// SPDX-License-Identifier: MIT

package agent

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Identity is who the assistant is when the home has no SOUL.md, or an empty one.
const Identity = `You are Hermes Agent, an assistant that works for its user with tools. You answer questions, write and change code, look things up, and carry out tasks on the user's machines. You are direct and clear, you say so when you do not know, and you would rather do the work than talk about it. Be targeted and economical in what you look at.`

// Limits of the files that go into a prompt, in characters.
const (
	MemoryLimit  = 2200 // MEMORY.md
	UserLimit    = 1375 // USER.md
	contextLimit = 20_000
)

// Skill is an entry of the index of skills.
type Skill struct{ Category, Name, Description string }

// Prompt is what a system prompt is made of. It is built once a session and kept byte for
// byte: the provider's cache of it hangs on that.
type Prompt struct {
	Home     fs.FS    // the profile's home: SOUL.md, memories/; never the working directory
	Workdir  fs.FS    // where context files are looked for; nil = nowhere
	Guidance []string // how to use the tools that there are
	NoMemory bool     // memory.memory_enabled: false
	NoUser   bool     // memory.user_profile_enabled: false
	Skills   []Skill
	Now      time.Time
	Platform string   // what is special about the place where the answer is read
	Overlays []string // agent.system_prompt, a personality, a channel's prompt, a client's
}

// contextFiles are the project's own instructions. The first that is there is taken.
func contextFiles() []string {
	return []string{".hermes.md", "HERMES.md", "AGENTS.md", "agents.md", "CLAUDE.md", "claude.md", ".cursorrules"}
}

// Build returns the system prompt, and what could not be read, in words. It always returns a
// usable prompt: the bot must not fall silent because a file is unreadable.
func (p Prompt) Build() (text string, problems []string) {
	read := func(from fs.FS, name string) string {
		if from == nil {
			return ""
		}
		data, err := fs.ReadFile(from, name)
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				problems = append(problems, fmt.Sprintf("%s is not in the prompt: %v", name, err))
			}
			return ""
		}
		s := strings.TrimPrefix(strings.ToValidUTF8(string(data), "\uFFFD"), "\uFEFF")
		return strings.TrimSpace(strings.ReplaceAll(s, "\r\n", "\n"))
	}
	soul := shorten("SOUL.md", read(p.Home, "SOUL.md"))
	if soul == "" {
		soul = Identity
	}
	parts := append([]string{soul}, p.Guidance...)
	if !p.NoMemory {
		parts = append(parts, memoryBlock("MEMORY (your personal notes)", read(p.Home, "memories/MEMORY.md"), MemoryLimit))
	}
	if !p.NoUser {
		parts = append(parts, memoryBlock("USER PROFILE (who the user is)", read(p.Home, "memories/USER.md"), UserLimit))
	}
	parts = append(parts, skillIndex(p.Skills))
	for _, name := range contextFiles() {
		if content := read(p.Workdir, name); content != "" {
			parts = append(parts, "# Project context\n\nThis file of the working directory is to be followed:\n\n## "+name+"\n\n"+shorten(name, content))
			break
		}
	}
	if !p.Now.IsZero() {
		parts = append(parts, "Conversation started: "+p.Now.Format("Monday, January 2, 2006, 15:04 (UTC-07:00)"))
	}
	parts = append(append(parts, p.Platform), p.Overlays...)
	parts = slices.DeleteFunc(parts, func(s string) bool { return strings.TrimSpace(s) == "" })
	return strings.Join(parts, "\n\n"), problems
}

// memoryBlock is a memory file with how full it is.
func memoryBlock(title, content string, limit int) string {
	var entries []string
	for e := range strings.SplitSeq("\n"+content+"\n", "\n§\n") {
		if e = strings.TrimSpace(e); e != "" && !slices.Contains(entries, e) {
			entries = append(entries, e)
		}
	}
	if len(entries) == 0 {
		return ""
	}
	body := strings.Join(entries, "\n§\n")
	used := utf8.RuneCountInString(body)
	line := strings.Repeat("═", 46)
	return fmt.Sprintf("%s\n%s [%d%% — %s/%s chars]\n%s\n%s", line, title, min(100, used*100/limit), thousands(used), thousands(limit), line, body)
}

// skillIndex lists the skills by category and name.
func skillIndex(skills []Skill) string {
	if len(skills) == 0 {
		return ""
	}
	sorted := slices.SortedFunc(slices.Values(skills), func(a, b Skill) int {
		return cmp.Or(cmp.Compare(a.Category, b.Category), cmp.Compare(a.Name, b.Name))
	})
	var b strings.Builder
	b.WriteString("## Skills\nBefore you answer, look through this list. If a skill fits the task even in part, load it with skill_view(name) and follow it.\n\n<available_skills>\n")
	for i, s := range sorted {
		if i == 0 || s.Category != sorted[i-1].Category {
			fmt.Fprintf(&b, "  %s:\n", cmp.Or(s.Category, "general"))
		}
		fmt.Fprintf(&b, "    - %s", s.Name)
		if d := strings.Join(strings.Fields(s.Description), " "); d != "" {
			b.WriteString(": " + d)
		}
		b.WriteByte('\n')
	}
	b.WriteString("</available_skills>")
	return b.String()
}

// shorten keeps the beginning and the end of a file that is too long for a prompt.
func shorten(name, content string) string {
	runes := []rune(content)
	if len(runes) <= contextLimit {
		return content
	}
	head, tail := contextLimit*7/10, contextLimit*2/10
	return fmt.Sprintf("%s\n\n[… %s is cut here: the first %s and the last %s of %s characters are shown. Read the file for the rest. …]\n\n%s",
		string(runes[:head]), name, thousands(head), thousands(tail), thousands(len(runes)), string(runes[len(runes)-tail:]))
}
