// SPDX-License-Identifier: MIT

package childenv

import (
	"runtime"
	"slices"
	"strings"
)

// The bases that are no allowlist.
const (
	baseOwn     = "own"     // the inherited environment and the profile's own values
	baseForward = "forward" // nothing but what is forwarded
)

// Build returns the environment of a child as KEY=VALUE, inherited variables first in their
// order, then what was added, sorted. The error is a [*Refusal].
func (p *Policy) Build(kind string, s Snapshot) ([]string, error) {
	b := builder{p: p, s: &s, kind: kind, caseless: runtime.GOOS == "windows"}
	if err := b.build(); err != nil {
		return nil, err
	}
	return b.env(), nil
}

// Explain returns what [Policy.Build] decides about every name it meets, sorted by name. It
// never returns a value.
func (p *Policy) Explain(kind string, s Snapshot) ([]Decision, error) {
	b := builder{p: p, s: &s, kind: kind, caseless: runtime.GOOS == "windows", explain: true}
	if err := b.build(); err != nil {
		return nil, err
	}
	return b.report(), nil
}

// entry is one variable on its way.
type entry struct {
	whole  string // NAME=VALUE
	eq     int    // where the "=" is
	folded string
	bits   bits
	origin Origin
	rule   string // why it was dropped; "" = kept
}

func (e *entry) name() string  { return e.whole[:e.eq] }
func (e *entry) value() string { return e.whole[e.eq+1:] }
func (e *entry) kept() bool    { return e.rule == "" }

// builder is one run.
type builder struct {
	p        *Policy
	s        *Snapshot
	kind     string
	k        KindPolicy
	allow    *allowlist // nil = the base is no allowlist
	caseless bool       // names that differ in case are one variable
	explain  bool
	routed   bool
	copied   bool // a verbatim copy: nothing is left out

	entries  []entry
	index    index
	firstNew int             // entries from here on were not inherited
	lost     []Decision      // what was dropped and has no entry
	marks    map[string]bits // what the snapshot says of folded names
	foreign  map[string][]string
	gates    map[string]bool   // prefixes known at run time
	mark     string            // the inherited mark of a board's descendant
	limits   map[string]string // inherited limits that may only be tightened
}

func (b *builder) build() error {
	k, ok := b.p.file.Kinds[b.kind]
	if !ok {
		return &Refusal{Kind: "child of kind " + b.kind, Rule: "KIND", Msg: "no policy for this kind"}
	}
	b.k, b.allow = k, b.p.allow[k.Base]
	if t := b.s.Target; t != nil {
		b.routed = t.Key != b.s.Launch.Key
		b.copied = k.Verbatim && !b.routed
	}
	if err := b.refuse(); err != nil {
		return err
	}
	b.marks = b.marked()
	if b.routed {
		b.foreign, b.gates = foldKeys(b.s.Foreign), b.prefixes()
	}
	room := b.room()
	b.index = newIndex(room)
	b.entries = make([]entry, 0, room)
	b.inherit()
	b.firstNew = len(b.entries)
	b.overlay()
	if !b.copied {
		b.filter()
	}
	for _, v := range b.s.Extra {
		b.extra(v)
	}
	if !b.copied {
		b.finish()
	}
	return nil
}

// refuse reports why nothing may be started.
func (b *builder) refuse() error {
	t := b.s.Target
	no := func(rule, msg string, err error) error { return &Refusal{Kind: b.kind, Rule: rule, Msg: msg, Err: err} }
	switch {
	case t == nil && b.s.Multiplexed:
		return no("S3", "the process serves many profiles and none is bound to this task", nil)
	case t == nil:
		return no("R12", "no profile is bound to this task", nil)
	case t.Key == "" || t.Dir == "":
		return no("R12", "the profile bound to this task has no home", nil)
	case b.k.RefuseTerminal && t.TerminalRefused != "":
		return no("P8", "the profile's terminal policy cannot be read: "+t.TerminalRefused, nil)
	case t.DeclaredErr != nil:
		return no("M4", "a platform plugin's manifest cannot be read", t.DeclaredErr)
	case b.k.BackendKeys && t.BackendErr != nil && !b.copied:
		return no("GAP-backend", "the credentials of plugin backends cannot be told", t.BackendErr)
	}
	return nil
}

// inherit takes over the environment of this process, without what must stay behind.
func (b *builder) inherit() {
	for _, kv := range b.s.Inherited {
		i := b.split(kv)
		if i <= 0 || strings.IndexByte(kv, 0) >= 0 {
			continue // no variable
		}
		e := entry{whole: kv, eq: i, folded: fold(kv[:i]), origin: Inherited}
		e.bits = b.bitsOf(e.folded)
		switch {
		case e.bits&isMarkerName != 0:
			b.mark = e.value()
		case e.bits&isTightenedName != 0 && b.routed:
			b.limit(&e)
		}
		if !b.copied {
			e.rule = b.staysBehind(&e)
		}
		b.put(e)
	}
}

