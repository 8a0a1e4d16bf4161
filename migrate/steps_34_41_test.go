// SPDX-License-Identifier: MIT

package migrate

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestV034Name(t *testing.T) {
	t.Parallel()
	line := func(v string) string { return "display:\n  personality: " + v + " # p\n  skin: x\n" }
	rows := []at{
		{"absent", "display: {}\n", ""},
		{"no section", "display: kawaii\n", ""},
		{"list", "display:\n  personality: [kawaii]\n", ""},
		{"in brackets", "display: {personality: pirate, skin: x}\n", "display: {personality: \"\", skin: x}\n"},
	}
	for _, v := range []string{"kawaii", "\"Pirate\"", "'own one'", "helpful"} {
		rows = append(rows, at{"resets " + v, line(v), line(`""`)})
	}
	for _, v := range []string{`""`, "''", "none", "None", "default", "\" neutral \"", "null", "~"} {
		rows = append(rows, at{"keeps " + v, line(v), ""})
	}
	runStep(t, 34, rows)
}

func TestV034Prompt(t *testing.T) {
	t.Parallel()
	runStep(t, 34, []at{
		{"own text", "agent:\n  system_prompt: Be exact.\n", ""},
		{"empty", "agent:\n  system_prompt: \"\"\n", ""},
		{
			"the text of one's own personality", "agent:\n  system_prompt: \" Rhyme. \" # s\n  personalities:\n    poet: Rhyme.\n",
			"agent:\n  system_prompt: \"\" # s\n  personalities:\n    poet: Rhyme.\n",
		},
		{
			"a personality in parts", "agent:\n  system_prompt: |\n    Rhyme.\n    Tone: soft\n    Style: short\n  personalities:\n    poet: {system_prompt: Rhyme., tone: soft, style: short}\n",
			"agent:\n  system_prompt: \"\"\n  personalities:\n    poet: {system_prompt: Rhyme., tone: soft, style: short}\n",
		},
		{"part of a personality", "agent:\n  system_prompt: Rhyme\n  personalities:\n    poet: Rhyme.\n", ""},
		{"other case", "agent:\n  system_prompt: rhyme.\n  personalities:\n    poet: Rhyme.\n", ""},
		{"a personality and more", "agent:\n  system_prompt: Rhyme. Always.\n  personalities:\n    poet: Rhyme.\n", ""},
		{"a list of lines", "agent:\n  system_prompt: [Rhyme., Now.]\n  personalities:\n    poet: \"Rhyme.\\nNow.\"\n", ""},
	})
	p := planOf(t, plain(stamped(33, "agent:\n  system_prompt: My secret habit.\n")), Options{To: 34})
	wantList(t, "kept", keptOf(p.Kept), []string{"34 config.yaml agent.system_prompt = (your text)"})
	p = planOf(t, plain(stamped(33, "agent:\n  system_prompt: [Rhyme., Now.]\n  personalities:\n    poet: \"Rhyme.\\nNow.\"\n")), Options{To: 34})
	wantAdvice(t, p, "line 3: agent.system_prompt is the text of a personality, written as a list")
}

// TestV034Builtin: the sums are of texts that end without blanks, each once.
func TestV034Builtin(t *testing.T) {
	t.Parallel()
	sums := v034Builtin()
	if len(sums) != 15 {
		t.Errorf("got %d sums, want 15", len(sums))
	}
	empty := sha256.Sum256(nil)
	for i, s := range sums {
		if len(s) != 64 || slices.Contains(sums[:i], s) || s == hex.EncodeToString(empty[:]) {
			t.Errorf("sum %d, %s, is no text's of its own", i, s)
		}
	}
}

