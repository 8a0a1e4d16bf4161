// SPDX-License-Identifier: MIT

package migrate

import (
	"slices"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/migrate/yamlspan"
)

func v045() Step {
	return Step{
		To: 45, ID: "45-connections",
		Title: "the toolset connections joins saved lists of single toolsets",
		Detail: "A list below platform_toolsets that names single toolsets treats what it does not name as switched off, so a new " +
			"toolset would never appear. connections goes behind its last item, unless known_builtin_toolsets shows that it was offered " +
			"before, agent.disabled_toolsets names it, or the list holds only bundles such as hermes-cli, which include it. The order of " +
			"the list stays.",
		run: runV045,
	}
}

func runV045(w *work) error {
	const name = "connections"
	if v045Disabled(w, name) {
		return nil
	}
	for _, platform := range w.get("platform_toolsets").keys() {
		items, ok := w.get("platform_toolsets", platform).list()
		if !ok || slices.Contains(items, name) || !slices.ContainsFunc(items, v045Single) {
			continue
		}
		known, offered := w.get("known_builtin_toolsets", platform).list()
		if slices.Contains(known, name) {
			continue
		}
		const reason = "a list of single toolsets must name a new one to have it; take it out again if you do not want it"
		if err := w.addItem(reason, name, "platform_toolsets", platform); err != nil {
			return err
		}
		if offered {
			if err := w.addItem("remembers that connections was offered", name, "known_builtin_toolsets", platform); err != nil {
				return err
			}
		}
	}
	return nil
}

// v045Disabled reads agent.disabled_toolsets, a list or the text of one.
func v045Disabled(w *work, name string) bool {
	v := w.get("agent", "disabled_toolsets")
	if items, ok := v.list(); ok {
		return slices.Contains(items, name)
	}
	text, ok := v.text()
	if !ok {
		return false
	}
	if text = strings.TrimSpace(text); strings.HasPrefix(text, "[") {
		if doc, err := yamlspan.Parse([]byte(text)); err == nil && doc.Root().Kind == yamlspan.Sequence {
			for _, it := range doc.Root().Items {
				if strings.TrimSpace(it.Value) == name {
					return true
				}
			}
		}
	}
	return text == name
}

// v045Single reports whether a name is a toolset of its own and not a bundle.
func v045Single(name string) bool {
	return slices.Contains([]string{
		"browser", "clarify", "code_execution", "computer_use", "context_engine", "cronjob", "delegation", "discord",
		"discord_admin", "file", "homeassistant", "image_gen", "kanban", "memory", "session_search", "skills", "spotify", "stt",
		"terminal", "todo", "tts", "video", "video_gen", "vision", "web", "x_search", "yuanbao",
	}, name)
}
