// SPDX-License-Identifier: MIT

package images

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/docker/cli/cli/config"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
)

// ErrPlainHTTP says that a registry would have been spoken to without TLS.
var ErrPlainHTTP = errors.New("plain HTTP is spoken to loopback only")

// newTransport makes a transport with limits on everything but the transfer itself. Proxies
// are not looked up: the environment is not read here.
func newTransport() http.RoundTripper {
	return &http.Transport{
		DialContext:       (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 8, IdleConnTimeout: 90 * time.Second,
		TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: 5 * time.Minute,
	}
}

// guarded refuses plain HTTP to other machines, wherever the address came from (a name, a
// redirect, a token server), and waits as long as a Retry-After wants before it hands on
// what the layer above will try again.
type guarded struct {
	next     http.RoundTripper
	patience time.Duration // the longest Retry-After that is waited for
}

func (g *guarded) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "https" && !loopback(req.URL.Host) {
		return nil, fmt.Errorf("%s://%s: %w", req.URL.Scheme, req.URL.Host, ErrPlainHTTP)
	}
	resp, err := g.next.RoundTrip(req)
	if err != nil || resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusServiceUnavailable {
		return resp, err
	}
	seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	if wait := time.Duration(seconds) * time.Second; err == nil && wait > 0 {
		if err := sleep(req.Context(), min(wait, g.patience)); err != nil {
			return nil, errors.Join(err, resp.Body.Close())
		}
	}
	return resp, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// retried are the answers after which a request is tried again.
func retried() []int {
	return []int{
		http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
	}
}

// temporary reports whether an error may go away by itself.
func temporary(err error) bool {
	if t, ok := errors.AsType[interface {
		error
		Temporary() bool
	}](err); ok && t.Temporary() {
		return true
	}
	return brokenOff(err)
}

// idleClosed is an error of net/http's that has no name there.
const idleClosed = "http: server closed idle connection"

// brokenOff reports whether err is a connection that ended in the middle, or that the registry closed as idle
// just when it was used again: net/http sends no POST or PATCH a second time by itself.
func brokenOff(err error) bool {
	if err != nil && strings.HasSuffix(err.Error(), idleClosed) {
		return true
	}
	for _, cut := range []error{io.ErrUnexpectedEOF, io.EOF, syscall.EPIPE, syscall.ECONNRESET, net.ErrClosed} {
		if errors.Is(err, cut) {
			return true
		}
	}
	return false
}

// Auth is what a registry knows us by. The zero value means nobody.
type Auth struct {
	Username, Password string
}

// String never shows the password.
func (a Auth) String() string { return a.Username + ":***" }

// GoString never shows the password.
func (a Auth) GoString() string { return a.String() }

// keychain finds the credentials for a registry.
type keychain struct {
	auth Auth
	dir  string
}

// Resolve implements the library's interface.
func (k keychain) Resolve(target authn.Resource) (authn.Authenticator, error) {
	if k.auth != (Auth{}) {
		return &authn.Basic{Username: k.auth.Username, Password: k.auth.Password}, nil
	}
	if k.dir == "" {
		return authn.Anonymous, nil
	}
	cf, err := config.Load(k.dir)
	if err != nil {
		return nil, fmt.Errorf("credentials of %s: %w", target.RegistryStr(), err)
	}
	key := target.RegistryStr()
	if key == name.DefaultRegistry {
		key = authn.DefaultAuthKey
	}
	c, err := cf.GetAuthConfig(key)
	if err != nil {
		return nil, fmt.Errorf("credentials of %s: %w", target.RegistryStr(), err)
	}
	a := authn.AuthConfig{Username: c.Username, Password: c.Password, Auth: c.Auth, IdentityToken: c.IdentityToken, RegistryToken: c.RegistryToken}
	if a == (authn.AuthConfig{}) {
		return authn.Anonymous, nil
	}
	return authn.FromConfig(a), nil
}
