// SPDX-License-Identifier: MIT

//go:build unix

package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The child of a kill test: the world's directory, the way, and the point at which it dies.
const (
	childDir = "FLEET_TEST_CHILD"
	childWay = "FLEET_TEST_WAY"
	childDie = "FLEET_TEST_DIE"
)

func way(name string) func(Observed) Plan {
	if name == "standalone" {
		return standalone
	}
	return multiplex
}

// TestChild is what the kill tests run: one command, which kills its own process with SIGKILL
// at the given point.
func TestChild(t *testing.T) {
	dir := os.Getenv(childDir)
	if dir == "" {
		return
	}
	die, err := strconv.Atoi(os.Getenv(childDie))
	if err != nil {
		t.Fatal(err)
	}
	w, n := &world{dir: dir, park: true}, 0
	w.hook = func(string) error {
		if n++; n == die {
			if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
				return err
			}
			select {}
		}
		return nil
	}
	if _, _, err := w.apply(t.Context(), way(os.Getenv(childWay))); err != nil {
		t.Fatal(err)
	}
}

// killed runs a command in a child that dies at a point; done is true if it came to its end.
func (w *world) killed(t *testing.T, way string, die int) (done bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChild$")
	cmd.Env = []string{childDir + "=" + w.dir, childWay + "=" + way, childDie + "=" + strconv.Itoa(die), "TMPDIR=" + os.TempDir()}
	out, err := cmd.CombinedOutput()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if err != nil && (!ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL) {
		t.Fatalf("point %d: %v\n%s", die, err, out)
	}
	return err == nil
}

// mend is what a person does after a run that failed or was killed: the same command again, and
// the way back where that says so.
func (w *world) mend(ctx context.Context, again string) error {
	_, _, err := w.apply(ctx, way(again))
	blocked, ok := errors.AsType[*BlockedError](err)
	if ok && blocked.Blockers[0].Kind == "unfinished-return" {
		if !strings.Contains(blocked.Error(), "--standalone") {
			return fmt.Errorf("the refusal does not say what helps: %w", err)
		}
		_, _, err = w.apply(ctx, standalone)
	}
	return err
}

// sound fails the test unless the fleet is either as it was, byte for byte, or one gateway.
func (w *world) sound(t *testing.T, at string, before map[string]string) {
	t.Helper()
	diff := cmp.Diff(before, w.lasting(t), cmp.FilterPath(func(p cmp.Path) bool {
		return strings.Contains(p.Last().String(), ".appliance/")
	}, cmp.Ignore()))
	if diff == "" {
		return
	}
	if on, err := w.On(); !on || err != nil {
		t.Fatalf("%s: neither as before nor one gateway (-before +after):\n%s", at, diff)
	}
	w.multiplexed(t)
	if _, _, err := w.apply(t.Context(), standalone); err != nil {
		t.Fatalf("%s: the way back from there: %v", at, err)
	}
	if diff := cmp.Diff(before, w.lasting(t)); diff != "" {
		t.Fatalf("%s: the way back from there (-before +after):\n%s", at, diff)
	}
}

// TestReport17_KilledAnywhere: H#110850. A run that is killed with SIGKILL at any point, either
// way, is brought to a sound end by the next commands: one gateway for all, or everything as it
// was to the byte. Never a fleet without a gateway.
func TestReport17_KilledAnywhere(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"user units", "no default", "default detached", "not enabled"} {
		seeds := fleets()[name]
		for _, direction := range []string{"multiplex", "standalone"} {
			t.Run(name+"/"+direction, func(t *testing.T) {
				t.Parallel()
				points := 0
				for die, done := 1, false; !done; die++ {
					w := newWorld(t, seeds)
					before := w.lasting(t)
					if direction == "standalone" {
						if _, _, err := w.apply(t.Context(), multiplex); err != nil {
							t.Fatal(err)
						}
					}
					done = w.killed(t, direction, die)
					if err := w.mend(t.Context(), direction); err != nil {
						t.Fatalf("point %d: %v", die, err)
					}
					w.sound(t, fmt.Sprintf("point %d", die), before)
					points = die
				}
				if points < 15 {
					t.Errorf("only %d points: the test does not see the steps", points)
				}
			})
		}
	}
}

// TestReport17_FailsAnywhere: one failure at any point leaves a gateway running, and the next
// commands come to a sound end.
func TestReport17_FailsAnywhere(t *testing.T) {
	t.Parallel()
	for name, seeds := range fleets() {
		for _, direction := range []string{"multiplex", "standalone"} {
			t.Run(name+"/"+direction, func(t *testing.T) {
				t.Parallel()
				for fail, failed := 1, true; failed; fail++ {
					w := newWorld(t, seeds)
					before := w.lasting(t)
					if direction == "standalone" {
						if _, _, err := w.apply(t.Context(), multiplex); err != nil {
							t.Fatal(err)
						}
					}
					n, at := 0, ""
					failed = false
					w.hook = func(point string) error {
						if n++; n == fail {
							failed, at = true, fmt.Sprintf("point %d, %s", fail, point)
							return errors.New("broken on purpose")
						}
						return nil
					}
					_, _, err := w.apply(t.Context(), way(direction))
					if failed && err == nil && !strings.Contains(at, "enable") {
						t.Errorf("%s: the failure was not reported", at)
					}
					w.hook = nil
					if entries, err := os.ReadDir(w.dir + "/procs"); err != nil || len(entries) == 0 {
						t.Errorf("%s: no gateway runs", at)
					}
					if err := w.mend(t.Context(), direction); err != nil {
						t.Fatalf("%s: %v", at, err)
					}
					w.sound(t, at, before)
				}
			})
		}
	}
}
