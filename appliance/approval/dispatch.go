// SPDX-License-Identifier: MIT

package approval

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// command is one command with its expanded arguments.
type command struct {
	name string // canonical
	args []string
	in   input
	node syntax.Node // where it stands, nil in payloads
}

// canonical is the name that rules know: without directory, case, .exe, blanks that are none
// and letters that only look Latin.
func canonical(name string) string {
	name = strings.ToLower(path.Base(strings.TrimRight(name, "\r")))
	name = strings.Map(latin, name)
	return strings.TrimSuffix(name, ".exe")
}

// latin maps letters that look like Latin ones, and drops what cannot be seen.
func latin(r rune) rune {
	switch {
	case r < 0x80:
		return r
	case r >= 0xff01 && r <= 0xff5e:
		return r - 0xfee0
	case r == 0xad, r >= 0x200b && r <= 0x200f, r >= 0x2060 && r <= 0x206f, r == 0xfeff, r == 0xa0, r == 0x3000:
		return -1
	}
	// Cyrillic, Armenian and Greek letters, each followed by what it looks like.
	const pairs = "аaсcԁdеeһhіiјjкkӏlмmпnоoрpԛqѕsтtуyѵvԝwхxᴢzɡgսuոnօoνvοoαaρpτtιiκkγy"
	if _, after, ok := strings.Cut(pairs, string(r)); ok {
		return rune(after[0])
	}
	return r
}

// dispatch hands a command to the rules of its kind. A wrapper is looked through.
func (k *checker) dispatch(c command) {
	k.carried(c)
	if k.unwrap(c) {
		return
	}
	switch c.name {
	case "rm", "unlink", "rmdir", "srm", "shred", "rimraf":
		k.remove(c)
	case "find", "fd", "fdfind":
		k.find(c)
	case "chmod", "chown", "chgrp", "setfacl", "chattr":
		k.permissions(c)
	case "dd", "dcfldd", "dc3dd", "cp", "mv", "install", "ln", "rsync", "scp", "tee", "truncate", "sed", "perl", "ruby", "curl", "wget", "tar", "touch", "patch", "unzip":
		k.writer(c)
		k.interpreter(c)
	case "kill", "pkill", "killall", "killall5", "skill", "xkill":
		k.kill(c)
	case "systemctl", "service", "rc-service", "launchctl", "sv", "s6-svc", "supervisorctl", "initctl", "loginctl":
		k.service(c)
	case "busctl", "dbus-send", "gdbus", "qdbus":
		k.bus(c)
	case "shutdown", "reboot", "halt", "poweroff":
		if len(c.args) != 1 || c.args[0] != "--help" {
			k.emit(FloorShutdown)
		}
	case "init", "telinit":
		if len(c.args) > 0 && slices.Contains([]string{"0", "6"}, c.args[0]) {
			k.emit(FloorShutdown)
		}
	case "git":
		k.git(c)
	case "docker", "podman", "docker-compose", "nerdctl", "podman-compose":
		k.container(c)
	case "npm", "pnpm", "yarn", "pip", "pip3", "pipx", "brew", "apt", "apt-get", "dnf", "yum", "zypper", "apk", "pacman", "snap":
		k.packages(c)
	case "ed", "ex", "vi", "vim", "nvim", "view", "nano", "emacs", "sponge", "yq":
		k.editor(c)
	case "fuser":
		if opts, _ := options(c.args, "nM"); hasOption(opts, "k", "kill") {
			k.emit(KillLookup)
		}
	case "hermes", "hermes-appliance", "hermes-agent":
		k.hermes(c)
	case "passwd", "chpasswd", "usermod", "useradd", "userdel", "groupmod", "gpasswd", "visudo", "vipw":
		if !slices.ContainsFunc(c.args, func(a string) bool { return a == "-S" || a == "--status" || a == "-c" || a == "--check" }) {
			k.emit(WriteSystem)
		}
	case "mount", "umount", "insmod", "rmmod", "modprobe":
		k.kernel(c)
	case "crontab":
		if !slices.Contains(c.args, "-l") {
			k.emit(WriteStartup)
		}
	default:
		k.disk(c)
		k.interpreter(c)
		k.builtinCommand(c)
	}
	k.mentions(c)
}

