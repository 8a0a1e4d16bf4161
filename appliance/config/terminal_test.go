// SPDX-License-Identifier: MIT

package config

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/dotenv"
	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

const defaultImage = "nousresearch/hermes-sandbox:desktop"

func TestBridgeTable(t *testing.T) {
	t.Parallel()
	// Migrations spec §5, in its order.
	const spec = `modal_mode, degraded_mode, cwd, temp_dir, timeout, lifetime_seconds, docker_image, docker_forward_env, singularity_image,
modal_image, daytona_image, vercel_runtime, vercel_image, ssh_host, ssh_user, ssh_port, ssh_key, container_cpu, container_memory,
container_disk, container_persistent, docker_volumes, docker_env, docker_mount_cwd_to_workspace, docker_network, docker_extra_args,
docker_shm_size, docker_run_as_host_user, docker_snap_compat, docker_persist_across_processes, docker_shared_container_key,
docker_orphan_reaper, sandbox_dir, persistent_shell`
	want := []string{"TERMINAL_ENV"}
	for key := range strings.SplitSeq(strings.ReplaceAll(spec, "\n", " "), ", ") {
		want = append(want, "TERMINAL_"+strings.ToUpper(strings.TrimSpace(key)))
	}
	got := BridgeNames()
	if len(want) != 35 || !slices.Equal(got, append(want, Pinned)) {
		t.Errorf("got %d names %v\nwant %d names %v", len(got), got, len(want), want)
	}
	if BridgeName("terminal", "backend") != "TERMINAL_ENV" || BridgeName("terminal", "font_family") != "" || BridgeName("x", "backend") != "" || BridgeName("terminal") != "" {
		t.Error("BridgeName")
	}
	v := parse(t, "-", "-").With(nil)
	for _, b := range bridge() {
		if v.Origin(terminalKey, b.key) != Default {
			t.Errorf("terminal.%s has no default", b.key)
		}
	}
}

// profile is a policy's input as texts.
type profile struct {
	config, env, admin, adminEnv string // "" = no file
	launch                       map[string]string
}

func (p profile) input(t *testing.T) TerminalInput {
	t.Helper()
	none := func(s string) string {
		if s == "" {
			return "-"
		}
		return s
	}
	in := TerminalInput{Config: parse(t, none(p.config), none(p.admin)), Launch: p.launch, UserHome: "/home/u", Lookup: env("IMG", "from/env:1")}
	in.Env, in.AdminEnv = envFile(t, p.env), envFile(t, p.adminEnv)
	return in
}

// envFile parses a .env; "" is one that is not there.
func envFile(t *testing.T, text string) *dotenv.File {
	t.Helper()
	if text == "" {
		return nil
	}
	f, err := dotenv.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestTerminalDefaults(t *testing.T) {
	t.Parallel()
	p, err := NewTerminal(profile{}.input(t))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"TERMINAL_ENV": "local", "TERMINAL_MODAL_MODE": "auto", "TERMINAL_DEGRADED_MODE": "warn", "TERMINAL_CWD": "/home/u", "TERMINAL_TEMP_DIR": "",
		"TERMINAL_TIMEOUT": "180", "TERMINAL_LIFETIME_SECONDS": "300", "TERMINAL_DOCKER_IMAGE": defaultImage, "TERMINAL_DOCKER_FORWARD_ENV": "[]",
		"TERMINAL_SINGULARITY_IMAGE": "docker://" + defaultImage, "TERMINAL_MODAL_IMAGE": defaultImage, "TERMINAL_DAYTONA_IMAGE": defaultImage,
		"TERMINAL_VERCEL_RUNTIME": "", "TERMINAL_VERCEL_IMAGE": "vercel/sandbox/universal:latest", "TERMINAL_SSH_HOST": "", "TERMINAL_SSH_USER": "",
		"TERMINAL_SSH_PORT": "22", "TERMINAL_SSH_KEY": "", "TERMINAL_CONTAINER_CPU": "1", "TERMINAL_CONTAINER_MEMORY": "5120", "TERMINAL_CONTAINER_DISK": "51200",
		"TERMINAL_CONTAINER_PERSISTENT": "true", "TERMINAL_DOCKER_VOLUMES": "[]", "TERMINAL_DOCKER_ENV": "{}", "TERMINAL_DOCKER_MOUNT_CWD_TO_WORKSPACE": "false",
		"TERMINAL_DOCKER_NETWORK": "true", "TERMINAL_DOCKER_EXTRA_ARGS": "[]", "TERMINAL_DOCKER_SHM_SIZE": "1g", "TERMINAL_DOCKER_RUN_AS_HOST_USER": "false",
		"TERMINAL_DOCKER_SNAP_COMPAT": "false", "TERMINAL_DOCKER_PERSIST_ACROSS_PROCESSES": "true", "TERMINAL_DOCKER_SHARED_CONTAINER_KEY": "",
		"TERMINAL_DOCKER_ORPHAN_REAPER": "true", "TERMINAL_SANDBOX_DIR": "", "TERMINAL_PERSISTENT_SHELL": "true", "TERMINAL_DOCKER_IMAGE_PINNED": "0",
	}
	if !maps.Equal(p.Vars(), want) {
		t.Errorf("got %v\nwant %v", p.Vars(), want)
	}
	if len(p.Names()) != 36 {
		t.Errorf("%d names", len(p.Names()))
	}
}

