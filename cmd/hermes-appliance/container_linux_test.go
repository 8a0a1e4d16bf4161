// SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// gatewayImageEnv names the gateway's image, as .ci/gateway-image built it of this program.
const gatewayImageEnv = "HERMES_TEST_GATEWAY_IMAGE"

// box is a container of the gateway's image, or what could become one.
type box struct {
	t     testing.TB
	addr  string
	image string
	name  string
}

var boxes atomic.Int64

func newBox(t testing.TB) *box {
	t.Helper()
	addr := testkit.Docker(t)
	image := os.Getenv(gatewayImageEnv)
	testkit.Need(t, "gateway-image", image != "", gatewayImageEnv+" names no image of the gateway")
	return &box{t: t, addr: addr, image: image, name: fmt.Sprintf("hermes-test-gateway-%d-%d", os.Getpid(), boxes.Add(1))}
}

// docker runs the client and returns what it printed, and its exit code.
func (b *box) docker(args ...string) (out string, code int) {
	b.t.Helper()
	cmd := exec.Command("docker", args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.t.TempDir(), "DOCKER_HOST=" + b.addr}
	data, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		b.t.Fatal(err)
	}
	return string(data), cmd.ProcessState.ExitCode()
}

func (b *box) must(args ...string) string {
	b.t.Helper()
	out, code := b.docker(args...)
	if code != 0 {
		b.t.Fatalf("docker %v: exit %d: %s", args, code, out)
	}
	return strings.TrimSpace(out)
}

// start starts a container and returns at once. Options come before the image, command after.
func (b *box) start(options []string, command ...string) {
	b.t.Helper()
	b.clean()
	b.must(slices.Concat([]string{"run", "-d", "--name", b.name}, options, []string{b.image}, command)...)
}

// clean takes the container and its volume away after the test, and shows its log if that failed.
func (b *box) clean() {
	b.t.Cleanup(func() {
		if b.t.Failed() {
			out, _ := b.docker("logs", b.name)
			b.t.Logf("%s:\n%s", b.name, out)
		}
		b.docker("rm", "-f", "-v", b.name)
		b.docker("volume", "rm", b.name) // where a test named one
	})
}

// up starts a container and waits until the gateway in it is well.
func (b *box) up(options []string, command ...string) {
	b.t.Helper()
	b.start(options, command...)
	b.healthy()
}

func (b *box) healthy() {
	b.t.Helper()
	for end := time.Now().Add(deadline); ; {
		out, code := b.docker("exec", b.name, "hermes-appliance", "container", "health")
		if code == 0 {
			return
		}
		if state := b.must("inspect", "-f", "{{.State.Status}} {{.State.ExitCode}}", b.name); strings.HasPrefix(state, "exited") || time.Now().After(end) {
			b.t.Fatalf("not healthy, container %s: %s", state, out)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// fails starts a container that ends by itself and returns what it said and its exit code.
func (b *box) fails(options []string, command ...string) (log, code string) {
	b.t.Helper()
	b.start(options, command...)
	code = b.must("wait", b.name)
	return b.must("logs", b.name), code
}

// in runs a shell's words in the container as the user that the gateway runs as.
func (b *box) in(script string) string {
	b.t.Helper()
	return b.must("exec", b.name, "hermes-appliance", "container", "bash", "-c", script)
}

// stop stops it as people do, and holds it to its grace and to exit code 0.
func (b *box) stop() {
	b.t.Helper()
	b.must("stop", "-t", "60", b.name)
	if got := b.must("inspect", "-f", "{{.State.ExitCode}} {{.State.OOMKilled}}", b.name); got != "0 false" {
		b.t.Errorf("stopped with %s", got)
	}
}

// status is a line of /proc/PID/status of the gateway's process in the container.
func (b *box) status(line string) string {
	b.t.Helper()
	return strings.Join(strings.Fields(b.in(`pid=$(sed 's/.*"pid": *\([0-9]*\).*/\1/;q' <(tr -d '\n' </opt/data/gateway.pid)); sed -n 's/^`+line+`:[[:space:]]*//p' /proc/$pid/status`)), " ")
}

// mount is a directory of this machine for a container, with an owner.
func mount(t testing.TB, uid int, files map[string]string) (dir string) {
	t.Helper()
	testkit.NeedRoot(t)
	dir = filepath.Join(t.TempDir(), "home")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	testkit.WriteTree(t, dir, files)
	if err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, uid, uid))
	}); err != nil {
		t.Fatal(err)
	}
	return dir
}

