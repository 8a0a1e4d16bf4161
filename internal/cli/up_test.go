// SPDX-License-Identifier: MIT

package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/installer/generation"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
	"github.com/hermes-appliance/hermes-appliance/migrate"
)

func TestMakeHome(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files map[string]string
		made  bool
	}{
		"nothing":            {nil, true},
		"only logs":          {map[string]string{"logs/gateway.log": "x\n"}, true},
		"cut off in between": {map[string]string{".env": envHeader + "API_SERVER_KEY=mine\n"}, true},
		"somebody's secrets": {map[string]string{".env": "OPENAI_API_KEY=x\n"}, false},
		"somebody's files":   {map[string]string{"SOUL.md": "I am.\n"}, false},
		"a home":             {map[string]string{"config.yaml": "a: 1\n"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := home.Home{Dir: filepath.Join(t.TempDir(), "home")}
			testkit.WriteTree(t, h.Dir, c.files)
			made, err := makeHome(h)
			if err != nil || made != c.made {
				t.Fatalf("made %v, %v", made, err)
			}
			for file, want := range c.files {
				if got, err := os.ReadFile(filepath.Join(h.Dir, file)); err != nil || string(got) != want {
					t.Errorf("%s was changed: %q, %v", file, got, err)
				}
			}
			config, err := os.ReadFile(h.Config())
			if made && (err != nil || !bytes.Equal(config, home.Template())) {
				t.Errorf("no config from the template: %v", err)
			}
			if again, err := makeHome(h); again || err != nil {
				t.Errorf("made twice: %v, %v", again, err)
			}
		})
	}
}

func TestTrimLog(t *testing.T) {
	t.Parallel()
	h := home.Home{Dir: t.TempDir()}
	line := strings.Repeat("x", 99) + "\n"
	long := strings.Repeat(line, 2*keepLog/len(line)+10) + "last\n"
	testkit.WriteTree(t, h.Dir, map[string]string{"logs/gateway.log": long})
	if err := trimLog(h, gatewayLog(h)); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(gatewayLog(h))
	if err != nil || len(got) > keepLog || len(got) < keepLog-len(line) || !bytes.HasPrefix(got, []byte(line)) || !bytes.HasSuffix(got, []byte("last\n")) {
		t.Errorf("%d bytes are left, %v", len(got), err)
	}
	if err := trimLog(h, gatewayLog(h)); err != nil {
		t.Fatal(err)
	}
	if again, err := os.ReadFile(gatewayLog(h)); err != nil || !bytes.Equal(again, got) {
		t.Errorf("a short log was cut: %v", err)
	}
}

// TestUpRecords: the home that up makes begins with a generation.
func TestUpRecords(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	env := Env{Stdout: &out, Stderr: &out, Getenv: func(string) string { return "" }, Now: time.Now}
	h, err := home.Locate(filepath.Join(t.TempDir(), "home"), env.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := new(homeOptions).bring(t.Context(), env, h); err != nil {
		t.Fatal(err)
	}
	all, err := newRecorder(env).store(h).List()
	if err != nil || len(all) != 1 || all[0].Reason != generation.Up || all[0].Config.Stamp != migrate.Latest() {
		t.Errorf("%v: %+v, %s", err, all, out.String())
	}
}
