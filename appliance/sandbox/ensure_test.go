// SPDX-License-Identifier: MIT

package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

func inspectRaw(t testing.TB, c *Container) container.InspectResponse {
	t.Helper()
	r, err := c.e.api.ContainerInspect(t.Context(), c.id, client.ContainerInspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r.Container
}

// noted reports whether a note has all the words.
func noted(st State, words ...string) bool {
	return slices.ContainsFunc(st.Notes, func(n string) bool {
		return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(n, w) })
	})
}

// TestReport30336Reuse: a second process, a cron job, the next start: all find the container
// that is there, and it is hardened as it should be.
func TestReport30336Reuse(t *testing.T) {
	t.Parallel()
	s := wanted(t)
	s.Shm, s.DiskMB = "64m", 1000
	c, st := ensureState(t, dial(t, Options{}), s)
	if st.Outcome != Created {
		t.Errorf("got %+v", st)
	}
	other, st := ensureState(t, dial(t, Options{}), s)
	if st.Outcome != Reused || other.ID() != c.ID() || len(st.Notes) > 0 || other.Workdir() != c.Workdir() {
		t.Errorf("got %+v", st)
	}
	r := inspectRaw(t, c)
	h := r.HostConfig
	got := map[string]any{
		"drop": h.CapDrop, "add": h.CapAdd, "opt": h.SecurityOpt, "pids": *h.PidsLimit, "memory": h.Memory, "cpus": h.NanoCPUs,
		"shm": h.ShmSize, "init": *h.Init, "tmp": h.Tmpfs["/tmp"], "vartmp": h.Tmpfs["/var/tmp"], "run": h.Tmpfs["/run"], "privileged": h.Privileged,
	}
	want := map[string]any{
		"drop": []string{"ALL"}, "add": []string{"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_SETGID", "CAP_SETUID"}, "opt": []string{"no-new-privileges"},
		"pids": int64(2048), "memory": int64(512 << 20), "cpus": int64(1e9), "shm": int64(64 << 20), "init": true,
		"tmp": "rw,exec,nosuid,size=512m", "vartmp": "rw,noexec,nosuid,size=256m", "run": "rw,noexec,nosuid,size=64m", "privileged": false,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	run(t, c, "cp /bin/true /tmp/x && /tmp/x && cp /bin/true /run/x && ! /run/x 2>/dev/null && touch /workspace/a /root/a")
	if l := r.Config.Labels; l[labelAgent] != "1" || l[labelTask] != "default" || l[labelProfile] != "default" || l[labelEgress] != "off" {
		t.Errorf("labels: %v", l)
	}
}

// TestReport84969ChangedSettings: what cannot change while the container lives is said, and
// the container is not thrown away for it.
func TestReport84969ChangedSettings(t *testing.T) {
	t.Parallel()
	e, s := dial(t, Options{}), wanted(t)
	c := ensure(t, e, s)
	s.MemoryMB, s.Volumes = 1024, []string{"/tmp:/mnt"}
	again, st := ensureState(t, e, s)
	if again.ID() != c.ID() || st.Outcome != Reused || !noted(st, "limits, mounts", "docker rm -f "+c.Name()) {
		t.Errorf("got %+v", st)
	}
}

// TestReport79816HomesNeverShare: two homes, both with a profile "default" and a task
// "default", never get the same container; nor do two tasks whose labels are alike.
func TestReport79816HomesNeverShare(t *testing.T) {
	t.Parallel()
	e, a, b := dial(t, Options{}), wanted(t), wanted(t)
	tasks := a
	tasks.Task = "x:y"
	alike := a
	alike.Task = "x_y"
	seen := map[string]bool{}
	for _, s := range []Spec{a, b, tasks, alike} {
		seen[ensure(t, e, s).ID()] = true
	}
	if len(seen) != 4 {
		t.Errorf("4 identities have %d containers", len(seen))
	}
	shared, too := a, b
	shared.SharedKey, too.SharedKey = "team "+random(), ""
	too.SharedKey = shared.SharedKey
	host := testkit.Docker(t)
	t.Cleanup(func() { sweepLabel(t, host, labelProfile+"="+shared.profileLabel()) })
	if ensure(t, e, shared).ID() != ensure(t, e, too).ID() {
		t.Error("a shared key does not share")
	}
}

// legacy makes a container as upstream does: without a home in its labels.
func legacy(t *testing.T, e *Engine, s Spec, binds ...string) string {
	t.Helper()
	labels := s.labels()
	delete(labels, labelID)
	delete(labels, labelHome)
	labels["hermes-environment"] = "0123456789abcdef01234567"
	labels["hermes-test"] = s.homeLabel()
	host := testkit.Docker(t)
	t.Cleanup(func() { sweepLabel(t, host, "hermes-test="+s.homeLabel()) })
	r, err := e.api.ContainerCreate(t.Context(), client.ContainerCreateOptions{
		Config: &container.Config{Image: testkit.DockerImage, Cmd: []string{"sleep", "infinity"}, Labels: labels}, HostConfig: &container.HostConfig{Binds: binds, Init: new(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.api.ContainerStart(t.Context(), r.ID, client.ContainerStartOptions{}); err != nil {
		t.Fatal(err)
	}
	return r.ID
}

func TestUpstreamsContainers(t *testing.T) {
	t.Parallel()
	e := dial(t, Options{})
	own, foreign, unknown := wanted(t), wanted(t), wanted(t)
	for i, s := range []*Spec{&own, &foreign, &unknown} {
		s.Profile = "p" + random()[:8] + string(rune('a'+i))
		s.Data = filepath.Join(t.TempDir(), "docker", "default")
	}
	id := legacy(t, e, own, own.Data+"/home:/root")
	if c, st := ensureState(t, e, own); c.ID() != id || st.Outcome != Reused || len(st.Notes) > 0 {
		t.Errorf("this home's own: got %+v", st)
	}
	id = legacy(t, e, foreign, own.Data+"/home:/root")
	if c, st := ensureState(t, e, foreign); c.ID() == id || len(st.Notes) > 0 {
		t.Errorf("another home's: got %+v", st)
	}
	id = legacy(t, e, unknown)
	if c, st := ensureState(t, e, unknown); c.ID() == id || !noted(st, "left alone") {
		t.Errorf("nobody knows whose: got %+v", st)
	}
}

// TestLockdown: a container that has a network, or gets one, is not used where there must be
// none. The other way round it is kept.
func TestLockdown(t *testing.T) {
	t.Parallel()
	e, s := dial(t, Options{}), wanted(t)
	open := ensure(t, e, s)
	s.NoNetwork = true
	c, st := ensureState(t, e, s)
	if c.ID() == open.ID() || st.Outcome != Recreated || !noted(st, "docker_network") || count(t, e, s) != 1 {
		t.Errorf("got %+v", st)
	}
	if out := run(t, c, "ls /sys/class/net"); strings.TrimSpace(out) != "lo" {
		t.Errorf("interfaces: %s", out)
	}
	if again, st := ensureState(t, e, s); again.ID() != c.ID() || st.Outcome != Reused {
		t.Errorf("got %+v", st)
	}
	opened := s
	opened.NoNetwork = false
	if again, st := ensureState(t, e, opened); again.ID() != c.ID() || !noted(st, "network") {
		t.Errorf("the other way round: got %+v", st)
	}
	for _, args := range [][]string{{"--network", "bridge"}, {"--net=host"}} {
		s.ExtraArgs = args
		_, _, err := e.Ensure(t.Context(), s)
		if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "docker_network") || !strings.Contains(err.Error(), "docker_extra_args") {
			t.Errorf("%v: got %v", args, err)
		}
	}
	s.ExtraArgs = []string{"--network", "none"}
	if again, _ := ensureState(t, e, s); again.ID() != c.ID() {
		t.Error("the same said twice made another container")
	}
}

// TestLockdownUnknown: what the engine does not tell counts as a network.
func TestLockdownUnknown(t *testing.T) {
	t.Parallel()
	for _, c := range []candidate{{}, {mode: "bridge", networks: []string{"none"}}, {mode: "none", networks: []string{"none", "evil"}}} {
		if c.locked() {
			t.Errorf("%+v counts as locked", c)
		}
	}
}

func TestKeepsUntilSomebodyChooses(t *testing.T) {
	t.Parallel()
	e, s := dial(t, Options{}), wanted(t)
	s.Data = filepath.Join(t.TempDir(), "docker", "default")
	s.Image = tag(t, e, "old")
	c := ensure(t, e, s)
	run(t, c, "touch /root/kept /workspace/kept /usr/gone")
	old := s.Image
	s.Image = tag(t, e, "new")
	kept, st := ensureState(t, e, s)
	if kept.ID() != c.ID() || !st.Kept || st.Image != old || st.Wanted != s.Image || !noted(st, "sandbox switch") {
		t.Errorf("nobody chose: got %+v", st)
	}
	q, err := e.Pending(t.Context(), s)
	if err != nil || q == nil || q.Current != old || q.Target != s.Image || len(q.Containers) != 1 || q.Answer(true) != s.Image || q.Answer(false) != old {
		t.Errorf("got %+v, %v", q, err)
	}
	s.Pinned = true
	if q, err := e.Pending(t.Context(), s); q != nil || err != nil {
		t.Errorf("somebody chose: got %+v, %v", q, err)
	}
	anew, st := ensureState(t, e, s)
	if anew.ID() == c.ID() || st.Outcome != Recreated || st.Kept || st.Image != s.Image || anew.Name() != c.Name() || count(t, e, s) != 1 {
		t.Errorf("somebody chose: got %+v", st)
	}
	run(t, anew, "test -e /root/kept && test -e /workspace/kept && ! test -e /usr/gone")
}

// TestReport58759MostCommonImage: several tasks, several images: the current one is that of
// most containers that differ.
func TestReport58759MostCommonImage(t *testing.T) {
	t.Parallel()
	e, s := dial(t, Options{}), wanted(t)
	a, b, target := tag(t, e, "a"), tag(t, e, "b"), tag(t, e, "c")
	for task, image := range map[string]string{"1": a, "2": b, "3": b, "4": target} {
		s.Task, s.Image = task, image
		ensure(t, e, s)
	}
	s.Task, s.Image = "", target
	q, err := e.Pending(t.Context(), s)
	if err != nil || q == nil || q.Current != b || len(q.Containers) != 3 {
		t.Errorf("got %+v, %v", q, err)
	}
}

// TestReport132725OnlyMismatched: a choice replaces the containers that differ and no other.
func TestReport132725OnlyMismatched(t *testing.T) {
	t.Parallel()
	e, s := dial(t, Options{}), wanted(t)
	old, now := tag(t, e, "old"), tag(t, e, "new")
	s.Pinned, s.Image = true, old
	s.Task = "differs"
	c1 := ensure(t, e, s)
	s.Image, s.Task = now, "same"
	c2 := ensure(t, e, s)
	if again, st := ensureState(t, e, s); again.ID() != c2.ID() || st.Outcome != Reused {
		t.Errorf("got %+v", st)
	}
	s.Task = "differs"
	if again, st := ensureState(t, e, s); again.ID() == c1.ID() || st.Outcome != Recreated {
		t.Errorf("got %+v", st)
	}
}

// TestBrokenImageKeepsTheOld: a new image that cannot run leaves the old container as it is,
// running all the while.
func TestBrokenImageKeepsTheOld(t *testing.T) {
	t.Parallel()
	f, host := proxy(t)
	e, s := dial(t, Options{Host: host}), wanted(t)
	c := ensure(t, e, s)
	p, err := c.Start(t.Context(), Exec{Argv: []string{"sleep", "3600"}})
	if err != nil {
		t.Fatal(err)
	}
	p.PID()
	s.Image, s.Pinned = commit(t, e, "true", &container.Config{Entrypoint: []string{"sh", "-c", "echo broken on purpose; exit 3"}}), true
	f.endFirst(t, s.Image)
	kept, st := ensureState(t, e, s)
	if kept.ID() != c.ID() || !st.Kept || !noted(st, "kept", "broken on purpose", "exit code 3") || count(t, e, s) != 1 {
		t.Errorf("got %+v", st)
	}
	eventually(t, "the command that ran in it, and its shell", func() bool { return marked(t, c, p.Mark()) == 2 })
}

// TestReport70387EndsAtOnce: a container that ends at once is an error that says why, and
// leaves nothing behind.
func TestReport70387EndsAtOnce(t *testing.T) {
	t.Parallel()
	f, host := proxy(t)
	e, s := dial(t, Options{Host: host}), wanted(t)
	s.Image = commit(t, e, "true", &container.Config{Entrypoint: []string{"sleep"}})
	f.endFirst(t, s.Image)
	_, _, err := e.Ensure(t.Context(), s) // sleep sleep infinity
	if !errors.Is(err, ErrGone) || !strings.Contains(err.Error(), "exit code 1") || !strings.Contains(err.Error(), "invalid time interval") || !strings.Contains(err.Error(), "--entrypoint") {
		t.Errorf("got %v", err)
	}
	if n := count(t, e, s); n != 0 {
		t.Errorf("%d containers are left", n)
	}
	f.set(nil)
	s.ExtraArgs = []string{"--entrypoint="}
	run(t, ensure(t, e, s), "true")
}

// TestReport34628OwnInit: an image with an init of its own gets to be process 1, and may run
// programs from /run.
func TestReport34628OwnInit(t *testing.T) {
	t.Parallel()
	e, s := dial(t, Options{}), wanted(t)
	s.Image = commit(t, e, `printf '#!/bin/sh\ncp /bin/sleep /run/own-sleep\nexec /run/own-sleep infinity\n' >/init; chmod +x /init`, &container.Config{Entrypoint: []string{"/init"}})
	c := ensure(t, e, s)
	if got := run(t, c, "cat /proc/1/comm"); got != "own-sleep\n" {
		t.Errorf("process 1 is %q", got)
	}
	if h := inspectRaw(t, c).HostConfig; h.Init != nil && *h.Init {
		t.Error("there is another init before it")
	}
}

func TestStoppedAndPaused(t *testing.T) {
	t.Parallel()
	e, s := dial(t, Options{}), wanted(t)
	c := ensure(t, e, s)
	if _, err := e.api.ContainerPause(t.Context(), c.id, client.ContainerPauseOptions{}); err != nil {
		t.Fatal(err)
	}
	if again, st := ensureState(t, e, s); again.ID() != c.ID() || st.Outcome != Reused {
		t.Errorf("paused: got %+v", st)
	}
	run(t, c, "touch /usr/there")
	if _, err := e.api.ContainerStop(t.Context(), c.id, client.ContainerStopOptions{Timeout: new(0)}); err != nil {
		t.Fatal(err)
	}
	again, st := ensureState(t, e, s)
	if again.ID() != c.ID() || st.Outcome != Started {
		t.Errorf("stopped: got %+v", st)
	}
	run(t, again, "test -e /usr/there")
}

// TestReport6509RemovalUnderWay: a removal that somebody else began is waited for.
func TestReport6509RemovalUnderWay(t *testing.T) {
	t.Parallel()
	f, host := proxy(t)
	e, s := dial(t, Options{Host: host}), wanted(t)
	c := ensure(t, e, s)
	left := 3
	f.set(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodDelete || left == 0 {
			return false
		}
		left--
		return fail(w, 409, "removal of container "+c.ID()+" is already in progress")
	})
	if err := e.remove(t.Context(), c.id); err != nil || left != 0 {
		t.Errorf("got %v, %d refusals to go", err, left)
	}
	if n := count(t, e, s); n != 0 {
		t.Errorf("%d are left", n)
	}
}

// TestNothingHalfMadeStays: whichever request fails or loses its answer, no container stays
// that nobody uses, and the next call succeeds.
func TestNothingHalfMadeStays(t *testing.T) {
	t.Parallel()
	for name, on := range map[string]string{"create": "/containers/create", "start": "/start", "proof": "/exec"} {
		t.Run(name+" fails", func(t *testing.T) {
			t.Parallel()
			f, host := proxy(t)
			e, s := dial(t, Options{Host: host}), wanted(t)
			f.set(func(w http.ResponseWriter, r *http.Request) bool {
				return strings.HasSuffix(r.URL.Path, on) && fail(w, 500, "a fault")
			})
			if _, _, err := e.Ensure(t.Context(), s); err == nil {
				t.Error("it succeeded")
			}
			f.set(nil)
			if n := count(t, e, s); n != 0 {
				t.Errorf("%d containers are left", n)
			}
			ensure(t, e, s)
		})
		t.Run(name+" loses its answer", func(t *testing.T) {
			t.Parallel()
			f, host := proxy(t)
			e, s := dial(t, Options{Host: host}), wanted(t)
			f.loseAnswer(func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, on) })
			if _, _, err := e.Ensure(t.Context(), s); err == nil {
				t.Error("it succeeded")
			}
			f.loseAnswer(nil)
			if n := count(t, e, s); n != 0 {
				t.Errorf("%d containers are left", n)
			}
			ensure(t, e, s)
		})
	}
}

// TestHostsWithoutLimits: a host that cannot keep a limit says so when it matters; the
// container is made without it, and that is told.
func TestHostsWithoutLimits(t *testing.T) {
	t.Parallel()
	f, host := proxy(t)
	e, s := dial(t, Options{Host: host}), wanted(t)
	s.DiskMB = 1000
	f.set(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/containers/create") {
			return false
		}
		body, err := io.ReadAll(r.Body)
		var req struct{ HostConfig container.HostConfig }
		if err != nil || json.Unmarshal(body, &req) != nil {
			return fail(w, 500, "unreadable")
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if len(req.HostConfig.StorageOpt) > 0 {
			return fail(w, 500, "--storage-opt is supported only for overlay over xfs with 'pquota' mount option")
		}
		if req.HostConfig.Memory != 0 || req.HostConfig.PidsLimit != nil {
			return fail(w, 500, "OCI runtime create failed: cannot set pids limit: container could not join or create cgroup")
		}
		return false
	})
	c, st := ensureState(t, e, s)
	if !noted(st, "without limits") {
		t.Errorf("got %+v", st)
	}
	if h := inspectRaw(t, c).HostConfig; h.Memory != 0 || len(h.CapDrop) != 1 {
		t.Errorf("got %+v", h)
	}
}

