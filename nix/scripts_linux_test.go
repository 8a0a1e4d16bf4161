// SPDX-License-Identifier: MIT

package nix

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// builtIn is where the program is built; [TestMain] makes and removes it.
var builtIn string

// built returns the directory of the program, built once for all tests.
var built = sync.OnceValues(func() (string, error) {
	cmd := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(builtIn, "bin", "hermes-appliance"), "../cmd/hermes-appliance")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return builtIn, nil
})

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "hermes-nix-")
	if err != nil {
		panic(err)
	}
	builtIn = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// place is a state directory with the scripts that a configuration makes for it.
type place struct {
	t       *testing.T
	state   string
	secrets string
	program string
	scripts map[string]string
}

func newPlace(t *testing.T) *place {
	t.Helper()
	needNix(t)
	program, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return &place{t: t, state: t.TempDir(), secrets: t.TempDir(), program: program}
}

// declare evaluates a configuration, as text in the language of Nix.
func (p *place) declare(cfg string) {
	p.t.Helper()
	expression := fmt.Sprintf("(import ./tests { program = %q; }).scripts %q (%s)", p.program, p.state, cfg)
	p.scripts = nil
	evaluate(p.t, filepath.Join(p.secrets, ".nix"), expression, &p.scripts)
}

// prepare runs a script as systemd would, with credentials.
func (p *place) prepare(name string) (string, error) {
	p.t.Helper()
	script := p.scripts[name]
	if script == "" {
		p.t.Fatalf("no script %s in %v", name, p.scripts)
	}
	cmd := exec.CommandContext(p.t.Context(), "bash", script)
	cmd.Env = []string{"CREDENTIALS_DIRECTORY=" + p.secrets, "HOME=" + p.state}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

func (p *place) mustPrepare(name string) {
	p.t.Helper()
	if out, err := p.prepare(name); err != nil {
		p.t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

func (p *place) read(path string) string {
	data, err := os.ReadFile(filepath.Join(p.state, path))
	if err != nil {
		return "-"
	}
	return string(data)
}

func (p *place) want(path, content string) {
	p.t.Helper()
	if got := p.read(path); got != content {
		p.t.Errorf("%s says\n%s\nwant\n%s", path, got, content)
	}
}

const main = "hermes-gateway-prepare"

// TestPrepareOldHome: a home of version 46 is migrated by steps of 47 and 48 before the declared
// settings are laid over it, and a second start writes nothing.
func TestPrepareOldHome(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	testkit.WriteTree(t, p.state, map[string]string{
		".hermes/config.yaml": "# mine\n_config_version: 46\nterminal:\n  docker_image: nikolaik/python-nodejs:python3.14-nodejs22\n  timeout: 77  # kept\ncompression:\n  threshold_tokens: 256000\n",
		".hermes/.env":        "HAND=made\nTERMINAL_VERCEL_RUNTIME=node24\n",
	})
	testkit.WriteTree(t, p.secrets, map[string]string{"env-0": "TOKEN=one\n", "auth": `{"a":1}`})
	cfg := `{ settings.model.default = "m"; mcpServers.files = { command = "/bin/files"; args = [ "-v" ]; }; environment.A = "it's"; environmentFiles = [ "/run/a" ];
		authFile = "/run/auth"; hermesHomeFiles."memories/USER.md" = "a\nb"; documents."notes/x.md" = "doc"; workingDirectory = "` + p.state + `/w"; }`
	p.declare(cfg)
	p.mustPrepare(main)
	config := "# mine\n_config_version: 50\nterminal:\n  timeout: 77  # kept\n  cwd: " + p.state + "/w\ncompression: {}\nmcp_servers:\n  files:\n    args: [\"-v\"]\n    command: /bin/files\n    enabled: true\nmodel:\n  default: m\n"
	p.want(".hermes/config.yaml", config)
	env := "# Assembled by hermes-appliance for nixos; what is written here by hand is lost.\nA=\"it's\"\nTOKEN=one\n"
	p.want(".hermes/.env", env)
	p.want(".hermes/.env.unmanaged", "HAND=made\n") // migrated first: what the ladder removes is not kept
	p.want(".hermes/.managed", "nixos\n")
	p.want(".hermes/auth.json", `{"a":1}`)
	p.want(".hermes/memories/USER.md", "a\nb")
	p.want("w/notes/x.md", "doc")
	for path, mode := range map[string]os.FileMode{".hermes/auth.json": 0o600, ".hermes/memories/USER.md": 0o640} {
		if info, err := os.Stat(filepath.Join(p.state, path)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v %v, want %v", path, info.Mode(), err, mode)
		}
	}

	before := stamps(t, p.state)
	p.mustPrepare(main)
	for path, stamp := range stamps(t, p.state) {
		if before[path] != stamp && !strings.Contains(path, "/.appliance/") {
			t.Errorf("the second start touched %s", path)
		}
	}

	// A secret that is gone: the gateway must not start, and the old .env stays.
	if err := os.Remove(filepath.Join(p.secrets, "env-0")); err != nil {
		t.Fatal(err)
	}
	if out, err := p.prepare(main); err == nil || !strings.Contains(out, "env-0") {
		t.Errorf("without a secret: %v %s", err, out)
	}
	p.want(".hermes/.env", env)
	// auth.json is the agent's once it is there.
	testkit.WriteTree(t, p.secrets, map[string]string{"env-0": "TOKEN=two\n", "auth": `{"a":2}`})
	p.mustPrepare(main)
	p.want(".hermes/auth.json", `{"a":1}`)
	p.want(".hermes/.env", strings.Replace(env, "one", "two", 1))
	p.declare(strings.Replace(cfg, "authFile =", "authFileForceOverwrite = true; authFile =", 1))
	p.mustPrepare(main)
	p.want(".hermes/auth.json", `{"a":2}`)
}

// stamps are the inode and the time of change of everything below a directory.
func stamps(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			st := info.Sys().(*syscall.Stat_t) // without the time of the last look
			out[path] = fmt.Sprint(st.Ino, st.Ctim, st.Size)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestPrepareFreshHome: the stamp comes with the first config, as B's report 20 (wimpysworld's
// nix-config #1013) asks, and no generation has to bump it by hand.
func TestPrepareFreshHome(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.declare(`{ settings = { a = 1; _config_version = 3; }; }`)
	p.mustPrepare(main)
	p.want(".hermes/config.yaml", "_config_version: 50\na: 1\nterminal:\n  cwd: "+p.state+"/workspace\n")
	p.want(".hermes/.managed", "nixos\n")
	if !strings.HasPrefix(p.read(".hermes/.env"), "# Assembled") {
		t.Errorf(".env says %q", p.read(".hermes/.env"))
	}
	// The next generation and the one before: an edit of the agent's own stays through both.
	if err := os.WriteFile(filepath.Join(p.state, ".hermes", "config.yaml"), []byte(p.read(".hermes/config.yaml")+"mine: 1 # by the agent\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{"2", "1"} {
		p.declare(`{ settings.a = ` + value + `; }`)
		p.mustPrepare(main)
		p.want(".hermes/config.yaml", "_config_version: 50\na: "+value+"\nterminal:\n  cwd: "+p.state+"/workspace\nmine: 1 # by the agent\n")
	}
}

// TestPrepareDeclaredLegacy: a copied default that is declared comes back, and the migration says where
// it belongs instead of fighting.
func TestPrepareDeclaredLegacy(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	testkit.WriteTree(t, p.state, map[string]string{".hermes/config.yaml": "_config_version: 46\ncompression:\n  threshold_tokens: 256000\n"})
	p.declare(`{ settings.compression.threshold_tokens = 256000; }`)
	out, err := p.prepare(main)
	if err != nil || !strings.Contains(out, "change settings.compression.threshold_tokens in the configuration of nixos") {
		t.Errorf("%v\n%s", err, out)
	}
	if !strings.Contains(p.read(".hermes/config.yaml"), "threshold_tokens: 256000") {
		t.Errorf("the declared value is gone:\n%s", p.read(".hermes/config.yaml"))
	}
}

// TestPrepareRefuses: what cannot be prepared fails before the gateway starts, and nothing is lost.
func TestPrepareRefuses(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		files map[string]string
		code  exitcode.Code
	}{
		"too old":         {map[string]string{".hermes/config.yaml": "_config_version: 3\n"}, exitcode.BelowFloor},
		"newer":           {map[string]string{".hermes/config.yaml": "_config_version: 99\n"}, exitcode.Newer},
		"broken":          {map[string]string{".hermes/config.yaml": "a: [\n"}, exitcode.Unparseable},
		"somebody else's": {map[string]string{".hermes/config.yaml": "_config_version: 50\n", ".hermes/.managed": "home-manager"}, exitcode.Managed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			testkit.WriteTree(t, p.state, row.files)
			p.declare(`{ settings.a = 1; }`)
			_, err := p.prepare(main)
			exit, ok := err.(*exec.ExitError) //nolint:errorlint // straight from Run
			if !ok || exitcode.Code(exit.ExitCode()) != row.code {
				t.Errorf("got %v, want exit %d", err, row.code)
			}
			for path, content := range row.files {
				p.want(path, content)
			}
		})
	}
}

// TestPrepareConfigFile: a declared file is put in place when it has changed, migrated, and then left alone.
func TestPrepareConfigFile(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	file := filepath.Join(p.secrets, "mine.yaml")
	declare := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		p.declare(`{ configFile = ` + file + `; }`)
		p.mustPrepare(main)
	}
	declare("# file\n_config_version: 46\ncompression: {threshold_tokens: 256000, x: 1}\n")
	p.want(".hermes/config.yaml", "# file\n_config_version: 50\ncompression: {x: 1}\n")
	if err := os.WriteFile(filepath.Join(p.state, ".hermes/config.yaml"), []byte("_config_version: 50\nb: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.mustPrepare(main)
	p.want(".hermes/config.yaml", "_config_version: 50\nb: 1\n")
	declare("_config_version: 50\nc: 1\n")
	p.want(".hermes/config.yaml", "_config_version: 50\nc: 1\n")
}

// TestPrepareProfile: a profile is a home of its own, below the first.
func TestPrepareProfile(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.declare(`{ settings.a = 1; profiles.work = { settings.b = 2; environment.K = "v"; }; }`)
	p.mustPrepare(main)
	p.mustPrepare("hermes-gateway-work-prepare")
	p.want(".hermes/profiles/work/config.yaml", "_config_version: 50\nb: 2\nterminal:\n  cwd: "+p.state+"/workspace\n")
	if env := p.read(".hermes/profiles/work/.env"); !strings.HasSuffix(env, "K=v\n") || strings.Contains(p.read(".hermes/.env"), "K=v") {
		t.Errorf(".env of the profile: %s", env)
	}
	p.want(".hermes/profiles/work/.managed", "nixos\n")
	var doc struct {
		Result struct{ Profiles []struct{ Name string } }
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(p.program, "bin", "hermes-appliance"), "profile", "list", "--home", filepath.Join(p.state, ".hermes"), "--json")
	cmd.Env = []string{"HOME=" + p.state}
	out, err := cmd.Output()
	if err != nil || json.Unmarshal(out, &doc) != nil || !strings.Contains(string(out), `"work"`) {
		t.Errorf("profile list: %v\n%s", err, out)
	}
}

// TestServiceArguments: the program's parser takes every argument of the units, and complains of
// one more alone.
func TestServiceArguments(t *testing.T) {
	t.Parallel()
	needNix(t)
	dir, err := built()
	if err != nil {
		t.Fatal(err)
	}
	u := loadUnits(t, "import ./tests/stub/lib.nix")
	for name, args := range map[string][]string{"launchd": u.Agent.ProgramArguments[1:3], "systemd": {"gateway", "run", "--profile", "x"}, "macOS": {"gateway", "run", "--external-supervisor"}} {
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "bin", "hermes-appliance"), append(args, "--sentinel")...)
		cmd.Env = []string{"HOME=" + t.TempDir()}
		out, err := cmd.CombinedOutput()
		exit, ok := err.(*exec.ExitError) //nolint:errorlint // straight from Run
		if !ok || exit.ExitCode() != int(exitcode.Usage) || !strings.Contains(string(out), "unknown flag: --sentinel") {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}