// split returns where the "=" of a variable is. On Windows a name that starts with one says
// which directory is current on a drive; it stays with this process's own profile.
func (b *builder) split(kv string) int {
	if b.caseless && !b.routed && b.k.Base == baseOwn && strings.HasPrefix(kv, "=") {
		return 1 + strings.IndexByte(kv[1:], '=')
	}
	return strings.IndexByte(kv, '=')
}

// overlay puts the target's own values over the base, then the administrator's, then the
// config's.
func (b *builder) overlay() {
	t := b.s.Target
	for _, v := range t.Vars {
		f := fold(v.Name)
		x := b.bitsOf(f)
		switch {
		case v.Origin == Source && x&(isGlobalName|isProxyName) != 0:
			b.note(v, "S1") // names of the host are never taken from a source
			continue
		case b.k.Applied && (v.Origin != Source || x&isApplied == 0):
			b.note(v, "N2")
			continue
		case v.Origin == "" || v.Origin == Inherited:
			v.Origin = Dotenv
		}
		v.Fill = v.Fill || v.Origin == OpEnv
		b.add(v)
	}
	for _, v := range b.s.Managed {
		v.Origin, v.Fill = Managed, false // L6: it beats every profile
		b.add(v)
	}
	for _, v := range t.Bridge {
		v.Origin = Bridge
		if b.k.Applied {
			b.note(v, "N2")
			continue
		}
		b.add(v)
	}
}

// add puts one value over what is there.
func (b *builder) add(v Var) {
	e, ok := b.entry(v)
	if !ok {
		return
	}
	if old := b.find(v.Name); old != nil && old.kept() {
		if v.Fill || b.loosens(&e) {
			return
		}
	}
	b.put(e)
}

func (b *builder) limit(e *entry) {
	if b.limits == nil {
		b.limits = map[string]string{}
	}
	b.limits[e.folded] = e.value()
}

// loosens reports whether a profile would widen a limit that this process inherited and that
// profiles may only tighten.
func (b *builder) loosens(e *entry) bool {
	limit, limited := b.limits[e.folded]
	return limited && e.origin != Managed && !smaller(e.value(), limit)
}

// entry makes an entry of a value; ok is false if it is no variable.
func (b *builder) entry(v Var) (e entry, ok bool) {
	if v.Name == "" || strings.ContainsAny(v.Name, "=\x00") || strings.IndexByte(v.Value, 0) >= 0 {
		return entry{}, false
	}
	f := fold(v.Name)
	x := b.bitsOf(f)
	if x&isLineageName != 0 {
		b.note(v, b.p.file.Lineage.Rule)
		return entry{}, false
	}
	return entry{whole: v.Name + "=" + v.Value, eq: len(v.Name), folded: f, bits: x, origin: v.Origin}, true
}

// put adds a variable, or replaces the one of the same name.
func (b *builder) put(e entry) {
	slot, at := b.place(e.name())
	if at < 0 {
		b.index.slots[slot] = int32(len(b.entries)) + 1
		b.entries = append(b.entries, e)
		return
	}
	if old := &b.entries[at]; b.explain && !old.kept() {
		b.lost = append(b.lost, Decision{old.name(), false, old.origin, old.rule})
	}
	b.entries[at] = e
}

// find returns the variable of that name, nil if there is none.
func (b *builder) find(name string) *entry {
	if _, at := b.place(name); at >= 0 {
		return &b.entries[at]
	}
	return nil
}

// note records a value that did not even get an entry.
func (b *builder) note(v Var, rule string) {
	if b.explain {
		b.lost = append(b.lost, Decision{v.Name, false, v.Origin, rule})
	}
}

// env returns the result.
func (b *builder) env() []string {
	out := make([]string, 0, len(b.entries))
	added := 0
	for i := range b.entries {
		if i == b.firstNew {
			added = len(out)
		}
		if e := &b.entries[i]; e.kept() {
			out = append(out, e.whole)
		}
	}
	if b.firstNew < len(b.entries) {
		slices.Sort(out[added:])
	}
	return out
}

// report returns a decision for every name that was met.
func (b *builder) report() []Decision {
	out := slices.Clone(b.lost)
	for i := range b.entries {
		e := &b.entries[i]
		out = append(out, Decision{e.name(), e.kept(), e.origin, e.rule})
	}
	slices.SortStableFunc(out, func(x, y Decision) int {
		if c := strings.Compare(x.Name, y.Name); c != 0 {
			return c
		}
		return strings.Compare(string(x.Origin), string(y.Origin))
	})
	return out
}