// owner returns "uid:gid" of a path.
func owner(t testing.TB, path string) string {
	t.Helper()
	out, err := exec.Command("stat", "-c", "%u:%g", path).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return strings.TrimSpace(string(out))
}

const pendingConfig = "# mine\n_config_version: 46   # of last year\ncompression:\n  threshold_tokens: 256000\nmodel: {}\n"

// TestContainerFirstStart: an empty volume becomes a home that answers, without root, rights or
// anything to set up; it stops within its grace, survives being killed, and keeps its key.
func TestContainerFirstStart(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.up([]string{"-v", b.name + ":/opt/data", "--health-interval=1s"})
	for line, want := range map[string]string{
		"Uid": "10000 10000 10000 10000", "Gid": "10000 10000 10000 10000", "CapEff": "0000000000000000", "CapPrm": "0000000000000000",
	} {
		if got := b.status(line); got != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
	if got := b.in(`find / -xdev -perm /6000 -type f 2>/dev/null; stat -c %a /opt/data/.env; readlink /proc/1/exe`); got != "600\n/opt/hermes/bin/hermes-appliance" {
		t.Errorf("programs with the setuid bit, the mode of .env, process 1: %q", got)
	}
	ask := `. /opt/data/.env; curl -s --max-time 60 http://127.0.0.1:8642/v1/chat/completions -H "Authorization: Bearer $API_SERVER_KEY" -d '{"messages":[{"role":"user","content":"run: id -u; git --version; rg --version"}]}'`
	answer := b.in(ask)
	if !strings.Contains(answer, "10000") || !strings.Contains(answer, "git version") || !strings.Contains(answer, "ripgrep") {
		t.Errorf("a turn: %s", answer)
	}
	key := b.in("grep KEY /opt/data/.env")
	// An orphan is process 1's, and gone from the table once it has ended.
	b.in("setsid -f sleep 0.01; exec 0<&- 1>&-")
	b.in(`for i in $(seq 900); do grep -lq '^State:.Z' /proc/[0-9]*/status 2>/dev/null || exit 0; sleep 0.1; done; grep -l '^State:.Z' /proc/[0-9]*/status; exit 1`)
	for end := time.Now().Add(deadline); b.must("inspect", "-f", "{{.State.Health.Status}}", b.name) != "healthy"; {
		if time.Now().After(end) {
			t.Fatalf("the image's own check: %s", b.must("inspect", "-f", "{{json .State.Health}}", b.name))
		}
		time.Sleep(100 * time.Millisecond)
	}
	b.stop()
	if out, code := b.docker("logs", b.name); code != 0 || strings.Contains(out, "level=ERROR") {
		t.Errorf("log: %s", out)
	}
	b.must("start", b.name)
	b.healthy()
	b.must("kill", "-s", "KILL", b.name)
	b.must("start", b.name)
	b.healthy()
	if got := b.in("grep KEY /opt/data/.env"); got != key {
		t.Error("another key")
	}
	b.must("kill", "-s", "USR1", b.name)
	if code := b.must("wait", b.name); code != "75" {
		t.Errorf("a drain exits %s, want 75: start me again", code)
	}
}

// TestContainerUpgrade: an older home is migrated by its owner before anything runs, a newer one
// runs and is not written, and one that cannot be migrated is refused as it is.
func TestContainerUpgrade(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		config, exit, log, after string
	}{
		"older":   {pendingConfig, "", "47-threshold-tokens", "# mine\n_config_version: 50   # of last year\ncompression: {}\nmodel: {}\n"},
		"newer":   {"_config_version: 99\n# yes\n", "", "", "_config_version: 99\n# yes\n"},
		"broken":  {"_config_version: 46\nmodel: [\n", "8", "config.yaml", "_config_version: 46\nmodel: [\n"},
		"ancient": {"_config_version: 3\n", "6", "config.yaml", "_config_version: 3\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			dir := mount(t, 4321, map[string]string{"config.yaml": tt.config, ".env": apiOn, "workspace/mine": "x"})
			options := []string{"--user", "0:0", "-v", dir + ":/opt/data"}
			if tt.exit != "" {
				log, code := b.fails(options)
				if code != tt.exit || !strings.Contains(log, tt.log) {
					t.Errorf("exit %s, want %s, and why: %s", code, tt.exit, log)
				}
			} else {
				b.up(options)
				if log := b.must("logs", b.name); !strings.Contains(log, tt.log) {
					t.Errorf("the log does not say %q: %s", tt.log, log)
				}
				if status := b.in("hermes-appliance status"); (name == "newer") != strings.Contains(status, "config is newer") {
					t.Errorf("status: %s", status)
				}
				b.stop()
			}
			if got, err := os.ReadFile(filepath.Join(dir, "config.yaml")); err != nil || string(got) != tt.after {
				t.Errorf("config.yaml: got %q, want %q (%v)", got, tt.after, err)
			}
			for _, f := range []string{"", "config.yaml", ".env", "workspace/mine"} {
				if got := owner(t, filepath.Join(dir, f)); got != "4321:4321" {
					t.Errorf("%q belongs to %s now", f, got)
				}
			}
		})
	}
}

