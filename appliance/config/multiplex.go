// SPDX-License-Identifier: MIT

package config

import "strings"

// MultiplexEnv is the variable that says whether one gateway serves every profile.
const MultiplexEnv = "GATEWAY_MULTIPLEX_PROFILES"

// MultiplexPath is the key that says so, MultiplexAlias its old place at the top of the file,
// which wins while it is there.
func MultiplexPath() []string { return []string{"gateway", "multiplex_profiles"} }

// MultiplexAlias is the old place.
func MultiplexAlias() []string { return []string{"multiplex_profiles"} }

// Multiplex reports whether one gateway serves every profile: by the variable if it has a plain
// word for yes or no, else by the config (isolation spec §2). A blank variable, or one with
// another word, says nothing.
func (c *Config) Multiplex(lookup Lookup) (bool, error) {
	if on, said := MultiplexWord(lookup); said {
		return on, nil
	}
	path := MultiplexPath()
	if c.Has(MultiplexAlias()...) {
		path = MultiplexAlias()
	}
	return c.With(nil).Bool(path...)
}

// MultiplexWord is what the variable says; said is false if it says nothing.
func MultiplexWord(lookup Lookup) (on, said bool) {
	if lookup == nil {
		return false, false
	}
	v, _ := lookup(MultiplexEnv)
	switch strings.ToLower(strings.TrimSpace(v)) {
	case "1", "true", "yes", "on":
		return true, true
	case "0", "false", "no", "off":
		return false, true
	}
	return false, false
}
