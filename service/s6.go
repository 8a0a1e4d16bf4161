// SPDX-License-Identifier: MIT

package service

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
)

// s6Permanent is what a finish script exits with to keep its service down.
const s6Permanent = 125

// S6 returns the files of a slot for s6 (services spec §1.6): run, finish, log/run and type.
// Names are relative to the slot; run, finish and log/run are to be executable. The error is
// an [*InputError].
func (s Spec) S6() ([]File, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	var run strings.Builder
	run.WriteString("#!/bin/sh\nexec 2>&1\n")
	for _, kv := range append(s.environment(), "HERMES_S6_SUPERVISED_CHILD=1") {
		name, value, _ := strings.Cut(kv, "=")
		run.WriteString("export " + name + "=" + shellWord(value) + "\n")
	}
	drop := ""
	if s.Scope == System {
		// As root it drops to the account; without root it is that account already.
		drop = ` $([ "$(id -u)" = 0 ] && echo s6-setuidgid ` + s.Account + `)`
	}
	run.WriteString("cd -- " + shellWord(s.Home) + " || exit 1\nexec" + drop)
	for _, w := range s.Exec {
		run.WriteString(" " + shellWord(w))
	}
	// s6 alone decides what runs in its slot, so that here, and only here, the newcomer wins.
	run.WriteString(" --replace\n")
	// $1 is the exit code, 256 after a signal. Not coming back after these is the point: s6 has
	// no back-off (H#76435, H#49567).
	finish := fmt.Sprintf("#!/bin/sh\ncase \"$1\" in\n%d|%d) exit %d ;;\nesac\nexit 0\n", int(exitcode.OK), int(exitcode.Config), s6Permanent)
	// s6-log makes its own directory and none above it.
	dir := filepath.Join(s.Home, "logs", "gateways")
	log := "#!/bin/sh\n" + strings.TrimSpace(drop+" mkdir -p -- "+shellWord(dir)) + " || exit 1\nexec" + drop +
		" s6-log 1 n10 s1000000 T " + shellWord(filepath.Join(dir, s.slot())) + "\n"
	return []File{{"type", "longrun\n"}, {"run", run.String()}, {"finish", finish}, {"log/run", log}, {"timeout-kill", strconv.Itoa(int(s.StopBudget().Milliseconds())) + "\n"}}, nil
}

// slot is the name of the profile in s6's eyes.
func (s Spec) slot() string {
	if suffix := strings.TrimPrefix(strings.TrimPrefix(s.Name, Base), "-"); suffix != "" {
		return suffix
	}
	return "default"
}

// Slot is the directory of the service below s6's scan directory.
func (s Spec) Slot() string { return "gateway-" + s.slot() }

// shellWord quotes a word for a POSIX shell.
func shellWord(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
