// SPDX-License-Identifier: MIT

package terminaltest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/process"
	"github.com/hermes-appliance/hermes-appliance/appliance/terminal"
)

func stateCases() []testCase {
	return []testCase{
		{"State", testState},
		{"StateAfterExit", testStateAfterExit},
		{"Dirs", testDirs},
		{"DirMissing", testDirMissing},
		{"DirDeleted", testDirDeleted},
		{"Sessions", testSessions},
		{"ReportB71296MultiLineValue", testMultiLine},
		{"NeverKept", testNeverKept},
		{"Scoped", testScoped},
		{"Values", testValues},
		{"ReportB3587Heredoc", testHeredoc},
		{"HostileShell", testHostileShell},
		{"LoginFiles", testLoginFiles},
		{"LoginBroken", testLoginBroken},
		{"ReportB9147WarmUp", testWarmUp},
		{"SnapshotUnderKill", testSnapshotKill},
		{"SnapshotLost", testSnapshotLost},
		{"Sudo", testSudo},
	}
}

func testState(t *testing.T, mk Maker) {
	p := open(t, mk, nil)
	p.want(`export A='two
lines' B="it's \"x\" \$y"; hi() { printf 'hi %s\n' "$1"; }; _private() { :; }; __kept() { echo kept; }
exported() { echo exported; }; export -f exported; alias ll='echo listed'; set -eu`, "")
	p.want(`printf '%s|%s' "$A" "$B"`, "two\nlines|it's \"x\" $y")
	p.want("hi you; __kept", "hi you\nkept\n")
	p.want("bash -c exported", "exported\n")
	p.want("ll", "listed\n")
	p.want("declare -F _private || echo none", "none\n")
	p.want("false; echo $unset on", "on\n")
	p.want("unset A; unset -f hi; unalias ll", "")
	p.want("echo ${A-gone}; type hi ll >/dev/null 2>&1 || echo gone", "gone\ngone\n")
	p.want("PATH=$PATH:/added", "")
	p.want(`case $PATH in *:/added) echo yes;; esac`, "yes\n")
}

// A command may call exit, or fail under set -e: what it did before counts all the same.
func testStateAfterExit(t *testing.T, mk Maker) {
	p := open(t, mk, nil)
	p.enter()
	for i, text := range []string{"mkdir e$N; cd e$N; export V=$N; exit 3", "mkdir e$N; cd e$N; export V=$N; set -e; false; echo no"} {
		n := fmt.Sprint(i)
		res := p.run(terminal.Command{Text: "N=" + n + "\n" + text})
		if res.Code == 0 || !res.DirObserved || !strings.HasSuffix(res.Dir, "/e"+n) {
			t.Errorf("%s: %+v", text, res)
		}
		p.want("echo $V; cd ..", n+"\n")
	}
	res := p.run(terminal.Command{Text: "trap 'echo bye' EXIT; echo hi; exit 4"})
	if res.Code != 4 || res.Output != "hi\nbye\n" {
		t.Errorf("a trap of the command's own: %+v", res)
	}
	res = p.run(terminal.Command{Text: "trap 'echo bye' EXIT; echo hi"})
	if res.Code != 0 || res.Output != "hi\nbye\n" || !res.DirObserved {
		t.Errorf("a trap of the command's own, and no exit: %+v", res)
	}
}

