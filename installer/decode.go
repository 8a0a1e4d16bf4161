// SPDX-License-Identifier: MIT

package installer

import (
	"bytes"
	"encoding/binary"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// decoder turns text of a code page into ours; ok is false if it is none of that page's.
type decoder func(page uint32, text []byte) (decoded string, ok bool)

// decoded is what a program of Windows printed: UTF-16 with its mark, UTF-8, or text of one of
// the code pages, the likeliest first. What is none of these is shown as well as it can be.
func decoded(text []byte, pages []uint32, conv decoder) string {
	if bytes.HasPrefix(text, []byte{0xff, 0xfe}) {
		return utf16Text(text)
	}
	if utf8.Valid(text) {
		return string(text)
	}
	for _, page := range pages {
		if s, ok := conv(page, text); ok {
			return s
		}
	}
	return strings.ToValidUTF8(string(text), "\ufffd")
}

// utf16Text reads little-endian UTF-16, with its mark or without.
func utf16Text(data []byte) string {
	var units []uint16
	for i := 0; i+1 < len(data); i += 2 {
		units = append(units, binary.LittleEndian.Uint16(data[i:]))
	}
	return strings.TrimPrefix(string(utf16.Decode(units)), "\ufeff")
}
