// SPDX-License-Identifier: MIT

package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/hermes-appliance/hermes-appliance/migrate/yamlspan"
)

// View reads a Config on behalf of one profile. Every reader of a value returns the zero
// value where there is none or where it is null ([Config.Has] tells), and an [*Error] of
// [ErrType] where it is something else than asked for.
type View struct {
	*Config
	lookup Lookup
}

// With returns a view that resolves ${NAME} through lookup; nil leaves them as they are.
func (c *Config) With(lookup Lookup) View { return View{c, lookup} }

// find returns the leaf at a path, or the error of a section that is there, or of something
// else on the way. ok is false where there is nothing, or null.
func (v View) find(path []string, want string) (l leaf, ok bool, err error) {
	for id, l := range v.misfits {
		if at := split(id); len(at) < len(path) && hasPrefix(path, at) {
			return leaf{}, false, l.misfit(at)
		}
	}
	l, section, ok := v.at(path)
	switch {
	case section:
		e := &Error{Kind: ErrType, Path: path, Msg: "is a section of keys; expected " + want}
		e.File, e.Line = v.sectionAt(path)
		return leaf{}, false, e
	case ok:
		return l, l.value() != nil, nil
	}
	for i := 1; i < len(path); i++ {
		if l, _, ok := v.at(path[:i]); ok && l.layer != nil && l.value() != nil {
			return leaf{}, false, l.misfit(path[:i])
		}
	}
	return leaf{}, false, nil
}

// sectionAt returns the file, and the line in it, that first comes to a section from above.
func (c *Config) sectionAt(path []string) (file string, line int) {
	for _, o := range []Origin{Admin, User, Default} {
		if l := c.layers[o]; l != nil {
			if f, ok := l.doc.Find(path...); ok {
				return l.file, f.Line
			}
		}
	}
	return c.path, 0
}

func hasPrefix(path, prefix []string) bool {
	for i, p := range prefix {
		if path[i] != p {
			return false
		}
	}
	return true
}

// wrong is the error of a value that is not what was expected.
func (l leaf) wrong(path []string, want string) *Error {
	e := &Error{
		Kind: ErrType, File: l.layer.file, Line: l.line(), Path: path,
		Msg: "is " + kindOf(l.node) + "; expected " + want,
	}
	if s, ok := l.value().(string); ok {
		if name, _, _ := reference(s); name != "" {
			e.Msg = fmt.Sprintf("refers to ${%s}, which does not give %s", name, want)
			e.Fix = "set " + name + " in .env"
		}
	}
	return e
}

// typed returns the value of a leaf; text is resolved once more, as if it were written
// without quotes: what a variable gives is always text.
func (v View) typed(l leaf) any {
	x := l.value()
	s, ok := x.(string)
	if !ok {
		return x
	}
	text := strings.TrimSpace(v.lookup.expand(s))
	return yamlspan.Resolve(&yamlspan.Node{Kind: yamlspan.Scalar, Style: yamlspan.Plain, Value: text})
}

// String returns a text. Numbers and words like off come as they are written in the file.
func (v View) String(path ...string) (string, error) {
	l, ok, err := v.find(path, "text")
	if !ok || err != nil {
		return "", err
	}
	return v.text(l, l.node, path)
}

// text returns the text of a scalar at, or in, a leaf.
func (v View) text(l leaf, n *yamlspan.Node, path []string) (string, error) {
	switch yamlspan.Resolve(n).(type) {
	case string:
		return v.lookup.expand(n.Value), nil
	case bool, int64, float64:
		return n.Value, nil
	}
	return "", l.wrong(path, "text")
}

// Bool returns true or false; yes, no, on, off, 1 and 0 count too, with or without quotes.
func (v View) Bool(path ...string) (bool, error) {
	const want = "true or false"
	l, ok, err := v.find(path, want)
	if !ok || err != nil {
		return false, err
	}
	switch x := v.typed(l).(type) {
	case bool:
		return x, nil
	case int64:
		if x == 0 || x == 1 {
			return x == 1, nil
		}
	}
	return false, l.wrong(path, want)
}

// Int returns a whole number.
func (v View) Int(path ...string) (int64, error) {
	const want = "a whole number"
	l, ok, err := v.find(path, want)
	if !ok || err != nil {
		return 0, err
	}
	switch x := v.typed(l).(type) {
	case int64:
		return x, nil
	case float64:
		if x == math.Trunc(x) && math.Abs(x) < 1<<63 {
			return int64(x), nil
		}
	}
	return 0, l.wrong(path, want)
}

// Float returns a number, never an infinite one or one that is none.
func (v View) Float(path ...string) (float64, error) { return v.float(path, "a number") }

func (v View) float(path []string, want string) (float64, error) {
	l, ok, err := v.find(path, want)
	if !ok || err != nil {
		return 0, err
	}
	switch x := v.typed(l).(type) {
	case int64:
		return float64(x), nil
	case float64:
		if !math.IsInf(x, 0) && !math.IsNaN(x) {
			return x, nil
		}
	}
	return 0, l.wrong(path, want)
}

