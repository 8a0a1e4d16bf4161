// SPDX-License-Identifier: MIT

//go:build unix

package migrate_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
	"github.com/hermes-appliance/hermes-appliance/migrate"
)

// edits are what a person adds to each of the three files.
func edits() files { return files{"mine: 1\n", "MINE=1\n", "\nMine.\n"} }

// parts returns the three texts in the order in which a commit writes the files.
func (f files) parts() []string { return []string{f.Env, f.Soul, f.Config} }

// with returns f with the i-th text changed.
func (f files) with(i int, change func(string) string) files {
	*[]*string{&f.Env, &f.Soul, &f.Config}[i] = change(f.parts()[i])
	return f
}

func paths(h home.Home) []string { return []string{h.Env(), h.Soul(), h.Config()} }

// appendTo adds text as an editor does that saves in place.
func appendTo(t testing.TB, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestEditAfterKill: between a kill at any operation and the run that settles it, a person
// edits one of the files. The edit stays, the home ends migrated, and a file that could not be
// put back is named.
func TestEditAfterKill(t *testing.T) {
	t.Parallel()
	for _, i := range []int{0, 2} { // plain and through links
		s := scenes()[i]
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			st := open(t, s)
			named := 0
			st.eachCrash(t, func(k int, model string) {
				for i, text := range edits().parts() {
					withCopy(t, model, func(dir string) {
						h := homeIn(dir)
						path := paths(h)[i]
						undone := hasJournal(t, h) && filesOf(t, h).Config == st.start.Config
						appendTo(t, path, text)
						r := st.again(t, h)
						wantFiles(t, h, st.end.with(i, func(s string) string { return s + text }))
						wantClean(t, dir, h)
						st.wantLinks(t, dir)
						if undone {
							named++
							if !strings.Contains(r.Recovered, path+" was written by someone else") {
								t.Errorf("%s is not named: %q", path, r.Recovered)
							}
						}
					})
					if t.Failed() {
						t.Fatalf("killed at %d (%s), then edited file %d", k, st.ops[k-1], i)
					}
				}
			})
			if named < 3 {
				t.Errorf("only %d edits met an interrupted run", named)
			}
		})
	}
}

// TestEditAfterKilledRollback is the same for the way back: neither an old .env with a new
// stamp nor a new one with an old stamp is left.
func TestEditAfterKilledRollback(t *testing.T) {
	t.Parallel()
	st := open(t, scenes()[3])
	seen := map[string]int{}
	st.eachCrash(t, func(k int, model string) {
		withCopy(t, model, func(dir string) {
			h := homeIn(dir)
			appendTo(t, h.Config(), edits().Config)
			_, err := migrator(nil).Rollback(t.Context(), h)
			if err != nil && !errors.Is(err, migrate.ErrChanged) && !errors.Is(err, migrate.ErrNoBackup) {
				t.Fatal(err)
			}
			state := "mixed"
			for name, f := range map[string]files{"old": oldFiles(), "new": newFiles()} {
				if filesOf(t, h) == f.with(2, func(s string) string { return s + edits().Config }) {
					state = name
				}
			}
			seen[state]++
			if state == "mixed" {
				t.Errorf("mixed state after %v", err)
			}
			wantClean(t, dir, h)
		})
		if t.Failed() {
			t.Fatalf("killed at %d (%s)", k, st.ops[k-1])
		}
	})
	if seen["old"] == 0 || seen["new"] == 0 {
		t.Errorf("states seen: %v", seen)
	}
}

