// SPDX-License-Identifier: MIT

package smoke

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/png"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hermes-appliance/hermes-appliance/images"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
)

// components are what the launcher starts, by exact name.
func components() []string {
	return []string{"Xvnc", "xfwm4", "xfce4-panel", "xfdesktop", "xfsettingsd"}
}

// display starts the desktop and waits for all of its components.
func (s *run) display(ctx context.Context) (string, error) {
	took, err := s.desk.launch(ctx)
	s.report.Figures["display_seconds"] = took.Seconds()
	if err != nil {
		return "", err
	}
	threads, err := s.components(ctx)
	s.report.Figures["display_threads"] = float64(threads)
	return fmt.Sprintf(":%s published after %.2f s, %d threads", deskDisplay, took.Seconds(), threads), err
}

// components waits until every component runs, and returns how many threads the desktop has.
func (s *run) components(ctx context.Context) (threads int, err error) {
	for deadline := time.Now().Add(s.o.parts); ; {
		list, err := s.desk.processes(ctx)
		if err != nil {
			return 0, err
		}
		missing := components()
		threads = 0
		for _, p := range list {
			threads += p.threads
			missing = slices.DeleteFunc(missing, func(name string) bool { return name == p.name })
		}
		if len(missing) == 0 {
			return threads, nil
		}
		if time.Now().After(deadline) {
			return 0, fmt.Errorf("not running: %s", strings.Join(missing, ", "))
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return 0, err
		}
	}
}

// handshake speaks with the desktop's socket as the gateway's viewer does, and checks who may.
func (s *run) handshake(ctx context.Context) (string, error) {
	mode, err := s.sh(ctx, nil, `stat -c '%a %U' "$1"`, deskDir+"/rfb.sock")
	if err != nil {
		return "", err
	}
	if mode != "600 "+deskUser {
		return "", fmt.Errorf("the socket is %q, expected mode 600 of %s", mode, deskUser)
	}
	listening, err := s.sh(ctx, nil, `awk 'FNR > 1 && $4 == "0A" { print $2 }' /proc/net/tcp /proc/net/tcp6 2>/dev/null`)
	if err != nil {
		return "", err
	}
	if listening != "" {
		return "", fmt.Errorf("something listens on TCP: %s", listening)
	}
	c, done, err := s.viewer(ctx)
	if err != nil {
		return "", err
	}
	_, second, err := s.viewer(ctx)
	if err != nil {
		return "", errors.Join(fmt.Errorf("beside another viewer: %w", err), done())
	}
	_, err = c.Frame() // the first one still gets its screen
	if err = errors.Join(err, second(), done()); err != nil {
		return "", err
	}
	return fmt.Sprintf("RFB 3.8, security None alone, two viewers, %dx%d, %q", c.Width, c.Height, c.Name), nil
}

// viewer connects to the desktop. The caller ends it with done.
func (s *run) viewer(ctx context.Context) (c *rfb, done func() error, err error) {
	stream, err := s.desk.view(ctx, deskUser)
	if err != nil {
		return nil, nil, err
	}
	if c, err = connectRFB(stream); err != nil {
		err = fmt.Errorf("%w %s", err, strings.TrimSpace(stream.Stderr()))
		return nil, nil, errors.Join(err, stream.Close())
	}
	return c, stream.Close, nil
}

// secondUser tries to reach the desktop as somebody else: over its socket, and over X.
func (s *run) secondUser(ctx context.Context) (string, error) {
	stream, err := s.desk.view(ctx, "nobody")
	if err != nil {
		return "", err
	}
	var got [12]byte
	n, _ := stream.Read(got[:]) //nolint:errcheck // a refusal ends the stream; what counts is that nothing came
	said := stream.Stderr()
	if err := stream.Close(); err != nil {
		return "", err
	}
	if n > 0 || !strings.Contains(said, "Permission denied") {
		return "", fmt.Errorf("another user gets %q from the socket, expected a refusal (%s)", got[:n], strings.TrimSpace(said))
	}
	out, err := s.box.Exec(ctx, images.Command{User: "nobody", Env: []string{"DISPLAY=:" + deskDisplay}, Argv: []string{"xdpyinfo"}})
	if err == nil && out.Code == 0 {
		err = errors.New("another user can open the X display")
	}
	return "socket and display refuse nobody", err
}

// browse runs what the dock's browser icon would.
const browse = `mkdir -p "$HOME/smoke"; printf '<title>smoke</title><body style="background:#c33"><h1>It works</h1>' >"$HOME/smoke/page.html"
line=$(sed -n 's/^Exec=//p' "$1"/xdg/xfce4/panel/launcher-*/hermes-Browser.desktop)
eval "setsid -f ${line% %U} 'file://$HOME/smoke/page.html'" </dev/null >"$1/chromium.log" 2>&1`

// chromium starts the headed browser from the dock's entry and waits for its window.
func (s *run) chromium(ctx context.Context) (string, error) {
	if _, err := s.sh(ctx, s.desk.env, browse, deskDir); err != nil {
		return "", err
	}
	const script = `while ((SECONDS < 90)); do
  for w in $(xprop -root _NET_CLIENT_LIST | grep -o '0x[0-9a-f]*' || true); do
    c=$(xprop -id "$w" WM_CLASS _NET_WM_NAME | tr '\n' ' ' || true)
    case ${c,,} in *wm_class*chrom*) printf %s "$c"; exit 0 ;; esac
  done
  sleep 0.1
done
echo 'no window of the browser'; tail -c 1000 "$1/chromium.log"; exit 1`
	class, err := s.sh(ctx, s.desk.env, script, deskDir)
	if err != nil {
		return "", err
	}
	list, err := s.desk.processes(ctx)
	threads := 0
	for _, p := range list {
		threads += p.threads
	}
	s.report.Figures["browser_threads"] = float64(threads)
	return fmt.Sprintf("%s, %d threads", strings.Join(strings.Fields(class), " "), threads), err
}

