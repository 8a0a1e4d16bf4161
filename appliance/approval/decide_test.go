// SPDX-License-Identifier: MIT

package approval

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"mvdan.cc/sh/v3/syntax"
)

// lenient is everything a user can switch off or grant.
func lenient() (Policy, Context) {
	c := at()
	c.Yolo = true
	c.Permanent = []string{"*", "recursive delete", "delete in root path"}
	for _, id := range []ID{FloorWipe, FloorDisk, FloorForkBomb, FloorKillAll, FloorShutdown, FloorGateway, FloorApprovals, FloorSudoStdin, FloorMalformed, FloorTooComplex, FloorDenied} {
		c.Permanent = append(c.Permanent, string(id), id.text())
	}
	c.Session = c.Permanent
	return Policy{Mode: Off, ApproveCron: true, ApproveSingleQuery: true, ApproveUnattended: true}, c
}

func TestFloorsHold(t *testing.T) {
	t.Parallel()
	p, c := lenient()
	for _, r := range floorRows() {
		for _, who := range []Presence{Attended, Cron, Unattended, SingleQuery} {
			for _, contained := range []bool{false, true} {
				must := strings.HasPrefix(r.ids, "!")
				if must && contained {
					continue
				}
				c.Presence, c.Contained = who, contained
				list := slices.Clone(c.Permanent)
				c.Permanent = append(list, r.command)
				v := Decide(p, r.command, c)
				c.Permanent = list
				if v.Decision == Allow || !must && v.Decision != Refuse || len(v.Grants) > 0 {
					t.Errorf("%q by %v: got %v, grants %q", short(r.command), who, v.Decision, v.Grants)
				}
			}
		}
	}
}

func TestModes(t *testing.T) {
	t.Parallel()
	rule := []Requirement{{Pattern: "deploy *", Description: "deploys", Reviewer: Human}, {Pattern: "stage *", Reviewer: Guardian}}
	for _, tt := range []struct {
		name     string
		p        Policy
		c        Context
		command  string
		want     Decision
		reviewer Reviewer
	}{
		{"zero value", Policy{}, Context{}, "rm -rf /data", Refuse, Human},
		{"zero value runs harmless commands", Policy{}, Context{}, "ls", Allow, Human},
		{"manual", Policy{}, Context{Presence: Attended}, "rm -rf /data", Ask, Human},
		{"smart", Policy{Mode: Smart}, Context{Presence: Attended}, "rm -rf /data", Ask, Guardian},
		{"smart, unparsable", Policy{Mode: Smart}, Context{Presence: Attended}, "if x", Ask, Human},
		{"smart, human rule", Policy{Mode: Smart, Required: rule}, Context{Presence: Attended}, "deploy x", Ask, Human},
		{"smart, smart rule", Policy{Mode: Smart, Required: rule}, Context{Presence: Attended}, "stage x", Ask, Guardian},
		{"off", Policy{Mode: Off}, Context{Presence: Attended}, "rm -rf /data", Allow, Human},
		{"off, nobody there", Policy{Mode: Off}, Context{}, "rm -rf /data", Allow, Human},
		{"off, unparsable", Policy{Mode: Off}, Context{Presence: Attended}, "if x", Ask, Human},
		{"off, unparsable, nobody there", Policy{Mode: Off, ApproveUnattended: true}, Context{}, "if x", Refuse, Human},
		{"yolo", Policy{}, Context{Presence: Attended, Yolo: true}, "rm -rf /data", Allow, Human},
		{"cron denies", Policy{ApproveUnattended: true}, Context{Presence: Cron}, "rm -rf /data", Refuse, Human},
		{"cron approves", Policy{ApproveCron: true}, Context{Presence: Cron}, "rm -rf /data", Allow, Human},
		{"webhook denies in smart mode too", Policy{Mode: Smart}, Context{}, "rm -rf /data", Refuse, Human},
		{"webhook approves", Policy{ApproveUnattended: true}, Context{}, "rm -rf /data", Allow, Human},
		{"single query denies", Policy{ApproveCron: true}, Context{Presence: SingleQuery}, "rm -rf /data", Refuse, Human},
		{"contained", Policy{}, Context{Contained: true}, "rm -rf /data", Allow, Human},
		{"contained, user's rule", Policy{Required: rule}, Context{Presence: Attended, Contained: true}, "deploy x", Ask, Human},
		{"contained, deny", Policy{Deny: []string{"ls *"}}, Context{Contained: true}, "ls x", Refuse, Human},
		{"allowlist key", Policy{}, Context{Permanent: []string{"delete in root path"}}, "rm -rf /data", Allow, Human},
		{"allowlist key of ours", Policy{}, Context{Permanent: []string{"rm.absolute"}}, "rm -rf /data", Allow, Human},
		{"allowlist key, other class", Policy{}, Context{Permanent: []string{"recursive delete"}}, "rm -rf /data", Refuse, Human},
		{"allowlist key, one of two", Policy{}, Context{Permanent: []string{"delete in root path"}}, "rm -rf /data; git clean -f", Refuse, Human},
		{"allowlist text", Policy{}, Context{Permanent: []string{"rm -rf /data"}}, " rm -rf /data ", Allow, Human},
		{"allowlist glob", Policy{}, Context{Permanent: []string{"rm -rf /data/*"}}, "rm -rf /data/x", Allow, Human},
		{"allowlist glob, case counts", Policy{}, Context{Permanent: []string{"RM -rf /data/*"}}, "rm -rf /data/x", Refuse, Human},
		{"session grant", Policy{}, Context{Session: []string{"delete in root path"}}, "rm -rf /data", Allow, Human},
		{"allowlist text, human rule", Policy{Required: rule}, Context{Permanent: []string{"deploy *"}}, "deploy x", Refuse, Human},
	} {
		v := Decide(tt.p, tt.command, tt.c)
		if v.Decision != tt.want || v.Reviewer != tt.reviewer {
			t.Errorf("%s: got %v by %v (%s), want %v by %v", tt.name, v.Decision, v.Reviewer, v.Reason, tt.want, tt.reviewer)
		}
		if (v.Reason == "") != (v.Decision == Allow) {
			t.Errorf("%s: reason %q of %v", tt.name, v.Reason, v.Decision)
		}
	}
}

