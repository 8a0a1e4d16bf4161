// SPDX-License-Identifier: MIT

package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/hermes-appliance/hermes-appliance/appliance/process"
)

// killScript signals a command's tree and prints what is left of it, "PID UID" a line. It
// uses nothing but what the shell has in itself, so it needs no process where none is left.
// Arguments: signal, session, start time of its leader, mark, how often to look.
//
// The whole tree: who is in the session, unless its number has been given to another since
// (then its leader was born at another time); who carries the mark; and all their children.
// A process that is older than the leader cannot be of its tree. /proc/PID/stat can contain
// anything in the name of the program, so fields are counted from its last parenthesis.
//
// All of it is stopped before any of it is signalled, the older first: a shell must not see
// the death of the command it waits for before its own, or it goes on with its next statement.
// What is stopped forks nothing, so a look that finds nothing new has found all.
const killScript = `hunt() {
sig=$1 sid=$2 born=$3 mark=$4 rounds=$5 again=4
digits='[0-9]' numbers=/proc/$digits
for d in 1 2 3 4 5 6; do digits="$digits[0-9]" numbers="$numbers /proc/$digits"; done
stat() {
  a=; l=
  { while IFS= read -r l; do a=$a$l; done; a=$a$l; } 2>/dev/null <"/proc/$1/stat" || return 1
  set -- ${a##*) }
  [ $# -ge 20 ] || return 1
  st=$1 pp=$2 se=$4 ti=${20}
}
marked() {
  e=
  { while IFS= read -r e; do case $e in *"$mark"*) return 0;; esac; done; } 2>/dev/null <"/proc/$1/environ"
  case $e in *"$mark"*) return 0;; esac
  return 1
}
scan() {
  all=; set=' '; ours=1
  if [ "$sid" -gt 1 ] && stat "$sid" && [ "$ti" != "$born" ]; then ours=0; fi
  for d in $numbers; do
    p=${d#/proc/}
    case $p in *[!0-9]*) continue;; esac
    [ "$p" -gt 1 ] && [ "$p" != $$ ] || continue
    stat "$p" || continue
    [ "$st" != Z ] && [ "$st" != X ] && [ "$ti" -ge "$born" ] || continue
    if [ "$se" = "$sid" ] && [ $ours = 1 ] && [ "$sid" -gt 1 ] || marked "$p"; then set="$set$p "; else all="$all $p:$pp"; fi
  done
  more=1
  while [ $more = 1 ]; do
    more=0; rest=
    for x in $all; do
      case $set in *" ${x#*:} "*) set="$set${x%:*} "; more=1;; *) rest="$rest $x";; esac
    done
    all=$rest
  done
}
while :; do
  scan
  [ "$set" = ' ' ] && return 0
  held=' '
  while :; do
    new=0
    for p in $set; do
      case $held in *" $p "*) ;; *) new=1; held="$held$p "; kill -s STOP "$p" 2>/dev/null;; esac
    done
    [ "$sig" = TERM ] && [ $new = 1 ] && [ "$again" -gt 0 ] || break
    again=$((again - 1))
    scan
  done
  [ $ours = 1 ] && [ "$sid" -gt 1 ] && [ "$sig" = KILL ] && kill -s KILL -- "-$sid" 2>/dev/null
  for p in $held; do kill -s "$sig" "$p" 2>/dev/null; done
  [ "$sig" = KILL ] || for p in $held; do kill -s CONT "$p" 2>/dev/null; done
  rounds=$((rounds - 1))
  [ "$rounds" -gt 0 ] || break
done
scan
for p in $set; do
  u=?
  { while read -r k v _; do [ "$k" = Uid: ] && u=$v; done; :; } 2>/dev/null <"/proc/$p/status" || continue
  printf '%s %s\n' "$p" "$u"
done
return 0
}
hunt "$@"`

// Looks of one shell: after the polite signal processes need time that the caller gives
// them; after the other one the kernel needs only moments.
const (
	termLooks = 1
	killLooks = 25
)

