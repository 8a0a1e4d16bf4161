// SPDX-License-Identifier: MIT

package cli

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/installer"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// TestListeners: the addresses that systemd is to hold are those at which the gateway of the home
// would listen.
func TestListeners(t *testing.T) {
	t.Parallel()
	const on = "API_SERVER_ENABLED=true\nAPI_SERVER_KEY=0123456789abcdef\n"
	for name, c := range map[string]struct{ config, env, want, fails string }{
		"no home yet":    {"", "", "[{api_server 127.0.0.1:8642}]", ""},
		"the API":        {"a: 1\n", on, "[{api_server 127.0.0.1:8642}]", ""},
		"another port":   {"a: 1\n", on + "API_SERVER_PORT=9000\n", "[{api_server 127.0.0.1:9000}]", ""},
		"of the config":  {"platforms:\n  api_server:\n    enabled: true\n    extra:\n      port: 9001\n      host: 0.0.0.0\n", "", "[{api_server 0.0.0.0:9001}]", ""},
		"IPv6":           {"a: 1\n", on + "API_SERVER_HOST=::1\n", "[{api_server [::1]:8642}]", ""},
		"localhost":      {"a: 1\n", on + "API_SERVER_HOST=localhost\n", "[{api_server 127.0.0.1:8642}]", ""},
		"webhooks, too":  {"a: 1\n", on + "WEBHOOK_ENABLED=true\n", "[{api_server 127.0.0.1:8642} {webhook 8644}]", ""},
		"webhooks alone": {"platforms:\n  webhook:\n    enabled: true\n    extra:\n      host: 127.0.0.1\n      port: 9002\n", "", "[{webhook 127.0.0.1:9002}]", ""},
		"upstream's":     {"platforms:\n  sms:\n    enabled: true\n", "", "[]", ""},
		"off":            {"a: 1\n", "API_SERVER_ENABLED=false\n", "[]", ""},
		"a name":         {"a: 1\n", on + "API_SERVER_HOST=host.example\n", "", "looks no names up"},
		"any free port":  {"a: 1\n", on + "API_SERVER_PORT=0\n", "", "any free one"},
		"no port":        {"a: 1\n", on + "API_SERVER_PORT=x\n", "", "no port"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := home.Home{Dir: filepath.Join(t.TempDir(), "home"), Profile: home.Default}
			if c.config != "" {
				testkit.WriteTree(t, h.Dir, map[string]string{"config.yaml": c.config, ".env": c.env})
			}
			got, err := listeners(t.Context(), h, "")
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Errorf("got %v, %v", got, err)
				}
				return
			}
			if err != nil || fmt.Sprint(got) != c.want {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}

// TestSocketsAreSystemds: every other manager refuses by its name, and says why; where nobody asks,
// nothing is held.
func TestSocketsAreSystemds(t *testing.T) {
	t.Parallel()
	h := home.Home{Dir: filepath.Join(t.TempDir(), "home"), Profile: home.Default}
	host := installer.Host{Root: t.TempDir(), Getenv: func(string) string { return "" }}
	yes, no := true, false
	for kind, want := range map[installer.Kind]string{
		installer.Launchd: "launchd", installer.Tasks: "Task Scheduler", installer.SCM: "Service Control Manager", installer.OpenRC: "OpenRC", installer.SysV: "SysV",
	} {
		var o serviceOptions
		_, err := o.sockets(t.Context(), host, installer.Target{Kind: kind, Name: "x"}, h, &yes)
		if err == nil || !strings.Contains(err.Error(), want) || exitcode.Of(err) != exitcode.Usage {
			t.Errorf("%s: %v", kind, err)
		}
		for _, say := range []*bool{&no, nil} {
			if got, err := o.sockets(t.Context(), host, installer.Target{Kind: kind, Name: "x"}, h, say); err != nil || got != nil {
				t.Errorf("%s, not asked for: %v, %v", kind, got, err)
			}
		}
	}
	testkit.WriteTree(t, h.Dir, map[string]string{"config.yaml": "a: 1\n"})
	var o serviceOptions
	if _, err := o.sockets(t.Context(), host, installer.Target{Kind: installer.Systemd, Name: "x"}, h, &yes); err == nil || !strings.Contains(err.Error(), "listens nowhere") {
		t.Errorf("nothing listens: %v", err)
	}
}
