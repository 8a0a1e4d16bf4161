// SPDX-License-Identifier: MIT

package childenv

import (
	"slices"
	"strings"
)

// The oracle says what a child may see of one planted value, from spec/isolation.md alone.
// It was written before the package was read and calls nothing of it.

// need is what the oracle demands of one planted value.
type need int

const (
	either  need = iota // the spec does not say, or a table test says it more exactly
	mustNot             // absent from the child
	must                // present with exactly this value
)

func (n need) String() string { return [...]string{"either", "must not", "must"}[n] }

// Where a planted value comes from.
const (
	fromExport  = "export"  // the operator's environment
	fromRemoved = "removed" // in the process environment, its key gone from the .env since
	fromParent  = "parent"  // another process loaded this profile's .env and started us
	fromLost    = "lost"    // exported, and a source of this profile supplied the name too
	fromDotenv  = "dotenv"
	fromOpEnv   = "op.env"
	fromApplied = "applied"
	fromBridge  = "bridge" // terminal.* of config.yaml
	fromScalar  = "scalar" // a top-level scalar of config.yaml
	fromManaged = "managed"
)

var oracleOrigins = []string{
	fromExport, fromRemoved, fromParent, fromLost, fromDotenv, fromOpEnv, fromApplied,
	fromBridge, fromScalar, fromManaged,
}

// What sort of name it is.
const (
	isPlain     = "plain"
	isTier1     = "tier 1"
	isTier2     = "tier 2"
	isDynamic   = "dynamic internal"
	isPluginOwn = "secret of the target's plugin"
	isPluginFor = "secret of another profile's plugin"
	isRuntime   = "required_env of a registered adapter"
	isBackend   = "credential of a terminal backend plugin"
	isGate      = "gate"
	isBuzz      = "buzz"
	isGlobal    = "global"
	isProxy     = "proxy"
	isTerminal  = "terminal setting"
	isIdentity  = "kanban identity"
	isPlace     = "kanban place"
	isMarker    = "descendant marker"
	isPython    = "interpreter of Hermes"
	isForce     = "force prefix"
	isSession   = "session"
	isRouting   = "routing"
	isService   = "service manager"
	isPass      = "declared passthrough"
	isForward   = "docker_forward_env"
)

var oracleClasses = []string{
	isPlain, isTier1, isTier2, isDynamic, isPluginOwn, isPluginFor, isRuntime, isBackend, isGate,
	isBuzz, isGlobal, isProxy, isTerminal, isIdentity, isPlace, isMarker, isPython, isForce,
	isSession, isRouting, isService, isPass, isForward,
}

var oracleKinds = []string{
	"terminal", "background", "terminal-remote", "execute-code", "mcp", "mcp-task", "cron-script",
	"cron-worker", "delivery", "kanban-worker", "cli", "served", "host", "openviking", "helper",
	"tool", "desktop",
}

// oracleCase is one question.
type oracleCase struct {
	kind   string
	routed bool   // the target is not the launch profile
	mux    bool   // the process says it hosts several profiles
	asked  bool   // the caller asks for the target's credentials
	own    bool   // the value's owner is the target; exports and managed values have none
	origin string // one of oracleOrigins
	class  string // one of oracleClasses
	name   string // for the allowlists, which go by name
}

// inProcess reports whether the value stands in the environment the gateway inherited.
func (c oracleCase) inProcess() bool {
	return slices.Contains([]string{fromExport, fromRemoved, fromParent, fromLost}, c.origin)
}

// oracle answers with the demand and the rule behind it.
func oracle(c oracleCase) (need, string) {
	if c.class == isMarker {
		return either, "K2" // has tests of its own
	}
	if n, rule, ok := oracleForeign(c); ok {
		return n, rule
	}
	if up := strings.ToUpper(c.name); up == "HERMES_HOME" || up == "PATH" {
		return either, "2.6 finalisation" // made for every child
	}
	// What stands in the inherited environment and is the target's own to keep.
	if c.routed && c.own && (c.origin == fromLost || c.origin == fromRemoved) {
		return either, "L2"
	}
	if c.kind == "helper" && !c.routed {
		return oracleVerbatim(c)
	}
	if c.own && c.origin == fromParent { // it stands in the target's own .env, too
		if c.kind == "mcp" || c.kind == "mcp-task" || c.kind == "execute-code" || c.class == isPython || c.class == isService {
			return either, "L9"
		}
		c.origin = fromDotenv
	}
	if n, rule, ok := oracleAlways(c); ok {
		return n, rule
	}
	switch c.kind {
	case "terminal-remote":
		return oracleRemote(c)
	case "execute-code":
		return oracleCode(c)
	case "mcp", "mcp-task":
		return oracleMCPChild(c)
	}
	if c.inProcess() {
		return oracleInherited(c)
	}
	return oracleOwn(c)
}

