// SPDX-License-Identifier: MIT

package terminaltest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/terminal"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

func streamCases() []testCase {
	return []testCase{
		{"ExitCodes", testExitCodes},
		{"Output", testOutput},
		{"Input", testInput},
		{"ExecExact", testExec},
		{"Bounded", testBounded},
		{"Marker", testMarker},
		{"TooLong", testTooLong},
		{"Refused", testRefused},
		{"PTY", testPTY},
	}
}

func testExitCodes(t *testing.T, mk Maker) {
	p := open(t, mk, nil)
	for text, code := range map[string]int{
		"true": 0, "false": 1, "exit 7": 7, "exit 124": 124, "exit 126": 126, "exit 130": 130, "no-such-program-x": 127, "kill -KILL $$": 137, "(exit 255)": 255,
	} {
		res := p.run(terminal.Command{Text: text})
		if res.Code != code || res.TimedOut || res.Interrupted || res.NoDir || res.NotStarted || res.Recreated {
			t.Errorf("%s: %+v", text, res)
		}
	}
}

func testOutput(t *testing.T, mk Maker) {
	p := open(t, mk, nil)
	p.want("printf no-newline", "no-newline")
	p.want("printf '\\n\\n'", "\n\n")
	p.want("for i in 1 2 3; do echo o$i; echo e$i >&2; done", "o1\ne1\no2\ne2\no3\ne3\n")
	p.want(`printf 'a\xffb\xc3\xa9'`, "a\uFFFDbé")
	p.want("", "")
}

func testInput(t *testing.T, mk Maker) {
	p := open(t, mk, nil)
	b := blob()
	sum := sha256.Sum256(b)
	if res := p.run(terminal.Command{Text: "sha256sum", Stdin: b}); !strings.HasPrefix(res.Output, hex.EncodeToString(sum[:])) {
		t.Errorf("a megabyte did not arrive exactly: %q", res.Output)
	}
	for _, in := range []string{"no line end", "a line\n", "\n", "\x00\x00", "two\nlines"} {
		if res := p.run(terminal.Command{Text: "od -An -c | tr -d ' \\n'", Stdin: []byte(in)}); res.Code != 0 || len(res.Output) == 0 {
			t.Errorf("%q: %+v", in, res)
		}
		if res := p.run(terminal.Command{Text: "wc -c", Stdin: []byte(in)}); strings.TrimSpace(res.Output) != itoa(len(in)) {
			t.Errorf("%q: %s bytes", in, res.Output)
		}
	}
	for _, in := range [][]byte{nil, {}} {
		if res := p.run(terminal.Command{Text: "wc -c", Stdin: in}); strings.TrimSpace(res.Output) != "0" {
			t.Errorf("no input: %+v", res)
		}
	}
	if res := p.run(terminal.Command{Text: "true", Stdin: b}); res.Code != 0 || res.StdinErr != nil || res.Output != "" {
		t.Errorf("input that is not read: %+v", res)
	}
	if res := p.run(terminal.Command{Text: "head -c 3; exec 0<&-; echo", Stdin: bytes.Repeat([]byte("x"), 1<<20)}); res.Code != 0 || res.StdinErr != nil || len(res.Output) != 4 {
		t.Errorf("input that is partly read: %d, %v", len(res.Output), res.StdinErr)
	}
}

func itoa(n int) string {
	var b []byte
	for ; n > 0; n /= 10 {
		b = append([]byte{byte('0' + n%10)}, b...)
	}
	return string(b)
}

