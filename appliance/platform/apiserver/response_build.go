// SPDX-License-Identifier: MIT

package apiserver

import (
	"context"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/appliance/agent"
	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
	"github.com/hermes-appliance/hermes-appliance/appliance/session"
)

// response grows with the events of a turn. With out, every step is an event of the stream;
// the first of them is sent when there is something to show.
type response struct {
	c    *call
	t    *gateway.Turn
	req  responseRequest
	out  *sse // nil = not streamed
	id   string
	made int64 // seconds of the epoch
	seq  int
	open bool // response.created was sent

	flow  flow
	items []any
	item  string // id of the message that is being written; "" = none
	text  strings.Builder

	res  agent.Result
	fail *failure
}

func (c *call) newResponse(t *gateway.Turn, req responseRequest) *response {
	return &response{c: c, t: t, req: req, id: newID("resp_"), made: c.s.o.Now().Unix(), items: []any{}}
}

// event sends one event of the stream.
func (b *response) event(kind string, fields map[string]any) {
	if b.out == nil {
		return
	}
	if !b.open {
		b.open = true
		b.c.echo(b.t)
		first := b.object("in_progress")
		b.event("response.created", map[string]any{"response": first})
		b.event("response.in_progress", map[string]any{"response": first})
	}
	fields["type"], fields["sequence_number"] = kind, b.seq
	b.seq++
	b.out.send(kind, "", fields)
}

// take adds what an event of the turn brings.
func (b *response) take(e gateway.Event) {
	switch text := b.flow.next(e); e.Kind { //nolint:exhaustive // the rest is no part of a response
	case agent.TextDelta:
		b.write(text)
	case agent.MessageDone, agent.Final:
		b.write(text)
		b.close(e.Text)
	case agent.ToolStarted:
		b.close(b.text.String())
		b.call(e)
	case agent.ToolFinished:
		b.add(map[string]any{
			"type": "function_call_output", "id": newID("fco_"), "status": completed, "call_id": e.Call.ID, "output": e.Text,
		})
	}
}

// write adds text to the message that is being written, or begins one.
func (b *response) write(text string) {
	if text == "" {
		return
	}
	if b.item == "" {
		b.item = newID("msg_")
		b.event("response.output_item.added", map[string]any{"output_index": len(b.items), "item": message(b.item, "in_progress", nil)})
		b.event("response.content_part.added", b.at(map[string]any{"part": output("")}))
	}
	b.text.WriteString(text)
	b.event("response.output_text.delta", b.at(map[string]any{"delta": text, "logprobs": []any{}}))
}

// at adds where in the response the present message is.
func (b *response) at(fields map[string]any) map[string]any {
	fields["item_id"], fields["output_index"], fields["content_index"] = b.item, len(b.items), 0
	return fields
}

// close ends the message that is being written; whole is its text.
func (b *response) close(whole string) {
	if b.item == "" {
		return
	}
	b.event("response.output_text.done", b.at(map[string]any{"text": whole, "logprobs": []any{}}))
	b.event("response.content_part.done", b.at(map[string]any{"part": output(whole)}))
	item := message(b.item, completed, []any{output(whole)})
	b.event("response.output_item.done", map[string]any{"output_index": len(b.items), "item": item})
	b.items = append(b.items, item)
	b.item = ""
	b.text.Reset()
}

func output(text string) map[string]any {
	return map[string]any{"type": "output_text", "text": text, "annotations": []any{}, "logprobs": []any{}}
}

func message(id, status string, parts []any) map[string]any {
	if parts == nil {
		parts = []any{}
	}
	return map[string]any{"type": "message", "id": id, "role": "assistant", "status": status, "content": parts}
}

// call adds a call that the gateway runs itself: the client has nothing to do for it.
func (b *response) call(e gateway.Event) {
	id, at := newID("fc_"), len(b.items)
	item := func(status, args string) map[string]any {
		return map[string]any{"type": "function_call", "id": id, "status": status, "call_id": e.Call.ID, "name": e.Call.Name, "arguments": args}
	}
	b.event("response.output_item.added", map[string]any{"output_index": at, "item": item("in_progress", "")})
	b.event("response.function_call_arguments.delta", map[string]any{"item_id": id, "output_index": at, "delta": e.Call.Args})
	b.event("response.function_call_arguments.done", map[string]any{"item_id": id, "output_index": at, "name": e.Call.Name, "arguments": e.Call.Args})
	done := item(completed, e.Call.Args)
	b.event("response.output_item.done", map[string]any{"output_index": at, "item": done})
	b.items = append(b.items, done)
}

// add adds an item that is whole at once.
func (b *response) add(item map[string]any) {
	b.event("response.output_item.added", map[string]any{"output_index": len(b.items), "item": item})
	b.event("response.output_item.done", map[string]any{"output_index": len(b.items), "item": item})
	b.items = append(b.items, item)
}

// end takes the result of the turn, which is over. It returns why there is no answer.
func (b *response) end() *failure {
	var err error
	b.res, err = b.c.result(b.t)
	b.fail = turnFailure(b.res, err, named(b.t.Ask.Route))
	return b.fail
}

// finish ends the stream, keeps the response, and returns it.
func (b *response) finish() map[string]any {
	b.close(b.text.String())
	if b.fail != nil {
		o := b.object(failed)
		o["error"] = map[string]any{"code": errorCode(b.fail), "message": b.fail.message}
		b.event("response.failed", map[string]any{"response": o})
		return o
	}
	o := b.object(completed)
	o["usage"] = usageOfResponse(b.res.Usage)
	if b.req.stored() {
		b.keep(o)
	}
	b.event("response.completed", map[string]any{"response": o})
	return o
}

// errorCode is a code that OpenAI's clients know, or our own.
func errorCode(f *failure) string {
	switch f.code {
	case "rate_limit_exceeded":
		return f.code
	case "interrupted", "context_length_exceeded", "insufficient_quota":
		return f.code
	}
	return "server_error"
}

// object is the response as it is now.
func (b *response) object(status string) map[string]any {
	o := map[string]any{
		"id": b.id, "object": "response", "created_at": b.made, "status": status, "model": b.c.shownModel(b.t.Ask.Route), "output": append([]any{}, b.items...),
		"error": nil, "incomplete_details": nil, "instructions": text(b.req.Instructions), "metadata": b.req.Metadata,
		"parallel_tool_calls": true, "tool_choice": "auto", "tools": []any{}, "temperature": nil, "top_p": nil,
		"previous_response_id": text(b.req.Previous), "store": b.req.stored(), "usage": nil,
	}
	if b.req.Metadata == nil {
		o["metadata"] = map[string]string{}
	}
	if b.req.Conversation != "" {
		o["conversation"] = map[string]any{"id": string(b.req.Conversation)}
	}
	return o
}

// keep remembers the response, so that others can go on from it. One that cannot be kept is
// answered all the same, and says so.
func (b *response) keep(o map[string]any) {
	ctx := context.WithoutCancel(b.c.r.Context())
	store, err := b.c.profile.Sessions(ctx)
	k := session.Response{ID: b.id, Session: b.t.Session(), Instructions: b.req.Instructions, Body: raw(o)}
	if err == nil && k.Session != "" {
		k.Through, err = lastMessage(ctx, store, k.Session)
	}
	if err == nil {
		err = store.KeepResponse(ctx, k)
	}
	if err != nil {
		o["store"] = false
		b.c.s.o.Log.WarnContext(ctx, "a response cannot be kept", "error", err)
	}
}
