// SPDX-License-Identifier: MIT

package migrate

import (
	"fmt"
	"slices"
	"testing"
)

// TestCopiedDefaultsAreRemoved: each value in the list is removed by the step it names, from the
// place it names, and one beside it is not.
func TestCopiedDefaultsAreRemoved(t *testing.T) {
	t.Parallel()
	removed := func(c CopiedDefault, value any) bool {
		in := Input{Config: []byte("_config_version: 46\n"), Env: []byte("A=1\n")}
		if c.File == FileEnv {
			in.Env = fmt.Appendf(nil, "%s=%v\n", c.Path[0], value)
		} else {
			in.Config = fmt.Appendf(in.Config, "%s:\n  %s: %v\n", c.Path[0], c.Path[1], value)
		}
		p, err := Released().Plan(in, Options{})
		if err != nil {
			t.Fatalf("%v: %v", c, err)
		}
		return slices.ContainsFunc(p.Changes, func(x Change) bool {
			return x.Step == c.Step && x.File == c.File && x.Action == Removed && slices.Equal(x.Path, c.Path)
		})
	}
	if len(CopiedDefaults()) != 11 {
		t.Errorf("%d values; steps 47 to 49 remove 11", len(CopiedDefaults()))
	}
	for _, c := range CopiedDefaults() {
		if !removed(c, c.Value) {
			t.Errorf("%v is not removed", c)
		}
		if other := fmt.Sprint(c.Value) + "1"; removed(c, other) {
			t.Errorf("%v is removed with the value %s, too", c, other)
		}
	}
}
