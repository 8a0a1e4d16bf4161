// SPDX-License-Identifier: MIT

package mcp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// streamWait is how long the headers of a stream of notifications may take.
const streamWait = 5 * time.Second

// httpLink is a session with a streamable HTTP server. Its connections are its own: nothing
// is shared with another server or profile.
type httpLink struct {
	tripper *tripper
	url     string
	bye     time.Duration // see waits
	tokens  *tokens       // nil = the server wants no login
}

func (s *server) openHTTP(life context.Context) (*httpLink, error) {
	base := &http.Transport{ // without a proxy, as in a login
		DialContext:            (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:    10 * time.Second,
		MaxResponseHeaderBytes: 1 << 20,
		IdleConnTimeout:        90 * time.Second,
		ForceAttemptHTTP2:      true,
	}
	if s.cfg.ClientCert != "" {
		key := s.cfg.ClientKey
		if key == "" {
			key = s.cfg.ClientCert
		}
		cert, err := tls.LoadX509KeyPair(s.cfg.ClientCert, key)
		if err != nil {
			return nil, fmt.Errorf("client_cert: %w", err)
		}
		base.TLSClientConfig = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	}
	aborted, abort := context.WithCancel(context.WithoutCancel(life))
	t := &tripper{
		base: base, headers: s.cfg.Headers, abort: abort, stream: s.host.waits.stream,
		whenOver:    func(f func()) func() bool { return context.AfterFunc(life, f) },
		whenAborted: func(f func()) func() bool { return context.AfterFunc(aborted, f) },
	}
	l := &httpLink{tripper: t, url: s.cfg.URL, bye: s.host.waits.bye}
	if s.cfg.OAuth != nil {
		toProvider := *t
		toProvider.headers, toProvider.answers = nil, true
		l.tokens = s.tokens(&toProvider)
		t.spent = l.tokens.spent
	}
	return l, nil
}

func (l *httpLink) transport() sdk.Transport {
	t := &sdk.StreamableClientTransport{
		Endpoint: l.url, MaxEventSize: maxFrame,
		HTTPClient: &http.Client{Transport: l.tripper, CheckRedirect: sameOrigin},
	}
	if l.tokens != nil {
		t.OAuthHandler = l.tokens
	}
	return t
}

func (l *httpLink) pid() int { return 0 }

func (l *httpLink) explain(_ context.Context, err error) error { return err }

// close ends the session, for which the server has a moment, and then every connection.
func (l *httpLink) close(ctx context.Context, hangUp func()) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if hangUp != nil {
			hangUp()
		}
	}()
	timer := time.NewTimer(l.bye)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	case <-ctx.Done():
	}
	l.tripper.abort()
	<-done
	l.tripper.base.CloseIdleConnections()
	return nil
}

// sameOrigin keeps a server from sending the credential in the headers elsewhere.
func sameOrigin(r *http.Request, via []*http.Request) error {
	first := via[0].URL
	if r.URL.Scheme != first.Scheme || r.URL.Host != first.Host {
		return fmt.Errorf("it redirects to %s://%s: if that is right, put the new address into url", r.URL.Scheme, r.URL.Host)
	}
	if len(via) >= 5 {
		return errors.New("it redirects in circles")
	}
	return nil
}

// tripper adds the config's headers to requests, bounds their answers, and ends them with
// the connection.
type tripper struct {
	base    *http.Transport
	headers map[string]string
	abort   func()
	stream  time.Duration // see waits
	answers bool          // the caller deals with refusals
	// spent is the error of a refused request whose login was just renewed, nil of any other.
	spent func(r *http.Request, status int) error // nil = there are no logins

	// whenOver calls f when the connection is over, whenAborted when nothing is waited for any
	// more; both return what takes that back.
	whenOver, whenAborted func(f func()) (detach func() bool)
}

// RoundTrip sends one request.
func (t *tripper) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	unhook := t.whenAborted(func() { cancel(errStopped) })
	detach := func() bool { return true }
	if r.Method != http.MethodDelete { // that one comes when the connection is over
		detach = t.whenOver(func() { cancel(errGone) })
	}
	release := func() { unhook(); detach(); cancel(nil) }

	late := &TimeoutError{What: "a request for its notifications", After: t.stream}
	var timer *time.Timer
	if r.Method == http.MethodGet {
		timer = time.AfterFunc(t.stream, func() { cancel(late) })
	}
	sent := t.dress(r.Clone(ctx))
	resp, err := t.base.RoundTrip(sent)
	if timer != nil && !timer.Stop() && errors.Is(context.Cause(ctx), late) {
		if err == nil {
			resp.Body.Close() //nolint:errcheck // nothing was read
		}
		release()
		return noStream(r), nil
	}
	if err != nil {
		release()
		return nil, err
	}
	if err := t.refused(sent, resp); err != nil {
		resp.Body.Close() //nolint:errcheck // nothing was read
		release()
		return nil, err
	}
	body := &boundedBody{ReadCloser: resp.Body, left: maxFrame, release: release}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		body.left = -1 // each event has a bound of its own
	}
	resp.Body = body
	return resp, nil
}

// dress sets the config's headers; those of the protocol are not the config's to set.
func (t *tripper) dress(r *http.Request) *http.Request {
	for k, v := range t.headers {
		switch {
		case strings.EqualFold(k, "Host"):
			r.Host = v
		case r.Header.Get(k) == "" || strings.EqualFold(k, "User-Agent"):
			r.Header.Set(k, v)
		}
	}
	return r
}

// refused reports that the server wants a credential.
func (t *tripper) refused(sent *http.Request, resp *http.Response) error {
	if resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusForbidden || t.answers {
		return nil
	}
	if t.spent != nil {
		return t.spent(sent, resp.StatusCode) // any other is renewed, and the request sent again
	}
	e := &AuthError{Status: resp.StatusCode}
	for k := range t.headers {
		e.Sent = e.Sent || strings.EqualFold(k, "Authorization")
	}
	e.OAuth = strings.HasPrefix(strings.ToLower(resp.Header.Get("WWW-Authenticate")), "bearer")
	return e
}

// noStream is what a server answers that has no stream of notifications: one that does not
// answer at all must not hold up the connection.
func noStream(r *http.Request) *http.Response {
	return &http.Response{
		StatusCode: http.StatusMethodNotAllowed, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: http.NoBody, Request: r,
	}
}

// boundedBody is an answer that ends after left bytes, unless that is negative.
type boundedBody struct {
	io.ReadCloser
	left    int
	release func()
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left < 0 {
		return b.ReadCloser.Read(p)
	}
	if b.left == 0 {
		return 0, fmt.Errorf("it sent an answer of more than %d MiB", maxFrame>>20)
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

func (b *boundedBody) Close() error {
	err := b.ReadCloser.Close()
	b.release()
	return err
}
