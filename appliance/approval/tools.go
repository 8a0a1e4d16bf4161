// SPDX-License-Identifier: MIT

package approval

import (
	"path"
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
		case strings.HasPrefix(a, "--exec-path="), strings.HasPrefix(a, "--config-env="):
			k.emit(ExecOption)
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
	case "clone":
		for _, setting := range (option{"-c", "--config"}).values(args) {
			k.gitConfig(setting)
		}
		if len(rest) > 1 {
			k.write(rest[len(rest)-1])
		}
		k.gitRuns(args)
	default:
		k.gitRuns(args)
	}
}

// gitRuns looks at subcommands that run what they are given.
func (k *checker) gitRuns(args []string) {
	var options []option
	switch args[0] {
	case "submodule", "bisect":
		for i, a := range args {
			switch {
			case i+1 >= len(args):
			case a == "run" && args[0] == "bisect":
				k.run(args[i+1:], input{}, nil)
			case a == "foreach" && args[0] == "submodule":
				_, words := cutOptions(args[i+1:])
				k.payload(strings.Join(words, " "), input{}, nil)
			}
		}
	case "rebase":
		options = []option{{"-x", "--exec"}}
	case "filter-branch":
		options = []option{{long: "--tree-filter"}, {long: "--index-filter"}, {long: "--msg-filter"}, {long: "--env-filter"}, {long: "--parent-filter"}, {long: "--commit-filter"}, {long: "--setup"}}
	case "difftool":
		options = []option{{"-x", "--extcmd"}}
	case "grep":
		options = []option{{"-O", "--open-files-in-pager"}}
	case "clone", "fetch", "pull", "ls-remote":
		options = []option{{"-u", "--upload-pack"}}
	}
	for _, o := range options {
		for _, text := range o.values(args) {
			k.payload(text, input{}, nil)
		}
	}
}

// cutOptions splits leading options from the rest.
func cutOptions(args []string) (opts, rest []string) {
	i := 0
	for i < len(args) && strings.HasPrefix(args[i], "-") {
		i++
	}
	return args[:i], args[i:]
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
	if gitShows.MatchString(key) {
		k.payload(value, input{}, nil)
	}
	if gitRuns.MatchString(key) {
		k.emit(ExecOption)
		k.payload(strings.TrimPrefix(value, "!"), input{}, nil)
	}
}

var gitRuns = regexp.MustCompile(`^(core\.(sshcommand|hookspath|fsmonitor|askpass|gitproxy)|credential\.(.*\.)?helper|diff\.(external|.*\.(textconv|command))|(merge|filter)\..*|uploadpack\.packobjectshook|protocol\.ext\.allow|gpg\.(.*\.)?program)$`)

// gitShows are commands that everybody sets: a pager, an editor, a browser.
var gitShows = regexp.MustCompile(`^(core\.(pager|editor)|sequence\.editor|pager\..*|(difftool|mergetool|browser|man)\..*\.(cmd|path)|interactive\.difffilter|sendemail\..*cmd)$`)

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
		next := ""
		if i+1 < len(args) {
			next = args[i+1]
		}
		if hostAccess.MatchString(a) || hostAccess.MatchString(a+"="+next) || k.hostVolume(a, next) {
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
		if slices.Contains([]string{"stop", "kill", "restart", "down", "pause"}, w) || w == "rm" && forced(c.args) {
			k.emit(ContainerStop)
			if slices.ContainsFunc(words, k.gatewayContainer) {
				k.emit(FloorGateway)
			}
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

// forced reports whether a removal may end what runs.
func forced(args []string) bool {
	opts, _ := options(args, "")
	return hasOption(opts, "f", "force")
}

// gatewayContainer reports whether a container may be the one this gateway runs in. Those of
// its sandboxes have longer names.
func (k *checker) gatewayContainer(name string) bool {
	name = strings.ToLower(name)
	return slices.Contains([]string{"hermes", "hermes-agent", "hermes-gateway", "hermes-appliance"}, name) ||
		slices.ContainsFunc(k.ctx.Units, func(u string) bool { return name == strings.ToLower(strings.TrimSuffix(u, path.Ext(u))) })
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
	hostAccess      = regexp.MustCompile(`(?i)^--(privileged(=true)?|(pid|userns|uts|cgroupns)=host|cap-add=(cap_)?(all|sys_admin|sys_ptrace|sys_module|sys_rawio|dac_read_search)|security-opt=(seccomp|apparmor)[=:]unconfined|device=.*)$`)
	mountSource     = regexp.MustCompile(`(?:^|,)(?:source|src)=([^,]*)`)
)

// hostVolume reports whether a container is given a directory of the host that it should not
// have: of the system, of the user as a whole, of credentials, of a Hermes home.
func (k *checker) hostVolume(arg, next string) bool {
	source := ""
	switch name, value, inline := strings.Cut(arg, "="); {
	case arg == "-v", arg == "--volume":
		source = next
	case name == "--volume" && inline:
		source = value
	case strings.HasPrefix(arg, "-v"):
		source = arg[2:]
	case name == "--mount":
		if !inline {
			value = next
		}
		if m := mountSource.FindStringSubmatch(value); m != nil {
			source = m[1]
		}
	}
	source, _, _ = strings.Cut(source, ":")
	if !strings.HasPrefix(source, "/") && !strings.HasPrefix(source, "~") && !strings.HasPrefix(source, ".") {
		return false // a volume of the engine
	}
	return slices.ContainsFunc(k.resolve(source), func(p string) bool {
		return isProtected(p) || within(p, "/etc") || within(p, "/boot") || path.Base(p) == "docker.sock" || path.Base(p) == "podman.sock" ||
			k.holdsApprovals(p, true) || k.class(p, source) == WriteCredential
	})
}

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
