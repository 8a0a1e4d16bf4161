// SPDX-License-Identifier: MIT

package apiserver

import (
	"maps"
	"net/http"
	"path"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/secret"
)

// call is one request on its way through the server.
type call struct {
	s       *Server
	w       *answer
	r       *http.Request
	profile Profile
	set     Settings
}

// handler answers a request. An error is answered as JSON unless a stream has begun.
type handler func(c *call) error

// route is what is served under one path.
type route struct {
	methods map[string]handler
	public  bool // needs no key
}

// routes finds what serves a path.
type routes struct {
	mux   *http.ServeMux
	paths map[string]*route // by pattern
}

// found is what the mux hands a match to.
type found struct {
	http.ResponseWriter

	route *route
	r     *http.Request // with its path values
}

func (t *routes) add(method, pattern string, h handler) *route {
	r := t.paths[pattern]
	if r == nil {
		r = &route{methods: map[string]handler{}}
		t.paths[pattern] = r
		t.mux.HandleFunc(pattern, func(w http.ResponseWriter, req *http.Request) {
			if f, ok := w.(*found); ok {
				f.route, f.r = r, req
			}
		})
	}
	r.methods[method] = h
	return r
}

// table lists everything that is served. Whatever is not here is a 404.
func (s *Server) table() *routes {
	t := &routes{mux: http.NewServeMux(), paths: map[string]*route{}}
	t.add("GET", "/health", health).public = true
	t.add("GET", "/v1/health", health).public = true
	t.add("GET", "/health/detailed", healthDetailed)
	t.add("GET", "/v1/models", models)
	t.add("GET", "/v1/models/{model}", oneModel)
	t.add("GET", "/v1/capabilities", capabilities)
	t.add("GET", "/v1/skills", skills)
	t.add("GET", "/v1/toolsets", toolsets)
	t.add("POST", "/v1/chat/completions", chatCompletions)
	t.add("POST", "/v1/responses", createResponse)
	t.add("GET", "/v1/responses/{id}", getResponse)
	t.add("DELETE", "/v1/responses/{id}", deleteResponse)
	t.add("POST", "/v1/runs", createRun)
	t.add("GET", "/v1/runs/{id}", getRun)
	t.add("GET", "/v1/runs/{id}/events", runEvents)
	t.add("POST", "/v1/runs/{id}/stop", stopRun)
	t.add("POST", "/v1/runs/{id}/approval", approveRun)
	t.add("POST", "/v1/runs/{id}/steer", steerRun)
	t.add("GET", "/api/sandbox", getSandbox)
	t.add("POST", "/api/sandbox", answerSandbox)
	t.add("GET", "/api/sessions", listSessions)
	t.add("POST", "/api/sessions", createSession)
	t.add("GET", "/api/sessions/{id}", getSession)
	t.add("PATCH", "/api/sessions/{id}", patchSession)
	t.add("DELETE", "/api/sessions/{id}", deleteSession)
	t.add("GET", "/api/sessions/{id}/messages", sessionMessages)
	t.add("POST", "/api/sessions/{id}/fork", forkSession)
	t.add("POST", "/api/sessions/{id}/chat", sessionChat)
	t.add("POST", "/api/sessions/{id}/chat/stream", sessionChatStream)
	return t
}

// find returns the route of a request, and the request with its path values. The error says
// that there is none.
func (t *routes) find(r *http.Request) (*route, *http.Request, error) {
	probe := r.Clone(r.Context())
	if len(probe.URL.Path) > 1 {
		probe.URL.Path, probe.URL.RawPath = strings.TrimSuffix(probe.URL.Path, "/"), ""
	}
	f := &found{ResponseWriter: nowhere{}}
	if path.Clean(probe.URL.Path) == probe.URL.Path { // else the mux would redirect, without the profile
		t.mux.ServeHTTP(f, probe)
	}
	if f.route == nil {
		return nil, r, &failure{
			status: http.StatusNotFound, code: "not_found", message: "there is nothing at " + printable(r.URL.Path),
			hint: "this is the API server of hermes-appliance; GET /v1/capabilities lists its endpoints. A dashboard has a port of its own.",
		}
	}
	return f.route, f.r, nil
}

// nowhere takes what the mux answers when nothing matches.
type nowhere struct{}

func (nowhere) Header() http.Header         { return http.Header{} }
func (nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (nowhere) WriteHeader(int)             {}

// answer notes whether something was written and with which status.
type answer struct {
	http.ResponseWriter

	status int
}

func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
		a.ResponseWriter.WriteHeader(status)
	}
}

func (a *answer) Write(b []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	return a.ResponseWriter.Write(b)
}

// Unwrap lets [http.ResponseController] find the connection.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// serve answers one request, whatever happens in it.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	c := &call{s: s, w: &answer{ResponseWriter: w}, r: r}
	began := s.o.Now()
	defer func() {
		if p := recover(); p != nil {
			s.panicked(c, p)
		}
		name := ""
		if c.profile != nil {
			name = c.profile.Name()
		}
		s.o.Log.DebugContext(r.Context(), "api request", "method", r.Method, "route", c.r.Pattern, "status", c.w.status,
			"profile", name, "took", s.o.Now().Sub(began).Round(time.Microsecond))
	}()
	if err := c.serve(); err != nil {
		c.fail(err)
	}
}

