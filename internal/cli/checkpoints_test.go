// SPDX-License-Identifier: MIT

package cli

import (
	"bytes"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/checkpoint"
	"github.com/hermes-appliance/hermes-appliance/appliance/process"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// TestCheckpointRestoreAsks: y restores, and everything else, also half an answer, does not.
func TestCheckpointRestoreAsks(t *testing.T) {
	t.Parallel()
	_, err := exec.LookPath("git")
	testkit.Need(t, "git", err == nil, "checkpoints are kept by git")
	for answer, want := range map[string]bool{"y\n": true, "YES\n": true, "n\n": false, "\n": false, "y": false, "": false, "yes please\n": false} {
		root := t.TempDir()
		dir, h := filepath.Join(root, "project"), filepath.Join(root, "home")
		testkit.WriteTree(t, root, map[string]string{"project/a": "old", "home/config.yaml": "_config_version: 50\n"})
		log := slog.New(slog.DiscardHandler)
		s := checkpoint.New(checkpoint.Options{
			Dir: filepath.Join(h, "checkpoints"), Env: []string{"PATH=" + os.Getenv("PATH")}, Processes: process.New(log), Now: time.Now, Log: log,
		})
		c, err := s.Take(t.Context(), dir, "\x1b[2Jbefore")
		if err != nil {
			t.Fatal(err)
		}
		testkit.WriteTree(t, dir, map[string]string{"a": "new"})
		var out, errs bytes.Buffer
		vars := map[string]string{"PATH": os.Getenv("PATH"), "HERMES_MANAGED_DIR": filepath.Join(root, "no-admin")}
		env := Env{Stdin: strings.NewReader(answer), Stdout: &out, Stderr: &errs, Getenv: func(n string) string { return vars[n] }, Now: time.Now}
		code := Main(t.Context(), []string{"checkpoints", "restore", c.Hash[:6], "--home", h, "--dir", dir}, env)
		if restored := testkit.ReadTree(t, dir)["a"] == "old"; restored != want || (code == exitcode.OK) != want || !strings.Contains(errs.String(), "? The present is kept") {
			t.Errorf("%q: restored %v, exit %d: %s%s", answer, restored, code, &out, &errs)
		}
		out.Reset()
		if code := Main(t.Context(), []string{"checkpoints", "list", "--home", h, "--dir", dir}, env); code != exitcode.OK || strings.Contains(out.String(), "\x1b") {
			t.Errorf("%q: a list that steers the terminal: %d %q", answer, code, &out)
		}
	}
}
