// SPDX-License-Identifier: MIT

package secret

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// grace is how long a source may take to hand over what it has when its budget is over.
const grace = 500 * time.Millisecond

// Stack is how a home is configured to get secrets from outside. Its zero value has no source.
type Stack struct {
	Sources  []Source // in the order of their registration
	Order    []string // names that come first inside their shape (secrets.sources)
	Preserve []string // names whose own value no source beats (secrets.preserve_existing)
	NoAlias  bool     // secrets.profile_alias: false
	Warnings []string // about the configuration
}

// member is a source of a stack with its spec, which is asked for once.
type member struct {
	src  Source
	spec Spec
}

// enabled returns the sources to ask, best first (P3): mapped before bulk, then as configured,
// then as registered. Sources that cannot be told apart are left out with a warning.
func (s Stack) enabled() (out []member, warnings []string) {
	warnings = slices.Clone(s.Warnings)
	seen := map[string]bool{}
	for _, src := range s.Sources {
		spec := src.Spec()
		switch {
		case !validSource(spec.Name):
			warnings = append(warnings, fmt.Sprintf("a source called %q is ignored: a name has lower-case letters, digits and _", spec.Name))
		case seen[spec.Name]:
			warnings = append(warnings, fmt.Sprintf("a second source called %s is ignored", spec.Name))
		case spec.Enabled:
			out = append(out, member{src, spec})
		}
		seen[spec.Name] = true
	}
	for _, name := range s.Order {
		if !seen[name] {
			warnings = append(warnings, fmt.Sprintf("secrets.sources names %q, which is no source", name))
		}
	}
	place := func(m member) int {
		if i := slices.Index(s.Order, m.spec.Name); i >= 0 {
			return i
		}
		return len(s.Order)
	}
	slices.SortStableFunc(out, func(a, b member) int {
		return cmp.Or(cmp.Compare(a.spec.Shape, b.spec.Shape), cmp.Compare(place(a), place(b)))
	})
	return out, warnings
}

func validSource(name string) bool {
	return validName(name) && name == strings.ToLower(name) && name[0] != '_'
}

// ControlNameError says that a source supplies a name that steers where credentials of a
// routed profile are sent. Nothing of that profile's sources is published (N6).
type ControlNameError struct {
	Source, Name string
	Home         string
}

func (e *ControlNameError) Error() string {
	return fmt.Sprintf("%s: secret source %s supplies %s, which a profile's source may not set; remove it there", e.Home, e.Source, e.Name)
}

// result is what came of asking one source.
type result struct {
	spec    Spec
	values  map[string]Text // what takes part, kept values included
	fetched bool            // the source answered
	report  SourceReport
}

// SourceReport says what came of one source, by the names it supplied; it holds no value.
type SourceReport struct {
	Name      string
	Shape     Shape
	Err       *FetchError       // nil = it answered
	Failed    map[string]Reason // names that it could not get
	Kept      []string          // names whose value is of an earlier fetch
	Claimed   []string          // names that a better source has (skipped_claimed)
	Protected []string          // bootstrap names, never written
	Global    []string          // names of the process, never copied in
	Aliased   []string          // names supplied under the profile's own name (P4)
	Invalid   int               // things that are no name, or no value
}

// ask asks all sources at once, each within its own budget: the failure of one does not stop
// the others. The error is ctx's.
func ask(ctx context.Context, members []member, in Input) ([]result, error) {
	out := make([]result, len(members))
	done := make(chan int, len(members))
	for i, m := range members {
		go func() {
			out[i] = askOne(ctx, m, in)
			done <- i
		}()
	}
	for range members {
		<-done
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return out, nil
}

type answer struct {
	got Fetched
	err error
}

// askOne waits for a source as long as its budget and a moment more; what comes later goes
// nowhere.
func askOne(ctx context.Context, m member, in Input) result {
	r := result{spec: m.spec, report: SourceReport{Name: m.spec.Name, Shape: m.spec.Shape}}
	ctx, cancel := context.WithTimeout(ctx, m.spec.budget())
	defer cancel()
	in.Vars, in.Own = maps.Clone(in.Vars), maps.Clone(in.Own)
	answers := make(chan answer, 1)
	go func() { answers <- call(ctx, m, in) }()
	var a answer
	select {
	case a = <-answers:
	case <-ctx.Done():
		select {
		case a = <-answers:
		case <-time.After(grace):
			a.err = context.DeadlineExceeded
		}
	}
	if a.err != nil {
		r.report.Err = failure(m.spec.Name, a.err)
		if r.report.Err.Reason == TimedOut && r.report.Err.Detail == "" {
			r.report.Err = &FetchError{m.spec.Name, TimedOut, "budget " + m.spec.budget().String()}
		}
		return r
	}
	r.fetched, r.values = true, maps.Clone(a.got.Values)
	r.report.Failed, r.report.Invalid = a.got.Failed, a.got.Ignored
	return r
}

// call contains a source that panics. The text of the panic is not used: it may be a value.
func call(ctx context.Context, m member, in Input) (a answer) {
	defer func() {
		if p := recover(); p != nil {
			a = answer{err: &FetchError{m.spec.Name, Internal, fmt.Sprintf("panic of type %T", p)}}
		}
	}()
	got, err := m.src.Fetch(ctx, in)
	return answer{got, err}
}

// good is a value of an earlier fetch and what it was bound to.
type good struct {
	text    Text
	binding string
}

// keep adds values of earlier fetches that the source could not confirm, unless it said that
// they are gone or is bound to another place now (N5). It returns what to remember.
func (r *result) keep(last map[string]good) map[string]good {
	next := map[string]good{}
	for name, text := range r.values {
		next[name] = good{text, r.spec.binding(name)}
	}
	for name, g := range last {
		_, have := next[name]
		why, failed := r.report.Failed[name]
		lost := !r.fetched && !r.report.Err.Reason.gone() || failed && !why.gone()
		if have || !lost || g.binding == "" || g.binding != r.spec.binding(name) {
			continue
		}
		if r.values == nil {
			r.values = map[string]Text{}
		}
		r.values[name], next[name] = g.text, g
		r.report.Kept = append(r.report.Kept, name)
	}
	slices.Sort(r.report.Kept)
	return next
}

// sorted returns the keys of a map in order.
func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
