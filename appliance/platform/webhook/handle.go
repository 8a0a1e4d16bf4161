// SPDX-License-Identifier: MIT

package webhook

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
)

// call is one request on its way through the server.
type call struct {
	s       *Server
	w       http.ResponseWriter
	r       *http.Request
	profile Profile
	route   Route
	lane    *lane
}

// failure is an answer that is no success. Its message is for whoever sent the request, who
// may be anybody: it holds nothing of a config.
type failure struct {
	status  int
	message string
	retry   time.Duration // when to try again; 0 = not said
}

func (f *failure) Error() string { return f.message }

// unknown is the answer for every route that does not serve a request, so that nobody can
// find out which there are, for which profile, and which are off.
func unknown() error {
	return &failure{status: http.StatusNotFound, message: "no such route, or it is off; the log and the state file of the gateway say why"}
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	c := &call{s: s, w: w, r: r}
	defer func() {
		if p := recover(); p != nil {
			s.panicked(c, p)
		}
	}()
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	if err := c.serve(); err != nil {
		c.fail(err)
	}
}

// panicked keeps a broken request from taking others down. What a panic says may be taken
// from the request, so only that of the runtime is logged.
func (s *Server) panicked(c *call, p any) {
	what := "panic"
	if e, ok := p.(runtime.Error); ok {
		what = e.Error()
	}
	s.o.Log.ErrorContext(c.r.Context(), "panic in a webhook", "route", c.route.Name, "panic", what, "stack", string(debug.Stack()))
	c.fail(errors.New("panic"))
}

func (c *call) fail(err error) {
	var f *failure
	if !errors.As(err, &f) {
		c.s.o.Log.ErrorContext(c.r.Context(), "a webhook could not be taken in", "route", c.route.Name, "error", err)
		f = &failure{status: http.StatusInternalServerError, message: "internal error; the log of the gateway has more"}
	}
	if f.retry > 0 {
		c.w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(f.retry.Seconds()))))
	}
	c.answer(f.status, map[string]any{"error": f.message})
}

func (c *call) answer(status int, body map[string]any) {
	data, err := json.Marshal(body)
	if err != nil {
		status, data = http.StatusInternalServerError, []byte(`{"error":"internal error"}`)
	}
	c.w.Header().Set("Content-Type", "application/json")
	c.w.WriteHeader(status)
	if _, err := c.w.Write(append(data, '\n')); err != nil {
		c.s.o.Log.DebugContext(c.r.Context(), "webhook answer", "error", err)
	}
}

// serve finds what a path stands for.
func (c *call) serve() error {
	parts := strings.Split(strings.TrimPrefix(c.r.URL.Path, "/"), "/")
	profile := ""
	if len(parts) == 4 && parts[0] == "p" && parts[1] != "" && c.s.o.Multiplex() {
		profile, parts = parts[1], parts[2:]
	}
	switch {
	case len(parts) == 1 && parts[0] == "health":
		if !c.method(http.MethodGet, http.MethodHead) {
			return nil
		}
		c.answer(http.StatusOK, map[string]any{"status": "ok", "platform": "webhook"})
		return nil
	case len(parts) == 2 && parts[0] == "webhooks" && parts[1] != "":
		if !c.method(http.MethodPost) {
			return nil
		}
		return c.post(profile, parts[1])
	}
	return &failure{status: http.StatusNotFound, message: "nothing is here; this is the webhook server of hermes-appliance: POST /webhooks/<route>"}
}

// method answers a request whose method is none of these.
func (c *call) method(allowed ...string) bool {
	if slices.Contains(allowed, c.r.Method) {
		return true
	}
	c.w.Header().Set("Allow", strings.Join(allowed, ", "))
	c.fail(&failure{status: http.StatusMethodNotAllowed, message: "use " + strings.Join(allowed, " or ")})
	return false
}

// post takes an event in.
func (c *call) post(profile, route string) error {
	if err := c.enter(profile, route); err != nil {
		return err
	}
	body, err := c.authentic()
	if err != nil {
		return err
	}
	if wait, ok := c.lane.pass(c.route.Limits.PerMinute, c.s.o.Now()); !ok {
		return &failure{status: http.StatusTooManyRequests, message: fmt.Sprintf("more than %d events in a minute", c.route.Limits.PerMinute), retry: wait}
	}
	id, err := c.deliveryID()
	if err != nil {
		return err
	}
	p, err := parse(c.r.Header.Get("Content-Type"), body)
	if err != nil {
		return &failure{status: http.StatusBadRequest, message: err.Error()}
	}
	names := eventNames(c.r.Header, p)
	if !c.route.accepts(names) {
		c.answer(http.StatusOK, map[string]any{"status": "ignored", "event": names[0]})
		return nil
	}
	ctx := c.r.Context()
	e := &event{
		payload: p, kind: names[0], header: c.r.Header,
		file: func(name string) ([]byte, error) { return c.profile.File(ctx, name) },
		warn: func(err error) {
			c.s.o.Log.WarnContext(ctx, "the file of in_file cannot be read: nothing matches it", "profile", c.profile.Key(), "route", c.route.Name, "error", err)
		},
	}
	if !c.route.filter(e) {
		c.answer(http.StatusOK, map[string]any{"status": "ignored", "reason": "filter", "route": c.route.Name})
		return nil
	}
	return c.take(id, names[0], render(c.route.prompt, p, names[0], c.route.Name))
}

