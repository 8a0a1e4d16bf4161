// SPDX-License-Identifier: MIT

package terminal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
)

// Times of the terminal tool where nothing is set.
const (
	DefaultTimeout = 180 * time.Second
	MaxTimeout     = 600 * time.Second // of a command that is waited for
)

// ToolsConfig is what the tools are made of.
type ToolsConfig struct {
	// Backend returns the backend of the profile that ctx is bound to. One that fails is not
	// to be remembered.
	Backend func(ctx context.Context) (Backend, error)
	Procs   *Procs
	Timeout time.Duration // terminal.timeout; 0 = DefaultTimeout
	// Fail makes a backend that cannot be reached an error instead of a degraded result:
	// terminal.degraded_mode: fail.
	Fail bool
	// Redact masks secrets in what a command printed; command says what to expect in it. nil
	// = nothing is masked.
	Redact func(text, command string) string
	Log    *slog.Logger
	Now    func() time.Time
}

// Tools are terminal and process_manage. They are safe for concurrent use.
type Tools struct{ c ToolsConfig }

// NewTools returns the tools.
func NewTools(c ToolsConfig) *Tools {
	if c.Timeout <= 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Redact == nil {
		c.Redact = func(text, _ string) string { return text }
	}
	return &Tools{c}
}

// Call is on whose behalf a tool is used. What ends ctx interrupts a command that is waited
// for, and never a background one.
type Call struct {
	Session  string
	Yield    <-chan struct{}                   // see [Command]
	Activity func(elapsed time.Duration) error // see [Command]
	Approval string                            // what to say of how it was approved; "" = nothing
}

// ToolArgs are the parameters of the tool terminal.
type ToolArgs struct {
	Command    string   `json:"command"`
	Background bool     `json:"background"`
	Timeout    *int     `json:"timeout"`
	Workdir    string   `json:"workdir"`
	PTY        bool     `json:"pty"`
	Notify     bool     `json:"notify_on_complete"`
	Watch      []string `json:"watch_patterns"`
	Persist    bool     `json:"persist_on_release"`
}

// ToolResult is the answer of the tool terminal.
type ToolResult struct {
	Output   string  `json:"output"`
	ExitCode int     `json:"exit_code"`
	Error    *string `json:"error"`
	Status   string  `json:"status,omitempty"` // degraded, yielded_to_background or error

	Cwd         string `json:"cwd,omitempty"` // where the session is now, if that has changed
	Recreated   string `json:"environment_recreated,omitempty"`
	TimedOut    bool   `json:"hermes_timed_out,omitempty"`
	Interrupted bool   `json:"hermes_interrupted,omitempty"`
	StdinError  string `json:"stdin_error,omitempty"`

	Total   int64  `json:"output_total_chars,omitempty"`
	Spill   string `json:"full_output_path,omitempty"`
	Note    string `json:"truncation_note,omitempty"`
	Meaning string `json:"exit_code_meaning,omitempty"`
	Hint    string `json:"hint,omitempty"`

	Approval  string   `json:"approval,omitempty"`
	SessionID string   `json:"session_id,omitempty"` // of a background command
	PID       int      `json:"pid,omitempty"`
	Notify    bool     `json:"notify_on_complete,omitempty"`
	Watch     []string `json:"watch_patterns,omitempty"`
}

const recreatedNote = "The environment that commands run in was gone and has been made anew. Files in persistent places are there; background processes and everything else of before may be lost: check before you rely on earlier work."

func failed(format string, a ...any) ToolResult {
	msg := fmt.Sprintf(format, a...)
	return ToolResult{ExitCode: -1, Error: &msg, Status: "error"}
}

// Terminal is the tool terminal.
func (t *Tools) Terminal(ctx context.Context, c Call, a ToolArgs) ToolResult {
	limit, hint, err := t.check(a)
	if err != nil {
		return failed("%v", err)
	}
	b, err := t.c.Backend(ctx)
	if err != nil {
		return t.broken(err)
	}
	cmd := Command{Text: a.Command, Session: c.Session, Dir: a.Workdir, PTY: a.PTY, Timeout: limit, Yield: c.Yield, Activity: c.Activity}
	if a.Workdir != "" && !b.Describe().Remote && !filepath.IsAbs(a.Workdir) && !strings.HasPrefix(a.Workdir, "~") {
		return failed("workdir: %q is no absolute path", a.Workdir)
	}
	if a.Background {
		return t.start(ctx, b, c, a, cmd)
	}
	before := b.Dir(c.Session)
	res, err := b.Run(ctx, cmd)
	if err != nil {
		out := t.broken(err)
		out.Output = t.c.Redact(strings.TrimSpace(plainText(res.Output)), a.Command)
		return out
	}
	if res.Yielded != nil {
		return t.yielded(ctx, res, c, a)
	}
	out := t.result(res, a.Command)
	if res.DirObserved && a.Workdir == "" && res.Dir != before {
		out.Cwd = res.Dir
	}
	out.Approval = c.Approval
	if out.Approval != "" && res.Interrupted {
		out.Approval = strings.TrimSuffix(out.Approval, ".") + ", then interrupted."
	}
	out.Hint = hint
	return out
}

