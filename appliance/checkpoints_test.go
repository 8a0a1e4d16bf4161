// SPDX-License-Identifier: MIT

package appliance

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
	"github.com/hermes-appliance/hermes-appliance/appliance/model"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// keeping is a turn of a profile with the given config, in a directory with one file.
func keeping(t *testing.T, config string) (*work, string) {
	t.Helper()
	needShell(t)
	_, err := exec.LookPath("git")
	testkit.Need(t, "git", err == nil, "checkpoints are kept by git")
	dir := t.TempDir()
	testkit.WriteTree(t, dir, map[string]string{"a": "1"})
	e, launch, log := world(t, map[string]string{"home/config.yaml": "terminal:\n  cwd: " + dir + "\n" + config})
	rt := NewRuntime(t.Context(), RuntimeOptions{Environments: e, Log: slog.New(slog.NewTextHandler(log, nil)), Now: time.Now})
	t.Cleanup(func() {
		if err := rt.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(log)
		}
	})
	tenant := newTenant(rt, launch, e.host.LaunchKey())
	_, b, err := tenant.bind(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return &work{t: tenant, b: b, turn: &gateway.Turn{}, session: "s"}, dir
}

// taken are the reasons of a directory's checkpoints.
func taken(t *testing.T, w *work, dir string) string {
	t.Helper()
	store, err := w.t.checkpoints(t.Context(), w.b, checkpointSettings{})
	if err != nil {
		t.Fatal(err)
	}
	all, err := store.List(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, c := range all {
		out = append(out, c.Reason)
	}
	return strings.Join(out, ", ")
}

func TestCheckpointBeforeAChange(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, config, calls, want string }{
		{"off unless said", "", "write_file", ""},
		{"off", "checkpoints:\n  enabled: false\n", "write_file", ""},
		{"on", "checkpoints:\n  enabled: true\n", "write_file", "before write_file"},
		{"once a turn", "checkpoints:\n  enabled: true\n", "patch terminal write_file", "before patch"},
		{"not for reading", "checkpoints:\n  enabled: true\n", "read_file search_files", ""},
		{"the first that may change", "checkpoints:\n  enabled: true\n", "read_file terminal", "before terminal"},
		{"settings that make no sense", "checkpoints:\n  enabled: perhaps\n", "write_file", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, dir := keeping(t, tt.config)
			for i, name := range strings.Fields(tt.calls) {
				w.keep(t.Context(), name)
				testkit.WriteTree(t, dir, map[string]string{"a": strings.Repeat("x", i+2)})
			}
			if got := taken(t, w, dir); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestNoCheckpointElsewhere: where commands run in a sandbox, this machine's directory of the
// same name is nobody's business.
func TestNoCheckpointElsewhere(t *testing.T) {
	t.Parallel()
	w, dir := keeping(t, "  backend: docker\ncheckpoints:\n  enabled: true\n")
	w.keep(t.Context(), "write_file")
	if got := taken(t, w, dir); got != "" {
		t.Errorf("got %q, want none", got)
	}
}

// TestCheckpointThroughTheToolbox: the checkpoint has what was there before the tool ran, and a
// store that cannot be written stops no tool.
func TestCheckpointThroughTheToolbox(t *testing.T) {
	t.Parallel()
	for _, broken := range []bool{false, true} {
		w, dir := keeping(t, "checkpoints:\n  enabled: true\n")
		if broken {
			testkit.WriteTree(t, w.t.home.Dir, map[string]string{"checkpoints": "a file in the way"})
		}
		set, err := w.tools(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		args, err := json.Marshal(map[string]string{"path": filepath.Join(dir, "a"), "content": "agent"})
		if err != nil {
			t.Fatal(err)
		}
		out := (&toolbox{set, w}).Call(t.Context(), model.Call{ID: "1", Name: "write_file"}, args)
		if data, err := os.ReadFile(filepath.Join(dir, "a")); out.Failed || err != nil || !strings.HasPrefix(string(data), "agent") {
			t.Fatalf("broken=%v: the tool said %q, the file has %q, %v", broken, out.Text, data, err)
		}
		if broken {
			continue
		}
		store, err := w.t.checkpoints(t.Context(), w.b, checkpointSettings{})
		if err != nil {
			t.Fatal(err)
		}
		all, err := store.List(t.Context(), dir)
		if err != nil || len(all) != 1 {
			t.Fatalf("got %v, %v, want one checkpoint", all, err)
		}
		if _, err := store.Restore(t.Context(), dir, all[0].Hash); err != nil {
			t.Fatal(err)
		}
		if data, err := os.ReadFile(filepath.Join(dir, "a")); err != nil || string(data) != "1" {
			t.Errorf("restored: got %q, %v, want what was there before", data, err)
		}
	}
}

// TestCheckpointsTidiedOnceADay: pruned at start, and not again within the day.
func TestCheckpointsTidiedOnceADay(t *testing.T) {
	t.Parallel()
	w, dir := keeping(t, "checkpoints:\n  enabled: true\n")
	w.keep(t.Context(), "write_file")
	mark := filepath.Join(w.t.home.Dir, "checkpoints", ".last_prune")
	w.t.rt.tidyCheckpoints()
	w.t.rt.chores.Wait()
	first, err := os.Stat(mark)
	if err != nil {
		t.Fatal(err)
	}
	w.t.rt.tidyCheckpoints()
	w.t.rt.chores.Wait()
	if again, err := os.Stat(mark); err != nil || !os.SameFile(first, again) {
		t.Errorf("it was pruned again within the day (%v)", err)
	}
	if got := taken(t, w, dir); got != "before write_file" {
		t.Errorf("got %q, want the checkpoint kept", got)
	}
}
