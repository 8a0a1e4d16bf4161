// SPDX-License-Identifier: MIT

package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// TestUpstreamsManifest: a migration that upstream made, also an old one with one service a
// profile, is taken back without any record of ours.
func TestUpstreamsManifest(t *testing.T) {
	t.Parallel()
	for name, services := range map[string]string{
		"now": `"service": {"kind": "systemd", "system": false}, "services": [{"kind": "systemd", "system": false}]`,
		"old": `"service": {"kind": "systemd", "system": false}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, map[string]seed{"default": {user: true}, "work": {}, "fun": {}})
			if err := w.Turn(t.Context(), true); err != nil {
				t.Fatal(err)
			}
			w.put(manifestPath(w.root()), fmt.Sprintf(`{"version": 1, "migrated_at": "2026-09-01T10:00:00+0200", "flag_was": false, "future": [1],
 "default": {"profile": "default", "home": %q, "pid": 12, %s, "run_as_user": null, "uid": 0, "runtime_home": null},
 "secondaries": [{"profile": "work", "home": %q, "pid": 13, %s},
  {"profile": "gone", "home": "/nowhere", "pid": 14, %s}]}`, w.root().Dir, services, w.home("work").Dir, services, services))
			p, _, err := w.apply(t.Context(), standalone)
			if err != nil || p.Action != Restore || len(p.Notices) != 1 || p.Notices[0].Kind != "gone" {
				t.Fatalf("%+v, %v", p, err)
			}
			if on, _ := w.On(); on || w.unitsOf("work") != 1 || w.unitsOf("gone") != 0 {
				t.Errorf("flag %v, units of work %d", on, w.unitsOf("work"))
			}
			if _, live, _ := w.Process(w.home("work")); !live {
				t.Error("work has no gateway")
			}
			if _, err := os.Stat(manifestPath(w.root())); err == nil {
				t.Error("the manifest stays")
			}
		})
	}
}

// TestManifestFormat holds the manifest to upstream's keys, in their order, nulls included.
func TestManifestFormat(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fleets()["default detached"])
	if _, _, err := w.apply(t.Context(), multiplex); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(manifestPath(w.root()))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(data), w.dir, "DIR")
	for _, name := range []string{"default", "work", "fun"} {
		var d struct {
			Default     profileDoc   `json:"default"`
			Secondaries []profileDoc `json:"secondaries"`
		}
		if err := json.Unmarshal(data, &d); err != nil {
			t.Fatal(err)
		}
		for _, p := range append(d.Secondaries, d.Default) {
			if p.Profile == name {
				text = strings.Replace(text, fmt.Sprintf(`"pid": %d`, *p.PID), `"pid": PID`, 1)
			}
		}
	}
	testkit.Golden(t, "testdata/manifest.json", []byte(text))
}

// TestMalformedManifest: what cannot be followed is refused before anything is touched, both ways.
func TestMalformedManifest(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"torn":           `{"version": 1, "secon`,
		"empty":          ``,
		"list":           `[]`,
		"no version":     `{"secondaries": []}`,
		"version 2":      `{"version": 2, "secondaries": []}`,
		"no list":        `{"version": 1, "secondaries": {"work": 1}}`,
		"no name":        `{"version": 1, "secondaries": [{"home": "/x"}]}`,
		"no home":        `{"version": 1, "secondaries": [{"profile": "work"}]}`,
		"relative home":  `{"version": 1, "secondaries": [{"profile": "work", "home": "x"}]}`,
		"path as a name": `{"version": 1, "secondaries": [{"profile": "../x", "home": "/x"}]}`,
		"default twice":  `{"version": 1, "secondaries": [{"profile": "default", "home": "/x"}]}`,
		"one twice":      `{"version": 1, "secondaries": [{"profile": "work", "home": "/x"}, {"profile": "work", "home": "/x"}]}`,
		"service":        `{"version": 1, "secondaries": [{"profile": "work", "home": "/x", "services": [{"system": true}]}]}`,
		"foreign home":   `{"version": 1, "secondaries": [{"profile": "work", "home": "/x", "services": []}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, fleets()["user units"])
			w.put(manifestPath(w.root()), text)
			before := testkit.ReadTree(t, w.dir)
			for way, plan := range map[string]func(Observed) Plan{"multiplex": multiplex, "standalone": standalone} {
				p, _, err := w.apply(t.Context(), plan)
				blocked, ok := errors.AsType[*BlockedError](err)
				if !ok || name != "foreign home" && blocked.Blockers[0].Kind != "manifest" {
					t.Errorf("%s: %+v, %v", way, p, err)
				}
			}
			if diff := cmp.Diff(before, testkit.ReadTree(t, w.dir)); diff != "" {
				t.Errorf("touched:\n%s", diff)
			}
		})
	}
}
