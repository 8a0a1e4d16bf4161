// SPDX-License-Identifier: MIT

package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// benchBinary names a built program to measure; without it the test's own binary is, which is
// larger.
const benchBinary = "HERMES_BENCH_BINARY"

func benchPlace(b *testing.B, files map[string]string) *place {
	b.Helper()
	p := newPlace(b, files)
	p.program = os.Getenv(benchBinary)
	return p
}

// BenchmarkStart is from the start of the process to the first answer of /health, on a home
// that has a database.
func BenchmarkStart(b *testing.B) {
	p := benchPlace(b, map[string]string{"config.yaml": "_config_version: 50\n", ".env": apiOn + "API_SERVER_PORT=18642\n"})
	p.start(b, "gateway", "run", "--home", p.home).end(syscall.SIGTERM)
	for b.Loop() {
		g := p.launch(b, "gateway", "run", "--home", p.home)
		g.url = "http://127.0.0.1:18642"
		for {
			if status, _, err := g.try("", "/health", ""); err == nil && status == 200 {
				break
			}
			time.Sleep(time.Millisecond)
		}
		b.StopTimer()
		p.leave(b, g)
		b.StartTimer()
	}
}

// BenchmarkIdle tells how much memory a gateway has that answered each of its profiles once.
func BenchmarkIdle(b *testing.B) {
	for _, n := range []int{1, 20} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			files := map[string]string{"config.yaml": "_config_version: 50\ngateway:\n  multiplex_profiles: true\n", ".env": apiOn}
			for i := 1; i < n; i++ {
				files[fmt.Sprintf("profiles/p%d/config.yaml", i)] = "_config_version: 50\n"
				files[fmt.Sprintf("profiles/p%d/.env", i)] = fmt.Sprintf("API_SERVER_KEY=key-of-profile-%d-1234\n", i)
			}
			p := benchPlace(b, files)
			for b.Loop() {
				g := p.start(b, "gateway", "run", "--home", p.home)
				fresh := resident(b, g.cmd.Process.Pid)
				g.ask("", g.key, "hello")
				for i := 1; i < n; i++ {
					g.ask(fmt.Sprintf("/p/p%d", i), fmt.Sprintf("key-of-profile-%d-1234", i), "hello")
				}
				b.ReportMetric(fresh, "MB-started")
				b.ReportMetric(resident(b, g.cmd.Process.Pid), "MB-after-a-turn-each")
				p.leave(b, g)
			}
		})
	}
}

// leave stops a gateway, and has the next start be no part of a storm.
func (p *place) leave(b *testing.B, g *running) {
	b.Helper()
	g.end(syscall.SIGTERM)
	if err := os.Remove(filepath.Join(p.home, "gateway-starts.log")); err != nil {
		b.Fatal(err)
	}
}

func resident(b testing.TB, pid int) float64 {
	b.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), "VmRSS:")
	kb, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
	if err != nil {
		b.Fatal(err)
	}
	return kb / 1024
}

// BenchmarkTurn is a whole request, without a tool and with a command in a warm terminal.
func BenchmarkTurn(b *testing.B) {
	p := benchPlace(b, map[string]string{"config.yaml": "_config_version: 50\n", ".env": apiOn})
	g := p.start(b, "gateway", "run", "--home", p.home)
	_, body := g.request(g.key, "/api/sessions", `{}`)
	session := field[map[string]any](b, body, "session")["id"].(string)
	for name, text := range map[string]string{"text": "hello", "command": "run: true"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if status, got := g.request(g.key, "/api/sessions/"+session+"/chat", `{"message":`+quote(text)+`}`); status != 200 {
					b.Fatal(got)
				}
			}
		})
	}
}

// Of BenchmarkStreams: each stream has so many pieces, so far apart.
const (
	streams = 1000
	pieces  = 20
	apart   = 250 * time.Millisecond
)

// BenchmarkStreams has a thousand clients follow a stream each at the same time, directly from
// the model's server and through the gateway. Each piece says when it was sent.
func BenchmarkStreams(b *testing.B) {
	srv := httptest.NewServer(http.HandlerFunc(drip))
	b.Cleanup(srv.Close)
	p := benchPlace(b, map[string]string{
		"config.yaml": "_config_version: 50\nmodel:\n  provider: custom\n  default: m\n  base_url: " + srv.URL + "/v1\ngateway:\n  api_server:\n    max_concurrent_runs: 0\n",
		".env":        apiOn,
	})
	g := p.start(b, "gateway", "run", "--home", p.home)
	for name, url := range map[string]string{"direct": srv.URL, "gateway": g.url} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				late, failed := follow(b.Context(), url+"/v1/chat/completions", g.key)
				slices.Sort(late)
				if len(late) != streams*pieces || failed != nil {
					b.Errorf("%d pieces of %d came; %v", len(late), streams*pieces, failed)
				}
				b.ReportMetric(ms(late[len(late)/2]), "ms-median")
				b.ReportMetric(ms(late[len(late)*99/100]), "ms-p99")
			}
		})
	}
	b.Logf("resident after it: %.0f MB", resident(b, g.cmd.Process.Pid))
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// drip answers as a model does, with the time in each piece.
func drip(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	for range pieces {
		select {
		case <-time.After(apart):
		case <-r.Context().Done():
			return
		}
		fmt.Fprintf(w, "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"@%d@ \"}}]}\n\n", time.Now().UnixNano())
		w.(http.Flusher).Flush()
	}
	fmt.Fprint(w, "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
}

// follow is all clients at once: how late each piece was, and an error if there was one.
func follow(ctx context.Context, url, key string) (late []time.Duration, failed error) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: streams}}
	defer client.CloseIdleConnections()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range streams {
		wg.Go(func() {
			got, err := one(ctx, client, url, key)
			mu.Lock()
			defer mu.Unlock()
			late = append(late, got...)
			if err != nil {
				failed = err
			}
		})
	}
	wg.Wait()
	return late, failed
}

func one(ctx context.Context, client *http.Client, url, key string) (late []time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(`{"model":"m","stream":true,"messages":[{"role":"user","content":"go"}]}`))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		now := time.Now()
		if parts := strings.Split(lines.Text(), "@"); len(parts) > 2 && strings.HasPrefix(lines.Text(), "data: ") {
			sent, err := strconv.ParseInt(parts[1], 10, 64)
			if err != nil {
				return late, err
			}
			late = append(late, now.Sub(time.Unix(0, sent)))
		}
	}
	if resp.StatusCode != http.StatusOK {
		return late, fmt.Errorf("status %d", resp.StatusCode)
	}
	return late, lines.Err()
}
