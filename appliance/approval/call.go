// SPDX-License-Identifier: MIT

package approval

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// call looks at a simple command: what its words run, what it assigns, and what it runs.
func (k *checker) call(c *syntax.CallExpr, in input) {
	for _, a := range c.Assigns {
		k.nested(a)
	}
	to := input{present: true, remote: in.remote} // what the program writes to >(command)
	if len(c.Args) > 0 && literalName(c.Args[0]) == "tee" {
		to.text, to.known = in.text, in.known
	}
	for _, w := range c.Args {
		k.nestedIn(w, to)
	}
	assign := func() {
		for _, a := range c.Assigns {
			if a.Name != nil && a.Value != nil {
				k.environment(a.Name.Value, k.values(a.Value))
			}
			k.assign(a)
		}
	}
	if len(c.Args) == 0 {
		assign()
		return
	}
	k.maybe(assign) // for this command only
	for _, w := range k.worlds(c.Args) {
		argv := k.fields(c.Args, w)
		if w.empty {
			k.when(w.why, func() { k.run(argv, in, c) })
			continue
		}
		k.run(argv, in, c)
	}
}

// literalName is the canonical name of a command that is written out.
func literalName(w *syntax.Word) string {
	l, _ := literal(w)
	return canonical(l)
}

// run looks at one command with its arguments. node is where it stands in the source, or nil.
func (k *checker) run(argv []string, in input, node syntax.Node) {
	for len(argv) > 0 && argv[0] == "" {
		argv = argv[1:]
	}
	if len(argv) == 0 || !k.deeper() {
		return
	}
	defer func() { k.depth-- }()
	k.candidate(strings.Join(argv, " "))
	base := path.Base(argv[0])
	if base != argv[0] {
		k.candidate(strings.Join(append([]string{base}, argv[1:]...), " "))
	}
	if hasHole(base) || strings.Contains(argv[0], hole) || base != "[" && strings.ContainsAny(base, "*?[") {
		k.opaque(argv, in, node)
		return
	}
	name := canonical(base)
	if name != strings.ToLower(base) {
		k.emit(OddText)
	}
	k.script(argv, in, node)
	if base == argv[0] {
		k.local(argv, in)
	}
	for _, a := range argv[1:] {
		switch {
		case metadataHost.MatchString(a):
			k.emit(NetMetadata)
		case apiApproval.MatchString(a):
			k.emit(HermesTrust) // an answer to its own question
		case controlSocket.MatchString(a) && speaks(name):
			k.when("if it is told to pause", func() { k.emit(FloorGateway) })
		}
	}
	k.dispatch(command{name: name, args: argv[1:], in: in, node: node})
}

var metadataHost = regexp.MustCompile(`(^|[^\d.])(169\.254\.169\.254|100\.100\.100\.200)($|[^\d.])|(^|[^\w.-])metadata\.google\.internal($|[^\w.-])|fd00:ec2::254`)

var (
	apiApproval   = regexp.MustCompile(`/v1/runs/[^/\s]+/approval\b`)
	controlSocket = regexp.MustCompile(`(^|[/:=])(gateway\.sock|hermes-gw-[0-9a-f]+\.sock)\b`)
)

// speaks reports whether a command speaks to a socket.
func speaks(name string) bool {
	return slices.Contains([]string{"nc", "ncat", "netcat", "socat", "curl", "wget", "websocat"}, name)
}

// opaque is a command whose name is not known. It may be nothing but a prefix of the next.
func (k *checker) opaque(argv []string, in input, node syntax.Node) {
	k.emit(CommandOpaque)
	if strings.ContainsAny(argv[0], "*?[") {
		for _, name := range []string{"rm", "dd", "mkfs", "shutdown", "reboot", "bash", "sh"} {
			if ok, err := path.Match(path.Base(argv[0]), name); err == nil && ok {
				k.when("if the pattern means "+name, func() { k.run(append([]string{name}, argv[1:]...), in, node) })
			}
		}
	}
	if len(argv) > 1 && !strings.HasPrefix(argv[1], "-") {
		k.when("behind a command that is not known", func() { k.run(argv[1:], in, node) })
	}
}

// local runs a function or an alias of this command's own.
func (k *checker) local(argv []string, in input) {
	name := argv[0]
	if k.running[name] {
		return
	}
	k.running[name] = true
	defer delete(k.running, name)
	if body, ok := k.funcs[name]; ok {
		saved := k.params
		k.params = params{name: name, list: argv[1:], known: true}
		k.maybe(func() { k.stmt(body, in) })
		k.params = saved
	}
	if text, ok := k.aliases[name]; ok {
		k.sourced(text+" "+quoteAll(argv[1:]), in)
	}
}

// script looks into a file that this command wrote before.
func (k *checker) script(argv []string, in input, node syntax.Node) {
	if !strings.Contains(argv[0], "/") {
		return
	}
	places := k.resolve(argv[0])
	if p, ok := k.copies[places[0]]; ok {
		places = append(places, p)
	}
	for _, p := range places[1:] { // a link or copy of another program
		if base := path.Base(p); base != path.Base(argv[0]) {
			k.run(append([]string{base}, argv[1:]...), in, node)
		}
	}
	if f, ok := k.fileInput(argv[0]); ok {
		k.shellInput(f, argv)
	}
}

