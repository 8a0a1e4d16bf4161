// SPDX-License-Identifier: MIT

package appliance

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/appliance/childenv"
	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// outcome is what a broken file does to the children of its profile.
type outcome struct {
	secrets  bool // the profile's own .env values reach its children
	terminal bool // its commands run
	mcp      bool // its MCP servers start
	managed  bool // the administrator's values reach it
}

// breakers put something in the place of a file that cannot be read, whoever asks.
func breakers() map[string]func(path string) error {
	b := map[string]func(path string) error{
		"directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"dangling":  func(path string) error { return os.Symlink("nowhere", path) },
		"ELOOP":     func(path string) error { return os.Symlink(filepath.Base(path), path) },
	}
	if runtime.GOOS == "linux" {
		b["EIO"] = func(path string) error { return os.Symlink("/proc/self/mem", path) }
	}
	return b
}

// TestFailureModePerFile is the table of the isolation spec, §8.1 no. 7: what each broken file
// does to its own profile. It never does anything to another one.
func TestFailureModePerFile(t *testing.T) {
	t.Parallel()
	testkit.Need(t, "link", runtime.GOOS != "windows", "the test makes links and unreadable files")
	all := outcome{true, true, true, true}
	for file, want := range map[string]outcome{
		"home/profiles/bob/.env":                               {secrets: false, terminal: false, mcp: true, managed: true},
		"home/profiles/bob/config.yaml":                        {secrets: true, mcp: true, managed: true}, // P8
		"home/profiles/bob/plugins/platforms/chat/plugin.yaml": {},                                        // M4
		"home/profiles/bob/plugins/flat/plugin.yaml":           all,
		"admin/.env":        {secrets: true, terminal: true, mcp: true},
		"admin/config.yaml": all,
	} {
		for how, breakIt := range breakers() {
			t.Run(filepath.Base(filepath.Dir(file))+"/"+filepath.Base(file)+"/"+how, func(t *testing.T) {
				t.Parallel()
				e, launch, log := world(t, map[string]string{
					"home/config.yaml":                "_config_version: 50\ngateway: {multiplex_profiles: true}\n",
					"home/.env":                       "LAUNCH_TOKEN=foreign\n",
					"home/profiles/bob/config.yaml":   "_config_version: 50\n",
					"home/profiles/bob/.env":          "NOTE=bob\n",
					"home/profiles/bob/SOUL.md":       "I am Bob.\n",
					"home/profiles/alice/config.yaml": "_config_version: 50\n",
					"home/profiles/alice/.env":        "NOTE=alice\n",
					"admin/.env":                      "MANAGED_NOTE=admin\n",
					"admin/config.yaml":               "unrelated: 1\n",
				}, "LAUNCH_TOKEN=foreign", "OPENAI_API_KEY=foreign")
				path := filepath.Join(filepath.Dir(launch.Dir), file)
				if err := os.RemoveAll(path); err != nil {
					t.Fatal(err)
				}
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := breakIt(path); err != nil {
					t.Fatal(err)
				}
				want := want
				if strings.HasSuffix(file, "plugin.yaml") && how != "EIO" {
					want = all // not a regular file: no manifest (M8)
				}
				if got := observe(t, e, named(t, launch, "bob")); got != want {
					t.Errorf("bob: got %+v, want %+v; log: %s", got, want, log)
				}
				if strings.HasPrefix(file, "home/") {
					if got := observe(t, e, named(t, launch, "alice")); got != all {
						t.Errorf("alice, whose files are whole: %+v", got)
					}
				}
			})
		}
	}
}

// observe builds children of a profile, none of which may hold anything foreign.
func observe(t *testing.T, e *Environments, h home.Home) (o outcome) {
	t.Helper()
	s, err := e.Snapshot(t.Context(), h)
	if err != nil {
		return outcome{}
	}
	for kind, runs := range map[string]*bool{"terminal": &o.terminal, "mcp": &o.mcp, "tool": new(bool)} {
		vars, err := e.Policy().Build(kind, s)
		var refused *childenv.Refusal
		if err != nil && !errors.As(err, &refused) {
			t.Errorf("%s: %v is no refusal", kind, err)
		}
		*runs = err == nil
		all := strings.Join(vars, "\n")
		if strings.Contains(all, "foreign") {
			t.Errorf("%s of %s holds a foreign value", kind, h.Profile)
		}
		if kind == "tool" {
			o.secrets = strings.Contains(all, "NOTE="+h.Profile)
			o.managed = strings.Contains(all, "MANAGED_NOTE=admin")
		}
	}
	return o
}

// TestHalfWrittenFiles cuts each file at every length: a child gets the values of whole lines
// or is refused, and never anything of another profile.
func TestHalfWrittenFiles(t *testing.T) {
	t.Parallel()
	config := "_config_version: 50\nterminal:\n  backend: docker\n  docker_image: \"mine:1\"\n"
	env := "NOTE=bob\nQUOTED=\"two words\"\nOPENAI_API_KEY=bob-key\n"
	e, launch, _ := world(t, map[string]string{
		"home/config.yaml": "_config_version: 50\n", "home/.env": "LAUNCH_TOKEN=foreign\n",
		"home/profiles/bob/config.yaml": config, "home/profiles/bob/.env": env,
	}, "LAUNCH_TOKEN=foreign", "TERMINAL_ENV=foreign", "TERMINAL_DOCKER_IMAGE=foreign")
	bob := named(t, launch, "bob")
	for n := range len(config) + 1 {
		testkit.WriteTree(t, bob.Dir, map[string]string{"config.yaml": config[:n]})
		observe(t, e, bob)
	}
	testkit.WriteTree(t, bob.Dir, map[string]string{"config.yaml": config})
	for n := range len(env) + 1 {
		testkit.WriteTree(t, bob.Dir, map[string]string{".env": env[:n]})
		if got := observe(t, e, bob); got.secrets != (n >= len("NOTE=bob")) {
			t.Errorf("cut at %d: %+v", n, got)
		}
	}
}

// TestLaunchFilesThatNeverCouldBeRead: nobody can tell what of the environment came from
// them, so no other profile's child starts. Once read, they may become unreadable.
func TestLaunchFilesThatNeverCouldBeRead(t *testing.T) {
	t.Parallel()
	testkit.Need(t, "link", runtime.GOOS != "windows", "the test makes links and unreadable files")
	for _, name := range launchFiles() {
		files := map[string]string{
			"home/config.yaml": "_config_version: 50\n", "home/profiles/bob/config.yaml": "_config_version: 50\n",
			"home/profiles/bob/.env": "NOTE=bob\n", "home/" + name + "/": "",
		}
		e, launch, _ := world(t, files, "MINE=foreign")
		bob := named(t, launch, "bob")
		if _, err := e.Snapshot(t.Context(), bob); err == nil || !strings.Contains(err.Error(), filepath.Join(launch.Dir, name)) {
			t.Errorf("%s: got %v, want a refusal that names it", name, err)
		}
		if err := os.Remove(filepath.Join(launch.Dir, name)); err != nil {
			t.Fatal(err)
		}
		testkit.WriteTree(t, launch.Dir, map[string]string{name: "MINE=foreign\n"})
		if got := observe(t, e, bob); !got.secrets {
			t.Errorf("%s: mended, and still %+v", name, got)
		}
		if err := os.Remove(filepath.Join(launch.Dir, name)); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(filepath.Join(launch.Dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		if got := observe(t, e, bob); !got.secrets {
			t.Errorf("%s: unreadable after it was read: %+v", name, got)
		}
	}
}
