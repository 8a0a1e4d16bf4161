// SPDX-License-Identifier: MIT

package childenv

// What every child has (§2.6), the board's fence (§5), and forced extras.
func childRules() []scene {
	worker := []string{"HERMES_KANBAN_TASK=t1", "HERMES_KANBAN_RUN_ID=7", "HERMES_KANBAN_CLAIM_LOCK=l", "HERMES_KANBAN_GOAL_MODE=1", "HERMES_KANBAN_GOAL_MAX_TURNS=9", "HERMES_KANBAN_DB=/board/kanban.db", "HERMES_KANBAN_WORKSPACE=/w"}
	const identity = "HERMES_KANBAN_TASK HERMES_KANBAN_RUN_ID HERMES_KANBAN_CLAIM_LOCK HERMES_KANBAN_GOAL_MODE HERMES_KANBAN_GOAL_MAX_TURNS"
	return []scene{
		{name: "K1", kinds: "terminal background cron-script cron-worker delivery kanban-worker cli served host openviking tool desktop", edit: func(s *Snapshot) {
			inherit(s, worker...)
			s.Fence = "/board"
			s.Extra = []Var{{Name: "HERMES_KANBAN_BOARD", Value: "b"}}
		}, want: env("HERMES_KANBAN_DB", "/board/kanban.db", "HERMES_KANBAN_WORKSPACE", "/w", "HERMES_KANBAN_BOARD", "b"), absent: identity},
		{name: "K1 lists", kinds: "mcp execute-code terminal-remote", edit: func(s *Snapshot) {
			inherit(s, worker...)
			s.Fence = "/board"
			s.Extra = []Var{{Name: "HERMES_KANBAN_TASK", Value: "t1"}}
			s.Target.Passthrough, s.Forward = []string{"HERMES_KANBAN_RUN_ID"}, []string{"HERMES_KANBAN_RUN_ID"}
		}, want: env("HERMES_DELEGATED_CHILD_CONTEXT", "/board"), absent: identity + " HERMES_KANBAN_WORKSPACE"},
		{
			name: "K1 grant", kinds: "kanban-worker", edit: func(s *Snapshot) {
				inherit(s, "HERMES_KANBAN_TASK=old", "HERMES_KANBAN_RUN_ID=old", "HERMES_SESSION_ID=s", "HERMES_TUI=1", "HERMES_DELEGATED_CHILD_CONTEXT=/board", "HERMES_PROFILE=a")
				s.Fence, s.SessionEngaged = "/board", true
				s.Session = []Var{{Name: "HERMES_SESSION_KEY", Value: "k"}}
				s.Extra = []Var{{Name: "HERMES_KANBAN_TASK", Value: "new"}, {Name: "HERMES_SESSION_SOURCE", Value: "kanban"}, {Name: "TERMINAL_CWD", Value: "/w"}, {Name: "HERMES_PROFILE", Value: "b"}}
			}, want: env("HERMES_KANBAN_TASK", "new", "HERMES_SESSION_SOURCE", "kanban", "TERMINAL_CWD", "/w", "HERMES_PROFILE", "b"),
			absent: "HERMES_KANBAN_RUN_ID HERMES_SESSION_ID HERMES_SESSION_KEY HERMES_TUI HERMES_DELEGATED_CHILD_CONTEXT",
		},
		{
			name: "K7", kinds: "mcp-task", edit: func(s *Snapshot) {
				inherit(s, "HERMES_KANBAN_TASK=old", "HERMES_KANBAN_RUN_ID=old", "HERMES_DELEGATED_CHILD_CONTEXT=/board", "HERMES_KANBAN_DB=/board/kanban.db", "HERMES_SESSION_ID=s")
				s.Fence, s.SessionEngaged = "/board", true
				s.Session = []Var{{Name: "HERMES_SESSION_KEY", Value: "k"}}
				s.Extra = []Var{{Name: "HERMES_KANBAN_TASK", Value: "new"}, {Name: "HERMES_KANBAN_CLAIM_LOCK", Value: "l"}, {Name: "GH_TOKEN", Value: "entry"}}
			}, want: env("HERMES_KANBAN_TASK", "new", "HERMES_KANBAN_CLAIM_LOCK", "l", "HERMES_KANBAN_DB", "/board/kanban.db", "GH_TOKEN", "entry"),
			absent: "HERMES_KANBAN_RUN_ID HERMES_SESSION_ID HERMES_SESSION_KEY HERMES_DELEGATED_CHILD_CONTEXT",
		},
		{name: "LINEAGE", kinds: "terminal background execute-code mcp mcp-task cron-script cron-worker delivery kanban-worker cli served openviking helper tool desktop", edit: func(s *Snapshot) {
			inherit(s, "HERMES_APPLIANCE_SPAWN=outer")
			s.Launch.Dotenv = []string{"HERMES_APPLIANCE_SPAWN"}
			s.Target.Vars = []Var{own("HERMES_APPLIANCE_SPAWN", "forged")}
			s.Extra = []Var{{Name: "HERMES_APPLIANCE_SPAWN", Value: "forged"}}
		}, want: env("HERMES_APPLIANCE_SPAWN", "outer")},
		{name: "LINEAGE of the launch profile", kinds: "terminal mcp helper", target: "A", edit: func(s *Snapshot) {
			inherit(s, "HERMES_APPLIANCE_SPAWN=outer")
			s.Target.Vars = []Var{own("HERMES_APPLIANCE_SPAWN", "forged")}
		}, want: env("HERMES_APPLIANCE_SPAWN", "outer")},
		{name: "LINEAGE never forged", kinds: "*", edit: func(s *Snapshot) {
			s.Target.Vars = []Var{own("HERMES_APPLIANCE_SPAWN", "forged")}
			s.Extra = []Var{{Name: "HERMES_APPLIANCE_SPAWN", Value: "forged"}}
		}, absent: "HERMES_APPLIANCE_SPAWN"},
		{name: "GAP-lineage", kinds: "host terminal-remote", edit: func(s *Snapshot) {
			inherit(s, "HERMES_APPLIANCE_SPAWN=outer")
			s.Forward = []string{"HERMES_APPLIANCE_SPAWN"}
		}, absent: "HERMES_APPLIANCE_SPAWN"},
		{name: "K2", kinds: "*", target: "A", edit: func(s *Snapshot) { s.Extra = nil }, absent: oracleMarker},
		{name: "K2 set", kinds: "terminal mcp execute-code terminal-remote tool cli", edit: func(s *Snapshot) {
			inherit(s, oracleMarker+"=1")
			s.Fence = "/board"
		}, want: env(oracleMarker, "/board")},
		{name: "K2 kept", kinds: "terminal mcp execute-code terminal-remote tool cli", edit: func(s *Snapshot) {
			inherit(s, oracleMarker+"=/parent")
			s.Fence = "/scratch"
			s.Launch.Dotenv = []string{oracleMarker}
		}, want: env(oracleMarker, "/parent")},
		{name: "K2 no own fence", kinds: "terminal mcp execute-code tool", edit: func(s *Snapshot) {
			inherit(s, oracleMarker+"=1")
		}, want: env(oracleMarker, "1")},
		{name: "K2 forged", kinds: "terminal mcp execute-code tool", edit: func(s *Snapshot) {
			s.Fence = "/board"
			s.Target.Vars = []Var{own(oracleMarker, "/elsewhere")}
			apply(s, oracleMarker, "/elsewhere")
			s.Extra = []Var{{Name: oracleMarker, Value: "/elsewhere"}}
		}, want: env(oracleMarker, "/board")},
	}
}

