// SPDX-License-Identifier: MIT

package checkpoint_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hermes-appliance/hermes-appliance/appliance/checkpoint"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// TestPruneOrphansOnVolumes: a project on a volume that is away is no orphan, whatever shows in
// its place; one that is deleted from a volume that is there is.
func TestPruneOrphansOnVolumes(t *testing.T) {
	t.Parallel()
	testkit.NeedRoot(t)
	mount := func(t *testing.T, from, at, kind string, flags uintptr) {
		t.Helper()
		if err := unix.Mount(from, at, kind, flags, ""); err != nil {
			testkit.Need(t, "mount", false, "mounting is not allowed here: "+err.Error())
		}
		t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
	}
	unmount := func(t *testing.T, at string) {
		t.Helper()
		if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name   string
		bind   bool
		change func(t *testing.T, b *bench, volume string)
		orphan int
	}{
		{"tmpfs away", false, func(t *testing.T, _ *bench, v string) { unmount(t, v) }, 0},
		{"tmpfs away, underlay with .keep", false, func(t *testing.T, _ *bench, v string) {
			unmount(t, v)
			testkit.WriteTree(t, v, map[string]string{".keep": ""})
		}, 0},
		{"tmpfs there, deleted, nothing else on it", false, func(t *testing.T, b *bench, _ string) { remove(t, b.work, "") }, 1},
		{"tmpfs there, deleted, with neighbours", false, func(t *testing.T, b *bench, v string) {
			remove(t, b.work, "")
			testkit.WriteTree(t, v, map[string]string{"n": ""})
		}, 1},
		{"bind mount away", true, func(t *testing.T, _ *bench, v string) { unmount(t, v) }, 0},
		{"bind mount away, underlay with .keep", true, func(t *testing.T, _ *bench, v string) {
			unmount(t, v)
			testkit.WriteTree(t, v, map[string]string{".keep": ""})
		}, 0},
		{"bind mount there, deleted, nothing else on it", true, func(t *testing.T, b *bench, _ string) { remove(t, b.work, "") }, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			volume := filepath.Dir(b.work)
			if tt.bind {
				from := filepath.Join(t.TempDir(), "from")
				if err := os.Mkdir(from, 0o755); err != nil {
					t.Fatal(err)
				}
				mount(t, from, volume, "", unix.MS_BIND)
			} else {
				mount(t, "tmpfs", volume, "tmpfs", 0)
			}
			b.write(t, map[string]string{"work-file": "1"})
			b.take(t)
			tt.change(t, b, volume)
			if n := b.prune(t, checkpoint.PruneOptions{DeleteOrphans: true}); n.DeletedOrphan != tt.orphan || n.Errors != 0 {
				t.Errorf("got %+v, want %d orphans", n, tt.orphan)
			}
		})
	}
}
