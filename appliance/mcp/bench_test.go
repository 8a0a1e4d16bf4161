// SPDX-License-Identifier: MIT

//go:build linux

package mcp

import (
	"encoding/json"
	"testing"
)

func BenchmarkCall(b *testing.B) {
	for _, bc := range []struct {
		name   string
		server func() Server
	}{
		{"stdio", func() Server { return fake("f") }},
		{"http", func() Server { return httpServer("f", serveHTTP(b, nil)) }},
	} {
		b.Run(bc.name, func(b *testing.B) {
			w := newWorld(b)
			w.apply("a", bc.server())
			w.tools("a")
			args := json.RawMessage(`{"text":"x"}`)
			ctx := soon(b)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := w.host.Call(ctx, "a", echo, args); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkConnect starts or reaches a server, lists its tools and ends it again.
func BenchmarkConnect(b *testing.B) {
	for _, bc := range []struct {
		name   string
		server func(b *testing.B) Server
	}{
		{"stdio", func(*testing.B) Server { return fake("f") }},
		{"http", func(b *testing.B) Server { b.Helper(); return httpServer("f", serveHTTP(b, nil)) }},
		{"node", func(b *testing.B) Server { b.Helper(); return everything(b) }},
	} {
		b.Run(bc.name, func(b *testing.B) {
			w := newWorld(b)
			s := bc.server(b)
			for b.Loop() {
				w.apply("a", s)
				if len(w.tools("a")) == 0 {
					b.Fatalf("no tools: %+v", w.status("a", s.Name))
				}
				b.StopTimer()
				w.apply("a")
				b.StartTimer()
			}
		})
	}
}

// BenchmarkTools is what a turn pays to know its tools.
func BenchmarkTools(b *testing.B) {
	w := newWorld(b)
	w.apply("a", fake("f"), fake("g"), fake("h"))
	w.tools("a")
	ctx := soon(b)
	b.ReportAllocs()
	for b.Loop() {
		if len(w.host.Tools(ctx, "a")) != 27 {
			b.Fatal("tools are missing")
		}
	}
}
