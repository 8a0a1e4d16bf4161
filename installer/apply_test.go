// SPDX-License-Identifier: MIT

//go:build unix

package installer

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
	"github.com/hermes-appliance/hermes-appliance/service"
)

// scene is a host and something to do on it.
type scene struct {
	name string
	make func(t testing.TB, w *world)
	act  func(t testing.TB, h Host, w *world) error
}

func install(c Choice, o Options) func(testing.TB, Host, *world) error {
	return func(t testing.TB, h Host, w *world) error {
		_, err := h.Install(t.Context(), w.request(t, c, o))
		return err
	}
}

func uninstall(t testing.TB, h Host, _ *world) error {
	target, _, err := h.Resolve(t.Context(), systemWide)
	if err != nil {
		t.Fatal(err)
	}
	_, err = h.Uninstall(t.Context(), target, true, false)
	return err
}

func scenes() []scene {
	return append([]scene{
		{"fresh", func(testing.TB, *world) {}, install(systemWide, Options{})},
		{"upgrade of a running one", func(t testing.TB, w *world) { w.mustInstall(t, systemWide, Options{}); w.older(t) }, install(systemWide, Options{})},
		{"foreign, forced", func(t testing.TB, w *world) {
			testkit.WriteTree(t, w.root, map[string]string{testUnit: "[Service]\nExecStart=/usr/bin/hermes gateway run\nEnvironment=HERMES_HOME=/home/ada/.hermes\n"})
			w.change(func(p *played) { p.Loaded = w.text(w.dir(nil), filepath.Base(testUnit)) })
		}, install(systemWide, Options{Force: true})},
		{
			"a user without a manager", func(_ testing.TB, w *world) { w.user, w.uid = false, ada(); w.env = map[string]string{"USER": "ada"} },
			install(Choice{Scope: service.User, Home: "/home/ada/.hermes"}, Options{}),
		},
		{"uninstall", func(t testing.TB, w *world) {
			w.mustInstall(t, systemWide, Options{})
			testkit.WriteTree(t, w.root, map[string]string{testUnit + ".d/mine.conf": "[Service]\nNice=5\n", testUnit + ".bak-0123": "old"})
			w.change(func(p *played) { p.Loaded = w.text(w.dir(nil), filepath.Base(testUnit)) })
		}, uninstall},
	}, socketScenes()...)
}

// TestEveryPointFails: whatever step fails, and at whatever part of it, everything is as it was
// before, byte for byte, and the next run gets to the end.
func TestEveryPointFails(t *testing.T) {
	t.Parallel()
	for _, s := range scenes() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			for n := 0; ; n++ {
				w := newWorld(t)
				s.make(t, w)
				before, i, at := w.snapshot(t), 0, ""
				h := w.host()
				broken := errors.New("broken here")
				h.Before = func(point string) error {
					if strings.HasSuffix(point, "undo") {
						return nil
					}
					if i++; i-1 == n {
						at = point
						return broken
					}
					return nil
				}
				err := s.act(t, h, w)
				if at == "" {
					if err != nil {
						t.Fatalf("without a fault: %v", err)
					}
					if n < 6 {
						t.Fatalf("only %d points", n)
					}
					break
				}
				if at == "done" { // nothing is left but to say so
					continue
				}
				soft := strings.Contains(at, " linger ") && err == nil || strings.Contains(at, " unlinger ") && err == nil
				if !soft && !errors.Is(err, broken) {
					t.Fatalf("%s: %v", at, err)
				}
				if diff := cmp.Diff(before, w.snapshot(t)); diff != "" && !soft {
					t.Errorf("%s: not everything is undone (-before +after):\n%s", at, diff)
				}
				if err := s.act(t, w.host(), w); err != nil {
					t.Errorf("%s: the next run: %v", at, err)
				}
			}
		})
	}
}

// TestUndoFails: what cannot be undone at once is told, and the next run does it.
func TestUndoFails(t *testing.T) {
	t.Parallel()
	for _, s := range scenes()[:3] {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			for n := 0; ; n++ {
				w := newWorld(t)
				s.make(t, w)
				before, i, at := w.snapshot(t), 0, ""
				h := w.host()
				h.Before = func(point string) error {
					if strings.Contains(point, "start verify") {
						return errors.New("it does not start")
					}
					if strings.Contains(point, "restart do") {
						return errors.New("it does not restart")
					}
					if strings.HasSuffix(point, "undo") {
						if i++; i-1 == n {
							at = point
							return errors.New("cannot be undone now")
						}
					}
					return nil
				}
				err := s.act(t, h, w)
				if at == "" {
					break
				}
				failed, ok := errors.AsType[*StepError](err)
				if !ok {
					t.Fatalf("%s: %v", at, err)
				}
				if strings.Contains(at, "linger") {
					continue // told, and no reason to keep a journal
				}
				if failed.Left == nil || !strings.Contains(err.Error(), "next run") {
					t.Errorf("%s: what is left is not told: %v", at, err)
				}
				target := w.request(t, systemWide, Options{}).Target
				said, err := w.host().settle(t.Context(), target)
				if err != nil || !strings.Contains(said, "undone") {
					t.Errorf("%s: settle: %q %v", at, said, err)
				}
				if diff := cmp.Diff(before, w.snapshot(t)); diff != "" {
					t.Errorf("%s (-before +after):\n%s", at, diff)
				}
			}
		})
	}
}

