// SPDX-License-Identifier: MIT

package tool

import "strings"

// toolset is a named group of tools.
type toolset struct {
	tools    []string
	includes []string
}

// Names are the tools that the product may have, by upstream's names.
func Names() []string { return core() }

// core are the tools of a platform whose users are trusted.
func core() []string {
	return []string{
		"web_search", "web_extract", "terminal", "process_manage", "read_file", "write_file", "patch", "search_files", "vision_analyze", "image_generate",
		"skills_list", "skill_view", "skill_manage", "browser_navigate", "browser_snapshot", "browser_click", "browser_type", "browser_scroll", "browser_back",
		"browser_press", "browser_get_images", "browser_vision", "browser_console", "browser_cdp", "browser_dialog", "browser_exec", "text_to_speech",
		"todo_list", "memory", "session_search", "clarify", "execute_code", "delegate_task", "cronjob_manage",
		"ha_list_entities", "ha_get_state", "ha_list_services", "ha_call_service",
		"kanban_show", "kanban_list", "kanban_complete", "kanban_block", "kanban_request_review", "kanban_request_changes", "kanban_heartbeat",
		"kanban_comment", "kanban_create", "kanban_link", "kanban_unblock", "kanban_attach", "kanban_attach_url", "kanban_attachments", "computer_use",
	}
}

func prefixed(prefixes ...string) []string {
	return filter(func(name string) bool {
		for _, p := range prefixes {
			if strings.HasPrefix(name, p) {
				return true
			}
		}
		return false
	})
}

// without are the core tools but for those with one of the prefixes.
func without(prefixes ...string) []string {
	drop := map[string]bool{}
	for _, n := range prefixed(prefixes...) {
		drop[n] = true
	}
	return filter(func(name string) bool { return !drop[name] })
}

func filter(keep func(string) bool) []string {
	var out []string
	for _, n := range core() {
		if keep(n) {
			out = append(out, n)
		}
	}
	return out
}

// platforms are upstream's platforms whose toolset is the core.
func platforms() []string {
	return []string{
		"cli", "cron", "telegram", "discord", "whatsapp", "slack", "signal", "bluebubbles", "homeassistant", "email", "mattermost", "matrix", "dingtalk", "feishu",
		"weixin", "qqbot", "wecom", "wecom-callback", "yuanbao", "sms", "ntfy", "irc",
	}
}

// toolsets are upstream's names for groups of tools.
func toolsets() map[string]toolset {
	out := map[string]toolset{
		"web":            {tools: []string{"web_search", "web_extract"}},
		"search":         {tools: []string{"web_search"}},
		"terminal":       {tools: []string{"terminal", "process_manage"}},
		"file":           {tools: []string{"read_file", "write_file", "patch", "search_files"}},
		"browser":        {tools: prefixed("browser_")},
		"vision":         {tools: []string{"vision_analyze"}},
		"image_gen":      {tools: []string{"image_generate"}},
		"computer_use":   {tools: []string{"computer_use"}},
		"skills":         {tools: []string{"skills_list", "skill_view", "skill_manage"}},
		"todo":           {tools: []string{"todo_list"}},
		"memory":         {tools: []string{"memory"}},
		"session_search": {tools: []string{"session_search"}},
		"clarify":        {tools: []string{"clarify"}},
		"cronjob":        {tools: []string{"cronjob_manage"}},
		"delegation":     {tools: []string{"delegate_task"}},
		"code_execution": {tools: []string{"execute_code"}},
		"tts":            {tools: []string{"text_to_speech"}},
		"kanban":         {tools: prefixed("kanban_")},
		"homeassistant":  {tools: prefixed("ha_")},
		"safe":           {includes: []string{"web", "vision", "image_gen"}},
		"debugging":      {includes: []string{"terminal", "web", "file"}},
		"coding":         {tools: without("image_generate", "text_to_speech", "cronjob_manage", "computer_use", "ha_", "kanban_")},
		// An API's client has no screen for questions, and a webhook's payload is nobody's word.
		"hermes-api-server": {tools: without("text_to_speech", "clarify", "computer_use", "kanban_")},
		"hermes-webhook":    {tools: []string{"web_search", "web_extract", "vision_analyze", "clarify"}},
		"hermes-acp":        {tools: without("image_generate", "text_to_speech", "cronjob_manage", "computer_use", "ha_", "kanban_", "clarify")},
	}
	for _, p := range platforms() {
		out["hermes-"+p] = toolset{tools: core()}
	}
	out["hermes-gateway"] = toolset{includes: []string{"hermes-telegram", "hermes-webhook"}}
	return out
}

// expand returns the tools of a toolset, false if nobody knows it.
func expand(name string) ([]string, bool) {
	all := toolsets()
	t, ok := all[name]
	if !ok {
		return nil, false
	}
	out := t.tools
	for _, i := range t.includes {
		out = append(out, all[i].tools...)
	}
	return out, true
}

// platformToolset is what a platform offers if its config says nothing.
func platformToolset(platform string) string {
	switch platform {
	case "api_server", "api-server":
		return "hermes-api-server"
	case "":
		return "hermes-cli"
	}
	return "hermes-" + strings.ReplaceAll(platform, "_", "-")
}
