-- A state.db as upstream (schema 30, index layout 3) leaves it, with columns, tables and a trigger
-- that this package does not know.
CREATE TABLE schema_version (version INTEGER NOT NULL);
CREATE TABLE system_prompts (hash TEXT PRIMARY KEY, prompt TEXT NOT NULL);
CREATE TABLE sessions (
  id TEXT PRIMARY KEY, source TEXT NOT NULL, created_source TEXT, user_id TEXT, session_key TEXT, chat_id TEXT, chat_type TEXT,
  thread_id TEXT, display_name TEXT, origin_json TEXT, expiry_finalized INTEGER DEFAULT 0, model TEXT, model_config TEXT,
  system_prompt TEXT, system_prompt_hash TEXT, parent_session_id TEXT, started_at REAL NOT NULL, ended_at REAL, end_reason TEXT,
  message_count INTEGER DEFAULT 0, tool_call_count INTEGER DEFAULT 0, input_tokens INTEGER DEFAULT 0, output_tokens INTEGER DEFAULT 0,
  cache_read_tokens INTEGER DEFAULT 0, cache_write_tokens INTEGER DEFAULT 0, reasoning_tokens INTEGER DEFAULT 0, cwd TEXT,
  git_branch TEXT, git_repo_root TEXT, git_metadata_generation INTEGER NOT NULL DEFAULT 0, billing_provider TEXT, billing_base_url TEXT,
  billing_mode TEXT, estimated_cost_usd REAL, actual_cost_usd REAL, cost_status TEXT, cost_source TEXT, pricing_version TEXT,
  title TEXT, title_source TEXT, last_activity_at REAL, last_activity_description TEXT, last_activity_provenance TEXT,
  api_call_count INTEGER DEFAULT 0, handoff_state TEXT, handoff_platform TEXT, handoff_error TEXT,
  compression_failure_cooldown_until REAL, compression_failure_error TEXT, compression_fallback_streak INTEGER NOT NULL DEFAULT 0,
  compression_ineffective_count INTEGER NOT NULL DEFAULT 0, compression_recovery_deadline REAL,
  compression_overload_streak INTEGER NOT NULL DEFAULT 0, profile_name TEXT, transport_profile TEXT,
  rewind_count INTEGER NOT NULL DEFAULT 0, archived INTEGER NOT NULL DEFAULT 0, pinned INTEGER NOT NULL DEFAULT 0,
  hidden INTEGER NOT NULL DEFAULT 0, last_read_at REAL, tool_names TEXT, auto_archived INTEGER NOT NULL DEFAULT 0,
  FOREIGN KEY (parent_session_id) REFERENCES sessions(id), FOREIGN KEY (system_prompt_hash) REFERENCES system_prompts(hash));
CREATE TABLE messages (
  id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL REFERENCES sessions(id), role TEXT NOT NULL, content TEXT,
  tool_call_id TEXT, tool_calls TEXT, tool_name TEXT, effect_disposition TEXT, timestamp REAL NOT NULL, token_count INTEGER,
  finish_reason TEXT, reasoning TEXT, reasoning_content TEXT, reasoning_details TEXT, codex_reasoning_items TEXT,
  codex_message_items TEXT, platform_message_id TEXT, observed INTEGER DEFAULT 0, _compressed_summary INTEGER NOT NULL DEFAULT 0,
  active INTEGER NOT NULL DEFAULT 1, compacted INTEGER NOT NULL DEFAULT 0, api_content TEXT, display_kind TEXT, display_metadata TEXT,
  display_identity BLOB, display_order INTEGER, message_uid TEXT, absorbed_message_uids TEXT, tool_call_uids TEXT, tool_call_uid TEXT, future TEXT);
CREATE TABLE session_model_usage (
  session_id TEXT NOT NULL REFERENCES sessions(id) ON DELETE CASCADE, model TEXT NOT NULL, billing_provider TEXT NOT NULL DEFAULT '',
  billing_base_url TEXT NOT NULL DEFAULT '', billing_mode TEXT NOT NULL DEFAULT '', task TEXT NOT NULL DEFAULT '',
  api_call_count INTEGER NOT NULL DEFAULT 0, input_tokens INTEGER NOT NULL DEFAULT 0, output_tokens INTEGER NOT NULL DEFAULT 0,
  cache_read_tokens INTEGER NOT NULL DEFAULT 0, cache_write_tokens INTEGER NOT NULL DEFAULT 0, reasoning_tokens INTEGER NOT NULL DEFAULT 0,
  estimated_cost_usd REAL NOT NULL DEFAULT 0, actual_cost_usd REAL NOT NULL DEFAULT 0, cost_status TEXT, cost_source TEXT,
  first_seen REAL, last_seen REAL, PRIMARY KEY (session_id, model, billing_provider, billing_base_url, billing_mode, task));
