// SPDX-License-Identifier: MIT

package doctor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

func getenv(string) string { return "" }

func one(level Level, message string) func(context.Context) []Finding {
	return func(context.Context) []Finding { return []Finding{{Level: level, Message: message}} }
}

func TestAHangingCheckHidesNothing(t *testing.T) {
	t.Parallel()
	var found []Finding
	synctest.Test(t, func(t *testing.T) { // whose time goes on when nobody has anything left to do
		release := make(chan struct{})
		defer close(release)
		found = Run(t.Context(), []Check{
			{"first", one(OK, "fine")},
			{"hangs", func(context.Context) []Finding { <-release; return nil }},
			{"last", one(Note, "seen")},
		}, Options{})
	})
	if len(found) != 3 || found[0].Check != "first" || found[2].Message != "seen" {
		t.Fatalf("%+v", found)
	}
	if found[1].Level != Problem || !strings.Contains(found[1].Message, "no answer") {
		t.Errorf("%+v", found[1])
	}
	if Worst(found) != Problem {
		t.Errorf("worst: %s", Worst(found))
	}
}

func TestMend(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		works bool
		err   error
		fixed bool
		worst Level
	}{
		{"it helps", true, nil, true, OK},
		{"it does not help", false, nil, false, Problem},
		{"it fails", false, errors.New("no"), false, Problem},
	} {
		broken, repairs := true, 0
		check := Check{"it", func(context.Context) []Finding {
			if !broken {
				return []Finding{{Level: OK, Message: "whole"}}
			}
			return []Finding{Finding{Level: Problem, Message: "broken"}.Mended(func(context.Context) error {
				repairs++
				broken = !c.works
				return c.err
			})}
		}}
		if found := Run(t.Context(), []Check{check}, Options{}); repairs != 0 || !found[0].Fixable || found[0].Fixed {
			t.Errorf("%s: without --fix: %+v, %d repairs", c.name, found, repairs)
		}
		found := Run(t.Context(), []Check{check}, Options{Fix: true})
		if repairs != 1 || found[0].Fixed != c.fixed || Worst(found) != c.worst {
			t.Errorf("%s: %+v, worst %s", c.name, found, Worst(found))
		}
	}
}

func TestModes(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		testkit.Need(t, "posix", false, "no modes")
	}
	dir := t.TempDir()
	h := home.Home{Dir: dir, Profile: home.Default}
	testkit.WriteTree(t, dir, map[string]string{".env": "A=1\n", "auth.json": "{}", "config.yaml": "a: 1\n"})
	env := filepath.Join(dir, ".env")
	if err := errors.Join(os.Chmod(env, 0o640), os.Chmod(filepath.Join(dir, "auth.json"), 0o600)); err != nil {
		t.Fatal(err)
	}
	found := Run(t.Context(), []Check{Modes(h, getenv)}, Options{Fix: true})
	if len(found) != 2 || !found[0].Fixed || !strings.Contains(found[0].Message, ".env") || Worst(found) != OK {
		t.Fatalf("%+v", found)
	}
	if info, err := os.Stat(env); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	// H#6044: in a managed home a mode that the manager chose stays.
	if err := errors.Join(os.Chmod(env, 0o640), os.WriteFile(filepath.Join(dir, ".managed"), []byte("nixos"), 0o644)); err != nil {
		t.Fatal(err)
	}
	found = Run(t.Context(), []Check{Modes(h, getenv)}, Options{Fix: true})
	if len(found) != 1 || found[0].Level != Note || found[0].Fixable {
		t.Errorf("%+v", found)
	}
	if info, err := os.Stat(env); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("managed: mode %v, %v", info.Mode(), err)
	}
}

// TestReportB12SharedHome (H#10757): in a home with the setgid bit the group may read, and nobody else.
func TestReportB12SharedHome(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		testkit.Need(t, "posix", false, "no modes")
	}
	dir := t.TempDir()
	h := home.Home{Dir: dir, Profile: home.Default}
	testkit.WriteTree(t, dir, map[string]string{".env": "A=1\n", "auth.json": "{}"})
	env := filepath.Join(dir, ".env")
	if err := errors.Join(os.Chmod(env, 0o640), os.Chmod(filepath.Join(dir, "auth.json"), 0o644), os.Chmod(dir, 0o750|os.ModeSetgid)); err != nil {
		t.Fatal(err)
	}
	found := Run(t.Context(), []Check{Modes(h, getenv)}, Options{Fix: true})
	if len(found) != 2 || !found[0].Fixed || !strings.Contains(found[0].Message, "auth.json") {
		t.Errorf("%+v", found)
	}
	for path, want := range map[string]os.FileMode{env: 0o640, filepath.Join(dir, "auth.json"): 0o640} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: mode %v, %v", path, info.Mode(), err)
		}
	}
}

func TestHome(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, dir, want string
		level           Level
	}{
		{"absent", filepath.Join(dir, "none"), "is not there", Problem},
		{"a file", file, "is no directory", Problem},
		{"temporary", dir, "empties itself", Warning}, // a test's directory is one
	} {
		found := Run(t.Context(), []Check{Home(home.Home{Dir: c.dir}, getenv)}, Options{})
		if len(found) == 0 || found[0].Level != c.level || !strings.Contains(found[0].Message, c.want) {
			t.Errorf("%s: %+v", c.name, found)
		}
	}
	if left := testkit.ReadTree(t, dir); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}

func TestClockAndDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := home.Home{Dir: dir}
	testkit.WriteTree(t, dir, map[string]string{"config.yaml": "a: 1\n"})
	past := func() time.Time { return time.Now().Add(-time.Hour) }
	if found := Run(t.Context(), []Check{Clock(h, past)}, Options{}); found[0].Level != Problem {
		t.Errorf("%+v", found)
	}
	for _, f := range Run(t.Context(), []Check{Clock(h, time.Now), Disk(h)}, Options{}) {
		if f.Level != OK && f.Check == "clock" || !strings.Contains(f.Message, "free") && f.Check == "disk" {
			t.Errorf("%+v", f)
		}
	}
}

// TestMendLooksAtEverything: what one repair changed is not complained about by another check,
// whether that comes before or after.
func TestMendLooksAtEverything(t *testing.T) {
	t.Parallel()
	old := true
	complains := func(context.Context) []Finding {
		if old {
			return []Finding{{Level: Note, Message: "it is old"}}
		}
		return []Finding{{Level: OK, Message: "it is new"}}
	}
	found := Run(t.Context(), []Check{
		{"before", complains},
		{"it", func(ctx context.Context) []Finding {
			f := complains(ctx)
			if old {
				f[0] = f[0].Mended(func(context.Context) error { old = false; return nil })
			}
			return f
		}},
		{"after", complains},
	}, Options{Fix: true})
	if len(found) != 4 || found[0].Message != "it is new" || !found[1].Fixed || found[2].Message != "it is new" || found[3].Message != "it is new" {
		t.Errorf("%+v", found)
	}
}
