// SPDX-License-Identifier: MIT

package nix

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// box is the container of the module on a real engine, under a name of this test.
type box struct {
	t            *testing.T
	host, name   string
	state, store string
}

func newBox(t *testing.T) *box {
	t.Helper()
	needNix(t)
	host := testkit.Docker(t)
	_, err := os.Stat("/usr/bin/docker")
	if err != nil {
		_, err = exec.LookPath("docker")
	}
	testkit.Need(t, "docker", err == nil, "no docker command")
	var id [6]byte
	rand.Read(id[:])
	b := &box{t: t, host: host, name: "hermes-nix-" + hex.EncodeToString(id[:]), state: t.TempDir(), store: t.TempDir()}
	t.Cleanup(func() {
		cmd := exec.Command("docker", "rm", "--force", b.name)
		cmd.Env = b.env()
		cmd.Run()
	})
	return b
}

func (b *box) env() []string {
	return []string{"DOCKER_HOST=" + b.host, "PATH=" + os.Getenv("PATH"), "HOME=" + b.store}
}

// ensure runs the script that the unit runs before each start.
func (b *box) ensure(cfg string) error {
	b.t.Helper()
	docker, err := exec.LookPath("docker")
	if err != nil {
		b.t.Fatal(err)
	}
	var path string
	evaluate(b.t, b.store, fmt.Sprintf("(import ./tests { }).containerScript %q (%s)", b.state, cfg), &path)
	script, err := os.ReadFile(path)
	if err != nil {
		b.t.Fatal(err)
	}
	text := strings.NewReplacer("/usr/bin/docker", docker, "hermes-gateway", b.name, b.state+"/.program/bin/hermes-appliance", b.state+"/.program/bin/hermes-appliance").Replace(string(script))
	cmd := exec.CommandContext(b.t.Context(), "bash", "-c", text)
	cmd.Env = b.env()
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

func (b *box) docker(args ...string) string {
	b.t.Helper()
	cmd := exec.CommandContext(b.t.Context(), "docker", args...)
	var errs bytes.Buffer
	cmd.Env, cmd.Stderr = b.env(), &errs
	out, err := cmd.Output()
	if err != nil {
		b.t.Fatalf("docker %v: %v %s", args, err, errs.String())
	}
	return strings.TrimSpace(string(out))
}

func (b *box) id() string { b.t.Helper(); return b.docker("inspect", "--format", "{{.Id}}", b.name) }

// TestContainerStays: the container is made anew when its image, volumes or options change and for
// nothing else, and where an image cannot be had the old one stays (report 22).
func TestContainerStays(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	image := fmt.Sprintf("image = %q;", testkit.DockerImage)
	must := func(cfg string) string {
		t.Helper()
		if err := b.ensure("{ " + cfg + " }"); err != nil {
			t.Fatal(err)
		}
		return b.id()
	}
	first := must(image)
	if again := must(image); again != first {
		t.Error("a second start made a new container")
	}
	if err := b.ensure(`{ image = "localhost:1/no/such:image"; }`); err == nil || b.id() != first {
		t.Errorf("an image that is not there: %v, and the old container is gone", err)
	}
	second := must(image + ` extraOptions = [ "--env" "A=b c" ];`)
	if second == first {
		t.Error("other options made no new container")
	}
	env := b.docker("inspect", "--format", "{{json .Config.Env}} {{json .Config.Cmd}} {{.Config.User}} {{json .HostConfig.Binds}}", b.name)
	for _, want := range []string{`"A=b c"`, `"HERMES_HOME=` + b.state + `/.hermes"`, `"` + b.state + `/.program/bin/hermes-appliance","gateway","run"`, "0:0", "/nix/store:/nix/store:ro", b.state + ":" + b.state} {
		if !strings.Contains(env, want) {
			t.Errorf("the container lacks %s: %s", want, env)
		}
	}
	if strings.Contains(env, "HERMES_MANAGED") {
		t.Errorf("HERMES_MANAGED is set: %s", env)
	}
}

// TestReport4ContainerRunsOurself: H#23184. In the container the program is started by a path of its
// own, and every subcommand is there (report 5, H#33712).
func TestReport4ContainerRunsOurself(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	dir, err := built()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "bin", "hermes-appliance"))
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(b.state, ".program", "bin")
	if err := os.MkdirAll(bin, 0o750); err != nil {
		t.Fatal(err)
	}
	testkit.WriteFile(t, filepath.Join(bin, "hermes-appliance"), data, 0o750)
	testkit.WriteTree(t, b.state, map[string]string{".hermes/config.yaml": "_config_version: 3\n"})
	if err := b.ensure(fmt.Sprintf("{ image = %q; }", testkit.DockerImage)); err != nil {
		t.Fatal(err)
	}
	// The home is too old on purpose: the gateway says so and exits 78, which the unit sees.
	cmd := exec.CommandContext(t.Context(), "docker", "start", "--attach", b.name)
	cmd.Env = b.env()
	out, err := cmd.CombinedOutput()
	exit, ok := err.(*exec.ExitError) //nolint:errorlint // straight from Run
	if !ok || exit.ExitCode() != 78 || !strings.Contains(string(out), "_config_version") {
		t.Errorf("got %v, want exit 78\n%s", err, out)
	}
}
