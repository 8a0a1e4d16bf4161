// SPDX-License-Identifier: MIT

package sandbox

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/client"
)

// TestReport92571OnlyWhatIsListed: of the host a container has its own two directories and what
// the settings list, nothing that nobody named; and not even those two where it keeps nothing.
func TestReport92571OnlyWhatIsListed(t *testing.T) {
	t.Parallel()
	e, s := dial(t, Options{}), wanted(t)
	for _, dir := range []string{"skills", "cache", "logs"} {
		if err := os.Mkdir(filepath.Join(s.Home, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	volume := t.TempDir()
	s.Volumes = []string{volume + ":/mnt:ro"}
	kept := s
	kept.Task, kept.Data = "kept", filepath.Join(s.Home, "sandboxes", "docker", "kept")
	for _, row := range []struct {
		spec Spec
		want []string
	}{
		{s, []string{volume + " /mnt"}},
		{kept, []string{volume + " /mnt", kept.Data + "/home /root", kept.Data + "/workspace /workspace"}},
	} {
		var got []string
		for _, m := range inspectRaw(t, ensure(t, e, row.spec)).Mounts {
			got = append(got, m.Source+" "+m.Destination)
		}
		if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(row.want))) {
			t.Errorf("mounted: %v, want %v", got, row.want)
		}
	}
}

// TestReport884SecondResume (e2b#884): what a container holds outlives more than one stop.
func TestReport884SecondResume(t *testing.T) {
	t.Parallel()
	e, s := dial(t, Options{}), wanted(t)
	c := ensure(t, e, s)
	id := c.ID()
	for n := range 3 {
		run(t, c, "touch /usr/made-"+string(rune('a'+n))+` && test "$(ls /usr/made-* | wc -l)" = `+string(rune('1'+n)))
		if _, err := e.api.ContainerStop(t.Context(), c.id, client.ContainerStopOptions{Timeout: new(0)}); err != nil {
			t.Fatal(err)
		}
		var st State
		if c, st = ensureState(t, e, s); c.ID() != id || st.Outcome != Started {
			t.Errorf("stop %d: got %+v", n, st)
		}
	}
	run(t, c, `test "$(ls /usr/made-* | wc -l)" = 3`)
}

// TestReport135RecordedID (devcontainers/cli#135): a command runs in the container that Ensure
// returned, also when another one has its name meanwhile.
func TestReport135RecordedID(t *testing.T) {
	t.Parallel()
	e, s := dial(t, Options{}), wanted(t)
	c := ensure(t, e, s)
	other := s
	other.Task = "other"
	twin := ensure(t, e, other)
	for _, to := range []struct{ id, name string }{{c.id, c.Name() + "-aside"}, {twin.id, c.Name()}} {
		if _, err := e.api.ContainerRename(t.Context(), to.id, client.ContainerRenameOptions{NewName: to.name}); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.TrimSpace(run(t, c, "hostname")); !strings.HasPrefix(c.ID(), got) {
		t.Errorf("it ran in %s, not in %s", got, c.ID())
	}
}

// TestReport11188BoundedStart (OpenHands#11188): an engine that never says that the container
// has started holds nobody longer than they wait, what it was doing is named, and nothing
// half made is left.
func TestReport11188BoundedStart(t *testing.T) {
	t.Parallel()
	f, host := proxy(t)
	e, s := dial(t, Options{Host: host}), wanted(t)
	ctx, cancel := context.WithCancel(t.Context())
	f.set(func(_ http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/start") {
			return false
		}
		cancel() // whoever waits has waited long enough
		<-r.Context().Done()
		return true
	})
	_, _, err := e.Ensure(ctx, s)
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "start") {
		t.Errorf("got %v", err)
	}
	f.set(nil)
	if n := count(t, e, s); n != 0 {
		t.Errorf("%d containers are left", n)
	}
	ensure(t, e, s)
}