// oracleForeign covers values of a profile that the child is not for.
func oracleForeign(c oracleCase) (need, string, bool) {
	if c.own || c.origin == fromExport || c.origin == fromManaged {
		return either, "", false
	}
	if !c.routed {
		switch c.origin {
		case fromParent, fromRemoved, fromLost:
			return either, "L11", true // nothing is stripped from the launch profile's child
		}
		return mustNot, "S8", true
	}
	rule := map[string]string{
		fromDotenv: "L1", fromOpEnv: "#3", fromRemoved: "L2", fromLost: "L3", fromApplied: "L4",
		fromBridge: "L8", fromScalar: "#1", fromParent: "L9",
	}[c.origin]
	switch {
	case c.class == isGlobal || c.class == isPlace:
		// Names of the host are no residue by name; only files hold them apart.
		if c.inProcess() {
			return either, "2.3", true
		}
	case c.class == isProxy && c.origin != fromParent && c.inProcess():
		return either, "GAP-proxy", true
	}
	return mustNot, rule, true
}

// oracleVerbatim is the git or vault helper of the launch profile: a verbatim copy.
func oracleVerbatim(c oracleCase) (need, string) {
	switch c.class {
	case isIdentity, isMarker, isPython, isForce, isSession, isRouting, isService:
		return either, "2.6"
	}
	if c.inProcess() {
		return must, "2.6 helper"
	}
	return either, "2.6 helper"
}

// oracleAlways covers what no kind may see.
func oracleAlways(c oracleCase) (need, string, bool) {
	switch c.class {
	case isIdentity:
		return mustNot, "K1", true
	case isForce:
		return mustNot, "FORCE", true
	case isPython:
		if c.inProcess() {
			return mustNot, "2.6 finalisation", true
		}
		return either, "", true
	case isService:
		if c.inProcess() {
			return mustNot, "#25", true
		}
		return either, "", true
	case isRouting:
		if c.inProcess() {
			return mustNot, "1.3", true
		}
		return either, "", strings.EqualFold(c.name, "COPILOT_ACP_BASE_URL") // tier 2 as well
	case isDynamic:
		if c.kind == "host" || (c.kind == "mcp" || c.kind == "mcp-task") && c.origin == fromApplied {
			return either, "2.1", !c.inProcess()
		}
		return mustNot, "2.1 dynamic", true
	case isSession:
		if c.inProcess() {
			return mustNot, "2.6 session", true // engaged and unset
		}
		return either, "", true
	}
	return either, "", false
}

// oracleRemote is a sandbox: nothing but what is forwarded.
func oracleRemote(c oracleCase) (need, string) {
	if c.class != isPass && c.class != isForward {
		return mustNot, "2.6 forward list"
	}
	if c.inProcess() {
		if c.routed {
			return mustNot, "S3" // a miss never falls back to the process
		}
		return must, "2.6 forward list"
	}
	return must, "2.6 forward list"
}

// oracleCode is execute_code: §2.5.
func oracleCode(c oracleCase) (need, string) {
	name := strings.ToUpper(c.name)
	switch {
	case c.class == isPass:
		if c.inProcess() && c.routed {
			return either, "S3 or L13"
		}
		return must, "2.5 passthrough"
	case slices.ContainsFunc(oracleCodeDrop, func(w string) bool { return strings.Contains(name, w) }):
		return mustNot, "2.5 words"
	case c.class == isTerminal:
		return mustNot, "GAP-term"
	case name == "TZ":
		if c.origin == fromApplied {
			return either, "S1"
		}
		return must, "2.5 TZ"
	case name == "HERMES_PROFILE" && c.routed && c.inProcess():
		return mustNot, "GAP-profile-name"
	case slices.Contains(oracleCodeNames, name),
		slices.Contains(oracleMCPWin, name),
		slices.ContainsFunc(oracleCodePrefix, func(p string) bool { return strings.HasPrefix(name, p) }):
		if c.class != isPlain && c.class != isGlobal {
			return either, "2.5"
		}
		if c.inProcess() {
			return must, "2.5 prefixes"
		}
		return either, "2.5"
	}
	return mustNot, "2.5"
}

