// SPDX-License-Identifier: MIT

package appliance

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/appliance/childenv"
	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/appliance/secret"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// estate is a launch home with two profiles, an administrator's scope and an environment that
// somebody exported, each with values of its own. planted maps a value to its owner.
type estate struct {
	launch  home.Home
	environ []string
	planted map[string]string
	given   secret.Credentials
	log     bytes.Buffer
}

func (e *estate) canary(owner, origin string) string {
	v := fmt.Sprintf("canary-%s-%s-4f9c2ab7", owner, origin)
	e.planted[v] = owner
	return v
}

// files are those of one home: a key that all profiles have, one that only it has, a token
// of the terminal's bridge, a vault's and a bootstrap token.
func (e *estate) files(owner, dir string) map[string]string {
	vault := fmt.Sprintf("printf 'VAULT_KEY=%s\\nOPENROUTER_API_KEY=%s\\n'", e.canary(owner, "vault"), e.canary(owner, "vaultshared"))
	return map[string]string{
		dir + "config.yaml": "_config_version: 50\nterminal:\n  ssh_user: " + e.canary(owner, "bridge") +
			"\n  env_passthrough: [PASS_KEY]\nsecrets:\n  command:\n    enabled: true\n    command: \"" + strings.ReplaceAll(vault, `\`, `\\`) + "\"\n",
		dir + ".env": "OPENAI_API_KEY=" + e.canary(owner, "shared") + "\n" + strings.ToUpper(owner) + "_TOKEN=" + e.canary(owner, "own") +
			"\nPASS_KEY=" + e.canary(owner, "pass") + "\nTELEGRAM_BOT_TOKEN=" + e.canary(owner, "adapter") + "\nFREE_TEXT=" + e.canary(owner, "text") + "\n",
		dir + ".op.env": "OP_SERVICE_ACCOUNT_TOKEN=" + e.canary(owner, "op") + "\n",
	}
}

func newEstate(t *testing.T, multiplex bool) *estate {
	t.Helper()
	dir := t.TempDir()
	e := &estate{planted: map[string]string{}, given: secret.Credentials{}}
	for owner, id := range map[string]string{"launch": "", "alice": "alice", "bob": "bob"} {
		e.given[id] = map[string]secret.Text{
			"GIVEN_NOTE": secret.Wrap(e.canary(owner, "given")), "GROQ_API_KEY": secret.Wrap(e.canary(owner, "giventier")),
			strings.ToUpper(owner) + "_GIVEN": secret.Wrap(e.canary(owner, "givenown")),
		}
	}
	files := map[string]string{}
	for owner, prefix := range map[string]string{"launch": "home/", "alice": "home/profiles/alice/", "bob": "home/profiles/bob/"} {
		maps.Copy(files, e.files(owner, prefix))
	}
	if multiplex {
		files["home/config.yaml"] += "gateway:\n  multiplex_profiles: true\n"
	}
	files["admin/.env"] = "MANAGED_NOTE=" + e.canary("admin", "managed") + "\n"
	testkit.WriteTree(t, dir, files)
	e.environ = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "HERMES_MANAGED_DIR=" + filepath.Join(dir, "admin"),
		"ANTHROPIC_API_KEY=" + e.canary("launch", "export"),
		"BOB_TOKEN=" + "canary-bob-own-4f9c2ab7", // an outer process had loaded Bob's .env
		"OPENROUTER_API_KEY=" + e.canary("launch", "export2"),
	}
	getenv := func(string) string { return "" }
	launch, err := home.Locate(filepath.Join(dir, "home"), getenv)
	if err != nil {
		t.Fatal(err)
	}
	e.launch = launch
	return e
}

// leaks lists whose values a text holds, in plain, base64 or hexadecimal form.
func (e *estate) leaks(text string) []string {
	var out []string
	for v, owner := range e.planted {
		for _, form := range []string{v, base64.StdEncoding.EncodeToString([]byte(v)), hex.EncodeToString([]byte(v))} {
			if strings.Contains(text, form) {
				out = append(out, owner+" "+v)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// TestNoProfileSeesAnother builds, from real files and a real vault command, the environment
// of every kind of child for every profile, starts a child with it and looks at what that
// child and its own child really hold.
func TestNoProfileSeesAnother(t *testing.T) {
	t.Parallel()
	testkit.Need(t, "posix", runtime.GOOS != "windows", "the vault command of this test needs a POSIX shell")
	for _, multiplex := range []bool{false, true} {
		t.Run(fmt.Sprintf("multiplex %v", multiplex), func(t *testing.T) {
			t.Parallel()
			e := newEstate(t, multiplex)
			env, err := NewEnvironments(Options{
				Launch: e.launch, Environ: e.environ, Log: slog.New(slog.NewTextHandler(&e.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
				Credentials: e.given,
			})
			if err != nil {
				t.Fatal(err)
			}
			saw := map[string]bool{}
			for _, owner := range []string{"alice", "bob", "launch"} {
				target := e.launch
				if owner != "launch" {
					if target, err = e.launch.NamedProfile(owner); err != nil {
						t.Fatal(err)
					}
				}
				e.children(t, env, target, owner, saw)
			}
			for _, want := range []string{"canary-alice-pass", "canary-bob-pass", "canary-launch-pass", "canary-alice-given", "canary-bob-given", "canary-launch-given"} {
				if !saw[want] {
					t.Errorf("no child got %s: the test would see no leak either", want)
				}
			}
			if got := e.leaks(e.log.String()); got != nil {
				t.Errorf("the log holds %v", got)
			}
		})
	}
}

// children starts a child of every kind for one profile.
func (e *estate) children(t *testing.T, env *Environments, target home.Home, owner string, saw map[string]bool) {
	t.Helper()
	s, err := env.Snapshot(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	kinds, _ := env.Policy().Kinds()
	for _, kind := range kinds {
		vars, err := env.Policy().Build(kind, s)
		if err != nil {
			t.Logf("%s for %s is refused: %v", kind, owner, err)
			continue
		}
		child := exec.CommandContext(t.Context(), "/bin/sh", "-c", `tr '\0' '\n' </proc/self/environ; sh -c 'tr "\0" "\n" </proc/self/environ'`)
		if runtime.GOOS != "linux" {
			child = exec.CommandContext(t.Context(), "/usr/bin/env")
		}
		child.Env, child.Dir = vars, target.Dir
		out, err := child.Output()
		if err != nil {
			t.Fatalf("%s for %s: %v", kind, owner, err)
		}
		for _, leak := range e.leaks(string(out)) {
			who, value, _ := strings.Cut(leak, " ")
			saw[strings.TrimSuffix(value, "-4f9c2ab7")] = true
			// L11: a child of the launch profile keeps what the process was started with.
			handed := owner == "launch" && slices.ContainsFunc(e.environ, func(kv string) bool { return strings.HasSuffix(kv, "="+value) })
			if who != owner && who != "admin" && !handed {
				t.Errorf("%s for %s holds %s's %s", kind, owner, who, value)
			}
			if strings.Contains(value, "-op-") {
				t.Errorf("%s for %s holds a bootstrap token", kind, owner)
			}
		}
	}
}

func TestSnapshotOfABrokenNeighbour(t *testing.T) {
	t.Parallel()
	e := newEstate(t, true)
	bob, err := e.launch.NamedProfile("bob")
	if err != nil {
		t.Fatal(err)
	}
	alice, err := e.launch.NamedProfile("alice")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(bob.Env()); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(bob.Env(), 0o700); err != nil { // unreadable for everybody, root too
		t.Fatal(err)
	}
	env, err := NewEnvironments(Options{Launch: e.launch, Environ: e.environ, Log: slog.New(slog.NewTextHandler(&e.log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "windows" {
		if _, err := env.Snapshot(t.Context(), alice); err != nil {
			t.Errorf("Bob's trouble stops Alice: %v", err)
		}
	}
	if !strings.Contains(e.log.String(), "bob") {
		t.Errorf("nothing in the log names Bob: %s", e.log.String())
	}
	s, err := env.Snapshot(t.Context(), bob)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"terminal", "execute-code"} { // P8
		var refused *childenv.Refusal
		if _, err := env.Policy().Build(kind, s); !errors.As(err, &refused) {
			t.Errorf("%s for Bob: got %v, want a refusal", kind, err)
		}
	}
	if vars, err := env.Policy().Build("mcp", s); err != nil || e.leaks(strings.Join(vars, "\n")) != nil {
		t.Errorf("mcp for Bob: %v, %v", err, e.leaks(strings.Join(vars, "\n")))
	}
}

func TestUnreadableConfig(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"not a section": "_config_version: 50\nterminal: docker\n",
		"not YAML":      "_config_version: 50\nterminal: {\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEstate(t, true)
			bob, err := e.launch.NamedProfile("bob")
			if err != nil {
				t.Fatal(err)
			}
			testkit.WriteTree(t, bob.Dir, map[string]string{"config.yaml": text})
			env, err := NewEnvironments(Options{Launch: e.launch, Environ: e.environ})
			if err != nil {
				t.Fatal(err)
			}
			s, err := env.Snapshot(t.Context(), bob)
			if err == nil {
				_, err = env.Policy().Build("terminal", s)
			}
			if err == nil || !strings.Contains(err.Error(), bob.Config()) {
				t.Errorf("got %v, want a refusal that names %s", err, bob.Config())
			}
			if leaks := e.leaks(fmt.Sprint(err)); leaks != nil {
				t.Errorf("the error holds %v", leaks)
			}
		})
	}
}
