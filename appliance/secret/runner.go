// SPDX-License-Identifier: MIT

package secret

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

var (
	// ErrFlood says that a command printed more than it may; it was killed.
	ErrFlood = errors.New("too much output")
	// ErrNoCommand says that there is no such program.
	ErrNoCommand = errors.New("no such program")
	// ErrNoEnv says that a command had no environment at all. It was not started: it would
	// have inherited the process's.
	ErrNoEnv = errors.New("no environment given")
)

// Limits of a vault's command.
const (
	maxOutput = 1 << 20                // of stdout
	maxErrors = 4 << 10                // of stderr; the rest is thrown away
	drain     = 200 * time.Millisecond // for output that a descendant keeps open
)

// Job is a command of a source.
type Job struct {
	Args  []string // Args[0] is an absolute path, or a name looked up in the PATH of Env
	Env   []string // complete; nil is refused
	Dir   string
	Stdin []byte // nil = the null device
}

// Output is what a command printed. Stderr is for [classify] only.
type Output struct {
	Stdout, Stderr []byte
	Code           int
}

// Runner runs commands of sources. Run returns when the command has exited, or when ctx ends
// or it printed too much ([ErrFlood]); the command and all its descendants are killed then.
// An exit code is no error. A descendant that keeps the output open does not hold it up.
type Runner interface {
	Run(ctx context.Context, j Job) (Output, error)
}

// Exec runs commands as children of this process, each in a session of its own so that it
// cannot ask at the terminal. A descendant that starts a session of its own outlives a kill;
// on Windows only the command itself is killed. The zero value is ready.
type Exec struct {
	reading func() // before each read of an output, in tests
}

// Run runs a command.
func (x Exec) Run(ctx context.Context, j Job) (Output, error) {
	if j.Env == nil {
		return Output{}, ErrNoEnv
	}
	if len(j.Args) == 0 {
		return Output{}, ErrNoCommand
	}
	path, err := find(j.Args[0], j.Env)
	if err != nil {
		return Output{}, err
	}
	ctx, kill := context.WithCancelCause(ctx)
	defer kill(nil)
	cmd := exec.CommandContext(ctx, path, j.Args[1:]...)
	cmd.Env, cmd.Dir, cmd.WaitDelay = j.Env, j.Dir, drain
	if j.Stdin != nil {
		cmd.Stdin = bytes.NewReader(j.Stdin)
	}
	stdout := &bounded{max: maxOutput, over: func() { kill(ErrFlood) }}
	stderr := &bounded{max: maxErrors}
	end, err := x.outputs(cmd, stdout, stderr)
	if err != nil {
		return Output{}, err
	}
	group(cmd)
	if err = cmd.Start(); err == nil {
		end.begin()
		err = cmd.Wait()
	}
	end.finish()
	if cause := context.Cause(ctx); cause != nil {
		return Output{}, cause
	}
	out := Output{Stdout: stdout.b, Stderr: stderr.b}
	var exit *exec.ExitError
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay):
		return out, nil
	case errors.As(err, &exit):
		out.Code = exit.ExitCode()
		return out, nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return Output{}, ErrNoCommand
	}
	return Output{}, err
}

// bounded keeps the first max bytes. With over it ends the command at the next one, else it
// throws the rest away.
type bounded struct {
	b    []byte
	max  int
	over func()
}

func (w *bounded) Write(p []byte) (int, error) {
	n := min(len(p), w.max-len(w.b))
	w.b = append(w.b, p[:n]...)
	if n < len(p) && w.over != nil {
		w.over()
		return n, ErrFlood
	}
	return len(p), nil
}

// find looks a program up in the PATH of a child's environment, never in the process's own.
// Relative and empty entries are skipped.
func find(name string, env []string) (string, error) {
	if filepath.Base(name) != name {
		if filepath.IsAbs(name) && program(name) {
			return name, nil
		}
		return "", ErrNoCommand
	}
	path := ""
	for _, kv := range env {
		if k, v, _ := strings.Cut(kv, "="); k == "PATH" || runtime.GOOS == "windows" && strings.EqualFold(k, "PATH") {
			path = v
		}
	}
	for _, dir := range filepath.SplitList(path) {
		for _, ext := range extensions() {
			if p := filepath.Join(dir, name+ext); filepath.IsAbs(dir) && program(p) {
				return p, nil
			}
		}
	}
	return "", ErrNoCommand
}

func extensions() []string {
	if runtime.GOOS == "windows" {
		return []string{".exe", ""}
	}
	return []string{""}
}

func program(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && (runtime.GOOS == "windows" || info.Mode().Perm()&0o111 != 0)
}

// classify reduces a failed command's error output to a reason; of its text nothing remains.
func classify(out Output) Reason {
	text := strings.ToLower(string(out.Stderr))
	has := func(words ...string) bool {
		for _, w := range words {
			if strings.Contains(text, w) {
				return true
			}
		}
		return false
	}
	switch {
	case has("unauthorized", "not signed in", "not currently signed in", "session expired", "invalid_client", "authentication", "access token", "401", "403"):
		return AuthFailed
	case has("isn't an item", "isn't a vault", "isn't a field", "does not have a field", "could not find item", "no item found"):
		return NotFound
	case has("timed out", "timeout"):
		return TimedOut
	case has("network", "connection", "resolve host", "dns", "dial tcp", "no such host", "tls"):
		return Network
	}
	return Exited
}
