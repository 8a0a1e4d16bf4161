// SPDX-License-Identifier: MIT

package model

import (
	"fmt"
	"strings"
	"time"
)

// Kind is what went wrong with a call, as far as it decides what to do next.
type Kind string

// The kinds of errors.
const (
	RateLimit  Kind = "rate_limit"       // too many requests: wait, see Error.RetryAfter
	Quota      Kind = "quota"            // no money left: waiting does not help
	Overloaded Kind = "overloaded"       // the provider says it has no room now
	Server     Kind = "server_error"     // any other failure of the provider's
	Overflow   Kind = "context_overflow" // the history does not fit the model
	Auth       Kind = "auth"             // the key is missing, wrong or may not do this
	NotFound   Kind = "not_found"        // no such model or endpoint
	BadRequest Kind = "bad_request"      // the provider does not understand the request
	Cut        Kind = "cut_stream"       // the answer stopped in the middle
	Stale      Kind = "stale_stream"     // nothing came for Route.Stale
	Timeout    Kind = "timeout"          // Route.Timeout is over
	Network    Kind = "network"          // the provider was not reached
)

// Error is a failed call. It holds no key: what the provider wrote is cut and masked.
type Error struct {
	Kind       Kind
	Provider   string
	Model      string
	Status     int           // HTTP status; 0 = none
	RetryAfter time.Duration // how long the provider asks to wait; 0 = it does not say
	Detail     string        // what the provider or the network says, masked, one line
	cause      error
}

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s/%s: %s", e.Provider, e.Model, strings.ReplaceAll(string(e.Kind), "_", " "))
	if e.Status != 0 {
		fmt.Fprintf(&b, " (status %d)", e.Status)
	}
	if e.Detail != "" {
		b.WriteString(": " + e.Detail)
	}
	if e.RetryAfter > 0 {
		fmt.Fprintf(&b, "; asks to wait %s", e.RetryAfter.Round(time.Second))
	}
	return b.String()
}

// Unwrap returns the error of the network or of a parser, if that was the cause.
func (e *Error) Unwrap() error { return e.cause }

// Temporary reports whether the same request may work later.
func (e *Error) Temporary() bool {
	switch e.Kind {
	case RateLimit, Overloaded, Server, Cut, Stale, Network:
		return true
	case Quota, Overflow, Auth, NotFound, BadRequest, Timeout:
	}
	return false
}

// report is what a provider says of a failure, in whichever shape.
type report struct {
	status  int
	code    string // machine-readable code or type, lower case
	message string
}

// kind decides by the code first, then by words of the message that providers use, then by
// the status.
func (r report) kind() Kind {
	text := strings.ToLower(r.message)
	has := func(s string, words ...string) bool {
		for _, w := range words {
			if strings.Contains(s, w) {
				return true
			}
		}
		return false
	}
	switch {
	case has(r.code, "context_length", "context_window", "exceed_context_size"),
		has(text, "maximum context length", "context window", "context length", "prompt is too long",
			"exceed context limit", "available context size", "input is too long", "too many tokens in", "reduce the length of the messages"):
		return Overflow
	case has(r.code, "insufficient_quota", "billing", "credit"),
		has(text, "insufficient credits", "credit balance is too low", "exceeded your current quota"), r.status == 402:
		return Quota
	case has(r.code, "overloaded", "slow_down", "unavailable"):
		return Overloaded
	case has(r.code, "rate_limit", "too_many_requests"):
		return RateLimit
	case has(r.code, "authentication", "invalid_api_key", "permission"):
		return Auth
	case has(r.code, "model_not_found"):
		return NotFound
	}
	return kindOfStatus(r.status, r.code)
}

func kindOfStatus(status int, code string) Kind {
	switch {
	case status == 401 || status == 403:
		return Auth
	case status == 404:
		return NotFound
	case status == 413:
		return Overflow
	case status == 408 || status == 425 || status == 500 || status == 502:
		return Server
	case status == 429:
		return RateLimit
	case status == 503 || status == 529:
		return Overloaded
	case status > 500:
		return Server
	case status >= 400, strings.Contains(code, "invalid_request"):
		return BadRequest
	}
	return Server
}
