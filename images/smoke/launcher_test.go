// SPDX-License-Identifier: MIT

package smoke

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/images"
)

// TestLauncherContract drives the launcher in a confined container of the real image through
// what a gateway and an unclean past can do to it.
func TestLauncherContract(t *testing.T) {
	t.Parallel()
	e, image := desktopImage(t)
	for name, test := range map[string]func(*testing.T, *desk){
		"report 24: a lock of a dead process is taken away":                 staleLock("4194000"),
		"report 26: a lock whose pid another program has now is taken away": staleLock("1"),
		"a lock with nothing in it is taken away":                           staleLock(""),
		"a live desktop is left alone":                                      liveDesktop,
		"the end of the launcher takes everything along":                    launcherEnds,
		"the end of the display ends the launcher":                          displayEnds,
		"what the bus was starting ends, too":                               strayEnds,
		"reports 27 and 29: missing places are made, for the user alone":    placesAreMade,
		"the environment is published from inside of the session":           published,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, &desk{box: confined(t, e, image)})
		})
	}
}

// script runs a script in the container as a user.
func script(t *testing.T, d *desk, user, text string) string {
	t.Helper()
	out, err := d.box.Exec(t.Context(), images.Command{User: user, Argv: []string{"bash", "-euo", "pipefail", "-c", text}})
	if err != nil || out.Code != 0 {
		t.Fatalf("%s: exit %d: %s%s %v", text, out.Code, out.Stdout, out.Stderr, err)
	}
	return strings.TrimSpace(out.Stdout)
}

