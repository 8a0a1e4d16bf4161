// SPDX-License-Identifier: MIT

package childenv

import (
	"slices"
	"strings"
)

// oracleRank orders the origins of one name, strongest first (§1.3, P7).
var oracleRank = []string{
	fromBridge, fromManaged, fromApplied, fromDotenv, fromExport, fromLost, fromRemoved, fromParent,
	fromOpEnv, fromScalar,
}

// oracleTier is the tier a class has for a kind.
func oracleTier(kind, class string) int {
	switch class {
	case isTier1, isDynamic, isPluginOwn, isBuzz:
		return 1
	case isBackend:
		if kind != "terminal" {
			return 1
		}
	case isTier2, isRuntime:
		return 2
	}
	return 0
}

// oracleClass sorts a name that nobody declared.
func oracleClass(name string) string {
	up := strings.ToUpper(name)
	ends := func(tails ...string) bool {
		return slices.ContainsFunc(tails, func(t string) bool { return strings.HasSuffix(up, t) })
	}
	switch {
	case strings.HasPrefix(up, "_HERMES_FORCE_"):
		return isForce
	case strings.HasPrefix(up, "AUXILIARY_") && ends("_API_KEY", "_BASE_URL"),
		strings.HasPrefix(up, "GATEWAY_RELAY_") && ends("_SECRET", "_KEY", "_TOKEN"):
		return isDynamic // also the two of them that 2.1 lists
	case slices.Contains(oracleTier1, up), slices.Contains(oracleDerived1, up):
		return isTier1
	case slices.Contains(oracleRouting, up):
		return isRouting
	case slices.Contains(oracleTier2, up), slices.Contains(oracleDerived2, up):
		return isTier2
	case slices.Contains(oracleService, up):
		return isService
	case strings.HasPrefix(up, "BUZZ_"):
		return isBuzz
	case slices.Contains(oracleIdentity, up):
		return isIdentity
	case up == oracleMarker:
		return isMarker
	case slices.Contains(oraclePython, up):
		return isPython
	case slices.Contains(oracleProxies, up):
		return isProxy
	case slices.Contains(oracleTerminalKeys, up):
		return isTerminal
	case strings.HasPrefix(up, "HERMES_KANBAN_"):
		return isPlace
	case slices.Contains(oracleSession, up),
		slices.ContainsFunc(oracleSessionPrefix, func(p string) bool { return strings.HasPrefix(up, p) }):
		return isSession
	case slices.Contains(oracleGlobal, up):
		return isGlobal
	case oracleIsGate(up):
		return isGate
	}
	return isPlain
}

func oracleIsGate(up string) bool {
	if strings.HasPrefix(up, "HERMES_") || strings.HasPrefix(up, "_") {
		return false
	}
	return slices.ContainsFunc(oraclePlatforms, func(p string) bool { return strings.HasPrefix(up, p+"_") }) &&
		slices.ContainsFunc(oracleGateMarks, func(m string) bool { return strings.Contains(up, m) })
}
