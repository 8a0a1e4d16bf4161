// SPDX-License-Identifier: MIT

package agent

import (
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }

func fullPrompt() Prompt {
	return Prompt{
		Home: fstest.MapFS{
			"SOUL.md":            file("\uFEFFI am Vega, a careful assistant.\r\nI speak plainly.\n"),
			"memories/MEMORY.md": file("The build runs with make.\n§\nDeploys happen on Mondays.\n§\nThe build runs with make.\n§\n\n"),
			"memories/USER.md":   file("Name: Zoë"),
			"AGENTS.md":          file("of the home, never to be read"),
		},
		Workdir: fstest.MapFS{
			"AGENTS.md": file("Use tabs.\n"),
			"CLAUDE.md": file("second choice"),
			"SOUL.md":   file("never from the working directory"),
		},
		Guidance: []string{"Use the memory tool for what should last."},
		Skills:   []Skill{{"ops", "deploy", "ships a\n release"}, {"", "notes", ""}, {"ops", "backup", "saves data"}},
		Now:      time.Date(2026, 11, 30, 9, 5, 0, 0, time.FixedZone("CET", 3600)),
		Platform: "You are talking over Telegram: keep messages short.",
		Overlays: []string{"Speak like a pirate.", "", "The client asks for English."},
	}
}

// TestPromptGolden holds the order of the parts and each of their bytes.
func TestPromptGolden(t *testing.T) {
	t.Parallel()
	text, problems := fullPrompt().Build()
	if len(problems) > 0 {
		t.Error(problems)
	}
	testkit.Golden(t, "testdata/prompt.golden", []byte(text+"\n"))
	for range 50 {
		p := fullPrompt()
		slices.Reverse(p.Skills) // the order in which a disk lists them
		if again, _ := p.Build(); again != text {
			t.Fatal("the same parts make another prompt")
		}
	}
}

func TestPromptWithoutFiles(t *testing.T) {
	t.Parallel()
	for _, home := range []fs.FS{nil, fstest.MapFS{}, fstest.MapFS{"SOUL.md": file(" \n")}} {
		text, problems := Prompt{Home: home, Now: time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)}.Build()
		if want := Identity + "\n\nConversation started: Friday, January 2, 2026, 03:04 (UTC+00:00)"; text != want || len(problems) > 0 {
			t.Errorf("got %q, %v", text, problems)
		}
	}
}

func TestPromptUnreadableFile(t *testing.T) {
	t.Parallel()
	text, problems := Prompt{Home: fstest.MapFS{"SOUL.md": {Mode: fs.ModeDir}, "SOUL.md/x": file("")}}.Build()
	if text != Identity || len(problems) != 1 || !strings.Contains(problems[0], "SOUL.md") {
		t.Errorf("got %q, %v", text, problems)
	}
}

func TestPromptSwitches(t *testing.T) {
	t.Parallel()
	p := fullPrompt()
	p.NoMemory, p.NoUser = true, true
	if text, _ := p.Build(); strings.Contains(text, "═") {
		t.Error("memory is there although it is off")
	}
	p = fullPrompt()
	p.Workdir = fstest.MapFS{".hermes.md": file("first"), "AGENTS.md": file("second"), ".cursorrules": file("third")}
	if text, _ := p.Build(); !strings.Contains(text, "first") || strings.Contains(text, "second") || strings.Contains(text, "third") {
		t.Error("the first context file is to be taken, and no other")
	}
	p.Workdir = fstest.MapFS{"AGENTS.md": file(strings.Repeat("é", 25_000))}
	if text, _ := p.Build(); !strings.Contains(text, "the first 14,000 and the last 4,000 of 25,000 characters") || strings.Count(text, "é") != 18_000 {
		t.Error("a long file is not shortened")
	}
	full := Prompt{Home: fstest.MapFS{"memories/MEMORY.md": file(strings.Repeat("x", 3000))}}
	if text, _ := full.Build(); !strings.Contains(text, "[100% — 3,000/2,200 chars]") {
		t.Errorf("a file over its limit: %.200s", text)
	}
}
