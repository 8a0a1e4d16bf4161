// SPDX-License-Identifier: MIT

package approval

import (
	"regexp"
	"slices"
	"strings"
)

// wrapper describes a command that runs another one given in its arguments.
type wrapper struct {
	short   string   // options with a value
	long    []string // the same, long
	skip    int      // operands before the command
	assigns bool     // NAME=value may stand before it
	query   string   // options with which nothing is run
	chdir   string   // short of --chdir
	guess   bool     // nobody knows which options take a value: try
}

func wrapperOf(name string) (wrapper, bool) {
	switch name {
	case "sudo", "doas":
		return wrapper{short: "ugpCrtTDRUha", long: []string{"user", "group", "prompt", "close-from", "role", "type", "command-timeout", "chdir", "chroot", "other-user", "host"}, assigns: true, query: "lvVK", chdir: "D"}, true
	case "env":
		return wrapper{short: "uCa", long: []string{"unset", "chdir", "argv0"}, assigns: true, chdir: "C"}, true
	case "nohup", "setsid", "busybox", "toybox", "caffeinate", "fakeroot", "builtin", "pkexec", "xvfb-run", "dbus-run-session", "rlwrap", "unbuffer", "coproc", "winpty", "entr":
		return wrapper{}, true
	case "command":
		return wrapper{query: "vV"}, true
	case "exec":
		return wrapper{short: "a"}, true
	case "time", "gtime":
		return wrapper{short: "fo", long: []string{"format", "output"}}, true
	case "nice":
		return wrapper{short: "n", long: []string{"adjustment"}}, true
	case "ionice":
		return wrapper{short: "cn", long: []string{"class", "classdata"}, query: "pPu"}, true
	case "chrt", "taskset":
		return wrapper{skip: 1, query: "p"}, true
	case "timeout", "gtimeout":
		return wrapper{short: "ks", long: []string{"kill-after", "signal"}, skip: 1}, true
	case "stdbuf":
		return wrapper{short: "ioe", long: []string{"input", "output", "error"}}, true
	case "chroot":
		return wrapper{skip: 1, long: []string{"userspec", "groups"}}, true
	case "faketime":
		return wrapper{short: "pf", skip: 1}, true
	case "gosu", "su-exec", "setuidgid", "chpst":
		return wrapper{skip: 1}, true
	case "unshare", "nsenter", "setpriv", "firejail", "proot", "systemd-run", "systemd-inhibit", "runcon", "prlimit",
		"strace", "ltrace", "valgrind", "gdb", "screen", "npx", "bunx", "pnpx", "numactl", "cgexec":
		return wrapper{guess: true}, true
	case "uv", "poetry", "pipenv", "pdm", "rye", "hatch", "direnv", "mise", "rbenv", "pyenv", "nvm":
		return wrapper{skip: 1}, true
	}
	return wrapper{}, false
}

// unwrap looks at what a command runs on behalf of its arguments. It reports whether there is
// nothing else to know about the command.
func (k *checker) unwrap(c command) bool {
	switch c.name {
	case "sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "rbash", "yash", "csh", "tcsh", "nu", "elvish", "xonsh", "osh":
		k.shell(c)
	case "xargs":
		k.xargs(c)
	case "parallel":
		k.parallel(c)
	case "watch", "script", "su", "runuser", "flock", "at", "batch", "capsh":
		k.textRunner(c)
	case "perf":
		if len(c.args) > 1 {
			k.peel(command{name: c.name, args: c.args[1:], in: c.in, node: c.node}, wrapper{guess: true})
		}
	case "bwrap": // most of its options take two values
		for i, a := range c.args[:min(len(c.args), 4*maxValues)] {
			if !strings.HasPrefix(a, "-") {
				k.run(c.args[i:], c.in, c.node)
			}
		}
	case "ssh", "mosh":
		k.remoteShell(c)
	case "tmux":
		k.tmux(c)
	case "nc", "ncat", "netcat", "socat":
		k.netcat(c)
	default:
		w, ok := wrapperOf(c.name)
		if !ok {
			return false
		}
		k.peel(c, w)
	}
	return true
}

func (k *checker) peel(c command, w wrapper) {
	if c.name == "sudo" || c.name == "doas" {
		k.sudo(leading(c.args, w))
	}
	if c.name == "env" {
		k.envSplit(c)
	}
	if w.query != "" && slices.ContainsFunc(leadingOptions(c.args, w), func(o string) bool { return strings.Contains(w.query, o) }) {
		return
	}
	var dirs []string
	if w.chdir != "" {
		dirs = option{"-" + w.chdir, "--chdir"}.values(leading(c.args, w))
	}
	if len(dirs) == 0 {
		k.peeled(c, w)
		return
	}
	k.subshell(func() {
		for _, dir := range dirs {
			k.cd([]string{"--", dir})
		}
		k.peeled(c, w)
	})
}

// peeled runs what stands behind a wrapper's own arguments.
func (k *checker) peeled(c command, w wrapper) {
	for _, start := range starts(c.args, w) {
		rest := c.args[start:]
		for w.assigns && len(rest) > 0 && assignment.MatchString(rest[0]) {
			name, value, _ := strings.Cut(rest[0], "=")
			k.environment(name, []string{value})
			rest = rest[1:]
		}
		if len(rest) > w.skip {
			k.run(rest[w.skip:], c.in, c.node)
		}
	}
}

var assignment = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)