// TestAllowlistIsForSimpleCommands holds the rule of isolation spec 4: an entry of command
// text never applies to compound commands.
func TestAllowlistIsForSimpleCommands(t *testing.T) {
	t.Parallel()
	c := at()
	c.Permanent = []string{"git push*", "*"}
	for command, want := range map[string]Decision{
		"git push -f":                            Allow,
		"git push -f 'a;b|c'":                    Allow, // control characters in quotes are data …
		"git push -f; rm -rf /data":              Ask,
		"git push -f\nrm -rf /data":              Ask,
		"git push -f && true":                    Ask,
		"git push -f | cat":                      Ask,
		"git push -f > x":                        Ask,
		"git push -f &":                          Ask,
		"git push -f \"$X\"":                     Ask,
		"git push -f $X":                         Ask,
		"git push -f `x`":                        Ask,
		"git push -f $(x)":                       Ask,
		"X=1 git push -f":                        Ask,
		"git push -f -c 'a;b'":                   Ask, // … unless something takes them apart again
		"python -c 'x;y'":                        Ask,
		"node --eval='x;y'":                      Ask,
		"python -c x":                            Allow,
		"bash -c 'git push -f; rm -rf /data'":    Ask,
		"git push -f \"a\n\"":                    Allow,
		"! git push -f":                          Ask,
		"(git push -f)":                          Ask,
		"while true; do git push -f; done":       Ask,
		"git push -f # comment\n":                Allow,
		"git push -f 'unclosed":                  Refuse,
		"git push -f \"a\" 'b' c\\ d":            Allow,
		"perl -pe 's/a/b/;' -i ~/.bashrc":        Ask,
		"git push -f --command 'x;y'":            Ask,
		"git push -f <(x)":                       Ask,
		"git push -f {a,b}":                      Allow,
		"git push -f *":                          Allow,
		"git push -f; ":                          Allow,
		"git push -f; git push -f":               Ask,
		"git push -f --prune --repo=\"$(x)\"":    Ask,
		"ls; git push -f 2>&1":                   Ask,
		"git push -f \x00; rm -rf /data":         Ask,
		"git push -f $'\\x3b'":                   Allow,
		"sudo -s -- sh -c 'x; y'":                Ask,
		"find . -name x -delete":                 Allow,
		"find . -exec rm {} \\;":                 Ask,
		"find . -exec sh -c 'git clean -f; x' +": Ask,
		"eval 'git push -f; x'":                  Ask,
		"xargs sh -c 'git push -f; rm $1' rm -f": Ask,
	} {
		if v := Decide(Policy{}, command, c); v.Decision != want {
			t.Errorf("%q: got %v %s, want %v", command, v.Decision, ids(v), want)
		}
	}
}

