// SPDX-License-Identifier: MIT

package appliance

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/appliance/secret"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// tenants is how many profiles live in the world of this test, the launch profile included.
const tenants = 8

// canaryOf is a value that only one profile ever has; every rotation makes another.
func canaryOf(id string, n int) string { return fmt.Sprintf("cnry-%s-%04d-<&>", id, n) }

// owners finds whose canaries a text holds, in raw, base64, hexadecimal, URL or JSON form.
func owners(text string) map[string]bool {
	out := map[string]bool{}
	for i := range tenants {
		id := tenant(i)
		mark := "cnry-" + id + "-"
		quoted, _ := json.Marshal(mark)
		forms := []string{mark, hex.EncodeToString([]byte(mark)), url.QueryEscape(mark), strings.Trim(string(quoted), `"`)}
		for shift := range 3 { // base64 has three ways to write what stands in the middle of a text
			enc := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", shift) + mark))
			forms = append(forms, enc[4:len(enc)-4])
		}
		for _, f := range forms {
			if strings.Contains(text, f) {
				out[id] = true
			}
		}
	}
	return out
}

func tenant(i int) string {
	return [tenants]string{"default", "a1", "b2", "c3", "d4", "e5", "f6", "g7"}[i]
}

// syncLog is a log that many goroutines write.
type syncLog struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *syncLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *syncLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestEightProfilesInParallel has each of eight profiles edited at random (rotation, removal,
// a file that cannot be read, a vault that fails, a home behind a moved link) while children
// of all of them are built. No child ever holds a foreign canary, and when the edits are over
// each profile has its own last value again.
func TestEightProfilesInParallel(t *testing.T) {
	t.Parallel()
	needShell(t)
	for _, multiplex := range []bool{false, true} {
		t.Run(fmt.Sprintf("multiplex %v", multiplex), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			files := map[string]string{}
			for i := range tenants {
				files[tenantDir(i)+"config.yaml"] = tenantConfig(multiplex && i == 0)
				files[tenantDir(i)+".env"] = tenantEnv(tenant(i), 0)
				files[tenantDir(i)+"vault.txt"] = "VAULT_NOTE=" + canaryOf(tenant(i), 0) + "\n"
			}
			testkit.WriteTree(t, dir, files)
			launch, err := home.Locate(filepath.Join(dir, "home"), func(string) string { return "" })
			if err != nil {
				t.Fatal(err)
			}
			log := &syncLog{}
			environ := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "STRAY=" + canaryOf("g7", 0), "NOTE=" + canaryOf("default", 0)}
			e, err := NewEnvironments(Options{Launch: launch, Environ: environ, Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
			if err != nil {
				t.Fatal(err)
			}
			before := slices.Clone(environ)
			var wg sync.WaitGroup
			for i := range tenants {
				wg.Go(func() { churn(t, dir, i) })
				wg.Go(func() {
					for range 60 {
						lookForForeign(t, e, launch, tenant(i))
					}
				})
			}
			wg.Wait()
			if !slices.Equal(before, environ) { // L12
				t.Error("the process's environment was changed")
			}
			for i := range tenants {
				settled(t, e, named(t, launch, tenant(i)))
			}
			if got := owners(log.String()); len(got) > 0 {
				t.Errorf("the log holds canaries of %v", got)
			}
			noNewFile(t, dir, files)
		})
	}
}

func tenantDir(i int) string {
	if i == 0 {
		return "home/"
	}
	return "home/profiles/" + tenant(i) + "/"
}

func tenantConfig(multiplex bool) string {
	s := "_config_version: 50\nsecrets:\n  command:\n    enabled: true\n    command: \"cat \\\"$HERMES_HOME/vault.txt\\\"\"\n"
	if multiplex {
		s += "gateway:\n  multiplex_profiles: true\n"
	}
	return s
}

func tenantEnv(id string, n int) string {
	return fmt.Sprintf("NOTE=%s\nOPENAI_API_KEY=%s\nSTRAY=%s\n%s_ONLY=%s\n", canaryOf(id, n), canaryOf(id, n), canaryOf(id, n), strings.ToUpper(id), canaryOf(id, n))
}

// churn edits one profile's files at random and leaves them whole, with number 999.
func churn(t *testing.T, dir string, i int) {
	rnd := rand.New(rand.NewPCG(uint64(i), 7))
	at := filepath.Join(dir, tenantDir(i))
	put := func(name, text string) {
		tmp := filepath.Join(at, fmt.Sprintf(".%s.%d", name, i))
		if err := os.WriteFile(tmp, []byte(text), 0o600); err != nil {
			t.Error(err)
		}
		if err := os.Rename(tmp, filepath.Join(at, name)); err != nil {
			t.Error(err)
		}
	}
	remove := func(name string) {
		if err := os.RemoveAll(filepath.Join(at, name)); err != nil {
			t.Error(err)
		}
	}
	for n := 1; n <= 40; n++ {
		switch rnd.IntN(6) {
		case 0, 1:
			put(".env", tenantEnv(tenant(i), n))
		case 2: // a key is removed
			put(".env", "NOTE="+canaryOf(tenant(i), n)+"\n")
		case 3: // unreadable for everybody, then back
			remove(".env")
			if err := os.Mkdir(filepath.Join(at, ".env"), 0o700); err != nil {
				t.Error(err)
			}
			runtime.Gosched()
			remove(".env")
			put(".env", tenantEnv(tenant(i), n))
		case 4: // the vault fails, or answers something else
			remove("vault.txt")
			put("vault.txt", "VAULT_NOTE="+canaryOf(tenant(i), n)+"\n")
		case 5: // the directory is moved away and back
			if i > 0 {
				away := at + "-away"
				if err := os.Rename(strings.TrimSuffix(at, "/"), away); err != nil {
					t.Error(err)
				}
				runtime.Gosched()
				if err := os.Rename(away, strings.TrimSuffix(at, "/")); err != nil {
					t.Error(err)
				}
			}
		}
	}
	put(".env", tenantEnv(tenant(i), 999))
	put("vault.txt", "VAULT_NOTE="+canaryOf(tenant(i), 999)+"\n")
}

// lookForForeign builds children of a profile as a turn does, with its secrets bound.
func lookForForeign(t *testing.T, e *Environments, launch home.Home, id string) {
	h, err := launch.NamedProfile(id)
	if err != nil {
		return // it is just being moved: nothing can be started for it
	}
	scope, err := e.Scope(t.Context(), h)
	if err != nil {
		return
	}
	ctx := secret.Bind(t.Context(), scope)
	for _, kind := range []string{"terminal", "mcp", "tool", "served", "cron-script", "terminal-remote", "helper"} {
		s, err := e.Snapshot(ctx, h)
		if err != nil {
			continue
		}
		vars, err := e.Policy().Build(kind, s)
		if err != nil {
			continue
		}
		for who := range owners(strings.Join(vars, "\n")) {
			if who != id && (id != "default" || who != "g7") { // L11: the launch profile keeps what it was started with
				t.Errorf("%s of %s holds a canary of %s", kind, id, who)
			}
		}
	}
}

// settled checks that a profile lost nothing for good.
func settled(t *testing.T, e *Environments, h home.Home) {
	t.Helper()
	id := h.Profile
	if _, err := e.secrets.Refresh(t.Context(), e.tenant(h)); err != nil {
		t.Fatal(err)
	}
	if got := child(t, e, h, "tool")["NOTE"]; got != canaryOf(id, 999) {
		t.Errorf("%s: NOTE is %q in the end", id, got)
	}
	if got := child(t, e, h, "mcp")["VAULT_NOTE"]; got != canaryOf(id, 999) {
		t.Errorf("%s: VAULT_NOTE is %q in the end", id, got)
	}
}

// noNewFile finds files that were not planted and hold a canary: nothing keeps secrets on disk.
func noNewFile(t *testing.T, dir string, planted map[string]string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if _, ok := planted[filepath.ToSlash(rel)]; ok || err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		if got := owners(string(text)); len(got) > 0 {
			t.Errorf("%s holds canaries of %v", rel, got)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
