// SPDX-License-Identifier: MIT

package secret

import (
	"bytes"
	"encoding/binary"
	"errors"
	"unicode/utf16"
	"unicode/utf8"
)

// errUTF32 says that a file cannot be read as lines.
var errUTF32 = errors.New("UTF-32; save it as UTF-8")

// decode returns the text of a .env file as UTF-8 (S5): UTF-16 with a byte order mark is
// converted, NUL bytes are padding and dropped, and what is not UTF-8 is taken as latin-1.
//
// Upstream writes such a file back as UTF-8 when it loads it. This package decodes for
// reading only: the bytes are the person's, the home may be read-only or under a manager, and
// a reader that writes would race the editor it read from. The migrator converts files.
func decode(src []byte) ([]byte, error) {
	switch {
	case bytes.HasPrefix(src, []byte{0xff, 0xfe, 0, 0}), bytes.HasPrefix(src, []byte{0, 0, 0xfe, 0xff}):
		return nil, errUTF32
	case bytes.HasPrefix(src, []byte{0xff, 0xfe}):
		src = fromUTF16(src[2:], binary.LittleEndian)
	case bytes.HasPrefix(src, []byte{0xfe, 0xff}):
		src = fromUTF16(src[2:], binary.BigEndian)
	}
	src = bytes.TrimPrefix(src, []byte("\xef\xbb\xbf"))
	if bytes.IndexByte(src, 0) >= 0 {
		src = bytes.ReplaceAll(src, []byte{0}, nil)
	}
	if utf8.Valid(src) {
		return src, nil
	}
	out := make([]byte, 0, len(src)+len(src)/8)
	for _, b := range src {
		out = utf8.AppendRune(out, rune(b))
	}
	return out, nil
}

// fromUTF16 converts; half a character at the end, of a file that is being written, is dropped.
func fromUTF16(src []byte, order binary.ByteOrder) []byte {
	units := make([]uint16, len(src)/2)
	for i := range units {
		units[i] = order.Uint16(src[2*i:])
	}
	return []byte(string(utf16.Decode(units)))
}
