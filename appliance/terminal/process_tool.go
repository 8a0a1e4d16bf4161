// SPDX-License-Identifier: MIT

package terminal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// ProcessArgs are the parameters of the tool process_manage.
type ProcessArgs struct {
	Action    string `json:"action"`
	SessionID string `json:"session_id"`
	Data      string `json:"data"`
	Timeout   *int   `json:"timeout"`
	Offset    *int   `json:"offset"`
	Limit     *int   `json:"limit"`
}

// ProcessResult is the answer of process_manage. Which fields it has depends on the action.
type ProcessResult struct {
	Status    string `json:"status,omitempty"`
	Error     string `json:"error,omitempty"`
	SessionID string `json:"session_id,omitempty"`
	Command   string `json:"command,omitempty"`
	PID       int    `json:"pid,omitempty"`
	Uptime    *int   `json:"uptime_seconds,omitempty"`

	ExitCode *int    `json:"exit_code,omitempty"`
	Reason   string  `json:"completion_reason,omitempty"` // exited, killed or lost
	Output   *string `json:"output,omitempty"`
	Preview  *string `json:"output_preview,omitempty"`
	Total    *int    `json:"total_lines,omitempty"`
	Showing  string  `json:"showing,omitempty"`
	Note     string  `json:"note,omitempty"`

	TimeoutNote string `json:"timeout_note,omitempty"`
	Live        bool   `json:"process_running,omitempty"`
	Written     *int   `json:"bytes_written,omitempty"`
	Message     string `json:"message,omitempty"`

	Processes *[]ProcessInfo `json:"processes,omitempty"`
}

// ProcessInfo is one entry of the list.
type ProcessInfo struct {
	SessionID string   `json:"session_id"`
	Command   string   `json:"command"`
	Cwd       string   `json:"cwd"`
	PID       int      `json:"pid,omitempty"`
	StartedAt string   `json:"started_at"`
	Uptime    int      `json:"uptime_seconds"`
	Status    string   `json:"status"`
	Preview   string   `json:"output_preview"`
	Watch     []string `json:"watch_patterns,omitempty"`
	Hit       bool     `json:"watch_hit,omitempty"`
	Notify    bool     `json:"notify_on_complete,omitempty"`
	Persist   bool     `json:"persist_on_release,omitempty"`
	ExitCode  *int     `json:"exit_code,omitempty"`
	Reason    string   `json:"completion_reason,omitempty"`
}

const (
	previewMax = 1000
	logLines   = 200
	writeTime  = 5 * time.Second // for a command to take its input
)

// Process is the tool process_manage. A session sees its own commands only.
func (t *Tools) Process(ctx context.Context, c Call, a ProcessArgs) ProcessResult {
	if a.Action == "list" {
		return t.list(c)
	}
	act, ok := map[string]func(context.Context, Call, *Proc, ProcessArgs) ProcessResult{
		"poll": t.poll, "log": t.log, "wait": t.await, "kill": t.kill, "write": t.write, "submit": t.submit, "close": t.closeInput,
	}[a.Action]
	switch {
	case !ok:
		return ProcessResult{Error: fmt.Sprintf("unknown action %q: use list, poll, log, wait, kill, write, submit or close", a.Action)}
	case a.SessionID == "":
		return ProcessResult{Error: "session_id is required for " + a.Action}
	}
	pr := t.c.Procs.get(c.Session, a.SessionID)
	if pr == nil {
		return ProcessResult{Status: "not_found", Error: "no process with session_id " + a.SessionID + ": the action list names those there are"}
	}
	res := act(ctx, c, pr, a)
	if res.Error == "" || res.SessionID == "" {
		res.SessionID = pr.ID
	}
	return res
}

