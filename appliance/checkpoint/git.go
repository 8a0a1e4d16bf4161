// SPDX-License-Identifier: MIT

package checkpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/appliance/process"
)

// call is one run of git.
type call struct {
	args  []string
	dir   string // where it runs
	work  string // the directory that is looked at; "" = none
	index string // "" = none
	stdin []byte
	out   io.Writer // nil = the output is returned
	slow  bool      // it may take MaxTimeout: it reads a whole directory or store
}

// gitError says how a git command failed. It holds no file's content.
type gitError struct {
	verb string
	code int
	said string
}

func (e *gitError) Error() string {
	return fmt.Sprintf("git %s: exit code %d: %s", e.verb, e.code, e.said)
}

// passed are the variables of the handed-in environment that git needs.
func passed(name string) bool {
	return slices.Contains([]string{"PATH", "TMPDIR", "TMP", "TEMP", "SYSTEMROOT", "WINDIR", "PATHEXT", "COMSPEC"}, strings.ToUpper(name))
}

// env is the whole environment of a git child: no settings, attributes or excludes of the
// user's or the system's, no prompt, and nothing of any GIT_ variable that was handed in.
func (s *Store) env(c call) []string {
	var out []string
	for _, kv := range s.o.Env {
		if name, _, ok := strings.Cut(kv, "="); ok && passed(name) {
			out = append(out, kv)
		}
	}
	stamp := "@" + strconv.FormatInt(s.o.Now().Unix(), 10) + " +0000"
	out = append(
		out,
		"HOME="+s.dir, "XDG_CONFIG_HOME="+s.dir, "LC_ALL=C",
		"GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_SYSTEM="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1", "GIT_ATTR_NOSYSTEM=1",
		"GIT_TERMINAL_PROMPT=0", "GIT_LITERAL_PATHSPECS=1", "GIT_NO_REPLACE_OBJECTS=1", "GIT_PAGER=cat",
		"GIT_AUTHOR_NAME=Hermes Checkpoint", "GIT_AUTHOR_EMAIL=hermes@local", "GIT_AUTHOR_DATE="+stamp,
		"GIT_COMMITTER_NAME=Hermes Checkpoint", "GIT_COMMITTER_EMAIL=hermes@local", "GIT_COMMITTER_DATE="+stamp,
		"GIT_DIR="+s.dir,
	)
	if c.work != "" {
		out = append(out, "GIT_WORK_TREE="+c.work)
	}
	if c.index != "" {
		out = append(out, "GIT_INDEX_FILE="+c.index)
	}
	return out
}

// settings hold whatever the store's own config says.
func settings() []string {
	var out []string
	for _, kv := range []string{
		"core.hooksPath=" + os.DevNull, "core.excludesFile=" + os.DevNull, "core.attributesFile=" + os.DevNull,
		"core.fsmonitor=false", "core.autocrlf=false", "core.safecrlf=false", "core.quotePath=false", "core.splitIndex=false",
		"core.sparseCheckout=false", "core.untrackedCache=false", "core.precomposeUnicode=false", "core.logAllRefUpdates=false",
		"gc.auto=0", "gc.writeCommitGraph=false", "maintenance.auto=false", "commit.gpgSign=false", "advice.detachedHead=false", "core.pager=cat",
	} {
		out = append(out, "-c", kv)
	}
	return out
}

// git runs one command and returns what it printed.
func (s *Store) git(ctx context.Context, c call) (string, error) {
	limit := s.o.Timeout
	if c.slow {
		limit = MaxTimeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("git %s: not done within %s", c.args[0], limit))
	defer cancel()
	stdout, stderr := process.NewCapture(0), process.NewCapture(4096)
	cmd := process.Cmd{
		Name: "git", Kind: process.Foreground, Env: s.env(c), Dir: c.dir, Stdout: c.out, Stderr: stderr,
		Args: slices.Concat([]string{s.o.Git}, settings(), c.args),
	}
	if cmd.Dir == "" {
		cmd.Dir = s.dir
	}
	if c.out == nil {
		cmd.Stdout = stdout
	}
	if c.stdin != nil {
		cmd.Stdin = bytes.NewReader(c.stdin)
	}
	exit, err := s.o.Processes.Run(ctx, cmd)
	switch {
	case err != nil:
		return "", fmt.Errorf("checkpoint: %w", err)
	case exit.Code != 0:
		return "", &gitError{c.args[0], exit.Code, strings.TrimSpace(stderr.String())}
	case exit.Output != nil:
		return "", exit.Output
	case exit.Stdin != nil:
		return "", exit.Stdin
	}
	return stdout.String(), nil
}

// line is git with one line of output.
func (s *Store) line(ctx context.Context, c call) (string, error) {
	out, err := s.git(ctx, c)
	return strings.TrimSpace(out), err
}

// tip is the latest commit of a project and its tree, "" if there is none. One that cannot be
// read any more counts as none: a new history begins.
func (s *Store) tip(ctx context.Context, p project) (commit, tree string, err error) {
	out, err := s.git(ctx, call{args: []string{"log", "-1", "--format=%H %T", p.ref(), "--"}})
	if _, failed := errors.AsType[*gitError](err); failed {
		return "", "", nil
	}
	commit, tree, _ = strings.Cut(strings.TrimSpace(out), " ")
	return commit, tree, err
}

// limited stops a listing that grows beyond a number of entries.
type limited struct {
	bytes.Buffer
	most, n int
	stop    context.CancelCauseFunc
}

func (l *limited) Write(p []byte) (int, error) {
	l.n += bytes.Count(p, []byte{0})
	if l.n > l.most {
		l.stop(ErrTooMany)
		return 0, ErrTooMany
	}
	return l.Buffer.Write(p)
}

// names splits what git prints with -z.
func names(out string) []string {
	return strings.FieldsFunc(out, func(r rune) bool { return r == 0 })
}

// joined is the other way round, for git's standard input.
func joined(paths []string) []byte {
	var b bytes.Buffer
	for _, p := range paths {
		b.WriteString(p)
		b.WriteByte(0)
	}
	return b.Bytes()
}

func (s *Store) path(parts ...string) string {
	return filepath.Join(append([]string{s.dir}, parts...)...)
}