// KillDeadline is how long a kill looks for what is left after SIGKILL.
const KillDeadline = 5 * time.Second

// headroom is how many processes a container may have above its limit while a kill finds
// none left for its own shell.
const headroom = 64

// LeftError says that processes of a command outlived its kill.
type LeftError struct {
	Container string
	PIDs      []int // in the container
}

func (e *LeftError) Error() string {
	return fmt.Sprintf("in the sandbox %s processes are still alive after SIGKILL: %v; docker restart %[1]s ends them", e.Container, e.PIDs)
}

// Kill ends the command's whole tree: SIGTERM, a second, SIGKILL until none is left. It
// returns when that was verified, or a [*LeftError], or an error of the engine. A container
// that is gone has no processes: that is no error. One whose processes leave no room for a
// kill within [KillDeadline] is restarted, with all that ran in it.
func (p *Process) Kill(ctx context.Context) error {
	select {
	case <-p.begun:
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(process.Grace):
		// Neither begun nor refused: the mark finds it all the same.
	}
	p.killing.Store(true)
	t := target{user: p.x.User, mark: p.mark, born: "0"}
	select {
	case <-p.begun:
		if p.pid == 0 {
			return nil // it did not begin
		}
		t.sid, t.born = p.pid, p.born
	default:
	}
	return p.c.kill(ctx, t, p.done)
}

// KillMark ends the tree of a command by the mark that its processes carry, whoever started
// it; see [Process.Mark]. User is the one it was started as.
func (c *Container) KillMark(ctx context.Context, mark, user string) error {
	if !reMark.MatchString(mark) {
		return &EngineError{Kind: ErrConfig, Op: "kill a command", Msg: "the mark is not one of this program's"}
	}
	return c.kill(ctx, target{user: user, mark: mark, born: "0"}, nil)
}

// NewMark returns a mark for a command, see [Exec]: who has to know it before the command runs.
func NewMark() string { return random() }

var reMark = regexp.MustCompile(`^[0-9a-f]{32}$`)

// target is what is killed.
type target struct {
	user string
	sid  int // 0 = unknown
	born string
	mark string
}

// left is a process that is still there.
type left struct {
	pid int
	uid string
}

