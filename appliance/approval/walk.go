// SPDX-License-Identifier: MIT

package approval

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

func (k *checker) stmts(list []*syntax.Stmt, in input) {
	for _, s := range list {
		k.stmt(s, in)
	}
}

func (k *checker) stmt(s *syntax.Stmt, in input) {
	if s == nil || !k.deeper() {
		return
	}
	defer func() { k.depth-- }()
	if !k.fixed {
		start, end := k.start, k.end
		k.start, k.end = span(s)
		defer func() { k.start, k.end = start, end }()
	}
	in = k.redirects(s, in)
	k.command(s.Cmd, in)
}

func span(n syntax.Node) (start, end int) { return int(n.Pos().Offset()), int(n.End().Offset()) }

func (k *checker) command(c syntax.Command, in input) {
	switch c := c.(type) {
	case nil:
	case *syntax.CallExpr:
		k.call(c, in)
	case *syntax.BinaryCmd:
		k.binary(c, in)
	case *syntax.Block:
		k.stmts(c.Stmts, in)
	case *syntax.Subshell:
		k.subshell(func() { k.stmts(c.Stmts, in) })
	case *syntax.IfClause:
		for ; c != nil; c = c.Else {
			k.stmts(c.Cond, in)
			k.maybe(func() { k.stmts(c.Then, in) })
		}
	case *syntax.WhileClause:
		k.loop(in, c.Cond, c.Do)
	case *syntax.ForClause:
		k.forLoop(c, in)
	case *syntax.CaseClause:
		k.nested(c.Word)
		for _, item := range c.Items {
			for _, p := range item.Patterns {
				k.nested(p)
			}
			k.maybe(func() { k.stmts(item.Stmts, in) })
		}
	case *syntax.FuncDecl:
		k.define(c, in)
	case *syntax.DeclClause:
		k.declare(c)
	case *syntax.TimeClause:
		k.stmt(c.Stmt, in)
	case *syntax.CoprocClause:
		k.subshell(func() { k.stmt(c.Stmt, input{}) })
	default: // arithmetic and tests: only what they run inside counts
		k.nested(c)
	}
}

// binary takes chains of && and || and pipelines apart without recursing along them.
func (k *checker) binary(b *syntax.BinaryCmd, in input) {
	if b.Op == syntax.Pipe || b.Op == syntax.PipeAll {
		k.pipeline(b, in)
		return
	}
	var rest []*syntax.Stmt
	first := &syntax.Stmt{Cmd: b}
	for {
		x, ok := first.Cmd.(*syntax.BinaryCmd)
		if !ok || x.Op == syntax.Pipe || x.Op == syntax.PipeAll || len(first.Redirs) > 0 {
			break
		}
		rest = append(rest, x.Y)
		first = x.X
	}
	k.stmt(first, in)
	k.maybe(func() {
		for _, r := range slices.Backward(rest) {
			k.stmt(r, in)
		}
	})
}

func (k *checker) pipeline(b *syntax.BinaryCmd, in input) {
	stages := stages(b)
	from := len(k.candidates)
	k.maybe(func() {
		for i, s := range stages {
			k.stmt(s, in)
			if i == len(stages)-1 {
				break
			}
			text, known := k.output(s, in, world{})
			in = input{text: text, known: known, present: true, remote: in.remote || fetches(s), own: in.own || k.mentionsGateway(s)}
		}
	})
	if from < len(k.candidates) {
		k.candidate(strings.Join(k.candidates[from:], " | "))
	}
}

// stages are the statements of a pipeline, in order. The parser nests either way.
func stages(b *syntax.BinaryCmd) []*syntax.Stmt {
	var out []*syntax.Stmt
	todo := []*syntax.Stmt{{Cmd: b}}
	for len(todo) > 0 {
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		x, ok := s.Cmd.(*syntax.BinaryCmd)
		if ok && (x.Op == syntax.Pipe || x.Op == syntax.PipeAll) && len(s.Redirs) == 0 {
			todo = append(todo, x.Y, x.X)
			continue
		}
		out = append(out, s)
	}
	return out
}

// loop looks at a body twice, so that what one round assigns is seen by the next.
func (k *checker) loop(in input, lists ...[]*syntax.Stmt) {
	rounds := 2
	if k.loops >= 3 {
		rounds = 1
	}
	k.loops++
	k.maybe(func() {
		for range rounds {
			for _, l := range lists {
				k.stmts(l, in)
			}
		}
	})
	k.loops--
}

func (k *checker) forLoop(c *syntax.ForClause, in input) {
	k.nested(c.Loop)
	if w, ok := c.Loop.(*syntax.WordIter); ok {
		var values []string
		if w.InPos.IsValid() {
			values = k.allFields(w.Items)
		} else if values = k.params.list; !k.params.known {
			values = []string{qhole}
		}
		k.setVar(w.Name.Value, variable{values: lastOf(values)})
	}
	k.loop(in, c.Do)
}