CREATE TABLE session_daily_usage (session_id TEXT NOT NULL, day TEXT NOT NULL, input_tokens INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (session_id, day));
CREATE TABLE state_meta (key TEXT PRIMARY KEY, value TEXT);
CREATE TABLE gateway_routing (scope TEXT NOT NULL DEFAULT '', session_key TEXT NOT NULL, entry_json TEXT NOT NULL, updated_at REAL NOT NULL, PRIMARY KEY (scope, session_key));
CREATE TABLE gateway_hygiene_state (session_key TEXT PRIMARY KEY, failure_streak INTEGER NOT NULL DEFAULT 0);
CREATE TABLE conversation_generations (source TEXT NOT NULL, session_key TEXT NOT NULL, generation INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (source, session_key));
CREATE TABLE gateway_heartbeats (backend_id TEXT PRIMARY KEY, pid INTEGER NOT NULL, started_at REAL NOT NULL, last_heartbeat REAL NOT NULL, profile TEXT NOT NULL DEFAULT '', host TEXT NOT NULL DEFAULT '');
CREATE TABLE compression_locks (session_id TEXT PRIMARY KEY, holder TEXT NOT NULL, acquired_at REAL NOT NULL, expires_at REAL NOT NULL);
CREATE TABLE session_turn_leases (conversation_id TEXT PRIMARY KEY, holder TEXT NOT NULL, acquired_at REAL NOT NULL, expires_at REAL NOT NULL);
CREATE TABLE async_delegations (
  delegation_id TEXT PRIMARY KEY, origin_session TEXT NOT NULL, origin_ui_session_id TEXT NOT NULL DEFAULT '', parent_session_id TEXT,
  state TEXT NOT NULL, dispatched_at REAL NOT NULL, completed_at REAL, updated_at REAL NOT NULL, event_json TEXT, result_json TEXT,
  delivery_state TEXT NOT NULL DEFAULT 'pending', delivery_attempts INTEGER NOT NULL DEFAULT 0, delivered_at REAL, owner_pid INTEGER,
  owner_started_at INTEGER, task_json TEXT, delivery_claim TEXT, delivery_claimed_at REAL, origin_session_id TEXT NOT NULL DEFAULT '');
CREATE TABLE plugin_notes (id INTEGER PRIMARY KEY, note TEXT);

CREATE INDEX idx_sessions_source ON sessions(source);
CREATE INDEX idx_sessions_parent ON sessions(parent_session_id);
CREATE INDEX idx_sessions_started ON sessions(started_at DESC);
CREATE INDEX idx_messages_session ON messages(session_id, timestamp);
CREATE INDEX idx_messages_session_id ON messages(session_id, id);
CREATE INDEX idx_messages_display_page ON messages(session_id, display_order, active DESC, id DESC) WHERE active = 1 OR compacted = 1;
CREATE UNIQUE INDEX idx_sessions_title_unique ON sessions(title) WHERE title IS NOT NULL;

CREATE TRIGGER messages_display_order_insert AFTER INSERT ON messages WHEN new.display_order IS NULL BEGIN
  UPDATE messages SET display_order = new.id WHERE id = new.id; END;

CREATE VIEW messages_fts_src AS SELECT id, CASE WHEN role = 'tool' THEN substr(COALESCE(content, ''), 1, 8192) ELSE content END AS content, tool_name, tool_calls FROM messages;
CREATE VIRTUAL TABLE messages_fts USING fts5(content, tool_name, tool_calls, content='messages_fts_src', content_rowid='id');
CREATE TRIGGER messages_fts_insert AFTER INSERT ON messages BEGIN
  INSERT INTO messages_fts(rowid, content, tool_name, tool_calls)
  SELECT new.id, CASE WHEN new.role = 'tool' THEN substr(COALESCE(new.content, ''), 1, 8192) ELSE new.content END, new.tool_name, new.tool_calls; END;
CREATE TRIGGER messages_fts_delete AFTER DELETE ON messages BEGIN
  INSERT INTO messages_fts(messages_fts, rowid, content, tool_name, tool_calls)
  SELECT 'delete', old.id, CASE WHEN old.role = 'tool' THEN substr(COALESCE(old.content, ''), 1, 8192) ELSE old.content END, old.tool_name, old.tool_calls; END;
CREATE TRIGGER messages_fts_update AFTER UPDATE OF content, tool_name, tool_calls, role ON messages BEGIN
  INSERT INTO messages_fts(messages_fts, rowid, content, tool_name, tool_calls)
  SELECT 'delete', old.id, CASE WHEN old.role = 'tool' THEN substr(COALESCE(old.content, ''), 1, 8192) ELSE old.content END, old.tool_name, old.tool_calls;
  INSERT INTO messages_fts(rowid, content, tool_name, tool_calls)
  SELECT new.id, CASE WHEN new.role = 'tool' THEN substr(COALESCE(new.content, ''), 1, 8192) ELSE new.content END, new.tool_name, new.tool_calls; END;
