// SPDX-License-Identifier: MIT

package files

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

func TestGuard(t *testing.T) {
	t.Parallel()
	g := Guard{Homes: []Home{{"/h", "default"}, {"/h/profiles/work", "work"}}, Profile: "work"}
	local, remote := &Direct{}, &Shell{}
	for _, row := range []struct {
		path        string
		read, write bool // allowed
	}{
		{"/me/code/main.go", true, true},
		{"/me/code/.env", false, true},
		{"/me/code/.env.local", false, true},
		{"/me/code/.ENV", false, true},
		{"/me/code/.envrc", false, true},
		{"/me/code/.env.example", true, true},
		{"/me/code/env", true, true},
		{"/me/code/config.yaml", true, true},
		{"/me/code/pairing/x", true, true},
		{"/me/x/mcp-tokens/y.json", false, false},
		{"/me/.git-credentials", false, false},
		{"/me/.netrc", false, false},
		{"/me/.ssh/id_ed25519", false, false},
		{"/me/.ssh/id_ed25519.pub", true, false},
		{"/me/.ssh/config", true, false},
		{"/me/.ssh/authorized_keys", true, false},
		{"/me/.aws/credentials", false, false},
		{"/me/.config/gh/hosts.yml", false, false},
		{"/me/.npmrc", false, false},
		{"/etc/passwd", true, false},
		{"/etc/systemd/system/x.service", true, false},
		{"/boot/x", true, false},
		{"/run/docker.sock", true, false},
		{"/dev/sda", false, false},
		{"/dev/shm/x", true, true},
		{"/proc/self/environ", false, false},
		{"/proc/1234/mem", false, false},
		{"/proc/kmsg", false, false},
		{"/proc/cpuinfo", true, false},
		{"/h/profiles/work/.env", false, false},
		{"/h/.env", false, false},
		{"/h/auth.json", false, false},
		{"/h/AUTH.json", false, false},
		{"/h/profiles/work/auth.lock", false, false},
		{"/h/profiles/work/pairing/telegram.json", false, false},
		{"/h/profiles/work/skills/.hub/lock.json", false, false},
		{"/h/profiles/work/cache/bws_cache.enc.json", false, false},
		{"/h/profiles/work/.anthropic_oauth.json", false, false},
		{"/h/webhook_subscriptions.json", false, false},
		{"/h/profiles/work/config.yaml", true, false},
		{"/h/profiles/work/state.db-wal", true, false},
		{"/h/profiles/work/sessions/x.json", true, false},
		{"/h/profiles/work/cron/jobs.json", true, false},
		{"/h/profiles/work/skills/x/SKILL.md", true, true},
		{"/h/profiles/work/memories/MEMORY.md", true, true},
		{"/h/profiles/work/SOUL.md", true, true},
		{"/h/skills/x/SKILL.md", true, false},
		{"/h/profiles/other/skills/x/SKILL.md", true, false},
		{"/h/profiles/other/.env", false, false},
		{"/h/workspace/x", true, true},
		{"/hx/auth.json", true, true},
	} {
		at := Place{Path: row.path, Home: "/me"}
		if err := g.Read(local, at); (err == nil) != row.read {
			t.Errorf("read %s: %v", row.path, err)
		}
		if err := g.Write(local, at, false); (err == nil) != row.write {
			t.Errorf("write %s: %v", row.path, err)
		}
	}
	if err := g.Write(local, Place{Path: "/h/skills/x/SKILL.md"}, true); err != nil {
		t.Errorf("with the user's word: %v", err)
	}
	if err := g.Write(local, Place{Path: "/h/auth.json"}, true); err == nil {
		t.Error("credentials with the user's word")
	}
	for p, ok := range map[string]bool{"/root/.hermes/auth.json": false, "/root/.hermes/cache/spillover/x.txt": true, "/h/auth.json": true, "/root/x/.env": false} {
		if err := g.Read(remote, Place{Path: p, Home: "/root"}); (err == nil) != ok {
			t.Errorf("in a sandbox, %s: %v", p, err)
		}
	}
	g.SafeRoots = []string{"/me/code", "/srv"}
	for p, ok := range map[string]bool{"/me/code/x": true, "/me/code": true, "/me/codex": false, "/srv/a/b": true, "/me/y": false} {
		var r *RefusedError
		if err := g.Write(local, Place{Path: p}, false); (err == nil) != ok || err != nil && (!errors.As(err, &r) || !strings.Contains(r.Reason, "SAFE_ROOT")) {
			t.Errorf("safe root, %s: %v", p, err)
		}
	}
}

