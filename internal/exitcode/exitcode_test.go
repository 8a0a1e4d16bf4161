// SPDX-License-Identifier: MIT

package exitcode

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

type coded struct{ code Code }

func (c coded) Error() string  { return "coded" }
func (c coded) ExitCode() Code { return c.code }

func TestOf(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		err  error
		want Code
	}{
		"nil":             {nil, OK},
		"plain":           {errors.New("x"), Error},
		"coded":           {coded{Managed}, Managed},
		"wrapped":         {fmt.Errorf("x: %w", coded{Locked}), Locked},
		"joined, first":   {errors.Join(errors.New("x"), coded{Newer}, coded{Locked}), Newer},
		"zero code is ok": {coded{OK}, OK},
	}
	for name, tt := range tests {
		if got := Of(tt.err); got != tt.want {
			t.Errorf("%s: got %d, want %d", name, got, tt.want)
		}
	}
}

// TestTable pins the numbers: scripts and service managers depend on them.
func TestTable(t *testing.T) {
	t.Parallel()
	want := map[Code]string{
		0: "ok", 1: "error", 2: "usage", 3: "pending", 4: "newer", 5: "managed", 6: "below-floor", 7: "locked", 8: "unparseable",
		75: "restart", 78: "config", 130: "interrupted",
	}
	seen := map[string]bool{}
	for _, c := range All() {
		if want[c] != c.String() || seen[c.String()] || c.Meaning() == "" {
			t.Errorf("%d is %q (%q), want %q", c, c, c.Meaning(), want[c])
		}
		seen[c.String()] = true
	}
	if len(All()) != len(want) {
		t.Errorf("%d codes, want %d", len(All()), len(want))
	}
	if got := Code(99).String(); got != "exit-99" {
		t.Errorf("an unknown code is %q", got)
	}
	if b := Block(OK, Locked); !strings.HasPrefix(b, "EXIT STATUS\n    0  done") || strings.Count(b, "\n") != 3 {
		t.Errorf("block: %q", b)
	}
}
