// SPDX-License-Identifier: MIT

package migrate

import (
	"strings"

	"github.com/hermes-appliance/hermes-appliance/migrate/yamlspan"
)

// nixOptions names the options of upstream's NixOS and home-manager modules that hold the
// keys a plan changes.
func nixOptions(p *Plan) string {
	var out []string
	seen := map[string]bool{}
	for _, c := range p.Changes {
		name := ""
		switch {
		case c.File == FileConfig:
			name = "services.hermes-agent.settings." + yamlspan.PathString(c.Path)
		case c.File == FileEnv:
			name = "services.hermes-agent.environment." + c.Path[0]
		default:
			name = "services.hermes-agent.documents." + yamlspan.PathString([]string{c.File})
		}
		if !seen[name] {
			seen[name] = true
			out = append(out, name)
		}
	}
	return strings.Join(out, ", ")
}
