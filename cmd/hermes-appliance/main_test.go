// SPDX-License-Identifier: MIT

package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"hermes-appliance": main, "mcp-dump": mcpDump, "data-race": dataRace})
}

// TestScript runs the real command on files before and after.
func TestScript(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: testkit.Updating(),
		Setup: func(e *testscript.Env) error {
			// Nothing of the machine's own Hermes may reach a script.
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("HERMES_MANAGED_DIR", e.WorkDir+"/no-admin")
			return nil
		},
		Condition: func(cond string) (bool, error) {
			if cond == "root" {
				return os.Geteuid() == 0, nil
			}
			return false, nil
		},
	})
	if testkit.Updating() {
		t.Error("scripts were rewritten; look at the difference, then run without -update")
	}
}
