// SPDX-License-Identifier: MIT

//go:build unix

package installer

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
	"github.com/hermes-appliance/hermes-appliance/service"
)

// listening is a request for a service whose listener the manager holds, at an address; "" = at
// none.
func (w *world) listening(t testing.TB, address string, o Options) Request {
	t.Helper()
	r := w.request(t, systemWide, o)
	if address != "" {
		r.Spec.Sockets = []service.Socket{{Name: "api_server", Listen: address}}
	}
	return r
}

// held installs a service with a held listener.
func held(t testing.TB, w *world) {
	t.Helper()
	if _, err := w.host().Install(t.Context(), w.listening(t, "127.0.0.1:8642", Options{})); err != nil {
		t.Fatal(err)
	}
}

func listen(address string) func(testing.TB, Host, *world) error {
	return func(t testing.TB, h Host, w *world) error {
		_, err := h.Install(t.Context(), w.listening(t, address, Options{}))
		return err
	}
}

const testSocket = "/etc/systemd/system/hermes-gateway.socket"

// socketScenes are those that must be undone at every point.
func socketScenes() []scene {
	return []scene{
		{"fresh, with a socket", func(testing.TB, *world) {}, listen("127.0.0.1:8642")},
		{"a socket for one that runs", func(t testing.TB, w *world) { w.mustInstall(t, systemWide, Options{}) }, listen("127.0.0.1:8642")},
		{"a socket at another address", held, listen("127.0.0.1:9000")},
		{"one that waits, at another address", func(t testing.TB, w *world) {
			held(t, w)
			w.change(func(p *played) { p.PID = 0 })
		}, listen("127.0.0.1:9000")},
		{"no socket any more", held, listen("")},
		{"uninstall with a socket", held, uninstall},
	}
}

// TestPlanSockets: what an installation does for a listener that the manager holds.
func TestPlanSockets(t *testing.T) {
	t.Parallel()
	plain := func(t testing.TB, w *world) { w.mustInstall(t, systemWide, Options{}) }
	const socket = "hermes-gateway.socket"
	for name, c := range map[string]struct {
		make    func(t testing.TB, w *world)
		address string
		opt     Options
		want    []string
	}{
		"fresh":                 {func(testing.TB, *world) {}, "127.0.0.1:8642", Options{}, []string{"create U", "create U.d/10-hardening.conf", "create S", "reload hermes-gateway.service", "enable S hermes-gateway.service", "linger ada", "start hermes-gateway.service"}},
		"current":               {held, "127.0.0.1:8642", Options{}, []string{}},
		"switched on":           {plain, "127.0.0.1:8642", Options{}, []string{"replace U", "create S", "reload hermes-gateway.service", "enable S", "restart hermes-gateway.service"}},
		"switched on, no start": {plain, "127.0.0.1:8642", Options{NoStart: true}, []string{"replace U", "create S", "reload hermes-gateway.service", "enable S"}},
		"another address":       {held, "127.0.0.1:9000", Options{}, []string{"replace S", "reload hermes-gateway.service", "close S", "restart hermes-gateway.service"}},
		"switched off":          {held, "", Options{}, []string{"replace U", "close S", "disable S", "remove S", "reload hermes-gateway.service", "restart hermes-gateway.service"}},
		"somebody closed it": {func(t testing.TB, w *world) {
			held(t, w)
			w.change(func(p *played) { delete(p.Open, socket) })
		}, "127.0.0.1:8642", Options{}, []string{"restart hermes-gateway.service"}},
		"somebody disabled it": {func(t testing.TB, w *world) { held(t, w); w.able("disable", w.dir(nil), []string{socket}) }, "127.0.0.1:8642", Options{}, []string{"enable S"}},
		"one by hand": {func(t testing.TB, w *world) {
			plain(t, w)
			testkit.WriteTree(t, w.root, map[string]string{testSocket: "[Socket]\nListenStream=127.0.0.1:7000\nService=hermes-gateway.service\n"})
		}, "127.0.0.1:8642", Options{}, []string{"replace U", "reload hermes-gateway.service", "enable S", "restart hermes-gateway.service"}},
		"edited by hand": {func(t testing.TB, w *world) {
			held(t, w)
			data, _ := os.ReadFile(filepath.Join(w.root, testSocket))
			testkit.WriteTree(t, w.root, map[string]string{testSocket: string(data) + "# mine\n"})
		}, "127.0.0.1:9000", Options{}, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c.make(t, w)
			before := w.snapshot(t)
			rep, err := w.host().Preview(t.Context(), w.listening(t, c.address, c.opt))
			if err != nil {
				t.Fatal(err)
			}
			got := []string{}
			for _, s := range steps(rep.Plan) {
				s = strings.ReplaceAll(strings.ReplaceAll(s, testSocket, "S"), socket, "S")
				got = append(got, s)
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
			if after := w.snapshot(t); !reflect.DeepEqual(before, after) {
				t.Error("a preview changed the host")
			}
			// Carried out, nothing is left to do, and the manager listens where it shall.
			for range 2 {
				if rep, err = w.host().Install(t.Context(), w.listening(t, c.address, c.opt)); err != nil {
					t.Fatal(err)
				}
			}
			if rep.Applied {
				t.Errorf("a second time: %q", steps(rep.Plan))
			}
			if name == "edited by hand" || name == "one by hand" {
				return
			}
			want := "map[]"
			if c.address != "" && !c.opt.NoStart {
				want = "map[hermes-gateway.socket:" + c.address + "]"
			}
			if got := fmt.Sprint(w.load().Open); got != want {
				t.Errorf("open: %s, want %s", got, want)
			}
		})
	}
}

