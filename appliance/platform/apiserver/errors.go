// SPDX-License-Identifier: MIT

package apiserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/agent"
	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
	"github.com/hermes-appliance/hermes-appliance/appliance/model"
	"github.com/hermes-appliance/hermes-appliance/appliance/session"
)

// failure is an error as a client sees it, in the shape of OpenAI's.
type failure struct {
	status  int
	code    string
	param   string
	message string
	hint    string // what to do about it; "" = nothing
	after   time.Duration
	final   bool // the same request must not be sent again by itself: a turn has run, or a person is waited for
}

func (f *failure) Error() string { return f.message }

// wire is the JSON of a failure.
func (f *failure) wire() any {
	kind := "invalid_request_error"
	switch {
	case f.status == http.StatusUnauthorized:
		kind = "authentication_error"
	case f.status == http.StatusTooManyRequests:
		kind = "rate_limit_error"
	case f.status >= http.StatusInternalServerError:
		kind = "server_error"
	}
	body := map[string]any{"message": f.message, "type": kind, "code": f.code, "param": nil}
	if f.param != "" {
		body["param"] = f.param
	}
	if f.hint != "" {
		body["hint"] = f.hint
	}
	return map[string]any{"error": body}
}

// bad is a request that cannot be understood.
func bad(code, param, format string, args ...any) *failure {
	return &failure{status: http.StatusBadRequest, code: code, param: param, message: fmt.Sprintf(format, args...)}
}

// printable makes what a client sent fit for an answer: short, without control characters.
func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, s)
	if r := []rune(s); len(r) > 80 {
		s = string(r[:80]) + "…"
	}
	return s
}

func noProfile(name string) *failure {
	return &failure{
		status: http.StatusNotFound, code: "profile_not_found", message: fmt.Sprintf("no profile %q is served here", printable(name)),
		hint: "hermes-appliance status lists the profiles that are served",
	}
}

func profileError(name string, err error) error {
	if errors.Is(err, ErrNoProfile) {
		return noProfile(name)
	}
	return err
}

// fail answers with an error. After the first byte of an answer there is no way to say it.
func (c *call) fail(err error) {
	if c.w.status != 0 {
		return
	}
	f := c.failure(err)
	h := c.w.Header()
	if f.after > 0 {
		h.Set("Retry-After", strconv.FormatInt(int64((f.after+time.Second-1)/time.Second), 10))
	}
	if f.final {
		h.Set("X-Should-Retry", "false") // OpenAI's clients would send the turn again
	}
	c.json(f.status, f.wire())
}

// json answers with a JSON body.
func (c *call) json(status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		status, body = http.StatusInternalServerError, []byte(`{"error":{"message":"internal error","type":"server_error","code":"internal_error","param":null}}`)
	}
	c.w.Header().Set("Content-Type", "application/json")
	c.w.WriteHeader(status)
	if _, err := c.w.Write(append(body, '\n')); err != nil {
		c.s.o.Log.DebugContext(c.r.Context(), "write an answer", "error", err)
	}
}

// failure says in the client's terms what went wrong.
func (c *call) failure(err error) *failure {
	var f *failure
	var refused *RequestError
	var boxed *SandboxError
	switch {
	case errors.As(err, &f):
		return f
	case errors.Is(err, errGone): // of a client that reads on all the same, this is the answer
		return &failure{status: statusGone, code: "client_closed_request", message: err.Error()}
	case errors.As(err, &boxed):
		return boxed.failure()
	case errors.As(err, &refused):
		code := refused.Code
		if code == "" {
			code = "invalid_request"
		}
		return bad(code, refused.Param, "%s", refused.Message)
	case errors.Is(err, gateway.ErrDraining):
		return &failure{status: http.StatusServiceUnavailable, code: "draining", message: err.Error(), after: 5 * time.Second}
	case errors.Is(err, gateway.ErrBusy):
		return &failure{
			status: http.StatusTooManyRequests, code: "rate_limit_exceeded", message: err.Error(), after: time.Second,
			hint: "max_concurrent_runs of the api_server settings is the limit",
		}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &failure{status: http.StatusServiceUnavailable, code: "interrupted", message: "the request was cancelled"}
	}
	if f := storeFailure(err); f != nil {
		return f
	}
	c.s.o.Log.ErrorContext(c.r.Context(), "api request failed", "route", c.r.Pattern, "error", err)
	return &failure{status: http.StatusInternalServerError, code: "internal_error", message: "internal error; the log of the gateway has more"}
}