func forceRules() []scene {
	return []scene{
		{
			name: "FORCE", kinds: "terminal execute-code tool cli", edit: func(s *Snapshot) {
				inherit(s, "_HERMES_FORCE_FOO=x")
				s.Target.Vars = []Var{own("_HERMES_FORCE_BAR", "x"), own("TWICE", "mine")}
				s.Extra = []Var{
					{Name: "_HERMES_FORCE_OPENAI_API_KEY", Value: "forced"},
					{Name: "_hermes_force_GH_TOKEN", Value: "forced"},
					{Name: "_HERMES_FORCE_AUXILIARY_X_API_KEY", Value: "no"},
					{Name: "_HERMES_FORCE_", Value: "no"},
					{Name: "_HERMES_FORCE__HERMES_FORCE_TWICE", Value: "no"},
					{Name: "ANTHROPIC_TOKEN", Value: "no"},
					{Name: "EMAIL_PASSWORD", Value: "no"},
				}
			}, want: env("OPENAI_API_KEY", "forced", "GH_TOKEN", "forced"),
			absent: "_HERMES_FORCE_FOO FOO _HERMES_FORCE_BAR BAR AUXILIARY_X_API_KEY _HERMES_FORCE__HERMES_FORCE_TWICE _HERMES_FORCE_TWICE EMAIL_PASSWORD",
		},
		{name: "extras are no way around", kinds: "terminal background terminal-remote execute-code cron-script cron-worker delivery kanban-worker served tool desktop", edit: func(s *Snapshot) {
			s.Extra = []Var{{Name: "ANTHROPIC_TOKEN", Value: "no"}, {Name: "AUXILIARY_X_API_KEY", Value: "no"}, {Name: "GH_TOKEN", Value: "no"}, {Name: "FINE", Value: "yes"}}
		}, want: env("FINE", "yes"), absent: "ANTHROPIC_TOKEN AUXILIARY_X_API_KEY GH_TOKEN"},
		{name: "extras of a helper", kinds: "helper", edit: func(s *Snapshot) {
			inherit(s, "OP_SERVICE_ACCOUNT_TOKEN=launch")
			s.Extra = []Var{{Name: "OP_SERVICE_ACCOUNT_TOKEN", Value: "mine"}, {Name: "AUXILIARY_X_API_KEY", Value: "no"}}
		}, want: env("OP_SERVICE_ACCOUNT_TOKEN", "mine"), absent: "AUXILIARY_X_API_KEY"},
		{name: "extras of a helper's copy", kinds: "helper", target: "A", edit: func(s *Snapshot) {
			inherit(s, "OP_SERVICE_ACCOUNT_TOKEN=launch", "GH_TOKEN=launch", "NOTIFY_SOCKET=/n")
			s.Extra = []Var{{Name: "OP_SERVICE_ACCOUNT_TOKEN", Value: "mine"}}
		}, want: env("OP_SERVICE_ACCOUNT_TOKEN", "mine", "GH_TOKEN", "launch", "NOTIFY_SOCKET", "/n"), absent: "PATH"},
		{name: "grants are the worker's", kinds: "terminal background terminal-remote execute-code mcp cron-script cron-worker delivery cli served host openviking helper tool desktop", edit: func(s *Snapshot) {
			inherit(s, oracleMarker+"=/board")
			s.Extra = []Var{{Name: "HERMES_KANBAN_TASK", Value: "t"}}
		}, want: env(oracleMarker, "/board"), absent: "HERMES_KANBAN_TASK"},
		{name: "extras of a cli: tier 1", kinds: "cli openviking", edit: func(s *Snapshot) {
			s.Extra = []Var{{Name: "GH_TOKEN", Value: "no"}}
		}, absent: "GH_TOKEN"},
		{name: "extras of a cli", kinds: "cli openviking host", edit: func(s *Snapshot) {
			s.Extra = []Var{{Name: "ANTHROPIC_TOKEN", Value: "yes"}, {Name: "OPENVIKING_ENDPOINT", Value: "http://l"}}
		}, want: env("ANTHROPIC_TOKEN", "yes", "OPENVIKING_ENDPOINT", "http://l")},
	}
}