// TestSocketKept: whether there is one is told by the definition that stands, so that a later
// installation, which does not say, keeps it.
func TestSocketKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	target := w.request(t, systemWide, Options{}).Target
	if w.host().Sockets(target) {
		t.Error("of nothing")
	}
	held(t, w)
	if !w.host().Sockets(target) {
		t.Error("it is not seen")
	}
	if err := listen("")(t, w.host(), w); err != nil {
		t.Fatal(err)
	}
	if w.host().Sockets(target) {
		t.Error("it was taken away")
	}
}

// TestSocketTaken: another program has the address: nothing says done, and all is undone.
func TestSocketTaken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mustInstall(t, systemWide, Options{})
	before := w.snapshot(t)
	w.taken = true
	err := listen("127.0.0.1:8642")(t, w.host(), w)
	if err == nil || !strings.Contains(err.Error(), "another program may have its address") || !strings.Contains(err.Error(), "everything is undone") {
		t.Fatalf("got %v", err)
	}
	if after := w.snapshot(t); !reflect.DeepEqual(before, after) {
		t.Errorf("not undone: %v", after)
	}
}

// TestStopClosesOwnSockets: a stop is one: the socket that this program made goes as well, and
// comes back with the next start. status says of one that is off what that means.
func TestStopClosesOwnSockets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	held(t, w)
	look := func() Observed {
		t.Helper()
		o, err := w.host().Observe(t.Context(), w.request(t, systemWide, Options{}).Target, Desired{})
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	want := []SocketSeen{{Unit: "hermes-gateway.socket", Listen: []string{"127.0.0.1:8642"}, Active: "active", Enabled: true, Ours: true}}
	o := look()
	if !reflect.DeepEqual(o.Sockets, want) {
		t.Errorf("seen: %+v", o.Sockets)
	}
	if out, err := w.host().Stop(t.Context(), o); err != nil || out.Did != "stopped" || out.Comment != "" || len(w.load().Open) > 0 || w.load().PID > 0 {
		t.Errorf("%+v %v, %+v", out, err, w.load())
	}
	// One that runs not, but waits for requests.
	if _, err := w.host().Start(t.Context(), look()); err != nil || len(w.load().Open) != 1 {
		t.Errorf("%v, %+v", err, w.load())
	}
	w.change(func(p *played) { p.PID = 0 })
	if out, err := w.host().Stop(t.Context(), look()); err != nil || out.Did != "stopped" || len(w.load().Open) > 0 {
		t.Errorf("%+v %v, %+v", out, err, w.load())
	}
	w.change(func(p *played) { p.PID = 7 })
	if o := look(); !strings.Contains(strings.Join(o.Notices, "|"), "hermes-gateway.socket is inactive") {
		t.Errorf("notices: %q", o.Notices)
	}
	// A removal takes one away that is on while the service is off.
	w.change(func(p *played) { p.PID, p.Open = 0, map[string]string{"hermes-gateway.socket": "127.0.0.1:8642"} })
	if _, err := w.host().Uninstall(t.Context(), o.Target, false, false); err != nil || len(w.load().Open) > 0 {
		t.Errorf("%v, %+v", err, w.load())
	}
}
