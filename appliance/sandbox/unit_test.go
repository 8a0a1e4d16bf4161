// SPDX-License-Identifier: MIT

package sandbox

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/moby/api/types/container"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

func TestParseVolume(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]volume{
		"/a:/b":           {"/a", "/b", ""},
		"/a:/b:ro":        {"/a", "/b", "ro"},
		"/a:/b:ro,z":      {"/a", "/b", "ro,z"},
		"data:/b":         {"data", "/b", ""},
		`C:\work:/b`:      {`C:\work`, "/b", ""},
		"D:/work:/b:ro":   {"D:/work", "/b", "ro"},
		"/a b:/c d":       {"/a b", "/c d", ""},
		`\\wsl$\x\y:/b:z`: {`\\wsl$\x\y`, "/b", "z"},
	} {
		v, ok := parseVolume(in)
		if !ok || v != want || v.String() != in {
			t.Errorf("%s: got %+v, %v", in, v, ok)
		}
	}
	for _, in := range []string{"", "/a", ":/b", "/a:", "/a:b", "C:/work", `C:\work`, "a:b:c"} {
		if v, ok := parseVolume(in); ok {
			t.Errorf("%q: got %+v", in, v)
		}
	}
}

// TestWorkspaceOwnedByVolume: a volume of the user's that owns /workspace does not take the
// directory to work in away.
func TestWorkspaceOwnedByVolume(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		project string
		workdir string
		volumes []string
		binds   []string
		want    string
	}{
		{"nothing", "", "", nil, nil, "/root"},
		{"a directory of the container", "", "/srv", nil, nil, "/srv"},
		{"the usual place", "/p", "", nil, []string{"/p:/workspace"}, "/workspace"},
		{"the user says where", "/p", "/srv", nil, []string{"/p:/workspace"}, "/srv"},
		{"the place is taken", "/p", "", []string{"/x:/workspace"}, []string{"/p:/workspace-2", "/x:/workspace"}, "/workspace-2"},
		{"both places are taken", "/p", "", []string{"/x:/workspace", "yy:/workspace-2"}, []string{"/p:/workspace-3", "/x:/workspace", "yy:/workspace-2"}, "/workspace-3"},
		{"a volume has it already", "/p", "", []string{"/p:/workspace:rw"}, []string{"/p:/workspace:rw"}, "/workspace"},
		{"a volume has it elsewhere", "/p/", "", []string{"/p:/mnt"}, []string{"/p:/mnt"}, "/mnt"},
		{"a volume has its parent", "/a/p", "", []string{"/x:/workspace", "/a:/mnt"}, []string{"/x:/workspace", "/a:/mnt"}, "/mnt/p"},
		{"a name that begins alike", "/ap", "", []string{"/a:/mnt"}, []string{"/ap:/workspace", "/a:/mnt"}, "/workspace"},
		{"a volume's name is no path", "/data", "", []string{"data:/mnt"}, []string{"/data:/workspace", "data:/mnt"}, "/workspace"},
		{"a drive", `C:\p`, "", []string{`D:\x:/workspace`}, []string{`C:\p:/workspace-2`, `D:\x:/workspace`}, "/workspace-2"},
		{"a drive that a volume has", `C:\a\p`, "", []string{`c:/a:/mnt`}, []string{`c:/a:/mnt`}, "/mnt/p"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := &Engine{}
			s := Spec{Identity: Identity{Home: "h", Profile: "p"}, Image: "i", Project: tt.project, Workdir: tt.workdir, Volumes: tt.volumes}
			l, err := e.lay(s)
			if err != nil || l.workdir != tt.want || e.workdirOf(s) != tt.want {
				t.Errorf("got %s and %s, %v; want %s", l.workdir, e.workdirOf(s), err, tt.want)
			}
			if d := cmp.Diff(tt.binds, l.binds); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestLayout(t *testing.T) {
	t.Parallel()
	e := &Engine{}
	dir := t.TempDir()
	testkit.WriteTree(t, dir, map[string]string{"skills/a": "", "token": "x"})
	s := Spec{
		Identity: Identity{Home: "h", Profile: "p"}, Image: "i", Data: filepath.Join(dir, "sandboxes", "docker", "a"), Volumes: []string{"nonsense", "/own:/taken"},
		Mounts: []Mount{
			{Source: filepath.Join(dir, "skills"), Target: "/skills"},
			{Source: filepath.Join(dir, "token"), Target: "/t", File: true},
			{Source: filepath.Join(dir, "skills"), Target: "/t2", File: true},
			{Source: filepath.Join(dir, "none"), Target: "/n"},
			{Source: dir, Target: "/taken"},
		},
	}
	l, err := e.lay(s)
	if err != nil || len(l.notes) != 4 || len(l.tmpfs) != 0 {
		t.Errorf("got %v, notes %q, tmpfs %v", err, l.notes, l.tmpfs)
	}
	got := map[string]bool{}
	for _, m := range l.mounts {
		got[m.Target] = m.ReadOnly
	}
	if d := cmp.Diff(map[string]bool{"/root": false, "/workspace": false, "/skills": true, "/t": true}, got); d != "" {
		t.Error(d)
	}
	if info, err := os.Stat(filepath.Join(s.Data, "home")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	s.Volumes = []string{"/own:/root/"}
	if l, err = e.lay(s); err != nil || strings.Contains(strings.Join(got2(l), " "), "/root ") {
		t.Errorf("a volume that owns /root: got %v, %v", got2(l), err)
	}
}

func got2(l layout) (out []string) {
	for _, m := range l.mounts {
		out = append(out, m.Target+" ")
	}
	return out
}

func TestExtraArgs(t *testing.T) {
	t.Parallel()
	base := func() made {
		m, err := build(Spec{Identity: Identity{Home: "h", Profile: "p"}, Image: "i"}, layout{}, false)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	m := base()
	err := applyExtra(m, []string{
		"--cap-add", "SYS_PTRACE", "--memory=1g", "--shm-size", "2g", "-v", "/a:/b:ro", "--device=/dev/kvm", "--gpus", "all", "--add-host=a=1.2.3.4",
		"--dns", "9.9.9.9", "-e", "A=b=c", "--ulimit", "nofile=1024:2048", "--sysctl", "net.x=1", "--tmpfs", "/scratch:size=1m", "-p127.0.0.1:8080:80/tcp", "--label", "a=b", "--net", "host",
	})
	if err == nil || !strings.Contains(err.Error(), "-p127.0.0.1:8080:80/tcp cannot be used here") {
		t.Errorf("got %v", err)
	}
	m = base()
	err = applyExtra(m, []string{
		"--cap-add", "SYS_PTRACE", "--memory=1g", "--shm-size", "2g", "-v", "/a:/b:ro", "--device=/dev/kvm", "--gpus", "all", "--add-host=a=1.2.3.4",
		"--dns", "9.9.9.9", "-e", "A=b=c", "--ulimit", "nofile=1024:2048", "--sysctl", "net.x=1", "--tmpfs", "/scratch:size=1m", "--publish", "127.0.0.1:8080:80/tcp", "--label", "a=b", "--net", "host", "--pids-limit=-1",
	})
	if err != nil {
		t.Fatal(err)
	}
	h := m.host
	if h.Memory != 1<<30 || h.ShmSize != 2<<30 || h.Binds[0] != "/a:/b:ro" || h.Devices[0].PathInContainer != "/dev/kvm" || h.DeviceRequests[0].Count != -1 ||
		h.ExtraHosts[0] != "a:1.2.3.4" || h.DNS[0].String() != "9.9.9.9" || m.config.Env[0] != "A=b=c" || h.Ulimits[0].Hard != 2048 || h.Sysctls["net.x"] != "1" ||
		h.Tmpfs["/scratch"] != "size=1m" || len(h.PortBindings) != 1 || m.config.Labels["a"] != "b" || h.NetworkMode != "host" || *h.PidsLimit != -1 {
		t.Errorf("got %+v", h)
	}
	for _, bad := range [][]string{
		{"--name", "x"},
		{"--rm"},
		{"-d"},
		{"--cidfile=x"},
		{"--label", "hermes-agent=0"},
		{"--memory", "much"},
		{"--memory"},
		{"--privileged=false"},
		{"image"},
		{"--env", "A"},
		{"--device", "kvm"},
		{"--publish", "x:y"},
		{"--volume", "/a"},
		{"--dns", "x"},
		{"--gpus", "some"},
		{"--cpus", "-1"},
		{"--ulimit", "x"},
		{"--restart", "always"},
		{"--workdir", "/x"},
	} {
		if err := applyExtra(base(), bad); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), bad[0][:2]) {
			t.Errorf("%q: got %v", bad, err)
		}
	}
	data, err := os.ReadFile(filepath.Join("..", "..", "docs", "sandbox.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range ExtraFlags() {
		if !strings.Contains(string(data), "`"+name+"`") {
			t.Errorf("docs/sandbox.md does not name %s", name)
		}
	}
}

func TestTaskDir(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, task := range []string{"", "default.", "a", "a:b", "a_b", "a/b", "..", ".", "../../etc", strings.Repeat("x", 128), strings.Repeat("x", 129), "é", "a b"} {
		got := TaskDir(task)
		if strings.ContainsAny(got, ":/ ") || got == "." || got == ".." || len(got) > 128 || seen[got] != "" {
			t.Errorf("%q: got %q", task, got)
		}
		seen[got] = "x"
	}
	for in, want := range map[string]string{"": "default", "a.b-c_D9": "a.b-c_D9"} {
		if got := TaskDir(in); got != want {
			t.Errorf("%q: got %q", in, got)
		}
	}
}

func TestSameImage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"debian", "docker.io/library/debian:latest", true},
		{"me/x:1", "docker.io/me/x:1", true},
		{"localhost:5000/x", "localhost:5000/x:latest", true},
		{"me/x:1", "me/x:2", false},
		{"me/x", "ghcr.io/me/x", false},
		{"x@sha256:aa", "x:latest", false},
		{"sha256:aa", "sha256:aa", true},
	} {
		if got := sameImage(tt.a, tt.b); got != tt.want {
			t.Errorf("%s, %s: got %v", tt.a, tt.b, got)
		}
	}
}

