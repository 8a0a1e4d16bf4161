// SPDX-License-Identifier: MIT

package childenv

// reports are the public bug reports of §7 that a child's environment has a part in, each
// under its number.
func reports() []scene {
	return []scene{
		{name: "#1", kinds: "own", edit: func(s *Snapshot) {
			inherit(s, "TERMINAL_SSH_KEY=/a/key", "TERMINAL_DOCKER_IMAGE=a", "AUXILIARY_VISION_API_KEY=a", "MY_VAULT_NAME=a")
			s.Launch.Supplied = []string{"MY_VAULT_NAME"}
		}, absent: "TERMINAL_SSH_KEY TERMINAL_DOCKER_IMAGE AUXILIARY_VISION_API_KEY MY_VAULT_NAME"},
		{name: "#2", kinds: "own", target: "A", edit: func(s *Snapshot) { // B's values are not A's
			s.Foreign = map[string][]string{"B_ONLY": {"b"}}
		}, absent: "B_ONLY"},
		{name: "#3", kinds: "*", edit: func(s *Snapshot) {
			inherit(s, "OPENAI_API_KEY=a", "ANY_NAME=a", "_HERMES_FORCE_OPENAI_API_KEY=a", "OP_SERVICE_ACCOUNT_TOKEN=a")
			s.Launch.Dotenv = []string{"OPENAI_API_KEY", "ANY_NAME", "OP_SERVICE_ACCOUNT_TOKEN"}
		}, absent: "OPENAI_API_KEY ANY_NAME _HERMES_FORCE_OPENAI_API_KEY OP_SERVICE_ACCOUNT_TOKEN"},
		{name: "#4", kinds: "own", edit: func(s *Snapshot) { // the host mirrors B's home into HERMES_HOME and pinned its own
			s.Inherited[0] = "HERMES_HOME=" + homeKey("B")
			inherit(s, "A_ONLY=a", "GATEWAY_ALLOW_ALL_USERS=true")
			s.Launch.Dotenv = []string{"A_ONLY"}
		}, absent: "A_ONLY GATEWAY_ALLOW_ALL_USERS"},
		{name: "#6", kinds: "mcp mcp-task", edit: func(s *Snapshot) {
			inherit(s, "GITHUB_TOKEN=a")
			s.Launch.Supplied = []string{"GITHUB_TOKEN"}
		}, absent: "GITHUB_TOKEN"},
		{name: "#7", kinds: "terminal-remote terminal", edit: func(s *Snapshot) {
			inherit(s, `TERMINAL_DOCKER_VOLUMES=["/a:/a"]`, "TERMINAL_CWD=/a")
		}, absent: "TERMINAL_DOCKER_VOLUMES TERMINAL_CWD"},
		{name: "#9", kinds: "own", edit: func(s *Snapshot) {
			inherit(s, "DISCORD_ALLOWED_CHANNELS=1", "TELEGRAM_ALLOWED_USERS=1", "GATEWAY_ALLOWED_USERS=1")
		}, absent: "DISCORD_ALLOWED_CHANNELS TELEGRAM_ALLOWED_USERS GATEWAY_ALLOWED_USERS"},
		{name: "#10", kinds: "cli", target: "A", edit: func(s *Snapshot) {
			inherit(s, "OPENAI_API_KEY=systemd")
		}, want: env("OPENAI_API_KEY", "systemd")},
		{name: "#11", kinds: "own", edit: func(s *Snapshot) { // no inheritance from the default profile
			inherit(s, "SHARED=a")
			s.Launch.Dotenv = []string{"SHARED"}
		}, absent: "SHARED"},
		{name: "#12", kinds: "*", edit: func(s *Snapshot) {
			inherit(s, "OP_SERVICE_ACCOUNT_TOKEN=a", "BWS_ACCESS_TOKEN=a", "TLON_SHIP=a")
			s.Foreign = map[string][]string{"TLON_SHIP": {"a"}}
		}, absent: "OP_SERVICE_ACCOUNT_TOKEN BWS_ACCESS_TOKEN TLON_SHIP"},
		{name: "#13", kinds: "mcp mcp-task", edit: func(s *Snapshot) { apply(s, "VAULT_ONLY", "mine") }, want: env("VAULT_ONLY", "mine")},
	}
}

