// SPDX-License-Identifier: MIT

package approval

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// fromOutside reports whether a variable is not assigned in the command and not one whose
// value is known.
func (k *checker) fromOutside(name string) bool {
	if n, err := strconv.Atoi(name); err == nil {
		return n > 0 && !k.params.known && !k.params.opaque
	}
	if _, ok := k.vars[name]; ok {
		return false
	}
	_, known := k.builtin(name)
	return !known && name != "_"
}

// builtin is the value of variables that a shell or the gateway sets.
func (k *checker) builtin(name string) (string, bool) {
	switch name {
	case "HOME":
		return "~", true
	case "HERMES_HOME":
		if len(k.ctx.Homes) > 0 {
			return k.ctx.Homes[0], true
		}
		return "~/.hermes", true
	case "IFS":
		return " ", true
	case "PWD":
		return k.vars[cwd].values[0], true
	case "PPID":
		return pidGateway, true
	case "0":
		if k.params.known {
			return k.params.name, true
		}
		return qhole, true
	case "?", "#", "$", "!", "-", "RANDOM", "SECONDS", "LINENO", "UID", "EUID", "BASHPID", "USER", "HOSTNAME",
		"PATH", "TMPDIR", "SHELL", "LANG", "TERM", "OLDPWD":
		return qhole, true
	}
	return "", false
}

// lookup returns the values of a name, several for an array, and whether it is set.
func (k *checker) lookup(name string, w world) ([]string, bool) {
	name = k.named(name)
	if name == "@" || name == "*" {
		if k.params.known {
			return k.params.list, len(k.params.list) > 0
		}
		return []string{hole}, true
	}
	if n, err := strconv.Atoi(name); err == nil && n > 0 && (k.params.known || k.params.opaque) {
		switch {
		case k.params.opaque:
			return []string{hole}, true
		case n <= len(k.params.list):
			return []string{k.params.list[n-1]}, true
		}
		return nil, false
	}
	if v, ok := w.pick[name]; ok {
		return []string{v}, true
	}
	if v, ok := k.vars[name]; ok {
		if len(v.array) > 0 {
			return v.array[:1], true
		}
		return v.values[:min(1, len(v.values))], len(v.values) > 0
	}
	if v, ok := k.builtin(name); ok {
		return []string{v}, true
	}
	if w.empty {
		return nil, false
	}
	return []string{hole}, true
}

// param evaluates a parameter expansion. What it cannot evaluate is a hole.
func (k *checker) param(p *syntax.ParamExp, w world) []string {
	unknown := []string{hole}
	if p.Param == nil || p.Flags != nil || p.NestedParam != nil || p.Names != 0 || p.Length || p.Width || p.IsSet || len(p.Modifiers) > 0 {
		return unknown
	}
	vals, set := k.lookup(p.Param.Value, w)
	if p.Index != nil {
		vals, set = k.element(p, w)
	}
	if p.Excl {
		if len(vals) != 1 || hasHole(vals[0]) || !syntax.ValidName(vals[0]) {
			return unknown
		}
		vals, set = k.lookup(vals[0], w)
	}
	if p.Exp != nil {
		return k.expansion(p.Exp, vals, set, w)
	}
	vals = slices.Clone(vals)
	for i, v := range vals {
		switch {
		case p.Slice != nil:
			vals[i] = slice(v, p.Slice)
		case p.Repl != nil:
			vals[i] = replace(v, k.value(p.Repl.Orig, w), k.value(p.Repl.With, w), p.Repl.All)
		}
	}
	return vals
}

func (k *checker) element(p *syntax.ParamExp, w world) ([]string, bool) {
	v, ok := k.vars[p.Param.Value]
	i, isWord := p.Index.(*syntax.Word)
	if !ok || !isWord {
		return []string{hole}, true
	}
	all := v.array
	if all == nil {
		all = v.values
	}
	if at := i.Lit(); at == "@" || at == "*" {
		return all, len(all) > 0
	}
	n, err := strconv.Atoi(k.value(i, w))
	switch {
	case err != nil:
		return []string{hole}, true
	case n < 0:
		n += len(all)
	}
	if n < 0 || n >= len(all) {
		return nil, false
	}
	return all[n : n+1], true
}

func (k *checker) expansion(e *syntax.Expansion, vals []string, set bool, w world) []string {
	filled := set && strings.Join(vals, " ") != ""
	arg := func() []string { return []string{k.value(e.Word, w)} }
	switch e.Op {
	case syntax.DefaultUnset, syntax.AssignUnset:
		if !set {
			return arg()
		}
		return vals
	case syntax.DefaultUnsetOrNull, syntax.AssignUnsetOrNull:
		if !filled {
			return arg()
		}
		return vals
	case syntax.AlternateUnset:
		if set {
			return arg()
		}
		return nil
	case syntax.AlternateUnsetOrNull:
		if filled {
			return arg()
		}
		return nil
	case syntax.ErrorUnset, syntax.ErrorUnsetOrNull:
		if !filled {
			return []string{qhole} // the shell stops here
		}
		return vals
	}
	vals = slices.Clone(vals)
	pattern := k.value(e.Word, w)
	for i, v := range vals {
		vals[i] = trim(e.Op, v, pattern)
	}
	return vals
}

