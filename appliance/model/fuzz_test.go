// SPDX-License-Identifier: MIT

package model

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/packages/ssestream"
)

func response(body []byte) *http.Response {
	return &http.Response{Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(bytes.NewReader(body))}
}

func eventsOf(body []byte) ssestream.Decoder {
	return ssestream.NewDecoder(response(body)) //nolint:bodyclose // the decoder closes it
}

func newStream(t testing.TB, mode APIMode) *stream {
	s := &stream{route: Route{APIMode: mode}, emit: func(Delta) {}}
	s.ctx, s.watch = watchOver(t.Context(), 0, 0)
	t.Cleanup(s.watch.stop)
	return s
}

// FuzzEvents: whatever a server sends, there is an answer or an error, and what is kept can
// be sent back.
func FuzzEvents(f *testing.F) {
	for _, seed := range []string{
		"data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"x\",\"arguments\":\"{\"}}]}}]}\n\ndata: [DONE]\n\n",
		"data: {\"choices\":[{\"delta\":{\"reasoning_details\":[{}],\"content\":[{\"text\":\"x\"}]},\"finish_reason\":\"stop\"}],\"usage\":{\"a\":{\"b\":1}}}\n\n",
		"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":3,\"content_block\":{\"type\":\"tool_use\",\"id\":1}}\n\nevent: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"}}\n\n",
		"data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"thinking\"}}\n\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"signature\":\"s\",\"thinking\":\"t\",\"citation\":{}}}\n\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n",
		"data: {\"error\":{\"code\":400}}\n\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, mode := range wires() {
			s := newStream(t, mode)
			var err error
			if mode == ChatCompletions {
				err = s.chatEvents(eventsOf(body))
			} else {
				err = s.anthropicEvents(eventsOf(body))
			}
			a := s.answer()
			if err != nil {
				_ = s.fail(err).Error()
				continue
			}
			unique(a.Message.Calls, nil)
			req := ask("x")
			req.Messages = Repair(append(req.Messages, a.Message, Text(User, "go on")))
			if _, err := chatParams(s.route, req).MarshalJSON(); err != nil {
				t.Errorf("chat: %v", err)
			}
			if _, err := anthropicParams(s.route, req).MarshalJSON(); err != nil {
				t.Errorf("anthropic: %v", err)
			}
		}
	})
}

func FuzzReport(f *testing.F) {
	f.Add(429, []byte(`{"error":{"code":"x","message":"y"}}`))
	f.Add(500, []byte(`[[]]`))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		r := parseReport(status, body)
		if r.kind() == "" {
			t.Error("no kind")
		}
	})
}