func (c *Container) kill(ctx context.Context, t target, done <-chan struct{}) error {
	rest, err := c.signal(ctx, t, t.user, "TERM", termLooks)
	if err == nil && len(rest) > 0 {
		select {
		case <-done:
			// Its end leaves those who have left the session.
		case <-time.After(process.Grace):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err != nil && !errors.Is(err, ErrPidsExhausted) {
		return c.gone(ctx, err)
	}
	for until := time.Now().Add(KillDeadline); len(rest) > 0 || err != nil; {
		rest, err = c.signalAll(ctx, t, rest)
		switch {
		case err != nil && !errors.Is(err, ErrPidsExhausted):
			return c.gone(ctx, err)
		case err != nil && time.Now().After(until):
			return c.restart(ctx)
		case time.Now().After(until):
			return c.leftError(rest)
		}
	}
	return nil
}

// restart ends everything in a container that is so full that nothing can be begun in it,
// not even a kill: whatever breeds there takes each number that is freed. Its files stay.
func (c *Container) restart(ctx context.Context) error {
	c.e.log().Warn("restarting a sandbox whose processes leave no room to kill them", "container", c.name)
	op := "restart the sandbox " + c.name
	ctx, cancel := context.WithTimeout(ctx, CreateTimeout)
	defer cancel()
	if _, err := c.e.api.ContainerRestart(ctx, c.id, client.ContainerRestartOptions{Timeout: new(0)}); err != nil {
		return c.gone(ctx, c.lost(ctx, op, err))
	}
	return nil
}

// gone judges an error of a kill: a container that is gone has no processes. One that is paused
// has them, and nothing can be done to them.
func (c *Container) gone(ctx context.Context, err error) error {
	if !errors.Is(err, ErrGone) {
		return err
	}
	if s, ierr := c.e.inspect(ctx, c.id); ierr == nil && s.state == container.StatePaused {
		return &EngineError{
			Kind: ErrEngine, Op: "kill a command in the sandbox " + c.name,
			Msg: "the container is paused, and the command goes on when it is not", Fix: "docker unpause " + c.name,
		}
	}
	return nil
}

func (c *Container) leftError(rest []left) error {
	if len(rest) == 0 {
		return nil
	}
	e := &LeftError{Container: c.name}
	for _, l := range rest {
		e.PIDs = append(e.PIDs, l.pid)
	}
	return e
}

// signalAll kills as the command's user, then as each other user whose processes are left:
// root in the container may not signal them, for it has no such capability.
func (c *Container) signalAll(ctx context.Context, t target, before []left) ([]left, error) {
	var users []string
	for _, l := range before {
		if l.uid != "?" && !slices.Contains(users, l.uid) {
			users = append(users, l.uid)
		}
	}
	for _, uid := range users {
		if uid == strings.SplitN(t.user, ":", 2)[0] || uid == "0" && t.user == "" {
			continue
		}
		if _, err := c.signal(ctx, t, uid, "KILL", killLooks); err != nil {
			return before, err
		}
	}
	return c.signal(ctx, t, t.user, "KILL", killLooks)
}

// signal runs the script once. Where the container has no process left for it, the limit is
// raised for that moment.
func (c *Container) signal(ctx context.Context, t target, user, sig string, looks int) ([]left, error) {
	rest, err := c.script(ctx, t, user, sig, looks)
	if !errors.Is(err, ErrPidsExhausted) {
		return rest, err
	}
	restore, rerr := c.raise(ctx)
	if rerr != nil {
		return nil, errors.Join(err, rerr)
	}
	rest, err = c.script(ctx, t, user, sig, looks)
	return rest, errors.Join(err, restore())
}

// raise lifts the limit of processes by a little. The caller restores it.
func (c *Container) raise(ctx context.Context) (restore func() error, err error) {
	op := "raise the process limit of the sandbox " + c.name
	r, err := c.e.api.ContainerInspect(ctx, c.id, client.ContainerInspectOptions{})
	if err != nil {
		return nil, c.lost(ctx, op, err)
	}
	h := r.Container.HostConfig
	if h == nil || h.PidsLimit == nil || *h.PidsLimit <= 0 {
		return func() error { return nil }, nil
	}
	set := func(n int64) error {
		_, err := c.e.api.ContainerUpdate(ctx, c.id, client.ContainerUpdateOptions{Resources: &container.Resources{PidsLimit: &n}})
		return c.lost(ctx, op, err)
	}
	limit := *h.PidsLimit
	return func() error { return set(limit) }, set(limit + headroom)
}

// script runs the kill script as a user and reads what is left.
func (c *Container) script(ctx context.Context, t target, user, sig string, looks int) ([]left, error) {
	ctx, cancel := context.WithTimeout(ctx, RemoveTimeout)
	defer cancel()
	var out, errs bytes.Buffer
	born := t.born
	if born == "" {
		born = "0"
	}
	p, err := c.Start(ctx, Exec{
		Argv: []string{killScript, sig, strconv.Itoa(t.sid), born, t.mark, strconv.Itoa(looks)}, inline: true,
		Dir: "/", User: user, Stdout: &out, Stderr: &errs,
	})
	if err != nil {
		return nil, err
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
		p.conn.Close()
		<-p.Done()
		return nil, ctx.Err()
	}
	if code, err := p.Wait(); err != nil || code != 0 {
		if err == nil {
			err = &EngineError{Kind: ErrEngine, Op: "kill a command in the sandbox " + c.name, Msg: fmt.Sprintf("the shell ended with %d: %s", code, errs.String())}
		}
		return nil, err
	}
	var rest []left
	for line := range strings.Lines(out.String()) {
		pid, uid, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.Atoi(pid); err == nil {
			rest = append(rest, left{n, uid})
		}
	}
	return rest, nil
}
