// SPDX-License-Identifier: MIT

package model

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit/modelserver"
)

const chunks = 1000

func chatBody() []byte {
	var b strings.Builder
	for range chunks {
		b.WriteString(`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":" word"},"finish_reason":null}]}` + "\n\n")
	}
	return []byte(b.String() + `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n")
}

// perChunk reports the time for one event of a stream.
func perChunk(b *testing.B) {
	b.Helper()
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/chunks, "ns/chunk")
}

func BenchmarkChatChunks(b *testing.B) {
	body := chatBody()
	b.ReportAllocs()
	for b.Loop() {
		if err := newStream(b, ChatCompletions).chatEvents(eventsOf(body)); err != nil {
			b.Fatal(err)
		}
	}
	perChunk(b)
}

func BenchmarkAnthropicChunks(b *testing.B) {
	var w strings.Builder
	w.WriteString("event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"m\"}}\n\nevent: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n")
	for range chunks {
		w.WriteString("event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\" word\"}}\n\n")
	}
	w.WriteString("event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":9}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n")
	body := []byte(w.String())
	b.ReportAllocs()
	for b.Loop() {
		if err := newStream(b, AnthropicMessages).anthropicEvents(eventsOf(body)); err != nil {
			b.Fatal(err)
		}
	}
	perChunk(b)
}

// long is a session of 200 steps with tool results of 2 KB.
func long() Request {
	req := ask("x")
	for i := range 200 {
		c := Call{ID: fmt.Sprint("c", i), Name: "terminal", Args: `{"command":"ls -la /some/where"}`}
		req.Messages = append(req.Messages, Message{Role: Assistant, Parts: []Part{{Text: "I look."}}, Calls: []Call{c}, Origin: &Origin{APIMode: ChatCompletions, Fields: map[string]json.RawMessage{"reasoning_content": quote("some thought")}}}, Result(c, strings.Repeat("0123456789abcde\n", 128), false))
	}
	return req
}

// BenchmarkEncode is the request of a long session: 400 messages, 0.5 MB.
func BenchmarkEncode(b *testing.B) {
	req := long()
	b.Run("chat", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			req.Messages = Repair(req.Messages)
			if _, err := chatParams(Route{Model: "m", APIMode: ChatCompletions}, req).MarshalJSON(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("anthropic", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			req.Messages = Repair(req.Messages)
			if _, err := anthropicParams(Route{Model: "m"}, req).MarshalJSON(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkCall is a whole call over HTTP to a server that answers at once.
func BenchmarkCall(b *testing.B) {
	for _, mode := range wires() {
		b.Run(string(mode), func(b *testing.B) {
			s := modelserver.NewFunc(b, func(modelserver.Request) modelserver.Reply { return modelserver.Reply{Text: "ok"} })
			c, r, req := newClient(b), routeTo(s, mode), ask("x")
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Stream(b.Context(), r, req, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
