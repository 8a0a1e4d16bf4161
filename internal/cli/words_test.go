// SPDX-License-Identifier: MIT

package cli

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// TestStatusJSON: the document says what the process says.
func TestStatusJSON(t *testing.T) {
	t.Parallel()
	env := map[string]string{"HERMES_HOME": t.TempDir(), "TERMUX_VERSION": "1"} // no manager is asked
	code, stdout, stderr := run(t, env, "status", "--json")
	var out, failed envelope
	if err := errors.Join(json.Unmarshal([]byte(stdout), &out), json.Unmarshal([]byte(stderr), &failed)); err != nil {
		t.Fatalf("%v\n%s%s", err, stdout, stderr)
	}
	if code != exitcode.Error || out.Exit != 1 || failed.Exit != 1 || failed.Error == nil || failed.Error.Message != "no gateway runs" {
		t.Errorf("exit %d\n%s%s", code, stdout, stderr)
	}
	if code, stdout, stderr = run(t, env, "status"); code != exitcode.Error || stderr != "" || !strings.Contains(stdout, "no gateway runs") {
		t.Errorf("exit %d\n%s%s", code, stdout, stderr)
	}
}

func TestLogsJSON(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	env := map[string]string{"HERMES_HOME": dir, "TERMUX_VERSION": "1"}
	code, stdout, stderr := run(t, env, "logs", "--json")
	if code != exitcode.Error || stdout != "" || !strings.Contains(stderr, "no log yet") || !json.Valid([]byte(stderr)) {
		t.Errorf("none: exit %d\n%s%s", code, stdout, stderr)
	}
	testkit.WriteTree(t, dir, map[string]string{"logs/gateway.log": "one\ntwo\nthree"})
	code, stdout, stderr = run(t, env, "logs", "--json", "-n", "2")
	var out struct{ Result logsDoc }
	if err := json.Unmarshal([]byte(stdout), &out); err != nil || code != exitcode.OK || stderr != "" {
		t.Fatalf("exit %d, %v\n%s%s", code, err, stdout, stderr)
	}
	if !slices.Equal(out.Result.Lines, []string{"two", "three"}) {
		t.Errorf("%q", out.Result.Lines)
	}
}
