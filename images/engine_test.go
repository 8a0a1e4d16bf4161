// SPDX-License-Identifier: MIT

package images

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
)

func TestEngineAddress(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "run") // short: a socket's path has room for 100 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	podman := filepath.Join(dir, "podman", "podman.sock")
	if err := os.Mkdir(filepath.Dir(podman), 0o700); err != nil {
		t.Fatal(err)
	}
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", podman)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	env := map[string]string{"XDG_RUNTIME_DIR": dir}
	host := map[string]string{"XDG_RUNTIME_DIR": dir, "DOCKER_HOST": "tcp://10.0.0.1:2376"}
	for _, c := range []struct {
		wanted string
		env    map[string]string
		want   string // "" = an error
	}{
		{"podman", env, "unix://" + podman},
		{"podman", host, "unix://" + podman}, // DOCKER_HOST is not podman's
		{"podman", nil, ""},
		{"", host, "tcp://10.0.0.1:2376"},
		{"docker", host, "tcp://10.0.0.1:2376"},
		{"unix:///x.sock", host, "unix:///x.sock"},
		{"lxc", env, ""},
	} {
		got, err := EngineAddress(c.wanted, func(name string) string { return c.env[name] })
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("EngineAddress(%q, %v) = %q, %v; want %q", c.wanted, c.env, got, err, c.want)
		}
	}
}

func TestNoEngine(t *testing.T) {
	t.Parallel()
	_, err := OpenEngine(t.Context(), "unix://"+filepath.Join(t.TempDir(), "no.sock"))
	if !errors.Is(err, ErrNoEngine) {
		t.Errorf("got %v, want ErrNoEngine", err)
	}
}
