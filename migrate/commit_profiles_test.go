// SPDX-License-Identifier: MIT

package migrate_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
	"github.com/hermes-appliance/hermes-appliance/migrate"
)

// outcome is what became of one home.
type outcome struct {
	migrate.Result
	err error
}

// applyAll migrates homes at the same time, a few at once, as the command does.
func applyAll(t testing.TB, m migrate.Migrator, homes []home.Home) map[string]outcome {
	t.Helper()
	out := map[string]outcome{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	slots := make(chan struct{}, 4)
	for _, h := range homes {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			r, err := m.Apply(t.Context(), h, migrate.Options{})
			mu.Lock()
			defer mu.Unlock()
			out[h.Profile] = outcome{r, err}
		})
	}
	wg.Wait()
	return out
}

// TestManyProfiles: two hundred profiles, one that cannot be read, one that is managed, two
// that are deleted. Every home gets a result of its own, and none hides another.
func TestManyProfiles(t *testing.T) {
	t.Parallel()
	const n, bad, managed, buried, gone = 200, "p007", "p011", "p013", "p014"
	dir := fastDir(t)
	root := oldFiles().lay(t, dir)
	at := func(id string) string { return filepath.Join(dir, "profiles", id) }
	for i := range n {
		if id := fmt.Sprintf("p%03d", i); id != gone {
			oldFiles().lay(t, at(id))
		}
	}
	testkit.WriteTree(t, dir, map[string]string{
		"profiles/" + bad + "/config.yaml": "a: [\n", "profiles/" + managed + "/.managed": "ansible",
		"profiles/.deleted/" + buried: "", "profiles/.deleted/" + gone: "",
	})
	untouched := map[string]map[string]entry{}
	for _, id := range []string{bad, managed, buried} {
		untouched[id] = look(t, at(id))
	}
	profiles, err := root.Profiles()
	if err != nil {
		t.Fatal(err)
	}
	homes := append([]home.Home{root}, profiles...)
	if len(homes) != n-1 {
		t.Fatalf("%d homes, want %d", len(homes), n-1)
	}
	for round := range 2 {
		got := applyAll(t, migrator(nil), homes)
		applied := 0
		for _, h := range homes {
			o := got[h.Profile]
			switch h.Profile {
			case bad:
				wantRefused(t, o, migrate.ErrAmbiguous)
			case managed:
				wantRefused(t, o, migrate.ErrManaged)
			default:
				if o.err != nil {
					t.Errorf("%s: %v", h.Profile, o.err)
				}
				if o.Applied {
					applied++
				}
				wantFiles(t, h, newFiles())
			}
		}
		if want := (1 - round) * (n - 3); applied != want {
			t.Errorf("round %d: %d homes were migrated, want %d", round, applied, want)
		}
	}
	for id, before := range untouched {
		wantUntouched(t, at(id), before)
	}
	if _, err := os.Lstat(at(gone)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the deleted profile is back (%v)", err)
	}
	wantClean(t, dir, root)
	for _, h := range profiles {
		if h.Profile != bad && h.Profile != managed && len(backups(t, h)) != 4 {
			t.Errorf("%s: backups %v", h.Profile, backups(t, h))
		}
	}
}

func wantRefused(t *testing.T, o outcome, want error) {
	t.Helper()
	if !errors.Is(o.err, want) || o.Applied {
		t.Errorf("%s: got %v, want %v", o.Home.Profile, o.err, want)
	}
}
