// SPDX-License-Identifier: MIT

package childenv

import (
	"slices"
	"strings"
)

// staysBehind is the rule under which an inherited variable does not reach this child at
// all, whatever its kind; "" = it may.
func (b *builder) staysBehind(e *entry) string {
	x := e.bits
	switch {
	case x&isLineageName != 0:
		if b.k.Detached {
			return b.p.file.Lineage.Rule
		}
		return ""
	case x&isRoutingName != 0:
		return "P-routing" // the profile's own is put over it
	case x&isServiceName != 0:
		return b.p.file.Service.Rule
	case x&isPythonName != 0:
		return "PYTHON"
	case !b.routed:
		return ""
	case b.isResidue(x):
		return residueRule(x & isResidue)
	case x&isTerminalName != 0 && x&isTightenedName == 0, x&isResidueName != 0:
		return "L8"
	case b.p.gate(e.folded, b.gates):
		return "G1"
	case x&isTier != 0, x&isBackendKey != 0:
		return "L10"
	case x&isSessionName != 0:
		return "GAP-session"
	case b.k.Base == baseForward:
		return "S3" // a miss never falls back to the process
	case len(b.foreign) > 0 && !hostOnly(x) && slices.Contains(b.foreign[e.folded], e.value()):
		return "L9"
	}
	return ""
}

// isResidue reports whether a name came, or may have come, from the launch profile. A proxy
// that merely stands in its files is told by its value (GAP-proxy, L9): the operator's own
// has the same name.
func (b *builder) isResidue(x bits) bool {
	if x&isProxyName != 0 {
		return x&inEver != 0
	}
	return x&isResidue != 0 && !hostOnly(x)
}

// hostOnly reports whether a name is the host's even if a profile's file names it.
func hostOnly(x bits) bool { return x&isGlobalName != 0 && x&isTerminalName == 0 }

// filter applies the kind's base and the tiers to every variable.
func (b *builder) filter() {
	for i := range b.entries {
		e := &b.entries[i]
		if !e.kept() {
			continue
		}
		if e.bits&isForced != 0 {
			e.rule = ruleForce // only a caller's extra may force a name
			continue
		}
		if e.rule = b.outside(e); e.kept() && e.bits&isTier != 0 && !b.mayHave(e) {
			e.rule = b.tierRule(e)
		}
	}
}

// outside is the rule by which the kind's base leaves a variable out; "" = it is in.
func (b *builder) outside(e *entry) string {
	if b.k.Base == baseOwn {
		return ""
	}
	if strings.HasPrefix(e.value(), "()") {
		return "FUNCTION" // a shell function in disguise: code, not data
	}
	passes := b.k.Passthrough && e.bits&isPassed != 0
	switch {
	case b.k.Base == baseForward:
		if !passes && e.bits&isForwarded == 0 || e.bits&isLineageName != 0 {
			return "FORWARD"
		}
		return ""
	case passes, b.applied(e), b.allow.allows(e.folded), e.bits&isLineageName != 0:
		return ""
	}
	return "ALLOW-" + b.k.Base
}

// applied reports whether a value is that of a name which a source of the profile applied,
// for kinds that get those (N2). The administrator's beats the source's (S2).
func (b *builder) applied(e *entry) bool {
	return b.k.Applied && e.bits&isApplied != 0 && e.bits&isDynamicName == 0 && (e.origin == Source || e.origin == Managed)
}

// mayHave reports whether a credential stays for this kind of child. A routed child has no
// inherited one left by now.
func (b *builder) mayHave(e *entry) bool {
	switch {
	case b.applied(e):
		return true
	case e.bits&isBuzzName != 0:
		return b.k.Tier1 == keep || b.k.Buzz && b.buzz()
	case e.bits&isTier1Name != 0:
		return b.k.Tier1 == keep
	case b.k.Tier2 == ask:
		return b.s.Credentials || e.bits&isSelected != 0
	}
	return b.k.Tier2 == keep
}

// buzz reports whether the child belongs to a buzz session.
func (b *builder) buzz() bool {
	if b.s.SessionPlatform == "buzz" {
		return true
	}
	e := b.find("BUZZ_MANAGED_AGENT")
	return e != nil && e.kept()
}

// extra adds a variable that the caller wants for this child. A server's own settings, a
// helper's token and the board's grant may be credentials; for commands the tiers hold.
func (b *builder) extra(v Var) {
	v.Origin = Extra
	forced := strings.HasPrefix(fold(v.Name), b.p.file.ForcePrefix)
	if forced {
		v.Name = v.Name[len(b.p.file.ForcePrefix):]
	}
	e, ok := b.entry(v)
	switch {
	case !ok:
		return
	case e.bits&isForced != 0:
		b.note(v, ruleForce)
	case e.bits&isDynamicName != 0, e.bits&isTier != 0 && !forced && !b.k.ExtraSecrets && !b.mayHave(&e):
		b.note(v, b.tierRule(&e)) // what is there was decided on its own
	default:
		b.put(e)
	}
}
