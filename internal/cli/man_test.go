// SPDX-License-Identifier: MIT

package cli

import (
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// TestCommandsDocumented holds docs/commands.md to what --help prints.
func TestCommandsDocumented(t *testing.T) {
	t.Parallel()
	_, stdout, _ := run(t, nil, "man", "--markdown")
	testkit.Golden(t, filepath.Join("..", "..", "docs", "commands.md"), []byte(stdout))
}

// TestKeysDocumented holds docs/config-keys.md to the keys that the program knows.
func TestKeysDocumented(t *testing.T) {
	t.Parallel()
	_, stdout, _ := run(t, nil, "config", "keys", "--markdown")
	testkit.Golden(t, filepath.Join("..", "..", "docs", "config-keys.md"), []byte(stdout))
}

// TestManPage lets a strict reader of manual pages judge it.
func TestManPage(t *testing.T) {
	t.Parallel()
	_, page, _ := run(t, nil, "man")
	for _, args := range commands(newRoot(&state{}), nil) {
		if want := manText(strings.Join(args, " ")); !strings.Contains(page, `.SS "`+want) && len(args) > 0 {
			t.Errorf("the page lacks %q", want)
		}
	}
	mandoc, err := exec.LookPath("mandoc")
	testkit.Need(t, "mandoc", err == nil, "no mandoc")
	lint := func(text string) string {
		cmd := exec.CommandContext(t.Context(), mandoc, "-T", "lint", "-W", "warning")
		cmd.Env, cmd.Stdin = []string{"LC_ALL=C"}, strings.NewReader(text)
		out, _ := cmd.CombinedOutput()
		return string(out)
	}
	var got []string
	for line := range strings.Lines(lint(page)) {
		// The page has no date, on purpose: the same binary makes the same page.
		if !strings.Contains(line, "missing date") {
			got = append(got, line)
		}
	}
	if got != nil {
		t.Errorf("mandoc: %s", strings.Join(got, ""))
	}
	if lint(page+".NOSUCH\n") == lint(page) {
		t.Error("mandoc finds nothing in a broken page")
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), mandoc, "-T", "utf8")
	cmd.Env, cmd.Stdin = []string{"LC_ALL=C.UTF-8"}, strings.NewReader(page)
	text, err := cmd.Output()
	if err != nil || !bytes.Contains(text, []byte("hermes-appliance config set terminal.backend docker")) {
		t.Errorf("%v: an example is not as it is typed", err)
	}
}
