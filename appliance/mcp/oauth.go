// SPDX-License-Identifier: MIT

package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"
)

// OAuth is how a person logs in to a server (auth: oauth, and the section oauth).
type OAuth struct {
	ClientID, ClientSecret string // of a client that the provider was told of; "" = register one
	ClientName             string
	Scope                  string // "" = what the server says
	RedirectURI            string // that leads to RedirectPort of this machine; "" = that port itself
	RedirectHost           string // of the address that a browser is sent to
	RedirectPort           int    // 0 = any
	Timeout                time.Duration
}

// DefaultLoginTimeout is how long a person has to log in.
const DefaultLoginTimeout = 300 * time.Second

// oauth reads what a login needs; nil = the server wants none.
func (p *parser) oauth() *OAuth {
	auth := p.text("auth")
	e := p.section("oauth")
	switch auth {
	case "", "none":
		return nil
	case "oauth":
	default:
		p.bad("auth", "is "+fmt.Sprintf("%q", auth)+"; expected oauth or nothing")
		return nil
	}
	if p.fields["url"] == nil {
		p.bad("auth", "is for servers with a url: what a command needs goes into its env")
	}
	o := &OAuth{ClientName: "Hermes Agent", RedirectHost: "127.0.0.1", Timeout: DefaultLoginTimeout}
	if e == nil {
		return o
	}
	o.ClientID, o.ClientSecret, o.Scope, o.RedirectURI = e.text("client_id"), e.text("client_secret"), e.text("scope"), e.text("redirect_uri")
	if name := e.text("client_name"); name != "" {
		o.ClientName = name
	}
	if host := e.text("redirect_host"); host != "" {
		o.RedirectHost = host
	}
	if e.fields["redirect_port"] != nil {
		o.RedirectPort = e.count("redirect_port", 0)
	}
	o.Timeout = e.seconds("timeout", DefaultLoginTimeout)
	if o.ClientSecret != "" && o.ClientID == "" {
		e.bad("client_secret", "needs a client_id")
	}
	e.seen = append(e.seen, "flow", "client_metadata_url", "cimd", "user_agent", "token_endpoint_auth_method") // upstream's
	if e.fields["flow"] == "device" {
		e.warn("flow", "device is not supported: hermes-appliance mcp login prints an address that opens in any browser")
	}
	p.take(e)
	return o
}

// tokens hands a server's access token to each of its requests and renews it in time. Nobody
// is there to log in: it never does.
type tokens struct {
	store  tokenStore
	cfg    OAuth
	login  string          // the command that logs in
	client *http.Client    // for the provider; its requests end with the connection
	lost   func(err error) // a renewed login was not saved

	mu    sync.Mutex
	fresh string // the token that was renewed last because the server refused another
}

// tokens returns the logins to the server, of which the tripper carries the renewals.
func (s *server) tokens(toProvider *tripper) *tokens {
	p := s.ledger.current()
	name := s.cfg.Name
	if strings.ContainsAny(name, " \t'\"`$&;|<>()*?[]{}!#~\\") {
		name = "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
	}
	return &tokens{
		store: tokenStore{p.Tokens, tokenName(s.cfg.Name)}, cfg: *s.cfg.OAuth, login: p.Login + " " + name,
		client: &http.Client{Transport: toProvider, Timeout: 30 * time.Second},
		lost: func(err error) {
			s.host.cfg.Log.Warn("the renewed login to an mcp server was not saved: somebody will have to log in again", "profile", p.Key, "server", s.cfg.Name, "err", err)
		},
	}
}

// tokenFunc is a function as a source of tokens.
type tokenFunc func() (*oauth2.Token, error)

// Token implements [oauth2.TokenSource].
func (f tokenFunc) Token() (*oauth2.Token, error) { return f() }

// TokenSource implements the SDK's OAuthHandler.
func (t *tokens) TokenSource(ctx context.Context) (oauth2.TokenSource, error) {
	return tokenFunc(func() (*oauth2.Token, error) {
		t.mu.Lock()
		defer t.mu.Unlock()
		return t.current(ctx, "")
	}), nil
}

