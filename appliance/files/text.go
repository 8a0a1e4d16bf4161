// SPDX-License-Identifier: MIT

package files

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// form is how a text stands in its file: what an edit has to keep.
type form struct {
	bom   bool
	order binary.ByteOrder // UTF-16; nil = bytes
	crlf  bool             // every line ends in CR LF; the text has LF
}

var errEncoding = errors.New("not valid UTF-16, so it cannot be edited without changing other bytes")

// decode returns the text of a file with LF line ends where all are CR LF, and its form. Bytes
// that are no UTF-8 stay as they are. form.encode undoes it exactly.
func decode(data []byte) (string, form, error) {
	var f form
	text := string(data)
	if order, bom := utf16Order(data); order != nil {
		f.order, f.bom = order, bom
		body := data
		if bom {
			body = data[2:]
		}
		if len(body)%2 != 0 {
			return "", f, errEncoding
		}
		units := make([]uint16, len(body)/2)
		for i := range units {
			units[i] = order.Uint16(body[2*i:])
		}
		text = string(utf16.Decode(units))
		if !bytes.Equal(f.encode(text), data) {
			return "", f, errEncoding
		}
	} else if rest, ok := strings.CutPrefix(text, "\ufeff"); ok {
		f.bom, text = true, rest
	}
	if n := strings.Count(text, "\n"); n > 0 && strings.Count(text, "\r\n") == n && strings.Count(text, "\r") == n {
		f.crlf, text = true, strings.ReplaceAll(text, "\r\n", "\n")
	}
	return text, f, nil
}

// encode returns the bytes of a text in this form.
func (f form) encode(text string) []byte {
	if f.crlf {
		text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\n", "\r\n")
	}
	if f.bom {
		text = "\ufeff" + text
	}
	if f.order == nil {
		return []byte(text)
	}
	units := utf16.Encode([]rune(text))
	out := make([]byte, 2*len(units))
	for i, u := range units {
		f.order.PutUint16(out[2*i:], u)
	}
	return out
}

// String names the form for people; "" is plain UTF-8 with LF.
func (f form) String() string {
	var parts []string
	switch f.order {
	case binary.LittleEndian:
		parts = append(parts, "UTF-16 LE")
	case binary.BigEndian:
		parts = append(parts, "UTF-16 BE")
	}
	if f.bom {
		parts = append(parts, "byte order mark")
	}
	if f.crlf {
		parts = append(parts, "CR LF line ends")
	}
	return strings.Join(parts, ", ")
}

// utf16Order tells UTF-16 from other bytes: by its mark, or by zero bytes that all stand at
// odd or all at even places, as in Latin text.
func utf16Order(data []byte) (order binary.ByteOrder, bom bool) {
	switch {
	case bytes.HasPrefix(data, []byte{0xff, 0xfe, 0, 0}):
		return nil, false // UTF-32
	case bytes.HasPrefix(data, []byte{0xff, 0xfe}):
		return binary.LittleEndian, true
	case bytes.HasPrefix(data, []byte{0xfe, 0xff}):
		return binary.BigEndian, true
	}
	sample := data[:min(len(data), 512)]
	var zeros [2]int
	for i, c := range sample {
		if c == 0 {
			zeros[i%2]++
		}
	}
	switch enough := max(2, len(sample)/4); {
	case zeros[0] == 0 && zeros[1] >= enough:
		return binary.LittleEndian, false
	case zeros[1] == 0 && zeros[0] >= enough:
		return binary.BigEndian, false
	}
	return nil, false
}

// isBinary reports whether the start of a file is no text: zero bytes, or control characters
// as no text has them. Text in an old 8-bit encoding is text.
func isBinary(sample []byte) bool {
	if order, _ := utf16Order(sample); order != nil {
		return false
	}
	if bytes.IndexByte(sample, 0) >= 0 {
		return true
	}
	odd := 0
	for _, c := range sample {
		if c < 0x20 && c != '\n' && c != '\r' && c != '\t' && c != '\f' && c != 0x1b && c != '\b' {
			odd++
		}
	}
	return odd*10 > len(sample)
}

// validUTF8 reports whether a sample is UTF-8, but for a character cut at its end.
func validUTF8(sample []byte) bool {
	for len(sample) > 0 {
		r, n := utf8.DecodeRune(sample)
		if r == utf8.RuneError && n == 1 {
			return len(sample) < utf8.UTFMax && !utf8.FullRune(sample)
		}
		sample = sample[n:]
	}
	return true
}

// magic are the first bytes of well-known kinds of files.
func magic() []struct{ prefix, name string } {
	return []struct{ prefix, name string }{
		{"\x89PNG\r\n\x1a\n", "PNG image"},
		{"\xff\xd8\xff", "JPEG image"},
		{"GIF87a", "GIF image"},
		{"GIF89a", "GIF image"},
		{"RIFF", "RIFF container (WebP, WAV or AVI)"},
		{"BM", "BMP image"},
		{"II*\x00", "TIFF image"},
		{"MM\x00*", "TIFF image"},
		{"%PDF-", "PDF document"},
		{"PK\x03\x04", "ZIP archive (also docx, xlsx, jar)"},
		{"\x1f\x8b", "gzip data"},
		{"BZh", "bzip2 data"},
		{"\xfd7zXZ\x00", "xz data"},
		{"\x28\xb5\x2f\xfd", "zstd data"},
		{"7z\xbc\xaf\x27\x1c", "7-Zip archive"},
		{"\x7fELF", "ELF executable"},
		{"MZ", "Windows executable"},
		{"\xcf\xfa\xed\xfe", "Mach-O executable"},
		{"\xca\xfe\xba\xbe", "Mach-O or Java class"},
		{"\x00asm", "WebAssembly module"},
		{"SQLite format 3\x00", "SQLite database"},
		{"OggS", "Ogg container"},
		{"fLaC", "FLAC audio"},
		{"ID3", "MP3 audio"},
	}
}

// describe names what a binary file is.
func describe(sample []byte, size int64) string {
	kind := "unknown kind"
	if len(sample) > 8 && string(sample[4:8]) == "ftyp" {
		kind = "MP4 or MOV container"
	}
	for _, m := range magic() {
		if bytes.HasPrefix(sample, []byte(m.prefix)) {
			kind = m.name
			break
		}
	}
	return fmt.Sprintf("%s, %s", kind, bytesText(size))
}

func bytesText(n int64) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d bytes", n)
}

// isImage goes by name: what a vision tool takes.
func isImage(path string) bool {
	for _, ext := range []string{".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".ico"} {
		if len(path) > len(ext) && strings.EqualFold(path[len(path)-len(ext):], ext) {
			return true
		}
	}
	return false
}
