// SPDX-License-Identifier: MIT

package machine

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Dial connects to an address of the machine's loopback from outside, as a client of its own
// would. It needs root. It fits [net/http.Transport]'s DialContext.
func (m *Machine) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return dialIn(ctx, fmt.Sprint(m.pid.Load()), network, address)
}

// dialIn connects from the network namespace of a process. Which namespace a thread is in is a
// property of the thread: this one is not given back unless it is where it was.
func dialIn(ctx context.Context, pid, network, address string) (net.Conn, error) {
	there, err := os.Open("/proc/" + pid + "/ns/net")
	if err != nil {
		return nil, err
	}
	defer there.Close() //nolint:errcheck // opened for reading
	type result struct {
		conn net.Conn
		err  error
	}
	done := make(chan result, 1)
	go func() {
		runtime.LockOSThread()
		here, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			done <- result{nil, err}
			return
		}
		defer here.Close() //nolint:errcheck // opened for reading
		if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- result{nil, err}
			return
		}
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if unix.Setns(int(here.Fd()), unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread() // else the thread ends with this goroutine
		}
		done <- result{conn, err}
	}()
	r := <-done
	return r.conn, r.err
}
