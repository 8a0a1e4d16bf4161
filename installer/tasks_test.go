// SPDX-License-Identifier: MIT

//go:build unix

package installer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
	"github.com/hermes-appliance/hermes-appliance/service"
)

const (
	taskFile    = "/Users/ada/.hermes/gateway-service/Hermes_Gateway.xml"
	taskScript  = "/Users/ada/.hermes/gateway-service/Hermes_Gateway.js"
	startupFile = "/Users/ada/AppData/Roaming/Microsoft/Windows/Start Menu/Programs/Startup/Hermes_Gateway.cmd"
)

// fakeTasks is a Windows that is played. It takes no command that the real one would not take in
// exactly this form.
type fakeTasks struct {
	script

	t        *testing.T
	task     string // that is registered; "" = none is
	pid      int
	next     int
	survives bool // the gateway outlives the end of its task
	dies     bool // the next one answers once and is gone
	refuse   map[string]Result
	hang     map[string]bool
	calls    []string
	spawned  [][]string
}

func newTasks(t *testing.T, f *fakeTasks) Host {
	t.Helper()
	f.t, f.next = t, 100
	h := f.script.host(t, "windows")
	h.Run, h.Gateway = f.run, f
	h.Getenv = func(n string) string {
		return map[string]string{"USERNAME": "ada", "USERDOMAIN": "WORKGROUP", "COMPUTERNAME": "PC", "SystemRoot": "/Windows"}[n]
	}
	h.Spawn = func(_ context.Context, d Detached) (int, error) {
		if len(d.Env) == 0 {
			t.Error("a program without an environment")
		}
		f.spawned = append(f.spawned, d.Argv)
		f.start()
		return 1, nil
	}
	return h
}

func (f *fakeTasks) start() {
	if _, err := os.Stat(filepath.Join(f.root, taskScript)); err != nil {
		f.t.Error(err)
	}
	f.next++
	f.pid = f.next
}

func (f *fakeTasks) Identify(context.Context, string) (Identity, error) {
	if f.pid == 0 {
		return Identity{}, ErrNotRunning
	}
	pid := f.pid
	if f.dies {
		f.pid = 0
	}
	return Identity{PID: pid}, nil
}

func (f *fakeTasks) Announce(string, int) error { f.calls = append(f.calls, "announce"); return nil }

func (f *fakeTasks) run(ctx context.Context, c Command) (Result, error) {
	argv := slices.Clone(c.Argv)
	for i := range argv {
		argv[i] = strings.ReplaceAll(argv[i], f.root, "")
	}
	verb := argv[1]
	if verb != "/Query" {
		f.calls = append(f.calls, strings.TrimPrefix(strings.Join(argv, " "), "schtasks "))
	}
	if f.hang[verb] {
		if _, ok := ctx.Deadline(); !ok {
			f.t.Error("it would hang for ever")
		}
		return Result{}, context.DeadlineExceeded
	}
	if res, ok := f.refuse[verb]; ok {
		return res, nil
	}
	if argv[0] == "taskkill" {
		if want := []string{"/PID", fmt.Sprint(f.pid), "/T", "/F"}; !slices.Equal(argv[1:], want) {
			f.t.Errorf("taskkill %q, want %q", argv[1:], want)
		}
		f.pid = 0
		return Result{}, nil
	}
	if argv[0] != "schtasks" || len(argv) < 4 || argv[2] != "/TN" || argv[3] != "Hermes_Gateway" {
		f.t.Errorf("an unknown command: %q", argv)
	}
	return f.schtasks(verb, argv[4:]), nil
}

func (f *fakeTasks) schtasks(verb string, args []string) Result {
	missing := Result{Code: 1, Err: "ERROR: The system cannot find the file specified."}
	want := map[string][]string{"/Query": {"/XML"}, "/Create": {"/XML", taskFile, "/F"}, "/Delete": {"/F"}}[verb]
	if !slices.Equal(args, want) {
		if verb == "/Create" && slices.Contains(args, "/IT") && slices.Contains(args, "/NP") {
			return Result{Code: 1, Err: "ERROR: Invalid syntax."}
		}
		f.t.Errorf("%s %q, want %q", verb, args, want)
	}
	if verb == "/Create" {
		if f.task != "" {
			f.t.Error("changed in place")
		}
		data, err := os.ReadFile(filepath.Join(f.root, taskFile))
		if err != nil {
			f.t.Error(err)
		}
		f.task = rewritten(utf16Text(data))
		return Result{}
	}
	if f.task == "" {
		return missing
	}
	switch verb {
	case "/Query":
		return Result{Out: f.task}
	case "/Delete":
		f.task = ""
	case "/Run":
		f.start()
	case "/End":
		if !f.survives {
			f.pid = 0
		}
	default:
		f.t.Errorf("an unknown verb: %s", verb)
	}
	return Result{}
}