func testDirs(t *testing.T, mk Maker) {
	p := open(t, mk, nil)
	p.enter()
	for _, name := range []string{"plain", "with space", "it's", `"quoted"`, "new\nline", "end\n", "~", "-n", "$HOME", "日本", "a;b", `back\slash`, "*"} {
		q := terminal.Quote(name)
		res := p.run(terminal.Command{Text: "mkdir -p -- ./" + q + " && cd -- ./" + q})
		if want := p.work + "/" + name; res.Dir != want || !res.DirObserved || res.Output != "" || p.Dir("") != want {
			t.Errorf("%q: got %q (%v), %q, want %q", name, res.Dir, res.DirObserved, res.Output, want)
		}
		p.want("touch here; cd ..", "")
		p.want("ls ./"+q, "here\n")
		if res := p.run(terminal.Command{Text: "ls", Dir: p.work + "/" + name}); res.Output != "here\n" || res.Code != 0 {
			t.Errorf("%q given: %+v", name, res)
		}
	}
	if p.Dir("") != p.work {
		t.Errorf("a directory of one command's own moved the session to %q", p.Dir(""))
	}
	home := strings.TrimSuffix(p.run(terminal.Command{Text: "cd; pwd -P; cd -- " + terminal.Quote(p.work)}).Output, "\n")
	p.script("mkdir -p -- ~/"+terminal.Quote("~/x y-"+p.work[len(p.work)-8:]), nil)
	defer p.script("rm -rf -- ~/'~'", nil)
	for dir, want := range map[string]string{"~": home, "~/": home, "~/~/x y-" + p.work[len(p.work)-8:]: home + "/~/x y-" + p.work[len(p.work)-8:]} {
		if res := p.run(terminal.Command{Text: "pwd -P", Dir: dir}); res.Output != want+"\n" {
			t.Errorf("%q: got %q, want %q", dir, res.Output, want)
		}
	}
	p.want("mkdir -p one two; cd one", "")
	p.want("cd ../two", "")
	p.want("cd - >/dev/null; basename $PWD", "one\n")
}

func testDirMissing(t *testing.T, mk Maker) {
	p := open(t, mk, nil)
	p.enter()
	res := p.run(terminal.Command{Text: "echo ran", Dir: p.work + "/not here"})
	if res.Code != terminal.CodeNoDir || !res.NoDir || strings.Contains(res.Output, "ran") || !strings.Contains(res.Output, "not here") || res.Dir != p.work {
		t.Errorf("missing directory: %+v", res)
	}
	res = p.run(terminal.Command{Text: "exit 126"})
	if res.Code != 126 || res.NoDir {
		t.Errorf("a command's own 126: %+v", res)
	}
}

func testDirDeleted(t *testing.T, mk Maker) {
	p := open(t, mk, nil)
	p.enter()
	p.want("mkdir -p a/b/c; cd a/b/c; rm -rf ../../../a/b", "")
	p.want("basename \"$PWD\"", "a\n")
}

// Sessions at the same time keep their directories and exports apart.
func testSessions(t *testing.T, mk Maker) {
	p := open(t, mk, nil)
	p.enter()
	var work sync.WaitGroup
	for i := range 6 {
		name := fmt.Sprint("session", i)
		work.Go(func() {
			p.run(terminal.Command{Session: name, Text: "mkdir " + p.work + "/" + name + "; cd " + p.work + "/" + name + "; export WHO=" + name})
			for range 4 {
				res := p.run(terminal.Command{Session: name, Text: `echo "$WHO $(basename "$PWD")"`})
				if res.Output != name+" "+name+"\n" || res.Dir != p.work+"/"+name {
					t.Errorf("%s: got %q in %q", name, res.Output, res.Dir)
				}
			}
		})
	}
	work.Wait()
	if p.Dir("") != p.work || p.Dir("session1") != p.work+"/session1" {
		t.Errorf("directories mixed: %q, %q", p.Dir(""), p.Dir("session1"))
	}
	p.want("echo ${WHO-nobody}", "nobody\n")
	p.Release(t.Context(), "session1")
	if res := p.run(terminal.Command{Session: "session1", Text: "echo ${WHO-nobody}"}); res.Output != "nobody\n" {
		t.Errorf("a released session was remembered: %q", res.Output)
	}
}

// snapshots returns what all snapshots there hold.
func (p *place) snapshots() string {
	return string(p.script("cat -- "+terminal.Quote(p.c.Temp)+"/hermes-snap-*", nil))
}

