// SPDX-License-Identifier: MIT

package agent

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/model"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit/modelserver"
)

// serverEnv makes the test binary a model server in a process of its own, so that what a
// benchmark measures is the client's alone.
const serverEnv = "HERMES_TEST_MODELSERVER"

func TestMain(m *testing.M) {
	if os.Getenv(serverEnv) == "" {
		os.Exit(m.Run())
	}
	serveUntilClosed()
}

// serveUntilClosed answers every request with the first word of an answer, and the rest when
// its standard input ends.
func serveUntilClosed() {
	closed := make(chan struct{})
	srv := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: {\"choices\":[{\"delta\":{\"content\":\"one\"}}]}\n\n")
		w.(http.Flusher).Flush()
		<-closed
		fmt.Fprint(w, "data: {\"choices\":[{\"delta\":{\"content\":\" two\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	})}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println("http://" + l.Addr().String())
	go func() { _ = srv.Serve(l) }()
	_, _ = bufio.NewReader(os.Stdin).ReadString(0)
	close(closed)
	time.Sleep(5 * time.Second) // the answers are on their way; the parent kills this process
}

// BenchmarkStreams is the memory of turns that are all in the middle of an answer.
func BenchmarkStreams(b *testing.B) {
	const streams = 1000
	for b.Loop() {
		cmd := exec.CommandContext(b.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), serverEnv+"=1")
		in, err := cmd.StdinPipe()
		if err != nil {
			b.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			b.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		url, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			b.Fatal(err)
		}
		d := newDesk(b, model.Route{Provider: "p", Model: "m", BaseURL: strings.TrimSpace(url) + "/v1"})
		a, err := New(d.Options)
		if err != nil {
			b.Fatal(err)
		}
		before, rss := memory()
		var first, end sync.WaitGroup
		for range streams {
			first.Add(1)
			end.Go(func() {
				once := sync.OnceFunc(first.Done)
				if _, err := a.Run(b.Context(), newStore(b), model.Text(model.User, "x"), nil, func(e Event) {
					if e.Kind == TextDelta || e.Kind == Failed {
						once()
					}
				}); err != nil {
					b.Error(err)
				}
			})
		}
		first.Wait()
		after, full := memory()
		b.ReportMetric(float64(after-before)/streams/1024, "KiB/stream")
		b.ReportMetric(float64(full-rss)/streams/1024, "rss-KiB/stream")
		b.ReportMetric(float64(full)/(1<<20), "rss-MiB")
		b.ReportMetric(float64(runtime.NumGoroutine())/streams, "goroutines/stream")
		_ = in.Close()
		end.Wait()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}

// memory returns what the program uses: its heap and stacks, and what the system gives it.
func memory() (used, rss int64) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	data, err := os.ReadFile("/proc/self/statm")
	if err == nil {
		var size, resident int64
		if _, err := fmt.Sscan(string(data), &size, &resident); err == nil {
			rss = resident * int64(os.Getpagesize())
		}
	}
	return int64(m.HeapInuse + m.StackInuse), rss
}

// BenchmarkTurn is a streamed turn of two model calls and one tool call, against the bare
// calls of the model: the difference is what the loop adds.
func BenchmarkTurn(b *testing.B) {
	reply := func(r modelserver.Request) modelserver.Reply {
		if strings.Contains(string(r.Body), `"role":"tool"`) {
			return say("a short answer of some words")
		}
		return does(call("a", "echo", `{}`))
	}
	b.Run("agent", func(b *testing.B) {
		s := modelserver.NewFunc(b, reply)
		d := newDesk(b, route(s, model.ChatCompletions, "p"))
		a, err := New(d.Options)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			if _, err := a.Run(b.Context(), newStore(b), model.Text(model.User, "x"), nil, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("model", func(b *testing.B) {
		s := modelserver.NewFunc(b, reply)
		d := newDesk(b, route(s, model.ChatCompletions, "p"))
		c := model.Call{ID: "a", Name: "echo", Args: "{}"}
		first := model.Request{System: "You are a test.", Tools: d.Tools.Specs(), Messages: []model.Message{model.Text(model.User, "x")}}
		second := first
		second.Messages = append(second.Messages, model.Message{Role: model.Assistant, Calls: []model.Call{c}}, model.Result(c, "x", false))
		b.ReportAllocs()
		for b.Loop() {
			for _, req := range []model.Request{first, second} {
				if _, err := d.Model.Stream(b.Context(), d.Routes[0], req, nil); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}

// instant is a model without a wire.
type instant struct{ words int }

func (m instant) Stream(_ context.Context, r model.Route, _ model.Request, emit func(model.Delta)) (model.Answer, error) {
	for range m.words {
		emit(model.Delta{Text: "word "})
	}
	return model.Answer{Message: model.Text(model.Assistant, "word"), Finish: model.FinishStop, Usage: model.Usage{Input: 1, Output: 1}}, nil
}

// BenchmarkDeltas is what the loop adds to each piece of an answer.
func BenchmarkDeltas(b *testing.B) {
	const words = 100_000
	d := newDesk(b, model.Route{Provider: "p", Model: "m"})
	d.Options.Model = instant{words}
	a, err := New(d.Options)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := a.Run(b.Context(), newStore(b), model.Text(model.User, "x"), nil, func(Event) {}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/words, "ns/delta")
}
