// SPDX-License-Identifier: MIT

package approval

import (
	"regexp"
	"slices"
	"strings"
)

// interpreter recognises code in other languages that comes inline or on standard input.
func (k *checker) interpreter(c command) {
	flags, ok := inlineFlags(c.name)
	if !ok {
		if awk.MatchString(c.name) && slices.ContainsFunc(c.args, awkRuns) {
			k.emit(InterpInline)
		}
		return
	}
	takes := valueFlags(c.name)
	for i := 0; i < len(c.args); i++ {
		a := c.args[i]
		if slices.Contains(takes, a) {
			i++
			continue
		}
		if a == "--" || !strings.HasPrefix(a, "-") {
			if c.name == "deno" && a == "eval" {
				k.emit(InterpInline)
			}
			if !strings.HasPrefix(a, procSubst) && !isStdin(a) {
				return // a script file, or a command of the tool
			}
			break
		}
		name, _, _ := strings.Cut(strings.TrimLeft(a, "-"), "=")
		if c.name == "pwsh" || c.name == "powershell" {
			name = strings.ToLower(name)
		}
		if slices.Contains(flags, name) || !strings.HasPrefix(a, "--") && strings.ContainsAny(a, onlyLetters(flags)) {
			k.emit(InterpInline)
			return
		}
		if a == "-m" || a == "-V" || a == "-v" || a == "--version" || a == "-h" || a == "--help" {
			return
		}
	}
	if c.in.present || slices.ContainsFunc(c.args, func(a string) bool { return strings.HasPrefix(a, procSubst) }) {
		k.emit(InterpStdin)
	}
}

var (
	awk       = regexp.MustCompile(`^[gmn]?awk$`)
	awkString = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	awkRegexp = regexp.MustCompile(`([~(!,&|{;]\s*|^\s*)/(?:[^/\\\n]|\\.)*/`)
	awkLoad   = regexp.MustCompile(`@(load|include)\b`)
	awkPipe   = regexp.MustCompile(`system\s*\(|(^|[^|])\|&?([^|]|$)`)
)

// valueFlags are options whose value is the next word and no code.
func valueFlags(name string) []string {
	switch unversioned(name) {
	case "python", "pypy", "ipython":
		return []string{"-X", "-W", "--check-hash-based-pycs"}
	case "node", "nodejs", "tsx":
		return []string{"-r", "--require", "--import", "--loader", "-C", "--conditions", "--env-file"}
	case "perl", "ruby":
		return []string{"-I", "-r", "-C"}
	case "php":
		return []string{"-d", "-c"}
	case "lua":
		return []string{"-l"}
	}
	return nil
}

// awkRuns reports whether an awk program starts others.
func awkRuns(program string) bool {
	program = awkString.ReplaceAllString(program, `""`)
	return awkLoad.MatchString(program) || awkPipe.MatchString(awkRegexp.ReplaceAllString(program, `${1}""`))
}

func onlyLetters(flags []string) string {
	var b strings.Builder
	for _, f := range flags {
		if len(f) == 1 {
			b.WriteString(f)
		}
	}
	return b.String()
}

var versioned = regexp.MustCompile(`^(i?python|pypy|perl|ruby|php|lua|node|tclsh)[0-9.]*$`)

// unversioned is an interpreter's name without its version.
func unversioned(name string) string {
	if m := versioned.FindStringSubmatch(name); m != nil {
		return m[1]
	}
	return name
}

func inlineFlags(name string) ([]string, bool) {
	switch name = unversioned(name); name {
	case "python", "pypy", "py", "ipython", "osascript", "rscript", "r", "expect":
		return []string{"c", "e"}, true
	case "node", "nodejs", "bun", "deno", "tsx":
		return []string{"e", "p", "eval", "print"}, true
	case "perl":
		return []string{"e", "E"}, true
	case "ruby", "lua", "julia", "elixir", "groovy", "scala":
		return []string{"e", "eval"}, true
	case "php":
		return []string{"r"}, true
	case "pwsh", "powershell", "tclsh", "ghci":
		return []string{"c", "e", "command", "encodedcommand", "enc", "ec"}, true
	}
	return nil, false
}
