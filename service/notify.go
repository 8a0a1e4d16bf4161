// SPDX-License-Identifier: MIT

package service

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"
)

// Notifier tells systemd how the service is, over the socket that it named in NOTIFY_SOCKET.
// The zero value tells nobody. It is safe for concurrent use.
type Notifier struct{ Socket string }

// Ready says that the service serves; status is a line for people.
func (n Notifier) Ready(ctx context.Context, status string) error {
	return n.send(ctx, "READY=1\nSTATUS="+oneLine(status))
}

// Alive says that the service answered its own probes just now.
func (n Notifier) Alive(ctx context.Context) error { return n.send(ctx, "WATCHDOG=1") }

// Stopping says that the service ends.
func (n Notifier) Stopping(ctx context.Context) error { return n.send(ctx, "STOPPING=1") }

// Wait asks for more time to become ready.
func (n Notifier) Wait(ctx context.Context, d time.Duration) error {
	return n.send(ctx, fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", d.Microseconds()))
}

func oneLine(s string) string { return strings.ReplaceAll(s, "\n", " ") }

func (n Notifier) send(ctx context.Context, state string) error {
	if n.Socket == "" {
		return nil
	}
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "unixgram", n.Socket)
	if err != nil {
		return fmt.Errorf("NOTIFY_SOCKET: %w", err)
	}
	_, err = conn.Write([]byte(state))
	if closeErr := conn.Close(); err == nil {
		err = closeErr
	}
	return err
}
