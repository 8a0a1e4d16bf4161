// SPDX-License-Identifier: MIT

package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

var errInjected = errors.New("injected")

// put writes a file as somebody else would.
func put(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func wantFile(t testing.TB, path, want string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(data)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// wantNames checks what a directory holds, so that nothing staged is left.
func wantNames(t testing.TB, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", dir, diff)
	}
}

func TestWrite(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("0123456789abcdef", chunk/4)
	for _, row := range []struct{ name, old, new string }{
		{"new file", "", "text"},
		{"replace", "old", "new"},
		{"shorter", long, "x"},
		{"longer", "x", long},
		{"to nothing", "old", ""},
		{"one chunk exactly", "old", long[:chunk]},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, "f")
			if row.old != "" {
				put(t, path, row.old)
			}
			if err := (Writer{}).Write(path, []byte(row.new), Options{}); err != nil {
				t.Fatal(err)
			}
			wantFile(t, path, row.new)
			wantNames(t, dir, "f")
		})
	}
}

// TestWriteKeepsReaders: someone who has the file open goes on reading the old content.
func TestWriteKeepsReaders(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "f")
	put(t, path, "old")
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := (Writer{}).Write(path, []byte("new!"), Options{}); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 10)
	if n, _ := f.Read(buf); string(buf[:n]) != "old" {
		t.Errorf("got %q through the old descriptor", buf[:n])
	}
}

func TestWriteRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	testkit.WriteTree(t, dir, map[string]string{"sub/": "", "file": "text"})
	for link, to := range map[string]string{"dangling": "nothing", "todir": "sub"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]error{
		"sub": ErrNotRegular, "todir": ErrNotRegular, "dangling": fs.ErrNotExist, "no/dir": fs.ErrNotExist,
	} {
		if err := (Writer{}).Write(filepath.Join(dir, path), []byte("x"), Options{}); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", path, err, want)
		}
	}
	wantNames(t, dir, "dangling", "file", "sub", "todir")
}

// TestStageLeavesForeignTemp: a staged file of that name belongs to somebody else, who may be
// about to rename it.
func TestStageLeavesForeignTemp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	put(t, path, "old")
	put(t, filepath.Join(dir, ".f.new"), "theirs")
	if err := (Writer{}).Write(path, []byte("new"), Options{Temp: ".f.new"}); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("got %v, want fs.ErrExist", err)
	}
	wantFile(t, path, "old")
	wantFile(t, filepath.Join(dir, ".f.new"), "theirs")
}

// TestDiscardAfterCommit: the name may be somebody else's by then.
func TestDiscardAfterCommit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	s, err := Writer{}.Stage(path, []byte("new"), Options{Temp: ".f.new"})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, ".f.new"), "theirs")
	if err := s.Discard(); err != nil {
		t.Fatal(err)
	}
	wantFile(t, filepath.Join(dir, ".f.new"), "theirs")
	wantFile(t, path, "new")
}

func TestStageDiscard(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	put(t, path, "old")
	s, err := Writer{}.Stage(path, []byte("new"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	wantFile(t, path, "old")
	wantFile(t, s.Temp, "new")
	if filepath.Dir(s.Temp) != filepath.Dir(s.Target) {
		t.Errorf("staged in %s, target in %s", s.Temp, s.Target)
	}
	for range 2 {
		if err := s.Discard(); err != nil {
			t.Fatal(err)
		}
	}
	wantNames(t, dir, "f")
	wantFile(t, path, "old")
}

// ops counts the steps of a write and fails one of them.
type ops struct {
	mu   sync.Mutex
	n    int
	fail int // 1-based, 0 = none
	seen []Op
	at   Op // the one that failed
}

func (o *ops) before(op Op, _ string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.n++
	o.seen = append(o.seen, op)
	if o.n == o.fail {
		o.at = op
		return fmt.Errorf("step %d: %w", o.n, errInjected)
	}
	return nil
}

// TestWriteFailsAtEveryStep: whatever fails, the file is the old one and nothing staged is
// left. Only the flush of the directory comes after the new content is in place.
func TestWriteFailsAtEveryStep(t *testing.T) {
	t.Parallel()
	old, now := strings.Repeat("old\n", chunk), strings.Repeat("new\n", chunk+10)
	count := &ops{}
	path := filepath.Join(t.TempDir(), "f")
	put(t, path, old)
	if err := (Writer{Before: count.before}).Write(path, []byte(now), Options{}); err != nil {
		t.Fatal(err)
	}
	want := []Op{OpCreate, OpOwner, OpAttrs}
	want = append(want, slices.Repeat([]Op{OpWrite}, 5)...)
	want = append(want, OpMode, OpSync, OpRename, OpSyncDir)
	if diff := cmp.Diff(want, count.seen); diff != "" {
		t.Fatalf("steps (-want +got):\n%s", diff)
	}
	for k := 1; k <= count.n; k++ {
		dir := t.TempDir()
		path := filepath.Join(dir, "f")
		put(t, path, old)
		o := &ops{fail: k}
		if err := (Writer{Before: o.before}).Write(path, []byte(now), Options{}); !errors.Is(err, errInjected) {
			t.Errorf("step %d: got %v", k, err)
		}
		if o.at == OpSyncDir {
			wantFile(t, path, now)
		} else {
			wantFile(t, path, old)
		}
		wantNames(t, dir, "f")
	}
}

// TestNewFileFailsAtEveryStep: no half-made file appears under the name.
func TestNewFileFailsAtEveryStep(t *testing.T) {
	t.Parallel()
	count := &ops{}
	if err := (Writer{Before: count.before}).Write(filepath.Join(t.TempDir(), "f"), []byte("text"), Options{}); err != nil {
		t.Fatal(err)
	}
	if count.n < 7 {
		t.Fatalf("only %d steps", count.n)
	}
	for k := 1; k <= count.n; k++ {
		dir := t.TempDir()
		o := &ops{fail: k}
		if err := (Writer{Before: o.before}).Write(filepath.Join(dir, "f"), []byte("text"), Options{}); !errors.Is(err, errInjected) {
			t.Errorf("step %d: got %v", k, err)
		}
		if o.at == OpSyncDir {
			wantNames(t, dir, "f")
		} else {
			wantNames(t, dir)
		}
	}
}

// TestConcurrentWriters: every writer's file is whole at every moment, and the last one stays.
func TestConcurrentWriters(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	const writers, rounds = 6, 10
	text := func(i int) string { return strings.Repeat(string(rune('a'+i)), 2*chunk+i) }
	put(t, path, text(0))
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			for range rounds {
				if err := (Writer{}).Write(path, []byte(text(i)), Options{}); err != nil {
					t.Errorf("writer %d: %v", i, err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	for reads := 0; ; reads++ {
		data, _, err := Read(path)
		if err != nil {
			t.Fatal(err)
		}
		if len(data) < 2*chunk || string(data) != text(int(data[0]-'a')) {
			t.Fatalf("torn file of %d bytes", len(data))
		}
		select {
		case <-done:
			wantNames(t, dir, "f")
			if reads == 0 {
				t.Error("nothing was read meanwhile")
			}
			return
		default:
		}
	}
}
