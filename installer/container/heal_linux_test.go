// SPDX-License-Identifier: MIT

package container

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// owners returns the owner of everything below dir, links themselves.
func owners(t *testing.T, dir string) map[string]int {
	t.Helper()
	out := map[string]int{}
	if err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		out[rel] = int(info.Sys().(*syscall.Stat_t).Uid)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestReport15Heal: what root or the user before left in Hermes' own files is given; what belongs
// to others, what people work on and what links lead to is not (H#10270, H#19788).
func TestReport15Heal(t *testing.T) {
	t.Parallel()
	testkit.NeedRoot(t)
	dir := filepath.Join(t.TempDir(), "home")
	outside := t.TempDir()
	testkit.WriteTree(t, outside, map[string]string{"file": "x", "twin": "x"})
	testkit.WriteTree(t, dir, map[string]string{
		"config.yaml": "", "unknown.db": "", "workspace/a": "", "unknown/a": "", "logs/gateways/default/current": "", "cron/jobs.json": "",
		"profiles/work/.env": "", "profiles/work/workspace/a": "", "profiles/work/logs/a": "", "memories/theirs": "", "state/before": "",
	})
	for link, to := range map[string]string{"SOUL.md": outside + "/file", "skills": outside, "sessions": "workspace", "logs/out": outside, "profiles/evil": outside} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	err := errors.Join(os.Link(filepath.Join(outside, "twin"), filepath.Join(dir, "logs", "twin")), os.Chown(filepath.Join(dir, "memories", "theirs"), 4242, 4242),
		os.Chown(filepath.Join(dir, "state", "before"), 777, 777), os.Chown(dir, 777, 777), syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	before := owners(t, dir)
	f, err := Look(dir)
	if err != nil || f.HomeUID != 777 {
		t.Fatalf("%+v, %v", f, err)
	}
	h, err := Heal(dir, Identity{UID: 55, GID: 56}, f)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{}
	maps.Copy(want, before)
	for _, given := range []string{
		".", "config.yaml", "unknown.db", "logs", "logs/gateways", "logs/gateways/default", "logs/gateways/default/current", "cron", "cron/jobs.json",
		"profiles", "profiles/work", "profiles/work/.env", "profiles/work/logs", "profiles/work/logs/a", "memories", "state", "state/before",
	} {
		want[given] = 55
	}
	if diff := cmp.Diff(want, owners(t, dir)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int{".": 0, "file": 0, "twin": 0}, owners(t, outside)); diff != "" {
		t.Errorf("outside (-want +got):\n%s", diff)
	}
	if h.Changed != 17 || len(h.Foreign) != 1 || !strings.Contains(h.Foreign[0], "memories/theirs (4242:4242)") {
		t.Errorf("it says %+v", h)
	}
	again, err := Heal(dir, Identity{UID: 55, GID: 56}, f)
	if err != nil || again.Changed != 0 {
		t.Errorf("again: %+v, %v", again, err)
	}
}

// TestLookLink: root does not work on what a link names.
func TestLookLink(t *testing.T) {
	t.Parallel()
	testkit.NeedRoot(t)
	link := filepath.Join(t.TempDir(), "home")
	if err := os.Symlink(t.TempDir(), link); err != nil {
		t.Fatal(err)
	}
	_, err := Look(link)
	if _, ok := errors.AsType[*ConfigError](err); !ok {
		t.Errorf("got %v", err)
	}
	if _, err := Heal(link, Identity{UID: 55, GID: 55}, Facts{HomeUID: Nobody}); err == nil {
		t.Error("Heal follows it")
	}
	if f, err := Look(filepath.Join(t.TempDir(), "none")); err != nil || f.HomeUID != Nobody {
		t.Errorf("nothing there: %+v, %v", f, err)
	}
}
