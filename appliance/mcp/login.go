// SPDX-License-Identifier: MIT

package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"
)

// Login is what [LogIn] needs.
type Login struct {
	Server  Server
	Tokens  string // directory of the logins, as in [Profile]
	Version string

	// Show tells a person which address to open, and which one the browser ends on.
	Show func(address, ends string)
	// Say tells that what was typed is of no use.
	Say func(text string)
	// Pasted yields lines that the person typed: the address that the browser ended on, for when
	// this machine is not the browser's. It may be nil.
	Pasted <-chan string
}

// ErrNoLogin says that a server answered without asking for a login.
var ErrNoLogin = errors.New("the server answers without a login: nothing was saved")

// LogIn has a person log in to a server, without a proxy, and saves the login once the server takes it. It returns
// how many tools the server offers then. What was saved before stays until that moment.
func LogIn(ctx context.Context, l Login) (tools int, err error) {
	if l.Server.OAuth == nil {
		return 0, fmt.Errorf("mcp_servers.%s has no auth: oauth", l.Server.Name)
	}
	if err := l.Server.Check(); err != nil {
		return 0, err
	}
	o := *l.Server.OAuth
	ctx, cancel := context.WithTimeoutCause(ctx, o.Timeout, fmt.Errorf("nobody logged in within %s (oauth.timeout)", o.Timeout))
	defer cancel()
	back, err := listen(ctx, o)
	if err != nil {
		return 0, err
	}
	defer back.close()
	base := &http.Transport{TLSHandshakeTimeout: 10 * time.Second, MaxResponseHeaderBytes: 1 << 20}
	defer base.CloseIdleConnections()
	seen := &metadata{base: base}
	var got granted
	handler, err := auth.NewAuthorizationCodeHandler(l.flow(o, back, seen, &got))
	if err != nil {
		return 0, err
	}
	tools, err = l.connect(ctx, base, handler)
	switch {
	case ctx.Err() != nil:
		return 0, context.Cause(ctx)
	case err != nil:
		return 0, bare(err)
	case got.token == nil:
		return tools, ErrNoLogin
	}
	return tools, l.save(&got, seen, back.address)
}

// flow is the SDK's: discovery, registration, PKCE and the exchange of the code.
func (l *Login) flow(o OAuth, back *callback, seen *metadata, got *granted) *auth.AuthorizationCodeHandlerConfig {
	c := &auth.AuthorizationCodeHandlerConfig{
		RedirectURL: back.address, RequestRefreshToken: true, AcceptUnadvertisedIss: true,
		Client: &http.Client{Transport: seen, Timeout: 30 * time.Second},
		AuthorizationCodeFetcher: func(ctx context.Context, a *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
			if err := back.expect(a.URL); err != nil {
				return nil, err
			}
			l.Show(a.URL, back.address)
			return back.wait(ctx, l.Pasted, l.Say)
		},
		NewTokenSource: func(ctx context.Context, cfg *oauth2.Config, tok *oauth2.Token) (oauth2.TokenSource, error) {
			got.cfg, got.token = cfg, tok
			return cfg.TokenSource(ctx, tok), nil
		},
	}
	if o.Scope != "" {
		c.ScopeFilter = func([]string) []string { return strings.Fields(o.Scope) }
	}
	if o.ClientID == "" {
		c.DynamicClientRegistrationConfig = &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
			RedirectURIs: []string{back.address}, ClientName: o.ClientName, Scope: o.Scope, TokenEndpointAuthMethod: "none",
			GrantTypes: []string{"authorization_code", "refresh_token"}, ResponseTypes: []string{"code"},
		}}
		return c
	}
	c.PreregisteredClient = &oauthex.ClientCredentials{ClientID: o.ClientID}
	if o.ClientSecret != "" {
		c.PreregisteredClient.ClientSecretAuth = &oauthex.ClientSecretAuth{ClientSecret: o.ClientSecret}
	}
	return c
}

// connect says hello to the server and lists its tools, which makes it ask for the login.
func (l *Login) connect(ctx context.Context, base *http.Transport, handler auth.OAuthHandler) (int, error) {
	none := func(func()) func() bool { return func() bool { return true } }
	carrier := &tripper{base: base, headers: l.Server.Headers, stream: streamWait, answers: true, whenOver: none, whenAborted: none}
	client := sdk.NewClient(&sdk.Implementation{Name: "hermes-appliance", Version: l.Version}, &sdk.ClientOptions{Capabilities: &sdk.ClientCapabilities{}})
	session, err := client.Connect(ctx, &sdk.StreamableClientTransport{
		Endpoint: l.Server.URL, MaxEventSize: maxFrame, OAuthHandler: handler, DisableStandaloneSSE: true,
		HTTPClient: &http.Client{Transport: carrier, CheckRedirect: sameOrigin},
	}, &sdk.ClientSessionOptions{ProtocolVersion: withHandshake})
	if err != nil {
		return 0, err
	}
	defer session.Close() //nolint:errcheck // the login is made
	list, err := session.ListTools(ctx, nil)
	if err != nil {
		return 0, err
	}
	return len(list.Tools), nil
}

// bare is an error of the flow without what a provider says beside its code, which could be a
// credential.
func bare(err error) error {
	var answer *oauth2.RetrieveError
	if !errors.As(err, &answer) {
		return err
	}
	status := 0
	if answer.Response != nil {
		status = answer.Response.StatusCode
	}
	return fmt.Errorf("the provider gives no login: HTTP %d %s", status, answer.ErrorCode)
}

// granted is what a flow ended with.
type granted struct {
	cfg   *oauth2.Config
	token *oauth2.Token
}

