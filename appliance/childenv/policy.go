// SPDX-License-Identifier: MIT

package childenv

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

//go:embed policy.json
var policyJSON []byte

// policyVersion is the format of policy.json that this code reads.
const policyVersion = 1

// Group is a named list of names with the reason they are on it.
type Group struct {
	Rule   string   `json:"rule"`
	Reason string   `json:"reason"`
	Names  []string `json:"names"`
}

// Shape is a rule for names that are made, not listed.
type Shape struct {
	Rule     string   `json:"rule"`
	Reason   string   `json:"reason"`
	Prefix   string   `json:"prefix"`
	Suffixes []string `json:"suffixes,omitempty"` // none = every name with the prefix
}

// Allowlist is the base of a child that gets only what is named.
type Allowlist struct {
	Names     []string `json:"names"`
	Prefixes  []string `json:"prefixes"`
	DenyParts []string `json:"deny_parts,omitempty"` // wins over prefixes and names
	Except    []string `json:"except,omitempty"`     // prefixes that Prefixes do not mean
}

// What a kind does with a tier.
const (
	strip = "strip" // nothing of it
	keep  = "keep"  // all of it; a routed child never inherits any, so the target's own
	ask   = "ask"   // as keep, if the caller asks for it
)

// KindPolicy says how one kind of child is built.
type KindPolicy struct {
	About          string `json:"about"`
	Base           string `json:"base"` // own, forward, or the name of an allowlist
	Tier1          string `json:"tier1"`
	Tier2          string `json:"tier2"`
	Passthrough    bool   `json:"passthrough,omitempty"`     // what the profile declares passes the list
	Applied        bool   `json:"applied,omitempty"`         // of the profile's values only those that its sources applied
	ExtraSecrets   bool   `json:"extra_secrets,omitempty"`   // the caller's extras may be credentials
	Desktop        bool   `json:"desktop,omitempty"`         // the screen's variables are merged
	Buzz           bool   `json:"buzz,omitempty"`            // a buzz session's variables stay
	BackendKeys    bool   `json:"backend_keys,omitempty"`    // plugin backends' credentials are tier 1
	Grant          bool   `json:"grant,omitempty"`           // a board task is granted, not fenced
	Detached       bool   `json:"detached,omitempty"`        // outlives the tree it is started from
	NoSession      bool   `json:"no_session,omitempty"`      // nothing of a conversation
	RefuseTerminal bool   `json:"refuse_terminal,omitempty"` // not under a refused terminal policy
	// Verbatim makes the launch profile's own child a copy; another's is built as always.
	Verbatim bool              `json:"verbatim,omitempty"`
	Defaults map[string]string `json:"defaults,omitempty"` // set unless there
}

// Gap is a question that the spec leaves open, and the answer here.
type Gap struct {
	Rule     string `json:"rule"`
	Question string `json:"question"`
	Decision string `json:"decision"`
	Reason   string `json:"reason"`
}

// policyFile is policy.json.
type policyFile struct {
	Version     int      `json:"version"`
	Suffixes    []string `json:"suffixes"` // how a declared secret's name ends
	Tier1       []Group  `json:"tier1"`
	Tier2       []Group  `json:"tier2"`
	Dynamic     []Shape  `json:"dynamic"`
	Buzz        Shape    `json:"buzz"`
	ForcePrefix string   `json:"force_prefix"`
	Global      struct {
		Names    []string `json:"names"`
		Prefixes []string `json:"prefixes"`
		Proxies  []string `json:"proxies"`
	} `json:"global"`
	Residue struct {
		Prefixes  []string `json:"prefixes"`
		Names     []string `json:"names"`
		Tightened []string `json:"tightened"` // numbers that may only become smaller
	} `json:"residue"`
	Routing []string `json:"routing"` // inherited only if the profile's own .env has them
	Gates   struct {
		Prefixes []string `json:"prefixes"`
		Markers  []string `json:"markers"`
	} `json:"gates"`
	Session struct {
		Prefixes []string `json:"prefixes"`
		Names    []string `json:"names"`
		Worker   []string `json:"worker"` // kept from children with no_session only
	} `json:"session"`
	Kanban struct {
		Identity []string `json:"identity"`
		Marker   string   `json:"marker"`
	} `json:"kanban"`
	Python  []string `json:"python"`
	Service Group    `json:"service"`
	Lineage Group    `json:"lineage"` // marks of trees; only inherited ones count
	Control Group    `json:"control"` // what no secret source of a routed profile may supply
	Shell   struct {
		Rule     string   `json:"rule"`
		Reason   string   `json:"reason"`
		Prefixes []string `json:"prefixes"`
		Names    []string `json:"names"`
	} `json:"shell"` // what a shell's saved environment must not hold, beside the session
	Allowlists map[string]Allowlist  `json:"allowlists"`
	Kinds      map[string]KindPolicy `json:"kinds"`
	Gaps       []Gap                 `json:"gaps"`
}

