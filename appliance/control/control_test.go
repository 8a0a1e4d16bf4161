// SPDX-License-Identifier: MIT

package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// TestMain is also a client that another user runs.
func TestMain(m *testing.M) {
	if dir := os.Getenv("CONTROL_TEST_CALL"); dir != "" {
		err := Call(context.Background(), home.Home{Dir: dir}, os.TempDir(), "identify", nil)
		fmt.Println(err)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func serve(t *testing.T, h home.Home, verbs map[string]Verb) *Server {
	t.Helper()
	s, err := Listen(t.Context(), h, t.TempDir(), verbs, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(s.Path()); err == nil {
			t.Error("the socket outlives its server")
		}
	})
	return s
}

// short is a home with a path that a socket can have.
func short(t *testing.T) home.Home {
	t.Helper()
	dir, err := os.MkdirTemp("", "hc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return home.Home{Dir: dir}
}

func TestCall(t *testing.T) {
	t.Parallel()
	h := short(t)
	serve(t, h, map[string]Verb{
		"identify": func(context.Context) (any, error) { return map[string]int{"pid": 7}, nil },
		"fail":     func(context.Context) (any, error) { return nil, errors.New("not now") },
		"panic":    func(context.Context) (any, error) { panic("boom") },
		"large":    func(context.Context) (any, error) { return strings.Repeat("x", maxReply), nil },
		"odd":      func(context.Context) (any, error) { return make(chan int), nil },
	})
	var got map[string]int
	if err := Call(t.Context(), h, "", "identify", &got); err != nil || got["pid"] != 7 {
		t.Errorf("got %v, %v", got, err)
	}
	for verb, want := range map[string]string{"fail": "not now", "panic": "internal error", "large": "too large", "odd": "unsupported type", "nothing": "unknown verb"} {
		var refused *RefusedError
		err := Call(t.Context(), h, "", verb, nil)
		if !errors.As(err, &refused) || !strings.Contains(refused.Msg, want) {
			t.Errorf("%s: got %v", verb, err)
		}
		if verb == "nothing" && !slices.Contains(refused.Verbs, "identify") {
			t.Errorf("the verbs are not named: %v", refused)
		}
	}
	if info, err := os.Stat(filepath.Join(h.Dir, "gateway.sock")); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("socket: %v %v", info, err)
	}
	if err := Call(t.Context(), short(t), "", "identify", nil); !errors.Is(err, ErrNotRunning) {
		t.Errorf("no gateway: %v", err)
	}
}

// TestWire is the protocol as a foreign client sees it.
func TestWire(t *testing.T) {
	t.Parallel()
	h := short(t)
	s := serve(t, h, map[string]Verb{"identify": func(context.Context) (any, error) { return "me", nil }})
	for name, c := range map[string]struct{ in, want string }{
		"an id comes back":   {`{"verb":"identify","id":"42","protocol":1}` + "\n", `{"ok":true,"protocol":1,"id":"42","result":"me"}`},
		"no protocol":        {`{"verb":"identify"}` + "\n", `{"ok":true,"protocol":1,"result":"me"}`},
		"no end of the line": {`{"verb":"identify"}`, `{"ok":true,"protocol":1,"result":"me"}`},
		"a newer protocol":   {`{"verb":"identify","protocol":2}` + "\n", `newer`},
		"no JSON":            {"identify\n", `want one line`},
		"nothing":            {"", `want one line`},
		"endless":            {strings.Repeat("x", maxRequest+10), `want one line`},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("unix", s.Path())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			io.WriteString(conn, c.in)
			conn.(*net.UnixConn).CloseWrite()
			out, err := io.ReadAll(conn)
			if errors.Is(err, syscall.ECONNRESET) {
				err = nil // it hung up with input unread, after its answer
			}
			if err != nil || !strings.Contains(string(out), c.want) || !strings.HasSuffix(string(out), "\n") {
				t.Errorf("got %q, %v", out, err)
			}
		})
	}
}

func TestLongHome(t *testing.T) {
	t.Parallel()
	tmp := short(t).Dir
	h := home.Home{Dir: filepath.Join(t.TempDir(), strings.Repeat("long-", 25))}
	if err := os.MkdirAll(h.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := Listen(t.Context(), h, tmp, map[string]Verb{"identify": func(context.Context) (any, error) { return 1, nil }}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := Call(t.Context(), h, "/elsewhere", "identify", nil); err != nil { // found by the pointer
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(pointer(h)); err == nil {
		t.Error("the pointer outlives the server")
	}
}

func TestListenOverLeftovers(t *testing.T) {
	t.Parallel()
	h := short(t)
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(h.Dir, "gateway.sock")})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	serve(t, h, nil)
	other := short(t)
	testkit.WriteTree(t, other.Dir, map[string]string{"gateway.sock": "somebody's notes"})
	if _, err := Listen(t.Context(), other, "", nil, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a file that is no socket was replaced")
	}
}

// TestManyClients also ends the server while requests run.
func TestManyClients(t *testing.T) {
	t.Parallel()
	h := short(t)
	s, err := Listen(t.Context(), h, "", map[string]Verb{
		"wait": func(ctx context.Context) (any, error) { <-ctx.Done(); return nil, ctx.Err() },
		"ask":  func(context.Context) (any, error) { return 1, nil },
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if err := Call(t.Context(), h, "", "ask", nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	waiting := make(chan error)
	go func() { waiting <- Call(t.Context(), h, "", "wait", nil) }()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Call(ctx, h, "", "wait", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a call that was given up: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-waiting; err == nil {
		t.Error("a request that was cut off succeeded")
	}
}
