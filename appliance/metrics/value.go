// SPDX-License-Identifier: MIT

package metrics

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// Catch-alls.
const (
	custom  = "custom"  // a provider or model that its user named
	unknown = "unknown" // none was given
)

// rule makes a closed value of a raw one; "" drops the count. It sees the raw dimensions.
type rule func(raw string, dims map[string]string) string

// oneOf takes the values of a list; anything else becomes other.
func oneOf(other string, values ...string) rule {
	return func(raw string, _ map[string]string) string {
		if slices.Contains(values, raw) {
			return raw
		}
		return other
	}
}

// Strategies are upstream's ways to find the text of an edit, strictest first.
func Strategies() []string {
	return []string{
		"exact", "line_trimmed", "whitespace_normalized", "indentation_flexible", "escape_normalized",
		"trimmed_boundary", "unicode_normalized", "block_anchor", "context_aware",
	}
}

// counters are the dimensions of each counter with their rules.
func counters(tools, providers []string) map[string]map[string]rule {
	public := providerRule(providers)
	modelOf := func(raw string, dims map[string]string) string { return modelName(raw, public(dims["provider"], nil)) }
	with := func(more map[string]rule) map[string]rule {
		more["provider"], more["model"] = public, modelOf
		return more
	}
	return map[string]map[string]rule{
		FileEdit: {
			"tool": oneOf("", "patch", "write_file"), "mode": oneOf("replace", "replace", "v4a", "whole_file"),
			"outcome":        oneOf("failed", "applied", "already_applied", "ambiguous", "no_match", "failed"),
			"match_strategy": oneOf("none", Strategies()...),
		},
		LoopGuard: with(map[string]rule{
			"signal": oneOf("", "iteration_cap", "loop_detected", "repeated_tool_call"),
			"detector": oneOf("", "exact_failure", "idempotent_no_progress", "identical_call_streak", "identical_cycle",
				"iteration_budget", "same_tool_failure", "subagent_cap", "web_search_cap"),
		}),
		ToolRecovery: with(map[string]rule{
			"tool": toolRule(tools), "next_tool": oneOf("", "same", "different", "none"),
			"next_outcome": oneOf("", "success", "error", "no_tool_call", "gave_up"),
		}),
		Terminal: {
			"backend":      oneOf("other", "daytona", "docker", "local", "managed_modal", "modal", "singularity", "ssh", "vercel_sandbox"),
			"command_kind": oneOf("other", kindNames()...),
			"outcome":      oneOf("", "ok", "nonzero", "timeout", "killed"),
		},
		ModelReplyIssue: with(map[string]rule{
			"issue": oneOf("", "refusal", "truncated_length", "empty", "reasoning_only", "none"),
		}),
	}
}

// check returns the closed dimensions as JSON with sorted keys; false drops the count.
func check(rules map[string]rule, dims map[string]string) (string, bool) {
	if rules == nil {
		return "", false
	}
	out := make(map[string]string, len(rules))
	for name, r := range rules {
		v := r(dims[name], dims)
		if v == "" {
			return "", false
		}
		out[name] = v
	}
	text, err := json.Marshal(out)
	return string(text), err == nil
}

// providerRule takes public providers. A server of one's own, and every name that somebody made
// up, is custom.
func providerRule(names []string) rule {
	return func(raw string, _ map[string]string) string {
		name := strings.ToLower(strings.TrimSpace(raw))
		switch {
		case name == "":
			return unknown
		case slices.Contains(names, name):
			return name
		}
		return custom
	}
}

var (
	publicModel = regexp.MustCompile(`^[a-z0-9][a-z0-9._:/@+-]{0,127}$`)
	// A place, a file, or a model that carries its owner's name: upstream's list, and fine-tunes.
	ownModel = regexp.MustCompile(`^arn:|^ft[:-]|:/|\.(gguf|bin|safetensors)$|^(localhost|\d{1,3}(\.\d{1,3}){3})([:/]|$)|^[^/:]+:\d{2,5}(/|$)`)
)

// modelName is a model's id at a public provider; anything that may be a user's own is custom.
func modelName(raw, provider string) string {
	name := strings.ToLower(strings.TrimSpace(raw))
	switch {
	case provider == custom:
		return custom
	case name == "":
		return unknown
	case provider == unknown, !publicModel.MatchString(name), ownModel.MatchString(name):
		return custom
	}
	return name
}

// toolRule takes built-in tools. The name of another one is its server's or plugin's, or what a
// model made up.
func toolRule(names []string) rule {
	return func(raw string, _ map[string]string) string {
		name := strings.ToLower(strings.TrimSpace(raw))
		switch {
		case name == "":
			return unknown
		case slices.Contains(names, name):
			return name
		case strings.HasPrefix(name, "mcp_"):
			return "mcp"
		}
		return "plugin"
	}
}
