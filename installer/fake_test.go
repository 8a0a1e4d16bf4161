// SPDX-License-Identifier: MIT

//go:build unix

package installer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
	"github.com/hermes-appliance/hermes-appliance/service"
)

// world is a host with a systemd that is played: what it knows stands in a file, so that several
// processes may talk to it, and what it does to files it really does.
type world struct {
	root string
	uid  int
	user bool // there is a manager of the user

	fail   map[string]string // by verb: what it answers instead of doing it
	calls  []string
	after  func(w *world, argv []string) // called after each command
	env    map[string]string
	taken  bool   // another program has the address of every socket
	socket string // the ActiveState of a socket that starts the service; "" = there is none
}

// played is what the manager and the gateway know.
type played struct {
	Loaded string `json:"loaded"` // the text that the manager read
	PID    int    `json:"pid"`
	Last   int    `json:"last"`
	Exit   int    `json:"exit"`
	Failed string `json:"failed"` // a result
	Silent bool   `json:"silent"` // the gateway takes questions and answers none
	Alive  int    `json:"alive"`  // seconds since the last sign of life
	Sub    string `json:"sub"`
	Reason string `json:"reason"`
	Pinned bool   `json:"pinned"` // the gateway heeds no SIGUSR1

	Beat    int `json:"beat"`     // the process of the heartbeat
	BeatAge int `json:"beat_age"` // in seconds
	// Open has the socket units that the manager listens for, with the address that each had when
	// it was opened.
	Open map[string]string `json:"open"`
}

// bootedFor is what the kernel's clock says, by which the played manager goes, too. The machine has
// slept long besides: /proc/uptime says more.
const bootedFor = 1000 * time.Second

const (
	testUnit = "/etc/systemd/system/hermes-gateway.service"
)

// ada is the number of the user of that name: the test's own where it is not root, for the
// sockets of a user's manager must be that user's.
func ada() int {
	if uid := os.Getuid(); uid > 0 {
		return uid
	}
	return 1000
}

// newWorld makes a host with an installed program and a home.
func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{root: t.TempDir(), user: true, fail: map[string]string{}, env: map[string]string{"SUDO_USER": "ada", "USER": "root"}}
	testkit.WriteTree(t, w.root, map[string]string{
		"etc/systemd/system/": "", "run/systemd/system/": "", "var/lib/": "", "home/ada/.hermes/": "", "home/bob/": "",
		"usr/local/bin/hermes-appliance": "#!", "proc/uptime": "90000.0 1", "home/ada/.hermes/config.yaml": "_config_version: 50\n",
	})
	w.save(played{Last: 100})
	return w
}

func (w *world) load() played {
	var p played
	data, err := os.ReadFile(filepath.Join(w.root, ".played"))
	if err == nil {
		err = json.Unmarshal(data, &p)
	}
	if err != nil {
		panic(err)
	}
	return p
}

func (w *world) save(p played) {
	data, err := json.Marshal(p)
	if err == nil {
		err = os.WriteFile(filepath.Join(w.root, ".played"), data, 0o600)
	}
	if err != nil {
		panic(err)
	}
}

func (w *world) change(f func(*played)) {
	p := w.load()
	f(&p)
	w.save(p)
}

// host is this world as the installer sees it.
func (w *world) host() Host {
	return Host{
		OS: "linux", Root: w.root, UID: w.uid, PID: 999999, Getenv: func(n string) string { return w.env[n] },
		Lookup: func(_ context.Context, name string) (Account, error) {
			passwd := fmt.Sprintf("root:x:0:0:root:/root:/bin/sh\nada:x:%d:1000::/home/ada:/bin/sh\nbob:x:61001:1001::/home/bob:/bin/sh\n", ada())
			return ParsePasswd(passwd, "root:x:0:\nada:x:1000:\nbob:x:1001:\n", name)
		},
		Monotonic: func() (time.Duration, bool) { return bootedFor, true },
		Run:       w.run, Gateway: w, Sleep: func(context.Context, time.Duration) error { return nil },
	}
}