func TestDiscover(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	sum := digest("mine")
	testkit.WriteTree(t, dir, map[string]string{
		".docker/config.json":                               `{"currentContext":"mine"}`,
		".docker/contexts/meta/" + sum + "/meta.json":       `{"Endpoints":{"docker":{"Host":"unix:///mine.sock"}}}`,
		"plain/.docker/config.json":                         `{}`,
		"broken/.docker/config.json":                        `{"currentContext":"gone"}`,
		"plain/.docker/contexts/meta/" + sum + "/meta.json": `{"Endpoints":{"docker":{"Host":"tcp://mine:1"}}}`,
	})
	rundir, err := os.MkdirTemp("", "s") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(rundir) })
	sock := filepath.Join(rundir, "podman", "podman.sock")
	testkit.WriteTree(t, rundir, map[string]string{"podman/": ""})
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", sock)
	testkit.Need(t, "posix", err == nil, "there are no local sockets here")
	defer l.Close()
	_, dockerErr := os.Stat("/var/run/docker.sock")
	for name, tt := range map[string]struct {
		env  map[string]string
		want string
		bad  bool
	}{
		"variable":       {map[string]string{"DOCKER_HOST": "tcp://h:1", "HOME": dir}, "tcp://h:1", false},
		"context":        {map[string]string{"HOME": dir}, "unix:///mine.sock", false},
		"named context":  {map[string]string{"HOME": dir + "/plain", "DOCKER_CONTEXT": "mine"}, "tcp://mine:1", false},
		"other config":   {map[string]string{"DOCKER_CONFIG": dir + "/.docker"}, "unix:///mine.sock", false},
		"broken context": {map[string]string{"HOME": dir + "/broken"}, "", true},
		"podman's":       {map[string]string{"HOME": dir + "/plain", "CONTAINER_HOST": "unix:///p.sock"}, "unix:///p.sock", false},
		"a socket":       {map[string]string{"HOME": dir + "/plain", "XDG_RUNTIME_DIR": rundir}, "unix://" + sock, false},
	} {
		if name == "a socket" && dockerErr == nil {
			continue // the host's own engine comes first
		}
		got, err := Discover(func(n string) string { return tt.env[n] })
		if got != tt.want || (err != nil) != tt.bad || tt.bad && !errors.Is(err, ErrUnreachable) {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
	if _, err := Dial(t.Context(), Options{Host: "ssh://me@there"}); !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "unix:///PATH") {
		t.Errorf("got %v", err)
	}
}

