// SPDX-License-Identifier: MIT

package service

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
)

// OpenRC returns the script of the service for OpenRC, which has supervise-daemon start it again.
// supervise-daemon knows no exit status that ends it: who starts the service checks first whether
// it could run, as with launchd. The error is an [*InputError].
func (s Spec) OpenRC() (File, error) {
	if err := s.Check(); err != nil {
		return File{}, err
	}
	var b strings.Builder
	set := func(name, value string) { b.WriteString(name + "=" + shellWord(value) + "\n") }
	set("description", Description)
	set("supervisor", "supervise-daemon")
	set("command", "/usr/bin/env") // which becomes the program; OpenRC's own PATH stays what it is
	set("command_args", shellWords(append(s.environment(), s.Exec...)))
	set("command_user", s.Account+":"+s.Group)
	set("directory", s.Home)
	set("pidfile", "/run/"+s.Name+".pid")
	set("respawn_delay", "5")
	set("respawn_max", "0") // the service has a storm breaker of its own
	set("retry", "TERM/"+strconv.Itoa(int(s.StopBudget().Seconds()))+"/KILL/5")
	set("output_logger", "logger -t "+s.Name)
	set("error_logger", "logger -t "+s.Name)
	if len(s.Before) > 0 {
		// As the account, which owns the home; a failure is the service's to explain.
		before := "cd " + shellWord(s.Home) + " && exec env " + shellWords(append(s.environment(), s.Before...))
		b.WriteString("\nstart_pre() {\n\tsu -s /bin/sh " + shellWord(s.Account) + " -c " + shellWord(before) + " || true\n}\n")
	}
	b.WriteString("\ndepend() {\n\tuse localmount netmount net logger\n}\n")
	return File{s.Name, "#!/sbin/openrc-run\n" + Stamp(s.Home, b.String())}, nil
}

// SysV returns the script of the service for SysV init. That starts and stops and does no more:
// the script keeps the service running by itself, until it ends with 0 or 78. The error is an
// [*InputError].
func (s Spec) SysV() (File, error) {
	if err := s.Check(); err != nil {
		return File{}, err
	}
	var env strings.Builder
	for _, kv := range s.environment() {
		name, value, _ := strings.Cut(kv, "=")
		env.WriteString("export " + name + "=" + shellWord(value) + "\n")
	}
	pid := "/run/" + s.Name + ".pid"
	before := ""
	if len(s.Before) > 0 {
		before = shellWords(s.Before) + "; "
	}
	loop := fmt.Sprintf(`while :; do %s%s & child=$!; trap "kill -TERM $child; wait $child; exit 0" TERM; trap "kill -USR1 $child" USR1; `+
		`while :; do wait $child; code=$?; kill -0 $child 2>/dev/null || break; done; `+
		`case $code in %d|%d) exit $code ;; esac; sleep 5; done`, before, shellWords(s.Exec), int(exitcode.OK), int(exitcode.Config))
	body := `### BEGIN INIT INFO
# Provides:          ` + s.Name + `
# Required-Start:    $remote_fs $network
# Required-Stop:     $remote_fs $network
# Default-Start:     2 3 4 5
# Default-Stop:      0 1 6
# Short-Description: ` + Description + `
### END INIT INFO
` + env.String() + `pidfile=` + shellWord(pid) + `
running() { [ -s "$pidfile" ] && kill -0 "$(cat "$pidfile")" 2>/dev/null; }
start() {
	running && return 0
	start-stop-daemon --start --background --make-pidfile --pidfile "$pidfile" --chuid ` + shellWord(s.Account+":"+s.Group) + ` \
		--chdir ` + shellWord(s.Home) + ` --startas /bin/sh -- -c ` + shellWord(loop) + `
}
stop() {
	running || return 0
	start-stop-daemon --stop --pidfile "$pidfile" --retry TERM/` + strconv.Itoa(int(s.StopBudget().Seconds())) + `/KILL/5 && rm -f "$pidfile"
}
case "$1" in
start) start ;;
stop) stop ;;
restart|force-reload) stop && start ;;
status) running || exit 3 ;;
*) echo "usage: $0 start|stop|restart|force-reload|status" >&2; exit 2 ;;
esac
`
	return File{s.Name, "#!/bin/sh\n" + Stamp(s.Home, body)}, nil
}

// shellWords quotes the words of a command for a POSIX shell.
func shellWords(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = shellWord(w)
	}
	return strings.Join(out, " ")
}
