// SPDX-License-Identifier: MIT

package appliance

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/appliance/approval"
	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/appliance/process"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

var _ approval.Store = Allowlists{}

// world is a launch home with profiles made of the given files.
func world(t *testing.T, files map[string]string, environ ...string) (*Environments, home.Home, *syncLog) {
	t.Helper()
	dir := t.TempDir()
	testkit.WriteTree(t, dir, files)
	launch, err := home.Locate(filepath.Join(dir, "home"), func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	log := &syncLog{}
	environ = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "HERMES_MANAGED_DIR=" + filepath.Join(dir, "admin")}, environ...)
	e, err := NewEnvironments(Options{Launch: launch, Environ: environ, Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	return e, launch, log
}

func named(t *testing.T, launch home.Home, id string) home.Home {
	t.Helper()
	h, err := launch.NamedProfile(id)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// child is the environment of a child of a profile, as a map.
func child(t *testing.T, e *Environments, h home.Home, kind string) map[string]string {
	t.Helper()
	s, err := e.Snapshot(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	vars, err := e.Policy().Build(kind, s)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, kv := range vars {
		name, value, _ := strings.Cut(kv, "=")
		out[name] = value
	}
	return out
}

func needShell(t *testing.T) {
	t.Helper()
	testkit.Need(t, "posix", runtime.GOOS != "windows", "the vault command of this test needs a POSIX shell")
}

// TestVaultCommandFindsItsProgram: a vault's command line is looked up on PATH and gets its
// own profile's token, and nothing of the launch profile.
func TestVaultCommandFindsItsProgram(t *testing.T) {
	t.Parallel()
	needShell(t)
	bin := t.TempDir()
	op := "#!/bin/sh\nenv >" + bin + "/env.$OP_SERVICE_ACCOUNT_TOKEN\necho \"from-$OP_SERVICE_ACCOUNT_TOKEN\"\n"
	testkit.WriteFile(t, filepath.Join(bin, "op"), []byte(op), 0o700)
	vault := "secrets:\n  onepassword:\n    enabled: true\n    env:\n      VAULT_NOTE: op://v/i/f\n"
	e, launch, log := world(t, map[string]string{
		"home/config.yaml": "_config_version: 50\n" + vault, "home/.env": "OP_SERVICE_ACCOUNT_TOKEN=root\nLAUNCH_ONLY=leak-dotenv\n",
		"home/profiles/bob/config.yaml": "_config_version: 50\n" + vault, "home/profiles/bob/.env": "OP_SERVICE_ACCOUNT_TOKEN=bob\n",
	}, "OPENAI_API_KEY=leak-export", "LAUNCH_ONLY=leak-loaded", "PATH="+bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
	if got := child(t, e, named(t, launch, "bob"), "mcp")["VAULT_NOTE"]; got != "from-bob" {
		t.Errorf("got %q from the vault; log: %s", got, log)
	}
	seen, err := os.ReadFile(filepath.Join(bin, "env.bob"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(seen), "leak-") || !strings.Contains(string(seen), "PATH=") {
		t.Errorf("the vault's command of bob got:\n%s", seen)
	}
	if got := child(t, e, launch, "mcp")["VAULT_NOTE"]; got != "from-root" {
		t.Errorf("launch profile: %q", got)
	}
}

// TestPluginDeclaresASource: a manifest's source supplies, and its names vanish with it (N3).
func TestPluginDeclaresASource(t *testing.T) {
	t.Parallel()
	needShell(t)
	e, launch, log := world(t, map[string]string{
		"home/config.yaml":                                "_config_version: 50\n",
		"home/profiles/bob/config.yaml":                   "_config_version: 50\nsecrets:\n  my_vault:\n    enabled: true\n",
		"home/profiles/bob/plugins/vault/plugin.yaml":     "kind: secret-source\nname: my_vault\ncommand: [./fetch]\nprotected_env_vars: [MY_VAULT_TOKEN]\n",
		"home/profiles/bob/plugins/broken/plugin.yaml":    "kind: secret-source\nname: Bad Name\ncommand: fetch\n",
		"home/profiles/alice/config.yaml":                 "_config_version: 50\nsecrets:\n  my_vault:\n    enabled: true\n",
		"home/profiles/bob/.env":                          "MY_VAULT_TOKEN=t-bob\n",
		"home/profiles/bob/plugins/vault/fetch":           "#!/bin/sh\necho \"PLUGIN_NOTE=$MY_VAULT_TOKEN\"\n",
		"home/profiles/bob/plugins/elsewhere/plugin.yaml": "kind: secret-source\nname: up\ncommand: [./../../fetch]\n",
	})
	bob, alice := named(t, launch, "bob"), named(t, launch, "alice")
	if err := os.Chmod(filepath.Join(bob.Dir, "plugins", "vault", "fetch"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got := child(t, e, bob, "mcp")["PLUGIN_NOTE"]; got != "t-bob" {
		t.Errorf("got %q; log: %s", got, log)
	}
	if got, ok := child(t, e, alice, "terminal")["PLUGIN_NOTE"]; ok {
		t.Errorf("alice got %q", got)
	}
	for _, want := range []string{"broken", "elsewhere"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("nothing in the log about the manifest of %s", want)
		}
	}
	if err := os.RemoveAll(filepath.Join(bob.Dir, "plugins", "vault")); err != nil {
		t.Fatal(err)
	}
	if err := e.Discovered(t.Context(), bob); err != nil {
		t.Fatal(err)
	}
	if got, ok := child(t, e, bob, "mcp")["PLUGIN_NOTE"]; ok {
		t.Errorf("a plugin that is gone still supplies %q", got)
	}
}

// TestControlNamesAreRefused is N6: a routed profile's source must not say where credentials go.
func TestControlNamesAreRefused(t *testing.T) {
	t.Parallel()
	needShell(t)
	source := "_config_version: 50\nsecrets:\n  command:\n    enabled: true\n    command: \"printf 'HERMES_PORTAL_BASE_URL=https://evil\\\\nOTHER=x\\\\n'\"\n"
	e, launch, log := world(t, map[string]string{"home/config.yaml": "_config_version: 50\n", "home/profiles/bob/config.yaml": source})
	env := child(t, e, named(t, launch, "bob"), "served")
	if env["HERMES_PORTAL_BASE_URL"] != "" || env["OTHER"] != "" {
		t.Errorf("got %v", env)
	}
	if !strings.Contains(log.String(), "HERMES_PORTAL_BASE_URL") {
		t.Errorf("the log does not name it: %s", log)
	}
}

// TestGrantOfTheLaunchConfig is S1 and R5: what the launch home's config grants is in its own
// scope and in no other.
func TestGrantOfTheLaunchConfig(t *testing.T) {
	t.Parallel()
	e, launch, _ := world(t, map[string]string{
		"home/config.yaml":              "_config_version: 50\nGATEWAY_ALLOW_ALL_USERS: true\nplain_note: launch\n",
		"home/profiles/bob/config.yaml": "_config_version: 50\nbob_note: mine\n",
	}, "plain_note=bridged-by-a-parent")
	for id, want := range map[string]bool{"default": true, "bob": false} {
		scope, err := e.Scope(t.Context(), named(t, launch, id))
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := scope.Lookup("GATEWAY_ALLOW_ALL_USERS"); ok != want {
			t.Errorf("%s: granted %v", id, ok)
		}
	}
	env := child(t, e, named(t, launch, "bob"), "tool")
	if env["bob_note"] != "mine" || env["plain_note"] != "" { // L8, parity with a standalone process
		t.Errorf("bob: bob_note=%q plain_note=%q", env["bob_note"], env["plain_note"])
	}
}

// TestAllowlistsArePerProfile is A1.
func TestAllowlistsArePerProfile(t *testing.T) {
	t.Parallel()
	e, launch, log := world(t, map[string]string{
		"home/config.yaml":                  "_config_version: 50\n# mine\ncommand_allowlist:\n  - ls # listing\n",
		"home/profiles/bob/config.yaml":     "_config_version: 50\n",
		"home/profiles/managed/config.yaml": "_config_version: 50\n",
		"home/profiles/managed/.managed":    "nixos",
		"admin/config.yaml":                 "unrelated: 1\n",
	})
	lists := approval.NewLists(e.Allowlists(), slog.New(slog.NewTextHandler(log, nil)))
	bob := named(t, launch, "bob")
	if err := lists.Add(t.Context(), bob.Dir, []string{"git push *"}); err != nil {
		t.Fatal(err)
	}
	if got := lists.Read(t.Context(), bob.Dir); !slices.Equal(got, []string{"git push *"}) {
		t.Errorf("bob: %v", got)
	}
	if got := lists.Read(t.Context(), launch.Dir); !slices.Equal(got, []string{"ls"}) {
		t.Errorf("launch: %v", got)
	}
	if err := errors.Join(lists.Add(t.Context(), launch.Dir, []string{"id"}), lists.Remove(t.Context(), bob.Dir, []string{"git push *"})); err != nil {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(launch.Config()); string(text) != "_config_version: 50\n# mine\ncommand_allowlist:\n  - ls # listing\n  - id\n" {
		t.Errorf("launch: %s", text)
	}
	if got := lists.Read(t.Context(), bob.Dir); len(got) != 0 {
		t.Errorf("bob after removal: %v", got)
	}
	managed := named(t, launch, "managed")
	if err := lists.Add(t.Context(), managed.Dir, []string{"id"}); err == nil {
		t.Error("a managed home was edited")
	}
	testkit.WriteTree(t, bob.Dir, map[string]string{"config.yaml": "command_allowlist: [\n"})
	if got := lists.Read(t.Context(), bob.Dir); len(got) != 0 { // A3
		t.Errorf("a list that cannot be read grants %v", got)
	}
}

// TestSuppliedNamesAreRemembered is L3 after N3: a name that a source of the launch profile once
// supplied stays out of other profiles' children when the source has gone, for the value that
// was exported with it is still in this process's environment.
func TestSuppliedNamesAreRemembered(t *testing.T) {
	t.Parallel()
	needShell(t)
	source := "secrets:\n  command:\n    enabled: true\n    command: \"printf 'CUSTOM_VAULT_SECRET=vault\\\\n'\"\n"
	e, launch, log := world(t, map[string]string{
		"home/config.yaml": "_config_version: 50\n" + source, "home/profiles/bob/config.yaml": "_config_version: 50\n",
	}, "CUSTOM_VAULT_SECRET=exported", "PLAIN=stays")
	bob := named(t, launch, "bob")
	for _, config := range []string{"", "_config_version: 50\n"} {
		if config != "" {
			testkit.WriteTree(t, launch.Dir, map[string]string{"config.yaml": config})
			if _, err := e.secrets.Refresh(t.Context(), e.tenant(launch)); err != nil {
				t.Fatal(err)
			}
		}
		env := child(t, e, bob, "terminal")
		if got, ok := env["CUSTOM_VAULT_SECRET"]; ok || env["PLAIN"] != "stays" {
			t.Errorf("source there: %t: bob got %q and %q; log: %s", config == "", got, env["PLAIN"], log)
		}
	}
}

// TestLineageIsTheMark: the policy means the variable by which a kill finds a tree.
func TestLineageIsTheMark(t *testing.T) {
	t.Parallel()
	e, launch, _ := world(t, map[string]string{"home/config.yaml": "_config_version: 50\n", "home/profiles/bob/config.yaml": "_config_version: 50\n"}, process.Mark+"=outer")
	for _, h := range []home.Home{launch, named(t, launch, "bob")} {
		for kind, want := range map[string]string{"terminal": "outer", "mcp": "outer", "execute-code": "outer", "host": ""} {
			if got := child(t, e, h, kind)[process.Mark]; got != want {
				t.Errorf("%s of %s: got %q, want %q", kind, h.Profile, got, want)
			}
		}
	}
}