// Authorize implements the SDK's OAuthHandler: it renews a token that the server refuses. The
// request is sent again when it returns nil.
func (t *tokens) Authorize(ctx context.Context, r *http.Request, resp *http.Response) error {
	io.Copy(io.Discard, io.LimitReader(resp.Body, maxFrame)) //nolint:errcheck // it is not read
	resp.Body.Close()                                        //nolint:errcheck // likewise
	if resp.StatusCode == http.StatusForbidden {
		if scope, ok := missingScope(resp); ok {
			return t.again(resp.StatusCode, "the login does not allow this; it wants the scope "+scope)
		}
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	refused := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	tok, err := t.current(ctx, refused)
	if err == nil {
		t.fresh = tok.AccessToken
	}
	return err
}

// spent is the error of a request that is refused with what was just renewed for it.
func (t *tokens) spent(r *http.Request, status int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if status != http.StatusUnauthorized || t.fresh == "" || r.Header.Get("Authorization") != "Bearer "+t.fresh {
		return nil
	}
	return t.again(status, "it refuses a login that was just renewed")
}

func missingScope(resp *http.Response) (string, bool) {
	all, err := oauthex.ParseWWWAuthenticate(resp.Header.Values("WWW-Authenticate"))
	if err != nil {
		return "", false
	}
	i := slices.IndexFunc(all, func(c oauthex.Challenge) bool { return c.Params["error"] == "insufficient_scope" })
	if i < 0 {
		return "", false
	}
	return all[i].Params["scope"], true
}

// again says that a person must log in.
func (t *tokens) again(status int, why string) error {
	return &AuthError{Status: status, OAuth: true, Why: why, Login: t.login}
}

// current returns a token that is not the refused one, renewed if it must be. Another program
// may have renewed it since.
func (t *tokens) current(ctx context.Context, refused string) (*oauth2.Token, error) {
	m, err := t.store.read(tokenPart)
	if err != nil {
		return nil, t.again(0, err.Error())
	}
	access := text(m, "access_token")
	switch {
	case access == "" && text(m, "refresh_token") == "":
		return nil, t.again(0, "nobody has logged in to it")
	case access != "" && access != refused && !t.store.expired(m, time.Now()):
		return &oauth2.Token{AccessToken: access}, nil
	}
	return t.renew(ctx, m)
}

func (t *tokens) renew(ctx context.Context, m map[string]any) (*oauth2.Token, error) {
	refresh := text(m, "refresh_token")
	if refresh == "" {
		return nil, t.again(0, "the login has run out")
	}
	cfg, err := t.provider(m)
	if err != nil {
		return nil, t.again(0, err.Error())
	}
	ctx = context.WithValue(ctx, oauth2.HTTPClient, t.client)
	tok, err := cfg.TokenSource(ctx, &oauth2.Token{RefreshToken: refresh, Expiry: time.Unix(1, 0)}).Token()
	if err != nil {
		return t.unrenewed(refresh, err)
	}
	adopt(m, tok)
	if err := t.store.write(tokenPart, m); err != nil {
		t.lost(err)
	}
	return tok, nil
}

// unrenewed is the end of an attempt that failed. A token of another program's counts.
func (t *tokens) unrenewed(refresh string, err error) (*oauth2.Token, error) {
	var answer *oauth2.RetrieveError
	if !errors.As(err, &answer) {
		return nil, fmt.Errorf("the login could not be renewed: %w", err)
	}
	if m, err := t.store.read(tokenPart); err == nil && text(m, "refresh_token") != refresh && text(m, "access_token") != "" {
		return &oauth2.Token{AccessToken: text(m, "access_token")}, nil
	}
	// Its text has the provider's whole answer: nothing of that is repeated but the code.
	switch answer.ErrorCode {
	case "invalid_grant", "invalid_client", "unauthorized_client":
		return nil, t.again(0, "the login is not valid any more ("+answer.ErrorCode+")")
	}
	status := 0
	if answer.Response != nil {
		status = answer.Response.StatusCode
	}
	return nil, fmt.Errorf("the login could not be renewed: the provider answers HTTP %d", status)
}

// provider is where and as whom a login is renewed.
func (t *tokens) provider(m map[string]any) (*oauth2.Config, error) {
	meta, err := t.store.read(metaPart)
	if err != nil {
		return nil, err
	}
	client, err := t.store.read(clientPart)
	if err != nil {
		return nil, err
	}
	at := text(meta, "token_endpoint")
	switch by, is := text(m, "hermes_issuer"), text(meta, "issuer"); {
	case at == "":
		return nil, errors.New("the login has run out, and nothing says where it is renewed")
	case !private(at):
		return nil, errors.New("the login has run out, and would be renewed without encryption")
	case by != "" && strings.TrimSuffix(by, "/") != strings.TrimSuffix(is, "/"):
		return nil, errors.New("the login was given by another provider than the server names now")
	}
	cfg := &oauth2.Config{ClientID: t.cfg.ClientID, ClientSecret: t.cfg.ClientSecret, Endpoint: oauth2.Endpoint{TokenURL: at}}
	if cfg.ClientID == "" {
		cfg.ClientID, cfg.ClientSecret = text(client, "client_id"), text(client, "client_secret")
	}
	if cfg.ClientID == "" {
		return nil, errors.New("the login has run out, and nothing says as whom it is renewed")
	}
	switch text(client, "token_endpoint_auth_method") {
	case "client_secret_basic":
		cfg.Endpoint.AuthStyle = oauth2.AuthStyleInHeader
	case "client_secret_post":
		cfg.Endpoint.AuthStyle = oauth2.AuthStyleInParams
	default:
		if cfg.ClientSecret == "" {
			cfg.Endpoint.AuthStyle = oauth2.AuthStyleInParams
		}
	}
	return cfg, nil
}

// adopt puts what a provider gave into the token file's fields.
func adopt(m map[string]any, tok *oauth2.Token) {
	m["access_token"], m["token_type"] = tok.AccessToken, tok.Type()
	if tok.RefreshToken != "" {
		m["refresh_token"] = tok.RefreshToken
	}
	delete(m, "expires_at")
	delete(m, "expires_in")
	if !tok.Expiry.IsZero() {
		m["expires_at"] = tok.Expiry.Unix()
		m["expires_in"] = max(int64(time.Until(tok.Expiry).Seconds()), 0)
	}
	if scope, ok := tok.Extra("scope").(string); ok && scope != "" {
		m["scope"] = scope
	}
}

// private reports whether what is sent to an address is encrypted, or stays on this machine.
func private(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	host := u.Hostname()
	ip := net.ParseIP(host)
	return u.Scheme == "https" || u.Scheme == "http" && (host == "localhost" || ip != nil && ip.IsLoopback())
}