// TestReport10ContainerIDs: ids of a NAS are taken as root, for good; without root they are an
// error that names what to do, and so is a directory that cannot be written.
func TestReport10ContainerIDs(t *testing.T) {
	t.Parallel()
	for name, env := range map[string][]string{
		"PUID and PGID":               {"-e", "PUID=99", "-e", "PGID=100"},
		"HERMES_UID and HERMES_GID":   {"-e", "HERMES_UID=99", "-e", "HERMES_GID=100"},
		"the longer name wins":        {"-e", "HERMES_UID=99", "-e", "PUID=7", "-e", "PGID=100"},
		"also behind a foreign init":  {"-e", "PUID=99", "-e", "PGID=100", "--init"},
		"also with a read-only image": {"-e", "PUID=99", "-e", "PGID=100", "--read-only", "--tmpfs", "/tmp"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			dir := mount(t, 0, nil)
			b.up(append(env, "--user", "0:0", "-v", dir+":/opt/data"))
			for line, want := range map[string]string{"Uid": "99 99 99 99", "Gid": "100 100 100 100", "Groups": "100", "CapEff": "0000000000000000", "NoNewPrivs": "1"} {
				if got := b.status(line); got != want {
					t.Errorf("%s: got %q, want %q", line, got, want)
				}
			}
			if a, b := owner(t, dir), owner(t, filepath.Join(dir, "config.yaml")); a != "99:100" || b != "99:100" {
				t.Errorf("the home belongs to %s, config.yaml to %s", a, b)
			}
			b.stop()
		})
	}
	for name, tt := range map[string]struct {
		options []string
		want    []string
	}{
		"no root":           {[]string{"-e", "PUID=99"}, []string{"PUID=99", "--user 0:0", "--user 99:"}},
		"no number":         {[]string{"--user", "0:0", "-e", "PUID=nobody"}, []string{"PUID=nobody", "1 to 65534"}},
		"root by number":    {[]string{"--user", "0:0", "-e", "PUID=0"}, []string{"HERMES_ALLOW_ROOT_GATEWAY"}},
		"another directory": {[]string{"-v", mount(t, 77, nil) + ":/opt/data"}, []string{"/opt/data", "77:77", "--user 77:77", "--user 0:0", "chown 10000:10000"}},
		"root's directory":  {[]string{"-v", mount(t, 0, nil) + ":/opt/data"}, []string{"/opt/data", "0:0", "--user 0:0"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			log, code := b.fails(tt.options)
			for _, want := range tt.want {
				if code != "78" || !strings.Contains(log, want) {
					t.Errorf("exit %s, want 78 and %q: %s", code, want, log)
				}
			}
		})
	}
}

