// SPDX-License-Identifier: MIT

package session

import (
	"slices"
	"strings"
)

// column is one column of a table: its name and the rest of its declaration.
type column struct{ name, decl string }

// table is a table of upstream's schema 30, or one of our own.
type table struct {
	name    string
	columns []column
	tail    []string // table constraints
}

// declare reads a table from a text of one column a line, or several on a line between commas.
// A line that starts with "!" is a table constraint.
func declare(name, text string) table {
	t := table{name: name}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if c, ok := strings.CutPrefix(line, "!"); ok {
			t.tail = append(t.tail, c)
			continue
		}
		for part := range strings.SplitSeq(line, ",") {
			if col, decl, _ := strings.Cut(strings.TrimSpace(part), " "); col != "" {
				t.columns = append(t.columns, column{col, decl})
			}
		}
	}
	return t
}

// create is the statement that makes the table.
func (t table) create() string {
	lines := make([]string, 0, len(t.columns)+len(t.tail))
	for _, c := range t.columns {
		lines = append(lines, c.name+" "+c.decl)
	}
	return "CREATE TABLE IF NOT EXISTS " + t.name + " (\n  " + strings.Join(append(lines, t.tail...), ",\n  ") + "\n)"
}

// add is the statement that gives an existing table a column. SQLite adds no column that may
// not be NULL and has no default; all that upstream added later have one.
func (t table) add(c column) string {
	decl := c.decl
	if !strings.Contains(decl, "DEFAULT") {
		decl = strings.ReplaceAll(decl, " NOT NULL", "")
	}
	return "ALTER TABLE " + t.name + " ADD COLUMN " + c.name + " " + decl
}

const count = " INTEGER DEFAULT 0"

// tables are all tables of the schema, those first that others refer to. The session and
// message columns are the ones of the newest file with number 30 that is known; later
// additions of upstream are left alone wherever they are found.
func tables() []table { return slices.Concat(contentTables(), gatewayTables(), ownTables()) }

// contentTables hold what was said.
func contentTables() []table {
	return []table{
		declare("schema_version", `version INTEGER NOT NULL`),
		declare("system_prompts", `hash TEXT PRIMARY KEY, prompt TEXT NOT NULL`),
		declare("sessions", `
			id TEXT PRIMARY KEY, source TEXT NOT NULL, created_source TEXT
			user_id TEXT, session_key TEXT, chat_id TEXT, chat_type TEXT, thread_id TEXT
			display_name TEXT, origin_json TEXT, expiry_finalized`+count+`
			model TEXT, model_config TEXT, system_prompt TEXT, system_prompt_hash TEXT
			parent_session_id TEXT, started_at REAL NOT NULL, ended_at REAL, end_reason TEXT
			message_count`+count+`, tool_call_count`+count+`
			input_tokens`+count+`, output_tokens`+count+`
			cache_read_tokens`+count+`, cache_write_tokens`+count+`, reasoning_tokens`+count+`
			cwd TEXT, git_branch TEXT, git_repo_root TEXT
			git_metadata_generation INTEGER NOT NULL DEFAULT 0
			billing_provider TEXT, billing_base_url TEXT, billing_mode TEXT
			estimated_cost_usd REAL, actual_cost_usd REAL, cost_status TEXT, cost_source TEXT
			pricing_version TEXT, title TEXT, title_source TEXT
			last_activity_at REAL, last_activity_description TEXT, last_activity_provenance TEXT
			api_call_count`+count+`
			handoff_state TEXT, handoff_platform TEXT, handoff_error TEXT
			compression_failure_cooldown_until REAL, compression_failure_error TEXT
			compression_fallback_streak INTEGER NOT NULL DEFAULT 0
			compression_ineffective_count INTEGER NOT NULL DEFAULT 0
			compression_recovery_deadline REAL
			compression_overload_streak INTEGER NOT NULL DEFAULT 0
			profile_name TEXT, transport_profile TEXT
			rewind_count INTEGER NOT NULL DEFAULT 0, archived INTEGER NOT NULL DEFAULT 0
			pinned INTEGER NOT NULL DEFAULT 0, hidden INTEGER NOT NULL DEFAULT 0
			last_read_at REAL, tool_names TEXT
			!FOREIGN KEY (parent_session_id) REFERENCES sessions(id)
			!FOREIGN KEY (system_prompt_hash) REFERENCES system_prompts(hash)`),
		declare("messages", `
			id INTEGER PRIMARY KEY AUTOINCREMENT
			session_id TEXT NOT NULL REFERENCES sessions(id), role TEXT NOT NULL, content TEXT
			tool_call_id TEXT, tool_calls TEXT, tool_name TEXT, effect_disposition TEXT
			timestamp REAL NOT NULL, token_count INTEGER, finish_reason TEXT
			reasoning TEXT, reasoning_content TEXT, reasoning_details TEXT
			codex_reasoning_items TEXT, codex_message_items TEXT, platform_message_id TEXT
			observed`+count+`, _compressed_summary INTEGER NOT NULL DEFAULT 0
			active INTEGER NOT NULL DEFAULT 1, compacted INTEGER NOT NULL DEFAULT 0
			api_content TEXT, display_kind TEXT, display_metadata TEXT
			display_identity BLOB, display_order INTEGER`),
		declare("session_model_usage", `
			session_id TEXT NOT NULL REFERENCES sessions(id) ON DELETE CASCADE
			model TEXT NOT NULL
			billing_provider TEXT NOT NULL DEFAULT '', billing_base_url TEXT NOT NULL DEFAULT ''
			billing_mode TEXT NOT NULL DEFAULT '', task TEXT NOT NULL DEFAULT ''
			api_call_count INTEGER NOT NULL DEFAULT 0
			input_tokens INTEGER NOT NULL DEFAULT 0, output_tokens INTEGER NOT NULL DEFAULT 0
			cache_read_tokens INTEGER NOT NULL DEFAULT 0, cache_write_tokens INTEGER NOT NULL DEFAULT 0
			reasoning_tokens INTEGER NOT NULL DEFAULT 0
			estimated_cost_usd REAL NOT NULL DEFAULT 0, actual_cost_usd REAL NOT NULL DEFAULT 0
			cost_status TEXT, cost_source TEXT, first_seen REAL, last_seen REAL
			!PRIMARY KEY (session_id, model, billing_provider, billing_base_url, billing_mode, task)`),
	}
}