// mentions finds commands that are given a file with approval settings and are not known to
// only read it.
func (k *checker) mentions(c command) {
	switch c.name {
	case "cat", "less", "more", "head", "tail", "grep", "egrep", "rg", "ls", "stat", "wc", "diff", "cmp", "jq", "yq", "file", "sha256sum",
		"md5sum", "test", "[", "bat", "awk", "gawk", "mawk", "sed", "cut", "sort", "uniq", "echo", "printf", "cp", "du", "find", "readlink", "realpath",
		"basename", "dirname", "scp", "rsync", "tar", "export", "cd", "ln", "touch", "chmod", "chown", "mv", "rm":
		if !slices.Contains(c.args, "inplace") { // gawk -i inplace
			return
		}
	}
	k.steps += len(c.args) / 4
	for _, a := range c.args {
		if strings.HasPrefix(a, "-") || a == "" {
			continue
		}
		for _, p := range k.resolve(a) {
			if k.holdsApprovals(p, false) {
				k.emit(WriteHermes)
			}
		}
	}
}

// editor looks at what editors write, and at shell commands in their scripts.
func (k *checker) editor(c command) {
	_, files := options(c.args, "cSuUTs")
	if c.name == "yq" && !inPlace(c) {
		return
	}
	for _, f := range files {
		if text, ok := strings.CutPrefix(f, "+"); ok {
			k.editorScript(text)
			continue
		}
		if c.name != "view" && (c.name != "yq" || strings.HasSuffix(f, ".yaml") || strings.HasSuffix(f, ".yml")) {
			k.write(f)
		}
	}
	for i, a := range c.args {
		if (strings.HasPrefix(a, "-") && strings.HasSuffix(a, "c") || a == "--cmd" || a == "--eval") && i+1 < len(c.args) {
			k.editorScript(c.args[i+1])
		}
	}
	if c.in.known {
		k.editorScript(c.in.text)
	}
}

func (k *checker) editorScript(text string) {
	if _, run, ok := strings.Cut(text, "!"); ok && strings.TrimSpace(run) != "" {
		k.emit(ExecOption)
		k.payload(run, input{}, nil)
	}
}

// builtinCommand follows what the shell itself does.
func (k *checker) builtinCommand(c command) {
	switch c.name {
	case "cd", "pushd":
		k.cd(c.args)
	case "eval":
		k.eval(c, strings.Join(c.args, " "))
	case "source", ".":
		k.source(c)
	case "trap":
		if _, rest := options(c.args, ""); len(rest) > 1 {
			k.payload(rest[0], input{}, nil)
		}
	case "alias":
		for _, a := range c.args {
			if name, text, ok := strings.Cut(a, "="); ok {
				k.aliases[name] = text
				k.payload(text, input{}, nil)
			}
		}
	case "read", "mapfile", "readarray":
		k.read(c)
	case "enable":
		if slices.Contains(c.args, "-f") {
			k.emit(ExecOption)
		}
	case "hash":
		if len(c.args) > 2 && c.args[0] == "-p" {
			k.aliases[c.args[2]] = c.args[1]
		}
	case "printf":
		if len(c.args) > 2 && c.args[0] == "-v" {
			text, known := printf(c.args[2:])
			if !known {
				text = hole
			}
			k.setVar(c.args[1], variable{values: []string{text}})
		}
	case "set":
		if _, rest, ok := cut(c.args, "--"); ok {
			k.params = params{name: k.params.name, list: rest, known: k.uncertain == 0, opaque: k.uncertain > 0}
		}
	case "shift":
		if k.params.known && k.uncertain == 0 && len(k.params.list) > 0 {
			k.params.list = k.params.list[1:]
			return
		}
		k.params = params{name: k.params.name, opaque: k.params.known || k.params.opaque}
	case "unset":
		for _, name := range c.args {
			delete(k.vars, name)
		}
	}
}

func cut(args []string, at string) (before, after []string, ok bool) {
	i := slices.Index(args, at)
	if i < 0 {
		return args, nil, false
	}
	return args[:i], args[i+1:], true
}