// TestFilesFail: every step of every write fails once.
func TestFilesFail(t *testing.T) {
	t.Parallel()
	for _, s := range scenes()[:3] {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			for n := 0; ; n++ {
				w := newWorld(t)
				s.make(t, w)
				before, i, at := w.snapshot(t), 0, ""
				h := w.host()
				h.Files = atomicfile.Writer{Before: func(op atomicfile.Op, path string) error {
					if i++; i-1 == n {
						at = fmt.Sprint(op, " ", path)
						return syscall.ENOSPC
					}
					return nil
				}}
				err := s.act(t, h, w)
				if at == "" {
					break
				}
				after := w.snapshot(t)
				if err == nil { // the fault was in what only tidies up
					continue
				}
				if diff := cmp.Diff(before, after); diff != "" {
					// A flush of a directory that fails, or a journal that cannot be removed, leaves
					// what the next run settles.
					if _, serr := w.host().settle(t.Context(), w.request(t, systemWide, Options{}).Target); serr != nil {
						t.Errorf("%s: %v", at, serr)
					}
					if serr := s.act(t, w.host(), w); serr != nil {
						t.Errorf("%s: the next run: %v; left (-before +after):\n%s", at, serr, diff)
					}
				}
			}
		})
	}
}

// TestMain is also the installer that is killed.
func TestMain(m *testing.M) {
	if root := os.Getenv("INSTALLER_TEST_ROOT"); root != "" {
		os.Exit(victim(root))
	}
	os.Exit(m.Run())
}

// victim runs a scene in a world that another process made and kills itself at a point.
func victim(root string) int {
	w := &world{root: root, user: true, env: map[string]string{"SUDO_USER": "ada", "USER": "root"}}
	h := w.host()
	i := 0
	h.Before = func(point string) error {
		if strings.Contains(os.Getenv("INSTALLER_TEST_BREAK"), " "+strings.SplitN(point, " ", 2)[len(strings.SplitN(point, " ", 2))-1]+",") {
			return errors.New("broken here")
		}
		if i++; fmt.Sprint(i-1) == os.Getenv("INSTALLER_TEST_KILL") {
			fmt.Println("killed at " + point)
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		return nil
	}
	var t testing.T // only what a scene needs of it
	for _, s := range scenes() {
		if s.name == os.Getenv("INSTALLER_TEST_SCENE") {
			if err := s.act(fakeT{&t}, h, w); err != nil {
				fmt.Println("failed:", err)
				return 1
			}
			return 0
		}
	}
	return 3
}

func (w *world) killAt(t *testing.T, scene string, n int, broken string) (out string, killed bool) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = []string{
		"INSTALLER_TEST_ROOT=" + w.root, "INSTALLER_TEST_KILL=" + fmt.Sprint(n), "INSTALLER_TEST_SCENE=" + scene, "INSTALLER_TEST_BREAK=" + broken,
	}
	data, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		if st, ok := exit.Sys().(syscall.WaitStatus); ok && st.Signaled() {
			return string(data), true
		}
	}
	return string(data), false
}

// TestKilledAtEveryPoint: kill -9 of the installer, at every point: what it had done is undone
// byte for byte by the next run, which then gets to the end.
func TestKilledAtEveryPoint(t *testing.T) {
	t.Parallel()
	for _, broken := range []string{"", " start verify, restart verify, remove verify, reload verify,"} {
		for _, s := range scenes() {
			if s.name == "a user without a manager" || s.name != "upgrade of a running one" && broken != "" {
				continue
			}
			t.Run(s.name+broken, func(t *testing.T) {
				t.Parallel()
				for n := 0; ; n++ {
					w := newWorld(t)
					s.make(t, w)
					before := w.snapshot(t)
					out, killed := w.killAt(t, s.name, n, broken)
					if !killed {
						if n < 6 {
							t.Fatalf("only %d points: %s", n, out)
						}
						return
					}
					target := w.request(t, systemWide, Options{}).Target
					if strings.HasPrefix(s.name, "uninstall") {
						w.resumedByHome(t, target.Name)
					}
					if n%2 == 0 && !strings.Contains(out, "at done") { // it is undone, as if nothing had been
						if _, err := w.host().settle(t.Context(), target); err != nil {
							t.Errorf("%s: %v", out, err)
						}
						if diff := cmp.Diff(before, w.snapshot(t)); diff != "" {
							t.Errorf("%s(-before +after):\n%s", out, diff)
						}
					}
					if err := s.act(t, w.host(), w); err != nil {
						t.Errorf("%sthe next run: %v", out, err)
					}
					o, err := w.host().Observe(t.Context(), target, Desired{})
					if want := map[bool]State{true: Absent, false: Ready}[strings.HasPrefix(s.name, "uninstall")]; err != nil || o.State != want {
						t.Errorf("%sin the end it is %s (%s), want %s: %v", out, o.State, o.Reason, want, err)
					}
					if _, err := os.Stat(w.host().path(target.journal())); err == nil {
						t.Errorf("%sthe journal is still there", out)
					}
				}
			})
		}
	}
}

// resumedByHome: whoever goes on with a removal says only which home it is. The account, and with
// it the service's name, stood in the definition, which may be away by now.
func (w *world) resumedByHome(t *testing.T, want string) {
	t.Helper()
	env := w.env
	defer func() { w.env = env }()
	w.env = map[string]string{"USER": "root"}
	h := w.host()
	target, _, err := h.Resolve(t.Context(), Choice{Scope: service.System, Home: "/home/ada/.hermes", Stands: true})
	if err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(h.path(systemState) + "/*.journal"); len(left) > 0 && target.Name != want {
		t.Errorf("%v is not found by the home: resumed as %s", left, target.Name)
	}
}