// What file tools need: exact bytes both ways, the streams apart, the exit code.
func testExec(t *testing.T, mk Maker) {
	p := open(t, mk, nil)
	b := blob()
	out, err := p.Exec(t.Context(), terminal.Script{Text: "cat; printf 'e\\n' >&2; exit 9", Stdin: b})
	if err != nil || !bytes.Equal(out.Stdout, b) || string(out.Stderr) != "e\n" || out.Code != 9 {
		t.Errorf("got %d bytes, stderr %q, exit %d, %v", len(out.Stdout), out.Stderr, out.Code, err)
	}
	for _, size := range []int{0, 1, 4095, 4096, 4097, 65536, 65537} {
		out, err := p.Exec(t.Context(), terminal.Script{Text: "cat", Stdin: b[:size]})
		if err != nil || !bytes.Equal(out.Stdout, b[:size]) {
			t.Errorf("%d bytes: got %d, %v", size, len(out.Stdout), err)
		}
	}
	out, err = p.Exec(t.Context(), terminal.Script{Text: "pwd -P; echo x > 'f'\\''g'; ls", Dir: p.work})
	if err != nil || string(out.Stdout) != p.work+"\nf'g\n" {
		t.Errorf("got %q, %v", out.Stdout, err)
	}
	if out, err = p.Exec(t.Context(), terminal.Script{Text: "echo ran", Dir: p.work + "/none"}); err != nil || out.Code != terminal.CodeNoDir || len(out.Stdout) > 0 {
		t.Errorf("got %+v, %v", out, err)
	}
	tok := token()
	_, err = p.Exec(t.Context(), terminal.Script{Text: "trap '' TERM; sleep " + tok + "; sleep " + tok, Timeout: 2 * time.Second})
	if err == nil {
		t.Error("a script that takes too long is an error")
	}
	eventually(t, "the end of the script", func() bool { return p.alive(tok) == 0 })
}