// TestReport11ContainerOwners: files of the host in a mounted home keep their owners, whatever
// links lead to them.
func TestReport11ContainerOwners(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	dir := mount(t, 0, map[string]string{
		"config.yaml": "_config_version: 50\n", "workspace/project/file": "x", "logs/old.log": "x", "profiles/work/config.yaml": "_config_version: 50\n",
		"profiles/work/repo/file": "x", "sessions/a": "x",
	})
	outside := mount(t, 0, map[string]string{"victim": "x", "tree/victim": "x", "twin": "x"})
	for link, to := range map[string]string{"logs/link": "/outside/victim", "hooks": "/outside/tree", "auth.json": "/outside/victim", "profiles/evil": "/outside"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Chmod(outside, 0o755), os.Link(filepath.Join(outside, "twin"), filepath.Join(dir, "twin"))); err != nil {
		t.Fatal(err)
	}
	b.up([]string{"--user", "0:0", "-e", "PUID=99", "-v", dir + ":/opt/data", "-v", outside + ":/outside", "-v", mount(t, 0, map[string]string{"x": "x"}) + ":/opt/data/skills"})
	for _, f := range []string{"workspace", "workspace/project/file", "profiles/work/repo", "profiles/work/repo/file", "logs/link", "auth.json", "twin"} {
		if got := owner(t, filepath.Join(dir, f)); got != "0:0" {
			t.Errorf("%s belongs to %s", f, got)
		}
	}
	for _, f := range []string{"", "victim", "tree", "tree/victim", "twin"} {
		if got := owner(t, filepath.Join(outside, f)); got != "0:0" {
			t.Errorf("outside, %q belongs to %s", f, got)
		}
	}
	for _, f := range []string{"", "config.yaml", "logs/old.log", "profiles/work", "profiles/work/config.yaml", "sessions", "sessions/a"} {
		if got := owner(t, filepath.Join(dir, f)); got != "99:10000" {
			t.Errorf("%q belongs to %s", f, got)
		}
	}
}

// TestReport12ContainerUser: any user works where the home is his, with a read-only image too.
func TestReport12ContainerUser(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]string{"": nil, "read-only": {"--read-only", "--tmpfs", "/tmp"}, "no tmp at all": {"--read-only"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			b.up(append(options, "--user", "1234:1234", "--cap-drop", "ALL", "-v", mount(t, 1234, nil)+":/opt/data"))
			if got := b.status("Uid"); got != "1234 1234 1234 1234" {
				t.Error(got)
			}
			b.stop()
		})
	}
}

// TestReport13ContainerInit: an init of the platform may be process 1.
func TestReport13ContainerInit(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.up([]string{"--init", "--no-healthcheck"}) // the check is one of ours, too
	if got := b.in("cat /proc/1/comm; pgrep -c hermes"); got != "docker-init\n1" {
		t.Errorf("process 1, and how many of ours: %q", got)
	}
	b.stop()
}

// TestReport14ContainerEntrypoints: templates of older images start the gateway.
func TestReport14ContainerEntrypoints(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ entry, args []string }{
		"tini and its options":    {[]string{"/usr/bin/tini"}, []string{"-g", "--"}},
		"tini and the script":     {[]string{"/usr/bin/tini"}, []string{"-g", "-p", "SIGTERM", "--", "/opt/hermes/docker/entrypoint.sh", "gateway", "run"}},
		"the script":              {[]string{"/opt/hermes/docker/entrypoint.sh"}, []string{"hermes", "gateway", "run", "--accept-hooks"}},
		"init and the wrapper":    {[]string{"/init"}, []string{"/opt/hermes/docker/main-wrapper.sh", "gateway", "run", "--replace"}},
		"the command of upstream": {nil, []string{"gateway", "run"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			var options []string
			if tt.entry != nil {
				options = []string{"--entrypoint", tt.entry[0]}
			}
			b.up(options, tt.args...)
			b.stop()
		})
	}
	b := newBox(t)
	for _, tt := range []struct {
		args []string
		want string
		code int
	}{
		{[]string{"version"}, "config version", 0},
		{[]string{"bash", "-c", "id -un; exit 7"}, "hermes", 7},
		{[]string{"status"}, "no gateway runs", 1},
		{[]string{"no-such-thing"}, "no program of the image", 2},
	} {
		if out, code := b.docker(append([]string{"run", "--rm", b.image}, tt.args...)...); code != tt.code || !strings.Contains(out, tt.want) {
			t.Errorf("%v: exit %d, want %d: %s", tt.args, code, tt.code, out)
		}
	}
}

