// SPDX-License-Identifier: MIT

package apiserver

import (
	"bytes"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/appliance/agent"
	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
)

// restarted stands between a text that was cut off and one that begins differently.
const restarted = "\n\n[the answer was cut off here and begins again]\n\n"

// flow turns the events of a turn into text that only grows. What a stream has shown cannot be
// taken back: when the model begins a message again, what is the same is not sent twice.
type flow struct {
	sep   string // between messages of one turn; "" = the messages are kept apart
	sent  []byte // of the present message
	fresh []byte // what came since the message was begun again
	again bool
	any   bool   // text of an earlier message was sent
	last  string // the last whole message
}

// next returns the text that an event adds.
func (f *flow) next(e gateway.Event) string {
	switch e.Kind { //nolint:exhaustive // the others carry no text
	case agent.TextDelta:
		return f.delta(e.Text)
	case agent.Discard:
		f.again, f.fresh = len(f.sent) > 0, f.fresh[:0]
	case agent.MessageDone:
		return f.whole(e.Text)
	case agent.Final:
		if len(f.sent) > 0 || strings.TrimSpace(e.Text) != strings.TrimSpace(f.last) {
			return f.whole(e.Text)
		}
	}
	return ""
}

func (f *flow) delta(text string) string {
	if text == "" {
		return ""
	}
	if !f.again {
		lead := f.lead()
		f.sent = append(f.sent, text...)
		return lead + text
	}
	f.fresh = append(f.fresh, text...)
	switch {
	case bytes.HasPrefix(f.sent, f.fresh):
		return ""
	case bytes.HasPrefix(f.fresh, f.sent):
		text = string(f.fresh[len(f.sent):])
	default:
		text = restarted + string(f.fresh)
	}
	f.sent, f.again = append(f.sent[:0], f.fresh...), false
	return text
}

// whole ends a message; what of it was not sent yet is returned.
func (f *flow) whole(text string) (rest string) {
	switch {
	case bytes.HasPrefix([]byte(text), f.sent):
		if rest = text[len(f.sent):]; rest != "" {
			rest = f.lead() + rest
		}
	case f.again && !strings.HasPrefix(string(f.sent), text):
		rest = restarted + text
	}
	f.any = f.any || text != "" || len(f.sent) > 0
	f.last, f.sent, f.fresh, f.again = text, f.sent[:0], f.fresh[:0], false
	return rest
}

// lead is what comes before the first text of a message.
func (f *flow) lead() string {
	if f.any && len(f.sent) == 0 {
		return f.sep
	}
	return ""
}
