// SPDX-License-Identifier: MIT

package migrate_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/migrate"
)

// rewrite changes a JSON file of ours.
func rewrite(t testing.TB, path string, change func(map[string]any)) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	change(doc)
	if data, err = json.Marshal(doc); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// file returns the i-th entry of a document's files.
func file(doc map[string]any, i int) map[string]any {
	return doc["files"].([]any)[i].(map[string]any)
}

// TestRollbackUnknownManifest: a record that this program did not write is not guessed at.
func TestRollbackUnknownManifest(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(map[string]any){
		"version":               func(d map[string]any) { d["version"] = 2 },
		"field":                 func(d map[string]any) { d["compressed"] = true },
		"field of a file":       func(d map[string]any) { file(d, 0)["mode"] = 420 },
		"type":                  func(d map[string]any) { d["files"] = "all" },
		"no files":              func(d map[string]any) { d["files"] = []any{} },
		"a name it has not":     func(d map[string]any) { file(d, 0)["name"] = "state.db" },
		"one name twice":        func(d map[string]any) { file(d, 0)["name"] = "config.yaml"; file(d, 0)["backup"] = "config.yaml.x" },
		"a backup elsewhere":    func(d map[string]any) { file(d, 0)["backup"] = "../../.env" },
		"another file's backup": func(d map[string]any) { file(d, 0)["backup"] = "SOUL.md.migrate-40-50.20260701-120000" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := oldFiles().lay(t, fastDir(t))
			path := apply(t, migrator(nil), h, migrate.Options{}).Backup
			rewrite(t, path, change)
			wantUnknown(t, h, path, func() error { _, err := silent(t).Rollback(t.Context(), h); return err })
			wantUnknown(t, h, path, func() error { _, err := silent(t).PreviewRollback(h); return err })
		})
	}
	for name, text := range map[string]string{"no JSON": "hello", "empty": "", "two values": "{}\n{}"} {
		h := oldFiles().lay(t, fastDir(t))
		path := apply(t, migrator(nil), h, migrate.Options{}).Backup
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Log(name)
		wantUnknown(t, h, path, func() error { _, err := silent(t).Rollback(t.Context(), h); return err })
	}
}

// wantUnknown checks that a file of ours is refused with exit 8 and nothing is written.
func wantUnknown(t *testing.T, h home.Home, path string, f func() error) {
	t.Helper()
	before := look(t, h.Dir)
	err := f()
	var r *migrate.Refusal
	if !errors.As(err, &r) || !errors.Is(r.Kind, migrate.ErrAmbiguous) || r.ExitCode() != 8 || r.File != path {
		t.Errorf("got %v, want ErrAmbiguous for %s", err, path)
	}
	wantUntouched(t, h.Dir, before)
}

// TestUnknownJournal: so is a journal, whatever is asked for.
func TestUnknownJournal(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(map[string]any){
		"version":            func(d map[string]any) { d["version"] = 2 },
		"field":              func(d map[string]any) { d["host"] = "x" },
		"field of a file":    func(d map[string]any) { file(d, 0)["target"] = "/etc/passwd" },
		"kind":               func(d map[string]any) { d["kind"] = "repair" },
		"no files":           func(d map[string]any) { d["files"] = nil },
		"a name it has not":  func(d map[string]any) { file(d, 0)["name"] = "../.bashrc" },
		"one name twice":     func(d map[string]any) { d["files"] = append(d["files"].([]any), file(d, 0)) },
		"a backup elsewhere": func(d map[string]any) { file(d, 0)["backup"] = ".env./../../x" },
		"staged elsewhere":   func(d map[string]any) { file(d, 0)["temp"] = "../.x.migrate-new" },
		"staged as it likes": func(d map[string]any) { file(d, 0)["temp"] = "authorized_keys" },
		"manifest elsewhere": func(d map[string]any) { d["manifest"] = "manifest.x/../../y.json" },
		"manifest as it is":  func(d map[string]any) { d["manifest"] = "config.yaml" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := oldFiles().lay(t, fastDir(t))
			if !crashes(func() { _, _ = migrator(crashAt(50).hook).Apply(t.Context(), h, migrate.Options{}) }) {
				t.Fatal("not interrupted")
			}
			rewrite(t, journalOf(h), change)
			for _, f := range []func() error{
				func() error { _, err := silent(t).Apply(t.Context(), h, migrate.Options{}); return err },
				func() error { _, err := silent(t).Preview(h, migrate.Options{}); return err },
				func() error { _, err := silent(t).Rollback(t.Context(), h); return err },
				func() error { _, err := silent(t).PreviewRollback(h); return err },
			} {
				wantUnknown(t, h, journalOf(h), f)
			}
		})
	}
}

