// SPDX-License-Identifier: MIT

//go:build linux

package mcp

import (
	"context"
	"testing"
	"time"
)

// TestSamplingLimits: what a server gets of the model is bounded by its entry, and nothing that
// is refused reaches the model.
func TestSamplingLimits(t *testing.T) {
	t.Parallel()
	asked := make(chan SampleRequest, 10)
	w := newWorld(t, func(c *Config) {
		c.Sample = func(_ context.Context, r SampleRequest) (Sample, error) {
			asked <- r
			return Sample{Text: "said so", Model: "m", StopReason: "endTurn"}, nil
		}
	})
	s := fake("fake", "samples")
	s.Sampling = Sampling{MaxTokens: 50, Timeout: forever, PerMinute: 3, Allowed: []string{"small"}}
	w.apply("a", s)
	w.tools("a")
	say := func(more ...any) []any {
		text := map[string]any{"role": "user", "content": map[string]any{"type": "text", "text": "hi"}}
		return append([]any{"messages", []any{text}}, more...)
	}
	has(t, w.call("a", "mcp__fake__sample", say("maxTokens", 10, "systemPrompt", "be short", "modelPreferences", map[string]any{"hints": []any{map[string]any{"name": "huge"}, map[string]any{"name": "small"}}})...), "said so", "endTurn")
	if r := <-asked; r.MaxTokens != 10 || r.Model != "small" || r.System != "be short" || len(r.Messages) != 1 || r.Messages[0] != (Message{"user", "hi"}) || r.Profile != "a" || r.Server != "fake" {
		t.Errorf("%+v", r)
	}
	has(t, w.call("a", "mcp__fake__sample", say("maxTokens", 5000, "modelPreferences", map[string]any{"hints": []any{map[string]any{"name": "huge"}}})...), "said so")
	if r := <-asked; r.MaxTokens != 50 || r.Model != "" || len(r.Allowed) != 1 {
		t.Errorf("%+v", r)
	}
	image := map[string]any{"role": "user", "content": map[string]any{"type": "image", "data": "aGk=", "mimeType": "image/png"}}
	has(t, w.call("a", "mcp__fake__sample", "messages", []any{image}, "maxTokens", 5), "only text")
	has(t, w.call("a", "mcp__fake__sample", say("maxTokens", 5)...), "no more than 3 requests a minute", "max_rpm")
	if len(asked) != 0 {
		t.Errorf("the model was asked: %+v", <-asked)
	}
}

// TestSamplingTimeout: a model that does not answer does not hold up the server.
func TestSamplingTimeout(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) {
		c.Sample = func(ctx context.Context, _ SampleRequest) (Sample, error) {
			<-ctx.Done()
			return Sample{}, ctx.Err()
		}
	})
	s := fake("fake", "samples")
	s.Sampling.Timeout = time.Millisecond
	w.apply("a", s)
	w.tools("a")
	text := map[string]any{"role": "user", "content": map[string]any{"type": "text", "text": "hi"}}
	has(t, w.call("a", "mcp__fake__sample", "messages", []any{text}, "maxTokens", 5), "no answer within 1ms")
}

func TestSamplingWindow(t *testing.T) {
	t.Parallel()
	var w window
	now := time.Unix(1000, 0)
	for i, c := range []struct {
		after time.Duration
		want  bool
	}{{0, true}, {30 * time.Second, true}, {59 * time.Second, false}, {60 * time.Second, true}, {61 * time.Second, false}, {90 * time.Second, true}} {
		if got := w.admit(now.Add(c.after), 2); got != c.want {
			t.Errorf("%d: after %s: %v", i, c.after, got)
		}
	}
}
