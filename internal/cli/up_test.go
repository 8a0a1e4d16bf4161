// SPDX-License-Identifier: MIT

package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
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
