// SPDX-License-Identifier: MIT

package secret

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The tests run vaults' CLIs for real, as children. The programs are this test binary under
// another name (a link in a directory that is the child's PATH): they take the argv and the
// environment they are told to expect in <name>.json beside them, every variable of it, and
// refuse anything else with exit 97.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "op", "bws", "helper":
		syscall.Exit(fakeMain()) // not os.Exit: the race detector would take a second to end
	case "sleeper":
		time.Sleep(time.Hour)
	case "panicker":
		panic(Value{Name: "N", Text: Wrap(canary)})
	case "panicker2":
		panic(Wrap(canary))
	}
	os.Exit(m.Run())
}

// fake is a program of the tests.
type fake struct {
	Argv  []string          // after the name; nil = op read of one of Items
	Env   map[string]string // complete
	Stdin string
	Items map[string]string // op: reference -> value
	Mode  string            // "" = print; hang, flood, hold, tree
	Out   string
	Err   string
	Code  int
}

// install puts a program into dir.
func install(tb testing.TB, dir, name string, f fake) {
	tb.Helper()
	self, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	data, err := json.Marshal(f)
	if err != nil {
		tb.Fatal(err)
	}
	path := filepath.Join(dir, name)
	_ = os.Remove(path)
	if err := os.Symlink(self, path); err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(path+".json", data, 0o600); err != nil {
		tb.Fatal(err)
	}
}

func fakeMain() int {
	var f fake
	data, err := os.ReadFile(os.Args[0] + ".json")
	if err == nil {
		err = json.Unmarshal(data, &f)
	}
	if err != nil {
		return refuse("%v", err)
	}
	if env := split(os.Environ()); !maps.Equal(env, f.Env) {
		return refuse("environment %v, want %v", env, f.Env)
	}
	in, err := io.ReadAll(os.Stdin)
	if err != nil || string(in) != f.Stdin {
		return refuse("stdin %q, want %q", in, f.Stdin)
	}
	out := f.Out
	if f.Argv != nil {
		if !slices.Equal(os.Args[1:], f.Argv) {
			return refuse("argv %q, want %q", os.Args[1:], f.Argv)
		}
	} else {
		if len(os.Args) != 4 || os.Args[1] != "read" || os.Args[2] != "--" {
			return refuse("argv %q", os.Args)
		}
		item, ok := f.Items[os.Args[3]]
		if !ok {
			fmt.Fprintf(os.Stderr, "[ERROR] %q isn't an item in this vault\n", os.Args[3])
			return 1
		}
		out = item + "\n"
	}
	return f.act(out)
}

func (f fake) act(out string) int {
	switch f.Mode {
	case "hang", "tree":
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP)
		if f.Mode == "tree" {
			sleeper()
		}
		time.Sleep(time.Hour)
	case "flood":
		signal.Ignore(syscall.SIGPIPE)
		for block := bytes.Repeat([]byte("A=B\n"), 16<<10); ; {
			if _, err := os.Stdout.Write(block); err != nil {
				time.Sleep(time.Hour) // a program that does not care
			}
		}
	case "hold":
		sleeper()
	}
	fmt.Fprint(os.Stdout, out)
	fmt.Fprint(os.Stderr, f.Err)
	return f.Code
}

// sleeper starts a descendant that holds the output open, and notes its pid.
func sleeper() {
	self, _ := os.Executable()
	cmd := &exec.Cmd{Path: self, Args: []string{"sleeper"}, Env: []string{}, Stdout: os.Stdout, Stderr: os.Stderr}
	if err := cmd.Start(); err != nil {
		os.Exit(refuse("%v", err))
	}
	if err := os.WriteFile(os.Args[0]+".pid", fmt.Append(nil, cmd.Process.Pid), 0o600); err != nil {
		os.Exit(refuse("%v", err))
	}
}

func refuse(format string, a ...any) int {
	text := fmt.Sprintf(format, a...)
	fmt.Fprintln(os.Stderr, text)
	_ = os.WriteFile(os.Args[0]+".refused", []byte(text), 0o600)
	return 97
}

// refused fails the test if a program was called in a way that it does not know.
func refused(t *testing.T, dir string) {
	t.Helper()
	paths, _ := filepath.Glob(filepath.Join(dir, "*.refused"))
	for _, p := range paths {
		text, _ := os.ReadFile(p)
		t.Errorf("%s: %s", strings.TrimSuffix(filepath.Base(p), ".refused"), text)
	}
}
