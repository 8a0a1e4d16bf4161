// SPDX-License-Identifier: MIT

package process

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCapture(t *testing.T) {
	t.Parallel()
	note := func(omitted, total int) string {
		return fmt.Sprintf("\n\n... [OUTPUT TRUNCATED - %d bytes omitted out of %d total] ...\n\n", omitted, total)
	}
	for _, tc := range []struct {
		limit int
		in    string
		want  string
	}{
		{10, "", ""},
		{10, "0123456789", "0123456789"},
		{10, "0123456789a", "0123" + note(1, 11) + "56789a"},
		{10, strings.Repeat("x", 100) + "abcdef", "xxxx" + note(96, 106) + "abcdef"},
		{1, "ab", note(1, 2) + "b"},
		{0, strings.Repeat("ab", 5000), strings.Repeat("ab", 5000)},
		{10, "012é456789abcdef", "012" + note(8, 17) + "abcdef"},        // é ends behind the head
		{10, "0123456789aéabcde", "0123" + note(9, 18) + "abcde"},       // é begins before the tail
		{10, "012\xff456789abcdef", "012\xff" + note(6, 16) + "abcdef"}, // not UTF-8: as it is
		{10, "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80", "\x80\x80\x80\x80" + note(4, 11) + "\x80\x80\x80"},
	} {
		for _, chunk := range []int{1, 3, 1000} {
			c := NewCapture(tc.limit)
			for in := []byte(tc.in); len(in) > 0; {
				n, err := c.Write(in[:min(chunk, len(in))])
				if err != nil || n != min(chunk, len(in)) {
					t.Fatalf("Write: %d, %v", n, err)
				}
				in = in[n:]
			}
			if got := c.String(); got != tc.want || c.Total() != int64(len(tc.in)) {
				t.Errorf("%q in chunks of %d, limit %d: got %q (%d), want %q", tc.in, chunk, tc.limit, got, c.Total(), tc.want)
			}
		}
	}
}

func TestCaptureSpill(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		size, max, want int
	}{
		{10, 1000, -1}, // fits: never opened
		{11, 1000, 11},
		{500, 1000, 500},
		{500, 300, 300},
		{500, 3, 3},
	} {
		in := bytes.Repeat([]byte("0123456789abcdef"), tc.size)[:tc.size]
		for _, chunk := range []int{1, 7, 1000} {
			var spill bytes.Buffer
			opened := 0
			c := NewCapture(10)
			c.SpillTo(func() (io.Writer, error) { opened++; return &spill, nil }, int64(tc.max))
			for rest := in; len(rest) > 0; rest = rest[min(chunk, len(rest)):] {
				c.Write(rest[:min(chunk, len(rest))])
			}
			if tc.want < 0 && opened == 0 {
				continue
			}
			if tc.want < 0 || opened != 1 || !bytes.Equal(spill.Bytes(), in[:tc.want]) || c.SpillErr() != nil {
				t.Errorf("%+v, chunk %d: opened %d times, got %d bytes, %v", tc, chunk, opened, spill.Len(), c.SpillErr())
			}
		}
	}
}

func TestCaptureSpillFails(t *testing.T) {
	t.Parallel()
	full := errors.New("disk full")
	c := NewCapture(10)
	c.SpillTo(func() (io.Writer, error) { return nil, full }, 100)
	for range 5 {
		if n, err := c.Write([]byte("0123456")); n != 7 || err != nil {
			t.Fatalf("got %d, %v", n, err)
		}
	}
	if !errors.Is(c.SpillErr(), full) {
		t.Errorf("got %v, want %v", c.SpillErr(), full)
	}
	if !strings.HasSuffix(c.String(), "123456") {
		t.Errorf("got %q", c)
	}
}

func FuzzCapture(f *testing.F) {
	f.Add("abcdefghijklmnop", 5, 3)
	f.Add("ééééééé", 5, 1)
	f.Fuzz(func(t *testing.T, in string, limit, chunk int) {
		limit, chunk = limit&0xff+1, chunk&0x3f+1
		c := NewCapture(limit)
		for rest := []byte(in); len(rest) > 0; rest = rest[min(chunk, len(rest)):] {
			c.Write(rest[:min(chunk, len(rest))])
		}
		got := c.String()
		if len(in) <= limit {
			if got != in {
				t.Fatalf("got %q, want %q", got, in)
			}
			return
		}
		if utf8.ValidString(in) && !utf8.ValidString(got) {
			t.Fatalf("cut within a rune: %q", got)
		}
		if kept := len(got) - len("\n\n... [OUTPUT TRUNCATED - ") - len("\n\n"); kept > limit+60 {
			t.Fatalf("kept %d of %d", kept, limit)
		}
	})
}