// Duration returns a time that the file gives in seconds, with or without a fraction.
func (v View) Duration(path ...string) (time.Duration, error) {
	const want = "a number of seconds"
	s, err := v.float(path, want)
	if err != nil {
		return 0, err
	}
	if d := s * float64(time.Second); d >= 0 && d < math.MaxInt64 {
		return time.Duration(d), nil
	}
	l, _, _ := v.find(path, want) //nolint:errcheck // it was found before
	return 0, l.wrong(path, want+", not negative")
}

// Strings returns a list of texts; numbers and words like off come as they are written. An
// absent list is nil, an empty one is not.
func (v View) Strings(path ...string) ([]string, error) {
	const want = "a list of texts"
	l, ok, err := v.find(path, want)
	if !ok || err != nil {
		return nil, err
	}
	if !isList(l.node) {
		return nil, l.wrong(path, want)
	}
	out := []string{}
	for i, it := range l.node.Items {
		n, err := l.layer.deref(it)
		if err != nil {
			return nil, err
		}
		s, err := v.text(l, n, path)
		if err != nil {
			return nil, &Error{
				Kind: ErrType, File: l.layer.file, Line: l.layer.doc.Line(it.Start), Path: path,
				Msg: fmt.Sprintf("item %d is %s; expected text", i+1, kindOf(n)),
			}
		}
		out = append(out, s)
	}
	return out, nil
}

// Map returns a section with all below it, decoded as [View.Value] does; nil for none. The
// caller may change it.
func (v View) Map(path ...string) (map[string]any, error) {
	x, err := v.Value(path...)
	if m, ok := x.(map[string]any); ok || err != nil || x == nil {
		return m, err
	}
	l, _, _ := v.at(path)
	return nil, l.misfit(path)
}

// Value returns what is at a path, decoded: nil, bool, int64, float64, string, []any or
// map[string]any, with the variables in every text resolved. The caller may change it.
func (v View) Value(path ...string) (any, error) {
	for id, l := range v.misfits {
		at := split(id)
		if n := min(len(at), len(path)); hasPrefix(path[:n], at[:n]) {
			return nil, l.misfit(at)
		}
	}
	l, section, ok := v.at(path)
	switch {
	case section:
		return v.section(path)
	case !ok:
		_, _, err := v.find(path, "")
		return nil, err
	}
	return v.decode(l, path)
}

func (v View) decode(l leaf, path []string) (any, error) {
	w := walker{layer: l.layer, left: maxValues}
	x, err := w.decode(l.node, v.lookup.expand, 0)
	if err != nil {
		e := unparsable(l.layer.file, err)
		return nil, &Error{Kind: ErrType, File: e.File, Line: e.Line, Path: path, Msg: e.Msg, Err: err}
	}
	return x, nil
}

// section decodes a section: its parts come sorted, each section before what is in it.
func (v View) section(path []string) (any, error) {
	id, _ := join(path)
	out := map[string]any{}
	in := map[string]map[string]any{id: out}
	for _, below := range v.below(id) {
		cut := strings.LastIndex(below, delim)
		parent, key := in[below[:cut]], below[cut+1:]
		if v.sections[below] {
			in[below] = map[string]any{}
			parent[key] = in[below]
			continue
		}
		l, _, _ := v.at(split(below))
		x, err := v.decode(l, split(below))
		if err != nil {
			return nil, err
		}
		parent[key] = x
	}
	return out, nil
}

// Each calls f with every value of every file, also of those that another file decides, and the
// key it stands behind. What cannot be decoded nobody can read, and it is left out.
func (v View) Each(f func(key string, value any)) {
	for _, l := range v.leaves {
		w := walker{layer: l.layer, left: maxValues}
		if x, err := w.decode(l.node, v.lookup.expand, 0); err == nil {
			f(l.key.Value, x)
		}
	}
}

// TopLevel returns the scalars at the top of the user's and the administrator's file, as
// upstream copies them into the environment; defaults are not among them, nor is the version
// of the file or a null. The map is the caller's.
func (v View) TopLevel() (map[string]string, error) {
	out := map[string]string{}
	for _, l := range v.leaves {
		name := l.key.Value
		at, section, ok := v.at([]string{name})
		if l.layer.from == Default || name == stampKey || !ok || section || at.node != l.node {
			continue
		}
		x, err := v.decode(l, []string{name})
		if err != nil {
			return nil, err
		}
		switch x := x.(type) {
		case string:
			out[name] = x
		case bool:
			out[name] = map[bool]string{true: "True", false: "False"}[x]
		case int64:
			out[name] = strconv.FormatInt(x, 10)
		case float64:
			out[name] = strconv.FormatFloat(x, 'g', -1, 64)
		}
	}
	return out, nil
}
