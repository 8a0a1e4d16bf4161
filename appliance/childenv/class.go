// SPDX-License-Identifier: MIT

package childenv

import "strings"

// Rules that have no group in policy.json.
const (
	ruleForce    = "FORCE"
	ruleDeclared = "M2"
	ruleAdapter  = "M9"
	ruleBackend  = "T1-backend"
)

// bits say what is known of a name.
type bits uint32

// What the policy knows.
const (
	isTier1Name bits = 1 << iota
	isTier2Name
	isDynamicName
	isBuzzName
	isForced
	isGlobalName
	isProxyName
	isTerminalName // residue by prefix
	isResidueName
	isTightenedName
	isRoutingName
	isPythonName
	isServiceName
	isIdentityName
	isMarkerName
	isSessionName
	isWorkerSession
	isShellName
	isLineageName
)

// What one build adds.
const (
	isBackendKey bits = 1 << (iota + 19)
	isPassed
	isApplied
	isForwarded
	isSelected
	inDotenv // of the launch profile
	inEver
	inSupplied
	inBridged

	isTier    = isTier1Name | isTier2Name
	isResidue = inDotenv | inEver | inSupplied | inBridged
)

func (b bits) tier() int {
	switch {
	case b&isTier1Name != 0:
		return 1
	case b&isTier2Name != 0:
		return 2
	}
	return 0
}

// known is what is known of a name, and the rule of its tier.
type known struct {
	bits bits
	rule string
}

// shape is a rule for all names with a prefix and, if there are any, one of the suffixes.
type shape struct {
	prefix   string
	suffixes []string
	known    known
}

func (s *shape) match(f string) bool {
	if !strings.HasPrefix(f, s.prefix) {
		return false
	}
	for _, x := range s.suffixes {
		if strings.HasSuffix(f, x) {
			return true
		}
	}
	return len(s.suffixes) == 0
}

// allowlist is a compiled [Allowlist].
type allowlist struct {
	names  map[string]bool
	heads  [256]bool // first bytes of the prefixes
	source Allowlist
}

// allows reports whether a folded name is on the list.
func (a *allowlist) allows(f string) bool {
	if !a.names[f] {
		if f == "" || !a.heads[f[0]] || !hasPrefix(f, a.source.Prefixes) || hasPrefix(f, a.source.Except) {
			return false
		}
	}
	for _, part := range a.source.DenyParts {
		if strings.Contains(f, part) {
			return false
		}
	}
	return true
}

func hasPrefix(f string, prefixes []string) bool {
	for _, x := range prefixes {
		if strings.HasPrefix(f, x) {
			return true
		}
	}
	return false
}

// compile makes the look-up tables.
func (p *Policy) compile() {
	f := &p.file
	p.names, p.gates, p.allow = map[string]known{}, map[string]bool{}, map[string]*allowlist{}
	for _, g := range f.Tier1 {
		p.mark(g.Names, isTier1Name, g.Rule)
	}
	for _, g := range f.Tier2 {
		p.mark(g.Names, isTier2Name, g.Rule)
	}
	for _, l := range []struct {
		names []string
		bits  bits
	}{
		{f.Global.Names, isGlobalName},
		{f.Global.Proxies, isProxyName},
		{f.Residue.Names, isResidueName},
		{f.Residue.Tightened, isTightenedName},
		{f.Routing, isRoutingName},
		{f.Python, isPythonName},
		{f.Service.Names, isServiceName},
		{f.Kanban.Identity, isIdentityName},
		{[]string{f.Kanban.Marker}, isMarkerName},
		{f.Session.Names, isSessionName},
		{f.Session.Worker, isWorkerSession},
		{f.Shell.Names, isShellName},
		{f.Lineage.Names, isLineageName},
	} {
		p.mark(l.names, l.bits, "")
	}
	for _, s := range f.Dynamic {
		p.shape(s.Prefix, s.Suffixes, known{isTier1Name | isDynamicName, s.Rule})
	}
	p.shape(f.Buzz.Prefix, nil, known{isTier1Name | isBuzzName, f.Buzz.Rule})
	p.shape(f.ForcePrefix, nil, known{isForced, ""})
	for _, l := range []struct {
		prefixes []string
		bits     bits
	}{
		{f.Global.Prefixes, isGlobalName},
		{f.Residue.Prefixes, isTerminalName},
		{f.Session.Prefixes, isSessionName},
		{f.Shell.Prefixes, isShellName},
	} {
		for _, x := range l.prefixes {
			p.shape(x, nil, known{l.bits, ""})
		}
	}
	for _, x := range f.Gates.Prefixes {
		p.gates[x], p.heads[x[0]] = true, true
	}
	for name, a := range f.Allowlists {
		p.allow[name] = compileList(a)
	}
}

func compileList(a Allowlist) *allowlist {
	c := &allowlist{names: map[string]bool{}, source: a}
	for _, n := range a.Names {
		c.names[n] = true
	}
	for _, x := range a.Prefixes {
		c.heads[x[0]] = true
	}
	return c
}

func (p *Policy) mark(names []string, b bits, rule string) {
	for _, n := range names {
		k := p.names[n]
		k.bits |= b
		if rule != "" {
			k.rule = rule
		}
		p.names[n] = k
	}
}

func (p *Policy) shape(prefix string, suffixes []string, k known) {
	p.shapes[prefix[0]] = append(p.shapes[prefix[0]], shape{prefix, suffixes, k})
}

// classify returns what the policy knows of a folded name.
func (p *Policy) classify(f string) known {
	k := p.names[f]
	if f == "" {
		return k
	}
	for i := range p.shapes[f[0]] {
		if s := &p.shapes[f[0]][i]; s.match(f) {
			k.bits |= s.known.bits
			if k.rule == "" {
				k.rule = s.known.rule
			}
		}
	}
	return k
}

// gate reports whether a folded name grants or limits who may talk to a bot: a platform's
// prefix and one of the markers, both (1.6). more are prefixes known at run time.
func (p *Policy) gate(f string, more map[string]bool) bool {
	if f == "" || f[0] == '_' || !p.heads[f[0]] && more == nil || strings.HasPrefix(f, "HERMES_") {
		return false
	}
	for i := 1; i < len(f); i++ {
		if f[i] == '_' && (p.gates[f[:i]] || more[f[:i]]) {
			for _, m := range p.file.Gates.Markers {
				if strings.Contains(f, m) {
					return true
				}
			}
			return false
		}
	}
	return false
}

// fold is a name as it is compared: in upper case. Names are never rewritten.
func fold(name string) string {
	for i := range len(name) {
		if c := name[i]; c >= 'a' && c <= 'z' || c >= 0x80 {
			return strings.ToUpper(name)
		}
	}
	return name
}