// TestV034BuiltinText: the text of the upstream personality "concise" and its neighbours.
func TestV034BuiltinText(t *testing.T) {
	t.Parallel()
	const concise = "You are a concise assistant. Keep responses brief and to the point."
	sum := sha256.Sum256([]byte(concise))
	if !slices.Contains(v034Builtin(), hex.EncodeToString(sum[:])) {
		t.Fatal("the text is in no sum")
	}
	runStep(t, 34, []at{
		{"as it is", "agent:\n  system_prompt: " + concise + "\n", "agent:\n  system_prompt: \"\"\n"},
		{"folded", "agent:\n  system_prompt: >-\n    You are a concise assistant. Keep\n    responses brief and to the point.\n", "agent:\n  system_prompt: \"\"\n"},
		{"with a word more", "agent:\n  system_prompt: " + concise + " Please.\n", ""},
	})
}

func TestV041(t *testing.T) {
	t.Parallel()
	const head = "## Messaging other agents"
	for _, r := range []struct{ name, soul, want, advice string }{
		{"none", "# Me\n\nText.\n", "# Me\n\nText.\n", ""},
		{"at the end", "# Me\n\nText.\n\n" + head + "\n\n- a: b\n", "# Me\n\nText.\n", ""},
		{"without a final line break", "# Me\n\n\n" + head + "\ntext", "# Me\n", ""},
		{"in the middle", "# Me\n\n" + head + "\ntext\n\n## Rules\n\nx\n", "# Me\n\n## Rules\n\nx\n", ""},
		{"before a higher heading", "a\n" + head + "\ntext\n# Next\n", "a\n# Next\n", ""},
		{"deeper headings belong to it", "a\n" + head + "\n### sub\n\n#### x\ny\n## Next\n", "a\n## Next\n", ""},
		{"a heading in a code block belongs to it", "a\n" + head + "\n```\n## no\n```\nx\n## Next\n", "a\n## Next\n", ""},
		{"trailing blanks", "a\n\n" + head + " \t\nx\n", "a\n", ""},
		{"CRLF", "a\r\n\r\n" + head + "\r\nx\r\n\r\n## N\r\n", "a\r\n\r\n## N\r\n", ""},
		{"only the section", head + "\nx\n", "", ""},
		{"another level", "# Messaging other agents\nx\n### Messaging other agents\n", "# Messaging other agents\nx\n### Messaging other agents\n", ""},
		{"another text", head + " well\nx\n## Messaging Other Agents\n", head + " well\nx\n## Messaging Other Agents\n", ""},
		{"in a sentence", "See ## Messaging other agents.\n", "See ## Messaging other agents.\n", ""},
		{"twice", head + "\na\n\n" + head + "\nb\n", head + "\na\n\n" + head + "\nb\n", "line 1: the heading \"Messaging other agents\" stands there twice"},
		{"in a code block", "```md\n" + head + "\n```\n", "```md\n" + head + "\n```\n", "line 2: the heading \"Messaging other agents\" stands in a code block"},
		{"in another code block", "~~~\n" + head + "\n~~~\n", "~~~\n" + head + "\n~~~\n", "stands in a code block"},
		{"empty file", "", "", ""},
	} {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			in := Input{Config: []byte(stamped(40, "")), Soul: []byte(r.soul)}
			p := planOf(t, in, Options{To: 41})
			out := afterPlan(in, p)
			if d := cmp.Diff(r.want, string(out.Soul)); d != "" {
				t.Errorf("SOUL.md (-want +got):\n%s", d)
			}
			if changed := strings.Contains(strings.Join(changesOf(p.Changes), "\n"), "41 removed SOUL.md"); changed != (r.soul != r.want) {
				t.Errorf("reported %t, changed %t", changed, r.soul != r.want)
			}
			if r.advice != "" {
				wantAdvice(t, p, r.advice)
			}
			again := Input{Config: []byte(stamped(41, "")), Soul: []byte(r.soul)}
			wantSame(t, "at 41", migrated(t, again, Options{}), Input{Config: []byte(stamped(50, "")), Soul: []byte(r.soul)})
			noVersion := Input{Config: []byte("a: 1\n"), Soul: []byte(r.soul)}
			if got := migrated(t, noVersion, Options{}); string(got.Soul) != r.soul {
				t.Errorf("without a version SOUL.md became %q", got.Soul)
			}
		})
	}
}
