// SPDX-License-Identifier: MIT

package machine

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// ProgramEnv names the static program to put into machines; without it one is built.
const ProgramEnv = "HERMES_TEST_PROGRAM"

// Program returns the path of the program as it is released: static, without the race detector.
func Program(t testing.TB) string {
	t.Helper()
	if path := os.Getenv(ProgramEnv); path != "" {
		return path
	}
	path := filepath.Join(t.TempDir(), "hermes-appliance")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-o", path, "github.com/hermes-appliance/hermes-appliance/cmd/hermes-appliance")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}
