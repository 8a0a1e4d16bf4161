// SPDX-License-Identifier: MIT

package secret

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

type tree = map[string]any

func TestParse(t *testing.T) {
	t.Parallel()
	st, err := Parse(tree{
		"sources": []any{"onepassword", " bitwarden "}, "preserve_existing": "ONE", "profile_alias": "false",
		"bitwarden":   tree{"enabled": true, "project_id": "p", "server_url": "https://eu", "access_token_env": "T", "timeout_seconds": 2.5},
		"onepassword": tree{"enabled": true, "override_existing": false, "account": "a", "env": tree{"A": " op://v/i/f ", "B": "plain s3cr3t", "C-D": "op://v/i/f", "N": 1}},
		"command":     tree{"command": "pass show x", "helper_timeout_seconds": 5},
		"plug":        tree{"enabled": true, "env": tree{"A": "x://y"}},
	}, []Plugin{
		{Name: "plug", Shape: Mapped, Args: []string{"/opt/plug", "fetch"}, Protected: []string{"PLUG_TOKEN"}, Budget: time.Second},
		{Name: "bitwarden", Args: []string{"/opt/evil"}},
		{Name: "off", Shape: Bulk, Args: []string{"/opt/off"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var specs []Spec
	for _, s := range st.Sources {
		specs = append(specs, s.Spec())
	}
	want := []Spec{
		{Name: "bitwarden", Shape: Bulk, Enabled: true, OverrideExisting: true, Protected: []string{"T", EnvBitwarden}, Budget: 2500 * time.Millisecond, Place: "https://eu\x00p"},
		{Name: "onepassword", Shape: Mapped, Enabled: true, Protected: []string{EnvOnePassword, EnvOnePassword}, Refs: map[string]string{"A": "op://v/i/f"}, Place: "op\x00a"},
		{Name: "command", Shape: Bulk, Budget: 5 * time.Second, Place: "pass show x"},
		{Name: "plug", Shape: Mapped, Enabled: true, Protected: []string{"PLUG_TOKEN"}, Budget: time.Second, Refs: map[string]string{"A": "x://y"}, Place: "/opt/plug\x00fetch", Plugin: true},
		{Name: "off", Shape: Bulk, Place: "/opt/off", Plugin: true},
	}
	if diff := cmp.Diff(want, specs); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"onepassword", "bitwarden"}, st.Order); diff != "" {
		t.Error(diff)
	}
	if !st.NoAlias || !cmp.Equal(st.Preserve, []string{"ONE"}) {
		t.Errorf("got %+v", st)
	}
	warned := strings.Join(st.Warnings, "\n")
	for _, name := range []string{`"B"`, `"C-D"`, `"N"`, "called \"bitwarden\""} {
		if !strings.Contains(warned, name) {
			t.Errorf("no warning about %s in:\n%s", name, warned)
		}
	}
	if strings.Contains(warned, "s3cr3t") {
		t.Error("a warning shows what may be a secret")
	}
}

func TestParseNothing(t *testing.T) {
	t.Parallel()
	for _, in := range []tree{nil, {}, {"bitwarden": nil}} {
		st, err := Parse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if m, w := st.enabled(); len(m)+len(w) != 0 || st.NoAlias {
			t.Errorf("%v: got %v, %v", in, m, w)
		}
	}
}

func TestParseErrors(t *testing.T) {
	t.Parallel()
	for want, in := range map[string]tree{
		"secrets.sources: want a list of names":                            {"sources": []any{1}},
		"secrets.preserve_existing: want a list of names":                  {"preserve_existing": tree{}},
		"secrets.profile_alias: want true or false":                        {"profile_alias": "maybe s3cr3t"},
		"secrets.onepassword.enabled: want true or false":                  {"onepassword": tree{"enabled": "yes"}},
		"secrets.bitwarden: want a section":                                {"bitwarden": "s3cr3t"},
		"secrets.bitwarden.project_id: want a text":                        {"bitwarden": tree{"project_id": 12}},
		"secrets.onepassword.env: want a section":                          {"onepassword": tree{"env": []any{}}},
		"secrets.command.helper_timeout_seconds: want a number of seconds": {"command": tree{"helper_timeout_seconds": "3s"}},
	} {
		st, err := Parse(in, nil)
		if err == nil || err.Error() != want || len(st.Sources) != 0 {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
