// SPDX-License-Identifier: MIT

package approval

import (
	"regexp"
	"slices"
	"strings"
)

// carried looks at commands that stand in an option or in the script of another tool. They are
// judged as if they had been given to the shell: a pager that is less is nobody's business.
func (k *checker) carried(c command) {
	for _, o := range carriers(c.name) {
		for _, text := range o.values(c.args) {
			k.payload(text, input{}, nil)
		}
	}
	switch c.name {
	case "scp", "sftp":
		if slices.ContainsFunc(c.args, sshRuns.MatchString) {
			k.emit(ExecOption)
		}
	case "less", "more":
		for _, a := range c.args {
			if strings.HasPrefix(a, "+") {
				k.editorScript(a)
			}
		}
	case "make", "gmake":
		k.makefile(c)
	}
	if escape := escapes(c.name); escape != nil {
		k.console(c, escape)
	}
}

// option is one whose value is a command.
type option struct {
	short string // -x value, -xvalue
	long  string // --long value, --long=value
}

func (o option) values(args []string) []string {
	var out []string
	for i, a := range args {
		next := i+1 < len(args)
		switch {
		case o.short != "" && a == o.short && next, o.long != "" && a == o.long && next:
			out = append(out, args[i+1])
		case o.long != "" && strings.HasPrefix(a, o.long+"="):
			out = append(out, a[len(o.long)+1:])
		case o.short != "" && len(a) > len(o.short) && strings.HasPrefix(a, o.short) && !strings.HasPrefix(a, "--"):
			out = append(out, a[len(o.short):])
		}
	}
	return out
}

func carriers(name string) []option {
	switch name {
	case "tar", "gtar", "bsdtar":
		return []option{{short: "-I"}}
	case "zip":
		return []option{{short: "-TT", long: "--unzip-command"}}
	case "man":
		return []option{{short: "-P", long: "--pager"}}
	case "sort":
		return []option{{long: "--compress-program"}}
	case "split":
		return []option{{long: "--filter"}}
	case "sftp":
		return []option{{short: "-D"}, {short: "-S"}}
	case "scp":
		return []option{{short: "-S"}}
	case "mapfile", "readarray", "complete", "compgen":
		return []option{{short: "-C"}}
	}
	return nil
}

// makefile looks at what is given to make in place of a file.
func (k *checker) makefile(c command) {
	for i, a := range c.args {
		if text, ok := strings.CutPrefix(a, "SHELL="); ok {
			k.payload(text, input{}, nil)
		}
		file := i+1 < len(c.args) && (a == "-f" || a == "--file" || a == "--makefile")
		switch {
		case strings.HasPrefix(a, "--eval"), strings.HasPrefix(a, "-E"):
			k.emit(InterpInline)
		case file && (isStdin(c.args[i+1]) && c.in.present || strings.HasPrefix(c.args[i+1], procSubst)):
			k.emit(InterpStdin)
		}
	}
}

// escapes matches the line with which a program that is no shell hands text to one.
func escapes(name string) *regexp.Regexp {
	switch name {
	case "sqlite3":
		return sqliteShell
	case "psql":
		return psqlShell
	case "mysql", "mariadb":
		return mysqlShell
	case "gdb", "lldb":
		return debuggerShell
	}
	return nil
}

var (
	sqliteShell   = regexp.MustCompile(`(?im)^\s*\.(?:sh|she|shel|shell|sy|sys|syst|syste|system)\s+(.*)`)
	psqlShell     = regexp.MustCompile(`(?m)\\!\s*(.*)`)
	mysqlShell    = regexp.MustCompile(`(?im)(?:^|;)\s*(?:system\s+|\\!\s*)(.*)`)
	debuggerShell = regexp.MustCompile(`(?m)^\s*(?:shell\s+|!|platform\s+shell\s+|(?:python|py|pi|script|pipe)\b)(.*)`)
)

func (k *checker) console(c command, escape *regexp.Regexp) {
	texts := slices.Clone(c.args)
	if c.in.known {
		texts = append(texts, c.in.text)
	}
	for _, a := range texts {
		for _, m := range escape.FindAllStringSubmatch(a, maxFields) {
			k.emit(ExecOption)
			k.payload(m[1], input{}, nil)
		}
	}
}
