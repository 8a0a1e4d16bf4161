// SPDX-License-Identifier: MIT

package process

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

func TestStartTime(t *testing.T) {
	t.Parallel()
	testkit.Need(t, "posix", runtime.GOOS == "linux" || runtime.GOOS == "darwin", "this system cannot tell start times, or has no sleep command")
	me, err := StartTime(os.Getpid())
	if err != nil || me <= 0 {
		t.Fatalf("own: %d, %v", me, err)
	}
	if again, err := StartTime(os.Getpid()); err != nil || again != me {
		t.Errorf("it changes: %d, %v", again, err)
	}
	cmd := exec.CommandContext(t.Context(), "sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	child, err := StartTime(cmd.Process.Pid)
	if err != nil || child < me {
		t.Errorf("a child of ours started at %d, we at %d: %v", child, me, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// A zombie is dead, though its pid is still taken.
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if _, err := StartTime(cmd.Process.Pid); errors.Is(err, ErrNoProcess) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("a zombie counts as a process")
		}
	}
	cmd.Wait()
	for _, pid := range []int{0, -1, cmd.Process.Pid} {
		if _, err := StartTime(pid); !errors.Is(err, ErrNoProcess) {
			t.Errorf("pid %d: %v", pid, err)
		}
	}
}
