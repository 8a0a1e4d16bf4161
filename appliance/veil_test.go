// SPDX-License-Identifier: MIT

package appliance

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/redact"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// TestVeiledLog: each record of the one log is without the secrets of its own profile, wherever
// in it they stand, and as it was but for them; a change of the config counts at once.
func TestVeiledLog(t *testing.T) {
	t.Parallel()
	const a, b, later = "words of the launch profile", "words of bob's own", "words that came later"
	e, launch, _ := world(t, map[string]string{
		"home/config.yaml":              "gateway: {multiplex_profiles: true}\nmodel: {api_key: " + a + "}\n",
		"home/profiles/bob/config.yaml": "platforms: {webhook: {secret: \"" + b + "\"}}\n",
	})
	var out strings.Builder
	rt := NewRuntime(t.Context(), RuntimeOptions{Environments: e, Log: slog.New(slog.NewTextHandler(&out, nil)), Now: time.Now})
	t.Cleanup(func() { rt.Close(context.WithoutCancel(t.Context())) })
	bind := func(id string) *Tenant {
		t.Helper()
		tenant, err := rt.Tenant(id)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := tenant.bind(t.Context()); err != nil {
			t.Fatal(err)
		}
		return tenant
	}
	bob := bind("bob")
	bind("")
	all := a + ", " + b
	say := func(l *slog.Logger, attrs ...any) func() {
		return func() { l.Log(t.Context(), slog.LevelInfo, all, attrs...) } //nolint:sloglint // what a message holds is the point
	}
	for name, c := range map[string]struct {
		say  func()
		gone string
	}{
		"no profile":      {say(rt.log), a},
		"id":              {func() { rt.log.Info("x", "text", all, "profile", "bob") }, b},
		"home key":        {func() { rt.log.Info("x", "profile", bob.Key(), "error", errors.New(all)) }, b},
		"launch":          {func() { rt.log.Info("x", "profile", "default", "list", []string{all}) }, a},
		"with":            {func() { bob.log().With("command", all).Info("x") }, b},
		"group":           {func() { bob.log().Info("x", slog.Group("g", "y", slog.GroupValue(slog.String("z", all)))) }, b},
		"message":         {say(bob.log().WithGroup("g")), b},
		"unknown profile": {say(rt.log, "profile", "eve"), ""},
	} {
		out.Reset()
		c.say()
		for _, s := range []string{a, b} {
			if got := strings.Contains(out.String(), s); got == (s == c.gone) {
				t.Errorf("%s: %q in the log: %t\n%s", name, s, got, &out)
			}
		}
	}
	out.Reset()
	testkit.WriteTree(t, launch.Dir, map[string]string{"profiles/bob/config.yaml": "platforms: {webhook: {secret: \"" + later + "\"}}\n"})
	bind("bob").log().Info(later)
	if strings.Contains(out.String(), later) {
		t.Errorf("after a reload: %s", &out)
	}
	// The name of a profile that is gone can be another home's before the last of it is.
	gone := &Tenant{rt: rt, home: bob.home, key: "the home that had the name before"}
	rt.veils.by.Store(string(gone.key), (*redact.Redactor)(nil))
	rt.veils.drop(gone)
	out.Reset()
	bob.log().Info(later)
	if strings.Contains(out.String(), later) {
		t.Errorf("after the end of another: %s", &out)
	}
}