// TestEditOfTornFile: the file that was being overwritten when the process was killed cannot
// be told from a damaged one once it is edited. It stays as it is; its old content is kept and
// named.
func TestEditOfTornFile(t *testing.T) {
	t.Parallel()
	st := open(t, scenes()[1])
	torn := 0
	st.eachCrash(t, func(k int, model string) {
		for i, text := range edits().parts() {
			withCopy(t, model, func(dir string) {
				h := homeIn(dir)
				path := paths(h)[i]
				now := filesOf(t, h).parts()[i]
				appendTo(t, path, text)
				r, err := migrator(nil).Apply(t.Context(), h, migrate.Options{})
				if err != nil && !errors.Is(err, migrate.ErrAmbiguous) {
					t.Fatal(err)
				}
				if got := filesOf(t, h).parts()[i]; !strings.HasSuffix(got, text) {
					t.Error("the edit is gone")
				}
				if left := staged(t, dir); len(left) > 0 {
					t.Errorf("left behind: %v", left)
				}
				if now == st.start.parts()[i] || now == st.end.parts()[i] {
					return
				}
				torn++
				if !strings.Contains(r.Recovered, path+" was written by someone else") || !strings.Contains(r.Recovered, h.Backups()) {
					t.Errorf("%s or its old content is not named: %q", path, r.Recovered)
				}
				kept := false
				for _, old := range backups(t, h) {
					kept = kept || old == st.start.parts()[i]
				}
				if !kept {
					t.Error("the old content is gone")
				}
			})
			if t.Failed() {
				t.Fatalf("killed at %d (%s), then edited file %d", k, st.ops[k-1], i)
			}
		}
	})
	if torn == 0 {
		t.Error("no torn file was ever left: the test shows nothing")
	}
}

// TestEditAfterDoubleKill: the undoing was killed as well, while it staged an old file, and then
// the file was edited. What was staged is not left lying about.
func TestEditAfterDoubleKill(t *testing.T) {
	t.Parallel()
	st := open(t, scenes()[0])
	met := 0
	st.eachCrash(t, func(k int, model string) {
		for r := range st.recoveryOps(t, model) {
			withCopy(t, model, func(dir string) {
				h := homeIn(dir)
				if !crashes(func() { _, _ = st.act(t.Context(), migrator(crashAt(r+1).hook), h) }) {
					t.Fatal("not reached")
				}
				if !slices.ContainsFunc(staged(t, dir), func(path string) bool { return strings.HasSuffix(path, ".migrate-old") }) {
					return
				}
				met++
				appendTo(t, h.Env(), edits().Env)
				appendTo(t, h.Soul(), edits().Soul)
				st.again(t, h)
				want := st.end
				want.Env, want.Soul = want.Env+edits().Env, want.Soul+edits().Soul
				wantFiles(t, h, want)
				wantClean(t, dir, h)
			})
		}
	})
	if met == 0 {
		t.Error("no recovery was ever killed while it staged an old file")
	}
}

// TestOtherConfigAfterKill: config.yaml was replaced by an older one after a kill, even one that
// came when all was done but the record. .env follows config.yaml, and nothing is left over.
func TestOtherConfigAfterKill(t *testing.T) {
	t.Parallel()
	const other = "_config_version: 45\nmine: 1\n"
	st := open(t, scenes()[0])
	undone := 0
	st.eachCrash(t, func(k int, model string) {
		withCopy(t, model, func(dir string) {
			h := homeIn(dir)
			done := filesOf(t, h) == st.end
			late := done && hasJournal(t, h)
			if err := os.WriteFile(h.Config(), []byte(other), 0o600); err != nil {
				t.Fatal(err)
			}
			r := st.again(t, h)
			if late {
				undone++
				if !strings.Contains(r.Recovered, "was undone") || !strings.Contains(r.Recovered, h.Config()) {
					t.Errorf("recovered %q", r.Recovered)
				}
			}
			// A home at 45 keeps the section of SOUL.md that a step to 41 would have removed.
			want := files{strings.Replace(other, "45", "50", 1), newEnv, oldSoul}
			if done && !late {
				want.Soul = newSoul // there was nothing left to undo
			}
			wantFiles(t, h, want)
			wantClean(t, dir, h)
		})
		if t.Failed() {
			t.Fatalf("killed at %d (%s)", k, st.ops[k-1])
		}
	})
	if undone == 0 {
		t.Error("no run was ever killed that late")
	}
}

