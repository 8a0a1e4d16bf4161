// SPDX-License-Identifier: MIT

package terminal

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/appliance/process"
)

// maxScript is what one argument of a program may be long (MAX_ARG_STRLEN), less some room.
const maxScript = 128<<10 - 1<<10

// volatile are the names that a snapshot never keeps, beside those that a call adds: what is
// given afresh to each command, and what bash itself sets. volatilePrefixes are more of them.
func volatile() []string {
	return []string{
		"HERMES_UI_SESSION_ID", "HERMES_CRON_SESSION", "HERMES_DELEGATED_CHILD_CONTEXT", "HERMES_KERNEL_DIR",
		"AI_AGENT", "HERMES_AGENT", process.Mark, "PWD", "SHLVL",
	}
}

func volatilePrefixes() []string {
	return []string{"HERMES_SESSION_", "HERMES_CRON_AUTO_DELIVER_", "HERMES_BROWSER_CONTROL_", "HERMES_RPC_", "BUZZ_", "__hermes_"}
}

// Quote makes a word of a text that any shell reads as that text.
func Quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// quoteDir quotes a directory, of which a leading ~ is the home there.
func quoteDir(dir string) string {
	switch rest, home := strings.CutPrefix(dir, "~/"); {
	case dir == "~":
		return "~"
	case home && rest == "":
		return `"$HOME"`
	case home:
		return `"$HOME"/` + Quote(rest)
	}
	return Quote(dir)
}