// oracleMCPChild is §2.4 with N2.
func oracleMCPChild(c oracleCase) (need, string) {
	name := strings.ToUpper(c.name)
	switch {
	case c.origin == fromApplied:
		switch c.class {
		case isGlobal, isPlace, isTerminal, isProxy:
			return either, "S1" // global names are never taken from a source
		}
		return must, "N2"
	case c.class == isPlace && c.origin == fromManaged:
		return either, "L6"
	case c.class == isPlace && c.inProcess():
		if slices.Contains(oracleMCPPlace, name) {
			return must, "2.4"
		}
		return mustNot, "2.4"
	case slices.Contains(oracleMCP, name), slices.Contains(oracleMCPWin, name),
		strings.HasPrefix(name, oracleMCPPrefix):
		if c.class != isPlain && c.class != isGlobal {
			return either, "2.4"
		}
		if c.inProcess() {
			return must, "2.4"
		}
		if c.origin == fromManaged {
			return either, "L6"
		}
		return mustNot, "2.4"
	case name == "HERMES_HOME":
		return either, "2.6 finalisation"
	}
	return mustNot, "2.4"
}

// oracleInherited is a value of the inherited environment in a child with a full base.
func oracleInherited(c oracleCase) (need, string) {
	tier := oracleTier(c.kind, c.class)
	if c.routed {
		switch {
		case tier != 0:
			return mustNot, "L10"
		case c.class == isBackend:
			return mustNot, "GAP-backend-routed"
		case c.class == isPluginFor:
			return either, "L10 or L13"
		case strings.EqualFold(c.name, "HERMES_MAX_ITERATIONS"):
			return mustNot, "L8"
		case strings.EqualFold(c.name, "HERMES_PROFILE"):
			return mustNot, "GAP-profile-name"
		case c.class == isGate:
			return mustNot, "G1"
		case c.class == isTerminal:
			return mustNot, "L8"
		}
	}
	switch {
	case c.kind == "host" && tier != 0:
		return either, "GAP-host"
	case tier == 1:
		return mustNot, "2.1"
	case tier == 2 && c.kind == "cli":
		return must, "2.6 cli"
	case tier == 2 && (c.kind == "openviking" || c.kind == "kanban-worker" && !c.mux):
		return either, "2.6"
	case tier == 2 && c.kind == "served" && c.asked:
		return must, "S13" // the launch profile's scope lies over the process environment
	case tier == 2:
		return mustNot, "2.2"
	case c.kind == "kanban-worker" && (c.class == isPlace || c.class == isTerminal):
		return either, "5" // the dispatcher's own values
	case c.class == isGate:
		return must, "G1"
	case c.class == isPlace:
		return must, "K1"
	case c.class == isProxy:
		return must, "GAP-proxy"
	}
	return must, "L13"
}

// oracleOwn is a value of the target's own, or a managed one, in a child with a full base.
func oracleOwn(c oracleCase) (need, string) {
	tier := oracleTier(c.kind, c.class)
	switch c.class {
	case isGlobal, isPlace:
		if c.origin != fromManaged || c.kind == "helper" || c.kind == "kanban-worker" {
			return either, "2.3"
		}
		return must, "GAP-managed-global"
	case isTerminal, isProxy:
		if c.origin == fromApplied {
			return either, "S1"
		}
	}
	switch {
	case c.kind == "host" && tier != 0:
		return must, "GAP-host"
	case c.kind == "helper" && tier == 0:
		return either, "GAP-helper"
	case tier == 1:
		return mustNot, "2.1"
	case tier == 2 && (c.kind == "cli" || c.kind == "openviking"):
		return must, "2.6"
	case tier == 2 && c.kind == "kanban-worker" && !c.routed && !c.mux:
		return either, "2.6"
	case tier == 2 && c.kind == "served" && c.asked:
		return must, "2.6 served"
	case tier == 2:
		return mustNot, "2.2"
	case c.class == isTerminal && c.kind == "kanban-worker":
		return either, "5"
	case c.origin == fromManaged:
		return must, "L6"
	case c.origin == fromBridge:
		return must, "P7"
	}
	return must, "1.9"
}