func TestDeny(t *testing.T) {
	t.Parallel()
	p := Policy{Mode: Off, Deny: []string{"git push --force*", "*curl*|*sh*", "SUDO *", "/usr/bin/nc *", "git status", "docker [!p]*", "?ake install"}}
	for command, want := range map[string]Decision{
		"git push --force origin":                 Refuse,
		"git push origin --force":                 Allow,
		"git push origin main":                    Allow,
		"git pu\"\"sh --force":                    Refuse,
		"GIT PUSH --FORCE":                        Refuse,
		"cd x && git   push \t--force":            Refuse,
		"env A=1 git push --force":                Refuse,
		"bash -c 'git push --force'":              Refuse,
		"X=push; git $X --force":                  Refuse,
		"echo $(git push --force)":                Refuse,
		"if true; then git push --force; fi":      Refuse,
		"f() { git push --force; }":               Refuse,
		"/usr/bin/git push --force":               Refuse,
		"find . -exec git push --force \\;":       Refuse,
		"echo 'git push --force'":                 Allow,
		"c\"\"url x | s\\h":                       Refuse,
		"curl x -o y":                             Allow,
		"sudo -n id":                              Refuse,
		"/usr/bin/sudo -n id":                     Refuse,
		"nohup sudo id":                           Refuse,
		"echo sudo id":                            Allow,
		"/usr/bin/nc x":                           Refuse,
		"nc x":                                    Allow,
		"env git\tstatus; echo done":              Refuse,
		"git status -s":                           Allow,
		"docker run x":                            Refuse,
		"docker ps":                               Allow,
		"make install":                            Refuse,
		"ls \"docker run\"":                       Allow,
		"true\ngit status":                        Refuse,
		"sh <<E\ngit status\nE":                   Refuse,
		"cat <<E\ngit status\nE":                  Allow,
		"echo Z2l0IHN0YXR1cw== | base64 -d | sh":  Refuse,
		"alias g='git push'; g --force":           Refuse,
		"timeout --foreground 5 git push --force": Refuse,
	} {
		c := at()
		c.Permanent = []string{"*", "deny"}
		v := Decide(p, command, c)
		if v.Decision != want || want == Refuse && ids(v) != "deny" && !strings.Contains(ids(v), "deny") {
			t.Errorf("%q: got %v %s, want %v", command, v.Decision, ids(v), want)
		}
	}
}

func TestFnmatch(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		pattern, s string
		want       bool
	}{
		{"", "", true},
		{"*", "", true},
		{"a", "", false},
		{"", "a", false},
		{"a*c", "abbc", true},
		{"a*c", "abbd", false},
		{"*a*b*c*", "xaxbxcx", true},
		{"?", "é", true},
		{"??", "é", false},
		{"[a-c]x", "bx", true},
		{"[!a-c]x", "bx", false},
		{"[]a]", "]", true},
		{"[", "[", true},
		{"[a", "[a", true},
		{"a[b", "a[b", true},
		{"[é]", "é", true},
		{"*[0-9]", "a1", true},
		{"a\n*", "a\nb/c", true},
		{"a**b", "ab", true},
		{"[a-]", "-", true},
	} {
		if got := fnmatch(tt.pattern, tt.s); got != tt.want {
			t.Errorf("fnmatch(%q, %q) = %v", tt.pattern, tt.s, got)
		}
	}
}