func (w *world) Identify(context.Context, string) (Identity, error) {
	p := w.load()
	switch {
	case p.PID == 0:
		return Identity{}, ErrNotRunning
	case p.Silent:
		return Identity{}, ErrSilent
	}
	return Identity{PID: p.PID}, nil
}
func (w *world) Announce(string, int) error { w.calls = append(w.calls, "announce"); return nil }
func (w *world) LastReason(string) string   { return w.load().Reason }
func (w *world) LastBeat(string) (int, time.Duration) {
	p := w.load()
	return p.Beat, time.Duration(p.BeatAge) * time.Second
}

// run plays systemctl, loginctl and the shell.
func (w *world) run(ctx context.Context, c Command) (Result, error) {
	if len(c.Env) == 0 {
		return Result{}, errors.New("a command without an environment")
	}
	words := slices.DeleteFunc(slices.Clone(c.Argv), func(s string) bool { return strings.HasPrefix(s, "--") })
	call := strings.Join(words, " ")
	if words[0] != "systemctl" || words[1] != "show" {
		w.calls = append(w.calls, strings.TrimPrefix(call, "systemctl "))
	}
	defer func() {
		if w.after != nil {
			w.after(w, words)
		}
	}()
	if len(words) > 1 {
		if msg, ok := w.fail[words[1]]; ok {
			return Result{Code: 1, Err: msg}, nil
		}
	}
	switch words[0] {
	case "systemctl":
		return w.systemctl(words[1], words[2:], c.Argv)
	case "loginctl":
		return w.loginctl(words[1], words[2])
	case "/bin/sh":
		return Result{Code: len(w.fail["reach"])}, ctx.Err()
	}
	return Result{Code: 1, Err: "not found"}, nil
}

func (w *world) dir(argv []string) string {
	if slices.Contains(argv, "--user") {
		return filepath.Join(w.root, "home/ada/.config/systemd/user")
	}
	return filepath.Join(w.root, "etc/systemd/system")
}

// text is what the manager would read of a unit; "" = there is no file.
func (w *world) text(dir, unit string) string {
	data, err := os.ReadFile(filepath.Join(dir, unit))
	if err != nil {
		return ""
	}
	drops, _ := filepath.Glob(filepath.Join(dir, unit+".d", "*.conf"))
	for _, d := range drops {
		more, _ := os.ReadFile(d)
		data = append(append(data, 0), more...)
	}
	return string(data)
}

func wantsLink(dir, unit string) string {
	if isSocket(unit) {
		return filepath.Join(dir, "sockets.target.wants", unit)
	}
	if strings.HasSuffix(dir, "user") {
		return filepath.Join(dir, "default.target.wants", unit)
	}
	return filepath.Join(dir, "multi-user.target.wants", unit)
}

func (w *world) systemctl(verb string, units, argv []string) (Result, error) {
	dir, unit := w.dir(argv), ""
	if len(units) > 0 {
		unit = units[len(units)-1]
	}
	text, p := w.text(dir, unit), w.load()
	defer func() { w.save(p) }()
	switch verb {
	case "show":
		return Result{Out: w.show(dir, unit, text, p)}, nil
	case "daemon-reload":
		p.Loaded = w.text(dir, "hermes-gateway.service")
	case "enable", "disable":
		return w.able(verb, dir, units), nil
	case "start":
		if isSocket(unit) {
			return w.opened(dir, unit, text, &p), nil
		}
		if p.Loaded == "" {
			p.Loaded = text
		}
		if p.Loaded == "" {
			return Result{Code: 5, Err: "Unit not found."}, nil
		}
		if p.Exit == 78 && p.Reason != "" {
			p.Failed = "exit-code"
			return Result{Code: 1, Err: "Job failed."}, nil
		}
		w.listen(dir, &p)
		if p.PID == 0 {
			p.Last++
			p.PID, p.Failed, p.Silent, p.Alive = p.Last, "", false, 0
		}
	case "stop":
		if _, open := p.Open[unit]; isSocket(unit) && text == "" && !open {
			return Result{Code: 5, Err: "Failed to stop " + unit + ": Unit " + unit + " not loaded."}, nil
		}
		if delete(p.Open, unit); !isSocket(unit) {
			p.PID = 0
		}
	case "reset-failed":
		p.Failed = ""
	case "kill":
		switch {
		case slices.Contains(argv, "--signal=SIGUSR1") && p.Pinned:
		case slices.Contains(argv, "--signal=SIGUSR1"): // it ends, and its manager starts it again
			w.listen(dir, &p)
			p.Last++
			p.PID = p.Last
		case slices.Contains(argv, "--signal=SIGTERM") && p.Silent:
		default:
			p.Last++
			p.PID, p.Silent, p.Alive = p.Last, false, 0
		}
	}
	return Result{}, nil
}