func homeRules() []scene {
	return []scene{
		{
			name: "HOME", kinds: "terminal execute-code mcp tool served", edit: func(s *Snapshot) {
				inherit(s, "HOME=/home/launch", "PATH=/p", "PYTHONPATH=/srv/hermes-code:/mine:/srv/hermes-code/lib:/srv/hermes-codex", "PYTHONHOME=/h", "VIRTUAL_ENV=/v", "CONDA_PREFIX=/c")
				s.Target.UserHome, s.BinDir, s.OwnPython = "/home/b", "/opt/hermes/bin", []string{"/srv/hermes-code/", ""}
				s.Target.Vars = []Var{own("HERMES_HOME", "/elsewhere")}
				s.Extra = []Var{{Name: "HERMES_HOME", Value: "/elsewhere"}}
			}, want: env("HOME", "/home/b", "HERMES_HOME", homeKey("B"), "PATH", "/p:/opt/hermes/bin:/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin:/home/b/.local/bin"),
			absent: "PYTHONHOME VIRTUAL_ENV CONDA_PREFIX",
		},
		{name: "PYTHONPATH", kinds: "terminal execute-code tool", edit: func(s *Snapshot) {
			inherit(s, "PYTHONPATH=/srv/hermes-code:/mine:/srv/hermes-code/lib:/srv/hermes-codex:")
			s.OwnPython = []string{"/srv/hermes-code/", ""}
		}, want: env("PYTHONPATH", "/mine:/srv/hermes-codex:")},
		{name: "PATH", kinds: "terminal tool", edit: func(s *Snapshot) {
			inherit(s, `PATH="/quoted":/bin::/sbin`, "HOME=relative")
			s.BinDir = "/bin"
		}, want: env("PATH", `"/quoted":/bin::/sbin:/usr/local/bin:/usr/bin:/usr/local/sbin:/usr/sbin`)},
		{name: "session", kinds: "terminal background execute-code cron-script cron-worker delivery served helper tool desktop", edit: func(s *Snapshot) {
			inherit(s, "HERMES_SESSION_ID=stale", "HERMES_SESSION_KEY=stale", "HERMES_CRON_SESSION=1", "HERMES_TUI=1")
			s.SessionEngaged = true
			s.Session = []Var{{Name: "HERMES_SESSION_ID", Value: "mine"}, {Name: "OPENAI_API_KEY", Value: "no"}, {Name: "FOO", Value: "no"}}
			s.Target.Vars = []Var{own("HERMES_SESSION_USER_ID", "stale")}
		}, want: env("HERMES_SESSION_ID", "mine"), absent: "HERMES_SESSION_KEY HERMES_CRON_SESSION HERMES_SESSION_USER_ID OPENAI_API_KEY FOO"},
		{name: "session of others", kinds: "cli host openviking", edit: func(s *Snapshot) {
			inherit(s, "HERMES_SESSION_KEY=stale")
			s.SessionEngaged, s.Session = true, []Var{{Name: "HERMES_SESSION_ID", Value: "mine"}}
		}, want: env("HERMES_SESSION_ID", "mine"), absent: "HERMES_SESSION_KEY"},
		{name: "session unset", kinds: "terminal tool cli", target: "A", edit: func(s *Snapshot) {
			inherit(s, "HERMES_SESSION_ID=mine", "HERMES_TUI=1")
			s.Session = []Var{{Name: "HERMES_SESSION_KEY", Value: "no"}}
		}, want: env("HERMES_SESSION_ID", "mine", "HERMES_TUI", "1"), absent: "HERMES_SESSION_KEY"},
		{name: "GAP-session", kinds: "own", edit: func(s *Snapshot) {
			inherit(s, "HERMES_SESSION_CHAT_ID=launch")
		}, absent: "HERMES_SESSION_CHAT_ID"},
		{name: "no session", kinds: "mcp mcp-task terminal-remote", edit: func(s *Snapshot) {
			s.SessionEngaged = true
			s.Session = []Var{{Name: "HERMES_SESSION_ID", Value: "s"}}
		}, absent: "HERMES_SESSION_ID"},
	}
}