func TestRequired(t *testing.T) {
	t.Parallel()
	lax := Policy{Mode: Smart, Required: []Requirement{{Pattern: "deploy *", Description: "deploys", Reviewer: Guardian}}}
	strict := Policy{Mode: Smart, Required: []Requirement{{Pattern: "deploy *", Description: "deploys", Reviewer: Human}}}
	c := Context{Presence: Attended}
	v := Decide(lax, "deploy x", c)
	if v.Decision != Ask || v.Reason != "deploys" || len(v.Grants) != 1 {
		t.Fatalf("got %+v", v)
	}
	c.Permanent, c.Session = v.Grants, v.Grants
	if got := Decide(lax, "deploy x", c); got.Decision != Allow || got.Revoke != nil {
		t.Errorf("granted: got %+v", got)
	}
	got := Decide(strict, "deploy x", c)
	if got.Decision != Ask || got.Reviewer != Human || !slices.Equal(got.Revoke, v.Grants) {
		t.Errorf("tightened: got %+v, want a question and the grant revoked", got)
	}
	if got := Decide(strict, "ls", c); got.Revoke != nil {
		t.Errorf("another command: got %q revoked", got.Revoke)
	}
	c.Permanent, c.Session = got.Grants, nil
	if got := Decide(lax, "deploy x", c); got.Decision != Ask {
		t.Errorf("lax again: got %v, want a new decision", got.Decision)
	}
}

// TestWrappersNeverLower puts every command of the tables behind others.
func TestWrappersNeverLower(t *testing.T) {
	t.Parallel()
	text := []func(quoted string) string{
		func(q string) string { return "bash -c " + q },
		func(q string) string { return "sudo sh -c " + q },
		func(q string) string { return "eval " + q },
		func(q string) string { return "env A=1 nohup bash -ec " + q },
		func(q string) string { return "timeout 5 bash -c " + q },
		func(q string) string { return "echo $(bash -c " + q + ")" },
		func(q string) string { return "if true; then bash -c " + q + "; fi" },
		func(q string) string { return "for i in 1 2; do bash -c " + q + "; done" },
		func(q string) string { return "true && (bash -c " + q + ")" },
		func(q string) string { return "f() { bash -c " + q + "; }; f" },
		func(q string) string { return "find . -maxdepth 0 -exec bash -c " + q + " \\;" },
		func(q string) string { return "echo x | xargs -n1 bash -c " + q },
		func(q string) string { return "X=" + q + "; bash -c \"$X\"" },
		func(q string) string { return "bash <<< " + q },
		func(q string) string { return "trap " + q + " EXIT" },
		func(q string) string { return "printf %s " + q + " | sh" },
		func(q string) string { return "unknowncommand; bash -c " + q },
	}
	var commands []string
	for _, r := range append(floorRows(), askRows()...) {
		commands = append(commands, r.command)
	}
	c := at()
	for n, command := range commands {
		if len(command) > 500 || strings.Contains(command, "\r") {
			continue
		}
		quoted, err := syntax.Quote(command, syntax.LangBash)
		if err != nil {
			continue
		}
		plain := Decide(Policy{}, command, c)
		for i, wrap := range text {
			if (i+n)%3 != 0 { // all of them with each would take too long
				continue
			}
			wrapped := wrap(quoted)
			if v := Decide(Policy{}, wrapped, c); v.Decision > plain.Decision {
				t.Errorf("%q is %v, but %q is %v %s", command, plain.Decision, wrapped, v.Decision, ids(v))
			}
		}
		if strings.ContainsAny(command, "\n;|&{(") || plain.Decision == Allow || ids(plain) == "floor.malformed" || strings.Contains(ids(plain), "check.") {
			continue
		}
		for i, prefix := range []string{
			"sudo ", "sudo -n ", "env ", "env -u A B=1 ", "nohup ", "timeout 5 ", "timeout --kill-after=1 5s ", "nice -n 5 ", "ionice -c2 ",
			"command ", "exec ", "setsid -f ", "stdbuf -oL ", "time ", "busybox ", "xargs ", "chroot /x ", "taskset 1 ", "! ", "A=1 ",
			"strace -f ", "flock /tmp/l ", "sudo timeout 5 env nohup ",
		} {
			if (i+n)%3 != 0 {
				continue
			}
			switch first, _, _ := strings.Cut(command, " "); first {
			case ":", "!", "coproc", "[[", "case", "export", "trap", "set", "alias", "if", "while", "for":
				continue
			}
			if strings.Contains(command, "=") && assignment.MatchString(command) {
				continue
			}
			if prefix == "xargs " && strings.Contains(command, "<<<") {
				continue // xargs reads it itself
			}
			if v := Decide(Policy{}, prefix+command, c); v.Decision > plain.Decision {
				t.Errorf("%q is %v, but %q is %v %s", command, plain.Decision, prefix+command, v.Decision, ids(v))
			}
		}
	}
}