// storeFailure says what the session store's errors mean for a client; nil = it is none.
func storeFailure(err error) *failure {
	var taken *session.TitleTakenError
	var long *session.TooLongError
	var waiting *gateway.WaitingError
	switch {
	case errors.As(err, &waiting):
		return &failure{
			status: http.StatusConflict, code: "approval_pending", message: waiting.Error(), final: true,
			hint: fmt.Sprintf(`body {"request_id": %q, "choice": "once" or "deny"}; then send the message again`, waiting.Approvals[0].ID),
		}
	case errors.Is(err, session.ErrNoSession):
		return &failure{status: http.StatusNotFound, code: "session_not_found", message: "no such session"}
	case errors.Is(err, session.ErrNoMessage):
		return &failure{status: http.StatusNotFound, code: "message_not_found", message: "the session has no such message"}
	case errors.Is(err, session.ErrTurnRunning):
		return &failure{
			status: http.StatusConflict, code: "session_busy", message: "another turn of this session is running", after: time.Second,
			hint: "wait for it, stop it, or fork the session",
		}
	case errors.As(err, &taken):
		return &failure{status: http.StatusBadRequest, code: "invalid_title", param: "title", message: "the title is already in use by session " + taken.Session}
	case errors.As(err, &long) && long.Session == "":
		return &failure{
			status: http.StatusBadRequest, code: "session_too_long", message: fmt.Sprintf("the history has %d messages or more", long.Limit),
			hint: "send fewer, or raise sessions.max_resume_messages",
		}
	case errors.As(err, &long):
		return &failure{
			status: http.StatusBadRequest, code: "session_too_long", message: fmt.Sprintf("the session has more than %d messages", long.Limit),
			hint: "fork it from a later message, or raise sessions.max_resume_messages",
		}
	case errors.Is(err, session.ErrBusy):
		return &failure{status: http.StatusServiceUnavailable, code: "store_busy", message: "the session store is busy", after: time.Second}
	case errors.As(err, new(*session.DamagedError)), errors.Is(err, session.ErrReadOnly), errors.Is(err, session.ErrFull), errors.Is(err, session.ErrReplaced), errors.Is(err, session.ErrClosed):
		return &failure{
			status: http.StatusServiceUnavailable, code: "store_unavailable", message: "the session store cannot be used",
			hint: "GET /health/detailed says why",
		}
	}
	return nil
}

// turnFailure says why a turn has no answer. named = the client chose the model.
func turnFailure(res agent.Result, err error, named bool) *failure {
	var by *agent.InterruptError
	if err == nil || errors.As(err, &by) {
		if err == nil && res.Stop != agent.Interrupted {
			return nil
		}
		return &failure{status: http.StatusServiceUnavailable, code: "interrupted", message: "the turn was stopped before it had an answer", final: true}
	}
	if me, ok := errors.AsType[*model.Error](err); ok {
		f := modelFailure(me, named)
		f.message, f.final = me.Error(), true
		return f
	}
	if refused, ok := errors.AsType[*RequestError](err); ok {
		return bad("invalid_request", refused.Param, "%s", refused.Message)
	}
	if f := storeFailure(err); f != nil {
		return f
	}
	return &failure{status: http.StatusInternalServerError, code: "turn_failed", message: err.Error(), final: true}
}

// modelFailure is the status of a provider's error. The provider's 401 is none of the client,
// whose own key is right.
func modelFailure(e *model.Error, named bool) *failure {
	switch e.Kind {
	case model.RateLimit:
		return &failure{status: http.StatusTooManyRequests, code: "rate_limit_exceeded", after: e.RetryAfter}
	case model.Quota:
		return &failure{status: http.StatusPaymentRequired, code: "insufficient_quota", hint: "the account of the model provider is used up"}
	case model.Overloaded:
		return &failure{status: http.StatusServiceUnavailable, code: "provider_overloaded", after: e.RetryAfter}
	case model.Overflow:
		return &failure{status: http.StatusBadRequest, code: "context_length_exceeded"}
	case model.Stale, model.Timeout:
		return &failure{status: http.StatusGatewayTimeout, code: "provider_timeout"}
	case model.NotFound:
		if named {
			return &failure{status: http.StatusNotFound, code: "model_not_found", param: "model"}
		}
	case model.Auth:
		return &failure{
			status: http.StatusBadGateway, code: "provider_auth",
			hint: "the gateway's key for the model provider is missing or refused; this is not the key of this request",
		}
	case model.Server, model.BadRequest, model.Cut, model.Network:
	}
	return &failure{status: http.StatusBadGateway, code: "provider_error"}
}