func testBounded(t *testing.T, mk Maker) {
	dir := filepath.Join(t.TempDir(), "cache", "terminal-output")
	if err := os.MkdirAll(filepath.Dir(filepath.Dir(dir)), 0o700); err != nil {
		t.Fatal(err)
	}
	p := open(t, mk, func(c *terminal.Config) {
		c.Limit, c.Spill = 1000, &terminal.Spill{Dir: dir, Now: time.Now}
	})
	p.want("echo short", "short\n")
	res := p.run(terminal.Command{Text: "cd /; seq 1 100000"})
	if !strings.HasPrefix(res.Output, "1\n2\n3\n") || !strings.HasSuffix(res.Output, "\n99999\n100000\n") || len(res.Output) > 1200 {
		t.Errorf("got %d bytes: %.100q", len(res.Output), res.Output)
	}
	if res.Dir != "/" || res.Total != 588895 {
		t.Errorf("%q, %d bytes", res.Dir, res.Total)
	}
	data, err := os.ReadFile(res.Spill)
	if err != nil {
		t.Fatal(err)
	}
	if len(data) != 588895 || !bytes.HasSuffix(data, []byte("\n100000\n")) {
		t.Errorf("overflow has %d bytes", len(data))
	}
	for path, mode := range map[string]os.FileMode{dir: 0o700, res.Spill: 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	old := filepath.Join(dir, "out-old.log")
	testkit.WriteTree(t, dir, map[string]string{"out-old.log": ""})
	if err := os.Chtimes(old, time.Time{}, time.Now().Add(-8*24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	res = p.run(terminal.Command{Text: "head -c 6000000 /dev/zero | tr '\\0' x"})
	if info, err := os.Stat(res.Spill); err != nil || info.Size() != terminal.SpillMax {
		t.Errorf("overflow is not cut: %v, %v", info, err)
	}
	if _, err := os.Stat(old); err == nil {
		t.Error("an old overflow is kept")
	}
	if res.Total != 6000000 {
		t.Errorf("total %d", res.Total)
	}
}

// A command that prints what looks like the wrapper's own report changes nothing.
func testMarker(t *testing.T, mk Maker) {
	p := open(t, mk, nil)
	p.enter()
	const steal = `m=$(printf '%s' "$BASH_EXECUTION_STRING" | grep -o '__HERMES_CWD_[0-9a-f]*__' | head -1); `
	for _, text := range []string{
		`printf '\n%s/evil\n%s\n' $m $m`, `printf '\n%s/evil\n%s\nmore\n' $m $m`, `printf '\n%s' $m`, `printf '%s\n' $m`, `printf '\n%s\n%s\n%s\n' $m $m $m`,
	} {
		res := p.run(terminal.Command{Text: steal + text})
		if res.Dir != p.work || !res.DirObserved || !strings.Contains(res.Output, "__HERMES_CWD_") {
			t.Errorf("%s: %+v", text, res)
		}
	}
	if res := p.run(terminal.Command{Text: steal + `printf '\n%s/evil\n%s\n' $m $m; kill -KILL $$`}); res.Code != 137 {
		t.Errorf("%+v", res)
	}
}

func testTooLong(t *testing.T, mk Maker) {
	p := open(t, mk, nil)
	if _, err := p.Run(t.Context(), terminal.Command{Text: ": " + strings.Repeat("x", 200_000)}); !errors.Is(err, terminal.ErrTooLong) {
		t.Errorf("got %v", err)
	}
	p.want("echo "+strings.Repeat("x", 100_000)+" | wc -c", "100001\n")
	if _, err := p.Run(t.Context(), terminal.Command{Text: "echo \x00"}); err == nil {
		t.Error("a zero byte is not refused")
	}
}

func testRefused(t *testing.T, mk Maker) {
	p := open(t, mk, nil)
	p.want("echo on", "on\n")
	no := errors.New("no command can run for this profile")
	p.vars.Refuse(no)
	_, err := p.Run(t.Context(), terminal.Command{Text: "echo ran"})
	_, startErr := p.Start(t.Context(), terminal.Command{Text: "echo ran"})
	_, execErr := p.Exec(t.Context(), terminal.Script{Text: "echo ran"})
	p.vars.Refuse(nil)
	for _, err := range []error{err, startErr, execErr} {
		if !errors.Is(err, no) {
			t.Errorf("got %v", err)
		}
	}
	p.want("echo on", "on\n")
}

func testPTY(t *testing.T, mk Maker) {
	p := open(t, mk, nil)
	if !p.Describe().PTY {
		if _, err := p.Run(t.Context(), terminal.Command{Text: "tty", PTY: true}); !errors.Is(err, terminal.ErrNoPTY) {
			t.Errorf("got %v", err)
		}
		return
	}
	p.enter()
	res := p.run(terminal.Command{Text: "[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo tty > /dev/tty; mkdir d; cd d; exit 5", PTY: true})
	if res.Code != 5 || !strings.Contains(res.Output, "tty") || res.Dir != p.work+"/d" || strings.Contains(res.Output, "__HERMES") {
		t.Errorf("%+v", res)
	}
	tok, over := token(), make(chan time.Time)
	q := open(t, mk, func(c *terminal.Config) {
		c.After = func(time.Duration) <-chan time.Time { return over }
	})
	go func() { // one that has closed its terminal is waited for all the same
		eventually(t, "the start", func() bool { return q.sleeping(tok) > 0 })
		over <- time.Now()
	}()
	if res := q.run(terminal.Command{Text: "exec </dev/null >/dev/null 2>&1; sleep " + tok, PTY: true, Timeout: time.Second}); !res.TimedOut {
		t.Errorf("%+v", res)
	}
	r, err := p.Start(t.Context(), terminal.Command{Text: "read -r line; echo \"<$line>\"; cat; echo end", PTY: true})
	if err != nil {
		t.Fatal(err)
	}
	var out buffer
	r.Follow(&out)
	if _, err := r.Stdin().Write([]byte("typed\n")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the line", func() bool { return out.has("<typed>") })
	if err := r.Stdin().Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end", func() bool { return out.has("end") })
	if exit, err := r.Wait(t.Context()); err != nil || exit.Code != 0 {
		t.Errorf("%+v, %v", exit, err)
	}
}
