// SPDX-License-Identifier: MIT

package migrate

import (
	"strings"

	"github.com/hermes-appliance/hermes-appliance/migrate/yamlspan"
)

// nixOptions names the options of upstream's NixOS and home-manager modules that hold the
// keys a plan changes, or the whole file where it names no key.
func nixOptions(p *Plan) string {
	var out []string
	seen := map[string]bool{}
	for _, c := range p.Changes {
		name := "services.hermes-agent."
		switch c.File {
		case FileConfig:
			name += strings.TrimSuffix("settings."+yamlspan.PathString(c.Path), ".")
		case FileEnv:
			name += strings.TrimSuffix("environment."+strings.Join(c.Path, "."), ".")
		default:
			name += "documents." + yamlspan.PathString([]string{c.File})
		}
		if !seen[name] {
			seen[name] = true
			out = append(out, name)
		}
	}
	return strings.Join(out, ", ")
}