func TestSelfID(t *testing.T) {
	t.Parallel()
	id := strings.Repeat("0a", 32)
	for in, want := range map[string]string{
		"100 90 8:1 /var/lib/docker/containers/" + id + "/hostname /etc/hostname rw - ext4 /dev/sda1 rw\n":                                 id,
		"1 2 0:1 /containers/overlay-containers/" + id + "/userdata/hostname /etc/hostname rw - tmpfs tmpfs rw\n":                          id,
		"100 90 8:1 / / rw - ext4 /dev/sda1 rw\n":                                                                                          "",
		"100 90 8:1 /var/lib/docker/containers/" + id + "/hostname /mnt/hostname rw - ext4 /dev/sda1 rw\n":                                 "",
		"100 90 8:1 /x/containers/short/hostname /etc/hostname rw\n1 2 8:1 /c/containers/" + id + "/resolv.conf /etc/resolv.conf rw - x\n": "",
	} {
		if got := idInMounts(in); got != want {
			t.Errorf("%q: got %q", in, got)
		}
	}
}

// settings is a terminal policy of the test's.
type settings map[string]any

func (s settings) Text(k string) string      { v, _ := s[k].(string); return v }
func (s settings) Bool(k string) bool        { v, _ := s[k].(bool); return v }
func (s settings) Number(k string) float64   { v, _ := s[k].(float64); return v }
func (s settings) Strings(k string) []string { v, _ := s[k].([]string); return v }
func (s settings) Table(k string) map[string]string {
	v, _ := s[k].(map[string]string)
	return v
}