func TestTerminalPrecedence(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		p    profile
		want map[string]string // "-" = unset
	}{
		"P1 stale backend in .env": {profile{config: "terminal: {backend: local}\n", env: "TERMINAL_ENV=docker\n"}, map[string]string{"TERMINAL_ENV": "local"}},
		".env over default":        {profile{env: "TERMINAL_ENV=docker\nTERMINAL_TIMEOUT=9\n"}, map[string]string{"TERMINAL_ENV": "docker", "TERMINAL_TIMEOUT": "9"}},
		"launch over .env":         {profile{env: "TERMINAL_ENV=docker\n", launch: map[string]string{"TERMINAL_ENV": "ssh", "PATH": "/bin"}}, map[string]string{"TERMINAL_ENV": "ssh", "PATH": "-"}},
		"config over launch":       {profile{config: "terminal: {backend: modal}\n", launch: map[string]string{"TERMINAL_ENV": "ssh"}}, map[string]string{"TERMINAL_ENV": "modal"}},
		"administrator over all": {
			profile{config: "terminal: {backend: local, timeout: 1}\n", adminEnv: "TERMINAL_TIMEOUT=2\nTERMINAL_ENV=ssh\n", admin: "terminal: {backend: docker}\n"},
			map[string]string{"TERMINAL_ENV": "docker", "TERMINAL_TIMEOUT": "2"},
		},
		"other names of the profile": {profile{env: "TERMINAL_LOCAL_MEMORY_MAX_MB=5\nOPENAI_API_KEY=x\n"}, map[string]string{"TERMINAL_LOCAL_MEMORY_MAX_MB": "5", "OPENAI_API_KEY": "-"}},
		"last assignment counts":     {profile{env: "TERMINAL_TIMEOUT=1\nexport TERMINAL_TIMEOUT=\"2\"\n"}, map[string]string{"TERMINAL_TIMEOUT": "2"}},
		"last assignment blank":      {profile{env: "TERMINAL_ENV=docker\nTERMINAL_ENV=\n"}, map[string]string{"TERMINAL_ENV": "local"}},
		"null is unset": {
			profile{config: "terminal:\n  docker_image:\n  timeout: null\n  docker_volumes: ~\n  docker_env:\n  backend: ''\n  container_persistent:\n", env: "TERMINAL_TIMEOUT=4\n"},
			map[string]string{
				"TERMINAL_DOCKER_IMAGE": defaultImage, "TERMINAL_TIMEOUT": "4", "TERMINAL_DOCKER_VOLUMES": "[]", "TERMINAL_DOCKER_ENV": "{}",
				"TERMINAL_ENV": "local", "TERMINAL_CONTAINER_PERSISTENT": "true",
			},
		},
		"empty text is a value": {profile{config: "terminal: {ssh_key: '', vercel_runtime: ''}\n", env: "TERMINAL_SSH_KEY=/k\nTERMINAL_VERCEL_RUNTIME=node22\n"}, map[string]string{"TERMINAL_SSH_KEY": "", "TERMINAL_VERCEL_RUNTIME": ""}},
		"lists and maps are JSON": {
			profile{config: "terminal:\n  docker_volumes: [/a:/b, \"/c d:/e\"]\n  docker_env: {FOO: bar, N: 1, ON: yes, E: '<&>', Z: }\n  docker_forward_env:\n    - EMAIL\n  docker_extra_args: [--memory, 4096]\n"},
			map[string]string{
				"TERMINAL_DOCKER_VOLUMES": `["/a:/b","/c d:/e"]`, "TERMINAL_DOCKER_ENV": `{"E":"<&>","FOO":"bar","N":"1","ON":"yes","Z":""}`,
				"TERMINAL_DOCKER_FORWARD_ENV": `["EMAIL"]`, "TERMINAL_DOCKER_EXTRA_ARGS": `["--memory","4096"]`,
			},
		},
		"JSON in a text": {
			profile{config: "terminal: {docker_volumes: '[\"/a:/b\", 1]', docker_env: '{\"A\": true}', docker_extra_args: ''}\n", env: "TERMINAL_DOCKER_FORWARD_ENV=[\"X\"]\n"},
			map[string]string{"TERMINAL_DOCKER_VOLUMES": `["/a:/b","1"]`, "TERMINAL_DOCKER_ENV": `{"A":"true"}`, "TERMINAL_DOCKER_FORWARD_ENV": `["X"]`, "TERMINAL_DOCKER_EXTRA_ARGS": "[]"},
		},
		"booleans are lower case": {profile{config: "terminal: {docker_network: NO}\n", env: "TERMINAL_PERSISTENT_SHELL=False\nTERMINAL_DOCKER_SNAP_COMPAT=On\n"}, map[string]string{"TERMINAL_DOCKER_NETWORK": "false", "TERMINAL_PERSISTENT_SHELL": "false", "TERMINAL_DOCKER_SNAP_COMPAT": "true"}},
		"numbers are decimal":     {profile{config: "terminal: {timeout: 0x10, container_memory: 8_192, container_cpu: 0.5, lifetime_seconds: \"60\"}\n"}, map[string]string{"TERMINAL_TIMEOUT": "16", "TERMINAL_CONTAINER_MEMORY": "8192", "TERMINAL_CONTAINER_CPU": "0.5", "TERMINAL_LIFETIME_SECONDS": "60"}},
		"variables":               {profile{config: "terminal: {docker_image: \"${IMG}\", ssh_host: \"${GONE}\"}\n"}, map[string]string{"TERMINAL_DOCKER_IMAGE": "from/env:1", "TERMINAL_SSH_HOST": "${GONE}"}},

		"cwd local":              {profile{config: "terminal: {cwd: .}\n"}, map[string]string{"TERMINAL_CWD": "/home/u"}},
		"cwd local word":         {profile{config: "terminal: {cwd: auto}\n", env: "TERMINAL_CWD=cwd\n"}, map[string]string{"TERMINAL_CWD": "/home/u"}},
		"cwd blank":              {profile{config: "terminal: {cwd: ' '}\n"}, map[string]string{"TERMINAL_CWD": "/home/u"}},
		"cwd falls to .env":      {profile{config: "terminal: {cwd: .}\n", env: "TERMINAL_CWD=/srv\n"}, map[string]string{"TERMINAL_CWD": "/srv"}},
		"cwd docker":             {profile{config: "terminal: {backend: docker, cwd: .}\n"}, map[string]string{"TERMINAL_CWD": "-"}},
		"cwd docker mount":       {profile{config: "terminal: {backend: docker, docker_mount_cwd_to_workspace: true}\n"}, map[string]string{"TERMINAL_CWD": "-"}},
		"cwd ssh":                {profile{config: "terminal: {backend: ssh}\n"}, map[string]string{"TERMINAL_CWD": "-"}},
		"cwd tilde":              {profile{config: "terminal: {cwd: ~/work}\n"}, map[string]string{"TERMINAL_CWD": "/home/u/work"}},
		"cwd tilde docker":       {profile{config: "terminal: {backend: docker, cwd: ~/work}\n"}, map[string]string{"TERMINAL_CWD": "/home/u/work"}},
		"cwd tilde ssh":          {profile{config: "terminal: {backend: ssh, cwd: ~/work}\n"}, map[string]string{"TERMINAL_CWD": "~/work"}},
		"cwd tilde ssh in .env":  {profile{config: "terminal: {cwd: \"~\"}\n", env: "TERMINAL_ENV=ssh\n"}, map[string]string{"TERMINAL_CWD": "~"}},
		"cwd tilde of another":   {profile{config: "terminal: {cwd: ~bob/x}\n"}, map[string]string{"TERMINAL_CWD": "~bob/x"}},
		"cwd backend by .env":    {profile{config: "terminal: {cwd: .}\n", env: "TERMINAL_ENV=docker\n"}, map[string]string{"TERMINAL_CWD": "-"}},
		"cwd file backend first": {profile{config: "terminal: {cwd: ., backend: local}\n", env: "TERMINAL_ENV=docker\n"}, map[string]string{"TERMINAL_CWD": "/home/u"}},
	} {
		p, err := NewTerminal(row.p.input(t))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for key, want := range row.want {
			if got, ok := p.Get(key); ok != (want != "-") || ok && got != want {
				t.Errorf("%s: %s is %q, %v; want %q", name, key, got, ok, want)
			}
		}
		for _, b := range bridge() {
			if _, ok := p.Get(b.env()); !ok && b.kind != kindDir {
				t.Errorf("%s: %s is missing; a policy is complete", name, b.env())
			}
		}
	}
}

