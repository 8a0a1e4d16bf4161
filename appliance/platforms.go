// SPDX-License-Identifier: MIT

package appliance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
	"github.com/hermes-appliance/hermes-appliance/appliance/platform/apiserver"
)

// apiName is what the API server is called in the state file.
const apiName = "api_server"

// listening is a server of requests.
type listening interface {
	Serve(ctx context.Context, l net.Listener) error
	Shutdown(ctx context.Context) error
	Retire()
}

// listener is a server while it listens.
type listener struct {
	name    string
	from    net.Listener
	server  listening // nil = it does not answer yet
	address net.Addr
	held    *held // nil = this process's own
	done    chan error
	client  http.Client
}

// probeTime is how long a gateway at a taken port may take to say so, on a machine that is busy.
const probeTime = 10 * time.Second

// gatewayAt reports whether a healthy gateway, ours or upstream's, has an address, so that a taken
// port is not a riddle (ZeroClaw#7895).
func gatewayAt(ctx context.Context, address string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/health", nil)
	if err != nil {
		return false
	}
	c := http.Client{
		Timeout: probeTime, Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := c.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close() //nolint:errcheck // nothing more is read
	var health struct{ Status string }
	err = json.NewDecoder(io.LimitReader(resp.Body, 1<<16)).Decode(&health)
	return err == nil && resp.StatusCode == http.StatusOK && health.Status == "ok"
}

// open makes the listener of a platform; nobody is answered yet.
func (s *server) open(ctx context.Context, name, address string) (*listener, error) {
	l, isHeld, err := s.o.Listen(ctx, name, address)
	if err != nil {
		if gatewayAt(ctx, address) {
			err = fmt.Errorf("%w: another gateway answers there, and is well; give one of the two another port", err)
		}
		return nil, fmt.Errorf("cannot listen on %s: %w", address, err)
	}
	a := &listener{name: name, from: l, address: l.Addr(), done: make(chan error, 1)}
	a.client.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, a.address.Network(), a.address.String())
	}}
	if isHeld {
		if got := l.Addr().String(); got != address {
			s.o.Log.Info("the service manager's socket counts, not the address in the settings", "platform", name, "socket", got, "settings", address)
		}
		a.held = newHeld(l)
		a.from = a.held
	}
	return a, nil
}

// serve has a server answer, and says so in the state file. One that ends by itself is failed:
// never healthy while deaf.
func (s *server) serve(ctx context.Context, a *listener, srv listening, st gateway.PlatformState) {
	a.server = srv
	st.State, st.Listener = "connected", a.base()
	s.state.SetPlatform(a.name, st)
	go func() {
		err := srv.Serve(context.WithoutCancel(ctx), a.from)
		if err != nil {
			s.o.Log.Error("a server ended", "platform", a.name, "error", err)
			s.state.SetPlatform(a.name, gateway.PlatformState{State: "failed", Code: "listener", Message: err.Error(), Attention: true})
		}
		a.done <- err
	}()
}

// base is where clients of this machine reach it.
func (a *listener) base() string {
	tcp, ok := a.address.(*net.TCPAddr)
	switch {
	case !ok:
		return "unix:" + a.address.String()
	case tcp.IP.IsUnspecified():
		return "http://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(tcp.Port))
	}
	return "http://" + tcp.String()
}

// loopback reports whether it is reached from this machine only.
func (a *listener) loopback() bool {
	tcp, ok := a.address.(*net.TCPAddr)
	return !ok || tcp.IP.IsLoopback()
}

