// SPDX-License-Identifier: MIT

package metrics

import (
	"regexp"
	"strings"
)

// kinds are upstream's kinds of commands, with the programs of each.
func kinds() map[string]string {
	return map[string]string{
		"git":             "git gh hub git-lfs tig",
		"package_manager": "pip pip3 uv uvx poetry pipx conda mamba micromamba npm pnpm yarn apt apt-get brew dnf yum pacman apk gem bundle composer nix snap choco winget port",
		"build":           "make cmake ninja cargo go gradle gradlew mvn bazel meson gcc g++ cc clang clang++ rustc javac tsc dotnet msbuild scons swift xcodebuild zig",
		"test_runner":     "pytest py.test tox nox jest vitest mocha rspec phpunit ctest playwright",
		"python":          "python python3 ipython pypy pypy3",
		"node":            "node npx deno bun ts-node tsx nodejs",
		"shell_builtin": "cd echo export source . set unset pwd printf test [ [[ true false exit alias read eval type hash ulimit umask wait pushd popd shopt trap " +
			"declare local if for while case {",
		"shell": "bash sh zsh dash fish ksh pwsh powershell cmd",
		"file_ops": "ls cat head tail cp mv rm mkdir rmdir touch find grep egrep rg sed awk chmod chown ln du df tree wc sort uniq diff tar zip unzip gzip gunzip fd " +
			"stat file less more realpath readlink basename dirname cut tr xargs tee jq patch md5sum sha256sum truncate which",
		"network":   "curl wget ssh scp rsync ping nc dig nslookup http telnet sftp ftp traceroute",
		"container": "docker podman kubectl docker-compose helm nerdctl minikube kind k9s apptainer singularity",
	}
}

func kindNames() []string {
	var out []string
	for k := range kinds() {
		out = append(out, k)
	}
	return out
}

const (
	headChars    = 256 // of a command are looked at
	prefixTokens = 4   // assignments, wrappers and their flags that may stand before the program
)

var (
	wordAt        = regexp.MustCompile(`^\s*([^\s;|&()<>]+)`)
	assignment    = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)
	versionPython = regexp.MustCompile(`^python\d+(\.\d+)?$`)
)

// CommandKind is the closed kind of a command: that of its first program, after assignments and
// wrappers such as sudo. Only the beginning of the command is looked at, and nothing of it kept.
func CommandKind(command string) string {
	rest := head(command)
	for range prefixTokens + 1 {
		m := wordAt.FindStringSubmatch(rest)
		if m == nil {
			return "other"
		}
		rest = rest[len(m[0]):]
		word := strings.Trim(m[1], `'"`)
		if assignment.MatchString(word) || wrapper(strings.ToLower(word)) || strings.HasPrefix(word, "-") {
			continue
		}
		name := strings.ToLower(word[strings.LastIndexByte(word, '/')+1:])
		return kindOf(name)
	}
	return "other"
}

// head is the beginning of a command, in characters.
func head(command string) string {
	n := 0
	for i := range command {
		if n == headChars {
			return command[:i]
		}
		n++
	}
	return command
}

func wrapper(word string) bool {
	switch word {
	case "sudo", "env", "time", "nohup", "exec", "command", "builtin", "nice", "stdbuf":
		return true
	}
	return false
}

func kindOf(name string) string {
	for kind, programs := range kinds() {
		for p := range strings.FieldsSeq(programs) {
			if p == name {
				return kind
			}
		}
	}
	if versionPython.MatchString(name) {
		return "python"
	}
	return "other"
}

// Outcome is how a foreground command ended. The deadline that we set wins over the status, so
// that a command's own exit 124 is no timeout; 137, 143 and a negative status say that it was
// killed.
func Outcome(code int, timedOut, interrupted bool) string {
	switch {
	case timedOut:
		return "timeout"
	case interrupted, code < 0, code == 137, code == 143:
		return "killed"
	case code == 0:
		return "ok"
	}
	return "nonzero"
}