// enter finds the profile and its route.
func (c *call) enter(profile, route string) (err error) {
	ctx := c.r.Context()
	if c.profile, err = c.s.o.Host.Profile(ctx, profile); err != nil {
		if errors.Is(err, ErrNoProfile) {
			return unknown()
		}
		return err
	}
	if !routeName.MatchString(route) {
		return unknown()
	}
	c.route, err = c.profile.Route(ctx, route)
	if errors.Is(err, ErrNoRoute) {
		return unknown()
	}
	c.lane = c.s.lanes.get(c.profile.Key(), route)
	if err != nil {
		if c.lane.tell(c.s.o.Now()) {
			c.s.o.Log.WarnContext(ctx, "an event came for a route that is off", "profile", c.profile.Key(), "route", route, "reason", err)
		}
		return unknown()
	}
	return nil
}

// authentic reads the body and returns it only if its sender knows the secret.
func (c *call) authentic() ([]byte, error) {
	refused := &failure{status: http.StatusUnauthorized, message: "the signature or token is missing or wrong"}
	now := c.s.o.Now()
	p, signed := proofOf(c.r.Header, now)
	if !c.route.Open && (!signed || p.token && !p.check(c.route.Secret.Reveal(), nil)) {
		c.refusedFor(p.name, now)
		return nil, refused
	}
	tooLarge := &failure{status: http.StatusRequestEntityTooLarge, message: fmt.Sprintf("the body is longer than %d bytes", c.route.Limits.Body)}
	if c.r.ContentLength > c.route.Limits.Body {
		c.w.Header().Set("Connection", "close")
		return nil, tooLarge
	}
	in := &counted{in: http.MaxBytesReader(c.w, c.r.Body, c.route.Limits.Body), room: &c.s.room}
	body, err := io.ReadAll(in)
	in.giveBack()
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		return nil, tooLarge
	case errors.Is(err, errNoRoom):
		return nil, &failure{status: http.StatusServiceUnavailable, message: err.Error(), retry: time.Second}
	case err != nil:
		return nil, &failure{status: http.StatusBadRequest, message: "the body could not be read"}
	}
	if c.route.Open {
		return body, nil
	}
	if !p.check(c.route.Secret.Reveal(), body) {
		c.refusedFor(p.name, now)
		return nil, refused
	}
	if p.legacy && c.lane.tellLegacy() {
		c.s.o.Log.WarnContext(c.r.Context(), "the sender signs no time: a request that somebody captured can be sent again; X-Webhook-Signature-V2 with X-Webhook-Timestamp is better",
			"profile", c.profile.Key(), "route", c.route.Name)
	}
	return body, nil
}

// errNoRoom says that the bodies that are being read have no room together.
var errNoRoom = errors.New("too many events are being read; try again")

// counted reads a body that nobody vouches for yet, out of the room that all of them share: they
// must not fill the memory, and one that sends nothing takes nothing from the others.
type counted struct {
	in   io.Reader
	room *atomic.Int64
	has  int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	c.has += int64(n)
	if c.room.Add(-int64(n)) < 0 {
		return 0, errNoRoom
	}
	return n, err
}

func (c *counted) giveBack() { c.room.Add(c.has) }

func (c *call) refusedFor(kind string, now time.Time) {
	if c.lane.tell(now) {
		c.s.o.Log.WarnContext(c.r.Context(), "an event was refused: its signature or token is missing or wrong", "profile", c.profile.Key(), "route", c.route.Name, "proof", kind)
	}
}

// eventNames are what an event is called: first as it is shown, then by what else a route may
// list it under (GitLab's header says "Merge Request Hook", its documents merge_request).
func eventNames(h http.Header, p payload) []string {
	word := func(key string) string {
		v, _ := step(p.value, key)
		s, _ := v.(string)
		return s
	}
	var names []string
	for _, n := range []string{h.Get("X-GitHub-Event"), h.Get("X-GitLab-Event")} {
		if n != "" {
			names = append(names, n)
		}
	}
	if kind := word("object_kind"); kind != "" && h.Get("X-GitLab-Event") != "" {
		names = append(names, kind)
	}
	for _, key := range []string{"event_type", "type"} {
		if n := word(key); len(names) == 0 && n != "" {
			names = append(names, n)
		}
	}
	if len(names) == 0 {
		names = []string{"unknown"}
	}
	return names
}

// maxDeliveryID is how long a sender's name for an event may be.
const maxDeliveryID = 200

// deliveryID is the sender's name for the event, the same when it is sent again; "" = it has
// none.
func (c *call) deliveryID() (string, error) {
	for _, name := range []string{"X-GitHub-Delivery", "Svix-Id", "Webhook-Id", "Idempotency-Key", "X-Request-ID"} {
		id := c.r.Header.Get(name)
		if id == "" {
			continue
		}
		if len(id) > maxDeliveryID || strings.IndexFunc(id, func(r rune) bool { return r <= ' ' || r >= 0x7f }) >= 0 {
			return "", &failure{status: http.StatusBadRequest, message: fmt.Sprintf("%s must be at most %d visible ASCII characters", name, maxDeliveryID)}
		}
		return id, nil
	}
	return "", nil
}

// unavailable is the answer while the gateway stops.
func unavailable(err error) error {
	if errors.Is(err, gateway.ErrDraining) || errors.Is(err, gateway.ErrBusy) {
		return &failure{status: http.StatusServiceUnavailable, message: err.Error(), retry: 10 * time.Second}
	}
	return err
}