// rewritten is a definition as the scheduler gives it back: its own names for people, defaults
// left out, and what it adds.
func rewritten(text string) string {
	return strings.NewReplacer(
		`<UserId>PC\ada</UserId>`, "<UserId>S-1-5-21-1-2-3-1001</UserId>",
		"<MultipleInstancesPolicy>IgnoreNew</MultipleInstancesPolicy>", "", "<AllowHardTerminate>true</AllowHardTerminate>", "", "<Priority>7</Priority>", "",
		"<RunLevel>LeastPrivilege</RunLevel>", "", "<Settings>", "<Settings><IdleSettings><StopOnIdleEnd>true</StopOnIdleEnd></IdleSettings><Hidden>false</Hidden>",
	).Replace(text)
}

func (f *fakeTasks) mutations() []string {
	out := f.calls
	f.calls = nil
	return out
}

func (f *fakeTasks) there(path string) bool {
	_, err := os.Stat(filepath.Join(f.root, path))
	return err == nil
}

// deny has access denied.
func deny() Result { return Result{Code: 1, Err: "FEHLER: Zugriff verweigert"} }

const createTask = "/Create /TN Hermes_Gateway /XML " + taskFile + " /F"

// TestTasks: registered anew each time, never changed in place (services spec §1.5); what the
// scheduler makes of a definition is no difference.
func TestTasks(t *testing.T) {
	t.Parallel()
	f := &fakeTasks{survives: true}
	h := newTasks(t, f)
	r := f.request(t, h)
	if r.Target.Scope != service.User || r.Target.Unit() != "Hermes_Gateway" {
		t.Fatalf("%+v", r.Target)
	}
	if rep, err := h.Install(t.Context(), r); err != nil || rep.Observed.State != Ready {
		t.Fatalf("%v %+v", err, rep.Observed)
	}
	if got, want := f.mutations(), []string{createTask, "/Run /TN Hermes_Gateway"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if rep, err := h.Preview(t.Context(), f.request(t, h)); err != nil || rep.Plan.Pending() {
		t.Errorf("a second time: %v %q", err, steps(rep.Plan))
	}
	r.Spec.Exec = []string{"/opt/new/hermes-appliance", "gateway", "run"}
	was := f.pid
	if rep, err := h.Install(t.Context(), r); err != nil || rep.Observed.State != Ready || f.pid == was {
		t.Fatalf("%v %+v", err, rep.Observed)
	}
	want := []string{
		"/Delete /TN Hermes_Gateway /F", createTask, "announce", "/End /TN Hermes_Gateway", fmt.Sprintf("taskkill /PID %d /T /F", was), "/Run /TN Hermes_Gateway",
	}
	if got := f.mutations(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	f.task = strings.Replace(f.task, "<Enabled>true</Enabled>\r\n  </Settings>", "<Enabled>false</Enabled></Settings>", 1)
	if p, err := h.manager(r.Target).Show(t.Context(), "Hermes_Gateway"); err != nil || p.Enabled {
		t.Errorf("switched off: %+v %v", p, err)
	}
	if _, err := h.Uninstall(t.Context(), r.Target, false, false); err != nil || f.task != "" || f.pid != 0 {
		t.Errorf("%v, task %q, process %d", err, f.task, f.pid)
	}
	if f.there("/Users/ada/.hermes/gateway-service") {
		t.Error("files are left")
	}
}

// TestReport27_TaskSettings: H#35692, H#45599. Not killed after 72 hours or on battery, and without
// a window that somebody could close.
func TestReport27_TaskSettings(t *testing.T) {
	t.Parallel()
	f := &fakeTasks{}
	h := newTasks(t, f)
	d, err := h.Desired(f.request(t, h).Spec, f.request(t, h).Target, Options{})
	if err != nil {
		t.Fatal(err)
	}
	v := taskXML(utf16Text(d.Files[0].Data))
	for place, want := range map[string]string{
		"Settings/ExecutionTimeLimit": "PT0S", "Settings/StopIfGoingOnBatteries": "false", "Settings/DisallowStartIfOnBatteries": "false",
		"Actions/Exec/Command": "wscript.exe", "Actions/Exec/Arguments": "//B //Nologo //E:JScript " + taskScript,
	} {
		if got := v[place]; !slices.Equal(got, []string{want}) {
			t.Errorf("%s: got %q, want %q", place, got, want)
		}
	}
	if text := string(d.Files[1].Data); d.Files[1].Path != taskScript || !strings.Contains(text, `"/opt/hermes-appliance gateway run", 0, true)`) {
		t.Errorf("%s\n%s", d.Files[1].Path, text)
	}
}

// TestReport28_TaskVariants: H#89807. Every form of registering is tried, none with both words; the
// fallback is reached, a task that is registered later takes its place, and never are there both
// (H#80569). A definition names a SID, or the machine where there is no domain.
func TestReport28_TaskVariants(t *testing.T) {
	t.Parallel()
	forms := []string{createTask, createTask + ` /RU PC\ada /NP`, createTask + ` /RU PC\ada /IT`}
	for name, c := range map[string]struct {
		create Result
		hang   bool
		want   []string
	}{
		"denied":            {deny(), false, forms[:1]},
		"not allowed":       {Result{Code: 1223, Err: "?"}, false, forms[:1]},
		"hangs":             {Result{}, true, forms[:1]},
		"no form is taken":  {Result{Code: 1, Err: "ERROR: No mapping between account names and security IDs was done."}, false, forms},
		"denied in Russian": {Result{Code: 1, Err: "ОШИБКА: Отказано в доступе."}, false, forms[:1]},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fakeTasks{refuse: map[string]Result{"/Create": c.create}, hang: map[string]bool{"/Create": c.hang}}
			h := newTasks(t, f)
			rep, err := h.Install(t.Context(), f.request(t, h))
			if err != nil || rep.Observed.State != Ready || !f.there(startupFile) {
				t.Fatalf("%v %+v", err, rep.Observed)
			}
			if got := f.mutations(); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if want := [][]string{{"wscript.exe", "//B", "//Nologo", "//E:JScript", taskScript}}; !slices.EqualFunc(f.spawned, want, slices.Equal) {
				t.Errorf("started %q", f.spawned)
			}
			if all := strings.Join(rep.Plan.Notices, "|"); !strings.Contains(all, "Startup folder starts it") {
				t.Errorf("nobody is told: %s", all)
			}
			if rep, err := h.Preview(t.Context(), f.request(t, h)); err != nil || rep.Plan.Pending() {
				t.Errorf("a second time: %v %q", err, steps(rep.Plan))
			}
			out, err := h.Restart(t.Context(), rep.Observed)
			if err != nil || out.Did != "restarted" || len(f.spawned) != 2 {
				t.Errorf("%v %+v", err, out)
			}
			f.refuse, f.hang = nil, nil
			if _, err := h.Uninstall(t.Context(), rep.Observed.Target, false, false); err != nil || f.there(startupFile) || f.pid != 0 {
				t.Errorf("taken off: %v", err)
			}
			testkit.WriteTree(t, f.root, map[string]string{startupFile: ""}) // as upstream may have left it
			if _, err := h.Install(t.Context(), f.request(t, h)); err != nil || f.there(startupFile) || f.task == "" {
				t.Errorf("a task at last: %v", err)
			}
		})
	}
	h := Host{Getenv: func(n string) string { return map[string]string{"USERDOMAIN": "CORP", "COMPUTERNAME": "PC"}[n] }}
	for want, a := range map[string]Account{"S-1-5-21-9": {Name: "ada", SID: "S-1-5-21-9"}, `CORP\ada`: {Name: "ada"}, `X\ada`: {Name: `X\ada`}} {
		if got := taskUser(h, a); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestTasksNeverTwice: while a task is registered, or may be, the Startup folder gets nothing
// (H#80569).
func TestTasksNeverTwice(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		task   string
		refuse map[string]Result
		hang   map[string]bool
		kept   bool // the scheduler's own file of the task is there
		entry  bool
	}{
		"it cannot be deleted":          {"<Task/>", map[string]Result{"/Delete": deny()}, nil, true, false},
		"nobody can ask, and it stands": {"<Task/>", map[string]Result{"/Query": deny(), "/Create": deny()}, nil, true, false},
		"it hangs, and it stands":       {"<Task/>", nil, map[string]bool{"/Query": true, "/Create": true}, true, false},
		"it hangs, and none stands":     {"", nil, map[string]bool{"/Query": true, "/Create": true}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fakeTasks{task: c.task, refuse: c.refuse, hang: c.hang}
			h := newTasks(t, f)
			if c.kept {
				testkit.WriteTree(t, f.root, map[string]string{"Windows/System32/Tasks/Hermes_Gateway": ""})
			}
			testkit.WriteTree(t, f.root, map[string]string{filepath.Dir(startupFile) + "/": ""})
			err := h.manager(f.request(t, h).Target).Enable(t.Context(), "Hermes_Gateway")
			if (err == nil) != c.entry || f.there(startupFile) != c.entry {
				t.Errorf("%v, entry %v", err, f.there(startupFile))
			}
		})
	}
}

