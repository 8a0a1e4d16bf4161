// SPDX-License-Identifier: MIT

package secret

import (
	"fmt"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
)

// claim is the value that a name has from outside.
type claim struct {
	text     Text
	source   string
	override bool
	of       string // of an alias: the name it stands for, which must apply too
}

// claimer settles which source a name belongs to. The order of calls is the precedence.
type claimer struct {
	global    func(string) bool
	protected map[string]bool // upper case
	suffix    string          // "_BOT" for aliases; "" = none
	direct    map[string]bool // names that some source supplies as such
	claims    map[string]claim
	globals   map[string]bool // names of the process that a source supplied
	warnings  []string
}

func newClaimer(results []result, profile string, s Stack, global func(string) bool) *claimer {
	c := &claimer{global: global, protected: map[string]bool{}, direct: map[string]bool{}, claims: map[string]claim{}, globals: map[string]bool{}}
	if profile != home.Default && profile != "" && !s.NoAlias {
		c.suffix = "_" + strings.ToUpper(strings.ReplaceAll(profile, "-", "_"))
	}
	for _, r := range results {
		for _, p := range r.spec.Protected {
			c.protected[strings.ToUpper(p)] = true
		}
		for name := range r.values {
			c.direct[name] = true
		}
	}
	return c
}

func (c *claimer) add(r *result) {
	for _, name := range sorted(r.values) {
		if !c.take(r, name, r.values[name], "") {
			continue
		}
		alias := c.alias(name)
		if alias == "" || c.direct[alias] {
			continue
		}
		if _, taken := c.claims[alias]; !taken && c.take(r, alias, r.values[name], name) {
			r.report.Aliased = append(r.report.Aliased, alias)
		}
	}
}

// take gives a name to a source, unless something speaks against it.
func (c *claimer) take(r *result, name string, text Text, of string) bool {
	holder, taken := c.claims[name]
	switch {
	case !validName(name), strings.TrimSpace(text.Reveal()) == "", strings.IndexByte(text.Reveal(), 0) >= 0:
		r.report.Invalid++
	case c.protected[strings.ToUpper(name)]:
		r.report.Protected = append(r.report.Protected, name)
	case c.global(name):
		r.report.Global = append(r.report.Global, name)
		c.globals[name] = true
	case taken:
		r.report.Claimed = append(r.report.Claimed, name)
		c.warnings = append(c.warnings, fmt.Sprintf("%s: the value is %s's; %s supplies it too (remove one of them, or change secrets.sources)", name, holder.source, r.spec.Name))
	default:
		c.claims[name] = claim{text, r.spec.Name, r.spec.OverrideExisting, of}
		return true
	}
	return false
}

// alias returns FOO for FOO_<PROFILE> if FOO looks like a credential, else "".
func (c *claimer) alias(name string) string {
	base, ok := strings.CutSuffix(name, c.suffix)
	if c.suffix == "" || !ok {
		return ""
	}
	for _, s := range []string{"_API_KEY", "_TOKEN", "_SECRET", "_KEY", "_PASSWORD"} {
		if strings.HasSuffix(base, s) {
			return base
		}
	}
	return ""
}

// control refuses a routed profile's names that steer where credentials are sent (N6).
func control[V any](t Tenant, is func(string) bool, source string, names map[string]V) error {
	if !t.Foreign {
		return nil
	}
	for _, name := range sorted(names) {
		if is(name) {
			return &ControlNameError{source, name, t.Home.Dir}
		}
	}
	return nil
}
