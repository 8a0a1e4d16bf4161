// SPDX-License-Identifier: MIT

package installer

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
	"github.com/hermes-appliance/hermes-appliance/service"
)

// Identity of a service: --run-as-user, then the unit that is there, then who called sudo, then
// USER and LOGNAME (services spec §2.2). pinned is the User= of the present unit, "" = none.
// Root only by name: nobody gets it by accident.
func (h Host) account(ctx context.Context, scope service.Scope, asked, pinned string) (Account, error) {
	name := asked
	if scope == service.System && name == "" {
		name = pinned
	}
	for _, v := range []string{"SUDO_USER", "USER", "LOGNAME", "USERNAME"} {
		if name == "" && (scope == service.System || v != "SUDO_USER") {
			name = h.Getenv(v)
		}
	}
	if scope == service.User && asked == "" && h.OS != "windows" && !h.Offline {
		name = strconv.Itoa(h.UID) // whatever the environment says, it is this process's user
	}
	if name == "" {
		return Account{}, &Refusal{Reason: "no-user", Msg: "nobody says whose service it is", Fix: "pass --run-as-user NAME", Code: exitcode.Usage}
	}
	a, err := h.Lookup(ctx, name)
	if errors.Is(err, ErrNoAccount) {
		return a, &Refusal{
			Reason: "unknown-user", Msg: fmt.Sprintf("there is no user %q on this host", name),
			Fix: "sudo useradd --system --create-home " + name + ", or pass --run-as-user NAME", Code: exitcode.Usage,
		}
	}
	if err != nil {
		return a, err
	}
	if a.UID == 0 && asked == "" && pinned == "" && h.OS != "windows" {
		return a, &Refusal{
			Reason: "root", Msg: "the service would run as root, with all that its tools do",
			Fix: "pass --run-as-user NAME (or --run-as-user root if that is meant)", Code: exitcode.Usage,
		}
	}
	return a, nil
}

// ParsePasswd finds a user by name or number in text of the form of passwd(5), and the name of
// the group in text of the form of group(5). The error wraps [ErrNoAccount].
func ParsePasswd(passwd, group, name string) (Account, error) {
	for line := range strings.Lines(passwd) {
		f := strings.Split(strings.TrimRight(line, "\n"), ":")
		if len(f) < 7 || f[0] != name && f[2] != name {
			continue
		}
		uid, err1 := strconv.Atoi(f[2])
		gid, err2 := strconv.Atoi(f[3])
		if err := errors.Join(err1, err2); err != nil {
			return Account{}, fmt.Errorf("user %s: %w", name, err)
		}
		a := Account{Name: f[0], UID: uid, GID: gid, Home: f[5], Group: f[3]}
		for g := range strings.Lines(group) {
			if f := strings.Split(strings.TrimRight(g, "\n"), ":"); len(f) >= 3 && f[2] == strconv.Itoa(gid) {
				a.Group = f[0]
				break
			}
		}
		return a, nil
	}
	return Account{}, fmt.Errorf("%w: %q", ErrNoAccount, name)
}