// TestReport29_TaskReconciled: H#113670. A registered task is compared with what it shall be, and
// one that differs is registered anew; with what the scheduler itself makes of it nothing is done.
func TestReport29_TaskReconciled(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		old, new string
		differs  bool
	}{
		"as it gives it back":               {"", "", false},
		"killed after 72 hours":             {"<ExecutionTimeLimit>PT0S</ExecutionTimeLimit>", "", true},
		"killed on battery":                 {"<StopIfGoingOnBatteries>false</StopIfGoingOnBatteries>", "", true},
		"restarted every minute":            {"<Delay>PT30S</Delay>", "<Delay>PT30S</Delay><Repetition><Interval>PT1M</Interval></Repetition>", true},
		"runs another program":              {"wscript.exe", "cmd.exe", true},
		"runs with more rights":             {"<LogonType>", "<RunLevel>HighestAvailable</RunLevel><LogonType>", true},
		"starts beside one that runs":       {"<StartWhenAvailable>", "<MultipleInstancesPolicy>Parallel</MultipleInstancesPolicy><StartWhenAvailable>", true},
		"says a default":                    {"<StartWhenAvailable>", "<WakeToRun>false</WakeToRun><StartWhenAvailable>", false},
		"has another description":           {"<Description>", "<Author>x</Author><Description>", false},
		"has a second action of its own":    {"</Actions>", "<Exec><Command>x</Command></Exec></Actions>", true},
		"is no definition that can be read": {"<Task", "<X", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fakeTasks{}
			h := newTasks(t, f)
			if _, err := h.Install(t.Context(), f.request(t, h)); err != nil {
				t.Fatal(err)
			}
			if c.old != "" && !strings.Contains(f.task, c.old) {
				t.Fatalf("no %s in %s", c.old, f.task)
			}
			f.task = strings.Replace(f.task, c.old, c.new, 1)
			f.mutations()
			rep, err := h.Install(t.Context(), f.request(t, h))
			if err != nil || rep.Applied != c.differs || rep.Observed.Props.Stale {
				t.Errorf("%v, applied %v, %+v", err, rep.Applied, rep.Observed.Props)
			}
			if got := f.mutations(); c.differs != slices.Contains(got, createTask) {
				t.Errorf("got %q", got)
			}
		})
	}
}