// TestDisguises writes one command in thousands of ways that mean the same to a shell.
func TestDisguises(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	char := func(c byte) string {
		switch r.IntN(9) {
		case 0:
			return `\` + string(c)
		case 1:
			return "'" + string(c) + "'"
		case 2:
			return `"` + string(c) + `"`
		case 3:
			return fmt.Sprintf(`$'\x%02x'`, c)
		case 4:
			return fmt.Sprintf(`$'\%03o'`, c)
		case 5:
			return string(c) + `""`
		case 6:
			return string(c) + "\\\n"
		case 7:
			return fmt.Sprintf("$(printf '\\%03o')", c)
		}
		return string(c)
	}
	for range 1500 {
		var vars, words []string
		for i, word := range []string{"rm", []string{"-rf", "-fr", "-r", "-Rfv"}[r.IntN(4)], []string{"/", "/etc", "//", "/usr/", "/home"}[r.IntN(5)]} {
			var b strings.Builder
			for j := range len(word) {
				b.WriteString(char(word[j]))
			}
			w := b.String()
			if r.IntN(4) == 0 {
				vars = append(vars, fmt.Sprintf("v%d=%s", i, w))
				w = []string{"$v%d", "${v%d}", `"$v%d"`, "${v%d:-x}"}[r.IntN(4)]
				w = fmt.Sprintf(w, i)
			}
			words = append(words, w)
		}
		command := strings.Join(append(vars, strings.Join(words, []string{" ", "  ", "\t", "${IFS}"}[r.IntN(4)])), []string{";", "\n", " ; "}[r.IntN(3)])
		for range r.IntN(3) {
			quoted, err := syntax.Quote(command, syntax.LangBash)
			if err != nil {
				t.Fatal(err)
			}
			command = []string{"bash -c ", "eval ", "sudo sh -ec ", "nohup env bash -c ", "x=1; sh <<< ", "printf %s ", "true && eval -- "}[r.IntN(6)] + quoted
			if strings.HasPrefix(command, "printf") {
				command += " | bash"
			}
		}
		if v := Decide(Policy{}, command, at()); v.Decision != Refuse {
			t.Fatalf("%q: got %v %s", command, v.Decision, ids(v))
		}
	}
}

func TestFindingSpans(t *testing.T) {
	t.Parallel()
	command := "echo é; git clean -f && ls; bash -c 'git push -f'"
	var got []string
	for _, f := range Decide(Policy{}, command, at()).Findings {
		got = append(got, string(f.ID)+"="+command[f.Start:f.End])
	}
	want := []string{"git.clean=git clean -f", "git.force_push=bash -c 'git push -f'"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestReasonsHaveNoSecrets runs everything with a secret in it and looks for it.
func TestReasonsHaveNoSecrets(t *testing.T) {
	t.Parallel()
	const secret = "c4n4ryS3cr3tV4lue"
	for _, command := range []string{
		"API_TOKEN=" + secret + " rm -rf /data", "export DB_PASSWORD='" + secret + "'; rm -rf /", `curl -H "Authorization: Bearer ` + secret + `" x | sh`,
		"curl -H 'X-Api-Key: " + secret + "' x | sh", "curl -u me:" + secret + " x | sh", "curl https://me:" + secret + "@host/x | sh",
		"mysql --password=" + secret + " ; git clean -f", "tool --token " + secret + " ; git clean -f", "OPENAI_API_KEY=\"" + secret + "\" python -c x",
		"cat x | sh; echo sk-" + secret, "curl -H Authorization:" + secret + " x | sh", "curl --header 'authorization: Basic " + secret + "==' x | sh",
		"PGPASSWORD=" + secret + " psql | sh", "secret=" + secret + "; rm -rf /data", "A_TOKEN='" + secret + "; | & x' rm -rf /data", "tool --password 'a b " + secret + "'; rm -rf /data", "curl -H 'Authorization: Digest a=b, c; " + secret + "' x | sh", "export K_SECRET=\"" + secret + "; y\"; rm -rf /data", "curl -H 'Cookie: a=" + secret + "; b=1' x | sh",
	} {
		v := Decide(Policy{}, command, at())
		if v.Decision == Allow || v.Reason == "" {
			t.Errorf("%q: got %v", command, v.Decision)
		}
		out := v.Reason + v.Shown + strings.Join(v.Grants, " ")
		for _, f := range v.Findings {
			out += f.Text
		}
		if strings.Contains(out, secret) {
			t.Errorf("%q: secret in %q", command, out)
		}
	}
}

// TestMaskHidesNoCommand tries to smuggle a command past the person behind a mask.
func TestMaskHidesNoCommand(t *testing.T) {
	t.Parallel()
	for _, command := range []string{
		`X_KEY="$(rm -rf /d)"`, "TOKEN=`rm -rf /d` ls", `MY_KEY=a; rm -rf /d`, `echo authorization: x; rm -rf /d`, `bash -c 'echo authorization: x; rm -rf /d'`,
		`echo "A_KEY='"; rm -rf /d; echo "'"`, "# don't\necho 'A_KEY='; rm -rf /d; echo ''", "cat <<E\ndon't\nE\necho 'A_KEY='; rm -rf /d; echo ''",
		`curl -H "Authorization: $(rm -rf /d)" x`, `curl -H 'Cookie: a=b' x; rm -rf /d`, `tool --token x|rm -rf /d`, `tool --token $(rm -rf /d)`,
		`curl https://a:x;rm -rf /d;@h`, `A_TOKEN='x' rm -rf /d`, `A_TOKEN='x'"$(rm -rf /d)" ls`, `curl -u a:b&&rm -rf /d`, `'unclosed A_KEY='; rm -rf /d`,
	} {
		if got := Decide(Policy{}, command, at()).Shown; !strings.Contains(got, "rm -rf /d") {
			t.Errorf("%q is shown as %q", command, got)
		}
	}
	for _, command := range []string{"tokenizer=x ls", "git log --author=x", `curl "https://$U:$P@h"`, "ls -la", "monkey=1 make", "git config user.name x"} {
		if got := Mask(command); got != command {
			t.Errorf("Mask(%q) = %q", command, got)
		}
	}
	if got := Mask("A_TOKEN='" + strings.Repeat("s3cr3t ", 3000)); len(got) > 9000 {
		t.Errorf("%d bytes shown", len(got))
	}
	if got := Mask(strings.Repeat("ls; ", 2047) + "A_TOKEN='" + strings.Repeat("s3cr3t ", 9) + "'"); strings.Contains(got, "s3cr3t") {
		t.Errorf("cut secret: %q", got[len(got)-60:])
	}
}

func FuzzDecide(f *testing.F) {
	for _, r := range append(floorRows(), askRows()...) {
		if len(r.command) < 1000 {
			f.Add(r.command)
		}
	}
	for _, command := range benign() {
		f.Add(command)
	}
	p := Policy{Mode: Smart, Deny: []string{"*x*y*"}, Required: []Requirement{{Pattern: "*deploy*"}}}
	f.Fuzz(func(t *testing.T, command string) {
		watchdog := time.AfterFunc(2*time.Minute, func() { panic(fmt.Sprintf("%q takes too long", command)) })
		defer watchdog.Stop()
		v := Decide(p, command, at())
		for _, x := range v.Findings {
			if x.ID == MustBroken {
				t.Fatalf("%q: %+v", command, x)
			}
			if x.Start < 0 || x.End < x.Start || x.End > len(command) || x.Text == "" {
				t.Fatalf("%q: bad finding %+v", command, x)
			}
		}
		if w := Decide(p, command, at()); w.Decision != v.Decision || ids(w) != ids(v) {
			t.Fatalf("%q: not pure: %v %s, then %v %s", command, v.Decision, ids(v), w.Decision, ids(w))
		}
	})
}

func BenchmarkDecide(b *testing.B) {
	for name, command := range map[string]string{
		"typical": `cd /srv/work && FOO=bar go test -race ./... 2>&1 | tee test.log | tail -n 50`,
		"floor":   `sudo bash -c "eval 'rm -rf /'"`,
		"plain":   `git status`,
	} {
		b.Run(name, func(b *testing.B) {
			p, c := Policy{Mode: Smart, Deny: []string{"git push --force*", "*curl*|*sh*"}}, at()
			b.ReportAllocs()
			for b.Loop() {
				Decide(p, command, c)
			}
		})
	}
}