// TestRollbackAfterKill: the migration that a kill interrupted is settled before the last one is
// looked for, so that it is not missed, nor an older one taken back instead.
func TestRollbackAfterKill(t *testing.T) {
	t.Parallel()
	count := &steps{}
	apply(t, migrator(count.hook), oldFiles().lay(t, fastDir(t)), migrate.Options{})
	undone, back := 0, 0
	for k := 1; k <= len(count.log); k++ {
		h := oldFiles().lay(t, fastDir(t))
		if !crashes(func() { _, _ = migrator(crashAt(k).hook).Apply(t.Context(), h, migrate.Options{}) }) {
			t.Fatalf("operation %d was not reached", k)
		}
		journal := hasJournal(t, h)
		r, err := at(migrator(nil), 1).Rollback(t.Context(), h)
		switch {
		case errors.Is(err, migrate.ErrNoBackup):
			undone++
		case err != nil:
			t.Fatalf("killed at %d (%s): %v", k, count.log[k-1], err)
		default:
			back++
		}
		if (r.Recovered != "") != journal {
			t.Errorf("killed at %d (%s): journal %t, recovered %q", k, count.log[k-1], journal, r.Recovered)
		}
		wantFiles(t, h, oldFiles())
		wantClean(t, h.Dir, h)
	}
	if undone == 0 || back == 0 {
		t.Errorf("%d were undone, %d taken back", undone, back)
	}
}

// TestRecoveryWithoutBackups: somebody cleared backups/config between the kill and the run that
// settles it.
func TestRecoveryWithoutBackups(t *testing.T) {
	t.Parallel()
	count := &steps{}
	apply(t, migrator(count.hook), oldFiles().lay(t, fastDir(t)), migrate.Options{})
	stuck := 0
	for k := 1; k <= len(count.log); k++ {
		h := oldFiles().lay(t, fastDir(t))
		if !crashes(func() { _, _ = migrator(crashAt(k).hook).Apply(t.Context(), h, migrate.Options{}) }) {
			t.Fatalf("operation %d was not reached", k)
		}
		if err := os.RemoveAll(filepath.Join(h.Dir, "backups")); err != nil {
			t.Fatal(err)
		}
		half := filesOf(t, h)
		_, err := at(migrator(nil), 1).Apply(t.Context(), h, migrate.Options{})
		if err == nil {
			wantFiles(t, h, newFiles())
			wantClean(t, h.Dir, h)
			continue
		}
		// A file is new already and its old content is gone: a person must say what to do.
		stuck++
		var r *migrate.Refusal
		if !errors.As(err, &r) || !errors.Is(r.Kind, migrate.ErrAmbiguous) || !strings.Contains(r.Fix, journalOf(h)) || half.Config != oldConfig || half == oldFiles() {
			t.Errorf("killed at %d (%s): got %v", k, count.log[k-1], err)
		}
		wantFiles(t, h, half)
		if err := os.Remove(journalOf(h)); err != nil { // as the refusal says
			t.Fatal(err)
		}
		apply(t, at(migrator(nil), 2), h, migrate.Options{})
		wantFiles(t, h, newFiles())
		wantClean(t, h.Dir, h)
	}
	if stuck == 0 {
		t.Error("never happened: the test shows nothing")
	}
}

// TestRollbackManifestGone: somebody removed the manifest while a rollback was interrupted.
func TestRollbackManifestGone(t *testing.T) {
	t.Parallel()
	h := oldFiles().lay(t, fastDir(t))
	manifest := apply(t, migrator(nil), h, migrate.Options{}).Backup
	stop := &steps{}
	m := at(migrator(stop.hook), 1)
	stop.do = func() error { panic(crash{}) }
	stop.hit = 58 // the files are back, the manifest is not marked yet
	if !crashes(func() { _, _ = m.Rollback(t.Context(), h) }) || !hasJournal(t, h) {
		t.Fatal("not interrupted")
	}
	wantFiles(t, h, oldFiles())
	if err := os.Remove(manifest); err != nil {
		t.Fatal(err)
	}
	if _, err := migrator(nil).Rollback(t.Context(), h); !errors.Is(err, migrate.ErrNoBackup) {
		t.Errorf("got %v, want ErrNoBackup", err)
	}
	wantFiles(t, h, oldFiles())
	wantClean(t, h.Dir, h)
}

// TestMovedHome: a run that was interrupted in a container is settled on the host, where the
// home has another path.
func TestMovedHome(t *testing.T) {
	t.Parallel()
	count := &steps{}
	apply(t, migrator(count.hook), oldFiles().lay(t, fastDir(t)), migrate.Options{})
	for k := 1; k <= len(count.log); k += 3 {
		dir := fastDir(t)
		h := oldFiles().lay(t, filepath.Join(dir, "container"))
		if !crashes(func() { _, _ = migrator(crashAt(k).hook).Apply(t.Context(), h, migrate.Options{}) }) {
			t.Fatalf("operation %d was not reached", k)
		}
		journal := hasJournal(t, h)
		moved := home.Home{Dir: filepath.Join(dir, "host"), Profile: home.Default}
		if err := os.Rename(h.Dir, moved.Dir); err != nil {
			t.Fatal(err)
		}
		r := apply(t, migrator(nil), moved, migrate.Options{})
		if (r.Recovered != "") != journal || strings.Contains(r.Recovered, "someone else") {
			t.Errorf("killed at %d (%s): recovered %q", k, count.log[k-1], r.Recovered)
		}
		wantFiles(t, moved, newFiles())
		wantClean(t, dir, moved)
		rollback(t, at(migrator(nil), 1), moved)
		wantFiles(t, moved, oldFiles())
	}
}
