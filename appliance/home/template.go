// SPDX-License-Identifier: MIT

package home

import _ "embed"

//go:embed template.yaml
var template []byte

// Template returns the config.yaml of a new home, a copy of its own for each caller. A test
// holds its version to the newest one, so that a new home has nothing to migrate.
func Template() []byte { return append([]byte(nil), template...) }