func TestTerminalRefuses(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		p    profile
		want string
	}{
		"section is text":   {profile{config: "terminal: docker\n"}, "config.yaml, line 1, terminal: is text; expected a section"},
		"section is a list": {profile{config: "a: 1\nterminal: []\n"}, "config.yaml, line 2, terminal: is a list"},
		"timeout":           {profile{config: "terminal:\n  timeout: soon\n"}, "config.yaml, line 2, terminal.timeout: is text; expected a number"},
		"negative":          {profile{config: "terminal:\n  timeout: -1\n"}, "line 2, terminal.timeout: is a number; expected a number, not negative"},
		"port":              {profile{config: "terminal: {ssh_port: 22.5}\n"}, "expected a whole number"},
		"infinite":          {profile{config: "terminal: {timeout: .inf}\n"}, "expected a number"},
		"variable":          {profile{config: "terminal: {timeout: \"${T}\"}\n"}, "refers to ${T}"},
		"image is a list":   {profile{config: "terminal: {docker_image: [a]}\n"}, "is a list; expected"},
		"backend section":   {profile{config: "terminal: {backend: {a: b}}\n"}, "is a section of keys; expected"},
		"volumes text":      {profile{config: "terminal: {docker_volumes: /a:/b}\n"}, "is text; expected a list of texts"},
		"volumes deep":      {profile{config: "terminal: {docker_volumes: [[a]]}\n"}, "item 1 is a list"},
		"env list":          {profile{config: "terminal: {docker_env: [A=b]}\n"}, "is a list; expected"},
		"env deep":          {profile{config: "terminal: {docker_env: {A: [b]}}\n"}, "terminal.docker_env.A: is a list; expected text"},
		"bool":              {profile{config: "terminal: {persistent_shell: maybe}\n"}, "expected true or false"},
		"tag":               {profile{config: "terminal: {docker_image: !x y}\n"}, "something with a tag"},
		".env number":       {profile{env: "A=b\nTERMINAL_TIMEOUT=x\n"}, ".env, line 2, TERMINAL_TIMEOUT: expected a number"},
		".env list":         {profile{env: "TERMINAL_DOCKER_VOLUMES=/a:/b\n"}, "expected a list"},
		".env two lists":    {profile{env: "TERMINAL_DOCKER_VOLUMES=[][]\n"}, "expected a list"},
		"launch":            {profile{launch: map[string]string{"TERMINAL_SSH_PORT": "x"}}, "environment, TERMINAL_SSH_PORT: expected a whole number"},
	} {
		for what, make := range map[string]func(TerminalInput) error{
			"policy": func(in TerminalInput) error { return second(NewTerminal(in)) },
			"bridge": func(in TerminalInput) error { return second(Bridge(in)) },
		} {
			err := make(row.p.input(t))
			var r *Refusal
			if !errors.As(err, &r) || exitcode.Of(err) != exitcode.Config || !strings.Contains(err.Error(), row.want) {
				t.Errorf("%s of %s: got %v, want a refusal with %q", what, name, err, row.want)
			}
		}
	}
}

func TestLoadTerminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := home.Home{Dir: filepath.Join(dir, "h"), Profile: "b"}
	admin := filepath.Join(dir, "etc")
	testkit.WriteTree(t, dir, map[string]string{"h/": "", "etc/.env": "TERMINAL_TIMEOUT=7\n"})
	load := func() (*Terminal, error) {
		return LoadTerminal(h, Options{AdminDir: admin}, TerminalInput{UserHome: "/home/u"})
	}
	p, err := load()
	if err != nil || p.Text("timeout") != "7" || p.Text("backend") != "local" {
		t.Fatalf("no files: %v", err)
	}
	testkit.WriteTree(t, dir, map[string]string{
		"h/config.yaml": "terminal:\n  backend: docker\n  docker_volumes: [a, b]\n  docker_env: {A: b}\n  lifetime_seconds: 1.5\n  docker_network: off\n",
		"h/.env":        "TERMINAL_DOCKER_IMAGE=x\n",
	})
	if p, err = load(); err != nil {
		t.Fatal(err)
	}
	if p.Backend() != "docker" || p.Pin() != PinEnvFile || !slices.Equal(p.Strings("docker_volumes"), []string{"a", "b"}) ||
		p.Table("docker_env")["A"] != "b" || p.Seconds("lifetime_seconds") != 1500*time.Millisecond || p.Bool("docker_network") || !p.Bool("persistent_shell") || p.Number("ssh_port") != 22 {
		t.Errorf("got %v", p.Vars())
	}
	for name, want := range map[string]string{
		"TERMINAL_ENV": h.Config() + ", line 2", "TERMINAL_DOCKER_IMAGE": ".env, line 1", "TERMINAL_DOCKER_IMAGE_PINNED": ".env, line 1",
		"TERMINAL_TIMEOUT": "administrator's .env, line 1", "TERMINAL_SSH_PORT": defaultsFile, "TERMINAL_NOTHING": "",
	} {
		if got := p.Source(name); got != want {
			t.Errorf("%s comes from %q, want %q", name, got, want)
		}
	}

	for _, name := range []string{"config.yaml", ".env"} {
		path := filepath.Join(h.Dir, name)
		old, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for what, spoil := range map[string]func() error{
			"directory": func() error { return os.Mkdir(path, 0o700) },
			"loop":      func() error { return os.Symlink(path, path) },
			"dangling":  func() error { return os.Symlink(path+".gone", path) },
			"UTF-16":    func() error { return os.WriteFile(path, []byte("\xff\xfea\x00=\x00b\x00"), 0o600) },
			"NUL":       func() error { return os.WriteFile(path, []byte("a: \"b\x00"), 0o600) },
		} {
			if err := errors.Join(os.RemoveAll(path), spoil()); err != nil {
				t.Fatal(err)
			}
			var r *Refusal
			if p, err := load(); !errors.As(err, &r) || p != nil || exitcode.Of(err) != exitcode.Config || !strings.Contains(err.Error(), path) {
				t.Errorf("%s is a %s: got %v", name, what, err)
			}
			if err := errors.Join(os.RemoveAll(path), os.WriteFile(path, old, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
	}
	// The administrator's files fail open.
	testkit.WriteTree(t, dir, map[string]string{"etc/.env": "\x00", "etc/config.yaml": "[", "h/.env": "A=b\n"})
	if p, err = load(); err != nil || p.Text("timeout") != "180" || p.Pin() != NoPin {
		t.Errorf("broken files of the administrator: %v", err)
	}
}

func TestPinVerdict(t *testing.T) {
	t.Parallel()
	on := func(b bool, s string) string {
		if b {
			return s
		}
		return ""
	}
	// Every combination of what can be written where, against the rule spelled out again.
	const config = "terminal: {docker_image: " + defaultImage + "}\n"
	const line = "TERMINAL_DOCKER_IMAGE=" + defaultImage + "\n"
	for bits := range 1 << 5 {
		for _, inherited := range []string{"", "0", "1", "yes"} {
			b := func(i int) bool { return bits&(1<<i) != 0 }
			p := profile{config: on(b(0), config), env: on(b(1), line), admin: on(b(2), config), adminEnv: on(b(3), line), launch: map[string]string{}}
			if b(4) {
				p.launch["TERMINAL_DOCKER_IMAGE"] = defaultImage
			}
			if inherited != "" {
				p.launch[Pinned] = inherited
			}
			want := "0"
			if b(0) || b(1) || b(2) || b(3) || b(4) && inherited != "0" {
				want = "1"
			}
			got, err := NewTerminal(p.input(t))
			if err != nil {
				t.Fatal(err)
			}
			if flag, _ := got.Get(Pinned); flag != want || got.Pin().Flag() != want {
				t.Errorf("%05b, inherited %q: %s (%q), want %s", bits, inherited, flag, got.Pin(), want)
			}
			bridged, err := Bridge(p.input(t))
			if err != nil || bridged[Pinned] != want {
				t.Errorf("%05b, inherited %q: the bridge says %q, %v; want %s", bits, inherited, bridged[Pinned], err, want)
			}
			if image, _ := got.Get("TERMINAL_DOCKER_IMAGE"); image != defaultImage {
				t.Errorf("%05b: image %q", bits, image)
			}
		}
	}
}

func TestPinCases(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		p     profile
		want  PinSource
		image string
	}{
		"null":                       {profile{config: "terminal:\n  docker_image:\n"}, NoPin, defaultImage},
		"tilde":                      {profile{config: "terminal: {docker_image: ~}\n"}, NoPin, defaultImage},
		"blank":                      {profile{config: "terminal: {docker_image: '  '}\n"}, NoPin, defaultImage},
		"null with .env":             {profile{config: "terminal: {docker_image: }\n", env: "TERMINAL_DOCKER_IMAGE=me/x:1\n"}, PinEnvFile, "me/x:1"},
		"blank in .env":              {profile{env: "TERMINAL_DOCKER_IMAGE=\n"}, NoPin, defaultImage},
		"comment in .env":            {profile{env: "# TERMINAL_DOCKER_IMAGE=x\n"}, NoPin, defaultImage},
		"verdict in .env":            {profile{env: Pinned + "=1\n"}, NoPin, defaultImage},
		"lonely verdict":             {profile{launch: map[string]string{Pinned: "1"}}, NoPin, defaultImage},
		"verdict with blank image":   {profile{launch: map[string]string{Pinned: "1", "TERMINAL_DOCKER_IMAGE": " "}}, NoPin, defaultImage},
		"launcher pinned":            {profile{launch: map[string]string{Pinned: "1", "TERMINAL_DOCKER_IMAGE": "me/x:1"}}, PinLauncher, "me/x:1"},
		"launcher did not":           {profile{launch: map[string]string{Pinned: "0", "TERMINAL_DOCKER_IMAGE": "me/x:1"}}, NoPin, "me/x:1"},
		"launcher did not, file did": {profile{config: "terminal: {docker_image: me/y:2}\n", launch: map[string]string{Pinned: "0", "TERMINAL_DOCKER_IMAGE": "me/x:1"}}, PinConfig, "me/y:2"},
		"launcher did not, .env did": {profile{env: "TERMINAL_DOCKER_IMAGE=me/y:2\n", launch: map[string]string{Pinned: "0", "TERMINAL_DOCKER_IMAGE": "me/y:2"}}, PinEnvFile, "me/y:2"},
		"unchosen beats no choice":   {profile{env: "TERMINAL_DOCKER_IMAGE=me/z:3\n", launch: map[string]string{Pinned: "0", "TERMINAL_DOCKER_IMAGE": "me/x:1"}}, PinEnvFile, "me/z:3"},
		"operator":                   {profile{launch: map[string]string{"TERMINAL_DOCKER_IMAGE": defaultImage}}, PinProcess, defaultImage},
		"empty variable":             {profile{config: "terminal: {docker_image: \"${EMPTY}\"}\n"}, PinConfig, "${EMPTY}"},
		"administrator unsets":       {profile{config: "terminal: {docker_image: me/x:1}\n", admin: "terminal: {docker_image: null}\n"}, NoPin, defaultImage},
		"merged in":                  {profile{config: "x: &x {docker_image: me/x:1}\nterminal: {<<: *x}\n"}, PinConfig, "me/x:1"},
		"not another key":            {profile{config: "terminal: {modal_image: me/x:1}\n"}, NoPin, defaultImage},
	} {
		got, err := NewTerminal(row.p.input(t))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if image := got.Text("docker_image"); got.Pin() != row.want || image != row.image {
			t.Errorf("%s: %q with %q, want %q with %q", name, got.Pin(), image, row.want, row.image)
		}
	}
}

func TestBridge(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		p    profile
		want map[string]string // "-" = unset
	}{
		"defaults fill":            {profile{launch: map[string]string{"TERMINAL_TIMEOUT": "9"}}, map[string]string{"TERMINAL_TIMEOUT": "9", "TERMINAL_ENV": "local", "TERMINAL_CWD": "-"}},
		"file overrides":           {profile{config: "terminal: {timeout: 5}\n", launch: map[string]string{"TERMINAL_TIMEOUT": "9", "TERMINAL_ENV": "ssh"}}, map[string]string{"TERMINAL_TIMEOUT": "5", "TERMINAL_ENV": "ssh"}},
		"placeholder keeps":        {profile{config: "terminal: {cwd: .}\n", launch: map[string]string{"TERMINAL_CWD": "/w"}}, map[string]string{"TERMINAL_CWD": "/w"}},
		"tilde":                    {profile{config: "terminal: {cwd: ~/x}\n"}, map[string]string{"TERMINAL_CWD": "/home/u/x"}},
		"tilde, ssh by env":        {profile{config: "terminal: {cwd: ~/x}\n", launch: map[string]string{"TERMINAL_ENV": "ssh"}}, map[string]string{"TERMINAL_CWD": "~/x"}},
		"tilde, file beats env":    {profile{config: "terminal: {cwd: ~/x, backend: local}\n", launch: map[string]string{"TERMINAL_ENV": "ssh"}}, map[string]string{"TERMINAL_CWD": "/home/u/x"}},
		"never None":               {profile{config: "terminal: {docker_image: null, temp_dir: null}\n"}, map[string]string{"TERMINAL_DOCKER_IMAGE": defaultImage, "TERMINAL_TEMP_DIR": ""}},
		"only the table":           {profile{launch: map[string]string{"TERMINAL_LOCAL_MEMORY_MAX_MB": "5", "PATH": "x"}}, map[string]string{"TERMINAL_LOCAL_MEMORY_MAX_MB": "-", "PATH": "-"}},
		"keys beside the table":    {profile{config: "terminal: {font_family: x, sudo_password: y, env_passthrough: [Z]}\n"}, map[string]string{"TERMINAL_FONT_FAMILY": "-", "TERMINAL_SUDO_PASSWORD": "-", "TERMINAL_ENV_PASSTHROUGH": "-"}},
		"a null section overrides": {profile{config: "terminal:\n", launch: map[string]string{"TERMINAL_ENV": "ssh"}}, map[string]string{"TERMINAL_ENV": "ssh"}},
	} {
		in := row.p.input(t)
		before := maps.Clone(in.Launch)
		got, err := Bridge(in)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for key, want := range row.want {
			if v, ok := got[key]; ok != (want != "-") || ok && v != want {
				t.Errorf("%s: %s is %q, %v; want %q", name, key, v, ok, want)
			}
		}
		if !maps.Equal(before, in.Launch) {
			t.Errorf("%s: the environment was changed", name)
		}
	}
}

func TestCorpusTerminals(t *testing.T) {
	t.Parallel()
	dir := testkit.Corpus(t)
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		h := home.Home{Dir: filepath.Dir(path), Profile: home.Default}
		if _, err := LoadTerminal(h, Options{}, TerminalInput{}); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
