// SPDX-License-Identifier: MIT

package childenv

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// plant is one value that is put somewhere. Within one world every name has one plant.
type plant struct {
	owner  string // "A" is the launch profile; "" for exports and managed values
	origin string
	class  string
	name   string
	value  string
}

// namesOf are the names that are planted of each class: all that the spec lists, and samples
// of those that are made.
func namesOf(class string) []string {
	switch class {
	case isPlain:
		return append(slices.DeleteFunc(slices.Clone(oracleMCPWin), func(n string) bool { return n == "TMP" || n == "TEMP" || n == "USERNAME" || n == "PATHEXT" }), oracleWords(`CANARY_PLAIN lower_case_name DEMO_ALLOWED_SENDER SLACK_USER_TOKEN
			LOCAL_LLM_API_KEY GATEWAY_API_KEY HERMES_MEDIA_ALLOW_DIRS HERMES_WRITE_SAFE_ROOT
			CUSTOM_VAULT_SECRET ORG_POLICY_FLAG AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY
			AWS_SESSION_TOKEN AWS_PROFILE CLAUDE_CODE_OAUTH_TOKEN XDG_DATA_DIRS XDG_TOKEN LC_TIME
			CONDA_DEFAULT_ENV SSH_AUTH_SOCK LOGNAME TERM EDITOR TMP TEMP TEMPLATE HERMES_CONFIG
			HERMES_ENV USERNAME LANGUAGE HOME_PAGE PATHEXT SHELLOPTS TERM_PROGRAM PYTHONPATH_OLD
			VIRTUAL_ENV_PROMPT TMPDIR_X HERMES_TUIX XALLOWED_Y DISCORD_COLOR MYADAPTER_COLOR
			CODE_CREDENTIAL_X XDG_AUTH XDG_SECRET XDG_KEY XDG_PASSWORD XDG_CREDENTIAL XDG_PASSWD
			XDG_DSN XDG_WEBHOOK`)...)
	case isTier1:
		return slices.DeleteFunc(append(append([]string{"Telegram_Bot_Token"}, oracleTier1...), oracleDerived1...),
			func(n string) bool { return oracleClass(n) != isTier1 })
	case isTier2:
		return slices.DeleteFunc(append(append([]string{"openai_Api_key"}, oracleTier2...), oracleDerived2...),
			func(n string) bool { return oracleClass(n) != isTier2 })
	case isDynamic:
		return oracleWords(`AUXILIARY_VISION_API_KEY AUXILIARY_X_BASE_URL GATEWAY_RELAY_NEW_SECRET
			GATEWAY_RELAY_NEW_KEY GATEWAY_RELAY_NEW_TOKEN
			GATEWAY_RELAY_SECRET GATEWAY_RELAY_DELIVERY_KEY auxiliary_web_api_key`)
	case isGate:
		var out []string
		for _, p := range oraclePlatforms {
			out = append(out, p+"_ALLOW_FROM_X")
		}
		for _, m := range oracleGateMarks {
			out = append(out, "DISCORD"+m+"Z")
		}
		return append(out, "discord_allowed_channels")
	case isGlobal:
		return oracleGlobal
	case isProxy:
		return append([]string{"http_proxy"}, oracleProxies...)
	case isTerminal:
		return oracleTerminalKeys
	case isIdentity:
		return oracleIdentity
	case isPlace:
		return oraclePlace
	case isMarker:
		return []string{oracleMarker}
	case isPython:
		return oraclePython
	case isSession:
		return append(oracleWords(`HERMES_SESSION_ID HERMES_SESSION_PLATFORM HERMES_CRON_AUTO_DELIVER_CHAT_ID`), oracleSession...)
	case isRouting:
		return oracleRouting
	case isService:
		return oracleService
	}
	return oracleWords(map[string]string{
		isPluginOwn: `MYPLUG_TOKEN MYPLUG_SESSION`, isPluginFor: `OTHERPLUG_TOKEN`,
		isRuntime: `MYADAPTER_SECRET MYADAPTER_TOKEN MYADAPTER_KEY MYADAPTER_PASSWORD MYADAPTER_JSON`,
		isBackend: `MYBACKEND_CRED`, isBuzz: `BUZZ_PRIVATE_KEY BUZZ_RELAY_URL`,
		isForce: `_HERMES_FORCE_FOO _HERMES_FORCE_OPENAI_API_KEY`,
		isPass:  `MY_PASS_TOKEN PASSED_THING`, isForward: `FORWARDED_THING`,
	}[class])
}