// What a value holds after a line end must never be run by a later command.
func testMultiLine(t *testing.T, mk Maker) {
	p := open(t, mk, nil)
	p.enter()
	evil := "room\ntouch " + p.work + "/pwned #\n\"; touch " + p.work + "/pwned; $(touch " + p.work + "/pwned)"
	p.vars.Set("HERMES_SESSION_CHAT_NAME", evil)
	p.vars.Set("PLAIN", evil)
	for _, text := range []string{"true", `readonly HERMES_SESSION_CHAT_NAME; export OTHER="$PLAIN"`, "declare -rx HERMES_SESSION_X=\"$PLAIN\"", "true"} {
		p.want(text, "")
	}
	p.want(`[ "$PLAIN" = "$HERMES_SESSION_CHAT_NAME" ] && [ "$OTHER" = "$PLAIN" ] && echo same; ls`, "same\n")
	if s := p.snapshots(); strings.Contains(s, "HERMES_SESSION_") {
		t.Errorf("a session's name is in a snapshot:\n%s", s)
	}
}

func testNeverKept(t *testing.T, mk Maker) {
	p := open(t, mk, nil)
	names := []string{
		"HERMES_SESSION_ID", "HERMES_SESSION_ANY", "HERMES_UI_SESSION_ID", "HERMES_CRON_AUTO_DELIVER_X", "HERMES_CRON_SESSION",
		"HERMES_BROWSER_CONTROL_URL", "HERMES_DELEGATED_CHILD_CONTEXT", "HERMES_RPC_TOKEN", "HERMES_KERNEL_DIR", "AI_AGENT", "HERMES_AGENT",
		"BUZZ_TOKEN", process.Mark,
	}
	for _, n := range names {
		if n != process.Mark {
			p.vars.Set(n, "canary")
		}
	}
	p.want("export "+strings.Join(names, " ")+"; export KEPT=1", "")
	p.want("export HERMES_RPC_OWN=canary HERMES_SESSION_OWN=canary", "")
	s := p.snapshots()
	for _, n := range append(names, "canary") {
		if strings.Contains(s, n) {
			t.Errorf("%s is in a snapshot", n)
		}
	}
	if !strings.Contains(s, "KEPT") {
		t.Error("nothing is in a snapshot")
	}
	for _, n := range names {
		p.vars.Unset(n)
	}
	p.want("echo ${HERMES_SESSION_ID-none} ${HERMES_RPC_OWN-none} $AI_AGENT $HERMES_AGENT $PAGER $GIT_PAGER", "none none hermes-agent true cat cat\n")
}

func testScoped(t *testing.T, mk Maker) {
	p := open(t, mk, nil)
	p.vars.Set("KEY", "before it was scoped")
	p.want("export KEY; echo $KEY", "before it was scoped\n")
	p.vars.Set("KEY", "first\n'value'")
	p.vars.Scope("KEY", "not a name; touch x")
	p.want(`echo "$KEY"; export KEY=changed`, "first\n'value'\n")
	p.vars.Set("KEY", "second")
	p.want("echo $KEY", "second\n")
	p.vars.Unset("KEY")
	p.want("echo ${KEY-none}; export KEY=mine", "none\n")
	p.vars.Scope() // once excluded, always
	p.want("echo ${KEY-none}; export KEY=mine2", "none\n")
	if s := p.run(terminal.Command{Text: "true"}); s.Code != 0 {
		t.Fatal(s)
	}
	p.want("echo ${KEY-none}", "none\n")
}