func TestFromSettings(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	base := settings{"docker_image": " i:1 ", "container_persistent": true, "docker_network": true, "docker_persist_across_processes": true, "container_cpu": 1.5, "container_memory": 5120.0}
	p := Place{Home: "/h", Key: "/real/h", Profile: "work", Task: "a:b", Pinned: true, User: "1:2"}
	with := func(kv settings) settings {
		out := settings{}
		maps.Copy(out, base)
		maps.Copy(out, kv)
		return out
	}
	s, err := FromSettings(base, p)
	if err != nil || s.Image != "i:1" || !s.Pinned || s.Home != "/real/h" || s.CPUs != 1.5 || s.MemoryMB != 5120 || s.NoNetwork || !s.Keep || s.User != "" || s.Data != filepath.Join("/h", "sandboxes", "docker", TaskDir("a:b")) {
		t.Errorf("got %+v, %v", s, err)
	}
	for name, tt := range map[string]struct {
		in settings
		ok func(s Spec, err error) bool
	}{
		"lockdown":        {settings{"docker_network": false}, func(s Spec, _ error) bool { return s.NoNetwork }},
		"host's user":     {settings{"docker_run_as_host_user": true}, func(s Spec, _ error) bool { return s.User == "1:2" }},
		"elsewhere":       {settings{"sandbox_dir": "/s"}, func(s Spec, _ error) bool { return strings.HasPrefix(s.Data, filepath.Join("/s", "docker")) }},
		"nothing is kept": {settings{"container_persistent": false}, func(s Spec, _ error) bool { return s.Data == "" }},
		"project":         {settings{"cwd": dir, "docker_mount_cwd_to_workspace": true}, func(s Spec, _ error) bool { return s.Project == dir && s.Workdir == "" }},
		"container's":     {settings{"cwd": "/srv/app"}, func(s Spec, _ error) bool { return s.Workdir == "/srv/app" && s.Project == "" }},
		"the host's":      {settings{"cwd": "/home/me/app"}, func(s Spec, _ error) bool { return s.Workdir == "" && s.Project == "" }},
		"a placeholder":   {settings{"cwd": "."}, func(s Spec, _ error) bool { return s.Workdir == "" }},
		"environment":     {settings{"docker_env": map[string]string{"B": "2", "A": "1"}}, func(s Spec, _ error) bool { return cmp.Equal(s.Env, []string{"A=1", "B=2"}) }},
		"no variable's name": {settings{"docker_env": map[string]string{"A B": "2"}}, func(_ Spec, err error) bool {
			return errors.Is(err, ErrConfig) && strings.Contains(err.Error(), "docker_env")
		}},
		"no image": {settings{"docker_image": " "}, func(_ Spec, err error) bool {
			return errors.Is(err, ErrConfig) && strings.Contains(err.Error(), "docker_image")
		}},
	} {
		if s, err := FromSettings(with(tt.in), p); !tt.ok(s, err) {
			t.Errorf("%s: got %+v, %v", name, s, err)
		}
	}
	bad := Spec{Identity: Identity{Home: "h", Profile: "p"}, Image: "i", Shm: "lots"}
	if _, err := build(bad, layout{}, false); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "docker_shm_size") {
		t.Errorf("got %v", err)
	}
}

// frames writes a stream as an engine does, cut into frames by cuts.
func frames(kind byte, data []byte, r *rand.Rand) [][]byte {
	var out [][]byte
	for len(data) > 0 {
		n := 1 + r.IntN(min(len(data), 40))
		f := make([]byte, 8, 8+n)
		f[0] = kind
		binary.BigEndian.PutUint32(f[4:], uint32(n))
		out = append(out, append(f, data[:n]...))
		data = data[n:]
	}
	return out
}

// trickle hands out a few bytes at a time.
type trickle struct {
	b []byte
	r *rand.Rand
}

func (t *trickle) Read(p []byte) (int, error) {
	if len(t.b) == 0 {
		return 0, io.EOF
	}
	n := copy(p, t.b[:1+t.r.IntN(min(len(t.b), 64))])
	t.b = t.b[n:]
	return n, nil
}