// check judges the parameters. The hint is about what was ignored.
func (t *Tools) check(a ToolArgs) (limit time.Duration, hint string, err error) {
	limit = t.c.Timeout
	switch {
	case strings.TrimSpace(a.Command) == "":
		return 0, "", errors.New("command: is empty")
	case a.Timeout != nil && *a.Timeout < 1:
		return 0, "", fmt.Errorf("timeout: must be at least 1 second, got %d", *a.Timeout)
	case a.Timeout != nil && !a.Background && time.Duration(*a.Timeout)*time.Second > max(MaxTimeout, t.c.Timeout):
		return 0, "", fmt.Errorf("timeout: %d s is more than the %s that a command may be waited for: use background=true with notify_on_complete=true", *a.Timeout, seconds(max(MaxTimeout, t.c.Timeout)))
	case a.Notify && len(a.Watch) > 0:
		return 0, "", errors.New("watch_patterns and notify_on_complete exclude each other: give one")
	case a.Workdir != "" && !path.IsAbs(a.Workdir) && !filepath.IsAbs(a.Workdir) && !strings.HasPrefix(a.Workdir, "~"):
		return 0, "", fmt.Errorf("workdir: %q is no absolute path", a.Workdir)
	}
	if a.Timeout != nil {
		limit = time.Duration(*a.Timeout) * time.Second
	}
	if !a.Background && (a.Notify || len(a.Watch) > 0 || a.Persist) {
		hint = "notify_on_complete, watch_patterns and persist_on_release count with background=true only, and were ignored"
	}
	return limit, hint, nil
}

// broken is the answer where nothing ran.
func (t *Tools) broken(err error) ToolResult {
	res := failed("%v", err)
	var conn *ConnError
	if errors.As(err, &conn) && !t.c.Fail {
		msg := conn.Backend + " backend: " + conn.Reason
		res.Error, res.Status, res.Hint = &msg, "degraded", conn.Hint
	}
	return res
}

// result turns what became of a command into the answer.
func (t *Tools) result(res Result, command string) ToolResult {
	out := ToolResult{
		Output: t.c.Redact(strings.TrimSpace(plainText(res.Output)), command), ExitCode: res.Code,
		TimedOut: res.TimedOut, Interrupted: res.Interrupted, Meaning: meaning(command, res),
	}
	if res.Recreated {
		out.Recreated = recreatedNote
	}
	if res.StdinErr != nil {
		out.StdinError = res.StdinErr.Error()
	}
	if res.Spill != "" {
		t.spilled(&out, res, command)
	}
	return out
}

// spilled names the file with the whole output, once secrets are masked in it. A file that
// cannot be masked is removed.
func (t *Tools) spilled(out *ToolResult, res Result, command string) {
	data, err := os.ReadFile(res.Spill)
	var w atomicfile.Writer
	if err == nil {
		err = w.Write(res.Spill, []byte(t.c.Redact(plainText(valid(data)), command)), atomicfile.Options{Mode: 0o600})
	}
	if err != nil {
		t.c.Log.Warn("overflow of a command's output dropped", "error", err)
		if rerr := w.Remove(res.Spill); rerr != nil {
			t.c.Log.Error("overflow of a command's output cannot be removed", "error", rerr)
		}
		return
	}
	out.Total, out.Spill = res.Total, res.Spill
	out.Note = fmt.Sprintf("The output is longer than what is shown (its beginning and end). All of it (%d bytes) is in %s: search it or page through it instead of running the command again.", res.Total, res.Spill)
	if res.Total > SpillMax {
		out.Note = fmt.Sprintf("The output is longer than what is shown (its beginning and end). The first %d of %d bytes are in %s.", SpillMax, res.Total, res.Spill)
	}
}

// start starts a background command.
func (t *Tools) start(ctx context.Context, b Backend, c Call, a ToolArgs, cmd Command) ToolResult {
	if t.c.Procs.full() {
		return failed("%v", ErrTooMany)
	}
	r, err := b.Start(ctx, cmd)
	if err != nil {
		return t.broken(err)
	}
	return t.keep(ctx, r, c, a, "Background process started")
}

// keep hands a running command to those who watch it.
func (t *Tools) keep(ctx context.Context, r *Running, c Call, a ToolArgs, text string) ToolResult {
	pr, err := t.c.Procs.Add(ctx, r, ProcOptions{Owner: c.Session, Command: a.Command, Persist: a.Persist, Notify: a.Notify, Watch: a.Watch})
	if err != nil {
		r.job.KillNow()
		return failed("%v", err)
	}
	res := ToolResult{Output: text, SessionID: pr.ID, PID: r.PID(), Notify: a.Notify, Watch: a.Watch, Approval: c.Approval}
	if r.Recreated() {
		res.Recreated = recreatedNote
	}
	return res
}

// yielded is the answer of a command that was handed over.
func (t *Tools) yielded(ctx context.Context, res Result, c Call, a ToolArgs) ToolResult {
	a.Notify, a.Watch = true, nil
	out := t.keep(ctx, res.Yielded, c, a, t.c.Redact(plainText(res.Output), a.Command))
	if out.Error == nil {
		out.Status = "yielded_to_background"
		out.Hint = "the command goes on in the background; process_manage with this session_id reads and ends it, and its end is told"
	}
	return out
}

// JSON is an answer as the model reads it.
func JSON(v any) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return `{"error":"the result cannot be written as JSON"}`
	}
	return strings.TrimSuffix(b.String(), "\n")
}