// starts lists where the operands may begin: an option that is not known may take a value.
func starts(args []string, w wrapper) []int {
	var out []int
	if w.guess {
		option := false
		for i, a := range args {
			if strings.HasPrefix(a, "-") {
				option = !strings.Contains(a, "=")
				continue
			}
			if out = append(out, i); !option || len(out) == 6 {
				break
			}
			option = false
		}
		if len(out) > 0 {
			return out
		}
		return []int{len(args)}
	}
	i := 0
	for i < len(args) {
		a := args[i]
		if a == "--" {
			i++
			break
		}
		if len(a) < 2 || a[0] != '-' {
			break
		}
		if strings.HasPrefix(a, "--") {
			name, _, value := strings.Cut(a[2:], "=")
			switch {
			case value:
			case slices.Contains(w.long, name):
				i++
			case i+2 < len(args):
				out = append(out, i+2)
			}
		} else if at := strings.IndexAny(a[1:], w.short); w.short != "" && at >= 0 && at+2 == len(a) {
			i++
		}
		i++
	}
	return append(out, min(i, len(args)))
}

// leading are the arguments that are the wrapper's own options.
func leading(args []string, w wrapper) []string {
	s := starts(args, w)
	return args[:s[len(s)-1]]
}

func leadingOptions(args []string, w wrapper) []string {
	opts, _ := options(leading(args, w), w.short)
	return opts
}

func (k *checker) sudo(own []string) {
	opts, _ := options(own, "ugpCrtTDRUha")
	switch {
	case hasOption(opts, "S", "stdin"):
		k.emit(FloorSudoStdin)
	case hasOption(opts, "Asi", "askpass"), hasOption(opts, "", "shell"), hasOption(opts, "", "login"):
		k.emit(SudoFlag)
	}
}

// envSplit handles env -S, which takes a command apart itself.
func (k *checker) envSplit(c command) {
	for i, a := range c.args {
		text := ""
		switch {
		case strings.HasPrefix(a, "--split-string="):
			text = a[len("--split-string="):]
		case (a == "-S" || a == "--split-string" || a == "-vS") && i+1 < len(c.args):
			text = strings.Join(c.args[i+1:], " ")
		case strings.HasPrefix(a, "-S"):
			text = strings.Join(append([]string{a[2:]}, c.args[i+1:]...), " ")
		case len(a) > 0 && a[0] != '-':
			return
		}
		if text != "" {
			k.payload("env "+strings.NewReplacer(`\_`, " ", `\t`, " ", `\n`, " ").Replace(text), c.in, nil)
			return
		}
	}
}

func (k *checker) xargs(c command) {
	w := wrapper{short: "aEILnPdsjS", long: []string{"arg-file", "delimiter", "eof", "replace", "max-lines", "max-args", "max-procs", "max-chars", "process-slot-var", "jobs"}}
	all := starts(c.args, w)
	at := all[len(all)-1]
	replace := ""
	for i, a := range c.args[:at] {
		switch {
		case a == "-I" && i+1 < at:
			replace = c.args[i+1]
		case strings.HasPrefix(a, "-I"):
			replace = a[2:]
		case a == "-i", strings.HasPrefix(a, "--replace"):
			replace = "{}"
		}
	}
	items := []string{hole}
	if c.in.own {
		items[0] = ownHole
	}
	if c.in.known {
		items = strings.Fields(c.in.text)
	}
	for _, start := range all {
		argv := slices.Clone(c.args[start:])
		if len(argv) == 0 {
			continue
		}
		if !c.in.known { // without input it runs once all the same
			k.run(argv, input{}, c.node)
		}
		if replace != "" && slices.ContainsFunc(argv, func(a string) bool { return strings.Contains(a, replace) }) {
			item := strings.Join(items, " ")
			for i := range argv {
				argv[i] = strings.ReplaceAll(argv[i], replace, item)
			}
		} else {
			argv = append(argv, items[:min(len(items), maxFields)]...)
		}
		if deletes(argv) {
			k.emit(XargsRm)
		}
		k.run(argv, input{}, c.node)
	}
}

// parallel runs shell text, with arguments after ::: or from its input.
func (k *checker) parallel(c command) {
	w := wrapper{short: "jnNLIaSPCd", long: []string{"jobs", "arg-file", "colsep", "delay", "joblog", "results", "sshlogin", "timeout", "workdir", "tmpdir", "retries", "load", "memfree"}}
	template, list, given := cut(c.args, ":::")
	items := hole
	switch {
	case given:
		items = quoteAll(list)
	case c.in.known:
		items = quoteAll(strings.Fields(c.in.text))
	}
	for _, start := range starts(template, w) {
		argv := template[start:]
		if len(argv) == 0 {
			if given {
				k.payload(strings.Join(list, "; "), input{}, nil)
			} else {
				k.shellInput(c.in, []string{c.name})
			}
			continue
		}
		if deletes(argv) {
			k.emit(XargsRm)
		}
		text := strings.Join(argv, " ")
		if strings.Contains(text, "{}") {
			text = strings.ReplaceAll(text, "{}", items)
		} else {
			text += " " + items
		}
		k.payload(text, input{}, nil)
	}
}

// deletes reports whether a command, behind wrappers, is one that removes files.
func deletes(argv []string) bool {
	for range 4 {
		if len(argv) == 0 {
			return false
		}
		switch name := canonical(argv[0]); name {
		case "rm", "unlink", "shred", "rmdir", "srm":
			return true
		default:
			w, ok := wrapperOf(name)
			if !ok {
				return false
			}
			s := starts(argv[1:], w)
			argv = argv[1:][s[len(s)-1]:]
		}
	}
	return false
}