func servedRules() []scene {
	return []scene{
		{name: "served", kinds: "served", edit: func(s *Snapshot) {
			inherit(s, "OPENAI_API_KEY=launch", "XAI_API_KEY=launch")
			s.Target.Vars = []Var{own("OPENAI_API_KEY", "mine"), own("XAI_API_KEY", "mine"), own("TELEGRAM_BOT_TOKEN", "mine"), own("PLAIN", "mine")}
			s.Select = []string{"openai_api_key", "TELEGRAM_BOT_TOKEN"}
		}, want: env("OPENAI_API_KEY", "mine", "PLAIN", "mine"), absent: "XAI_API_KEY TELEGRAM_BOT_TOKEN"},
		{name: "served unrouted", kinds: "served", target: "A", edit: func(s *Snapshot) {
			inherit(s, "OPENAI_API_KEY=export", "XAI_API_KEY=export", "GH_TOKEN=export") // S13, report 10
			s.Select = []string{"OPENAI_API_KEY", "GH_TOKEN"}
		}, want: env("OPENAI_API_KEY", "export"), absent: "XAI_API_KEY GH_TOKEN"},
		{name: "R10", kinds: "host", edit: func(s *Snapshot) { // X restarts the default root
			inherit(s, "TELEGRAM_BOT_TOKEN=x", "OPENAI_API_KEY=x", "X_ONLY=x")
			s.Launch.Dotenv = []string{"X_ONLY"}
			s.Target.Vars = []Var{own("TELEGRAM_BOT_TOKEN", "root"), own("GATEWAY_ALLOWED_USERS", "root")}
		}, want: env("TELEGRAM_BOT_TOKEN", "root", "GATEWAY_ALLOWED_USERS", "root"), absent: "OPENAI_API_KEY X_ONLY"},
		{name: "cli default", kinds: "cli", edit: func(*Snapshot) {}, want: env("PYTHONUTF8", "1")},
		{name: "cli default set", kinds: "cli", edit: func(s *Snapshot) { inherit(s, "PYTHONUTF8=0") }, want: env("PYTHONUTF8", "0")},
		{name: "1.3 routing keys", kinds: "terminal cli tool served", target: "A", edit: func(s *Snapshot) {
			inherit(s, "HERMES_ACP_AUTO_APPROVE=1", "COPILOT_CLI_PATH=/x")
			s.Target.Vars = []Var{own("COPILOT_CLI_PATH", "/mine")}
		}, want: env("COPILOT_CLI_PATH", "/mine"), absent: "HERMES_ACP_AUTO_APPROVE"},
		{name: "1.3 routing keys of a source", kinds: "terminal", target: "A", edit: func(s *Snapshot) {
			inherit(s, "COPILOT_CLI_PATH=/x")
			s.Target.Vars = []Var{{Name: "COPILOT_CLI_PATH", Value: "/op", Origin: OpEnv}}
		}, want: env("COPILOT_CLI_PATH", "/op")},
		{name: "1.3 an endpoint, too", kinds: "terminal tool", edit: func(s *Snapshot) {
			s.Target.Vars = []Var{own("COPILOT_ACP_BASE_URL", "http://mine")}
		}, absent: "COPILOT_ACP_BASE_URL"},
	}
}