// world is a set of profiles with what was planted for them.
type world struct {
	plants []plant
	mux    bool
	asked  bool
}

// oneOrigin is the world in which every name of every class was planted by one owner at one
// origin.
func oneOrigin(owner, origin string) world {
	w := world{mux: true}
	for _, class := range oracleClasses {
		for _, n := range namesOf(class) {
			w.plants = append(w.plants, plant{owner, origin, class, n, fmt.Sprintf("canary-%s-%s-%s", owner, origin, n)})
		}
	}
	return w
}

// inProcess reports whether a plant stands in the inherited environment.
func (p plant) inProcess() bool { return (oracleCase{origin: p.origin}).inProcess() }

func homeKey(profile string) string {
	if profile == "A" {
		return "/srv/hermes"
	}
	return "/srv/hermes/profiles/" + strings.ToLower(profile)
}

// snapshot is what a gateway launched for A hands over for a child of the target.
func (w world) snapshot(target string) Snapshot {
	s := Snapshot{
		Inherited:   []string{"HERMES_HOME=" + homeKey("A")},
		Launch:      Launch{Key: homeKey("A")},
		Target:      &Profile{Key: homeKey(target), Dir: homeKey(target)},
		Foreign:     map[string][]string{},
		Multiplexed: w.mux, Credentials: w.asked, SessionEngaged: true,
	}
	t := s.Target
	for _, p := range w.plants {
		if p.inProcess() {
			s.Inherited = append(s.Inherited, p.name+"="+p.value)
		}
		own, launch := p.owner == target, p.owner == "A"
		switch p.origin {
		case fromDotenv, fromParent:
			if own {
				t.Vars = append(t.Vars, Var{Name: p.name, Value: p.value, Origin: Dotenv})
			} else {
				s.Foreign[p.name] = append(s.Foreign[p.name], p.value)
			}
			if launch {
				s.Launch.Dotenv = append(s.Launch.Dotenv, p.name)
			}
		case fromOpEnv:
			if own {
				t.Vars = append(t.Vars, Var{Name: p.name, Value: p.value, Origin: OpEnv})
			}
			if launch {
				s.Launch.Dotenv = append(s.Launch.Dotenv, p.name)
			}
		case fromRemoved:
			s.Launch.Ever = append(s.Launch.Ever, p.name) // whosever file it was
		case fromApplied:
			s.Launch.Supplied = append(s.Launch.Supplied, p.name)
			if own {
				t.Vars = append(t.Vars, Var{Name: p.name, Value: p.value, Origin: Source})
				t.Applied = append(t.Applied, p.name)
			}
		case fromLost:
			s.Launch.Supplied = append(s.Launch.Supplied, p.name)
		case fromBridge, fromScalar:
			if own {
				t.Bridge = append(t.Bridge, Var{Name: p.name, Value: p.value, Fill: p.origin == fromScalar})
			}
			if launch {
				s.Launch.Bridged = append(s.Launch.Bridged, p.name)
			}
		case fromManaged:
			s.Managed = append(s.Managed, Var{Name: p.name, Value: p.value})
		}
		w.declare(&s, p)
	}
	inOrder(s.Target)
	return s
}

// inOrder sorts a profile's values as whoever hands them over must: stronger ones later, and
// what only fills before what replaces.
func inOrder(t *Profile) {
	order := []Origin{Dotenv, OpEnv, Source}
	slices.SortStableFunc(t.Vars, func(a, b Var) int { return slices.Index(order, a.Origin) - slices.Index(order, b.Origin) })
	slices.SortStableFunc(t.Bridge, func(a, b Var) int { // what only fills goes first
		switch {
		case a.Fill == b.Fill:
			return 0
		case a.Fill:
			return -1
		}
		return 1
	})
}

// declare does what makes a name of its class. A profile also tries to pass, and to forward,
// what it must not.
func (w world) declare(s *Snapshot, p plant) {
	t := s.Target
	switch p.class {
	case isPluginOwn:
		t.Declared = append(t.Declared, p.name)
	case isRuntime:
		t.AdapterEnv = append(t.AdapterEnv, p.name)
	case isBackend:
		t.BackendKeys = append(t.BackendKeys, p.name)
	case isPass:
		t.Passthrough = append(t.Passthrough, p.name)
	case isForward:
		s.Forward = append(s.Forward, p.name)
	case isTier1, isTier2, isDynamic, isForce, isIdentity:
		t.Passthrough = append(t.Passthrough, p.name)
		s.Forward = append(s.Forward, p.name)
	}
	if p.name == "MYADAPTER_COLOR" {
		t.AdapterEnv = append(t.AdapterEnv, p.name) // required, but no secret by its name (M9)
	}
	if p.name == "OPENAI_API_KEY" {
		t.Declared = append(t.Declared, p.name) // M3: stays tier 2
	}
}

