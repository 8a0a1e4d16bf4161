// SPDX-License-Identifier: MIT

package appliance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"

	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
	"github.com/hermes-appliance/hermes-appliance/appliance/platform/apiserver"
)

// apiName is what the API server is called in the state file.
const apiName = "api_server"

// listener is a server while it listens.
type listener struct {
	server interface {
		Serve(ctx context.Context, l net.Listener) error
		Shutdown(ctx context.Context) error
	}
	address string
	done    chan error
	client  http.Client
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
	s.unserved(ctx, t)
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
	address := net.JoinHostPort(set.host, strconv.Itoa(set.port))
	l, err := s.o.Listen(ctx, address)
	if err != nil {
		return fmt.Errorf("cannot listen on %s: %w", address, err)
	}
	a := &listener{address: l.Addr().String(), done: make(chan error, 1)}
	a.server = apiserver.New(apiserver.Options{
		Host: apiHost{s}, Log: s.o.Log, Now: s.o.Now, Version: s.o.Version, Multiplex: s.rt.Multiplexed,
	})
	go func() { a.done <- a.server.Serve(context.WithoutCancel(ctx), l) }()
	s.api = a
	s.state.SetPlatform(apiName, gateway.PlatformState{State: "connected", Listener: "http://" + a.address})
	return nil
}

// probe asks the listener for its health over a real connection.
func (a *listener) probe(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+a.address+"/health", nil)
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
func (s *server) unserved(ctx context.Context, t *Tenant) {
	if t == nil {
		return
	}
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
		s.o.Log.Warn("this platform is configured and not served by this program yet", "platform", name)
		s.state.SetPlatform(name, gateway.PlatformState{State: "unserved", Message: "not served by hermes-appliance yet"})
	}
}