// TestEditMeanwhile: somebody saves one of the files while it is being migrated, at any
// operation of the run. Their text is never lost, and the home is never half migrated.
func TestEditMeanwhile(t *testing.T) {
	t.Parallel()
	for _, st := range []*stage{open(t, scenes()[0]), open(t, scenes()[1])} {
		refused := 0
		for k := 1; k <= st.n; k += stride {
			for i, text := range edits().parts() {
				if strings.HasPrefix(st.ops[k-1], "rename "+filepath.Base(paths(homeIn(""))[i])) {
					continue // between the last look and the rename; nothing can be looked at there
				}
				if st.name != "migrate" && (strings.HasPrefix(st.ops[k-1], "write "+filepath.Base(paths(homeIn(""))[i])) || strings.HasPrefix(st.ops[k-1], "truncate")) {
					continue // two write into one file at once
				}
				withCopy(t, st.model, func(dir string) {
					h := homeIn(dir)
					path := paths(h)[i]
					edit := &steps{hit: k, do: func() error { appendTo(t, path, text); return nil }}
					_, err := migrator(edit.hook).Apply(t.Context(), h, migrate.Options{})
					got := filesOf(t, h)
					if !strings.HasSuffix(got.parts()[i], text) {
						t.Errorf("the edit is gone (%v)", err)
					}
					whole := got.with(i, func(s string) string { return strings.TrimSuffix(s, text) })
					switch {
					case err == nil && whole == st.end:
					case errors.Is(err, migrate.ErrChanged) && whole == st.start:
						refused++
						if exitcode.Of(err) != exitcode.Error {
							t.Errorf("exit code %d", exitcode.Of(err))
						}
						if n := len(backups(t, h)); n != 0 {
							t.Errorf("%d backups of nothing", n)
						}
					default:
						t.Errorf("got %v with files %+v", err, whole)
					}
					wantClean(t, dir, h)
				})
				if t.Failed() {
					t.Fatalf("%s: file %d edited at %d (%s)", st.name, i, k, st.ops[k-1])
				}
			}
		}
		if refused < 30/stride {
			t.Errorf("%s: only %d edits were seen", st.name, refused)
		}
	}
}

// TestEditMeanwhileByRename is the editor that saves by renaming, with the same content and
// time.
func TestEditMeanwhileByRename(t *testing.T) {
	t.Parallel()
	dir := fastDir(t)
	h := oldFiles().lay(t, dir)
	before := look(t, dir)
	replaced := false
	m := migrator(func(op atomicfile.Op, path string) error {
		if op != atomicfile.OpSync || replaced {
			return nil
		}
		replaced = true
		info, err := os.Stat(h.Env())
		if err != nil {
			return err
		}
		swap := filepath.Join(dir, "swap")
		return errors.Join(os.WriteFile(swap, []byte(oldEnv), 0o600), os.Chtimes(swap, info.ModTime(), info.ModTime()), os.Rename(swap, h.Env()))
	})
	_, err := m.Apply(t.Context(), h, migrate.Options{})
	var r *migrate.Refusal
	if !errors.As(err, &r) || !errors.Is(r.Kind, migrate.ErrChanged) || r.File != h.Env() {
		t.Fatalf("got %v, want ErrChanged for .env", err)
	}
	wantFiles(t, h, oldFiles())
	wantClean(t, dir, h)
	if after := look(t, dir); after["config.yaml"] != before["config.yaml"] || after["SOUL.md"] != before["SOUL.md"] {
		t.Error("a file that nobody edited was written")
	}
}

// TestLinkMovedMeanwhile: config.yaml is pointed to another file while it is being migrated.
func TestLinkMovedMeanwhile(t *testing.T) {
	t.Parallel()
	dir := fastDir(t)
	h := oldFiles().lay(t, filepath.Join(dir, "home"))
	one, two := filepath.Join(dir, "one.yaml"), filepath.Join(dir, "two.yaml")
	if err := errors.Join(os.Rename(h.Config(), one), os.WriteFile(two, []byte(oldConfig), 0o600), os.Symlink(one, h.Config())); err != nil {
		t.Fatal(err)
	}
	move := &steps{hit: 20, do: func() error { return errors.Join(os.Remove(h.Config()), os.Symlink(two, h.Config())) }}
	if _, err := migrator(move.hook).Apply(t.Context(), h, migrate.Options{}); !errors.Is(err, migrate.ErrChanged) {
		t.Fatalf("got %v, want ErrChanged", err)
	}
	for _, path := range []string{one, two} {
		if data, err := os.ReadFile(path); err != nil || string(data) != oldConfig {
			t.Errorf("%s was written (%v)", path, err)
		}
	}
	wantFiles(t, h, oldFiles())
	wantClean(t, dir, h)
	if !slices.Contains(move.log, "remove migrate.journal") {
		t.Error("the change came too early to be seen by the commit")
	}
}