// able enables or disables units.
func (w *world) able(verb, dir string, units []string) Result {
	for _, unit := range units {
		link := wantsLink(dir, unit)
		if verb == "disable" {
			os.Remove(link)
			os.Remove(filepath.Dir(link))
			continue
		}
		if w.text(dir, unit) == "" {
			return Result{Code: 1, Err: "Unit file " + unit + " does not exist."}
		}
		os.MkdirAll(filepath.Dir(link), 0o755)
		if err := os.Symlink(strings.TrimPrefix(filepath.Join(dir, unit), w.root), link); err != nil && !errors.Is(err, fs.ErrExist) {
			return Result{Code: 1, Err: err.Error()}
		}
	}
	return Result{}
}

// opened is a socket that is started by itself.
func (w *world) opened(dir, unit, text string, p *played) Result {
	if text == "" || p.PID > 0 {
		return Result{Code: 1, Err: unit + ": Socket service hermes-gateway.service already active, refusing."}
	}
	w.listen(dir, p)
	return Result{}
}

// listen opens the sockets that the definition names, as the manager does ahead of each start.
func (w *world) listen(dir string, p *played) {
	main, _, _ := strings.Cut(p.Loaded, "\x00")
	u, err := service.ParseUnit(main)
	if err != nil {
		return
	}
	for _, line := range u.All("Service", "Sockets") {
		for unit := range strings.FieldsSeq(line) {
			s, err := service.ParseUnit(w.text(dir, unit))
			if _, open := p.Open[unit]; err != nil || open || w.taken || len(s.All("Socket", "ListenStream")) == 0 {
				continue
			}
			if p.Open == nil {
				p.Open = map[string]string{}
			}
			p.Open[unit] = s.All("Socket", "ListenStream")[0]
		}
	}
}

func (w *world) show(dir, unit, text string, p played) string {
	v := map[string]string{
		"LoadState": "loaded", "UnitFileState": "disabled", "ActiveState": "inactive", "SubState": "dead", "Result": "success", "MainPID": fmt.Sprint(p.PID),
		"NeedDaemonReload": "no", "TimeoutStopUSec": "1min 10s", "TimeoutStartUSec": "2min", "WatchdogUSec": "2min",
		"WatchdogTimestampMonotonic": fmt.Sprint((bootedFor - time.Duration(p.Alive)*time.Second).Microseconds()),
	}
	if text == "" && p.Loaded == "" {
		v["LoadState"] = "not-found"
	}
	if text != p.Loaded && p.Loaded != "" {
		v["NeedDaemonReload"] = "yes"
	}
	if to, err := os.Readlink(filepath.Join(dir, unit)); err == nil && to == "/dev/null" {
		v["LoadState"] = "masked"
	}
	if _, err := os.Lstat(wantsLink(dir, unit)); err == nil {
		v["UnitFileState"] = "enabled"
	}
	if p.PID > 0 {
		v["ActiveState"], v["SubState"] = "active", "running"
	}
	if unit != "hermes-gateway.socket" && w.socket != "" {
		v["TriggeredBy"] = "hermes-gateway.socket"
	} else if w.socket != "" {
		v["ActiveState"] = w.socket
	}
	if isSocket(unit) && w.socket == "" {
		_, open := p.Open[unit]
		v["ActiveState"], v["NeedDaemonReload"], v["MainPID"] = map[bool]string{true: "active", false: "inactive"}[open], "no", "0"
	} else if p.Failed != "" {
		v["ActiveState"], v["SubState"], v["Result"], v["ExecMainCode"], v["ExecMainStatus"] = "failed", "failed", p.Failed, "1", fmt.Sprint(p.Exit)
	}
	if p.Sub != "" && !isSocket(unit) {
		v["ActiveState"], v["SubState"] = "activating", p.Sub
	}
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(v)) {
		b.WriteString(k + "=" + v[k] + "\n")
	}
	return b.String()
}

