// SPDX-License-Identifier: MIT

package smoke

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/images"
)

// breakages are images with one defect each, and the step that has to find it.
func breakages() []breakage {
	edit := func(from, to string) string {
		return "grep -q -- '" + from + "' " + images.LauncherPath + " && sed -i 's#" + from + "#" + to + "#' " + images.LauncherPath
	}
	return []breakage{
		{"missing binary", "rm /usr/bin/jq", "binaries", "jq is missing"},
		{"binary that does not run", "printf '#!/bin/sh\\nexit 1\\n' >/usr/bin/rg", "binaries", "rg is broken"},
		{"other Node", "printf '#!/bin/sh\\necho v20.0.0\\n' >/usr/local/bin/node", "binaries", "expected v26."},
		{"no Python headers", "rm -r /usr/include/python3*", "compilers", "Python.h"},
		{"other user", "usermod -u 1234 pn", "user", "uid=1234"},
		{"no sudo", "rm /etc/sudoers.d/pn", "user", "sudo"},
		{"nothing for ssh logins", ": >/etc/environment", "user", "PLAYWRIGHT_BROWSERS_PATH"},
		{"one machine-id for all", "echo 0123456789abcdef0123456789abcdef >/etc/machine-id", "user", "machine-id"},
		{"report 31: launcher that publishes nothing", "printf '#!/bin/bash\\necho no display today >&2; exit 1\\n' >" + images.LauncherPath, "display", "no display today"},
		{"window manager that does not start", edit("xfwm4 --compositor", "true --compositor"), "display", "xfwm4"},
		{"socket for everybody", edit("-rfbunixmode 0600", "-rfbunixmode 0666"), "rfb", "mode 600"},
		{"open to a second user", edit("-rfbunixmode 0600", "-rfbunixmode 0666"), "second-user", "another user gets"},
		{"password on the socket", edit("-SecurityTypes None", "-SecurityTypes VncAuth,None"), "rfb", "security types"},
		{"TCP on", edit("-rfbport -1", "-rfbport 5920"), "rfb", "listens on TCP"},
		{"display without a cookie", edit("-nolisten tcp", "-nolisten tcp -ac"), "second-user", "X display"},
		{"report 30: browser without a window", "rm /usr/local/bin/hermes-chromium; printf '#!/bin/sh\\nexec sleep 60\\n' >/usr/local/bin/hermes-chromium; chmod 755 /usr/local/bin/hermes-chromium", "chromium", "no window"},
		{"driver that is no MCP server", "rm /usr/local/bin/cua-driver; printf '#!/bin/sh\\necho hello\\n' >/usr/local/bin/cua-driver; chmod 755 /usr/local/bin/cua-driver", "computer-use", "hello"},
		{"no agent-browser", "rm /usr/local/bin/agent-browser", "agent-browser", "not found"},
		{"blank screen", strings.Join([]string{
			"for p in xfdesktop xfwm4 xfsettingsd xfce4-panel; do cp --remove-destination /usr/bin/sleep /usr/bin/$p; done",
			edit("xfsettingsd --no-daemon", "xfsettingsd infinity"), edit("xfwm4 --compositor=off", "xfwm4 infinity"),
			edit("^  xfdesktop &", "  xfdesktop infinity \\&"), edit("exec xfce4-panel", "exec xfce4-panel infinity"),
		}, " && "), "screenshot", "the screen is blank"},
		{"process that stays", edit("^  exec xfce4-panel", "  setsid sleep 1000 \\& exec xfce4-panel"), "stop", "sleep"},
		{"report 24: stale lock that stays", edit("^  unlock$", "  rm -f -- \"$HERMES_BD_SOCKET\""), "crash", "Xvnc exited during startup"},
	}
}

type breakage struct {
	name, script string
	step, detail string
}

// TestSmokeFindsDefects proves deliberately broken images, each of which has to fail at the
// step that is there for it.
func TestSmokeFindsDefects(t *testing.T) {
	t.Parallel()
	e, image := desktopImage(t)
	for _, b := range breakages() {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), proofTime)
			defer cancel()
			broken := derive(t, e, image, b.script)
			var o Options
			if b.step == "display" {
				o.parts = 10 * time.Second // what never comes need not be waited for long
			}
			r, err := prove(ctx, e, broken, o, only(b.step))
			if err != nil {
				t.Fatal(err)
			}
			bad := r.Failed()
			for i := range r.Steps { // what the step stands on may show the defect too
				if r.Steps[i].Name == b.step {
					bad = &r.Steps[i]
				}
			}
			if r.Verdict != Fail || bad == nil || bad.Verdict != Fail || !strings.Contains(bad.Detail, b.detail) {
				t.Errorf("got %s, %+v; want step %s to fail with %q", r.Verdict, r.Steps, b.step, b.detail)
			}
		})
	}
}

// derive makes an image by one script on top of another, which goes with the test.
func derive(t *testing.T, e *images.Engine, image, script string) string {
	t.Helper()
	c := confined(t, e, image)
	out, err := c.Exec(t.Context(), images.Command{User: "root", Argv: []string{"bash", "-euo", "pipefail", "-c", script}})
	if err != nil || out.Code != 0 {
		t.Fatalf("%s: exit %d: %s%s %v", script, out.Code, out.Stdout, out.Stderr, err)
	}
	id, err := c.Commit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Untag(context.WithoutCancel(t.Context()), id); err != nil {
			t.Error(err)
		}
	})
	return id
}
