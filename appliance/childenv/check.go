// SPDX-License-Identifier: MIT

package childenv

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// check finds what would make the policy say something else than it seems to: names that
// are not in the form they are compared in, names in two groups, entries that another one
// covers, and words that mean nothing.
func (f *policyFile) check() error {
	return errors.Join(f.checkGroups(), f.checkCovered(), f.checkForm(), f.checkKinds())
}

// checkGroups finds names that stand in two tier groups, and groups without a rule.
func (f *policyFile) checkGroups() error {
	var errs []error
	at := map[string]string{}
	for _, g := range slices.Concat(f.Tier1, f.Tier2) {
		if g.Rule == "" || g.Reason == "" || len(g.Names) == 0 {
			errs = append(errs, fmt.Errorf("group %q lacks a rule, a reason or names", g.Rule))
		}
		for _, n := range g.Names {
			if old, ok := at[n]; ok {
				errs = append(errs, fmt.Errorf("%s is in the groups %s and %s", n, old, g.Rule))
			}
			at[n] = g.Rule
		}
	}
	return errors.Join(errs...)
}

// checkCovered finds entries that can be removed without any effect: whoever reads them
// would think that they do something.
func (f *policyFile) checkCovered() error {
	var errs []error
	covered := func(what string, names, prefixes []string) {
		for i, n := range names {
			if slices.Contains(names[:i], n) || hasPrefix(n, prefixes) {
				errs = append(errs, fmt.Errorf("%s: %s is covered by another entry", what, n))
			}
		}
	}
	prefixes := func(what string, list []string) {
		for i, x := range list {
			if hasPrefix(x, slices.Delete(slices.Clone(list), i, i+1)) {
				errs = append(errs, fmt.Errorf("%s: the prefix %s is covered by another one", what, x))
			}
		}
	}
	for _, g := range slices.Concat(f.Tier1, f.Tier2) {
		for _, s := range slices.Concat(f.Dynamic, []Shape{f.Buzz}) {
			sh := shape{prefix: s.Prefix, suffixes: s.Suffixes}
			for _, n := range g.Names {
				if sh.match(n) {
					errs = append(errs, fmt.Errorf("%s: %s is covered by %s", g.Rule, n, s.Rule))
				}
			}
		}
	}
	covered("global", f.Global.Names, f.Global.Prefixes)
	covered("session", slices.Concat(f.Session.Names, f.Session.Worker), f.Session.Prefixes)
	covered("shell", f.Shell.Names, slices.Concat(f.Shell.Prefixes, f.Session.Prefixes))
	for name, a := range f.Allowlists {
		covered(name, a.Names, a.Prefixes)
		prefixes(name, a.Prefixes)
	}
	prefixes("gates", withTail(f.Gates.Prefixes, "_"))
	prefixes("global", f.Global.Prefixes)
	return errors.Join(errs...)
}

func withTail(list []string, tail string) []string {
	out := slices.Clone(list)
	for i := range out {
		out[i] += tail
	}
	return out
}

// checkForm finds names that are not in upper case, and empty ones, which as a prefix would
// mean every name there is.
func (f *policyFile) checkForm() error {
	var errs []error
	all := slices.Concat(
		f.Suffixes, f.Global.Names, f.Global.Prefixes, f.Global.Proxies, f.Residue.Prefixes,
		f.Residue.Names, f.Residue.Tightened, f.Routing, f.Gates.Prefixes, f.Gates.Markers,
		f.Session.Prefixes, f.Session.Names, f.Session.Worker, f.Kanban.Identity, f.Python,
		f.Service.Names, f.Lineage.Names, f.Control.Names, f.Shell.Prefixes, f.Shell.Names,
		[]string{f.Kanban.Marker, f.ForcePrefix, f.Buzz.Prefix},
	)
	for _, g := range slices.Concat(f.Tier1, f.Tier2) {
		all = append(all, g.Names...)
	}
	for _, s := range f.Dynamic {
		all = append(append(all, s.Prefix), s.Suffixes...)
	}
	for _, a := range f.Allowlists {
		all = slices.Concat(all, a.Names, a.Prefixes, a.DenyParts, a.Except)
	}
	for _, n := range all {
		if n == "" || n != strings.ToUpper(n) || strings.ContainsAny(n, "= \x00") {
			errs = append(errs, fmt.Errorf("%q is not a name, or part of one, in upper case", n))
		}
	}
	return errors.Join(errs...)
}

func (f *policyFile) checkKinds() error {
	var errs []error
	bad := func(kind, what string) { errs = append(errs, fmt.Errorf("kind %s: %s", kind, what)) }
	for name, k := range f.Kinds {
		if _, ok := f.Allowlists[k.Base]; !ok && k.Base != baseOwn && k.Base != baseForward {
			bad(name, fmt.Sprintf("unknown base %q", k.Base))
		}
		if !slices.Contains([]string{strip, keep}, k.Tier1) || !slices.Contains([]string{strip, keep, ask}, k.Tier2) {
			bad(name, fmt.Sprintf("unknown tier rule %q, %q", k.Tier1, k.Tier2))
		}
		if k.Tier1 == keep && k.Tier2 != keep {
			bad(name, "keeps tier 1 but not tier 2")
		}
		if k.Passthrough && k.Base == baseOwn {
			bad(name, "passthrough does nothing: the base holds all that a profile may pass")
		}
		if k.Buzz && k.Base != baseOwn && k.Base != baseForward {
			bad(name, "buzz does nothing: no such name is on the list")
		}
		if k.Detached && k.Base == baseForward {
			bad(name, "detached does nothing: no mark is forwarded")
		}
		if k.About == "" {
			bad(name, "says nothing about itself")
		}
	}
	return errors.Join(errs...)
}