// fileInput is what an argument that names a file yields: a process substitution, or what
// this command wrote.
func (k *checker) fileInput(name string) (input, bool) {
	if n, ok := strings.CutPrefix(name, procSubst); ok {
		if i, err := strconv.Atoi(n); err == nil && i < len(k.procs) {
			return k.procs[i], true
		}
	}
	for _, p := range k.resolve(name) {
		for _, p := range []string{p, k.copies[p]} {
			if f, ok := k.files[p]; ok {
				return f, true
			}
		}
	}
	return input{}, false
}

// shellInput looks at text that a shell runs as a script.
func (k *checker) shellInput(in input, argv []string) {
	switch {
	case !in.present:
	case in.known && !hasHole(in.text):
		k.payload(in.text, input{}, argv)
	case in.remote:
		k.emit(ShellRemote)
	default:
		if in.known {
			k.payload(in.text, input{}, argv)
		}
		k.emit(ShellPipe)
	}
}

// redirects looks at what a statement writes to and returns what it reads.
func (k *checker) redirects(s *syntax.Stmt, in input) input {
	for _, r := range s.Redirs {
		if r.Hdoc != nil {
			k.nested(r.Hdoc)
		}
		if r.Word == nil {
			continue
		}
		k.nestedIn(r.Word, k.written(s, in))
		if !isWrite(r.Op) && r.Op != syntax.RdrIn && r.Op != syntax.DplIn {
			continue
		}
		for _, w := range k.worlds([]*syntax.Word{r.Word}) {
			to := k.value(r.Word, w)
			if isNet(to) {
				k.emit(NetShell)
			}
			if !isWrite(r.Op) || r.Op == syntax.DplOut && isFD(to) {
				continue
			}
			if w.empty {
				k.when(w.why, func() { k.write(to) })
				continue
			}
			k.write(to)
			k.remember(s, r, to, in)
		}
	}
	return k.stdin(s, in, world{})
}

// remember notes what a statement writes to a file, for when it is run afterwards.
func (k *checker) remember(s *syntax.Stmt, r *syntax.Redirect, to string, in input) {
	if hasHole(to) || r.N != nil && r.N.Value != "1" {
		return
	}
	f := k.written(s, in)
	name := k.resolve(to)[0]
	if old, ok := k.files[name]; ok && (r.Op == syntax.AppOut || k.uncertain > 0) {
		f = input{text: old.text + "\n" + f.text, present: true, known: old.known && f.known, remote: old.remote || f.remote}
	}
	if len(f.text) > maxCommand {
		f.text, f.known = "", false
	}
	if f.known || f.remote || s.Cmd != nil {
		k.files[name] = f
	}
}

// written is what a statement writes to where its output goes.
func (k *checker) written(s *syntax.Stmt, in input) input {
	bare := &syntax.Stmt{Cmd: s.Cmd, Redirs: slices.DeleteFunc(slices.Clone(s.Redirs), func(x *syntax.Redirect) bool { return isWrite(x.Op) })}
	f := input{present: true, remote: s.Cmd != nil && fetches(s)}
	f.text, f.known = k.output(bare, in, world{})
	return f
}

// stdin is what a statement reads once its redirections are in place.
func (k *checker) stdin(s *syntax.Stmt, in input, w world) input {
	for _, r := range s.Redirs {
		if r.N != nil && r.N.Value != "0" {
			continue
		}
		switch r.Op {
		case syntax.Hdoc, syntax.DashHdoc:
			in = input{text: k.heredoc(r, w), present: true, known: true}
		case syntax.WordHdoc:
			in = input{text: k.value(r.Word, w) + "\n", present: true, known: true, remote: fetches(r.Word)}
		case syntax.RdrIn:
			name := k.value(r.Word, w)
			f, ok := k.fileInput(name)
			switch {
			case ok:
			case pidFile(name):
				f = input{text: pidGateway, present: true, known: true}
			default:
				f = input{present: strings.HasPrefix(name, "/dev/tcp/")}
			}
			in = f
		}
		if in.known && in.remote && hasHole(in.text) {
			in.known = false
		}
	}
	return in
}

func (k *checker) heredoc(r *syntax.Redirect, w world) string {
	if r.Hdoc == nil {
		return ""
	}
	raw := false
	for _, p := range r.Word.Parts {
		l, ok := p.(*syntax.Lit)
		raw = raw || !ok || strings.Contains(l.Value, `\`)
	}
	b := fieldBuilder{k: k, w: w, whole: true}
	for _, p := range r.Hdoc.Parts {
		if l, ok := p.(*syntax.Lit); ok && raw {
			b.add(l.Value)
			continue
		}
		b.part(p, true, false)
	}
	b.flush()
	text := strings.Join(b.out, "")
	if r.Op == syntax.DashHdoc {
		text = leadingTabs.ReplaceAllString(text, "")
	}
	return strings.ReplaceAll(text, "\r\n", "\n")
}

var leadingTabs = regexp.MustCompile(`(?m)^\t+`)

func isWrite(op syntax.RedirOperator) bool {
	switch op {
	case syntax.RdrOut, syntax.AppOut, syntax.RdrInOut, syntax.DplOut, syntax.RdrClob, syntax.RdrAll, syntax.AppAll,
		syntax.AppClob, syntax.RdrAllClob, syntax.AppAllClob:
		return true
	}
	return false
}

func isFD(s string) bool { return s == "-" || strings.Trim(s, "0123456789-") == "" }

func isNet(s string) bool {
	return strings.HasPrefix(s, "/dev/tcp/") || strings.HasPrefix(s, "/dev/udp/")
}

func quoteAll(args []string) string {
	var out []string
	for _, a := range args {
		q := "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		if hasHole(a) {
			q = a
		}
		out = append(out, q)
	}
	return strings.Join(out, " ")
}
