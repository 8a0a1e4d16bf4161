// SPDX-License-Identifier: MIT

package smoke

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hermes-appliance/hermes-appliance/images"
)

const (
	deskUser    = "pn"
	deskDir     = "/tmp/hermes-bot-desktop/smoke"
	deskDisplay = "20"
	// What the dock's browser icon runs, as a gateway hands it to the launcher: with what a
	// container makes necessary, and a profile that outlives /tmp.
	browserLine = `"/usr/local/bin/hermes-chromium" --no-sandbox --disable-dev-shm-usage --no-first-run --disable-gpu "--user-data-dir=/home/pn/.hermes/bot-desktop/browser-profile" %U`
)

// desk is a desktop in a container, started and stopped as the gateway does it.
type desk struct {
	box *images.Container
	env []string // what a program needs to join it, once it is up
}

// launch starts the launcher in a session of its own and waits until the desktop is
// published. It returns how long that took.
func (d *desk) launch(ctx context.Context) (time.Duration, error) {
	env := []string{
		"HERMES_BD_PROFILE=smoke", "HERMES_BD_DISPLAY_NUM=" + deskDisplay, "HERMES_BD_SOCKET=" + deskDir + "/rfb.sock",
		"HERMES_BD_XAUTH=" + deskDir + "/Xauthority", "HERMES_BD_ENV_FILE=" + deskDir + "/env", "HERMES_BD_CONFIG_HOME=" + deskDir + "/xdg",
		"HERMES_BD_BROWSER_EXEC=/usr/local/bin/hermes-chromium", "HERMES_BD_BROWSER_EXEC_LINE=" + browserLine,
	}
	// Others may come as far as the socket: its own mode is what has to keep them out.
	script := `umask 022; mkdir -p "$1"; cd "$1"; umask 077
rm -f launcher.pid env # of an earlier one; its socket and lock are the launcher's to clear
setsid -f bash -c 'echo $$ >launcher.pid; exec bash "$1"' launcher "$2" </dev/null >launcher.log 2>&1
while ((SECONDS < 90)); do
  [ -S rfb.sock ] && [ -r env ] && { cat env; exit 0; }
  [ ! -s launcher.pid ] || [ -d /proc/$(cat launcher.pid) ] || break
  sleep 0.05
done
echo "nothing published:"; tail -c 2000 launcher.log; exit 1`
	begin := time.Now()
	out, err := d.box.Exec(ctx, images.Command{User: deskUser, Env: env, Argv: []string{"bash", "-c", script, "launch", deskDir, images.LauncherPath}})
	took := time.Since(begin)
	if err != nil {
		return took, err
	}
	if out.Code != 0 {
		return took, errors.New(strings.TrimSpace(out.Stdout + out.Stderr))
	}
	d.env = strings.Split(strings.TrimSpace(out.Stdout), "\n")
	if !slices.Contains(d.env, "DISPLAY=:"+deskDisplay) {
		return took, fmt.Errorf("the published environment lacks DISPLAY=:%s: %q", deskDisplay, d.env)
	}
	return took, nil
}

// process is one process of the container.
type process struct {
	pid, session, threads int
	user, name, args      string
}

// processes lists what runs in the container, but for its own listing, the first process and
// the sleep that keeps it.
func (d *desk) processes(ctx context.Context) ([]process, error) {
	out, err := d.box.Exec(ctx, images.Command{User: "root", Argv: []string{"ps", "-eo", "pid=,sid=,nlwp=,user=,comm:32=,args="}})
	if err != nil {
		return nil, err
	}
	if out.Code != 0 {
		return nil, fmt.Errorf("ps: %s", out.Stderr)
	}
	var list []process
	for line := range strings.Lines(out.Stdout) {
		f := strings.Fields(line)
		if len(f) < 5 {
			continue
		}
		var n [3]int
		for i := range n {
			if n[i], err = strconv.Atoi(f[i]); err != nil {
				return nil, fmt.Errorf("ps: %q", line)
			}
		}
		p := process{pid: n[0], session: n[1], threads: n[2], user: f[3], name: f[4], args: strings.Join(f[5:], " ")}
		if p.pid == 1 || p.args == "sleep infinity" || p.name == "ps" && p.user == "root" {
			continue
		}
		list = append(list, p)
	}
	return list, nil
}

// halt stops the desktop: a polite signal to its session, then, after the time that is given,
// the hard one to all that is left of it. It returns what the hard one was needed for.
func (d *desk) halt(ctx context.Context, grace time.Duration) (forced []process, err error) {
	before, err := d.processes(ctx)
	if err != nil {
		return nil, err
	}
	out, err := d.box.Exec(ctx, images.Command{User: deskUser, Argv: []string{"bash", "-c", `kill -TERM -- "-$(cat "$1/launcher.pid")"`, "halt", deskDir}})
	if err != nil {
		return nil, err
	}
	if out.Code != 0 {
		return nil, fmt.Errorf("kill: %s", strings.TrimSpace(out.Stderr))
	}
	var left []process
	for deadline := time.Now().Add(grace); ; {
		if left, err = d.processes(ctx); err != nil || len(left) == 0 {
			return nil, err
		}
		if time.Now().After(deadline) {
			break
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return nil, err
		}
	}
	return left, d.kill(ctx, before)
}

// kill ends processes the hard way.
func (d *desk) kill(ctx context.Context, list []process) error {
	argv := []string{"kill", "-KILL"}
	for _, p := range list {
		argv = append(argv, strconv.Itoa(p.pid))
	}
	if len(list) == 0 {
		return nil
	}
	_, err := d.box.Exec(ctx, images.Command{User: deskUser, Argv: argv})
	return err
}

// killAll ends all that runs the hard way. What a program started while it was listed is found
// by the next look.
func (d *desk) killAll(ctx context.Context) error {
	var names []string
	for {
		list, err := d.processes(ctx)
		if err == nil && len(list) == 0 {
			return nil
		}
		if err == nil {
			names = names[:0]
			for _, p := range list {
				names = append(names, fmt.Sprintf("%d %s", p.pid, p.name))
			}
			err = d.kill(ctx, list)
		}
		if err == nil {
			err = pause(ctx, 20*time.Millisecond)
		}
		if err != nil {
			return fmt.Errorf("after SIGKILL to %s: %w", strings.Join(names, ", "), err)
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// relay connects to the desktop's socket as the gateway's viewer does: bytes over the standard
// streams of a command in the container.
const relay = `import socket, sys, threading, os
s = socket.socket(socket.AF_UNIX)
try:
    s.connect(sys.argv[1])
except OSError as e:
    sys.exit("connect: " + e.strerror)
def up():
    while data := os.read(0, 65536):
        s.sendall(data)
    s.shutdown(socket.SHUT_WR)
threading.Thread(target=up, daemon=True).start()
while data := s.recv(65536):
    view = memoryview(data)
    while view:
        view = view[os.write(1, view):]
`

// view opens the desktop's socket as a user.
func (d *desk) view(ctx context.Context, user string) (*images.Stream, error) {
	return d.box.Stream(ctx, images.Command{User: user, Argv: []string{"python3", "-c", relay, deskDir + "/rfb.sock"}})
}