// TestReport30_OnlyOurs: H#97208. What is ended is the process that answers for this home; where none
// does, nothing is, and no name or number of another is ever given.
func TestReport30_OnlyOurs(t *testing.T) {
	t.Parallel()
	f := &fakeTasks{}
	h := newTasks(t, f)
	if _, err := h.Install(t.Context(), f.request(t, h)); err != nil {
		t.Fatal(err)
	}
	f.pid = 0
	f.mutations()
	if err := h.manager(f.request(t, h).Target).Stop(t.Context(), "Hermes_Gateway"); err != nil {
		t.Fatal(err)
	}
	if got, want := f.mutations(), []string{"/End /TN Hermes_Gateway"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestTasksStays: a process that answers and is gone at once is not one that was started (services
// spec §1.5).
func TestTasksStays(t *testing.T) {
	t.Parallel()
	f := &fakeTasks{dies: true}
	h := newTasks(t, f)
	_, err := h.Install(t.Context(), f.request(t, h))
	if err == nil || f.task != "" || f.there("/Users/ada/.hermes/gateway-service") {
		t.Errorf("%v, task %q", err, f.task)
	}
}

// TestTasksDenied: "access denied" in the languages of schtasks.
func TestTasksDenied(t *testing.T) {
	t.Parallel()
	for _, said := range []string{
		"ERROR: Access is denied.", "FEHLER: Zugriff verweigert", "ERREUR : Accès refusé.", "ERROR: Acceso denegado.", "ERRORE: Accesso negato.",
		"ERRO: Acesso negado.", "ОШИБКА: Отказано в доступе.", "错误: 拒绝访问。",
	} {
		if !denied(&commandError{[]string{"schtasks"}, Result{Code: 1, Err: said}}) {
			t.Errorf("%q is not understood", said)
		}
	}
	if denied(&commandError{[]string{"schtasks"}, Result{Code: 1, Err: "The network path was not found."}}) || denied(errors.New("x")) {
		t.Error("anything is taken for it")
	}
}

// TestDecoded: what Windows prints is read in the likeliest of its encodings.
func TestDecoded(t *testing.T) {
	t.Parallel()
	conv := func(page uint32, text []byte) (string, bool) {
		if page == 866 {
			return "Отказано в доступе", string(text) == "\x8e\xe2"
		}
		return "", false
	}
	for in, want := range map[string]string{
		"Accès refusé": "Accès refusé", "\xff\xfeA\x00\xe9\x00": "Aé", "\x8e\xe2": "Отказано в доступе", "a\xffb": "a\ufffdb", "": "",
	} {
		if got := decoded([]byte(in), []uint32{437, 866, 0}, conv); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}
