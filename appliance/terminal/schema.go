// SPDX-License-Identifier: MIT

package terminal

import "encoding/json"

// Names of the tools.
const (
	ToolName        = "terminal"
	ProcessToolName = "process_manage"
)

// Schema describes the parameters of the tool terminal as a JSON schema, and
// About what it does, for a model.
func Schema() json.RawMessage {
	return json.RawMessage(`{
 "type": "object",
 "properties": {
  "command": {"type": "string", "description": "What bash runs. The working directory, exported variables, functions and aliases last from one command to the next."},
  "background": {"type": "boolean", "default": false, "description": "Start it and return at once with a session_id, for servers and long work. Do not use &, nohup or disown for that."},
  "timeout": {"type": "integer", "minimum": 1, "description": "Seconds until a command that is waited for is killed: 180 unless set, at most 600."},
  "workdir": {"type": "string", "description": "An absolute directory for this command alone."},
  "pty": {"type": "boolean", "default": false, "description": "Give it a terminal, for interactive programs."},
  "notify_on_complete": {"type": "boolean", "default": false, "description": "With background: tell when it has ended. Not together with watch_patterns."},
  "watch_patterns": {"type": "array", "items": {"type": "string"}, "description": "With background: tell when a line of its output holds one of these texts; at most one notice in 15 seconds. For rare signals only."},
  "persist_on_release": {"type": "boolean", "default": false, "description": "With background: let it run on when this session ends."}
 },
 "required": ["command"]
}`)
}

// About is the description of the tool terminal.
const About = "Run a shell command where this profile's terminal is and return its output and exit code."

// ProcessSchema describes the parameters of the tool process_manage.
func ProcessSchema() json.RawMessage {
	return json.RawMessage(`{
 "type": "object",
 "properties": {
  "action": {"type": "string", "enum": ["list", "poll", "log", "wait", "kill", "write", "submit", "close"]},
  "session_id": {"type": "string", "description": "From a background command; the beginning of it is enough if no other has it. Needed for all but list."},
  "data": {"type": "string", "description": "For write and submit: text for its input."},
  "timeout": {"type": "integer", "minimum": 1, "description": "For wait: seconds."},
  "offset": {"type": "integer", "minimum": 0, "description": "For log: the first line. The last lines unless set."},
  "limit": {"type": "integer", "minimum": 1, "description": "For log: how many lines; 200 unless set."}
 },
 "required": ["action"]
}`)
}

// ProcessAbout is the description of the tool process_manage.
const ProcessAbout = "Look after background commands of this session. poll: status and the end of the output. log: output by lines. wait: until it has ended, or the time is over. write sends text as it is, submit adds a line end, close ends its input. kill ends it and all it has started."
