// SPDX-License-Identifier: MIT

package session

import "strings"

// ToolPrefix is how many characters of a tool's result are searchable by the word index.
const ToolPrefix = 8192

// Keys of state_meta that upstream and this package share.
const (
	metaLayout   = "fts_storage_version"    // layout of the indexes: 3
	metaHigh     = "fts_rebuild_high_water" // while a rebuild runs: the highest row it covers
	metaDone     = "fts_rebuild_progress"   // while a rebuild runs: the highest row indexed so far
	metaStale    = "fts_stale"              // the indexes were detached and miss rows
	metaCJKStale = "fts_cjk_stale"          // the same of the optional CJK index
	metaFile     = "db_file_generation"     // names this file, however it is copied
	metaChecked  = "appliance_checked_at"   // ours: when the whole file was last found sound
)

// layout is the index layout that this package makes: external content over a fixed
// projection, tool rows cut, the trigram index without tool rows and without the sessions of
// machines.
const layout = "3"

// Names of the two indexes, and of upstream's third, whose tokenizer is a C library.
const (
	wordIndex    = "messages_fts"
	trigramIndex = "messages_fts_trigram"
	cjkIndex     = "messages_fts_cjk"
)

// ftsTriggers keep the two indexes in step.
func ftsTriggers() []string { return append(triggersOf(wordIndex), triggersOf(trigramIndex)...) }

func triggersOf(ix string) []string {
	return []string{ix + "_insert", ix + "_delete", ix + "_update"}
}

// expand fills a template of DDL. {ROW} is the row's alias: new, old, or a table.
func expand(text string, pairs ...string) string { return strings.NewReplacer(pairs...).Replace(text) }

// projected is what the word index sees of a row's content. It depends on the row alone, so
// that what was put into the index can always be named again to take it out.
func projected(row string) string {
	return expand("CASE WHEN {R}.role = 'tool' THEN substr(COALESCE({R}.content, ''), 1, {N}) ELSE {R}.content END", "{R}", row, "{N}", "8192")
}

// covered holds for rows that are in the indexes: all of them, unless a rebuild is under way.
func covered(row string) string {
	return expand(`({R}.id > COALESCE((SELECT CAST(value AS INTEGER) FROM state_meta WHERE key = '{H}'), -1)
		OR {R}.id <= COALESCE((SELECT CAST(value AS INTEGER) FROM state_meta WHERE key = '{P}'), -1))`,
		"{R}", row, "{H}", metaHigh, "{P}", metaDone)
}

// spoken holds for sessions whose rows the trigram index takes: no cron jobs, no subagents.
func spoken(session string) string {
	return expand(`({S}.source NOT IN ('cron', 'subagent') AND json_extract(
		CASE WHEN json_valid({S}.model_config) THEN {S}.model_config ELSE json_object() END, '$._delegate_from') IS NULL)`,
		"{S}", session)
}

// inTrigram holds for rows that the trigram index takes.
func inTrigram(row string) string {
	return expand("({R}.role <> 'tool' AND EXISTS (SELECT 1 FROM sessions AS z WHERE z.id = {R}.session_id AND {S}))", "{R}", row, "{S}", spoken("z"))
}

// changed holds in an update trigger when one of the columns has another value.
func changed(columns ...string) string {
	var parts []string
	for _, c := range columns {
		parts = append(parts, "old."+c+" IS NOT new."+c)
	}
	return "(" + strings.Join(parts, " OR ") + ")"
}

// ftsTables are the statements that make the views and the indexes.
func ftsTables() []string {
	return []string{
		"CREATE VIEW IF NOT EXISTS messages_fts_src AS SELECT id, " + projected("messages") + " AS content, tool_name, tool_calls FROM messages",
		"CREATE VIRTUAL TABLE IF NOT EXISTS messages_fts USING fts5(content, tool_name, tool_calls, content='messages_fts_src', content_rowid='id')",
		"CREATE VIEW IF NOT EXISTS messages_fts_trigram_src AS SELECT m.id, m.role, m.content, m.tool_name FROM messages AS m" +
			" JOIN sessions AS s ON s.id = m.session_id WHERE m.role <> 'tool' AND " + spoken("s"),
		"CREATE VIRTUAL TABLE IF NOT EXISTS messages_fts_trigram USING fts5(content, tool_name, content='messages_fts_trigram_src', content_rowid='id', tokenize='trigram')",
	}
}

// The statements that take a row out of an index and put one in. An external-content index
// must be told what it holds of the row.
func wordOut(row string) string {
	return expand("INSERT INTO messages_fts(messages_fts, rowid, content, tool_name, tool_calls) VALUES ('delete', {R}.id, {C}, {R}.tool_name, {R}.tool_calls);",
		"{R}", row, "{C}", projected(row))
}

func wordIn(row string) string {
	return expand("INSERT INTO messages_fts(rowid, content, tool_name, tool_calls) VALUES ({R}.id, {C}, {R}.tool_name, {R}.tool_calls);",
		"{R}", row, "{C}", projected(row))
}

func trigramOut(row string) string {
	return expand("INSERT INTO messages_fts_trigram(messages_fts_trigram, rowid, content, tool_name) SELECT 'delete', {R}.id, {R}.content, {R}.tool_name WHERE {W};",
		"{R}", row, "{W}", inTrigram(row))
}

func trigramIn(row string) string {
	return expand("INSERT INTO messages_fts_trigram(rowid, content, tool_name) SELECT {R}.id, {R}.content, {R}.tool_name WHERE {W};",
		"{R}", row, "{W}", inTrigram(row))
}

// ftsTriggerSQL are the statements that make the triggers, by name.
func ftsTriggerSQL() map[string]string {
	trigger := func(name, event, when, body string) string {
		return "CREATE TRIGGER IF NOT EXISTS " + name + " AFTER " + event + " ON messages WHEN " + when + " BEGIN " + body + " END"
	}
	return map[string]string{
		"messages_fts_insert": trigger("messages_fts_insert", "INSERT", covered("new"), wordIn("new")),
		"messages_fts_delete": trigger("messages_fts_delete", "DELETE", covered("old"), wordOut("old")),
		"messages_fts_update": trigger("messages_fts_update", "UPDATE OF content, tool_name, tool_calls, role",
			changed("content", "tool_name", "tool_calls", "role")+" AND "+covered("old"), wordOut("old")+" "+wordIn("new")),
		"messages_fts_trigram_insert": trigger("messages_fts_trigram_insert", "INSERT", inTrigram("new")+" AND "+covered("new"), trigramIn("new")),
		"messages_fts_trigram_delete": trigger("messages_fts_trigram_delete", "DELETE", inTrigram("old")+" AND "+covered("old"), trigramOut("old")),
		"messages_fts_trigram_update": trigger("messages_fts_trigram_update", "UPDATE OF content, tool_name, role",
			changed("content", "tool_name", "role")+" AND "+covered("old"), trigramOut("old")+" "+trigramIn("new")),
	}
}

// ftsFill are the statements that index the rows with an id above the first and up to the
// second parameter.
func ftsFill() []string {
	return []string{
		"INSERT INTO messages_fts(rowid, content, tool_name, tool_calls) SELECT m.id, " + projected("m") + ", m.tool_name, m.tool_calls FROM messages AS m WHERE m.id > ?1 AND m.id <= ?2",
		"INSERT INTO messages_fts_trigram(rowid, content, tool_name) SELECT m.id, m.content, m.tool_name FROM messages AS m WHERE m.id > ?1 AND m.id <= ?2 AND " + inTrigram("m"),
	}
}
