// SPDX-License-Identifier: MIT

package childenv

import (
	"slices"
	"strconv"
	"strings"
)

// marked returns what the snapshot itself says of names.
func (b *builder) marked() map[string]bits {
	t, l := b.s.Target, &b.s.Launch
	m := map[string]bits{}
	mark := func(names []string, x bits) {
		for _, n := range names {
			m[fold(n)] |= x
		}
	}
	for _, n := range t.Declared {
		if !b.p.Core(n) { // M3
			m[fold(n)] |= isTier1Name
		}
	}
	for _, n := range t.AdapterEnv {
		if b.p.Secretive(n) {
			m[fold(n)] |= isTier2Name
		}
	}
	mark(t.BackendKeys, isBackendKey)
	mark(t.Applied, isApplied)
	mark(b.s.Forward, isForwarded)
	mark(b.s.Select, isSelected)
	mark(t.Passthrough, isPassed) // the tiers hold all the same
	if b.routed {
		mark(l.Dotenv, inDotenv)
		mark(l.Ever, inEver)
		mark(l.Supplied, inSupplied)
		mark(l.Bridged, inBridged)
	}
	return m
}

// bitsOf returns all that is known of a folded name.
func (b *builder) bitsOf(f string) bits {
	x := b.p.classify(f).bits | b.marks[f]
	if b.k.BackendKeys && x&isBackendKey != 0 {
		x |= isTier1Name
	}
	return x
}

// tierRule returns the rule of a name that has a tier.
func (b *builder) tierRule(e *entry) string {
	if r := b.p.classify(e.folded).rule; r != "" {
		return r
	}
	switch {
	case b.k.BackendKeys && e.bits&isBackendKey != 0:
		return ruleBackend
	case e.bits&isTier1Name == 0:
		return ruleAdapter
	}
	return ruleDeclared
}

// residueRule is the rule that covers a name of the launch profile.
func residueRule(x bits) string {
	switch {
	case x&inDotenv != 0:
		return "L1"
	case x&inEver != 0:
		return "L2"
	case x&inSupplied != 0:
		return "L3"
	}
	return "L8"
}

// prefixes are the gate prefixes of adapters that were registered at run time.
func (b *builder) prefixes() map[string]bool {
	if len(b.s.GatePrefixes) == 0 {
		return nil
	}
	m := make(map[string]bool, len(b.s.GatePrefixes))
	for _, x := range b.s.GatePrefixes {
		m[strings.TrimSuffix(strings.ReplaceAll(fold(x), "-", "_"), "_")] = true
	}
	return m
}

// foldKeys returns a map by folded name: the map itself if its names are folded already.
func foldKeys(m map[string][]string) map[string][]string {
	var out map[string][]string
	for n := range m {
		if fold(n) == n {
			continue
		}
		if out == nil {
			out = make(map[string][]string, len(m))
		}
	}
	if out == nil {
		return m
	}
	for n, values := range m {
		f := fold(n)
		out[f] = append(slices.Clip(out[f]), values...)
	}
	return out
}

// smaller reports whether a setting that may only be tightened is.
func smaller(value, than string) bool {
	v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	t, terr := strconv.ParseFloat(strings.TrimSpace(than), 64)
	return err == nil && v > 0 && (terr != nil || v < t)
}
