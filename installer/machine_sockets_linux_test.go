// SPDX-License-Identifier: MIT

package installer_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit/machine"
)

// load asks a gateway over ever new connections, until the end is called. Each request must be
// answered, also one that is made while the gateway restarts.
func (h *host) load(address string) (asked *atomic.Int64, end func()) {
	ctx, cancel := context.WithCancel(h.t.Context())
	client := &http.Client{Transport: &http.Transport{DialContext: h.Dial, DisableKeepAlives: true}}
	asked = &atomic.Int64{}
	var longest atomic.Int64
	var done sync.WaitGroup
	for range 4 {
		done.Go(func() {
			for ctx.Err() == nil {
				began := time.Now()
				req, err := http.NewRequestWithContext(h.t.Context(), http.MethodGet, "http://"+address+"/health", nil)
				if err != nil {
					h.t.Error(err)
					return
				}
				resp, err := client.Do(req)
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
				if err != nil || resp.StatusCode != http.StatusOK {
					h.t.Errorf("a request failed: %v %v", resp, err)
					return
				}
				if took := int64(time.Since(began)); took > longest.Load() {
					longest.Store(took)
				}
				asked.Add(1)
			}
		})
	}
	return asked, func() {
		cancel()
		done.Wait()
		h.t.Logf("%d requests, the slowest took %s", asked.Load(), time.Duration(longest.Load()).Round(time.Millisecond))
	}
}

// calm has the gateway forget its starts: so many in two minutes it would take for a storm, and wait.
func (h *host) calm() { h.Run("root", "rm -f /home/ada/.hermes/gateway-starts.log") }

// underLoad has restarts happen while requests come in.
func (h *host) underLoad(user, address string) {
	h.t.Helper()
	asked, end := h.load(address)
	defer end()
	for range 3 {
		before, pid := asked.Load(), h.ready(user)
		h.Until("there is load", func() bool { return asked.Load() > before+50 || h.t.Failed() })
		h.calm()
		h.do(user, 0, "restart")
		if now := h.ready(user); now == pid {
			h.t.Error("the same process after a restart")
		}
	}
	before := asked.Load()
	h.Until("the last one serves", func() bool { return asked.Load() > before+50 || h.t.Failed() })
}

