// SPDX-License-Identifier: MIT

package images

import (
	"encoding/binary"
	"encoding/json"
	"strings"
)

// traceID marks the messages with which an engine tells of a build by BuildKit. Their payload
// is a StatusResponse of BuildKit's control protocol (moby/buildkit, api/services/control).
const traceID = "moby.buildkit.trace"

// trace turns such payloads into lines for people: each step once, when it begins, and what
// the steps print.
type trace struct{ seen map[string]bool }

// lines returns what one payload has to say. One that cannot be read says nothing: progress is
// no result.
func (t *trace) lines(aux json.RawMessage) string {
	var raw []byte
	if json.Unmarshal(aux, &raw) != nil {
		return ""
	}
	var b strings.Builder
	for _, f := range wireFields(raw) {
		switch f.n {
		case 1: // a step: digest 1, name 3, started 5
			step := map[int]string{}
			for _, g := range wireFields(f.data) {
				step[g.n] = string(g.data)
			}
			if _, started := step[5]; started && !t.seen[step[1]] {
				if t.seen == nil {
					t.seen = map[string]bool{}
				}
				t.seen[step[1]] = true
				b.WriteString(step[3] + "\n")
			}
		case 3: // output: message 4
			for _, g := range wireFields(f.data) {
				if g.n == 4 {
					b.Write(g.data)
				}
			}
		}
	}
	return b.String()
}

// wireField is one length-delimited field of a protobuf message.
type wireField struct {
	n    int
	data []byte
}

// wireFields returns the length-delimited fields of a message up to the first thing that is none
// of protobuf's; numbers are passed over.
func wireFields(msg []byte) []wireField {
	var out []wireField
	for len(msg) > 0 {
		tag, n := binary.Uvarint(msg)
		if n <= 0 {
			return out
		}
		msg = msg[n:]
		switch tag & 7 {
		case 0:
			if _, n = binary.Uvarint(msg); n <= 0 {
				return out
			}
		case 1:
			n = 8
		case 5:
			n = 4
		case 2:
			size, m := binary.Uvarint(msg)
			if m <= 0 || size > uint64(len(msg)-m) {
				return out
			}
			out = append(out, wireField{int(tag >> 3), msg[m : m+int(size)]})
			n = m + int(size)
		default:
			return out
		}
		if n > len(msg) {
			return out
		}
		msg = msg[n:]
	}
	return out
}
