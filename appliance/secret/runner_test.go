// SPDX-License-Identifier: MIT

package secret

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// TestFetchKillsTree stops a command that ignores polite signals and has a descendant.
func TestFetchKillsTree(t *testing.T) {
	t.Parallel()
	testkit.Need(t, "posix", runtime.GOOS != "windows", "a tree is a job object there: see package process")
	b := newBin(t, map[string]string{EnvBitwarden: "tok"})
	install(t, b.dir, "bws", fake{Mode: "tree", Argv: bwsArgv(), Env: b.env("bws", EnvBitwarden+"=tok", "NO_COLOR=1")})
	path := filepath.Join(b.dir, "bws.pid")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() {
		for ctx.Err() == nil {
			if data, err := os.ReadFile(path); err == nil && len(data) > 0 {
				cancel()
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	_, err := bws().Fetch(ctx, b.in)
	refused(t, b.dir)
	if fe := failure("bitwarden", err); fe.Reason != TimedOut {
		t.Errorf("got %v", err)
	}
	pid := pidOf(t, path)
	for deadline := time.Now().Add(2 * time.Minute); alive(pid); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("descendant %d outlived the kill", pid)
		}
	}
}

func pidOf(t *testing.T, path string) int {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(string(data))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// TestFetchHeldPipe has a descendant that keeps the output open for an hour: the answer counts all
// the same, and nobody waits for more.
func TestFetchHeldPipe(t *testing.T) {
	t.Parallel()
	b := newBin(t, map[string]string{EnvBitwarden: "tok"})
	install(t, b.dir, "bws", fake{Mode: "hold", Argv: bwsArgv(), Env: b.env("bws", EnvBitwarden+"=tok", "NO_COLOR=1"), Out: `[{"key":"A","value":"1"}]`})
	got, err := bws().Fetch(t.Context(), b.in)
	refused(t, b.dir)
	if p, err := os.FindProcess(pidOf(t, filepath.Join(b.dir, "bws.pid"))); err == nil {
		_ = p.Kill()
	}
	if diff := cmp.Diff(map[string]string{"A": "1"}, values(got)); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}

// TestFetchAfterAStall has nobody read for longer than a descendant's output is waited for: what
// the command itself wrote counts to the last byte, whether or not the output is held open.
func TestFetchAfterAStall(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 50_000)
	for _, mode := range []string{"", "hold"} {
		b := newBin(t, map[string]string{EnvBitwarden: "tok"})
		b.in.Run = Exec{reading: func() { time.Sleep(3 * drain) }}
		install(t, b.dir, "bws", fake{Mode: mode, Argv: bwsArgv(), Env: b.env("bws", EnvBitwarden+"=tok", "NO_COLOR=1"), Out: `[{"key":"A","value":"` + large + `"}]`})
		got, err := bws().Fetch(t.Context(), b.in)
		refused(t, b.dir)
		if mode == "hold" {
			if p, err := os.FindProcess(pidOf(t, filepath.Join(b.dir, "bws.pid"))); err == nil {
				_ = p.Kill()
			}
		}
		if diff := cmp.Diff(map[string]string{"A": large}, values(got)); err != nil || diff != "" {
			t.Errorf("%q: %v, %d bytes", mode, err, len(got.Values["A"].Reveal()))
		}
	}
}

func TestExec(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	install(t, dir, "helper", fake{Argv: []string{}, Env: map[string]string{}})
	write(t, filepath.Join(dir, "plain"), "#!/bin/sh\n")
	path := filepath.Join(dir, "helper")
	for name, c := range map[string]struct {
		job  Job
		want error
	}{
		"no environment":      {Job{Args: []string{path}}, ErrNoEnv},
		"empty environment":   {Job{Args: []string{path}, Env: []string{}}, nil},
		"no arguments":        {Job{Env: []string{}}, ErrNoCommand},
		"not in its PATH":     {Job{Args: []string{"sh"}, Env: []string{"PATH=" + dir}}, ErrNoCommand},
		"no PATH":             {Job{Args: []string{"sh"}, Env: []string{}}, ErrNoCommand},
		"relative entries":    {Job{Args: []string{"sh"}, Env: []string{"PATH=.:bin::"}}, ErrNoCommand},
		"no program":          {Job{Args: []string{"plain"}, Env: []string{"PATH=" + dir}}, ErrNoCommand},
		"directory":           {Job{Args: []string{dir}, Env: []string{}}, ErrNoCommand},
		"last PATH counts":    {Job{Args: []string{"plain"}, Env: []string{"PATH=" + dir, "PATH=/nowhere"}}, ErrNoCommand},
		"relative path":       {Job{Args: []string{"./helper"}, Env: []string{}, Dir: dir}, ErrNoCommand},
		"missing working dir": {Job{Args: []string{path}, Env: []string{}, Dir: "/nowhere/x"}, ErrNoCommand},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := Exec{}.Run(t.Context(), c.job)
			if !errors.Is(err, c.want) || out.Code != 0 {
				t.Errorf("got %d, %v; want %v", out.Code, err, c.want)
			}
		})
	}
	t.Run("context over", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := (Exec{}).Run(ctx, Job{Args: []string{path}, Env: []string{}}); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}