// save writes the login, its tokens last.
func (l *Login) save(got *granted, seen *metadata, address string) error {
	store := tokenStore{l.Tokens, tokenName(l.Server.Name)}
	method := "none"
	switch {
	case got.cfg.ClientSecret == "":
	case got.cfg.Endpoint.AuthStyle == oauth2.AuthStyleInHeader:
		method = "client_secret_basic"
	default:
		method = "client_secret_post"
	}
	client := map[string]any{
		"client_id": got.cfg.ClientID, "redirect_uris": []string{address}, "token_endpoint_auth_method": method,
		"grant_types": []string{"authorization_code", "refresh_token"}, "response_types": []string{"code"}, "client_name": l.Server.OAuth.ClientName,
	}
	if got.cfg.ClientSecret != "" {
		client["client_secret"] = got.cfg.ClientSecret
	}
	meta := seen.of(got.cfg.Endpoint)
	if err := store.write(metaPart, meta); err != nil {
		return err
	}
	if err := store.write(clientPart, client); err != nil {
		return err
	}
	m := map[string]any{}
	adopt(m, got.token)
	if issuer := text(meta, "issuer"); issuer != "" {
		m["hermes_issuer"] = issuer
	}
	return store.write(tokenPart, m)
}

// metadata is a transport that remembers what providers say of themselves.
type metadata struct {
	base http.RoundTripper

	mu   sync.Mutex
	docs []map[string]any
}

// RoundTrip implements [http.RoundTripper].
func (t *metadata) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.base.RoundTrip(r)
	if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(r.URL.Path, "/.well-known/o") {
		return resp, err
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	resp.Body.Close() //nolint:errcheck // it was read
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(strings.NewReader(string(data)))
	var doc map[string]any
	if json.Unmarshal(data, &doc) == nil && doc != nil {
		t.mu.Lock()
		t.docs = append(t.docs, doc)
		t.mu.Unlock()
	}
	return resp, nil
}

// of is what the provider with these addresses says; one that says nothing has them alone.
func (t *metadata) of(e oauth2.Endpoint) map[string]any {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, doc := range t.docs {
		if text(doc, "token_endpoint") == e.TokenURL {
			return doc
		}
	}
	doc := map[string]any{"authorization_endpoint": e.AuthURL, "token_endpoint": e.TokenURL, "response_types_supported": []string{"code"}}
	if u, err := url.Parse(e.TokenURL); err == nil {
		doc["issuer"] = u.Scheme + "://" + u.Host
	}
	return doc
}

// callback waits for the browser.
type callback struct {
	address string // where it is sent
	server  *http.Server
	came    chan url.Values
	busy    chan struct{} // holds one while an answer is taken
	state   atomic.Value  // string: what the answer to the login has with it
}

// expect tells which login's answer is waited for. Answers to anything else, which any page and
// program of the machine can send, are refused.
func (b *callback) expect(address string) error {
	u, err := url.Parse(address)
	if err == nil {
		b.state.Store(u.Query().Get("state"))
	}
	return err
}

func (b *callback) answers(q url.Values) bool {
	state, _ := b.state.Load().(string)
	return state != "" && q.Get("state") == state && (q.Get("code") != "" || q.Get("error") != "")
}

// listen takes the port that browsers of this machine are sent to.
func listen(ctx context.Context, o OAuth) (*callback, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(o.RedirectPort)))
	if err != nil {
		return nil, fmt.Errorf("oauth.redirect_port: %w", err)
	}
	port := l.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // it is TCP
	b := &callback{address: fmt.Sprintf("http://%s/callback", net.JoinHostPort(o.RedirectHost, strconv.Itoa(port))), came: make(chan url.Values, 1), busy: make(chan struct{}, 1)}
	if o.RedirectURI != "" {
		b.address = o.RedirectURI
	}
	b.server = &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if r.Method != http.MethodGet || !b.answers(q) {
			http.Error(w, "this is no answer of a login", http.StatusBadRequest)
			return
		}
		select {
		case b.busy <- struct{}{}:
			b.thank(w)
			b.came <- q
		default:
			http.Error(w, "another answer is being looked at", http.StatusConflict)
		}
	})}
	go b.server.Serve(l) //nolint:errcheck // it ends with close
	return b, nil
}

// thank answers the browser, all of it: what comes next may end this program.
func (b *callback) thank(w http.ResponseWriter) {
	const text = "Done. You can close this page and go back to the terminal.\n"
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	io.WriteString(w, text)               //nolint:errcheck // the browser is gone
	http.NewResponseController(w).Flush() //nolint:errcheck // likewise
}

func (b *callback) close() { b.server.Close() } //nolint:errcheck // nothing is left to say

// wait returns the answer to the login.
func (b *callback) wait(ctx context.Context, pasted <-chan string, say func(string)) (*auth.AuthorizationResult, error) {
	for {
		select {
		case q := <-b.came:
			<-b.busy
			return result(q)
		case line, ok := <-pasted:
			if !ok {
				pasted = nil // nothing more will be typed; the browser may still come
				continue
			}
			line = strings.TrimSpace(line)
			if _, query, found := strings.Cut(line, "?"); found {
				line = query
			}
			if q, err := url.ParseQuery(line); err == nil && b.answers(q) {
				return result(q)
			}
			say("That is not the address that this login ends on. It has state= and code= in it.")
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func result(q url.Values) (*auth.AuthorizationResult, error) {
	if code := q.Get("error"); code != "" {
		return nil, fmt.Errorf("the provider refuses the login: %q", code)
	}
	return &auth.AuthorizationResult{Code: q.Get("code"), State: q.Get("state"), Iss: q.Get("iss")}, nil
}