func limitRules() []scene {
	return []scene{
		{name: "tightened", kinds: "terminal", edit: func(s *Snapshot) {
			inherit(s, "TERMINAL_LOCAL_MEMORY_MAX_MB=512")
		}, want: env("TERMINAL_LOCAL_MEMORY_MAX_MB", "512")},
		{name: "tightened more", kinds: "terminal", edit: func(s *Snapshot) {
			inherit(s, "TERMINAL_LOCAL_MEMORY_MAX_MB=512")
			s.Target.Vars = []Var{own("TERMINAL_LOCAL_MEMORY_MAX_MB", "256")}
			s.Target.Bridge = []Var{{Name: "TERMINAL_LOCAL_MEMORY_MAX_MB", Value: "0"}}
		}, want: env("TERMINAL_LOCAL_MEMORY_MAX_MB", "256")},
		{name: "tightened less", kinds: "terminal", edit: func(s *Snapshot) {
			inherit(s, "TERMINAL_LOCAL_MEMORY_MAX_MB=512")
			s.Target.Vars = []Var{own("TERMINAL_LOCAL_MEMORY_MAX_MB", "1024")}
		}, want: env("TERMINAL_LOCAL_MEMORY_MAX_MB", "512")},
		{name: "tightened own", kinds: "terminal", target: "A", edit: func(s *Snapshot) {
			inherit(s, "TERMINAL_LOCAL_MEMORY_MAX_MB=512")
			s.Target.Vars = []Var{own("TERMINAL_LOCAL_MEMORY_MAX_MB", "1024")}
		}, want: env("TERMINAL_LOCAL_MEMORY_MAX_MB", "1024")},
		{name: "BUZZ", kinds: "terminal background", edit: func(s *Snapshot) {
			inherit(s, "BUZZ_RELAY_URL=launch")
			s.Target.Vars = []Var{own("BUZZ_PRIVATE_KEY", "mine")}
			s.SessionPlatform = "buzz"
		}, want: env("BUZZ_PRIVATE_KEY", "mine"), absent: "BUZZ_RELAY_URL"},
		{name: "BUZZ managed", kinds: "terminal", target: "A", edit: func(s *Snapshot) {
			inherit(s, "BUZZ_PRIVATE_KEY=mine", "BUZZ_MANAGED_AGENT=1")
		}, want: env("BUZZ_PRIVATE_KEY", "mine")},
		{name: "BUZZ elsewhere", kinds: "terminal-remote execute-code mcp mcp-task cron-script cron-worker delivery kanban-worker cli served openviking helper tool desktop", edit: func(s *Snapshot) {
			s.Forward = []string{"BUZZ_PRIVATE_KEY"}
			s.Target.Vars = []Var{own("BUZZ_PRIVATE_KEY", "mine"), own("BUZZ_MANAGED_AGENT", "1")}
			s.SessionPlatform = "buzz"
		}, absent: "BUZZ_PRIVATE_KEY"},
		{name: "FUNCTION", kinds: "mcp mcp-task execute-code", edit: func(s *Snapshot) {
			inherit(s, "XDG_X=() { evil; }", "LC_ALL=()  {", "LANG=C")
			s.Target.Passthrough, s.Target.Vars = []string{"PASSED"}, []Var{own("PASSED", "() { evil; }")}
		}, want: env("LANG", "C"), absent: "XDG_X LC_ALL PASSED"},
	}
}