CREATE VIEW messages_fts_trigram_src AS SELECT m.id, m.role, m.content, m.tool_name FROM messages m JOIN sessions s ON s.id = m.session_id
  WHERE m.role <> 'tool' AND s.source NOT IN ('cron', 'subagent')
  AND json_extract(CASE WHEN json_valid(s.model_config) THEN s.model_config ELSE json_object() END, '$._delegate_from') IS NULL;
CREATE VIRTUAL TABLE messages_fts_trigram USING fts5(content, tool_name, content='messages_fts_trigram_src', content_rowid='id', tokenize='trigram');
CREATE TRIGGER messages_fts_trigram_insert AFTER INSERT ON messages BEGIN
  INSERT INTO messages_fts_trigram(rowid, content, tool_name) SELECT new.id, new.content, new.tool_name WHERE new.role <> 'tool' AND new.session_id IN
  (SELECT id FROM sessions WHERE source NOT IN ('cron', 'subagent') AND json_extract(CASE WHEN json_valid(model_config) THEN model_config ELSE json_object() END, '$._delegate_from') IS NULL); END;
CREATE TRIGGER messages_fts_trigram_delete AFTER DELETE ON messages BEGIN
  INSERT INTO messages_fts_trigram(messages_fts_trigram, rowid, content, tool_name) SELECT 'delete', old.id, old.content, old.tool_name WHERE old.role <> 'tool' AND old.session_id IN
  (SELECT id FROM sessions WHERE source NOT IN ('cron', 'subagent') AND json_extract(CASE WHEN json_valid(model_config) THEN model_config ELSE json_object() END, '$._delegate_from') IS NULL); END;
CREATE TRIGGER messages_fts_trigram_update AFTER UPDATE OF content, tool_name, role ON messages BEGIN
  INSERT INTO messages_fts_trigram(messages_fts_trigram, rowid, content, tool_name) SELECT 'delete', old.id, old.content, old.tool_name WHERE old.role <> 'tool' AND old.session_id IN
  (SELECT id FROM sessions WHERE source NOT IN ('cron', 'subagent') AND json_extract(CASE WHEN json_valid(model_config) THEN model_config ELSE json_object() END, '$._delegate_from') IS NULL);
  INSERT INTO messages_fts_trigram(rowid, content, tool_name) SELECT new.id, new.content, new.tool_name WHERE new.role <> 'tool' AND new.session_id IN
  (SELECT id FROM sessions WHERE source NOT IN ('cron', 'subagent') AND json_extract(CASE WHEN json_valid(model_config) THEN model_config ELSE json_object() END, '$._delegate_from') IS NULL); END;

INSERT INTO schema_version VALUES (30);
INSERT INTO state_meta VALUES ('fts_storage_version', '3'), ('db_file_generation', '0a0b0c0d0e0f00112233445566778899'), ('loop:x', '{}');
PRAGMA application_id = 168496141;
INSERT INTO system_prompts VALUES ('h1', 'You are Hermes.');
INSERT INTO sessions (id, source, created_source, user_id, session_key, chat_id, chat_type, model, model_config, system_prompt_hash, started_at,
  message_count, tool_call_count, input_tokens, output_tokens, title, title_source, last_activity_at, profile_name, auto_archived)
  VALUES ('20260911_080000_0a1b2c3d', 'telegram', 'telegram', '42', 'agent:main:telegram:dm:42', '42', 'dm', 'm', '{"provider": "p"}', 'h1', 1789113600.25,
  4, 1, 120, 30, 'Parcel', 'llm', 1789113660.5, 'default', 1);
INSERT INTO messages (session_id, role, content, timestamp, message_uid, future) VALUES ('20260911_080000_0a1b2c3d', 'user', 'where is the parcel?', 1789113601.5, 'u-1', 'f');
INSERT INTO messages (session_id, role, content, tool_calls, finish_reason, timestamp) VALUES ('20260911_080000_0a1b2c3d', 'assistant', NULL,
  '[{"id": "call_1", "type": "function", "function": {"name": "terminal", "arguments": "{\"command\": \"ls\"}"}}]', 'tool_calls', 1789113602);
INSERT INTO messages (session_id, role, content, tool_call_id, tool_name, timestamp) VALUES ('20260911_080000_0a1b2c3d', 'tool', '{"found": true}', 'call_1', 'terminal', 1789113603);
INSERT INTO messages (session_id, role, content, finish_reason, timestamp) VALUES ('20260911_080000_0a1b2c3d', 'assistant', 'It is in the hall.', 'stop', 1789113604);
INSERT INTO session_model_usage (session_id, model, input_tokens, output_tokens, api_call_count) VALUES ('20260911_080000_0a1b2c3d', 'm', 120, 30, 2);
INSERT INTO session_daily_usage VALUES ('20260911_080000_0a1b2c3d', '2026-09-11', 120);
INSERT INTO gateway_routing VALUES ('', 'agent:main:telegram:dm:42', '{"session_id": "20260911_080000_0a1b2c3d"}', 1789113604);
INSERT INTO conversation_generations VALUES ('telegram', 'agent:main:telegram:dm:42', 3);
INSERT INTO plugin_notes VALUES (1, 'kept');