// toMap reads a child's environment the way the child does, and says what in it is no
// variable.
func toMap(env []string) (m map[string]string, wrong []string) {
	m = make(map[string]string, len(env))
	for _, kv := range env {
		n, v, ok := strings.Cut(kv, "=")
		if _, twice := m[n]; !ok || n == "" || twice {
			wrong = append(wrong, fmt.Sprintf("%q is no variable, or there twice", kv))
		}
		m[n] = v
	}
	return m, wrong
}

// wrong compares a child's environment with the oracle: one line for each difference.
func (w world) wrong(kind, target string, child []string) []string {
	env, out := toMap(child)
	for _, p := range w.plants {
		c := oracleCase{
			kind: kind, routed: target != "A", mux: w.mux, asked: w.asked,
			own: p.owner == target, origin: p.origin, class: p.class, name: p.name,
		}
		want, rule := oracle(c)
		got, there := env[p.name]
		switch {
		case want == must && got != p.value:
			out = append(out, fmt.Sprintf("%s for %s (mux %v): %s value of %q (%s, owner %q) must be there by %s: got %q, %v", kind, target, w.mux, p.origin, p.name, p.class, p.owner, rule, got, there))
		case want == mustNot && there && strings.Contains(got, p.value):
			out = append(out, fmt.Sprintf("%s for %s (mux %v): %s value of %q (%s, owner %q) must not be there by %s", kind, target, w.mux, p.origin, p.name, p.class, p.owner, rule))
		}
	}
	return out
}

// origins of values with an owner, and those without.
var (
	ownedOrigins = []string{fromRemoved, fromParent, fromLost, fromDotenv, fromOpEnv, fromApplied, fromBridge, fromScalar}
	freeOrigins  = []string{fromExport, fromManaged}
)

func worlds() []world {
	var out []world
	for _, origin := range ownedOrigins {
		for _, owner := range []string{"A", "B", "C"} {
			out = append(out, oneOrigin(owner, origin))
		}
	}
	for _, origin := range freeOrigins {
		out = append(out, oneOrigin("", origin))
	}
	return out
}

// TestOracle is every kind × target × routing mode × origin × owner × class, in process.
func TestOracle(t *testing.T) {
	t.Parallel()
	p := load(t)
	demands := map[need]int{}
	for _, w := range worlds() {
		for _, mode := range []struct{ mux, asked bool }{{true, false}, {false, false}, {true, true}} {
			w.mux, w.asked = mode.mux, mode.asked
			for _, target := range []string{"A", "B", "C"} {
				for _, kind := range oracleKinds {
					env, err := p.Build(kind, w.snapshot(target))
					if err != nil {
						t.Fatal(err)
					}
					for _, line := range w.wrong(kind, target, env) {
						t.Error(line)
					}
					for _, pl := range w.plants {
						n, _ := oracle(oracleCase{kind, target != "A", w.mux, w.asked, pl.owner == target, pl.origin, pl.class, pl.name})
						demands[n]++
					}
				}
			}
		}
	}
	t.Logf("demands: %v", demands)
}

// TestOracleClasses checks the oracle's own lists: a name that it plants as one class is not
// another by its lists, and every origin and class is known to it.
func TestOracleClasses(t *testing.T) {
	t.Parallel()
	declared := []string{isPluginOwn, isPluginFor, isRuntime, isBackend, isPass, isForward}
	seen := map[string]string{}
	for _, class := range oracleClasses {
		if len(namesOf(class)) == 0 {
			t.Errorf("no names of class %s", class)
		}
		for _, n := range namesOf(class) {
			if got := oracleClass(n); got != class && !slices.Contains(declared, class) {
				t.Errorf("%s is planted as %s and sorted as %s", n, class, got)
			}
			if old, ok := seen[n]; ok {
				t.Errorf("%s is planted as %s and as %s", n, old, class)
			}
			seen[n] = class
		}
	}
	for _, o := range slices.Concat(ownedOrigins, freeOrigins) {
		if !slices.Contains(oracleOrigins, o) || !slices.Contains(oracleRank, o) {
			t.Errorf("the oracle does not know the origin %s", o)
		}
	}
}