// TestReport15ContainerExec: a command of root's leaves nothing that the gateway cannot read; what
// something else left is given back by a start as root, and said by a start without.
func TestReport15ContainerExec(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	dir := mount(t, 10000, map[string]string{"config.yaml": "_config_version: 50\n"})
	b.up([]string{"--user", "0:0", "-v", dir + ":/opt/data"})
	b.must("exec", b.name, "hermes-appliance", "config", "set", "model.default", "x")
	b.must("exec", b.name, "hermes", "config", "set", "terminal.timeout", "7")
	if got := owner(t, filepath.Join(dir, "config.yaml")); got != "10000:10000" {
		t.Errorf("config.yaml belongs to %s", got)
	}
	if got := b.must("exec", "-e", "HERMES_DOCKER_EXEC_AS_ROOT=1", b.name, "hermes-appliance", "config", "get", "terminal.timeout"); got != "7" {
		t.Errorf("as root: %q", got)
	}
	b.must("exec", b.name, "bash", "-c", "chown 0:0 /opt/data/config.yaml /opt/data/logs; chmod 600 /opt/data/config.yaml; chmod 700 /opt/data/logs")
	b.must("restart", "-t", "60", b.name)
	b.healthy()
	if got := owner(t, filepath.Join(dir, "config.yaml")) + " " + owner(t, filepath.Join(dir, "logs")); got != "10000:10000 10000:10000" {
		t.Errorf("they belong to %s", got)
	}
	b.stop()
	if err := os.Chown(filepath.Join(dir, "config.yaml"), 0, 0); err != nil {
		t.Fatal(err)
	}
	other := newBox(t)
	if log, code := other.fails([]string{"-v", dir + ":/opt/data"}); code != "78" || !strings.Contains(log, "config.yaml") || !strings.Contains(log, "--user 0:0") {
		t.Errorf("without root: exit %s: %s", code, log)
	}
}

