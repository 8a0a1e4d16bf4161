// SPDX-License-Identifier: MIT

package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
)

// Heart shows others that the gateway of a home lives, in the two ways that upstream's programs
// look for (services spec §2.5): a file that is written anew after every good round of probes,
// and a socket that answers with one byte. It is safe for concurrent use.
type Heart struct {
	home home.Home
	beat beat
	l    net.Listener // nil = there is no socket
}

// beat is the file, in upstream's words. Its age is that of the file itself.
type beat struct {
	PID     int     `json:"pid"`
	Updated string  `json:"updated_at"`
	Start   float64 `json:"start_time"` // of the process, in seconds since 1970
	// Tick says that the socket is there; a reader takes nobody for wedged without it.
	Tick bool `json:"loop_tick_socket"`
	Port int  `json:"loop_tick_tcp_port,omitempty"` // of 127.0.0.1, on Windows
}

func stateDir(h home.Home) string { return filepath.Join(h.Dir, "state") }
func beatFile(h home.Home) string { return filepath.Join(stateDir(h), "gateway.heartbeat") }
func tickSocket(h home.Home, pid int) string {
	return filepath.Join(stateDir(h), fmt.Sprintf("gateway.loop-tick.%d.sock", pid))
}

// NewHeart opens the socket of this process for a home; ask is what must come back before a
// question is answered. The error says why there is no socket, or no file, and is no reason to
// end: the heart is usable with it and says so in the file. started is when the process was.
func NewHeart(ctx context.Context, h home.Home, started time.Time, ask func()) (*Heart, error) {
	pid := os.Getpid()
	c := &Heart{home: h, beat: beat{PID: pid, Start: float64(started.UnixMilli()) / 1000}}
	if err := os.MkdirAll(stateDir(h), 0o700); err != nil {
		return c, err
	}
	sweepTicks(h, pid)
	network, address := "unix", tickSocket(h, pid)
	if runtime.GOOS == "windows" {
		network, address = "tcp", "127.0.0.1:0"
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, network, address)
	if err != nil {
		return c, err
	}
	if err := os.Chmod(address, 0o600); err != nil && network == "unix" {
		l.Close() //nolint:errcheck // the first error counts
		return c, err
	}
	c.l, c.beat.Tick = l, true
	if a, ok := l.Addr().(*net.TCPAddr); ok {
		c.beat.Port = a.Port
	}
	go c.answer(ask)
	return c, nil
}

// answer answers one question after the other: while ask hangs, nobody is answered.
func (c *Heart) answer(ask func()) {
	for {
		conn, err := c.l.Accept()
		if err != nil {
			return
		}
		ask()
		conn.SetDeadline(time.Now().Add(10 * time.Second)) //nolint:errcheck // then the write tells
		conn.Write([]byte("1"))                            //nolint:errcheck // whoever asked is gone
		conn.Close()                                       //nolint:errcheck // it was answered
	}
}

// Beat writes the file.
func (c *Heart) Beat(now time.Time) error {
	b := c.beat
	b.Updated = now.UTC().Format(time.RFC3339Nano)
	data, err := json.Marshal(b)
	if err != nil {
		return err
	}
	return atomicfile.Writer{}.Write(beatFile(c.home), append(data, '\n'), atomicfile.Options{Mode: 0o600})
}

// Close removes the socket. The file stays, as upstream's does: it names a process that is gone.
func (c *Heart) Close() error {
	if c.l == nil {
		return nil
	}
	return c.l.Close()
}

// sweepTicks removes the sockets that killed gateways left.
func sweepTicks(h home.Home, self int) {
	left, err := filepath.Glob(filepath.Join(stateDir(h), "gateway.loop-tick.*.sock"))
	if err != nil {
		return // a home with a pattern in its name keeps them
	}
	for _, path := range left {
		number := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), "gateway.loop-tick."), ".sock")
		pid, err := strconv.Atoi(number)
		if err != nil || pid <= 0 {
			continue
		}
		if pid == self || !(Record{PID: pid}).Alive() {
			os.Remove(path) //nolint:errcheck // one that stays is in nobody's way
		}
	}
}

// ReadBeat returns the process that wrote the heartbeat of a home, and when. The error wraps
// [fs.ErrNotExist] if none did.
func ReadBeat(h home.Home) (pid int, at time.Time, err error) {
	info, err := os.Stat(beatFile(h))
	if err != nil {
		return 0, at, err
	}
	data, err := os.ReadFile(beatFile(h))
	if err != nil {
		return 0, at, err
	}
	var b beat
	if err := json.Unmarshal(data, &b); err != nil {
		return 0, at, fmt.Errorf("%s: want a heartbeat: %w", beatFile(h), err)
	}
	return b.PID, info.ModTime(), nil
}
