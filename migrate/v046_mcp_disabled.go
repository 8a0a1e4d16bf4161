// SPDX-License-Identifier: MIT

package migrate

import "strings"

func v046() Step {
	return Step{
		To: 46, ID: "46-mcp-disabled",
		Title: "mcp_servers.<name>.disabled becomes enabled: false",
		Detail: "A profile editor switched servers off with disabled, which nothing reads, so they kept running. Where disabled is " +
			"true, 1, yes or on it is removed and enabled becomes false, even over an explicit enabled: true. Any other disabled is left: " +
			"it never did anything.",
		LegacyKey: true,
		AnyStamp:  true,
		run: func(w *work) error {
			const reason = "the server had been switched off with a key that nothing reads"
			for _, server := range w.get("mcp_servers").keys() {
				if !v046True(w.get("mcp_servers", server, "disabled")) {
					continue
				}
				enabled := w.get("mcp_servers", server, "enabled")
				if !enabled.ok || enabled.v != false {
					if err := w.put(reason, "false", "mcp_servers", server, "enabled"); err != nil {
						return err
					}
				}
				if err := w.remove(reason, "mcp_servers", server, "disabled"); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func v046True(v value) bool {
	switch x := v.v.(type) {
	case bool:
		return v.ok && x
	case int64:
		return v.ok && x != 0
	case string:
		switch strings.ToLower(strings.TrimSpace(x)) {
		case "true", "1", "yes", "on":
			return v.ok
		}
	}
	return false
}
