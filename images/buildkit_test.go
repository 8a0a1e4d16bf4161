// SPDX-License-Identifier: MIT

package images

import (
	"encoding/base64"
	"encoding/json"
	"testing"
)

// message encodes fields of strings as protobuf does.
func message(fields ...any) []byte {
	var out []byte
	for i := 0; i < len(fields); i += 2 {
		n, _ := fields[i].(int)
		var data []byte
		switch v := fields[i+1].(type) {
		case string:
			data = []byte(v)
		case []byte:
			data = v
		case int: // a number
			out = append(out, byte(n<<3), byte(v))
			continue
		}
		out = append(append(out, byte(n<<3|2), byte(len(data))), data...)
	}
	return out
}

func TestTrace(t *testing.T) {
	t.Parallel()
	started := message(1, "d1", 2, "in", 3, "[1/2] FROM debian", 4, 1, 5, message(1, 9))
	waiting := message(1, "d2", 3, "[2/2] RUN true")
	var tr trace
	for _, c := range []struct {
		raw  []byte
		want string
	}{
		{message(1, waiting), ""},
		{message(1, started, 1, waiting), "[1/2] FROM debian\n"},
		{message(1, started), ""}, // said already
		{message(3, message(1, "d1", 3, 1, 4, "output\n")), "output\n"},
		{[]byte{0xff}, ""},
		{[]byte{0x0a, 0x7f, 1}, ""},
		{nil, ""},
	} {
		aux, err := json.Marshal(base64.StdEncoding.EncodeToString(c.raw))
		if err != nil {
			t.Fatal(err)
		}
		if got := tr.lines(aux); got != c.want {
			t.Errorf("%x: got %q, want %q", c.raw, got, c.want)
		}
	}
}

func FuzzFields(f *testing.F) {
	f.Add(message(1, message(1, "d", 5, "x"), 3, message(4, "log")))
	f.Fuzz(func(t *testing.T, msg []byte) {
		total := 0
		for _, x := range wireFields(msg) {
			total += len(x.data)
		}
		if total > len(msg) {
			t.Errorf("%d bytes out of %d", total, len(msg))
		}
	})
}