func trim(op syntax.ParExpOperator, v, pattern string) string {
	plain := !strings.ContainsAny(pattern, `*?[\`+holes) && !hasHole(v)
	switch op {
	case syntax.UpperAll:
		return strings.ToUpper(v)
	case syntax.LowerAll:
		return strings.ToLower(v)
	case syntax.RemSmallSuffix, syntax.RemLargeSuffix:
		if plain {
			return strings.TrimSuffix(v, pattern)
		}
	case syntax.RemSmallPrefix, syntax.RemLargePrefix:
		if plain {
			return strings.TrimPrefix(v, pattern)
		}
	}
	return hole
}

func slice(v string, s *syntax.Slice) string {
	from, ok1 := number(s.Offset)
	n, ok2 := number(s.Length)
	if s.Length == nil {
		n, ok2 = len(v), true
	}
	if !ok1 || !ok2 || hasHole(v) {
		return hole
	}
	if from < 0 {
		from += len(v)
	}
	from = min(max(from, 0), len(v))
	to := from + n
	if n < 0 {
		to = len(v) + n
	}
	return v[from:min(max(to, from), len(v))]
}

func number(e syntax.ArithmExpr) (int, bool) {
	switch e := e.(type) {
	case *syntax.Word:
		n, err := strconv.Atoi(e.Lit())
		return n, err == nil && n < maxCommand
	case *syntax.UnaryArithm:
		n, ok := number(e.X)
		return -n, ok && e.Op == syntax.Minus
	case *syntax.ParenArithm:
		return number(e.X)
	}
	return 0, false
}

func replace(v, from, to string, all bool) string {
	if strings.ContainsAny(from, `*?[\`) || from == "" || strings.HasPrefix(from, "#") || strings.HasPrefix(from, "%") ||
		hasHole(v) || hasHole(from) || strings.Count(v, from)*len(to) > maxValue {
		return hole
	}
	n := 1
	if all {
		n = -1
	}
	return strings.Replace(v, from, to, n)
}

// setVar assigns. Where it is not certain that this runs, and runs last, the old values stay
// possible.
func (k *checker) setVar(name string, v variable) {
	name = k.named(name)
	for i, s := range v.values {
		if len(s) > maxValue {
			v.values[i] = hole
		}
	}
	if old, ok := k.vars[name]; k.uncertain > 0 {
		if !ok {
			old.values = []string{hole}
		}
		if v.array == nil {
			v.array = old.array
		}
		v.values = lastOf(append(slices.Clone(old.values), v.values...))
	}
	k.vars[name] = v
}

// assign evaluates one assignment.
func (k *checker) assign(a *syntax.Assign) {
	if a.Naked || a.Name == nil {
		return
	}
	name := a.Name.Value
	old, had := k.vars[name]
	switch {
	case a.Array != nil:
		var words []*syntax.Word
		for _, e := range a.Array.Elems {
			if e.Value != nil {
				words = append(words, e.Value)
			}
		}
		array := k.fields(words, world{})
		if a.Append || k.uncertain > 0 {
			array = append(slices.Clone(old.array), array...)
		}
		k.setVar(name, variable{values: lastOf(array), array: array[:min(len(array), maxFields)]})
	case a.Index != nil:
		k.setVar(name, variable{values: append(slices.Clone(old.values), k.values(a.Value)...), array: append(slices.Clone(old.array), k.values(a.Value)...)})
	case a.Append:
		if !had {
			old.values = []string{hole, ""}
		}
		var values []string
		for _, x := range old.values {
			for _, y := range k.values(a.Value) {
				values = append(values, x+y)
			}
		}
		k.setVar(name, variable{values: lastOf(values)})
	default:
		k.setVar(name, variable{values: k.values(a.Value)})
	}
}

// named is the variable that a name means: it may refer to another one.
func (k *checker) named(name string) string {
	for range maxValues {
		to, ok := k.refs[name]
		if !ok {
			break
		}
		name = to
	}
	return name
}

// declare handles export, declare, local, readonly and typeset.
func (k *checker) declare(d *syntax.DeclClause) {
	refers := false
	for _, a := range d.Args {
		k.nested(a)
		if a.Naked && a.Name == nil && a.Value != nil {
			l, _ := literal(a.Value)
			refers = refers || strings.HasPrefix(l, "-") && strings.Contains(l, "n")
		}
		if refers && a.Name != nil && a.Value != nil {
			if to := k.value(a.Value, world{}); syntax.ValidName(to) {
				k.refs[a.Name.Value] = to
				continue
			}
		}
		if a.Name != nil && !a.Naked {
			k.environment(a.Name.Value, k.values(a.Value))
		}
		k.assign(a)
	}
}

// cd moves the working directory, or does not if it fails.
func (k *checker) cd(args []string) {
	_, rest := options(args, "")
	to := "~"
	if len(rest) > 0 {
		to = rest[0]
	}
	if to == "-" {
		to = hole
	}
	var dirs []string
	for _, d := range k.vars[cwd].values {
		dirs = append(dirs, k.fold(join(d, to)))
	}
	k.setVar(cwd, variable{values: lastOf(dirs)})
}

// cwd is the working directory among the variables, under a name no script can assign.
const cwd = "/"

// join resolves a path in a directory.
func join(dir, p string) string {
	if strings.HasPrefix(p, "/") || strings.HasPrefix(p, "~") || startsUnknown(p) {
		return p
	}
	if strings.HasPrefix(dir, "~") { // path.Join would take ~ for a name
		return dir + "/" + p
	}
	return path.Join(dir, p)
}