// TestGuardAfterLinks: links and odd spellings lead to the same verdict, for every tool.
func TestGuardAfterLinks(t *testing.T) {
	t.Parallel()
	forHosts(t, func(t *testing.T, dir string, h Host) {
		testkit.WriteTree(t, dir, map[string]string{".hermes/auth.json": "SECRET", ".hermes/config.yaml": "a: SECRET\n", "proj/.env": "SECRET", "proj/x": "x"})
		for to, from := range map[string]string{"../.hermes/auth.json": "proj/innocent", "../.hermes": "proj/dir", ".env": "proj/e"} {
			if err := os.Symlink(to, filepath.Join(dir, from)); err != nil {
				t.Fatal(err)
			}
		}
		f := New(h, Guard{Homes: []Home{{filepath.Join(dir, ".hermes"), "default"}}}, Limits{})
		for _, p := range []string{"proj/innocent", "proj/dir/auth.json", "proj/dir/../.hermes/auth.json", "./proj/./dir//auth.json", "~/.hermes/auth.json", "proj/e", "proj/.env"} {
			if r := f.Read(t.Context(), ReadRequest{Path: p}); r.Error == "" || strings.Contains(r.Content, "SECRET") {
				t.Errorf("read %s: %+v", p, r)
			}
			if r := f.Replace(t.Context(), ReplaceRequest{Path: p, Old: "SECRET", New: "x"}); r.Error == "" || strings.Contains(r.Diff, "SECRET") {
				t.Errorf("patch %s: %+v", p, r)
			}
			if r := f.Patch(t.Context(), "*** Move File: "+p+" -> stolen\n", false); r.Error == "" {
				t.Errorf("move %s: %+v", p, r)
			}
			if r := f.Search(t.Context(), SearchRequest{Pattern: "SECRET", Path: p}); r.Error == "" && r.Total > 0 {
				t.Errorf("search %s: %+v", p, r)
			}
		}
		for _, p := range []string{"proj/dir/config.yaml", "proj/dir/auth.json", "proj/dir/.env", "proj/dir/mcp-tokens/x"} {
			if r := f.Write(t.Context(), WriteRequest{Path: p, Content: "EVIL"}); r.Error == "" {
				t.Errorf("write %s: %+v", p, r)
			}
		}
		if r := f.Search(t.Context(), SearchRequest{Pattern: "SECRET"}); r.Total != 0 {
			t.Errorf("search: %+v", r)
		}
	})
}

func TestHomesOf(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	testkit.WriteTree(t, dir, map[string]string{"real/config.yaml": "", "real/profiles/work/config.yaml": "", "elsewhere/config.yaml": ""})
	for to, from := range map[string]string{"real": "link", "../../elsewhere": "real/profiles/away"} {
		if err := os.Symlink(to, filepath.Join(dir, from)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := HomesOf(home.Home{Dir: filepath.Join(dir, "link", "profiles", "work"), Profile: "work"})
	want := []Home{{filepath.Join(dir, "real"), "default"}, {filepath.Join(dir, "real/profiles/work"), "work"}, {filepath.Join(dir, "elsewhere"), "away"}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v (%v), want %v", got, err, want)
	}
}