// Policy is the compiled policy. It is immutable and safe for concurrent use.
type Policy struct {
	file   policyFile
	names  map[string]known      // by folded name
	shapes [256][]shape          // by first byte
	gates  map[string]bool       // prefixes without the final "_"
	heads  [256]bool             // their first bytes
	allow  map[string]*allowlist // by base
}

// Load reads the embedded policy. A test keeps it valid; an error is a broken build.
func Load() (*Policy, error) { return parsePolicy(policyJSON) }

func parsePolicy(data []byte) (*Policy, error) {
	p := &Policy{}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&p.file); err != nil {
		return nil, fmt.Errorf("policy.json: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, fmt.Errorf("policy.json: text after the end")
	}
	if p.file.Version != policyVersion {
		return nil, fmt.Errorf("policy.json: version %d, expected %d", p.file.Version, policyVersion)
	}
	if err := p.file.check(); err != nil {
		return nil, fmt.Errorf("policy.json: %w", err)
	}
	p.compile()
	return p, nil
}

// Kinds returns the names of all kinds, sorted, and their policies.
func (p *Policy) Kinds() ([]string, map[string]KindPolicy) {
	names := make([]string, 0, len(p.file.Kinds))
	out := map[string]KindPolicy{}
	for n, k := range p.file.Kinds {
		names = append(names, n)
		out[n] = k
	}
	slices.Sort(names)
	return names, out
}

// JSON returns the policy's file.
func (p *Policy) JSON() json.RawMessage { return slices.Clone(policyJSON) }

// Gaps returns the questions that the spec leaves open and their answers.
func (p *Policy) Gaps() []Gap { return slices.Clone(p.file.Gaps) }

// Global reports whether a name belongs to the host and never to a profile, for look-ups.
func (p *Policy) Global(name string) bool {
	return p.classify(fold(name)).bits&(isGlobalName|isProxyName) != 0
}

// Control reports whether a name says where credentials are sent: no secret source of a
// profile that this process serves beside others may supply it (N6).
func (p *Policy) Control(name string) bool {
	return slices.Contains(p.file.Control.Names, fold(name))
}

// Secretive reports whether a name ends like a secret's. It applies to declared names only:
// over arbitrary names it would eat people's own variables.
func (p *Policy) Secretive(name string) bool {
	f := fold(name)
	return slices.ContainsFunc(p.file.Suffixes, func(s string) bool { return strings.HasSuffix(f, s) })
}

// Core reports whether a name has its meaning from the policy, so that no plugin's manifest
// can give it another (M3).
func (p *Policy) Core(name string) bool {
	return p.classify(fold(name)).bits&(isTier|isGlobalName|isProxyName) != 0
}

// Tier returns the tier of a name, 0 for none, and the rule that says so. It knows only what
// is the same for all profiles; see [Policy.Denied] for one profile.
func (p *Policy) Tier(name string) (tier int, rule string) {
	k := p.classify(fold(name))
	return k.bits.tier(), k.rule
}

// Denied reports whether a profile may not pass a name through to its commands, and the rule:
// it is asked when a name is registered and again at every use (GHSA-rhgp-j443-p4rf).
func (p *Policy) Denied(name string, target *Profile) string {
	f := fold(name)
	k := p.classify(f)
	switch {
	case k.bits&isTier != 0:
		return k.rule
	case k.bits&isForced != 0:
		return ruleForce
	case target == nil:
		return ""
	case contains(target.Declared, f) && !p.Core(f):
		return ruleDeclared
	case contains(target.BackendKeys, f):
		return ruleBackend
	case contains(target.AdapterEnv, f) && p.Secretive(f):
		return ruleAdapter
	}
	return ""
}

// Transient reports whether a shell must not keep a name in an environment that it saves for
// later commands, which may be another profile's or another conversation's, and the rule
// (C5). A name that was kept out once must stay out, whatever is declared later.
func (p *Policy) Transient(name string, target *Profile) string {
	f := fold(name)
	switch b := p.classify(f).bits; {
	case b&(isSessionName|isShellName|isIdentityName|isMarkerName|isForced) != 0:
		return p.file.Shell.Rule
	case b&isTier != 0:
		return p.file.Shell.Rule // it can only be there for one child's sake
	case target != nil && contains(target.Passthrough, f):
		return p.file.Shell.Rule
	}
	return ""
}

func contains(names []string, folded string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return fold(n) == folded })
}
