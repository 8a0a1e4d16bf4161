// SPDX-License-Identifier: MIT

package migrate

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/migrate/yamlspan"
)

func v034() Step {
	return Step{
		To: 34, ID: "34-personality-reset",
		Title: "display.personality is reset once; a personality's text leaves agent.system_prompt",
		Detail: "Personalities used to be saved in two places, and one that was switched off could come back. The name in " +
			"display.personality becomes empty (none, default and neutral mean that already). agent.system_prompt is emptied only while it is, " +
			"word for word, the text of a personality: a built-in one, known by its SHA-256, or one of agent.personalities. Any other " +
			"text is your own and stays.",
		run: runV034,
	}
}

func runV034(w *work) error {
	name := w.get("display", "personality")
	if name.ok && name.node.Kind == yamlspan.Scalar {
		switch strings.ToLower(strings.TrimSpace(name.node.Value)) {
		case "", "none", "default", "neutral", "null", "~":
		default:
			reason := "personalities are chosen in one place now; run /personality " + name.shown() + " to have it back"
			if err := w.set(reason, `""`, "display", "personality"); err != nil {
				return err
			}
		}
	}
	prompt := w.get("agent", "system_prompt")
	text := v034Prompt(prompt)
	if text == "" {
		return nil
	}
	if !v034Known(w, text) {
		w.keep(value{ok: true, node: &yamlspan.Node{Kind: yamlspan.Scalar, Style: yamlspan.DoubleQuoted, Value: "(your text)"}, v: "", line: prompt.line},
			"no known personality's text: your own", "agent", "system_prompt")
		return nil
	}
	if prompt.node.Kind != yamlspan.Scalar {
		w.advise("config.yaml line %d: agent.system_prompt is the text of a personality, written as a list; remove it", prompt.line)
		return nil
	}
	if err := w.set("the text of a personality; personalities live in display.personality", `""`, "agent", "system_prompt"); err != nil {
		return err
	}
	w.plan.Changes[len(w.plan.Changes)-1].Old = "(the text of a personality)"
	return nil
}

// v034Prompt is the text of a prompt, given as one text or as a list of lines.
func v034Prompt(v value) string {
	if items, ok := v.list(); ok {
		return strings.TrimSpace(strings.Join(items, "\n"))
	}
	s, _ := v.text()
	return strings.TrimSpace(s)
}

// v034Known reports whether text is a personality's, built in or the user's own.
func v034Known(w *work, text string) bool {
	for _, name := range w.get("agent", "personalities").keys() {
		p := w.get("agent", "personalities", name)
		own := v034Prompt(p)
		if p.isMap() {
			own = v034Rendered(w, name)
		}
		if own == text {
			return true
		}
	}
	sum := sha256.Sum256([]byte(text))
	return slices.Contains(v034Builtin(), hex.EncodeToString(sum[:]))
}

// v034Rendered is the text that a personality written as a mapping becomes.
func v034Rendered(w *work, name string) string {
	var lines []string
	for _, part := range []struct{ key, label string }{{"system_prompt", ""}, {"tone", "Tone: "}, {"style", "Style: "}} {
		if s := v034Prompt(w.get("agent", "personalities", name, part.key)); s != "" {
			lines = append(lines, part.label+s)
		}
	}
	return strings.Join(lines, "\n")
}

// v034Builtin are the SHA-256 sums of the built-in personalities' texts.
func v034Builtin() []string {
	return []string{
		"4346b401a7fbbddb8757280f45c2862431de66669b243e93a502890eaf0ab7ec", // helpful
		"7eaef94c08f51009361cefe18828572e190eb4eedb38333ef20ba328ff82b786", // concise
		"522ec7a36495f4b86dc07f548c8bc355b271e3db0bd2937936b617c9f851fdff", // technical
		"3f5988b457f09eaa6478a83fba1c1d184b784d03d19602d231fec6c9b6750f77", // creative
		"a1ac4e6dd3ccbce845bd71150308ce3f5dd56ffffc48c4737d49c253eb291af7", // teacher
		"2682a3889bda82d523df1b59d82d47273724354461aa9af56cb1cfc95c1f6a73", // kawaii
		"f33bbde54be95053b5d6acb24d4d117dcfaec91d22c7d09cc78b64d1ab51dc31", // catgirl
		"6436376efe1f2231c992793d9efec6d2c917a0670d15e63d6869b9c306f43e9d", // pirate
		"cef106db1bd0c9bd2c221db6d5b75ef81592176d51bf50b2bce72bc0491084db", // shakespeare
		"26c94090415e364037ea8f100d3e202fea5b3b26c614a3276a8dc5f3e1139b26", // surfer
		"d5755473c0d06f558c86b2723ee735c102af82ca9ebc3eb980509ad19e4427c0", // noir
		"31a6c9545eb38ec90ffdd98f48c3a02768c8b69155b9d281c2c2f5f4cab152a3", // uwu
		"85648ad8064acc23cf9599d88e2f3b765d927a40d64eaf63b772b761558e4362", // philosopher
		"39e129e11edc0f099ac03471abccf1d8d1bb23846987c7ae26f2b4c2a1242e8b", // hype
		"76358708d406d94616c37c88ce497e6302ce492d23bb875f0c4f9162d9cf7337", // hype, later
	}
}
