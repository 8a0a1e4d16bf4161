// SPDX-License-Identifier: MIT

package approval

import (
	"encoding/base64"
	"encoding/hex"
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// outputOf is what statements write, where that can be told without running them.
func (k *checker) outputOf(list []*syntax.Stmt, in input, w world) (string, bool) {
	var b strings.Builder
	for _, s := range list {
		text, known := k.output(s, in, w)
		if !known || b.Len()+len(text) > maxCommand {
			return "", false
		}
		b.WriteString(text)
	}
	return b.String(), true
}

func (k *checker) output(s *syntax.Stmt, in input, w world) (string, bool) {
	if k.steps++; k.steps > maxSteps {
		return "", false
	}
	if s.Cmd == nil { // $(< file)
		in = k.stdin(s, input{}, w)
		return in.text, in.known
	}
	for _, r := range s.Redirs {
		if isWrite(r.Op) && (r.N == nil || r.N.Value != "2") {
			return "", r.Op == syntax.RdrOut && r.N == nil // it all goes elsewhere
		}
	}
	in = k.stdin(s, in, w)
	switch c := s.Cmd.(type) {
	case *syntax.CallExpr:
		if argv := k.fields(c.Args, w); len(argv) > 0 {
			return k.commandOutput(argv, in)
		}
	case *syntax.BinaryCmd:
		if c.Op != syntax.Pipe {
			return "", false
		}
		for _, stage := range stages(c) {
			text, known := k.output(stage, in, w)
			if !known {
				return "", false
			}
			in = input{text: text, known: true, present: true}
		}
		return in.text, true
	case *syntax.Block:
		return k.outputOf(c.Stmts, in, w)
	case *syntax.Subshell:
		return k.outputOf(c.Stmts, in, w)
	}
	return "", false
}

// commandOutput knows the commands with which text is usually put together or hidden.
func (k *checker) commandOutput(argv []string, in input) (string, bool) {
	k.steps += len(in.text) / 64
	name, args := canonical(argv[0]), argv[1:]
	switch name {
	case "echo":
		return echo(args), true
	case "printf":
		return printf(args)
	case "cat", "tac", "tee":
		if len(args) == 1 && name == "cat" {
			if f, ok := k.fileInput(args[0]); ok {
				return f.text, f.known
			}
			if pidFile(args[0]) {
				return pidGateway, true
			}
		}
		return in.text, in.known && !slices.ContainsFunc(args, func(a string) bool { return !strings.HasPrefix(a, "-") })
	case "rev":
		r := []rune(strings.TrimSuffix(in.text, "\n"))
		slices.Reverse(r)
		return string(r) + "\n", in.known && len(args) == 0 && !strings.Contains(string(r), "\n")
	case "tr":
		return translate(args, in)
	case "base64", "base32", "xxd", "openssl":
		return decode(name, args, in)
	case "pgrep", "pidof", "lsof", "fuser":
		if slices.ContainsFunc(args, k.namesGateway) || name == "pgrep" && k.findsGateway(args) {
			return pidGateway, true
		}
		return pidOther, name != "lsof" || slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "-t") })
	case "jq":
		if slices.ContainsFunc(args, pidFile) {
			return pidGateway, true
		}
	case "which", "command", "type":
		if _, rest := options(args, ""); len(rest) == 1 && (name != "command" || len(args) == 2) {
			return rest[0] + "\n", true
		}
	case "basename":
		if len(args) == 1 {
			return path.Base(args[0]) + "\n", true
		}
	case "pwd":
		return k.vars[cwd].values[0] + "\n", true
	}
	return "", false
}

// pidFile reports whether a file says which process the gateway is.
func pidFile(name string) bool {
	base := path.Base(name)
	return base == "gateway.pid" || base == "gateway_state.json"
}

func echo(args []string) string {
	newline, escapes := "\n", false
	for len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' && strings.Trim(args[0][1:], "neE") == "" {
		if strings.Contains(args[0], "n") {
			newline = ""
		}
		escapes = escapes || strings.Contains(args[0], "e")
		args = args[1:]
	}
	text := strings.Join(args, " ")
	if escapes {
		if s, _, err := expand.Format(&expand.Config{}, text, nil); err == nil {
			text = s
		}
	}
	return text + newline
}

func printf(args []string) (string, bool) {
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 || strings.HasPrefix(args[0], "-v") {
		return "", false
	}
	format, rest := args[0], args[1:]
	var b strings.Builder
	for {
		s, n, err := expand.Format(&expand.Config{}, format, append([]string{}, rest...)) // nil would mean no format
		if err != nil || b.Len()+len(s) > maxCommand {
			return "", false
		}
		b.WriteString(s)
		if rest = rest[min(n, len(rest)):]; n == 0 || len(rest) == 0 {
			return b.String(), true
		}
	}
}

func translate(args []string, in input) (string, bool) {
	if len(args) != 2 || !in.known || strings.ContainsAny(args[0]+args[1], `\[`+holes) {
		return "", false
	}
	from, to := ranges(args[0]), ranges(args[1])
	if len(to) == 0 {
		return "", false
	}
	return strings.Map(func(r rune) rune {
		if i := slices.Index(from, r); i >= 0 {
			return to[min(i, len(to)-1)]
		}
		return r
	}, in.text), true
}

func ranges(s string) []rune {
	r := []rune(s)
	var out []rune
	for i := 0; i < len(r); i++ {
		if i+2 < len(r) && r[i+1] == '-' && r[i] <= r[i+2] && r[i+2] < 0x80 {
			for c := r[i]; c <= r[i+2]; c++ {
				out = append(out, c)
			}
			i += 2
			continue
		}
		out = append(out, r[i])
	}
	return out
}

func decode(name string, args []string, in input) (string, bool) {
	opts, rest := options(args, "")
	if !in.known || name != "openssl" && len(rest) > 0 {
		return "", false
	}
	has := func(list ...string) bool {
		return slices.ContainsFunc(opts, func(o string) bool { return slices.Contains(list, o) })
	}
	text := strings.Join(strings.Fields(in.text), "")
	var out []byte
	var err error
	switch {
	case name == "base64" && has("d", "D", "decode", "di"), name == "openssl" && has("d") && slices.ContainsFunc(args, isBase64):
		out, err = base64.StdEncoding.DecodeString(text)
	case name == "base64" && len(opts) == 0:
		return base64.StdEncoding.EncodeToString([]byte(in.text)) + "\n", true
	case name == "xxd" && has("r") && has("p"):
		out, err = hex.DecodeString(text)
	default:
		return "", false
	}
	return string(out), err == nil
}

func isBase64(s string) bool { return strings.TrimLeft(s, "-") == "base64" || s == "-a" }
