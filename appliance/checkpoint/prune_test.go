// SPDX-License-Identifier: MIT

package checkpoint_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/checkpoint"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

func readAll(t testing.TB, dir string) map[string]string { t.Helper(); return testkit.ReadTree(t, dir) }

// projectFile is the only one in the store.
func (b *bench) projectFile(t testing.TB) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(b.dir, "store", "projects", "*.json"))
	if err != nil || len(found) != 1 {
		t.Fatalf("projects: %v, %v", found, err)
	}
	return found[0]
}

// edit changes the project file; nil removes a key.
func (b *bench) edit(t testing.TB, set map[string]any) {
	t.Helper()
	path := b.projectFile(t)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]any{}
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	for k, v := range set {
		if all[k] = v; v == nil {
			delete(all, k)
		}
	}
	if data, err = json.Marshal(all); err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (b *bench) prune(t testing.TB, o checkpoint.PruneOptions) checkpoint.Counts {
	t.Helper()
	n, err := b.Prune(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestPruneOrphans: only a directory that is observed to be deleted is an orphan.
func TestPruneOrphans(t *testing.T) {
	t.Parallel()
	parent := func(b *bench) string { return filepath.Dir(b.work) }
	for _, tt := range []struct {
		name   string
		change func(t *testing.T, b *bench)
		orphan bool
	}{
		{"there", func(*testing.T, *bench) {}, false},
		{"deleted, with neighbours", func(t *testing.T, b *bench) {
			remove(t, b.work, "")
			testkit.WriteTree(t, parent(b), map[string]string{"neighbour": "1"})
		}, true},
		{"deleted, parent empty", func(t *testing.T, b *bench) { remove(t, b.work, "") }, false},
		{"parent gone too", func(t *testing.T, b *bench) { remove(t, parent(b), "") }, false},
		{"parent is another directory", func(t *testing.T, b *bench) {
			if err := os.Rename(parent(b), parent(b)+".away"); err != nil {
				t.Fatal(err)
			}
			testkit.WriteTree(t, parent(b), map[string]string{".keep": ""})
		}, false},
		{"parent is a file", func(t *testing.T, b *bench) {
			remove(t, parent(b), "")
			testkit.WriteTree(t, filepath.Dir(parent(b)), map[string]string{"area": ""})
		}, false},
		{"a dangling link is in its place", func(t *testing.T, b *bench) {
			remove(t, b.work, "")
			symlink(t, "nowhere", parent(b), "work")
			testkit.WriteTree(t, parent(b), map[string]string{"neighbour": "1"})
		}, false},
		{"no identity recorded", func(t *testing.T, b *bench) {
			b.edit(t, map[string]any{"workdir_parent_dev": nil, "workdir_parent_ino": nil})
			remove(t, b.work, "")
			testkit.WriteTree(t, parent(b), map[string]string{"neighbour": "1"})
		}, false},
		{"half an identity", func(t *testing.T, b *bench) {
			b.edit(t, map[string]any{"workdir_parent_dev": nil})
			remove(t, b.work, "")
			testkit.WriteTree(t, parent(b), map[string]string{"neighbour": "1"})
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.write(t, map[string]string{"a": "1"})
			b.take(t)
			tt.change(t, b)
			want := 0
			if tt.orphan {
				want = 1
			}
			if n := b.prune(t, checkpoint.PruneOptions{}); n.DeletedOrphan != 0 || n.Scanned != 1 {
				t.Errorf("without DeleteOrphans: got %+v", n)
			}
			if n := b.prune(t, checkpoint.PruneOptions{DeleteOrphans: true, Allow: []string{"0123456789abcdef"}}); n.DeletedOrphan != 0 {
				t.Errorf("not on the list: got %+v", n)
			}
			if n := b.prune(t, checkpoint.PruneOptions{DeleteOrphans: true}); n.DeletedOrphan != want || n.DeletedStale != 0 || n.Errors != 0 {
				t.Errorf("got %+v, want %d orphans", n, want)
			}
			if left := git(t, filepath.Join(b.dir, "store"), "--git-dir=.", "for-each-ref"); (left == "") != tt.orphan {
				t.Errorf("refs: got %q", left)
			}
		})
	}
}

func TestPruneUnreadableProject(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write(t, map[string]string{"a": "1"})
	b.take(t)
	if err := os.WriteFile(b.projectFile(t), []byte("{half"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.now = b.now.Add(1000 * 24 * time.Hour)
	n, err := b.Prune(t.Context(), checkpoint.PruneOptions{DeleteOrphans: true, Retention: time.Hour})
	if err == nil || n.Errors != 1 || n.DeletedStale+n.DeletedOrphan != 0 {
		t.Errorf("got %+v, %v, want it kept and said", n, err)
	}
	if all, err := b.List(t.Context(), b.work); err != nil || len(all) != 1 {
		t.Errorf("got %v, %v, want its checkpoint", all, err)
	}
}

func TestPruneStale(t *testing.T) {
	t.Parallel()
	week := 7 * 24 * time.Hour
	for _, tt := range []struct {
		name      string
		age       time.Duration
		touched   any
		retention time.Duration
		stale     int
	}{
		{"young", week - time.Hour, nil, week, 0},
		{"old", week + time.Hour, nil, week, 1},
		{"kept for ever", 100 * week, nil, 0, 0},
		{"never touched", week + time.Hour, 0, week, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.write(t, map[string]string{"a": strings.Repeat("content ", 1000)})
			b.take(t)
			if tt.touched != nil {
				b.edit(t, map[string]any{"last_touch": tt.touched})
			}
			b.now = b.now.Add(tt.age)
			n := b.prune(t, checkpoint.PruneOptions{Retention: tt.retention})
			if n.DeletedStale != tt.stale || n.Scanned != 1 || (tt.stale > 0 && n.BytesFreed == 0) {
				t.Errorf("got %+v, want %d stale", n, tt.stale)
			}
			b.take(t)
			b.sound(t)
		})
	}
}

func TestPruneOldLayouts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	area := filepath.Dir(b.work)
	testkit.WriteTree(t, b.dir, map[string]string{
		"aaaa/HEAD": "x", "aaaa/HERMES_WORKDIR": filepath.Join(area, "deleted") + "\n",
		"bbbb/HEAD": "x", "bbbb/HERMES_WORKDIR": b.work,
		"cccc/HEAD": "x", "legacy-2026/x": "1", "notes/x": "mine",
	})
	old := time.Now().Add(-30 * 24 * time.Hour)
	if err := os.Chtimes(filepath.Join(b.dir, "legacy-2026"), old, old); err != nil {
		t.Fatal(err)
	}
	n := b.prune(t, checkpoint.PruneOptions{DeleteOrphans: true, Retention: 7 * 24 * time.Hour})
	if n.Scanned != 4 || n.DeletedOrphan != 1 || n.DeletedStale != 1 {
		t.Errorf("got %+v, want 4 scanned, 1 orphan, 1 stale", n)
	}
	list, err := os.ReadDir(b.dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range list {
		if f.IsDir() {
			names = append(names, f.Name())
		}
	}
	if want := []string{"bbbb", "cccc", "notes"}; !slices.Equal(names, want) {
		t.Errorf("left: got %v, want %v", names, want)
	}
}

func TestPruneInterval(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write(t, map[string]string{"a": "1"})
	b.take(t)
	o := checkpoint.PruneOptions{MinEvery: 24 * time.Hour}
	for i, tt := range []struct {
		later time.Duration
		runs  int
	}{{0, 1}, {23 * time.Hour, 0}, {time.Hour, 1}, {-time.Hour, 1}} {
		b.now = b.now.Add(tt.later)
		if n := b.prune(t, o); n.Scanned != tt.runs {
			t.Errorf("run %d: got %+v, want %d scanned", i, n, tt.runs)
		}
	}
}

// TestTrim: a directory has no more checkpoints than the limit, those that stay keep their
// hashes, and the rest is gone after a Prune.
func TestTrim(t *testing.T) {
	t.Parallel()
	b := setup(t, func(o *checkpoint.Options) { o.MaxSnapshots = 3 })
	var hashes []string
	for i := range 6 {
		b.write(t, map[string]string{"a": fmt.Sprint(i)})
		hashes = append(hashes, b.take(t).Hash)
	}
	b.prune(t, checkpoint.PruneOptions{})
	all, err := b.List(t.Context(), b.work)
	if err != nil || len(all) != 3 || all[2].Hash != hashes[3] {
		t.Errorf("got %v, %v, want the last three of %v", all, err, hashes)
	}
	b.sound(t)
	if found, _ := filepath.Glob(filepath.Join(b.dir, "store", "objects", hashes[0][:2], hashes[0][2:])); len(found) > 0 {
		t.Error("the first checkpoint still takes space")
	}
	if _, err := b.Restore(t.Context(), b.work, hashes[0]); err == nil {
		t.Error("a checkpoint that was let go can be restored")
	}
	b.restore(t, hashes[3])
	same(t, "restored", readAll(t, b.work), map[string]string{"a": "3"})
}

func TestPruneSize(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for i := range 5 {
		var noise strings.Builder
		for j := range 20000 {
			fmt.Fprintf(&noise, "%x", (j+1)*(i+7)*2654435761)
		}
		b.write(t, map[string]string{"a": noise.String()})
		b.take(t)
	}
	n := b.prune(t, checkpoint.PruneOptions{MaxTotal: 1})
	all, err := b.List(t.Context(), b.work)
	if err != nil || len(all) != 1 || n.BytesFreed == 0 {
		t.Errorf("got %d checkpoints, %+v, %v, want the last alone", len(all), n, err)
	}
	b.sound(t)
}

func TestPruneLedger(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.write(t, map[string]string{"a": "1"})
	b.take(t)
	path := strings.Replace(b.projectFile(t), "projects", "ledgers", 1)
	all := map[string]any{}
	for i := range 2100 {
		all[fmt.Sprint(i)] = map[string]any{"sha256": "x", "ts": i}
	}
	data, err := json.Marshal(all)
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	b.prune(t, checkpoint.PruneOptions{})
	got := map[string]any{}
	if data, err = os.ReadFile(path); err == nil {
		err = json.Unmarshal(data, &got)
	}
	if _, oldest := got["99"]; err != nil || len(got) != 2000 || oldest || got["100"] == nil {
		t.Errorf("got %d entries, %v, want the newest 2000", len(got), err)
	}
}

func TestPruneWithoutStore(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if n := b.prune(t, checkpoint.PruneOptions{DeleteOrphans: true}); n != (checkpoint.Counts{}) {
		t.Errorf("got %+v, want nothing", n)
	}
	if _, err := os.Lstat(b.dir); err == nil {
		t.Error("a directory was made")
	}
}
