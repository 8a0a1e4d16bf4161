// SPDX-License-Identifier: MIT

package model

import (
	"encoding/json"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/redact"
	"github.com/hermes-appliance/hermes-appliance/appliance/secret"
)

// APIMode is a wire format, by the names that config.yaml gives them.
type APIMode string

// The wire formats.
const (
	ChatCompletions   APIMode = "chat_completions"
	AnthropicMessages APIMode = "anthropic_messages"
	RehearsalMode     APIMode = "rehearsal" // the built-in model, see [Rehearsal]
)

// Defaults of a route, as upstream has them.
const (
	DefaultTimeout = 30 * time.Minute
	DefaultStale   = 3 * time.Minute
)

// Route says where a model is and how to speak to it. It is resolved by the caller; nothing
// of it is looked up elsewhere. It is a value and safe to share.
type Route struct {
	Provider string // a name for errors, usage rows and the match with [Origin]
	Model    string
	BaseURL  string // "" = the official endpoint of the API mode
	Key      secret.Text
	APIMode  APIMode // "" = ChatCompletions

	Hide    *redact.Redactor  // of the profile, for a provider's words in errors; nil = what looks like a secret
	Headers map[string]string // added to each request; they win over ours
	// Extra are fields of the request body (extra_body); they win over ours, null removes.
	Extra map[string]json.RawMessage

	MaxTokens int64 // of an answer; 0 = the provider's default, or 16,384 where one must be named
	Context   int64 // tokens that fit the model's window; 0 = unknown
	NoStream  bool  // ask for the answer in one piece (model.streaming: false)

	Timeout time.Duration // of the whole request; 0 = DefaultTimeout, negative = none
	// Stale is how long a request may go without an event of the answer, from its start on.
	// 0 = DefaultStale, or none for an endpoint on this machine or the local network, where
	// a model may think about a long prompt for minutes; negative = none. Comments and pings
	// of a proxy that lives while the model is dead are no events.
	Stale time.Duration
}

func (r Route) mode() APIMode {
	if r.APIMode == "" {
		return ChatCompletions
	}
	return r.APIMode
}

func (r Route) timeout() time.Duration {
	switch {
	case r.Timeout < 0:
		return 0
	case r.Timeout == 0:
		return DefaultTimeout
	}
	return r.Timeout
}

func (r Route) stale() time.Duration {
	switch {
	case r.Stale < 0 || r.Stale == 0 && local(r.BaseURL):
		return 0
	case r.Stale == 0:
		return DefaultStale
	}
	return r.Stale
}

// same reports whether m came from this very model, so that what only it understands may go
// back to it.
func (r Route) same(o *Origin) bool {
	return o != nil && o.APIMode == r.mode() && o.Provider == r.Provider && o.Model == r.Model
}

func (r Route) origin() *Origin {
	return &Origin{APIMode: r.mode(), Provider: r.Provider, Model: r.Model}
}

// local reports whether a URL names this machine or a private network.
func local(base string) bool {
	u, err := url.Parse(base)
	if err != nil || base == "" {
		return false
	}
	host := u.Hostname()
	if ip := net.ParseIP(host); ip != nil {
		return ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast()
	}
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || strings.HasSuffix(host, ".local") ||
		strings.HasSuffix(host, ".internal") || !strings.Contains(host, ".")
}
