// SPDX-License-Identifier: MIT

package service

// reasons says why each directive stands in a unit. A test refuses a directive without one.
func reasons() map[string]string {
	return map[string]string{
		"Description":       "what people see in lists",
		"Wants":             "a network is there before bots log in; the account's own manager is there for scoped jobs (H#104893)",
		"After":             "the order of the above; a user's manager has no such targets, so its unit has none (dotfiles#206)",
		"RequiresMountsFor": "the home may be on a network file system (syncthing#10438)",
		"Also":              "enabling the service enables its listeners",
		"WantedBy":          "what starts it: the machine, or the user's own manager (kardianos PR#415)",

		"StartLimitIntervalSec": "the service has a storm breaker of its own that waits; systemd's would give up for good",

		"Type":           "started only when the adapters were tried",
		"NotifyAccess":   "no child of the service speaks for it",
		"WatchdogSec":    "a stopped loop is noticed; fed by a probe that really asks",
		"User":           "whose home it is",
		"Group":          "its primary group",
		"ExecStartPre":   "a newer program brings the config up to date first; where that fails, the service parks itself with the reason",
		"ExecStart":      "this very program, by an absolute path, without --replace (H#79048)",
		"ExecReload":     "finish the running turns, then exit 75 to be started again",
		"Environment":    "what the service cannot ask for; never a secret",
		"LoadCredential": "secrets as files that its children do not inherit",

		"WorkingDirectory": "always there, unlike a checkout (PR#34805)",

		"Restart":                  "a bot comes back by itself",
		"Sockets":                  "whoever starts it, its listeners are the manager's from the first moment on",
		"RestartSec":               "soon, for clients wait in the sockets meanwhile; the gateway itself slows down one that fails again and again",
		"RestartForceExitStatus":   "75 asks for it",
		"SuccessExitStatus":        "75 is no failure",
		"RestartPreventExitStatus": "78 says that starting again will not help",

		"KillMode":        "the service ends its own children in order; what is left is killed",
		"KillSignal":      "the polite stop",
		"TimeoutStartSec": "longer than the storm breaker's first waits; it asks for more",
		"TimeoutStopSec":  "ten seconds longer than the service's own watchdog, so that a hung stop is diagnosed there (H#94759)",
		"OOMPolicy":       "a child that eats the memory is killed, not the bot",
		"StandardOutput":  "one place for logs",
		"StandardError":   "one place for logs",

		"ListenStream":       "requests wait in the socket while the service restarts",
		"FileDescriptorName": "the service tells its listeners apart",
		"Service":            "whom the listener is for",
		"NoDelay":            "streams of small events",
		"Backlog":            "room for what comes in during a restart",

		"NoNewPrivileges":         "no program becomes root from here",
		"PrivateTmp":              "other services' files in /tmp are not its",
		"PrivateDevices":          "no disks, no memory",
		"ProtectClock":            "the clock is not its",
		"ProtectControlGroups":    "other services' limits are not its",
		"ProtectHostname":         "the name of the machine is not its",
		"ProtectKernelLogs":       "the kernel's log is not its",
		"ProtectKernelModules":    "no modules",
		"ProtectKernelTunables":   "no /proc/sys",
		"RestrictSUIDSGID":        "no file that lends rights",
		"RestrictRealtime":        "it cannot starve the machine",
		"LockPersonality":         "no old system call interfaces",
		"RemoveIPC":               "nothing is left behind",
		"UMask":                   "others read nothing it makes",
		"CapabilityBoundingSet":   "empty: not one of root's rights",
		"AmbientCapabilities":     "empty: none is handed on",
		"ProtectSystem":           "the system is read-only to it",
		"ReadWritePaths":          "its home, and what it was told",
		"ProtectHome":             "other people's homes are not its",
		"ProtectProc":             "other users' processes are invisible",
		"RestrictAddressFamilies": "the internet, local sockets and routing tables, nothing else",
		"RestrictNamespaces":      "no namespaces, or only those that a browser's sandbox needs",
		"SystemCallArchitectures": "no second set of system calls",
		"SystemCallFilter":        "what a service needs, without what only root needs",
		"SystemCallErrorNumber":   "a program that tries gets an error instead of being killed",
	}
}
