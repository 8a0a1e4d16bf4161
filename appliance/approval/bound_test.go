// SPDX-License-Identifier: MIT

package approval

import (
	"strings"
	"testing"
	"time"
)

// hostile are commands that make naive checkers slow, n bytes long.
func hostile(n int) map[string]string {
	fill := func(s string) string { return strings.Repeat(s, n/len(s)) }
	return map[string]string{
		"words":        fill("a "),
		"rm words":     "rm -rf " + fill("a "),
		"rm /":         strings.Repeat("rm -rf /\n", n/9),
		"lines":        strings.Repeat("ls\n", n/5),
		"pipes":        strings.Repeat("a|", n/5) + "a",
		"ands":         strings.Repeat("a&&", n/16) + "a",
		"functions":    strings.Repeat("f(){ f; };f;", n/66),
		"fan-out":      "a(){ :; };" + fanOut(200),
		"loops":        strings.Repeat("while a; do ", 300) + "b" + strings.Repeat("; done", 300),
		"loops, rm":    strings.Repeat("for i in 1 2 3; do rm $i; ", 200) + strings.Repeat("done;", 200),
		"ifs":          strings.Repeat("if a; then ", 400) + "b" + strings.Repeat("; fi", 400),
		"substitution": "echo " + strings.Repeat("$(echo ", 400) + strings.Repeat(")", 400),
		"backticks":    fill("`"),
		"subst. flat":  fill("$(a)"),
		"subst. words": fill("$(echo a b c) "),
		"growth":       "a=xxxxxxxxxx;" + strings.Repeat("a=$a$a;", n/13) + "$a",
		"growth, loop": "a=xx;while :; do while :; do while :; do " + strings.Repeat("a=$a$a;", n/66) + "done; done; done; eval $a",
		"replace":      "a=" + strings.Repeat("x", n/15) + ";" + strings.Repeat("a=${a//x/$a};", n/16),
		"replace word": "a=" + strings.Repeat("x", 100) + ";b=" + fill("${a//x/$a}"),
		"braces":       "echo " + fill("{a,b}"),
		"braces, rm":   "rm -rf " + fill("{a,b}{c,d} "),
		"ranges":       fill("{1..99999} "),
		"variables":    fill("a=1;")[:n/2] + "echo $a$a$a",
		"worlds":       strings.Repeat("if x; then a=$RANDOM;b=1;fi;a=2;b=3;", 500) + strings.Repeat("rm $a $b $c;", n/131),
		"expansions":   "rm " + fill("$a "),
		"quotes":       fill("''"),
		"escapes":      fill(`\a`),
		"eval":         strings.Repeat("eval ", n/7) + "ls",
		"sudo":         strings.Repeat("sudo ", n/7) + "ls",
		"sudo options": strings.Repeat("sudo --a b ", n/13) + "ls",
		"env":          strings.Repeat("env -S ", n/13) + "ls",
		"sh -c":        nest(12),
		"xargs":        strings.Repeat("xargs ", n/7) + "ls",
		"bwrap":        strings.Repeat("bwrap a ", n/8) + "ls",
		"perf":         strings.Repeat("perf stat -a b ", n/15) + "ls",
		"parallel":     strings.Repeat("parallel ", n/9) + "ls",
		"tee":          strings.Repeat("tee >(", 400) + "sh" + strings.Repeat(")", 400),
		"tees":         "echo a | tee " + fill(">(sh) "),
		"pagers":       "man " + fill("-P ls "),
		"refs":         strings.Repeat("declare -n a=b;declare -n b=a;a=$a;", n/35),
		"consoles":     "sqlite3 x " + fill("'.shell ls' "),
		"git":          strings.Repeat("git bisect run ", n/15) + "ls",
		"find":         strings.Repeat("find . -exec ", n/16) + "ls",
		"find places":  "find " + fill("a ")[:n/2] + strings.Repeat("-exec rm {} + ", n/44),
		"heredoc":      "cat <<E\n" + strings.Repeat("some text with $a in it\n", n/26) + "E",
		"heredocs":     strings.Repeat("cat <<E\nx\nE\n", n/22),
		"arithmetic":   "echo $((" + strings.Repeat("1+", n/2) + "1))",
		"array":        "a=(" + fill("x ") + "); " + "${a[@]}",
		"array, loop":  "a=(1);for i in 1; do " + strings.Repeat("a+=(x);", n/16) + "done; ${a[@]}",
		"cd":           strings.Repeat("if x; then cd a; fi;", n/44) + "rm -rf *",
		"cp":           "cp " + fill("a ") + " b",
		"files":        strings.Repeat("echo a > f; sh f;", n/33),
		"one word":     fill("a"),
		"one quote":    "echo '" + fill("a") + "'",
		"base64":       "echo " + fill("QUFB") + " | base64 -d | sh",
		"alias":        strings.Repeat("alias a='b a';a;", n/26),
		"trap":         strings.Repeat("trap 'ls' EXIT;", n/26),
		"globs":        "ls " + fill("*a*b*c"),
		"masks":        fill("A_TOKEN=x "),
		"headers":      fill("authorization: "),
		"brackets":     strings.Repeat("[", maxNesting),
		"parens":       strings.Repeat("(", maxNesting),
		"test":         "[[ " + strings.Repeat("! ", n/2) + "x ]]",
		"tests":        "[[ " + strings.Repeat("a && ", n/13) + "x ]]",
	}
}

func fanOut(n int) string {
	var b strings.Builder
	for i := range n {
		name, next := string(rune('a'+i%26))+strings.Repeat("x", i/26), string(rune('a'+(i+1)%26))+strings.Repeat("x", (i+1)/26)
		b.WriteString(next + "(){ " + name + "; " + name + "; };")
	}
	return b.String() + "axxxxxxx"
}

// nest quotes a command in a command, again and again.
func nest(n int) string {
	s := "rm -rf /"
	for range n {
		q := "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
		if len(q) > maxCommand/2 {
			break
		}
		s = "bash -c " + q
	}
	return s
}

// TestBoundedWork is about blow-ups, not milliseconds: the limit is far above what is needed,
// also under the race detector.
func TestBoundedWork(t *testing.T) {
	p := Policy{Deny: []string{"*a*b*c*d*e*", "git push --force*", "*curl*|*sh*"}}
	for name, command := range hostile(maxCommand / 8) {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			v := Decide(p, command, at())
			took := time.Since(start)
			if strings.Contains(ids(v), string(MustBroken)) {
				t.Error(ids(v))
			}
			if took > time.Minute {
				t.Errorf("took %v", took)
			}
			if testing.Verbose() {
				t.Logf("%7d bytes %8v %v %s", len(command), took.Round(time.Millisecond), v.Decision, ids(v))
			}
		})
	}
	start := time.Now()
	if v := Decide(p, strings.Repeat("rm -rf / ;", 100<<10), at()); v.Decision != Refuse || time.Since(start) > time.Minute {
		t.Errorf("1 MB: %v after %v", v.Decision, time.Since(start))
	}
}
