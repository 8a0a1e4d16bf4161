// SPDX-License-Identifier: MIT

//go:build unix

package generation

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
)

const (
	killAt  = "GENERATION_TEST_KILL"
	killDir = "GENERATION_TEST_DIR"
	killFew = "GENERATION_TEST_FEW"
)

// TestMain is also the process that is killed at a step of an activation.
func TestMain(m *testing.M) {
	at, err := strconv.Atoi(os.Getenv(killAt))
	if err != nil {
		os.Exit(m.Run())
	}
	steps := 0
	h := hostAt(os.Getenv(killDir))
	few := os.Getenv(killFew) != ""
	a := h.activation(atomicfile.Writer{Before: func(op atomicfile.Op, _ string) error {
		switch op {
		case atomicfile.OpRename, atomicfile.OpRemove:
		case atomicfile.OpOwner, atomicfile.OpAttrs, atomicfile.OpMode: // nothing differs after the one before
			return nil
		default:
			if few {
				return nil
			}
		}
		if steps++; steps == at {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // it comes
		}
		return nil
	}}, nil)
	if h.binary().Version == "1.0.0" {
		_, err = a.Update(context.Background(), target110(), []byte(newProgram))
	} else {
		_, err = a.Rollback(context.Background(), 1, false)
	}
	fmt.Print(err)
	os.Exit(0)
}

// doomed runs an activation in a process of its own that is killed at a step; false: it ended
// before.
func doomed(t *testing.T, h host, at int, few string) bool {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	cmd.Env = []string{killAt + "=" + strconv.Itoa(at), killDir + "=" + h.dir, killFew + "=" + few, "PATH=" + os.Getenv("PATH")}
	out, err := cmd.CombinedOutput()
	if err == nil && strings.TrimSpace(string(out)) != "<nil>" {
		t.Fatalf("step %d: %s", at, out)
	}
	if err != nil && cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("step %d: %v %s", at, err, out)
	}
	return err != nil
}

// killEverywhere kills an activation at each of its steps (few: only where a name changes), has
// settle look at it, and wants
// the state of before or of after, whole.
func killEverywhere(t *testing.T, few string, scene func(h host), olds, news string, settle func(h host, at int)) {
	t.Helper()
	undone, finished := 0, 0
	for at := 1; ; at++ {
		h := newHost(t)
		scene(h)
		more := doomed(t, h, at, few)
		if more {
			settle(h, at)
		}
		switch got := h.whole(t); got {
		case olds:
			undone++
		case news:
			finished++
		default:
			t.Errorf("step %d: %s", at, got)
		}
		h.clean(t)
		if _, err := h.activation(atomicfile.Writer{}, nil).List(); err != nil {
			t.Errorf("step %d: %v", at, err)
		}
		if !more {
			break
		}
	}
	t.Logf("%d undone, %d finished", undone, finished)
	if undone < 3 || finished < 1 {
		t.Errorf("the kills missed: %d undone, %d finished", undone, finished)
	}
}

func settleNow(t *testing.T) func(h host, at int) {
	return func(h host, at int) {
		a := h.activation(atomicfile.Writer{}, nil)
		if _, err := a.Settle(t.Context()); err != nil {
			t.Errorf("step %d: %v", at, err)
		}
		// What was staged before there was a journal goes with the next activation at the latest.
		if err := a.clear(); err != nil {
			t.Error(err)
		}
	}
}

// TestUpdateKilledAnywhere: kill -9 at every step of an update; the next command finishes or
// undoes it.
func TestUpdateKilledAnywhere(t *testing.T) {
	t.Parallel()
	killEverywhere(t, "", func(host) {}, before, "1.1.0 48 /one", settleNow(t))
}

// TestRollbackKilledAnywhere is that for a rollback of everything.
func TestRollbackKilledAnywhere(t *testing.T) {
	t.Parallel()
	killEverywhere(t, "", func(h host) { h.rollbackScene(t) }, after, before, settleNow(t))
}

// TestStartAfterKill: the next gateway finishes the update if it comes up, and one that finds
// that the last one did not takes it back.
func TestStartAfterKill(t *testing.T) {
	t.Parallel()
	for _, serves := range []bool{true, false} {
		tried, again := 0, 0
		killEverywhere(t, "few", func(host) {}, before, "1.1.0 48 /one", func(h host, at int) {
			a := h.activation(atomicfile.Writer{}, nil)
			s, err := a.Begin(t.Context())
			if err != nil {
				t.Fatalf("step %d: %v", at, err)
			}
			if s.Ready != nil {
				tried++
				// A second gateway that starts meanwhile leaves the try alone.
				if o, err := h.activation(atomicfile.Writer{}, nil).Begin(t.Context()); err != nil || o.Ready != nil || o.Again {
					t.Errorf("step %d: %+v %v", at, o, err)
				}
				if serves {
					if err := s.Ready(t.Context()); err != nil {
						t.Errorf("step %d: %v", at, err)
					}
				} else {
					s.dies(t)
					if s, err = h.activation(atomicfile.Writer{}, nil).Begin(t.Context()); err != nil || !s.Again || s.Ready != nil {
						t.Errorf("step %d, second start: %+v %v", at, s, err)
					}
				}
			}
			if s.Again {
				again++
				if h.binary().Version != "1.0.0" {
					t.Errorf("step %d: started again for nothing", at)
				}
			}
			if err := a.clear(); err != nil {
				t.Error(err)
			}
		})
		if tried == 0 || !serves && again < tried {
			t.Errorf("serves %v: %d tried, %d again", serves, tried, again)
		}
	}
}

// dies gives a try up, as the end of a process does.
func (s Start) dies(t *testing.T) {
	t.Helper()
	if err := s.release(); err != nil {
		t.Fatal(err)
	}
}
