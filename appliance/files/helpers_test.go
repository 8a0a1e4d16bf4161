// SPDX-License-Identifier: MIT

package files

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// runner runs scripts with a real shell on this machine, as a backend does inside a sandbox:
// the script is the argument of one more shell, with noise around.
type runner struct {
	argv []string
	dir  string
	env  []string
	wrap func(script string) string // nil = as it is
}

func (r *runner) Run(ctx context.Context, script string, stdin []byte) (Output, error) {
	if r.wrap != nil {
		script = r.wrap(script)
	}
	cmd := exec.CommandContext(ctx, r.argv[0], append(append([]string{}, r.argv[1:]...), script)...)
	cmd.Dir, cmd.Env = r.dir, r.env
	if stdin != nil {
		cmd.Stdin = bytes.NewReader(stdin)
	}
	out, err := cmd.Output()
	if _, ok := errors.AsType[*exec.ExitError](err); ok {
		err = nil
	}
	return Output{out, cmd.ProcessState.ExitCode()}, err
}

// bare makes a directory with the named tools only, and a path of it.
func bare(t testing.TB, busybox bool, skip ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"sh", "base64", "od", "readlink", "stat", "sha256sum", "cat", "mv", "rm", "cp", "chmod", "chown", "touch", "mkdir", "head", "tail", "wc", "cut", "find", "xargs", "grep", "tr", "printf", "sed"} {
		if strings.Contains(" "+strings.Join(skip, " ")+" ", " "+name+" ") {
			continue
		}
		target, err := exec.LookPath(name)
		if busybox {
			target, err = exec.LookPath("busybox")
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// shells are the shells that this machine has, each with its tools.
func shells(t testing.TB, dir string) map[string]*Shell {
	t.Helper()
	out := map[string]*Shell{}
	add := func(name, bin, path string, args ...string) {
		r := &runner{argv: append([]string{bin}, args...), dir: dir, env: []string{"PATH=" + path, "HOME=" + dir, "LC_ALL=C.UTF-8"}}
		out[name] = &Shell{Label: "test " + name, Runner: r}
	}
	bash, err := exec.LookPath("bash")
	testkit.Need(t, "bash", err == nil, "no bash here")
	add("bash", bash, os.Getenv("PATH"), "-c")
	rg := filepath.Join(t.TempDir(), "rg.conf")
	put(t, rg, "--hidden\n--no-ignore\n")
	noisy := &runner{argv: []string{bash, "-c"}, dir: dir, env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "RIPGREP_CONFIG_PATH=" + rg, "CDPATH=/"}, wrap: func(s string) string {
		return "echo Welcome; alias cat='cat -n' grep='grep --color=always' rm='rm -i'; shopt -s expand_aliases; printf() { echo no; }; export -f printf\neval " + quote(s) + "\ns=$?; echo bye; exit $s"
	}}
	out["noisy bash"] = &Shell{Label: "test noisy bash", Runner: noisy}
	add("dash without rg", bash, bare(t, false), "--posix", "-c")
	if _, err := exec.LookPath("busybox"); err == nil {
		add("busybox", "/bin/sh", bare(t, true), "-c")
		add("busybox without base64", "/bin/sh", bare(t, true, "base64", "sha256sum"), "-c")
	}
	return out
}

// hosts are all hosts over one directory.
func hosts(t testing.TB, dir string) map[string]Host {
	t.Helper()
	out := map[string]Host{"direct": &Direct{Dir: func() string { return dir }, Home: dir}}
	for name, s := range shells(t, dir) {
		out[name] = s
	}
	return out
}

// tempDir is a directory whose path has no link in it.
func tempDir(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// forHosts runs a test on every host over a directory of its own.
func forHosts(t *testing.T, f func(t *testing.T, dir string, h Host)) {
	t.Helper()
	for name := range hosts(t, t.TempDir()) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := tempDir(t)
			f(t, dir, hosts(t, dir)[name])
		})
	}
}

func put(t testing.TB, path, text string) {
	t.Helper()
	testkit.WriteTree(t, filepath.Dir(path), map[string]string{filepath.Base(path): text})
}

func get(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func locate(t testing.TB, h Host, path string) Place {
	t.Helper()
	at, err := h.Locate(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return at
}
