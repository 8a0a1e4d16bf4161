// SPDX-License-Identifier: MIT

package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// firstFD is the first file that systemd passes (sd_listen_fds(3)).
const firstFD = 3

// passed are the sockets that the service manager opened for this process, by name. It goes on
// listening on them while the gateway restarts, so that nobody is refused meanwhile.
type passed map[string][]*os.File

// takeSockets takes what the manager passed, if it was passed to this process.
func takeSockets(getenv func(string) string, pid int) (passed, error) {
	if getenv("LISTEN_PID") != strconv.Itoa(pid) {
		return nil, nil //nolint:nilnil // nothing was passed to us
	}
	text := getenv("LISTEN_FDS")
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > 1000 {
		return nil, fmt.Errorf("LISTEN_FDS is %q: want how many sockets were passed", text)
	}
	names := strings.Split(getenv("LISTEN_FDNAMES"), ":")
	out := passed{}
	for i := range n {
		closeOnExec(firstFD + i)
		name := ""
		if i < len(names) {
			name = names[i]
		}
		out[name] = append(out[name], os.NewFile(uintptr(firstFD+i), name))
	}
	return out, nil
}

// listen returns the listener of a platform: the manager's if it passed one of that name, which
// is then held by it, else one at the address.
func (p passed) listen(ctx context.Context, platform, address string) (l net.Listener, held bool, err error) {
	files := p[platform]
	switch len(files) {
	case 0:
		l, err = (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		return l, false, err
	case 1:
	default:
		return nil, false, fmt.Errorf("the service manager passed %d sockets named %s; leave one ListenStream= in its socket unit", len(files), platform)
	}
	l, err = net.FileListener(files[0])
	if err != nil {
		return nil, false, fmt.Errorf("the socket %s of the service manager: %w", platform, err)
	}
	switch l.(type) {
	case *net.TCPListener, *net.UnixListener:
		return l, true, nil
	}
	return nil, false, errors.Join(fmt.Errorf("the socket %s of the service manager is no stream", platform), l.Close())
}

// unknown are the names of sockets that no platform asks for.
func (p passed) unknown(platforms ...string) (out []string) {
	for name := range p {
		if !slices.Contains(platforms, name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// watchdogTime is how often the manager wants to hear of this process; 0 = never.
func watchdogTime(getenv func(string) string, pid int) time.Duration {
	if of := getenv("WATCHDOG_PID"); of != "" && of != strconv.Itoa(pid) {
		return 0
	}
	usec, err := strconv.ParseInt(getenv("WATCHDOG_USEC"), 10, 64)
	if err != nil || usec <= 0 || usec > (24*time.Hour).Microseconds() {
		return 0
	}
	return time.Duration(usec) * time.Microsecond
}

// ownBusiness are the variables by which the manager speaks to this process and to nobody else.
// They are read here, once; no child of any kind ever gets them.
func ownBusiness() []string {
	return []string{"LISTEN_PID", "LISTEN_PIDFDID", "LISTEN_FDS", "LISTEN_FDNAMES", "WATCHDOG_PID", "WATCHDOG_USEC", "NOTIFY_SOCKET", "CREDENTIALS_DIRECTORY"}
}

// others is an environment without what is this process's own business.
func others(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains(ownBusiness(), name)
	})
}