// platforms tries every adapter. One that fails is noted and takes nothing else down.
func (s *server) platforms(ctx context.Context) {
	t, err := s.rt.Tenant("")
	if err == nil {
		err = s.startAPI(ctx, t)
	}
	if err != nil {
		s.o.Log.Error("the api server does not run", "error", err)
		s.state.SetPlatform(apiName, gateway.PlatformState{State: "failed", Code: "startup", Message: err.Error(), Attention: true})
	}
	if t != nil {
		if err := s.startHooks(ctx, t); err != nil {
			s.o.Log.Error("webhooks are not served", "error", err)
			s.state.SetPlatform(hookName, gateway.PlatformState{State: "failed", Code: "startup", Message: err.Error(), Attention: true})
		}
	}
	if t != nil {
		s.unserved(ctx, t, "")
	}
	s.unservedOthers(ctx, t)
	// The databases are looked at now, so that damage is known before the first turn.
	if t != nil {
		if _, err := t.Sessions(ctx); err != nil {
			s.o.Log.Error("the sessions of the launch profile cannot be opened", "error", err)
		}
	}
}

// startAPI listens for the API if the launch profile has it on. Without a key it is refused,
// on loopback too (gateway spec §1.2).
func (s *server) startAPI(ctx context.Context, t *Tenant) error {
	_, b, err := t.bind(ctx)
	if err != nil {
		return err
	}
	set, err := t.apiSettings(b)
	if err != nil {
		return err
	}
	if !set.enabled {
		s.o.Log.Info("the api server is off; API_SERVER_ENABLED=true in .env turns it on")
		return nil
	}
	if err := set.keyFault(); err != nil {
		return err
	}
	a, err := s.open(ctx, apiName, net.JoinHostPort(set.host, strconv.Itoa(set.port)))
	if err != nil {
		return err
	}
	s.api = a
	s.serve(ctx, a, apiserver.New(apiserver.Options{
		Host: apiHost{s}, Log: s.o.Log, Now: s.o.Now, Version: s.o.Version, Multiplex: s.rt.Multiplexed,
	}), gateway.PlatformState{})
	return nil
}

// probe asks the listener for its health over a real connection.
func (a *listener) probe(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://gateway/health", nil)
	if err != nil {
		return err
	}
	resp, err := a.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // the status is all
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("/health answers %d", resp.StatusCode)
	}
	return nil
}

func (a *listener) shutdown(ctx context.Context) error {
	a.client.CloseIdleConnections()
	err := a.server.Shutdown(ctx)
	select {
	case served := <-a.done:
		return errors.Join(err, served)
	case <-ctx.Done():
		return errors.Join(err, ctx.Err())
	}
}

// unserved names the platforms that the config enables and that this program does not serve
// yet: once, in the log and the state file, and their keys stay (gateway spec §1.4).
func (s *server) unserved(ctx context.Context, t *Tenant, prefix string) {
	_, b, err := t.bind(ctx)
	if err != nil {
		return
	}
	found := map[string]bool{}
	for _, path := range [][]string{{"platforms"}, {"gateway", "platforms"}} {
		m, err := b.view.Map(path...)
		if err != nil {
			continue
		}
		for name, v := range m {
			section, _ := v.(map[string]any)
			if on, ok := section["enabled"].(bool); ok && on && name != apiName && name != hookName {
				found[name] = true
			}
		}
	}
	for name, variable := range map[string]string{"telegram": "TELEGRAM_BOT_TOKEN", "discord": "DISCORD_BOT_TOKEN", "slack": "SLACK_BOT_TOKEN"} {
		if t.setting(b, variable) != "" {
			found[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		s.o.Log.Warn("this platform is configured and not served by this program yet", "platform", name, "profile", t.Name())
		s.state.SetPlatform(prefix+name, gateway.PlatformState{State: "unserved", Message: "not served by hermes-appliance yet"})
	}
}

// unservedOthers does the same for the other profiles, beside the turns: their vaults may take
// their time, and the gateway is ready without them.
func (s *server) unservedOthers(ctx context.Context, launch *Tenant) {
	s.rt.chore(ctx, func(ctx context.Context) {
		profiles, err := s.rt.Profiles()
		if err != nil {
			return // it is said where they are served
		}
		for _, id := range profiles {
			if t, err := s.rt.Tenant(id); err == nil && t != launch && ctx.Err() == nil {
				s.unserved(ctx, t, id+":")
			}
		}
	})
}