// panicked keeps a broken request from taking others down. What the panic says may be taken
// from the request, so only its kind is logged.
func (s *Server) panicked(c *call, p any) {
	if p == http.ErrAbortHandler { //nolint:errorlint,err113 // it is thrown as it is
		panic(p)
	}
	what := "panic"
	if e, ok := p.(runtime.Error); ok {
		what = e.Error()
	}
	s.o.Log.ErrorContext(c.r.Context(), "panic in an api request", "route", c.r.Pattern, "panic", what, "stack", string(debug.Stack()))
	if c.w.status == 0 {
		c.fail(&failure{status: http.StatusInternalServerError, code: "internal_error", message: "internal error; the log of the gateway has more"})
		return
	}
	panic(http.ErrAbortHandler) // a stream that was cut must not look complete
}

// serve finds the profile and the route, and lets in who has the key.
func (c *call) serve() error {
	h := c.w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	if err := c.enter(); err != nil {
		return err
	}
	route, r, err := c.s.routes.find(c.r)
	if err != nil {
		return err
	}
	c.r = r
	h0, ok := route.methods[r.Method]
	if r.Method == http.MethodHead && !ok {
		h0, ok = route.methods[http.MethodGet]
	}
	preflight := r.Method == http.MethodOptions
	if !ok && !preflight {
		allowed := strings.Join(slices.Sorted(maps.Keys(route.methods)), ", ")
		h.Set("Allow", allowed)
		return &failure{
			status: http.StatusMethodNotAllowed, code: "method_not_allowed", message: r.Method + " is not possible here",
			hint: "use " + allowed,
		}
	}
	if route.public && ok {
		return h0(c)
	}
	if c.set, err = c.profile.Settings(r.Context()); err != nil {
		return err
	}
	if c.set.ModelName == "" {
		c.set.ModelName = "hermes-agent"
	}
	c.cors(route)
	if preflight {
		c.w.WriteHeader(http.StatusNoContent)
		return nil
	}
	if err := c.authorise(); err != nil {
		return err
	}
	return h0(c)
}

// enter finds the profile and takes its prefix off the path.
func (c *call) enter() error {
	name, below := "", c.r.URL.Path
	if rest, ok := strings.CutPrefix(below, "/p/"); ok {
		if !c.s.o.Multiplex() {
			return &failure{
				status: http.StatusNotFound, code: "not_found", message: "profiles are not served under /p/",
				hint: "set gateway.multiplex_profiles: true in config.yaml of the default profile and restart",
			}
		}
		name, below, _ = strings.Cut(rest, "/")
		below = "/" + below
		if name == "" {
			return noProfile(name)
		}
	}
	var err error
	if c.profile, err = c.s.o.Host.Profile(c.r.Context(), name); err != nil {
		return profileError(name, err)
	}
	if below != c.r.URL.Path {
		c.r = c.r.Clone(c.r.Context())
		c.r.URL.Path, c.r.URL.RawPath = below, ""
	}
	return nil
}

// authorise compares the key of the request with the profile's, in constant time.
func (c *call) authorise() error {
	if c.set.Key.Empty() {
		return &failure{
			status: http.StatusUnauthorized, code: "invalid_api_key", message: "this profile is closed: it has no API key",
			hint: "put API_SERVER_KEY=… into the .env of the profile",
		}
	}
	scheme, given, _ := strings.Cut(c.r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || !c.set.Key.Equal(secret.Wrap(strings.TrimSpace(given))) {
		c.w.Header().Set("WWW-Authenticate", `Bearer realm="hermes-appliance"`)
		return &failure{
			status: http.StatusUnauthorized, code: "invalid_api_key", message: "the API key is missing or wrong",
			hint: "send the header Authorization: Bearer with the API_SERVER_KEY of this very profile",
		}
	}
	return nil
}

// cors lets in the browsers of the origins that the settings name.
func (c *call) cors(route *route) {
	origin := c.r.Header.Get("Origin")
	if origin == "" || len(c.set.CORSOrigins) == 0 {
		return
	}
	h := c.w.Header()
	h.Add("Vary", "Origin")
	if !slices.Contains(c.set.CORSOrigins, origin) && !slices.Contains(c.set.CORSOrigins, "*") {
		return
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", "X-Hermes-Session-Id, X-Hermes-Session-Key, Idempotency-Replayed, Retry-After")
	if c.r.Method == http.MethodOptions {
		h.Set("Access-Control-Allow-Methods", strings.Join(slices.Sorted(maps.Keys(route.methods)), ", "))
		h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Idempotency-Key, Last-Event-ID, X-Hermes-Session-Id, X-Hermes-Session-Key, "+
			"X-Stainless-Arch, X-Stainless-Lang, X-Stainless-OS, X-Stainless-Package-Version, X-Stainless-Retry-Count, X-Stainless-Runtime, X-Stainless-Runtime-Version, X-Stainless-Timeout")
		h.Set("Access-Control-Max-Age", "600")
	}
}