// lastOf keeps the values that are looked at one by one; a hole stands for the others.
func lastOf(values []string) []string {
	var out []string
	for _, value := range slices.Backward(values) {
		if len(out) == maxValues {
			return append(out, qhole)
		}
		if !slices.Contains(out, value) {
			out = append(out, value)
		}
	}
	return out
}

// define notes a function, looks into it, and recognises a fork bomb: a function that starts
// itself in the background, or twice in one pipeline.
func (k *checker) define(f *syntax.FuncDecl, in input) {
	if f.Name == nil || f.Body == nil {
		k.maybe(func() { k.stmt(f.Body, in) })
		return
	}
	name := f.Name.Value
	if forks(f.Body, name) {
		k.emit(FloorForkBomb)
	}
	saved := k.params
	k.params = params{opaque: true}
	k.maybe(func() { k.stmt(f.Body, input{}) })
	k.params = saved
	k.funcs[name] = f.Body
}

func forks(body *syntax.Stmt, name string) bool {
	type frame struct {
		node  syntax.Node
		calls int // seen before the node
		sides int // of a pipeline that call the function
	}
	var open []frame
	seen, bomb := 0, false
	syntax.Walk(body, func(n syntax.Node) bool {
		if n != nil {
			if c, ok := n.(*syntax.CallExpr); ok && len(c.Args) > 0 {
				if l, ok := literal(c.Args[0]); ok && l == name {
					seen++
				}
			}
			open = append(open, frame{node: n, calls: seen})
			return true
		}
		f := open[len(open)-1]
		open = open[:len(open)-1]
		switch n := f.node.(type) {
		case *syntax.Stmt:
			if seen > f.calls && len(open) > 0 {
				open[len(open)-1].sides++
			}
			bomb = bomb || n.Background && seen > f.calls
		case *syntax.BinaryCmd:
			bomb = bomb || (n.Op == syntax.Pipe || n.Op == syntax.PipeAll) && f.sides == 2
		}
		return true
	})
	return bomb
}

// fetches reports whether something in a tree reads from the network.
func fetches(n syntax.Node) bool {
	found := false
	syntax.Walk(n, func(n syntax.Node) bool {
		if c, ok := n.(*syntax.CallExpr); ok {
			for _, w := range c.Args {
				l, _ := literal(w)
				switch canonical(l) {
				case "curl", "wget", "fetch", "aria2c", "http", "https", "nc", "ncat", "socat", "lynx", "w3m":
					found = true
				}
			}
		}
		return !found
	})
	return found
}

// mentionsGateway reports whether a literal word in a tree names this gateway, as in
// ps | grep hermes.
func (k *checker) mentionsGateway(n syntax.Node) bool {
	found := false
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Word:
			l, _ := literal(n)
			found = found || l != "" && (!strings.Contains(l, "/") && k.namesGateway(l) || pidFile(l))
		case *syntax.CallExpr:
			found = found || k.greps(n)
		}
		return !found
	})
	return found
}

// greps reports whether a call picks this gateway out of a list of processes.
func (k *checker) greps(c *syntax.CallExpr) bool {
	var argv []string
	for _, w := range c.Args {
		l, _ := literal(w)
		argv = append(argv, l)
	}
	if len(argv) < 2 || slices.Contains(argv, "-v") {
		return false
	}
	switch literalName(c.Args[0]) {
	case "grep", "egrep", "fgrep", "rg", "ag":
		return k.findsGateway(argv[1:])
	}
	return false
}

// findsGateway reports whether one of the patterns of a search fits this gateway's process.
func (k *checker) findsGateway(args []string) bool {
	_, patterns := options(args, "uUgGPtsnFomABC")
	return slices.ContainsFunc(patterns, func(p string) bool { return len(p) > 2 && !hasHole(p) && matchesGateway(p) })
}

// nested looks at the commands that a word, a test or an arithmetic expression runs.
func (k *checker) nested(n syntax.Node) { k.nestedIn(n, input{present: true}) }

// nestedIn is nested where it is known what a >(command) reads.
func (k *checker) nestedIn(n syntax.Node, in input) {
	if isNil(n) {
		return
	}
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CmdSubst:
			k.subshell(func() { k.stmts(n.Stmts, input{}) })
			return false
		case *syntax.ProcSubst:
			to := input{}
			if n.Op == syntax.CmdOut {
				to = in
			}
			k.subshell(func() { k.stmts(n.Stmts, to) })
			return false
		case *syntax.ParamExp:
			if n.Exp != nil && (n.Exp.Op == syntax.AssignUnset || n.Exp.Op == syntax.AssignUnsetOrNull) && n.Param != nil {
				k.setVar(n.Param.Value, variable{values: k.values(n.Exp.Word)})
			}
		}
		return true
	})
}

func isNil(n syntax.Node) bool {
	if n == nil {
		return true
	}
	w, ok := n.(*syntax.Word)
	return ok && w == nil
}
