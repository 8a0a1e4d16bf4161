// SPDX-License-Identifier: MIT

package sandbox

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

// TestKillRunsNothingMore: a shell that is killed must not see the death of the command it
// waits for before its own, or it reports that death and goes on with the next statement.
func TestKillRunsNothingMore(t *testing.T) {
	t.Parallel()
	s := wanted(t)
	s.CPUs = 2
	c := ensure(t, dial(t, Options{}), s)
	for range 2 { // who shares the processors with them
		busy, err := c.Start(t.Context(), Exec{Argv: []string{"sh", "-c", "while :; do :; done"}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = busy.KillNow(context.Background()) })
	}
	for name, script := range map[string]string{
		"next":        "echo up; sleep 987620; echo next; touch /root/next",
		"loop":        "echo up; while :; do sleep 987621; touch /root/next; done",
		"subshell":    "echo up; (sleep 987622; touch /root/next); touch /root/next",
		"substituted": "echo up; x=$(sleep 987623; touch /root/next); touch /root/next",
		"pipe":        "echo up; sleep 987624 | sleep 987624; touch /root/next",
		"job control": "set -m; echo up; sleep 987625; touch /root/next",
		"or":          "echo up; eval 'sleep 987626 || touch /root/next'; touch /root/next",
		"exit trap":   "trap : EXIT; echo up; sleep 987628; touch /root/next",
		"own session": "echo up; setsid -w bash -c 'sleep 987627; touch /root/next'; touch /root/next",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 2 {
				var out, errs syncBuffer
				p, err := c.Start(t.Context(), Exec{Argv: []string{"bash", "-c", script}, Stdout: &out, Stderr: &errs})
				if err != nil {
					t.Fatal(err)
				}
				p.PID()
				eventually(t, "it runs", func() bool { return out.String() == "up\n" })
				if err := p.Kill(t.Context()); err != nil {
					t.Fatal(err)
				}
				if code, err := p.Wait(); code != 128+15 || err != nil {
					t.Errorf("got %d, %v", code, err)
				}
				if out.String() != "up\n" || errs.String() != "" {
					t.Errorf("it printed %q and %q", out.String(), errs.String())
				}
				if left := strings.TrimSpace(run(t, c, "ls /root; rm -f /root/next")); left != "" {
					t.Fatalf("the next statement ran: %s", strconv.Quote(left))
				}
			}
		})
	}
}

// TestKillMeetsShellsFirst: processes are met in the order of their age, also where the number
// of a shell has fewer digits than that of the command it waits for.
func TestKillMeetsShellsFirst(t *testing.T) {
	t.Parallel()
	c := ensure(t, dial(t, Options{}), wanted(t))
	var out syncBuffer
	p, err := c.Start(t.Context(), Exec{Stdout: &out, Argv: []string{"bash", "-c", `
until [ $(sh -c 'echo $$') -ge 88 ]; do :; done
for i in 1 2 3 4 5 6 7 8 9 10; do setsid bash -c "sleep 987630; touch /root/next$i" & done
until [ $(pgrep -cfx 'sleep 987630') = 10 ]; do :; done
echo up; wait`}})
	if err != nil {
		t.Fatal(err)
	}
	p.PID()
	eventually(t, "it runs", func() bool { return out.String() == "up\n" })
	if err := p.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := strings.Fields(run(t, c, "ls /root")); len(left) > 0 {
		t.Errorf("the next statement ran: %v", left)
	}
}

// TestKillInPaused: a paused container's processes are not called gone.
func TestKillInPaused(t *testing.T) {
	t.Parallel()
	e, s := dial(t, Options{}), wanted(t)
	c := ensure(t, e, s)
	p, err := c.Start(t.Context(), Exec{Argv: []string{"sleep", "3600"}})
	if err != nil {
		t.Fatal(err)
	}
	p.PID()
	if _, err := e.api.ContainerPause(t.Context(), c.id, client.ContainerPauseOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, kill := range map[string]func(context.Context) error{
		"kill": p.Kill, "kill now": p.KillNow, "left": func(ctx context.Context) error { return e.EndLeft(ctx, c.id, p.Mark()) },
	} {
		if err := kill(t.Context()); !errors.Is(err, ErrEngine) || !strings.Contains(err.Error(), "docker unpause") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	ensure(t, e, s)
	if err := e.EndLeft(t.Context(), c.id, p.Mark()); err != nil {
		t.Error(err)
	}
	if n := marked(t, c, p.Mark()); n != 0 {
		t.Errorf("%d are left", n)
	}
}

// TestStartGivenUp: a command that was given up while the engine began it does not go on alone.
func TestStartGivenUp(t *testing.T) {
	t.Parallel()
	s := wanted(t)
	direct := ensure(t, dial(t, Options{}), s)
	f, addr := proxy(t)
	c := ensure(t, dial(t, Options{Host: addr}), s)
	ctx, cancel := context.WithCancel(t.Context())
	f.loseAnswer(func(r *http.Request) bool { // the engine has begun it
		if strings.HasSuffix(r.URL.Path, "/start") {
			cancel()
			select {
			case <-r.Context().Done(): // nobody listens any more
			case <-time.After(time.Second):
			}
		}
		return false
	})
	mark := NewMark()
	p, err := c.Start(ctx, Exec{Argv: []string{"sleep", "3600"}, Mark: mark})
	if p != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, %v", p, err)
	}
	if n := marked(t, direct, mark); n != 0 {
		t.Errorf("%d are left", n)
	}
}

// TestBashForSh: where /bin/sh is bash, what it says of a command that was ended is not the
// command's either, and a kill works as well.
func TestBashForSh(t *testing.T) {
	t.Parallel()
	e, s := dial(t, Options{}), wanted(t)
	s.Image = commit(t, e, "ln -sf bash /bin/sh", &container.Config{})
	c := ensure(t, e, s)
	for _, merge := range []bool{false, true} {
		var out, errs syncBuffer
		x := Exec{Argv: []string{"bash", "-c", "trap '' HUP; echo up; setsid -w sleep 987629; touch /root/next"}, Stdout: &out, Merge: merge}
		if !merge {
			x.Stderr = &errs
		}
		p, err := c.Start(t.Context(), x)
		if err != nil {
			t.Fatal(err)
		}
		p.PID()
		eventually(t, "it runs", func() bool { return strings.HasPrefix(out.String(), "up\n") && marked(t, c, p.Mark()) > 2 })
		if err := p.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
		if code, err := p.Wait(); code != 128+15 || err != nil || out.String() != "up\n" || errs.String() != "" {
			t.Errorf("got %d, %v, %q, %q", code, err, out.String(), errs.String())
		}
		if n := marked(t, c, p.Mark()); n != 0 {
			t.Errorf("%d are left", n)
		}
	}
	if left := run(t, c, "ls /root"); left != "" {
		t.Errorf("the next statement ran: %s", left)
	}
}