// TestReport16ContainerSocket: the group of a mounted engine's socket outlives root's groups.
func TestReport16ContainerSocket(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	testkit.NeedRoot(t)
	dir, err := os.MkdirTemp("", "s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "docker.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	if err := errors.Join(os.Chown(path, 0, 12345), os.Chmod(path, 0o660)); err != nil {
		t.Fatal(err)
	}
	b.up([]string{"--user", "0:0", "--read-only", "--tmpfs", "/tmp", "-v", path + ":/var/run/docker.sock"})
	if got := b.status("Groups"); got != "10000 12345" {
		t.Errorf("groups: %q", got)
	}
	b.in("test -w /var/run/docker.sock")
}

// TestContainerRootOnDemand: root stays root where somebody says so, and only there.
func TestContainerRootOnDemand(t *testing.T) {
	t.Parallel()
	for env, want := range map[string]string{"1": "0 0 0 0", "": "10000 10000 10000 10000", "0": "10000 10000 10000 10000"} {
		b := newBox(t)
		b.up([]string{"--user", "0:0", "-e", "HERMES_ALLOW_ROOT_GATEWAY=" + env})
		if got := b.status("Uid"); got != want {
			t.Errorf("%q: got %s, want %s", env, got, want)
		}
		b.stop()
	}
}

// TestContainerDocs runs the first commands of docs/containers.md as they stand there, with names of
// the test's own.
func TestContainerDocs(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	data, err := os.ReadFile(filepath.Join("..", "..", "docs", "containers.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(data), "```console\n")
	block, _, _ = strings.Cut(block, "```")
	var words [][]string
	for line := range strings.Lines(strings.ReplaceAll(block, "\\\n", "")) {
		command, ok := strings.CutPrefix(line, "$ docker ")
		if !ok {
			t.Fatalf("not a command: %q", line)
		}
		command = strings.NewReplacer("--name hermes", "--name "+b.name, "-v hermes:", "-v "+b.name+":", "exec hermes ", "exec "+b.name+" ",
			"127.0.0.1:8642:8642", "127.0.0.1::8642", "ghcr.io/hermes-appliance/hermes-appliance:latest", b.image).Replace(command)
		words = append(words, strings.Fields(command))
	}
	if len(words) != 3 || words[0][0] != "run" || !slices.Contains(words[0], b.image) {
		t.Fatalf("the commands: %q", words)
	}
	b.clean()
	b.must(words[0]...)
	b.healthy()
	if got := b.must(words[1]...); !strings.Contains(got, "api_server connected") {
		t.Errorf("%v: %s", words[1], got)
	}
	if got := b.must(words[2]...); !strings.HasPrefix(got, "API_SERVER_KEY=") {
		t.Errorf("%v: %s", words[2], got)
	}
	b.stop()
}

// composeService is what the example in the docs says of a service; nothing else may be in it.
type composeService struct {
	Image     string            `yaml:"image"`
	Restart   string            `yaml:"restart"`
	Grace     string            `yaml:"stop_grace_period"`
	Env       map[string]string `yaml:"environment"`
	Ports     []string          `yaml:"ports"`
	Volumes   []string          `yaml:"volumes"`
	ReadOnly  bool              `yaml:"read_only"`
	Tmpfs     []string          `yaml:"tmpfs"`
	CapDrop   []string          `yaml:"cap_drop"`
	Security  []string          `yaml:"security_opt"`
	PidsLimit int               `yaml:"pids_limit"`
}

// TestComposeExample runs what docs/compose.yaml says, given to the engine option by option.
func TestComposeExample(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	data, err := os.ReadFile(filepath.Join("..", "..", "docs", "compose.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Services map[string]composeService `yaml:"services"`
		Volumes  map[string]any            `yaml:"volumes"`
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(&doc); err != nil {
		t.Fatal(err)
	}
	s := doc.Services["gateway"]
	if _, ok := doc.Volumes["hermes"]; !ok || s.Image != "ghcr.io/hermes-appliance/hermes-appliance:latest" || s.Restart != "unless-stopped" || !s.ReadOnly {
		t.Errorf("the example: %+v", s)
	}
	grace, err := time.ParseDuration(s.Grace)
	if err != nil {
		t.Fatal(err)
	}
	options := []string{"--read-only", "--stop-timeout", fmt.Sprint(int(grace.Seconds())), "--pids-limit", fmt.Sprint(s.PidsLimit)}
	for name, values := range map[string][]string{"--tmpfs": s.Tmpfs, "--cap-drop": s.CapDrop, "--security-opt": s.Security} {
		for _, v := range values {
			options = append(options, name, v)
		}
	}
	for k, v := range s.Env {
		options = append(options, "-e", k+"="+v)
	}
	for _, v := range s.Volumes {
		options = append(options, "-v", b.name+strings.TrimPrefix(v, "hermes"))
	}
	for _, p := range s.Ports {
		addr, port, _ := strings.Cut(strings.TrimSuffix(p, ":8642"), ":")
		if addr != "127.0.0.1" || port != "8642" {
			t.Errorf("the example publishes %s: it is for this machine only", p)
		}
		options = append(options, "-p", "127.0.0.1::8642")
	}
	b.up(options)
	// Port 8642 at every address, as the kernel writes it.
	if got := b.in("cat /proc/net/tcp /proc/net/tcp6"); !strings.Contains(got, "00000000:21C2 ") {
		t.Errorf("the API does not listen for the port that is published: %s", got)
	}
	b.stop()
}
