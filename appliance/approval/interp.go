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
	for _, a := range c.args {
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
	awkPipe   = regexp.MustCompile(`system\s*\(|(^|[^|])\|&?([^|]|$)`)
)

// awkRuns reports whether an awk program starts others.
func awkRuns(program string) bool {
	return awkPipe.MatchString(awkString.ReplaceAllString(program, `""`))
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

var versioned = regexp.MustCompile(`^(python|pypy|perl|ruby|php|lua|node|tclsh)[0-9.]*$`)

func inlineFlags(name string) ([]string, bool) {
	if m := versioned.FindStringSubmatch(name); m != nil {
		name = m[1]
	}
	switch name {
	case "python", "pypy", "py", "osascript", "rscript":
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