func laterReports() []scene {
	return []scene{
		{name: "#14", kinds: "terminal cli tool", edit: func(s *Snapshot) {
			inherit(s, "HERMES_KANBAN_TASK=t", "HERMES_KANBAN_CLAIM_LOCK=l")
			s.Fence = "/board"
		}, want: env(oracleMarker, "/board"), absent: "HERMES_KANBAN_TASK HERMES_KANBAN_CLAIM_LOCK"},
		{name: "#15", kinds: "kanban-worker", edit: func(s *Snapshot) {
			s.Extra = []Var{{Name: "HERMES_KANBAN_TASK", Value: "t"}}
		}, want: env("HERMES_KANBAN_TASK", "t"), absent: oracleMarker},
		{name: "#16", kinds: "terminal terminal-remote execute-code tool", edit: func(s *Snapshot) {
			s.Target.Vars = []Var{own("OPENAI_API_KEY", "mine"), own("ANTHROPIC_TOKEN", "mine")}
			s.Target.Passthrough = []string{"OPENAI_API_KEY", "anthropic_token"}
			s.Forward = []string{"OPENAI_API_KEY"}
		}, absent: "OPENAI_API_KEY ANTHROPIC_TOKEN"},
		{name: "#17", kinds: "terminal terminal-remote execute-code tool", edit: func(s *Snapshot) {
			s.Target.Vars = []Var{own("SKILL_TOKEN", "mine")}
			s.Target.Passthrough = []string{"skill_token"}
		}, want: env("SKILL_TOKEN", "mine")},
		{name: "#18", kinds: "own", edit: func(s *Snapshot) {
			inherit(s, "DEMO_ALLOWED_SENDER=me", "DISCORD_COLOR=red")
		}, want: env("DEMO_ALLOWED_SENDER", "me", "DISCORD_COLOR", "red")},
		{name: "#19", kinds: "terminal background", edit: func(s *Snapshot) {
			inherit(s, "DISPLAY=:0", "XAUTHORITY=/seat")
			s.Desktop = []Var{{Name: "DISPLAY", Value: ":42"}, {Name: "XAUTHORITY", Value: "/screen"}, {Name: "GH_TOKEN", Value: "no"}}
		}, want: env("DISPLAY", ":42", "XAUTHORITY", "/screen"), absent: "GH_TOKEN"},
		{name: "#19 down", kinds: "terminal cli", edit: func(s *Snapshot) { inherit(s, "DISPLAY=:0") }, want: env("DISPLAY", ":0")},
		{name: "#19 others", kinds: "cron-script cron-worker delivery kanban-worker cli served host openviking helper tool desktop", edit: func(s *Snapshot) {
			inherit(s, "DISPLAY=:0")
			s.Desktop = []Var{{Name: "DISPLAY", Value: ":42"}}
		}, want: env("DISPLAY", ":0")},
		{name: "#19 lists", kinds: "terminal-remote execute-code mcp mcp-task", edit: func(s *Snapshot) {
			s.Desktop = []Var{{Name: "DISPLAY", Value: ":42"}}
		}, absent: "DISPLAY"},
		{name: "#20", kinds: "terminal cli tool", edit: func(s *Snapshot) { inherit(s, "CLAUDE_CODE_OAUTH_TOKEN=mine") }, want: env("CLAUDE_CODE_OAUTH_TOKEN", "mine")},
		{name: "#21", kinds: "own", edit: func(s *Snapshot) {
			inherit(s, "STALE=a", "SKIPPED=a", "POLICY=a-user")
			s.Launch.Ever, s.Launch.Supplied, s.Launch.Dotenv = []string{"STALE"}, []string{"SKIPPED"}, []string{"POLICY"}
			s.Target.Vars = []Var{own("POLICY", "b-user")}
			s.Managed = []Var{{Name: "POLICY", Value: "managed"}}
		}, want: env("POLICY", "managed"), absent: "STALE SKIPPED"},
		{name: "#22", kinds: "execute-code", edit: func(s *Snapshot) {
			inherit(s, "PYTHONPATH=/srv/hermes-code")
			s.OwnPython = []string{"/srv/hermes-code"}
		}, absent: "PYTHONPATH"},
		{name: "#23", kinds: "mcp mcp-task execute-code terminal-remote", edit: func(s *Snapshot) {
			s.Target.Vars = []Var{own("SKILL_SCOPED_TOKEN", "mine")} // declared by no consumer
		}, absent: "SKILL_SCOPED_TOKEN"},
		{name: "#24", kinds: "mcp mcp-task execute-code terminal-remote", edit: func(s *Snapshot) {
			inherit(s, "WHATEVER=x", "GATEWAY_SETTING=x")
		}, absent: "WHATEVER GATEWAY_SETTING"},
		{name: "#25", kinds: "own", edit: func(s *Snapshot) {
			inherit(s, "NOTIFY_SOCKET=/n", "INVOCATION_ID=1", "CREDENTIALS_DIRECTORY=/run/c", "SSH_AUTH_SOCK=/a")
		}, want: env("SSH_AUTH_SOCK", "/a"), absent: "NOTIFY_SOCKET INVOCATION_ID CREDENTIALS_DIRECTORY"},
		{name: "#26", kinds: "mcp", target: "A", edit: func(s *Snapshot) {
			inherit(s, "MASTER_KEY=x", "OPENAI_API_KEY=x", "HOME=/home/me")
			s.Extra = []Var{{Name: "MODE", Value: "read"}} // with and without an env of its own
		}, want: env("MODE", "read", "HOME", "/home/me"), absent: "MASTER_KEY OPENAI_API_KEY"},
	}
}