// TestOneOfManyCallers: many at once, in this process and in others, make one container.
func TestOneOfManyCallers(t *testing.T) {
	t.Parallel()
	s := wanted(t)
	var wg sync.WaitGroup
	ids := make(chan string, 12)
	engines := []*Engine{dial(t, Options{}), dial(t, Options{})}
	for i := range 6 {
		wg.Go(func() {
			c, _, err := engines[i%2].Ensure(t.Context(), s)
			if err != nil {
				t.Error(err)
				return
			}
			ids <- c.ID()
		})
	}
	for range 2 {
		wg.Go(func() {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHelperProcess$")
			cmd.Env = append(os.Environ(), "SANDBOX_HELPER_HOME="+s.Home)
			out, err := cmd.Output()
			if err != nil {
				t.Errorf("%v: %s", err, out)
				return
			}
			id, _, _ := strings.Cut(string(out), "\n")
			ids <- id
		})
	}
	wg.Wait()
	close(ids)
	seen := map[string]bool{}
	for id := range ids {
		seen[id] = true
	}
	if len(seen) != 1 || count(t, engines[0], s) != 1 {
		t.Errorf("got %d handles on %d containers", len(seen), count(t, engines[0], s))
	}
}

// TestHelperProcess is no test: it is the other process of [TestOneOfManyCallers].
func TestHelperProcess(t *testing.T) {
	home := os.Getenv("SANDBOX_HELPER_HOME")
	if home == "" {
		return
	}
	e := dial(t, Options{})
	c, _, err := e.Ensure(t.Context(), Spec{Identity: Identity{Home: home, Profile: "default"}, Image: testkit.DockerImage, Keep: true, MemoryMB: 512, CPUs: 1})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = os.Stdout.WriteString(c.ID() + "\n")
}