func (w *world) loginctl(verb, name string) (Result, error) {
	mark := filepath.Join(w.root, "var/lib/systemd/linger", name)
	switch verb {
	case "enable-linger":
		os.MkdirAll(filepath.Dir(mark), 0o755)
		if err := os.WriteFile(mark, nil, 0o644); err != nil {
			return Result{}, err
		}
		w.bus(true)
	case "disable-linger":
		os.Remove(mark)
		os.Remove(filepath.Dir(mark))
		os.Remove(filepath.Dir(filepath.Dir(mark)))
		w.bus(false)
	case "show-user":
		return Result{Out: "no\n"}, nil
	}
	return Result{}, nil
}

// bus makes or removes the socket of the user's manager, where linger is what it depends on.
func (w *world) bus(on bool) {
	if w.user || w.uid == 0 {
		return
	}
	dir := filepath.Join(w.root, fmt.Sprintf("run/user/%d", w.uid))
	os.RemoveAll(dir)
	if on {
		os.MkdirAll(filepath.Join(dir, "systemd"), 0o700)
		os.WriteFile(filepath.Join(dir, "systemd/private"), nil, 0o600)
		if os.Getuid() == 0 {
			os.Chown(dir, w.uid, w.uid)
		}
	}
}

// request is an ordinary installation.
func (w *world) request(t testing.TB, c Choice, o Options) Request {
	t.Helper()
	target, standing, err := w.host().Resolve(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	s := service.Spec{
		Name: target.Name, Scope: target.Scope, Home: target.Home.Dir, Exec: []string{"/usr/local/bin/hermes-appliance", "gateway", "run"},
		Path: []string{"/usr/bin", "/bin"}, Watchdog: 2 * time.Minute, Hardening: w.host().Hardening(target),
	}
	if target.Scope == service.System {
		s.Account, s.Group, s.AccountHome, s.UID = target.Account.Name, target.Account.Group, target.Account.Home, target.Account.UID
	}
	return Request{Target: target, Standing: standing, Spec: s, Options: o}
}

// snapshot is everything that must be as before after something was undone.
func (w *world) snapshot(t testing.TB) map[string]string {
	t.Helper()
	tree := testkit.ReadTree(t, w.root)
	p := w.load()
	delete(tree, ".played")
	maps.DeleteFunc(tree, func(name, _ string) bool {
		return strings.HasSuffix(name, "service.lock") || strings.HasPrefix(name, "run/user")
	})
	tree["is loaded"], tree["runs"], tree["listens"] = p.Loaded, fmt.Sprint(p.PID > 0), fmt.Sprint(p.Open)
	return tree
}

func (w *world) mustInstall(t testing.TB, c Choice, o Options) Report {
	t.Helper()
	rep, err := w.host().Install(t.Context(), w.request(t, c, o))
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

// older makes the installed definition one that an older version of ours wrote.
func (w *world) older(t testing.TB) {
	t.Helper()
	path := filepath.Join(w.root, testUnit)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(string(data), "\n")
	old := service.Stamp("/home/ada/.hermes", strings.Replace(body, "RestartSec=100ms", "RestartSec=7", 1))
	if err := (atomicfile.Writer{}).Write(path, []byte(old), atomicfile.Options{}); err != nil {
		t.Fatal(err)
	}
	w.change(func(p *played) { p.Loaded = w.text(filepath.Dir(path), filepath.Base(path)) })
}

var systemWide = Choice{Scope: service.System, Home: "/home/ada/.hermes"}

// foreground is a gateway that somebody runs by hand.
type foreground struct{}

func (foreground) Identify(context.Context, string) (Identity, error) {
	return Identity{PID: 4711}, nil
}
func (foreground) Announce(string, int) error { return nil }
func (foreground) LastReason(string) string   { return "" }
func (foreground) LastBeat(string) (int, time.Duration) {
	return 0, 0
}

// signals has the calls of a world name the signals that were sent.
func signals(w *world) Runner {
	return func(ctx context.Context, c Command) (Result, error) {
		res, err := w.run(ctx, c)
		for _, a := range c.Argv {
			if sig, ok := strings.CutPrefix(a, "--signal=SIG"); ok {
				w.calls[len(w.calls)-1] += " " + sig
			}
		}
		return res, err
	}
}