// sorted runs bytes of a command through a stream cut at random places.
func sorted(t *testing.T, seed uint64, out, errs []byte) {
	t.Helper()
	const nonce = "0123456789abcdef0123456789abcdef"
	r := rand.New(rand.NewPCG(seed, 1))
	lanes := [][][]byte{
		frames(1, append(bytes.Clone(out), nonce+":e:7;late"...), r),
		frames(2, append(append([]byte(nonce+":b:12:345;"), errs...), nonce+":e:7;"...), r),
	}
	var stream []byte
	for len(lanes[0])+len(lanes[1]) > 0 {
		i := r.IntN(2)
		if len(lanes[i]) == 0 {
			i = 1 - i
		}
		stream = append(stream, lanes[i][0]...)
		lanes[i] = lanes[i][1:]
	}
	var gotOut, gotErr bytes.Buffer
	pid, ends := 0, 0
	s := &sorter{nonce: nonce, out: lane{w: &gotOut}, err: lane{w: &gotErr}, began: func(p int, born string) { pid = p }, ended: func() { ends++ }}
	if err := s.copy(&trickle{stream, r}); err != nil {
		t.Fatal(err)
	}
	if want := string(out) + "late"; gotOut.String() != want || gotErr.String() != string(errs) || pid != 12 || ends != 1 || s.code != 7 || !s.exited {
		t.Errorf("seed %d: got %q and %q, pid %d, %d ends, code %d; want %q and %q", seed, gotOut.String(), gotErr.String(), pid, ends, s.code, want, errs)
	}
}

func FuzzSorter(f *testing.F) {
	f.Add(uint64(1), []byte("out"), []byte("err"))
	f.Add(uint64(2), []byte("0123456789abcdef"), []byte("0123456789abcdef0123456789abcde"))
	f.Add(uint64(3), []byte{}, []byte("0123456789abcdef0123456789abcdef"))
	f.Fuzz(func(t *testing.T, seed uint64, out, errs []byte) {
		if bytes.Contains(append(bytes.Clone(out), errs...), []byte("0123456789abcdef0123456789abcdef:")) {
			return // nobody can guess it; a command that reads it from its parent cheats itself
		}
		sorted(t, seed, out, errs)
	})
}

func TestSorterCuts(t *testing.T) {
	t.Parallel()
	for seed := range uint64(500) {
		sorted(t, seed, []byte("some 0123456789abcdef output 0123456789abcdef012\n"), []byte("errors 0123456789abcdef0123456789abcdef\n"))
	}
	s := &sorter{nonce: "n", out: lane{w: io.Discard}, err: lane{w: io.Discard}}
	if err := s.copy(bytes.NewReader([]byte{9, 0, 0, 0, 0, 0, 0, 0})); err == nil {
		t.Error("a frame of an unknown kind is no error")
	}
	s = &sorter{nonce: "n", out: lane{w: io.Discard}, err: lane{w: io.Discard}}
	words := append([]byte{1, 0, 0, 0, 0, 0, 0, 5}, "words"...)
	if err := s.copy(bytes.NewReader(words)); err != nil || s.begun || s.early() != "words" {
		t.Errorf("the engine's words: got %v, %q", err, s.early())
	}
}

// TestFingerprint: the image is no part of it, the label holds it, and the groups are named.
func TestFingerprint(t *testing.T) {
	t.Parallel()
	s := Spec{Identity: Identity{Home: "h", Profile: "p"}, Image: "a"}
	label := s.fingerprint()
	if labelValue(label) != label || s.changes("") != nil || s.changes(label) != nil {
		t.Errorf("got %q, %v", label, s.changes(label))
	}
	for want, change := range map[string]func(*Spec){
		"":                  func(s *Spec) { s.Image = "b"; s.Pinned = true; s.Workdir = "/x" },
		"limits":            func(s *Spec) { s.CPUs = 2 },
		"mounts":            func(s *Spec) { s.Data = "/d" },
		"user":              func(s *Spec) { s.User = "1:1" },
		"network":           func(s *Spec) { s.NoNetwork = true },
		"environment":       func(s *Spec) { s.Env = []string{"A=b"} },
		"docker_extra_args": func(s *Spec) { s.ExtraArgs = []string{"--init"} },
	} {
		other := s
		change(&other)
		if got := strings.Join(other.changes(label), ","); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if m, err := build(s, layout{}, false); err != nil || m.config.Labels[labelConfig] != label || m.host.NetworkMode != container.NetworkMode("") {
		t.Errorf("got %+v, %v", m.config, err)
	}
}
