// SPDX-License-Identifier: MIT

package apiserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/agent"
	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
)

// TestManyStreams: 200 clients stream at the same time, and each gets its own answer. All
// turns are held until every client is there.
func TestManyStreams(t *testing.T) {
	t.Parallel()
	const n = 200
	var there sync.WaitGroup
	there.Add(n)
	w := newWorld(t, func(ctx context.Context, t *gateway.Turn, emit func(agent.Event)) (agent.Result, error) {
		there.Done()
		there.Wait()
		return says("answer to "+t.Ask.Input.Text()+strings.Repeat(" word", 50))(ctx, t, emit)
	})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			r := w.do("POST", "/v1/chat/completions", chat(fmt.Sprintf("question %d.", i), "stream", true))
			if text, _, _ := chunks(t, r); text != fmt.Sprintf("answer to question %d.", i)+strings.Repeat(" word", 50) {
				t.Errorf("%d: %d %q", i, r.status, text)
			}
		})
	}
	wg.Wait()
}

// TestNothingIsLeftBehind: after requests of every kind, those that were cut among them, no
// goroutine of the server is left.
func TestNothingIsLeftBehind(t *testing.T) { //nolint:paralleltest // it counts the goroutines of the process
	w := newWorld(t, waits(agent.Event{Kind: agent.TextDelta, Text: "x"}))
	w.do("GET", "/v1/models", nil)
	w.http.Client().CloseIdleConnections()
	for range 20 {
		for _, path := range []string{"/v1/chat/completions", "/v1/runs"} {
			ctx, cancel := context.WithCancel(t.Context())
			body := chat("x", "stream", true)
			if path == "/v1/runs" {
				body = map[string]any{"input": "x"}
			}
			res, err := w.http.Client().Do(request(ctx, t, http.MethodPost, w.http.URL+path, body))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := res.Body.Read(make([]byte, 10)); err != nil {
				t.Fatal(err)
			}
			cancel()
			res.Body.Close()
		}
	}
	for _, turn := range w.turns.Running("") {
		turn.Stop("the test is over")
		<-turn.Done()
	}
	w.http.Client().CloseIdleConnections()
	w.http.Close()
	ours := func() int {
		buf := make([]byte, 4<<20)
		return strings.Count(string(buf[:runtime.Stack(buf, true)]), "apiserver.(*call)")
	}
	for deadline := time.Now().Add(2 * time.Minute); ours() > 0; runtime.Gosched() {
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<20)
			t.Fatalf("%d goroutines serve requests that are over:\n%s", ours(), buf[:runtime.Stack(buf, true)])
		}
	}
}

// TestShutdown: what is being answered is answered to its end, then Serve returns.
func TestShutdown(t *testing.T) {
	t.Parallel()
	began, goOn := make(chan struct{}), make(chan struct{})
	w := newWorld(t, func(ctx context.Context, t *gateway.Turn, emit func(agent.Event)) (agent.Result, error) {
		close(began)
		<-goOn
		return says("to the end")(ctx, t, emit)
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served, answered := make(chan error, 1), make(chan string, 1)
	go func() { served <- w.srv.Serve(t.Context(), l) }()
	url := "http://" + l.Addr().String()
	go func() {
		res, err := http.DefaultClient.Do(request(context.Background(), t, http.MethodPost, url+"/v1/chat/completions", chat("x")))
		if err != nil {
			answered <- err.Error()
			return
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		answered <- fmt.Sprint(string(body), err)
	}()
	<-began
	down := make(chan error, 1)
	go func() { down <- w.srv.Shutdown(context.Background()) }()
	if err := <-served; err != nil {
		t.Error(err)
	}
	close(goOn)
	if a := <-answered; !strings.Contains(a, "to the end") {
		t.Error(a)
	}
	if err := <-down; err != nil {
		t.Error(err)
	}
	if l2, err := net.Listen("tcp", "127.0.0.1:0"); err != nil || w.srv.Serve(t.Context(), l2) != nil {
		t.Error("a server that is down serves again")
	}
}

// TestShutdownCuts: when its time is over, what is open is cut.
func TestShutdownCuts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, waits(agent.Event{Kind: agent.TextDelta, Text: "x"}))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- w.srv.Serve(t.Context(), l) }()
	res, err := http.DefaultClient.Do(request(t.Context(), t, http.MethodPost, "http://"+l.Addr().String()+"/v1/chat/completions", chat("x", "stream", true)))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.srv.Shutdown(over); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := io.ReadAll(res.Body); err == nil {
		t.Error("the stream looks whole")
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// BenchmarkChat is one request after the other, without and with a stream of 50 words.
func BenchmarkChat(b *testing.B) {
	for _, stream := range []bool{false, true} {
		b.Run(fmt.Sprintf("stream=%v", stream), func(b *testing.B) {
			w := newWorld(b, says(strings.Repeat("word ", 50)))
			body := chat("x", "stream", stream)
			for b.Loop() {
				if r := w.do("POST", "/v1/chat/completions", body); r.status != 200 {
					b.Fatal(r.body)
				}
			}
		})
	}
}

// BenchmarkThousandStreams has 1,000 clients stream at the same time from a model that says a
// word every 100 ms, over a socket. The added latency is how long after the model said it a
// word reaches its client; the clients are in the same process and count.
func BenchmarkThousandStreams(b *testing.B) {
	const clients, words = 1000, 30
	w := newWorld(b, func(_ context.Context, t *gateway.Turn, emit func(agent.Event)) (agent.Result, error) {
		for range words {
			time.Sleep(100 * time.Millisecond)
			emit(agent.Event{Kind: agent.TextDelta, Text: fmt.Sprintf("t%d ", time.Now().UnixNano())})
		}
		emit(agent.Event{Kind: agent.Final})
		return agent.Result{Stop: agent.Answered}, nil
	})
	l, err := net.Listen("unix", filepath.Join(b.TempDir(), "s"))
	if err != nil {
		b.Fatal(err)
	}
	go func() { _ = w.srv.Serve(b.Context(), l) }()
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", l.Addr().String())
		},
		MaxIdleConnsPerHost: clients,
	}}
	for b.Loop() {
		var mu sync.Mutex
		var all []time.Duration
		var wg sync.WaitGroup
		for range clients {
			wg.Go(func() {
				took := latencies(b, client)
				mu.Lock()
				all = append(all, took...)
				mu.Unlock()
			})
		}
		wg.Wait()
		if len(all) != clients*words {
			b.Fatalf("%d words", len(all))
		}
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "ms/median")
		b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, "ms/p99")
	}
}

// latencies reads one stream, and returns how late each word came.
func latencies(b *testing.B, client *http.Client) (out []time.Duration) {
	b.Helper()
	res, err := client.Do(request(b.Context(), b, http.MethodPost, "http://api/v1/chat/completions", chat("x", "stream", true)))
	if err != nil {
		b.Error(err)
		return nil
	}
	defer res.Body.Close()
	buf := make([]byte, 64<<10)
	for rest := ""; ; {
		n, err := res.Body.Read(buf)
		now := time.Now().UnixNano()
		rest += string(buf[:n])
		for {
			block, after, ok := strings.Cut(rest, "\n\n")
			if !ok {
				break
			}
			rest = after
			if _, word, ok := strings.Cut(block, `"content":"t`); ok {
				var at int64
				if _, err := fmt.Sscanf(word, "%d", &at); err != nil {
					b.Error(err)
				}
				out = append(out, time.Duration(now-at))
			}
		}
		if err != nil {
			return out
		}
	}
}