// TestReplaceRace: two processes replace the same container; one is left, of the new image.
func TestReplaceRace(t *testing.T) {
	t.Parallel()
	a, b, s := dial(t, Options{}), dial(t, Options{}), wanted(t)
	s.Image, s.Pinned = tag(t, a, "old"), true
	ensure(t, a, s)
	s.Image = tag(t, a, "new")
	var wg sync.WaitGroup
	for _, e := range []*Engine{a, b, a, b} {
		wg.Go(func() {
			c, st, err := e.Ensure(t.Context(), s)
			if err != nil || st.Kept || st.Image != s.Image {
				t.Errorf("got %+v, %v", st, err)
				return
			}
			if _, err := c.Exec(t.Context(), Exec{Argv: []string{"true"}}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := count(t, a, s); n != 1 {
		t.Errorf("%d containers are left", n)
	}
}

// TestStrangersName: a container that has our name and is not ours is not touched.
func TestStrangersName(t *testing.T) {
	t.Parallel()
	e, s := dial(t, Options{}), wanted(t)
	r, err := e.api.ContainerCreate(t.Context(), client.ContainerCreateOptions{Config: &container.Config{Image: testkit.DockerImage, Cmd: []string{"true"}}, Name: s.name()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.remove(t.Context(), r.ID); err != nil {
			t.Error(err)
		}
	}()
	if _, _, err := e.Ensure(t.Context(), s); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), s.name()) {
		t.Errorf("got %v", err)
	}
}

func TestReap(t *testing.T) {
	t.Parallel()
	e, s := dial(t, Options{}), wanted(t)
	running, never := s, s
	running.Task, never.Task = "running", "never"
	c := ensure(t, e, s)
	ensure(t, e, running)
	m, err := build(never, layout{}, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.api.ContainerCreate(t.Context(), client.ContainerCreateOptions{Config: m.config, HostConfig: m.host, Name: never.name()}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.api.ContainerStop(t.Context(), c.id, client.ContainerStopOptions{Timeout: new(0)}); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		after time.Duration
		want  int
	}{{0, 0}, {ReapAge - time.Minute, 0}, {ReapAge + time.Minute, 1}, {ReapAge + time.Minute, 0}} {
		if n, err := e.Reap(t.Context(), s, time.Now().Add(tt.after)); n != tt.want || err != nil {
			t.Errorf("after %v: got %d, %v; want %d", tt.after, n, err, tt.want)
		}
	}
	if n := count(t, e, s); n != 2 {
		t.Errorf("%d are left, want the running one and the one that never ran", n)
	}
}

// TestReport86317Close waits for every container that is torn down.
func TestReport86317Close(t *testing.T) {
	t.Parallel()
	watch := dial(t, Options{})
	s := wanted(t)
	e, err := Dial(t.Context(), Options{Host: testkit.Docker(t)})
	if err != nil {
		t.Fatal(err)
	}
	e.closing = patience
	kept := ensure(t, e, s)
	s.Keep = false
	for _, task := range []string{"a", "b"} {
		s.Task = task
		c := ensure(t, e, s)
		if again := ensure(t, e, s); again.ID() != c.ID() {
			t.Error("one engine made two containers of a task")
		}
		if other := ensure(t, watch, s); other.ID() == c.ID() {
			t.Error("a container that is not kept is shared")
		} else if err := other.Remove(t.Context()); err != nil {
			t.Error(err)
		}
		c.Release(t.Context(), nil)
	}
	kept.Release(t.Context(), nil)
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := count(t, watch, s); n != 1 {
		t.Errorf("%d are left, want the one that is kept", n)
	}
	if inspectRaw(t, &Container{e: watch, id: kept.id}).State.Running != true {
		t.Error("the one that is kept does not run")
	}
}

// TestReport40368Outside: a program in a container shares its paths with the engine outside
// where a mount of its own holds them, and refuses where none does.
func TestReport40368Outside(t *testing.T) {
	t.Parallel()
	e, s := dial(t, Options{}), wanted(t)
	outside := t.TempDir()
	gateway := s
	gateway.Task, gateway.Volumes = "gateway", []string{outside + ":/data"}
	inside := dial(t, Options{Self: ensure(t, e, gateway).ID()})
	for p, want := range map[string]string{"/data": outside, "/data/a/b": outside + "/a/b", "/data/../etc": "", "/database": "", "/root": ""} {
		got, err := inside.onHost("a directory", p)
		if got != want || (want == "") != errors.Is(err, ErrConfig) {
			t.Errorf("%s: got %q, %v; want %q", p, got, err, want)
		}
	}
	s.Volumes = []string{"/data/project:/workspace"}
	if err := os.Mkdir(filepath.Join(outside, "project"), 0o755); err != nil {
		t.Fatal(err)
	}
	c := ensure(t, inside, s)
	run(t, c, "touch /workspace/seen")
	if _, err := os.Stat(filepath.Join(outside, "project", "seen")); err != nil {
		t.Error(err)
	}
	s.Task, s.Volumes = "refused", []string{"/elsewhere:/workspace"}
	if _, _, err := inside.Ensure(t.Context(), s); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "runs in container") {
		t.Errorf("got %v", err)
	}
	if other := dial(t, Options{Self: strings.Repeat("0", 64)}); other.self != nil {
		t.Error("a container of another engine counts as one of this")
	}
}

// TestRunAsUser: the container's user owns what it must write.
func TestRunAsUser(t *testing.T) {
	t.Parallel()
	e := dial(t, Options{})
	s := wanted(t)
	s.User = "1234:1234"
	run(t, ensure(t, e, s), `test "$(id -u)" = 1234 && cd && test "$PWD" = /root && touch /root/a /workspace/a /tmp/a`)
}

// TestInterruptedReplacement: a process died between making the new container and removing
// the old one. The next call finishes the work, or goes back where the new one is no good.
func TestInterruptedReplacement(t *testing.T) {
	t.Parallel()
	f, host := proxy(t)
	e := dial(t, Options{Host: host})
	e.patience = 200 * time.Millisecond
	broken := commit(t, e, "true", &container.Config{Entrypoint: []string{"false"}})
	f.endFirst(t, broken)
	for name, start := range map[string]bool{"before the start": false, "after the start": true} {
		for _, works := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, works %v", name, works), func(t *testing.T) {
				t.Parallel()
				s := wanted(t)
				old := ensure(t, e, s)
				s.Pinned, s.Image = true, broken
				if works {
					s.Image = tag(t, e, "new")
				}
				m, err := build(s, layout{workdir: "/root"}, false)
				if err != nil {
					t.Fatal(err)
				}
				r, err := e.api.ContainerCreate(t.Context(), client.ContainerCreateOptions{Config: m.config, HostConfig: m.host, Name: s.name() + nextSuffix})
				if err != nil {
					t.Fatal(err)
				}
				if start {
					if _, err := e.api.ContainerStart(t.Context(), r.ID, client.ContainerStartOptions{}); err != nil {
						t.Fatal(err)
					}
				}
				c, st := ensureState(t, e, s)
				want := old.ID()
				if works {
					want = r.ID
				}
				if c.ID() != want || st.Kept == works || count(t, e, s) != 1 || inspectRaw(t, c).Name != "/"+s.name() {
					t.Errorf("got %s with %+v, %d containers; want %s", c.ID(), st, count(t, e, s), want)
				}
				run(t, c, "true")
			})
		}
	}
}
