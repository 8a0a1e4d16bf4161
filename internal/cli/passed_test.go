// SPDX-License-Identifier: MIT

package cli

import (
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

func env(kv ...string) func(string) string {
	return func(name string) string {
		for _, x := range kv {
			if v, ok := strings.CutPrefix(x, name+"="); ok {
				return v
			}
		}
		return ""
	}
}

func TestTakeSockets(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		getenv func(string) string
		bad    bool
	}{
		{env(), false},
		{env("LISTEN_PID=78", "LISTEN_FDS=1"), false}, // somebody else's
		{env("LISTEN_PID=77", "LISTEN_FDS=x"), true},
		{env("LISTEN_PID=77", "LISTEN_FDS=-1"), true},
		{env("LISTEN_PID=77", "LISTEN_FDS=100000"), true},
		{env("LISTEN_PID=77", "LISTEN_FDS=0"), false},
	} {
		got, err := takeSockets(c.getenv, 77)
		if (err != nil) != c.bad || len(got) != 0 {
			t.Errorf("%v, %v", got, err)
		}
	}
}

func TestPassedListener(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f, err := l.(*net.TCPListener).File()
	testkit.Need(t, "posix", err == nil, "a listener has no file on this system")
	defer f.Close()
	plain, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	p := passed{"api_server": {f}, "webhook": {plain}, "twice": {f, f}, "odd": {f}}
	got, held, err := p.listen(t.Context(), "api_server", "127.0.0.1:1")
	if err != nil || !held || got.Addr().String() != l.Addr().String() {
		t.Fatalf("%v %v %v", got, held, err)
	}
	got.Close()
	own, held, err := p.listen(t.Context(), "other", "127.0.0.1:0")
	if err != nil || held {
		t.Fatalf("%v %v", held, err)
	}
	own.Close()
	for name, want := range map[string]string{"webhook": "socket webhook", "twice": "2 sockets named twice"} {
		if _, _, err := p.listen(t.Context(), name, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := p.unknown("api_server", "webhook"); !slices.Equal(got, []string{"odd", "twice"}) {
		t.Errorf("unknown: %v", got)
	}
}

func TestWatchdogOfTheManager(t *testing.T) {
	t.Parallel()
	pid := strconv.Itoa(os.Getpid())
	for want, getenv := range map[time.Duration]func(string) string{
		3 * time.Second: env("WATCHDOG_USEC=3000000"),
		4 * time.Second: env("WATCHDOG_USEC=4000000", "WATCHDOG_PID="+pid),
	} {
		if got := watchdogTime(getenv, os.Getpid()); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	for _, getenv := range []func(string) string{
		env(), env("WATCHDOG_USEC=x"), env("WATCHDOG_USEC=-5"), env("WATCHDOG_USEC=0"), env("WATCHDOG_USEC=3000000", "WATCHDOG_PID=1"),
	} {
		if got := watchdogTime(getenv, os.Getpid()); got != 0 {
			t.Errorf("%s", got)
		}
	}
}

func TestOthers(t *testing.T) {
	t.Parallel()
	in := []string{"A=1", "NOTIFY_SOCKET=/x", "LISTEN_FDS=1", "INVOCATION_ID=z", "CREDENTIALS_DIRECTORY=/c", "WATCHDOG_USEC=1"}
	if got := others(in); !slices.Equal(got, []string{"A=1", "INVOCATION_ID=z"}) || len(in) != 6 || in[1] != "NOTIFY_SOCKET=/x" {
		t.Errorf("%v of %v", got, in)
	}
}
