// SPDX-License-Identifier: MIT

package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Sampling bounds what a server may ask the model. A zero field is not set.
type Sampling struct {
	Off       bool          // it may not ask; servers that are not trusted only if the config says so
	Model     string        // instead of the turn's
	Allowed   []string      // models that it may wish for; whatever is not here is not used, unless it is empty
	MaxTokens int64         // of an answer
	Timeout   time.Duration // of an answer
	PerMinute int           // requests
	Level     slog.Level    // of the log's line about each
}

// Limits of sampling that an entry has if it says nothing else.
const (
	DefaultSampleTokens  = 4096
	DefaultSampleTimeout = 30 * time.Second
	DefaultSampleRate    = 10
)

// SampleRequest is what a server wants the model to continue. Only text is supported.
type SampleRequest struct {
	Profile, Server string
	Model           string // that the config wants or allows; "" = the turn's
	// Allowed are the only models that may answer; nil = any.
	Allowed   []string
	System    string
	Messages  []Message
	MaxTokens int64
}

// Message is one of a conversation that a server brings.
type Message struct{ Role, Text string }

// Sample is the model's continuation.
type Sample struct {
	Text, Model string
	StopReason  string // endTurn, maxTokens, …; "" = unknown
}

// sampling reads the section of that name.
func (p *parser) sampling(untrusted bool) Sampling {
	s := Sampling{Off: untrusted, MaxTokens: DefaultSampleTokens, Timeout: DefaultSampleTimeout, PerMinute: DefaultSampleRate}
	e := p.section("sampling")
	if e == nil {
		return s
	}
	s.Off = !e.boolean("enabled", !untrusted)
	s.Model, s.Allowed = e.text("model"), e.list("allowed_models")
	s.MaxTokens = int64(e.count("max_tokens_cap", DefaultSampleTokens))
	s.Timeout, s.PerMinute = e.seconds("timeout", DefaultSampleTimeout), e.count("max_rpm", DefaultSampleRate)
	e.count("max_tool_rounds", 1) // what is sampled here gets no tools
	switch level := e.text("log_level"); level {
	case "", "info":
	case "debug":
		s.Level = slog.LevelDebug
	case "warning":
		s.Level = slog.LevelWarn
	default:
		e.bad("log_level", "is "+strconv.Quote(level)+"; expected debug, info or warning")
	}
	if s.Model != "" && len(s.Allowed) > 0 && !slices.Contains(s.Allowed, s.Model) {
		e.bad("model", "is not among allowed_models")
	}
	p.take(e)
	return s
}

// count reads a whole number from 1.
func (p *parser) count(key string, def int) int {
	v := p.get(key)
	if v == nil {
		return def
	}
	text, _ := scalar(v)
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > math.MaxInt32 {
		p.bad(key, "is no whole number from 1")
		return def
	}
	return n
}

// window counts requests of the last minute.
type window struct {
	mu   sync.Mutex
	seen []time.Time
}

// admit takes one more request if there were fewer than most in the minute before.
func (w *window) admit(now time.Time, most int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = slices.DeleteFunc(w.seen, func(t time.Time) bool { return now.Sub(t) >= time.Minute })
	if len(w.seen) >= most {
		return false
	}
	w.seen = append(w.seen, now)
	return true
}

func (s *server) sample(ctx context.Context, r *sdk.CreateMessageRequest) (*sdk.CreateMessageResult, error) { //nolint:staticcheck // see options
	limits := s.cfg.Sampling
	log := s.host.cfg.Log.With("profile", s.ledger.current().Key, "server", s.cfg.Name)
	out, err := s.sampled(ctx, r, limits)
	if err != nil {
		log.WarnContext(ctx, "mcp server was not given what it asked of the model", "err", s.wrap(err))
		return nil, err
	}
	log.Log(ctx, limits.Level, "mcp server asked the model", "model", out.Model, "messages", len(r.Params.Messages), "bytes", len(out.Text))
	return &sdk.CreateMessageResult{Content: &sdk.TextContent{Text: out.Text}, Model: out.Model, Role: "assistant", StopReason: out.StopReason}, nil //nolint:staticcheck // see options
}

func (s *server) sampled(ctx context.Context, r *sdk.CreateMessageRequest, limits Sampling) (Sample, error) {
	if !s.samples.admit(time.Now(), limits.PerMinute) {
		return Sample{}, fmt.Errorf("no more than %d requests a minute (sampling.max_rpm)", limits.PerMinute)
	}
	p := r.Params
	req := SampleRequest{
		Profile: s.ledger.current().Key, Server: s.cfg.Name, Model: limits.Model, Allowed: limits.Allowed,
		System: p.SystemPrompt, MaxTokens: limits.MaxTokens,
	}
	if p.MaxTokens > 0 {
		req.MaxTokens = min(p.MaxTokens, limits.MaxTokens)
	}
	// A wish counts where the config lists the model: a server does not choose what is paid for.
	if req.Model == "" && p.ModelPreferences != nil {
		for _, h := range p.ModelPreferences.Hints {
			if slices.Contains(limits.Allowed, h.Name) {
				req.Model = h.Name
				break
			}
		}
	}
	for _, m := range p.Messages {
		text, ok := m.Content.(*sdk.TextContent)
		if !ok {
			return Sample{}, errors.New("only text can be sampled")
		}
		req.Messages = append(req.Messages, Message{Role: string(m.Role), Text: text.Text})
	}
	return ask(ctx, s, limits.Timeout, func(ctx context.Context) (Sample, error) { return s.host.cfg.Sample(ctx, req) })
}
