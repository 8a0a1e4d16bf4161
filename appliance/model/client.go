// SPDX-License-Identifier: MIT

package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Client makes calls over shared connections. Nothing of one call is seen by another: keys
// and headers travel with the [Route]. It is safe for concurrent use.
type Client struct {
	http *http.Client
	own  *http.Transport // nil = the caller's transport
}

// New makes a client. A nil transport is a new one of its own that goes through no proxy;
// [Client.Close] ends it.
func New(transport http.RoundTripper) *Client {
	c := &Client{}
	if transport == nil {
		c.own = &http.Transport{
			ForceAttemptHTTP2:   true,
			MaxIdleConnsPerHost: 16,
			IdleConnTimeout:     90 * time.Second,
			TLSHandshakeTimeout: 15 * time.Second,
			// A compressing proxy holds events back until it has a block of them.
			DisableCompression: true,
		}
		transport = c.own
	}
	c.http = &http.Client{Transport: checked{transport}, CheckRedirect: refuse}
	return c
}

// Close ends idle connections. Calls under way are not touched.
func (c *Client) Close() {
	if c.own != nil {
		c.own.CloseIdleConnections()
	}
}

// Stream asks a model and hands each piece of its answer to emit, in order, on the calling
// goroutine; emit may be nil. When the call fails, the answer holds what had come until then
// (without the calls, which may be half), and the error is an [*Error], or the cause of ctx
// if that was cancelled.
func (c *Client) Stream(ctx context.Context, r Route, req Request, emit func(Delta)) (Answer, error) {
	if emit == nil {
		emit = func(Delta) {}
	}
	if r.mode() == RehearsalMode {
		return Rehearsal{}.Stream(ctx, r, req, emit)
	}
	s := &stream{route: r, emit: emit}
	s.ctx, s.watch = watchOver(ctx, r.timeout(), r.stale())
	defer s.watch.stop()
	req.Messages = Repair(req.Messages)
	var err error
	switch r.mode() {
	case ChatCompletions:
		err = c.chat(s, req)
	case AnthropicMessages:
		err = c.anthropic(s, req)
	default:
		return Answer{}, &Error{Kind: BadRequest, Provider: r.Provider, Model: r.Model, Detail: fmt.Sprintf("api_mode %q is not served; use %s or %s", r.APIMode, ChatCompletions, AnthropicMessages)}
	}
	a := s.answer()
	if err != nil {
		a.Message.Calls = nil
		if ctx.Err() != nil {
			return a, context.Cause(ctx)
		}
		return a, s.fail(err)
	}
	unique(a.Message.Calls, req.Messages)
	a.Usage = a.Usage.plausible(req, a.Message)
	return a, nil
}

// redirectError is what a provider gets that sends us elsewhere: a key, and the conversation,
// go to the address that was configured.
type redirectError struct{ to string }

func (e redirectError) Error() string {
	return "redirects to " + e.to + "; set base_url to the final address"
}

func refuse(req *http.Request, _ []*http.Request) error {
	return redirectError{req.URL.Scheme + "://" + req.URL.Host + req.URL.Path}
}

// statusError is an answer with a status that is no success.
type statusError struct {
	status int
	header http.Header
	body   []byte
}

func (e *statusError) Error() string { return http.StatusText(e.status) }

// maxErrorBody bounds what is read of a failed answer; proxies send whole pages.
const maxErrorBody = 64 << 10

// checked turns failed answers into errors before a library makes its own of them: those
// lose what is no JSON, and carry the request with its key.
type checked struct{ next http.RoundTripper }

func (c checked) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := c.next.RoundTrip(req)
	if err != nil || resp.StatusCode < 400 {
		return resp, err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	_ = resp.Body.Close() //nolint:errcheck // the answer is a failure already
	if err != nil {
		body = nil
	}
	return nil, &statusError{resp.StatusCode, resp.Header, body}
}

// fail makes the error of a call from whatever went wrong.
func (s *stream) fail(err error) *Error {
	e := &Error{Provider: s.route.Provider, Model: s.route.Model}
	status, redirect, told := (*statusError)(nil), redirectError{}, (*reportError)(nil)
	switch expired := s.watch.expired(); {
	case errors.Is(expired, errStale):
		e.Kind, e.Detail = Stale, fmt.Sprintf("nothing came for %s", s.route.stale())
	case errors.Is(expired, errTimeout):
		e.Kind, e.Detail = Timeout, fmt.Sprintf("the answer was not complete after %s", s.route.timeout())
	case errors.As(err, &status):
		rep := parseReport(status.status, status.body)
		e.Kind, e.Status, e.Detail = rep.kind(), rep.status, rep.message
		e.RetryAfter = retryAfter(status.header, time.Now())
		e.cause = nil
	case errors.As(err, &told):
		e.Kind, e.Detail = told.kind(), told.message
	case errors.As(err, &redirect):
		e.Kind, e.Detail = BadRequest, redirect.Error()
	case errors.Is(err, errEncode):
		e.Kind, e.Detail, e.cause = BadRequest, err.Error(), err
	case s.started:
		e.Kind, e.Detail, e.cause = Cut, plain(err), err
	default:
		e.Kind, e.Detail, e.cause = Network, plain(err), err
	}
	e.Detail = s.route.mask(e.Detail)
	return e
}

// plain drops the method and URL that net/http puts before an error: a URL may hold a key.
func plain(err error) string {
	if u := (*url.Error)(nil); errors.As(err, &u) {
		err = u.Err
	}
	return err.Error()
}

// reportError is a failure that a provider tells inside a stream.
type reportError struct{ report }

func (e *reportError) Error() string { return e.message }

// parseReport reads the error shapes of providers: {"error":{…}}, {"error":"…"},
// {"message":…}, {"detail":…} and a list of one of them. What is no JSON is no message.
func parseReport(status int, body []byte) report {
	r := report{status: status}
	body = []byte(strings.TrimSpace(string(body)))
	if len(body) > 0 && body[0] == '[' {
		var list []json.RawMessage
		if json.Unmarshal(body, &list) == nil && len(list) > 0 {
			body = list[0]
		}
	}
	var top map[string]json.RawMessage
	if json.Unmarshal(body, &top) != nil {
		r.message = http.StatusText(status)
		return r
	}
	r = r.take(top)
	if inner, ok := top["error"]; ok {
		var fields map[string]json.RawMessage
		if json.Unmarshal(inner, &fields) == nil {
			r = r.take(fields)
		} else if text, ok := str(inner); ok {
			r.message = text
		}
	}
	return r
}

func (r report) take(fields map[string]json.RawMessage) report {
	var codes []string
	for _, name := range []string{"code", "type", "status"} {
		if text, ok := str(fields[name]); ok && text != "error" {
			codes = append(codes, strings.ToLower(text))
		}
	}
	if len(codes) > 0 {
		r.code = strings.Join(codes, " ")
	}
	for _, name := range []string{"message", "detail"} {
		if text, ok := str(fields[name]); ok {
			r.message = text
		}
	}
	var n int
	if json.Unmarshal(fields["code"], &n) == nil && n >= 400 && n < 600 && r.status < 400 {
		r.status = n
	}
	return r
}

func str(raw json.RawMessage) (string, bool) {
	if len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	var s string
	err := json.Unmarshal(raw, &s)
	return s, err == nil
}