// gatewayTables hold what programs that share the file tell each other.
func gatewayTables() []table {
	return []table{
		declare("state_meta", `key TEXT PRIMARY KEY, value TEXT`),
		declare("gateway_routing", `
			scope TEXT NOT NULL DEFAULT '', session_key TEXT NOT NULL
			entry_json TEXT NOT NULL, updated_at REAL NOT NULL
			!PRIMARY KEY (scope, session_key)`),
		declare("gateway_hygiene_state", `session_key TEXT PRIMARY KEY, failure_streak INTEGER NOT NULL DEFAULT 0`),
		declare("conversation_generations", `
			source TEXT NOT NULL, session_key TEXT NOT NULL, generation INTEGER NOT NULL DEFAULT 0
			!PRIMARY KEY (source, session_key)`),
		declare("gateway_heartbeats", `
			backend_id TEXT PRIMARY KEY, pid INTEGER NOT NULL, started_at REAL NOT NULL
			last_heartbeat REAL NOT NULL, profile TEXT NOT NULL DEFAULT '', host TEXT NOT NULL DEFAULT ''`),
		declare("compression_locks", `
			session_id TEXT PRIMARY KEY, holder TEXT NOT NULL, acquired_at REAL NOT NULL, expires_at REAL NOT NULL`),
		declare("session_turn_leases", `
			conversation_id TEXT PRIMARY KEY, holder TEXT NOT NULL, acquired_at REAL NOT NULL, expires_at REAL NOT NULL`),
		declare("async_delegations", `
			delegation_id TEXT PRIMARY KEY, origin_session TEXT NOT NULL
			origin_ui_session_id TEXT NOT NULL DEFAULT '', parent_session_id TEXT, state TEXT NOT NULL
			dispatched_at REAL NOT NULL, completed_at REAL, updated_at REAL NOT NULL
			event_json TEXT, result_json TEXT, delivery_state TEXT NOT NULL DEFAULT 'pending'
			delivery_attempts INTEGER NOT NULL DEFAULT 0, delivered_at REAL
			owner_pid INTEGER, owner_started_at INTEGER, task_json TEXT
			delivery_claim TEXT, delivery_claimed_at REAL, origin_session_id TEXT NOT NULL DEFAULT ''`),
	}
}

// ownTables are not upstream's, which leaves alone what it does not know.
func ownTables() []table {
	return []table{
		declare("appliance_responses", `
			id TEXT PRIMARY KEY, session_id TEXT NOT NULL, through INTEGER NOT NULL
			instructions TEXT NOT NULL, made_at REAL NOT NULL, size INTEGER NOT NULL, body TEXT NOT NULL`),
		declare("appliance_run_keys", `
			key TEXT PRIMARY KEY, sum TEXT NOT NULL, run_id TEXT NOT NULL UNIQUE
			status TEXT, session_id TEXT, made_at REAL NOT NULL`),
	}
}

// index is an index of upstream's that the queries of this package need.
type index struct{ name, on string }

// indexes leaves out those that only upstream's own display code uses: upstream makes them.
func indexes() []index {
	return []index{
		{"idx_sessions_source", "sessions(source)"},
		{"idx_sessions_parent", "sessions(parent_session_id)"},
		{"idx_sessions_started", "sessions(started_at DESC)"},
		{"idx_sessions_session_key", "sessions(session_key, started_at DESC)"},
		{"idx_sessions_system_prompt_hash", "sessions(system_prompt_hash)"},
		{"idx_sessions_tool_names", "sessions(tool_names)"},
		{"idx_sessions_effective_activity", "sessions(COALESCE(last_activity_at, started_at) DESC, started_at DESC)"},
		{"idx_messages_session", "messages(session_id, timestamp)"},
		{"idx_messages_session_id", "messages(session_id, id)"},
		{"idx_messages_session_active", "messages(session_id, active, timestamp)"},
		{"idx_messages_active_null", "messages(active) WHERE active IS NULL"},
		{"idx_messages_assistant_calls_by_session", "messages(session_id) WHERE role = 'assistant' AND tool_calls IS NOT NULL"},
		{"idx_messages_platform_msg_id", "messages(session_id, platform_message_id) WHERE platform_message_id IS NOT NULL"},
		{"idx_session_model_usage_session", "session_model_usage(session_id)"},
		{"idx_session_model_usage_model", "session_model_usage(model)"},
		{"idx_session_turn_leases_expires", "session_turn_leases(expires_at)"},
		{"idx_compression_locks_expires", "compression_locks(expires_at)"},
	}
}

// titleIndex makes titles unique. It cannot be made in a file that has a title twice.
const titleIndex = "CREATE UNIQUE INDEX IF NOT EXISTS idx_sessions_title_unique ON sessions(title) WHERE title IS NOT NULL"