func testValues(t *testing.T, mk Maker) {
	p := open(t, mk, nil)
	values := []string{"a b", "'", `"`, "`id`", "$(id)", "new\nline\n", "", "~/x y", "日本", `\`, "a=b", "*", "!x", "\x01a\x01", "\x01"}
	for i, v := range values {
		p.vars.Set(fmt.Sprintf("V%d", i), v)
	}
	for i, v := range values {
		for range 2 { // from the environment, then also through the snapshot
			if res := p.run(terminal.Command{Text: fmt.Sprintf(`printf '%%s' "$V%d"; export V%d`, i, i)}); res.Output != v {
				t.Errorf("got %q, want %q", res.Output, v)
			}
		}
	}
}

// What is not closed in the command must not swallow what stands around it.
func testHeredoc(t *testing.T, mk Maker) {
	p := open(t, mk, nil)
	p.enter()
	res := p.run(terminal.Command{Text: "cat > f <<'EOF'\nline 'one'\n$HOME\nnever closed"})
	if !res.DirObserved || res.Code != 0 {
		t.Errorf("%+v", res)
	}
	p.want("cat f", "line 'one'\n$HOME\nnever closed\n")
	p.want("cat <<EOF\nclosed\nEOF", "closed\n")
	for _, text := range []string{"echo 'open", "if true; then", "echo $(", "}", "esac", "\\"} {
		if res := p.run(terminal.Command{Text: text}); !res.DirObserved || strings.Contains(res.Output, "__hermes") && !strings.Contains(res.Output, "eval") {
			t.Errorf("%q: %+v", text, res)
		}
	}
	if res := p.run(terminal.Command{Text: "# only a comment"}); res.Code != 0 || !res.DirObserved {
		t.Errorf("comment: %+v", res)
	}
	if res := p.run(terminal.Command{Text: ""}); res.Code != 0 || !res.DirObserved {
		t.Errorf("nothing: %+v", res)
	}
}

// A command may make the shell strange; the wrapper must work on.
func testHostileShell(t *testing.T, mk Maker) {
	p := open(t, mk, nil)
	for _, text := range []string{
		"set -x; K=1", "IFS=; K=1", "set -f -u -C", "shopt -s nocasematch extglob failglob", "alias builtin='echo no'; alias export=false local=false printf=false source=false eval='echo no'",
		"printf() { echo no; }; pwd() { echo no; }; mv() { false; }; cd() { echo no; }", "exec 2>/dev/null", "set -o posix", "set -v", "enable -n alias",
		"trap '' TERM INT HUP", "cd() { :; }; declare -fx cd", "f*g() { :; }", "umask 0777",
	} {
		if res := p.run(terminal.Command{Session: text, Text: "export BEFORE=1\n" + text + "\n\\export AFTER=1\n\\builtin cd /"}); !res.DirObserved || res.Dir != "/" {
			t.Errorf("%s: %+v", text, res)
		}
		if res := p.run(terminal.Command{Session: text, Text: "/bin/echo $BEFORE $AFTER"}); res.Output != "1 1\n" || !res.DirObserved {
			t.Errorf("after %s: %+v", text, res)
		}
	}
}

func testLoginFiles(t *testing.T, mk Maker) {
	p := open(t, mk, nil)
	rc, bad := p.work+"/rc file", p.work+"/bad"
	p.script("cat > "+terminal.Quote(rc), []byte("export FROM_RC=1\nrc_function() { echo rc; }\nalias rc_alias='echo alias'\ncd /\necho noise\n"))
	p.script("cat > "+terminal.Quote(bad), []byte("set -e\nexport FROM_BAD=1\nfalse\n"))
	q := open(t, mk, func(c *terminal.Config) {
		c.Dir, c.Login = p.work, []string{p.work + "/missing", rc}
	})
	q.want("echo $FROM_RC; rc_function; pwd", "1\nrc\n"+p.work+"\n")
	q.want("rc_alias", "alias\n")
}

// A profile that ends the login shell costs its environment, not the terminal.
func testLoginBroken(t *testing.T, mk Maker) {
	p := open(t, mk, nil)
	rc := p.work + "/rc"
	p.script("cat > "+rc, []byte("exit 3\n"))
	q := open(t, mk, func(c *terminal.Config) { c.Dir, c.Login = p.work, []string{rc} })
	q.want("mkdir sub; cd sub; export X=1; echo on", "on\n")
	q.want("basename $PWD; echo ${X-not kept}", "sub\nnot kept\n")
	p.script("cat > "+rc, []byte("sleep 3600\n"))
	q = open(t, mk, func(c *terminal.Config) {
		c.Dir, c.Login, c.Snapshot = p.work, []string{rc}, time.Second
	})
	q.want("echo on", "on\n")
}

// The time that the first command takes is not the login shell's.
func testWarmUp(t *testing.T, mk Maker) {
	p := open(t, mk, nil)
	rc := p.work + "/rc"
	p.script("cat > "+rc, []byte("touch "+p.work+"/warm\n"))
	began := 0
	q := open(t, mk, func(c *terminal.Config) {
		c.Login = []string{rc}
		c.After = func(time.Duration) <-chan time.Time {
			began++
			if list := string(p.script("ls "+p.work, nil)); !strings.Contains(list, "warm\n") {
				t.Errorf("its time begins before the login shell has ended: there is %q", list)
			}
			return nil
		}
	})
	if res := q.run(terminal.Command{Text: "echo first", Timeout: time.Second}); began != 1 || res.Output != "first\n" {
		t.Errorf("%+v, %d times", res, began)
	}
}

// A shell that is killed while it writes its snapshot leaves a whole one.
func testSnapshotKill(t *testing.T, mk Maker) {
	p := open(t, mk, nil)
	p.enter()
	p.want("export BIG=$(head -c 100000 /dev/zero | tr '\\0' x); export N=0", "")
	for i := range 12 {
		// The killer strikes at another moment each time, around the end of the command.
		p.run(terminal.Command{Text: fmt.Sprintf("export N=%d BIG=${BIG}%d; ( sleep 0.0%d; kill -KILL $$ ) >/dev/null 2>&1 &", i+1, i, i)})
		res := p.run(terminal.Command{Text: "echo ${#BIG} $N; alias -p >/dev/null; shopt expand_aliases"})
		var size, n int
		if _, err := fmt.Sscan(res.Output, &size, &n); err != nil || size < 100000 || size > 100030 || !strings.Contains(res.Output, "on") {
			t.Fatalf("round %d: %q", i, res.Output)
		}
	}
}

// What the snapshots are in may be emptied under a shell (a cleaner of temporary files, a
// container that was restarted): it is warmed anew, and elsewhere the model is told.
func testSnapshotLost(t *testing.T, mk Maker) {
	p := open(t, mk, nil)
	p.enter()
	p.want("export X=1; mkdir d; cd d", "")
	p.script("rm -f -- "+terminal.Quote(p.c.Temp)+"/hermes-snap-*", nil)
	res := p.run(terminal.Command{Text: "echo ${X-lost}"})
	if res.Recreated != p.Describe().Remote || res.Output != "lost\n" || res.Dir != p.work+"/d" {
		t.Errorf("%+v", res)
	}
	p.want("export Y=1", "")
	if res := p.run(terminal.Command{Text: "echo $Y"}); res.Recreated || res.Output != "1\n" {
		t.Errorf("%+v", res)
	}
}

// sudo gets its password only where it asks, and the command's input begins after it.
func testSudo(t *testing.T, mk Maker) {
	const secret = "pass word"
	p := open(t, mk, func(c *terminal.Config) {
		c.Sudo = func(ctx context.Context) (string, bool) { return secret, ctx.Err() == nil }
	})
	p.enter()
	p.script("mkdir "+p.work+"/bin && cat > "+p.work+"/bin/sudo && chmod +x "+p.work+"/bin/sudo", []byte(`#!/bin/bash
dir=${0%/*}
case "$*" in
"-n true") [ -e $dir/open ] ;;
"-S -p  -v") IFS= read -r pw; [ "$pw" = "pass word" ] && touch $dir/open; ;;
*) [ -e $dir/open ] || exit 1; "$@" ;;
esac
`))
	p.want("export PATH="+p.work+"/bin:$PATH", "")
	for range 2 { // asked, then not asked
		if res := p.run(terminal.Command{Text: "sudo cat; echo x | sudo tee", Stdin: []byte("my input")}); res.Output != "my inputx\n" || res.Code != 0 {
			t.Errorf("%+v", res)
		}
	}
	p.want("cat; echo '; sudo x'", "; sudo x\n") // it only looks like it
	if res := p.run(terminal.Command{Text: "rm bin/open; echo wrong > bin/sudo; printf '#!/bin/sh\\nexit 1\\n' > bin/sudo"}); res.Code != 0 {
		t.Fatal(res)
	}
	if res := p.run(terminal.Command{Text: "sudo true; cat", Stdin: []byte("in")}); !strings.Contains(res.Output, "not accepted") || !strings.HasSuffix(res.Output, "in") || strings.Contains(res.Output, secret) {
		t.Errorf("%+v", res)
	}
}
