// SPDX-License-Identifier: MIT

package cli

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/appliance/profile"
	"github.com/hermes-appliance/hermes-appliance/appliance/sandbox"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

const sandboxConfig = "_config_version: 50\n# where commands run\nterminal:\n  backend: docker # a sandbox\n  container_persistent: false\n"

// sandboxHome is a home with a container of the image testkit.DockerImage, whose default is
// another image: the choice is open.
func sandboxHome(t *testing.T) (h home.Home, env map[string]string) {
	t.Helper()
	host := testkit.Docker(t)
	dir := t.TempDir()
	testkit.WriteTree(t, dir, map[string]string{"config.yaml": sandboxConfig})
	env = map[string]string{"HERMES_HOME": dir, "HOME": dir, "DOCKER_HOST": host, "HERMES_MANAGED_DIR": dir + "/no-admin"}
	h, err := home.Locate("", func(n string) string { return env[n] })
	if err != nil {
		t.Fatal(err)
	}
	e, err := sandbox.Dial(t.Context(), sandbox.Options{Host: host})
	if err != nil {
		t.Fatal(err)
	}
	c, _, err := e.Ensure(t.Context(), sandbox.Spec{
		Identity: sandbox.Identity{Home: string(profile.KeyOf(dir)), Profile: h.Profile}, Image: testkit.DockerImage, Keep: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := c.Remove(ctx); err != nil {
			t.Error(err)
		}
		if err := e.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return h, env
}

func configOf(t *testing.T, h home.Home) string {
	t.Helper()
	data, err := os.ReadFile(h.Config())
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

const defaultImage = "nousresearch/hermes-sandbox:desktop"

// pinnedTo is the config after an answer: one line more, every other byte as it was.
func pinnedTo(image string) string {
	return sandboxConfig + "  docker_image: '" + image + "'\n"
}

func TestSandboxSwitchAndKeep(t *testing.T) {
	t.Parallel()
	for verb, image := range map[string]string{"switch": defaultImage, "keep": testkit.DockerImage} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			h, env := sandboxHome(t)
			code, out, errs := run(t, env, "sandbox", "status")
			for _, want := range []string{"the default", "running", testkit.DockerImage, "sandbox switch"} {
				if code != exitcode.OK || !strings.Contains(out, want) {
					t.Errorf("status: exit %d, %q lacks %q, %s", code, out, want, errs)
				}
			}
			if code, out, errs = run(t, env, "sandbox", verb); code != exitcode.OK || !strings.Contains(out, image) {
				t.Errorf("exit %d, %q, %q", code, out, errs)
			}
			if got := configOf(t, h); got != pinnedTo(image) {
				t.Errorf("config.yaml is\n%s", got)
			}
			if code, out, _ = run(t, env, "sandbox", verb); code != exitcode.OK || !strings.Contains(out, "nothing to choose") {
				t.Errorf("a second time: exit %d, %q", code, out)
			}
			code, out, _ = run(t, env, "sandbox", "status", "--json")
			if code != exitcode.OK || !strings.Contains(out, `"pin": "config.yaml"`) || strings.Contains(out, `"switch"`) {
				t.Errorf("exit %d, %s", code, out)
			}
			if code, _, errs = run(t, env, "config", "unset", "terminal.docker_image"); code != exitcode.OK {
				t.Fatal(errs)
			}
			if _, out, _ = run(t, env, "sandbox", "status", "--json"); !strings.Contains(out, `"target": "`+defaultImage) {
				t.Errorf("the choice is not open again: %s", out)
			}
		})
	}
}

// TestSandboxManaged: a managed home is told what to do, and stays as it is.
func TestSandboxManaged(t *testing.T) {
	t.Parallel()
	h, env := sandboxHome(t)
	env["HERMES_MANAGED"] = "nixos"
	code, _, errs := run(t, env, "sandbox", "switch")
	if code != exitcode.Managed || !strings.Contains(errs, "services.hermes-agent.settings.terminal.docker_image") || configOf(t, h) != sandboxConfig {
		t.Errorf("exit %d, %q", code, errs)
	}
}