func (t *Tools) list(c Call) ProcessResult {
	list := []ProcessInfo{}
	for _, pr := range t.c.Procs.List(c.Session) {
		out, _ := pr.out.text()
		i := ProcessInfo{
			SessionID: pr.ID, Command: tailless(t.c.Redact(pr.Command, ""), 200), Cwd: pr.Dir, PID: pr.r.PID(),
			StartedAt: pr.Started.Format(time.RFC3339), Uptime: t.uptime(pr), Status: "running",
			Preview: t.c.Redact(tail(out, 200), pr.Command), Persist: pr.Persist,
		}
		if pr.watch != nil {
			var looking bool
			if looking, i.Hit = pr.watch.state(); looking {
				i.Watch = pr.watch.patterns
			}
		}
		pr.mu.Lock()
		i.Notify = pr.notify
		pr.mu.Unlock()
		if !pr.Running() {
			i.Status, i.ExitCode, i.Reason = "exited", &pr.exit.Code, pr.reason()
		}
		list = append(list, i)
	}
	return ProcessResult{Processes: &list}
}

// tailless is the beginning of a text.
func tailless(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

func (t *Tools) uptime(pr *Proc) int {
	pr.mu.Lock()
	end := pr.ended
	pr.mu.Unlock()
	if end.IsZero() {
		end = t.c.Now()
	}
	return int(end.Sub(pr.Started).Seconds())
}

// reason says how a command ended.
func (pr *Proc) reason() string {
	pr.mu.Lock()
	defer pr.mu.Unlock()
	switch {
	case pr.err != nil:
		return "lost"
	case pr.killed:
		return "killed"
	}
	return "exited"
}

// head is what most answers begin with.
func (t *Tools) head(pr *Proc) ProcessResult {
	up := t.uptime(pr)
	r := ProcessResult{Status: "running", Command: t.c.Redact(pr.Command, ""), PID: pr.r.PID(), Uptime: &up}
	if !pr.Running() {
		r.Status, r.ExitCode, r.Reason = "exited", &pr.exit.Code, pr.reason()
		if pr.err != nil {
			r.Note = pr.err.Error()
		}
	}
	return r
}

func (t *Tools) output(pr *Proc, n int) *string {
	out, _ := pr.out.text()
	out = t.c.Redact(tail(out, n), pr.Command)
	return &out
}

// seen says that the owner knows of the end: it is no news any more.
func (pr *Proc) seen() {
	if !pr.Running() {
		pr.mu.Lock()
		pr.told = true
		pr.mu.Unlock()
	}
}

func (t *Tools) poll(_ context.Context, _ Call, pr *Proc, _ ProcessArgs) ProcessResult {
	r := t.head(pr)
	r.Preview = t.output(pr, previewMax)
	return r
}

func (t *Tools) log(_ context.Context, _ Call, pr *Proc, a ProcessArgs) ProcessResult {
	limit, offset := logLines, -1
	if a.Limit != nil {
		limit = *a.Limit
	}
	if a.Offset != nil {
		offset = *a.Offset
	}
	if limit < 1 || a.Offset != nil && offset < 0 {
		return ProcessResult{Error: "limit must be at least 1 and offset at least 0"}
	}
	r := t.head(pr)
	out, cut := pr.out.text()
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if out == "" {
		lines = nil
	}
	if offset < 0 {
		offset = max(len(lines)-limit, 0)
	}
	from := min(offset, len(lines))
	shown := lines[from:min(from+limit, len(lines))]
	text := t.c.Redact(strings.Join(shown, "\n"), pr.Command)
	total := len(lines)
	r.Output, r.Total, r.Showing = &text, &total, fmt.Sprintf("%d lines", len(shown))
	if cut {
		r.Note = "older output is not remembered any more: redirect to a file to keep it"
	}
	if from+len(shown) == total {
		pr.seen()
	}
	return r
}

func (t *Tools) await(ctx context.Context, c Call, pr *Proc, a ProcessArgs) ProcessResult {
	limit, note := t.c.Timeout, ""
	if a.Timeout != nil {
		if *a.Timeout < 1 {
			return ProcessResult{Status: "error", Error: fmt.Sprintf("timeout must be at least 1 second, got %d", *a.Timeout)}
		}
		if limit = time.Duration(*a.Timeout) * time.Second; limit > t.c.Timeout {
			limit = t.c.Timeout
			note = fmt.Sprintf("Requested wait of %ds was clamped to the configured limit of %s. ", *a.Timeout, seconds(limit))
		}
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	status := "exited"
	select {
	case <-pr.done:
	case <-ctx.Done():
		status = "interrupted"
	case <-c.Yield:
		status = "interrupted"
	case <-timer.C:
		status = "timeout"
	}
	r := t.head(pr)
	r.TimeoutNote = note
	switch {
	case !pr.Running():
		r.Output = t.output(pr, tailMax)
		pr.seen()
		return r
	case status == "timeout":
		r.TimeoutNote += fmt.Sprintf("Wait window of %s elapsed; the process is still running. This is not an error.", seconds(limit))
	default:
		r.Note = "the wait was ended, the process goes on"
	}
	r.Status, r.Live, r.Output = status, true, t.output(pr, previewMax)
	return r
}

// killTime bounds what a person waits for a kill.
const killTime = 30 * time.Second

func (t *Tools) kill(ctx context.Context, _ Call, pr *Proc, _ ProcessArgs) ProcessResult {
	before := pr.Running()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTime)
	defer cancel()
	if err := pr.kill(ctx); err != nil {
		return ProcessResult{Status: "error", Error: "kill incomplete: " + err.Error(), Live: pr.Running()}
	}
	r := t.head(pr)
	r.Status, r.Output = "killed", t.output(pr, tailMax)
	if !before {
		r.Status = "already_exited"
	}
	pr.seen()
	return r
}

func (t *Tools) write(ctx context.Context, _ Call, pr *Proc, a ProcessArgs) ProcessResult {
	return pr.type_(ctx, a.Data)
}

func (t *Tools) submit(ctx context.Context, _ Call, pr *Proc, a ProcessArgs) ProcessResult {
	return pr.type_(ctx, a.Data+"\n")
}

// type_ writes to a command. One that does not read holds the caller up for a moment only.
func (pr *Proc) type_(ctx context.Context, data string) ProcessResult {
	return pr.feed(ctx, func() (ProcessResult, error) {
		n, err := pr.r.Stdin().Write([]byte(data))
		return ProcessResult{Status: "ok", Written: &n}, err
	})
}

func (t *Tools) closeInput(ctx context.Context, _ Call, pr *Proc, _ ProcessArgs) ProcessResult {
	return pr.feed(ctx, func() (ProcessResult, error) {
		return ProcessResult{Status: "ok", Message: "its input was closed"}, pr.r.Stdin().Close()
	})
}

func (pr *Proc) feed(ctx context.Context, do func() (ProcessResult, error)) ProcessResult {
	switch {
	case !pr.Running():
		return ProcessResult{Status: "already_exited", Error: "the process has already finished"}
	case pr.r.Stdin() == nil:
		return ProcessResult{Status: "error", Error: "the process has no input to write to: it was started without background=true"}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, writeTime, errors.New("the process does not read its input"))
	defer cancel()
	type answer struct {
		r   ProcessResult
		err error
	}
	done := make(chan answer, 1)
	select {
	case pr.input <- struct{}{}:
	case <-ctx.Done():
		return ProcessResult{Status: "error", Error: context.Cause(ctx).Error()}
	}
	go func() {
		defer func() { <-pr.input }()
		r, err := do()
		done <- answer{r, err}
	}()
	select {
	case a := <-done:
		if a.err != nil {
			return ProcessResult{Status: "error", Error: "its input cannot be written: " + a.err.Error()}
		}
		return a.r
	case <-ctx.Done():
		return ProcessResult{Status: "error", Error: context.Cause(ctx).Error()}
	}
}
