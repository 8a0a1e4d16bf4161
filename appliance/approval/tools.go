// SPDX-License-Identifier: MIT

package approval

import (
	"regexp"
	"slices"
	"strings"
)

// git looks at what loses work, and at configuration that runs programs.
func (k *checker) git(c command) {
	args := c.args
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		n := 1
		switch a := args[0]; {
		case a == "-c" && len(args) > 1:
			k.gitConfig(args[1])
			n = 2
		case a == "-C" && len(args) > 1, a == "--git-dir" && len(args) > 1, a == "--work-tree" && len(args) > 1, a == "--namespace" && len(args) > 1:
			n = 2
		case strings.HasPrefix(a, "-c"):
			k.gitConfig(a[2:])
		}
		args = args[n:]
	}
	if len(args) == 0 {
		return
	}
	opts, rest := options(args[1:], "")
	switch args[0] {
	case "push":
		_, rest = options(args[1:], "o")
		if hasOption(opts, "fd", "") || slices.ContainsFunc(opts, func(o string) bool {
			return strings.HasPrefix(o, "forc") || o == "mirror" || o == "delete" || o == "prune"
		}) || slices.ContainsFunc(rest, func(r string) bool { return strings.HasPrefix(r, "+") || strings.HasPrefix(r, ":") }) {
			k.emit(GitForcePush)
		}
	case "reset":
		if slices.ContainsFunc(opts, func(o string) bool {
			return o != "help" && len(o) > 1 && strings.HasPrefix("hard", o) || o == "h" && slices.Contains(args, "--h")
		}) {
			k.emit(GitResetHard)
		}
	case "clean":
		if hasOption(opts, "f", "force") {
			k.emit(GitClean)
		}
	case "branch":
		if hasOption(opts, "D", "") || hasOption(opts, "d", "delete") && hasOption(opts, "f", "force") {
			k.emit(GitBranchDelete)
		}
	case "config":
		if len(rest) > 1 {
			k.gitConfig(rest[len(rest)-2] + "=" + rest[len(rest)-1])
		}
	case "submodule", "bisect", "rebase", "filter-branch":
		for i, a := range args {
			if (a == "foreach" || a == "run" || a == "-x" || a == "--exec" || a == "--tree-filter" || a == "--index-filter") && i+1 < len(args) {
				k.payload(strings.Join(args[i+1:], " "), input{}, nil)
			}
		}
	}
}

// gitConfig looks at one key=value: an alias with ! and many other keys are commands.
func (k *checker) gitConfig(setting string) {
	key, value, ok := strings.Cut(setting, "=")
	key = strings.ToLower(key)
	if !ok {
		return
	}
	if text, shell := strings.CutPrefix(value, "!"); shell {
		k.payload(text, input{}, nil)
		if strings.HasPrefix(key, "alias.") && !hasHole(text) {
			return
		}
	}
	if gitRuns.MatchString(key) {
		k.emit(ExecOption)
		k.payload(strings.TrimPrefix(value, "!"), input{}, nil)
	}
}

var gitRuns = regexp.MustCompile(`^(core\.(sshcommand|hookspath|fsmonitor|askpass|gitproxy)|credential\.(.*\.)?helper|diff\.(external|.*\.(textconv|command))|(merge|filter)\..*|uploadpack\.packobjectshook|protocol\.ext\.allow|gpg\.(.*\.)?program)$`)

// container looks at container tools: another daemon, the host's files, running containers.
func (k *checker) container(c command) {
	args := c.args
	var words []string
	for i := 0; i < len(args); i++ {
		a := args[i]
		if len(words) == 0 && containerRemote.MatchString(a) && (c.name != "podman" || a != "-c") {
			k.emit(ContainerRemote)
			i++
			continue
		}
		if hostAccess.MatchString(a) || (a == "-v" || a == "--volume" || a == "--mount") && i+1 < len(args) && hostRoot.MatchString(args[i+1]) || hostVolume.MatchString(a) {
			k.emit(ContainerHost)
		}
		if !strings.HasPrefix(a, "-") {
			words = append(words, a)
		}
	}
	if len(words) == 0 {
		return
	}
	if words[0] == "context" && slices.Contains(words, "use") {
		k.emit(ContainerRemote)
	}
	at := 0
	if words[0] == "compose" || words[0] == "container" || words[0] == "pod" || words[0] == "stack" {
		at = 1
	}
	for _, w := range words[at:min(len(words), at+3)] {
		if slices.Contains([]string{"stop", "kill", "restart", "down"}, w) {
			k.emit(ContainerStop)
			break
		}
	}
	for i, w := range words {
		if (w == "exec" || w == "run") && i < 2 {
			k.inContainer(c)
			return
		}
	}
}

// inContainer looks at what is run in a container, wherever in the arguments it begins.
func (k *checker) inContainer(c command) {
	for i, a := range c.args {
		switch canonical(a) {
		case "sh", "bash", "ash", "dash", "zsh", "rm", "dd", "chmod", "find":
			if i > 1 && i+1 < len(c.args) {
				k.when("inside a container", func() { k.run(c.args[i:], c.in, c.node) })
				return
			}
		}
	}
}

var (
	containerRemote = regexp.MustCompile(`^(-H.*|--host(=.*)?|--context(=.*)?|-c|--url(=.*)?|--connection(=.*)?|--identity(=.*)?|--remote)$`)
	hostAccess      = regexp.MustCompile(`^--(privileged(=true)?|pid=host|cap-add=(ALL|SYS_ADMIN)|device=.*)$`)
	hostRoot        = regexp.MustCompile(`^(/|/etc|/root|/home|/var|/usr|/boot|/dev|/proc|/sys|~|/var/run/docker\.sock|/run/docker\.sock)/?(:|$)|(source|src)=/(,|$)`)
	hostVolume      = regexp.MustCompile(`^(-v|--volume=)(/|/etc|/root|/home|/var/run/docker\.sock|~)/?:`)
)

func (k *checker) packages(c command) {
	opts, words := options(c.args, "")
	verbs := []string{"uninstall", "unlink", "remove", "rm", "un", "purge", "autoremove", "erase", "del"}
	if c.name == "npm" || c.name == "pnpm" {
		verbs = append(verbs, "r")
	}
	for i, w := range words {
		if i < 3 && slices.Contains(verbs, w) && !slices.Contains(words[:i], "run") && !slices.Contains(words[:i], "install") {
			k.emit(PkgUninstall)
		}
	}
	if c.name == "pacman" && slices.Contains(opts, "R") {
		k.emit(PkgUninstall)
	}
	if i := slices.Index(words, "exec"); i >= 0 && i < len(words)-1 && (c.name == "npm" || c.name == "pnpm" || c.name == "yarn") {
		k.run(words[i+1:], c.in, c.node)
	}
}