// computerUse lists windows through the driver, which must see the browser's.
func (s *run) computerUse(ctx context.Context) (detail string, err error) {
	stream, err := s.box.Stream(ctx, images.Command{User: deskUser, Env: s.desk.env, Argv: []string{"cua-driver", "mcp", "--no-overlay"}})
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w %s", err, strings.TrimSpace(stream.Stderr()))
		}
		err = errors.Join(err, stream.Close())
	}()
	m := &mcp{w: stream, r: bufio.NewReaderSize(stream, 1<<20)}
	srv, err := m.hello()
	if err != nil {
		return "", err
	}
	if strings.Contains(strings.ToLower(srv.Name+srv.Version), "stand") {
		s.report.standIn("cua-driver")
	}
	text, err := m.tool("list_windows")
	if err != nil {
		return "", err
	}
	if !strings.Contains(strings.ToLower(text), "chrom") {
		return "", fmt.Errorf("list_windows does not name the browser: %.300s", text)
	}
	return fmt.Sprintf("%s %s lists the browser", srv.Name, srv.Version), nil
}

// agentBrowser opens a local page with the command line that browser tools drive.
func (s *run) agentBrowser(ctx context.Context) (string, error) {
	const script = `mkdir -p "$HOME/smoke"; printf '<title>seen by agent-browser</title><p>local</p>' >"$HOME/smoke/agent.html"
export AGENT_BROWSER_SESSION=smoke AGENT_BROWSER_ARGS=--no-sandbox,--disable-dev-shm-usage AGENT_BROWSER_DEFAULT_TIMEOUT=120000
agent-browser open "file://$HOME/smoke/agent.html" >/dev/null
agent-browser get title
agent-browser close >/dev/null`
	out, err := s.sh(ctx, nil, script)
	if err == nil && !strings.Contains(out, "seen by agent-browser") {
		err = fmt.Errorf("the title is %q", out)
	}
	return "opened a local page and read its title", err
}

// screenshot reads the whole screen and waits until something is on it: a window is there before it is painted.
func (s *run) screenshot(ctx context.Context) (string, error) {
	for deadline := time.Now().Add(endTime); ; {
		c, done, err := s.viewer(ctx)
		if err != nil {
			return "", err
		}
		img, err := c.Frame()
		if err = errors.Join(err, done()); err != nil {
			return "", err
		}
		n, most := colours(img)
		blank := n < 16 || most > 0.995
		if blank && time.Now().Before(deadline) {
			if err := pause(ctx, 500*time.Millisecond); err != nil {
				return "", err
			}
			continue
		}
		if err := s.picture("screen.png", img); err != nil {
			return "", err
		}
		detail := fmt.Sprintf("%dx%d, %d colours, the most frequent on %.0f %%", c.Width, c.Height, n, 100*most)
		if blank {
			return "", errors.New("the screen is blank: " + detail)
		}
		return detail, nil
	}
}

// picture writes a screen to the artefacts.
func (s *run) picture(name string, img image.Image) error {
	if s.o.Artifacts == "" {
		return nil
	}
	var buf bytes.Buffer
	if err := png.Encode(&buf, img); err != nil {
		return err
	}
	return atomicfile.Writer{}.Write(filepath.Join(s.o.Artifacts, name), buf.Bytes(), atomicfile.Options{Mode: 0o644})
}

// stop ends the desktop politely and finds nothing of it, nor of what ran on it, left.
func (s *run) stop(ctx context.Context) (string, error) {
	begin := time.Now()
	forced, err := s.desk.halt(ctx, endTime)
	if err != nil {
		return "", err
	}
	took := time.Since(begin).Seconds()
	s.report.Figures["stop_seconds"] = took
	if len(forced) > 0 {
		var left []string
		for _, p := range forced {
			left = append(left, fmt.Sprintf("%d %s", p.pid, p.name))
		}
		return "", fmt.Errorf("left after the polite signal: %s", strings.Join(left, ", "))
	}
	out, err := s.sh(ctx, nil, `ls "$1" | tr '\n' ' '; [ ! -e "$1/env" ] && [ ! -e "$1/rfb.sock" ]`, deskDir)
	if err != nil {
		return "", fmt.Errorf("env or socket left behind: %s: %w", out, err)
	}
	return fmt.Sprintf("nothing left after %.2f s", took), nil
}

// crash starts the desktop, kills all of it at once, and starts it again over the locks that
// are left.
func (s *run) crash(ctx context.Context) (string, error) {
	if _, err := s.desk.launch(ctx); err != nil {
		return "", err
	}
	if err := s.desk.killAll(ctx); err != nil {
		return "", err
	}
	// The worst that a crash leaves: a lock whose pid is that of another program by now.
	const stale = `lock=/tmp/.X` + deskDisplay + `-lock
[ -e "$lock" ] && [ -e "$1/env" ] && [ -e "$1/rfb.sock" ] || { ls -a /tmp "$1"; exit 1; }
rm -f "$lock"; printf '%10d\n' 1 >"$lock"`
	if _, err := s.sh(ctx, nil, stale, deskDir); err != nil {
		return "", fmt.Errorf("the crash left no lock, so nothing was proved: %w", err)
	}
	took, err := s.desk.launch(ctx)
	if err != nil {
		return "", err
	}
	if _, err := s.components(ctx); err != nil {
		return "", err
	}
	_, done, err := s.viewer(ctx)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("up again over stale locks after %.2f s", took.Seconds()), done()
}