func TestSandboxElsewhere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	testkit.WriteTree(t, dir, map[string]string{"config.yaml": "_config_version: 50\n"})
	env := map[string]string{"HERMES_HOME": dir, "HERMES_MANAGED_DIR": dir + "/no-admin", "DOCKER_HOST": "unix://" + dir + "/none.sock"}
	for _, verb := range []string{"status", "switch", "keep"} {
		if code, out, errs := run(t, env, "sandbox", verb); code != exitcode.OK || !strings.Contains(out, "commands run in local") {
			t.Errorf("%s: exit %d, %q, %q", verb, code, out, errs)
		}
	}
	testkit.WriteTree(t, dir, map[string]string{"config.yaml": sandboxConfig})
	if code, _, errs := run(t, env, "sandbox", "status"); code != exitcode.Error || !strings.Contains(errs, "DOCKER_HOST") {
		t.Errorf("no engine: exit %d, %q", code, errs)
	}
}

func TestAskSwitch(t *testing.T) {
	t.Parallel()
	h, vars := sandboxHome(t)
	ask := func(ctx context.Context, in io.Reader) string {
		t.Helper()
		var out, errs bytes.Buffer
		env := Env{Stdin: in, Stdout: &out, Stderr: &errs, Getenv: func(n string) string { return vars[n] }, Now: time.Now}
		if err := AskSwitch(ctx, env, h); err != nil {
			t.Fatal(err)
		}
		if out.Len() > 0 {
			t.Errorf("it wrote %q among the command's output", out.String())
		}
		return errs.String()
	}
	ended, cancel := context.WithCancel(t.Context())
	for name, in := range map[string]io.Reader{"Enter": strings.NewReader("\n"), "end of input": strings.NewReader(""), "half a line": strings.NewReader("y"), "something else": strings.NewReader("maybe\n")} {
		said := ask(t.Context(), in)
		for _, want := range []string{testkit.DockerImage, defaultImage, "/root and /workspace stay", "npm -g", "virtual environments", "Later"} {
			if !strings.Contains(said, want) {
				t.Errorf("%s: %q lacks %q", name, said, want)
			}
		}
		if configOf(t, h) != sandboxConfig {
			t.Fatalf("%s wrote the config", name)
		}
	}
	r, w := io.Pipe()
	defer w.Close() // the test's
	go func() {
		_, _ = io.WriteString(w, "") // nothing is typed
		cancel()
	}()
	ask(ended, r)
	if configOf(t, h) != sandboxConfig {
		t.Fatal("an interrupt wrote the config")
	}
	broken := map[string]string{"HERMES_HOME": h.Dir, "DOCKER_HOST": "unix:///none.sock"}
	if err := AskSwitch(t.Context(), Env{Stdin: strings.NewReader("y\n"), Stderr: io.Discard, Getenv: func(n string) string { return broken[n] }}, h); err != nil || configOf(t, h) != sandboxConfig {
		t.Errorf("no engine: %v", err)
	}
	ask(t.Context(), strings.NewReader(" Y \n"))
	if got := configOf(t, h); got != pinnedTo(defaultImage) {
		t.Errorf("config.yaml is\n%s", got)
	}
	if said := ask(t.Context(), strings.NewReader("n\n")); said != "" {
		t.Errorf("it asked again: %s", said)
	}
	if err := os.WriteFile(h.Config(), []byte(sandboxConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	ask(t.Context(), strings.NewReader("no\n"))
	if got := configOf(t, h); got != pinnedTo(testkit.DockerImage) {
		t.Errorf("config.yaml is\n%s", got)
	}
}

// TestSandboxBySocket: no docker command is needed.
func TestSandboxBySocket(t *testing.T) {
	t.Parallel()
	_, env := sandboxHome(t)
	bin := filepath.Join(t.TempDir(), "hermes-appliance")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "../../cmd/hermes-appliance")
	build.Env = os.Environ()
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), bin, "sandbox", "status")
	cmd.Env = []string{"PATH=/nonexistent"}
	for k, v := range env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "running") {
		t.Errorf("%v: %s", err, out)
	}
}