// machineSocket: a listener that systemd holds, switched on and off for a service that runs, moved
// with the home's port, kept by an installation that says nothing of it, and gone with the service.
func machineSocket(t *testing.T, f fleet) {
	h := f.boot(t, machine.Systemd)
	before := h.hostFiles()
	h.do("root", 0, "install --system --run-as-user ada")
	h.ready("root")
	plain := h.hostFiles()
	if out := h.do("root", 0, "install --socket --dry-run --diff"); !strings.Contains(out, "+ListenStream=127.0.0.1:8642") || h.hostFiles() != plain {
		t.Errorf("dry run:\n%s", out)
	}
	if out := h.do("root", 0, "install --socket --print"); !strings.Contains(out, "FileDescriptorName=api_server") || h.hostFiles() != plain {
		t.Errorf("printed:\n%s", out)
	}
	h.do("root", 0, "install --socket")
	first := h.ready("root")
	held := h.hostFiles()
	for _, want := range []string{"/etc/systemd/system/hermes-gateway.socket", "sockets.target.wants/hermes-gateway.socket"} {
		if !strings.Contains(held, want) {
			t.Errorf("lacks %s:\n%s", want, held)
		}
	}
	for _, again := range []string{"install", "install --socket", "install --socket=true"} {
		if out := h.do("root", 0, again); !strings.Contains(out, "nothing to do") || h.hostFiles() != held || h.ready("root") != first {
			t.Errorf("%s: %s", again, out)
		}
	}
	if out := h.do("root", 0, "status"); !strings.Contains(out, "socket    active, hermes-gateway.socket (127.0.0.1:8642)") {
		t.Errorf("status: %s", out)
	}
	h.underLoad("root", "127.0.0.1:8642")

	h.calm()
	// A stop is one: nobody who asks brings it back. The next start holds the listener again.
	h.do("root", 0, "stop")
	if conn, err := h.Dial(t.Context(), "tcp", "127.0.0.1:8642"); err == nil {
		conn.Close()
		t.Error("something listens after a stop")
	}
	h.do("root", 0, "start")
	h.Run("root", "systemctl is-active hermes-gateway.socket")
	// Somebody closed it behind the gateway's back: that is told, and an installation mends it.
	h.Run("root", "systemctl stop hermes-gateway.socket")
	if out, _ := h.Try("root", "hermes-appliance doctor --offline"); !strings.Contains(out, "hermes-gateway.socket is inactive") {
		t.Errorf("doctor: %s", out)
	}
	h.do("root", 0, "install")
	h.Run("root", "systemctl is-active hermes-gateway.socket")

	h.calm()
	h.Reboot()
	h.ready("root")
	h.Run("root", "systemctl is-active hermes-gateway.socket")
	// The home's port moves: the socket goes with it.
	h.Run("ada", "echo API_SERVER_PORT=9000 >> ~/.hermes/.env")
	h.do("root", 0, "install")
	h.ready("root")
	h.underLoad("root", "127.0.0.1:9000")
	if conn, err := h.Dial(t.Context(), "tcp", "127.0.0.1:8642"); err == nil {
		conn.Close()
		t.Error("the old address is still open")
	}
	h.calm()
	// An address that another program has: nothing says done, and all is as it was.
	moved := h.hostFiles()
	h.Run("root", `printf '[Socket]\nListenStream=127.0.0.1:9001\nAccept=no\n' >/run/systemd/system/taken.socket; printf '[Service]\nExecStart=/bin/sleep 9\n' >/run/systemd/system/taken.service; systemctl daemon-reload; systemctl start taken.socket`)
	h.Run("ada", "sed -i s/9000/9001/ ~/.hermes/.env")
	if out := h.do("root", 1, "install"); !strings.Contains(out, "another program may have its address") || !strings.Contains(out, "everything is undone") {
		t.Errorf("a taken address: %s", out)
	}
	if diff := cmp.Diff(moved, h.hostFiles()); diff != "" {
		t.Errorf("not undone:\n%s", diff)
	}
	if got := h.Run("root", "systemctl show -p Listen --value hermes-gateway.socket; systemctl is-active hermes-gateway.socket"); !strings.Contains(got, "127.0.0.1:9000") {
		t.Errorf("after that: %s", got)
	}
	h.calm()
	h.Run("ada", "sed -i /API_SERVER_PORT/d ~/.hermes/.env")
	h.do("root", 0, "install --socket=false")
	h.ready("root")
	if diff := cmp.Diff(plain, h.hostFiles()); diff != "" {
		t.Errorf("switched off (-plain +now):\n%s", diff)
	}
	if out, code := h.Try("root", "systemctl is-active hermes-gateway.socket"); code == 0 {
		t.Errorf("the socket is %s", out)
	}
	h.calm()
	h.do("root", 0, "install --socket")
	h.do("root", 0, "uninstall")
	if diff := cmp.Diff(before, h.hostFiles()); diff != "" {
		t.Errorf("uninstall left something (-before +after):\n%s", diff)
	}
	if out, _ := h.Try("root", "pidof hermes-appliance; systemctl list-units --all --plain --no-legend 'hermes*'"); out != "" {
		t.Errorf("after uninstall: %s", out)
	}
}

// machineUserSocket: the same for a user's own service, from nothing on.
func machineUserSocket(t *testing.T, f fleet) {
	h := f.boot(t, machine.Systemd)
	h.Run("root", "loginctl enable-linger ada")
	h.Until("the manager of ada runs", func() bool {
		out, _ := h.Try("ada", "systemctl --user is-system-running")
		return strings.TrimSpace(out) == "running"
	})
	before := h.hostFiles()
	h.do("ada", 0, "install --user --socket")
	h.ready("ada")
	h.underLoad("ada", "127.0.0.1:8642")
	if out := h.do("ada", 0, "install"); !strings.Contains(out, "nothing to do") {
		t.Errorf("a second time: %s", out)
	}
	h.calm()
	h.Reboot()
	h.ready("ada")
	h.underLoad("ada", "127.0.0.1:8642")
	h.Run("ada", "sed -i s/API_SERVER_ENABLED=true/API_SERVER_ENABLED=false/ ~/.hermes/.env")
	if out := h.do("ada", 1, "install --socket"); !strings.Contains(out, "listens nowhere") {
		t.Errorf("nothing listens: %s", out)
	}
	h.do("ada", 0, "uninstall")
	if diff := cmp.Diff(before, h.hostFiles()); diff != "" {
		t.Errorf("uninstall left something (-before +after):\n%s", diff)
	}
}