func up(t *testing.T, d *desk) {
	t.Helper()
	if _, err := d.launch(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// gone waits until nothing of the desktop runs.
func gone(t *testing.T, d *desk) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	var last []process
	for {
		list, err := d.processes(ctx)
		if err != nil {
			t.Fatalf("%v; left: %v", err, last)
		}
		last = list
		if len(list) == 0 {
			return
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			t.Fatalf("left: %v", list)
		}
	}
}

// pid returns the number of the one process of a name.
func pid(t *testing.T, d *desk, name string) int {
	t.Helper()
	list, err := d.processes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(list, func(p process) bool { return p.name == name })
	if i < 0 {
		t.Fatalf("no %s among %v", name, list)
	}
	return list[i].pid
}

func staleLock(content string) func(*testing.T, *desk) {
	return func(t *testing.T, d *desk) {
		script(t, d, deskUser, fmt.Sprintf(`echo '%s' >/tmp/.X20-lock; mkdir -m 1777 /tmp/.X11-unix; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("/tmp/.X11-unix/X20")'`, content))
		up(t, d)
		if got, want := script(t, d, deskUser, `tr -d ' ' </tmp/.X20-lock`), fmt.Sprint(pid(t, d, "Xvnc")); got != want {
			t.Errorf("the lock names %s, want Xvnc, %s", got, want)
		}
	}
}

func liveDesktop(t *testing.T, d *desk) {
	up(t, d)
	first := pid(t, d, "Xvnc")
	out, err := d.box.Exec(t.Context(), images.Command{User: deskUser, Argv: []string{"bash", images.LauncherPath}, Env: []string{
		"HERMES_BD_PROFILE=other", "HERMES_BD_DISPLAY_NUM=" + deskDisplay, "HERMES_BD_SOCKET=/tmp/other/rfb.sock", "HERMES_BD_XAUTH=/tmp/other/Xauthority",
		"HERMES_BD_ENV_FILE=/tmp/other/env", "HERMES_BD_CONFIG_HOME=/tmp/other/xdg",
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{fmt.Sprintf("display :20 belongs to process %d", first), "Xvnc exited during startup"} {
		if out.Code != 1 || !strings.Contains(out.Stderr, want) {
			t.Errorf("a second launcher: exit %d, want 1 and %q in\n%s", out.Code, want, out.Stderr)
		}
	}
	if now := pid(t, d, "Xvnc"); now != first {
		t.Errorf("the first desktop's Xvnc is %d, was %d", now, first)
	}
	script(t, d, deskUser, `[ ! -e /tmp/other/env ] && [ ! -e /tmp/other/rfb.sock ]; [ -S `+deskDir+`/rfb.sock ]`)
	s := &run{box: d.box, desk: *d}
	if _, done, err := s.viewer(t.Context()); err != nil {
		t.Errorf("the first desktop no longer answers: %v", err)
	} else if err := done(); err != nil {
		t.Error(err)
	}
}

// launcherEnds signals the launcher alone, not its group as a gateway would.
func launcherEnds(t *testing.T, d *desk) {
	up(t, d)
	script(t, d, deskUser, `kill -TERM "$(cat `+deskDir+`/launcher.pid)"`)
	gone(t, d)
	script(t, d, deskUser, `[ ! -e `+deskDir+`/env ] && [ ! -e `+deskDir+`/rfb.sock ]`)
}

func displayEnds(t *testing.T, d *desk) {
	up(t, d)
	script(t, d, deskUser, fmt.Sprintf("kill -KILL %d", pid(t, d, "Xvnc")))
	gone(t, d)
	script(t, d, deskUser, `[ ! -e `+deskDir+`/env ]`)
}

// strayEnds: a service that the bus is starting when it ends would have no parent left that ends it.
func strayEnds(t *testing.T, d *desk) {
	script(t, d, deskUser, `umask 077; s=`+deskDir+`/xdg/.local-share/dbus-1/services; mkdir -p $s
printf '[D-BUS Service]\nName=org.hermes.Stray\nExec=/usr/bin/tail -f /dev/null\n' >$s/org.hermes.Stray.service`)
	up(t, d)
	script(t, d, deskUser, `export "$(grep ^DBUS_SESSION_BUS_ADDRESS= `+deskDir+`/env)"
setsid -f dbus-send --session --print-reply --dest=org.hermes.Stray / org.hermes.Stray.Never </dev/null >/dev/null 2>&1
until pgrep -x tail >/dev/null; do sleep 0.05; done`)
	script(t, d, deskUser, fmt.Sprintf("kill -KILL %d", pid(t, d, "Xvnc")))
	gone(t, d)
}

func placesAreMade(t *testing.T, d *desk) {
	script(t, d, deskUser, `[ ! -e /tmp/.X11-unix ] && [ ! -e /tmp/hermes-runtime ]`) // /tmp is new in every container
	up(t, d)
	got := script(t, d, deskUser, `stat -c '%a %U %n' /tmp/.X11-unix /tmp/hermes-runtime `+deskDir+`/xdg `+deskDir+`/Xauthority `+deskDir+`/env`)
	want := "1777 pn /tmp/.X11-unix\n700 pn /tmp/hermes-runtime\n700 pn " + deskDir + "/xdg\n600 pn " + deskDir + "/Xauthority\n600 pn " + deskDir + "/env"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func published(t *testing.T, d *desk) {
	up(t, d)
	var names []string
	for _, line := range d.env {
		name, value, _ := strings.Cut(line, "=")
		if value == "" {
			t.Errorf("%s is empty", name)
		}
		names = append(names, name)
	}
	if want := []string{"DISPLAY", "XAUTHORITY", "DBUS_SESSION_BUS_ADDRESS", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"}; !slices.Equal(names, want) {
		t.Errorf("published %q, want %q", names, want)
	}
	out, err := d.box.Exec(t.Context(), images.Command{User: deskUser, Env: d.env, Argv: []string{
		"dbus-send", "--session", "--print-reply", "--dest=org.freedesktop.DBus", "/", "org.freedesktop.DBus.ListNames",
	}})
	if err != nil || out.Code != 0 || !strings.Contains(out.Stdout, "org.freedesktop.DBus") {
		t.Errorf("the published bus: exit %d, %s%s %v", out.Code, out.Stdout, out.Stderr, err)
	}
	cookie := script(t, d, deskUser, `xauth -f `+deskDir+`/Xauthority list | awk '{ print $3 }'`)
	if list, err := d.box.Exec(t.Context(), images.Command{User: "root", Argv: []string{"ps", "-eo", "args"}}); err != nil || len(cookie) != 32 || strings.Contains(list.Stdout, cookie) {
		t.Errorf("the cookie %q is in somebody's arguments, or is none (%v)", cookie, err)
	}
}