func (k *checker) read(c command) {
	withArg := "dinNptu"
	if c.name != "read" {
		withArg = "dnOsuCc"
	}
	opts, names := options(c.args, withArg)
	if len(names) == 0 {
		names = []string{map[bool]string{true: "REPLY", false: "MAPFILE"}[c.name == "read"]}
	}
	lines := []string{hole}
	if c.in.known {
		lines = strings.Split(strings.TrimSuffix(c.in.text, "\n"), "\n")
	}
	if len(lines) > maxFields {
		lines = []string{hole}
	}
	for i, name := range names {
		switch {
		case !syntax.ValidName(name):
		case c.name != "read":
			k.setVar(name, variable{values: lastOf(lines), array: lines})
		case slices.Contains(opts, "a"):
			k.setVar(name, variable{values: lastOf(strings.Fields(lines[0])), array: strings.Fields(lines[0])})
		case i == len(names)-1:
			k.setVar(name, variable{values: lastOf(lines)})
		default:
			var firsts []string
			for j, l := range lines {
				word, rest, _ := strings.Cut(strings.TrimSpace(l), " ")
				firsts = append(firsts, word)
				lines[j] = rest
			}
			k.setVar(name, variable{values: lastOf(firsts)})
		}
	}
}

// eval looks at text that becomes shell source.
func (k *checker) eval(c command, text string) {
	if hasHole(text) {
		if c.node != nil && fetches(c.node) {
			k.emit(ShellRemote)
		} else {
			k.emit(EvalOpaque)
		}
	}
	k.sourced(text, c.in)
}

func (k *checker) source(c command) {
	if len(c.args) == 0 {
		return
	}
	name := c.args[0]
	switch f, ok := k.fileInput(name); {
	case ok:
		k.shellInput(f, c.args)
	case isStdin(name):
		k.shellInput(c.in, c.args)
	case hasHole(name):
		k.emit(EvalOpaque)
	}
}

func isStdin(name string) bool {
	return name == "-" || name == "/dev/stdin" || name == "/dev/fd/0" || name == "/proc/self/fd/0"
}

// environment looks at a variable that programs obey.
func (k *checker) environment(name string, values []string) {
	switch name {
	case "LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "BASH_ENV", "PROMPT_COMMAND", "PYTHONSTARTUP", "PERL5OPT", "GIT_CONFIG_COUNT", "GIT_CONFIG_PARAMETERS":
		k.emit(ExecEnv)
	case "NODE_OPTIONS", "RUBYOPT", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS":
		if slices.ContainsFunc(values, loadsCode.MatchString) {
			k.emit(ExecEnv)
		}
	case "PS1", "PS4":
		for _, v := range values {
			if strings.ContainsAny(v, "$`") {
				k.payload(`: "`+v+`"`, input{}, nil)
			}
		}
	case "DOCKER_HOST", "DOCKER_CONTEXT", "CONTAINER_HOST", "CONTAINER_CONNECTION":
		k.emit(ContainerRemote)
	}
	switch name {
	case "PROMPT_COMMAND", "PAGER", "GIT_PAGER", "MANPAGER", "EDITOR", "VISUAL", "GIT_EDITOR", "GIT_SSH_COMMAND", "GIT_EXTERNAL_DIFF", "LESSOPEN", "BROWSER",
		"GIT_SSH", "GIT_ASKPASS", "SSH_ASKPASS", "SUDO_ASKPASS", "GIT_SEQUENCE_EDITOR", "RSYNC_RSH":
		for _, v := range values {
			if !hasHole(v) {
				k.payload(v, input{}, nil)
			}
		}
	}
}

// loadsCode matches options with which an interpreter loads a file before it begins.
var loadsCode = regexp.MustCompile(`(^|\s)(-r|--require|--import|--loader|--experimental-loader|-javaagent|-agentpath|-agentlib)|` + "[" + holes + "]")

// options splits arguments into options, without dashes, and operands. Short options are one
// letter each; those in withArg take the rest of their word or the next word.
func options(args []string, withArg string) (opts, rest []string) {
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case a == "--":
			return opts, append(rest, args[i+1:]...)
		case strings.HasPrefix(a, "--"):
			opts = append(opts, a[2:])
		case len(a) > 1 && a[0] == '-':
			for j, r := range a[1:] {
				opts = append(opts, string(r))
				if strings.ContainsRune(withArg, r) {
					if j+2 == len(a) {
						i++
					}
					break
				}
			}
		default:
			rest = append(rest, a)
		}
	}
	return opts, rest
}

// hasOption reports whether an option was given; long names may be cut short.
func hasOption(opts []string, short, long string) bool {
	return slices.ContainsFunc(opts, func(o string) bool {
		o, _, _ = strings.Cut(o, "=")
		return o != "" && (strings.Contains(short, o) && len(o) == 1 || len(o) > 1 && long != "" && strings.HasPrefix(long, o))
	})
}