func randomID() string {
	var b [6]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// wrapper makes the scripts of one session.
type wrapper struct {
	marker  string   // around the directory at the end of the output
	snap    string   // the session's snapshot; "" = there are none here
	base    string   // the snapshot that a session starts from
	scoped  []string // names whose value is this call's
	exclude []string // names that were ever scoped
	yielded string   // a file whose presence says that nobody waits any more: the snapshot is others'
	sudo    bool     // the first line of the input is a password for sudo
	login   []string // files that a login shell reads besides
}

// dump defines the function that prints the state of the shell as a script. What must not be
// kept loses its export before anything is printed (unset would fail where it is read-only): a
// value may hold line ends, and what a filter of lines leaves of it would be run by the next
// command (#71296). Functions are chosen by their name, and come before aliases count. Each
// subshell costs as much as all the rest: there is one, and another if there are functions.
func (w wrapper) dump() string {
	var names strings.Builder
	for _, p := range volatilePrefixes() {
		fmt.Fprintf(&names, ` "${!%s@}"`, p)
	}
	for _, n := range slices.Concat(volatile(), w.exclude) {
		names.WriteString(" " + n)
	}
	return `__hermes_dump() {
\builtin export -n` + names.String() + ` 2>/dev/null
\builtin export -p
\builtin alias -p
\builtin printf '\001.\n'
\builtin declare -F
}
__hermes_state() {
__hermes_new=$(__hermes_dump)
\builtin local IFS f g l n p x
f= g=$- x= IFS=$'\001'
\builtin set -f
p=($__hermes_new)
n=$((${#p[@]}-1))
l=${p[n]}
\builtin unset -v "p[n]"
__hermes_new="${p[*]}"
IFS='
'
for l in $l; do
n=${l##* }
case $n in .|__hermes_*) continue ;; __*) ;; _*) continue ;; esac
f=$f$IFS$n
case $l in declare\ -*x*\ "$n") x="$x $n" ;; esac
done
[[ $g == *f* ]] || \builtin set +f
[[ -n $__hermes_new ]] || \builtin return 0
if [[ -n $f ]]; then
l=$(\builtin set -f; \builtin declare -f $f)
[[ -n $l ]] || { __hermes_new=; \builtin return 0; }
__hermes_new=$__hermes_new$l$IFS${x:+export -f$x$IFS}
fi
__hermes_new=$__hermes_new'shopt -s expand_aliases
set +e
set +u'
}
`
}

// save writes the state to the snapshot, in one step and only if it has changed. The name of
// the new file is this call's own and is never followed if somebody else made it (noclobber).
func (w wrapper) save() string {
	tmp, snap := Quote(w.snap+".tmp."+randomID()), Quote(w.snap)
	dump := "__hermes_state\n"
	if w.yielded != "" {
		dump = "__hermes_new=\n[[ -e " + Quote(w.yielded) + " ]] || " + dump
	}
	return `\builtin umask 077
` + dump + `__hermes_old=
IFS= \builtin read -r -d '' __hermes_old 2>/dev/null < ` + snap + `
if [[ -n $__hermes_new ]] && \builtin [ "$__hermes_new"$'\n' != "$__hermes_old" ]; then
{ ( \builtin set -C; \builtin printf '%s\n' "$__hermes_new" > ` + tmp + ` ) && \builtin command mv -f -- ` + tmp + ` ` + snap + `; } 2>/dev/null || {
\builtin command rm -f -- ` + tmp + ` 2>/dev/null; __hermes_new=; }
fi
`
}

// report prints where the shell is. The directory's own line ends survive: only the one that
// pwd adds is taken off again.
func (w wrapper) report() string {
	return `\builtin printf '\n%s%s' ` + w.marker + ` "$__hermes_lost"
\builtin pwd -P 2>/dev/null || \builtin printf '%s\n' "$PWD"
\builtin printf '%s\n' ` + w.marker + `
`
}

// complete puts what was on PATH when bash was started, and the user's own programs, behind
// what the profile has made of it: /etc/profile of Debian throws the image's PATH away. Where
// the system does not tell (no /proc) it stays as it is.
const complete = `__hermes_path() {
\builtin local IFS d l p
p=
while IFS= \builtin read -r -d '' l; do case $l in PATH=*) p=${l#PATH=} ;; esac; done 2>/dev/null < /proc/$$/environ
\builtin set -f
IFS=:
for d in $p $HOME/.local/bin; do
case $d in /*) case :$PATH: in *:"$d":*) ;; *) PATH=$PATH:$d ;; esac ;; esac
done
\builtin set +f
}
__hermes_path
`

// bootstrap is what a session-less login shell runs once: it makes the base snapshot.
func (w wrapper) bootstrap(dir string) string {
	var b strings.Builder
	b.WriteString(w.prelude())
	b.WriteString(complete)
	b.WriteString(w.dump())
	b.WriteString(w.save())
	b.WriteString("[[ -n $__hermes_new ]] || \\builtin exit 1\n")
	b.WriteString(enter(dir))
	b.WriteString(w.report())
	b.WriteString("\\builtin exit 0\n")
	return b.String()
}

// prelude reads the user's own files. They may fail.
func (w wrapper) prelude() string {
	var b strings.Builder
	for _, f := range w.login {
		f = quoteDir(f)
		fmt.Fprintf(&b, "[[ ! -r %s ]] || \\builtin source %s </dev/null >/dev/null 2>&1 || \\builtin true\n", f, f)
	}
	if b.Len() > 0 {
		b.WriteString("\\builtin set +e +u\n")
	}
	return b.String()
}

// enter goes to a directory, or to the nearest one above it that is still there.
func enter(dir string) string {
	if dir == "" { // where bash was started
		return ""
	}
	return `__hermes_cd() {
\builtin local d
d=$1
until \builtin cd -- "$d" 2>/dev/null; do
case $d in
/) \builtin return 1 ;;
/*/*) d=${d%/*} ;;
*) d=/ ;;
esac
done
}
__hermes_cd ` + quoteDir(dir) + "\n"
}

// insist goes to a directory, or says that it is not there and gives up.
func (w wrapper) insist(dir string) string {
	return "\\builtin cd -- " + quoteDir(dir) + " 2>/dev/null || { \\builtin printf '\\n%s%s\\n%s\\n' " + w.marker + " " + noDir + " " + w.marker + "; \\builtin exit 126; }\n"
}

// command is the script of a command. One that is kept (nobody waits for it) leaves the
// snapshot alone and reports nothing: it may end long after others have changed them.
func (w wrapper) command(text, dir string, explicit, kept bool) string {
	var b strings.Builder
	if len(w.login) > 0 {
		b.WriteString(w.prelude())
	}
	if !kept {
		if w.snap != "" {
			b.WriteString(w.dump())
		}
		// In the EXIT trap too: a command may call exit itself.
		b.WriteString("__hermes_end() {\n{ \\builtin set +x +v +e +u +n +o posix; } 2>/dev/null\n[[ -z $__hermes_done ]] || \\builtin return 0\n__hermes_done=1\n")
		if w.snap != "" {
			b.WriteString(w.save())
		}
		b.WriteString(w.report() + "}\n")
	}
	b.WriteString("__hermes_lost=\n" + w.source() + "__hermes_done=\n")
	b.WriteString("\\builtin export AI_AGENT=\"${AI_AGENT:-hermes-agent}\" HERMES_AGENT=\"${HERMES_AGENT:-true}\" GIT_PAGER=\"${GIT_PAGER:-cat}\" PAGER=\"${PAGER:-cat}\"\n")
	if w.sudo {
		b.WriteString(sudoLine)
	}
	b.WriteString("__hermes_old=${OLDPWD-}\n")
	if explicit {
		b.WriteString(w.insist(dir))
	} else {
		b.WriteString(enter(dir))
	}
	b.WriteString("[[ -z $__hermes_old ]] || OLDPWD=$__hermes_old\n\\builtin unset -v __hermes_old\n")
	if kept {
		b.WriteString("\\builtin unset -f __hermes_cd 2>/dev/null\n\\builtin eval " + Quote(text) + "\n")
		return b.String()
	}
	b.WriteString("\\builtin trap __hermes_end EXIT\n\\builtin eval " + Quote(text) + "\n__hermes_ec=$?\n__hermes_end\n\\builtin exit $__hermes_ec\n")
	return b.String()
}

// source reads the snapshot. What is this call's own is put aside first, in variables that
// are not exported: the snapshot may be from before a name was this call's own.
func (w wrapper) source() string {
	if w.snap == "" {
		return ""
	}
	var b strings.Builder
	for i, n := range w.scoped {
		fmt.Fprintf(&b, "__hermes_p%d=${%s+x} __hermes_v%d=${%s-}\n", i, n, i, n)
	}
	snap, base := Quote(w.snap), Quote(w.base)
	fmt.Fprintf(&b, "if [[ -r %s ]]; then \\builtin source %s; elif [[ -r %s ]]; then \\builtin source %s; else __hermes_lost='%s'; fi >/dev/null 2>&1\n", snap, snap, base, base, lostMark)
	for i, n := range w.scoped {
		fmt.Fprintf(&b, "if [[ -n $__hermes_p%d ]]; then \\builtin export %s=\"$__hermes_v%d\"; else \\builtin unset -v %s; fi 2>/dev/null\n\\builtin unset -v __hermes_p%d __hermes_v%d\n", i, n, i, n, i, i)
	}
	return b.String()
}

// sudoLine takes a password from the first line of the input, byte by byte, so that the
// command's own input begins right after it, and opens sudo with it where sudo asks for one.
// No argument ever holds it, and the command itself never sees it.
const sudoLine = `IFS= \builtin read -r __hermes_pw
if \builtin command -v sudo >/dev/null 2>&1 && ! \builtin command sudo -n true </dev/null >/dev/null 2>&1; then
\builtin printf '%s\n' "$__hermes_pw" | \builtin command sudo -S -p '' -v >/dev/null 2>&1 || \builtin echo 'sudo: the password that is set for it was not accepted' >&2
fi
\builtin unset -v __hermes_pw
`

// usesSudo reports whether a command may call sudo. Where it does not, the password that is
// sent along is read and thrown away.
func usesSudo(text string) bool { return reSudo().MatchString(text) }

func reSudo() *regexp.Regexp { return regexp.MustCompile(`(^|[\s;&|({!])sudo\s`) }

func reName() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`) }

// names returns those texts that are names of variables, sorted, each once.
func names(in []string) []string {
	re := reName()
	var out []string
	for _, n := range in {
		if re.MatchString(n) {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
