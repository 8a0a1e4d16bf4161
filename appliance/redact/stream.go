// SPDX-License-Identifier: MIT

package redact

import (
	"io"
	"strings"
)

// maxHeld is how much of one line a [Writer] holds back. A longer line goes out in parts,
// cut at white space where there is some.
const maxHeld = 16 << 10

// Writer redacts a stream. It passes whole lines on, so that a credential split over two
// writes is seen; a line that is not ended yet waits for Flush, Close or its length. It is
// not safe for concurrent use.
type Writer struct {
	r   *Redactor
	out io.Writer
	buf string
}

// Writer returns a writer that redacts what goes to out.
func (r *Redactor) Writer(out io.Writer) *Writer { return &Writer{r: r, out: out} }

// Write takes p over. The error is that of the underlying writer for what was due.
func (w *Writer) Write(p []byte) (int, error) {
	w.buf += string(p)
	return len(p), w.emit(w.due())
}

// due is how much of the buffer can go out.
func (w *Writer) due() int {
	n := strings.LastIndexByte(w.buf, '\n') + 1
	if begin := strings.LastIndex(w.buf[:n], "-----BEGIN"); begin >= 0 && !strings.Contains(w.buf[begin:n], "-----END") {
		n = strings.LastIndexByte(w.buf[:begin], '\n') + 1 // a key's lines stay together
	}
	if w.r != nil {
		for _, v := range w.r.longest {
			n = min(n, n-overlap(w.buf[:n], v))
		}
	}
	if len(w.buf)-n > maxHeld {
		n = len(w.buf)
		if i := strings.LastIndexAny(w.buf[:n], " \t\n"); i > n-maxHeld/2 {
			n = i + 1
		}
	}
	return n
}

// overlap is the length of the longest end of s that v starts with, v itself left out.
func overlap(s, v string) int {
	for n := min(len(v)-1, len(s)); n > 0; n-- {
		if strings.HasSuffix(s, v[:n]) {
			return n
		}
	}
	return 0
}

func (w *Writer) emit(n int) error {
	if n == 0 {
		return nil
	}
	text := w.r.String(w.buf[:n])
	w.buf = w.buf[n:]
	_, err := io.WriteString(w.out, text)
	return err
}

// Flush passes on what is held back, as when a prompt waits for an answer. A credential of
// which only a part has come is not recognised then.
func (w *Writer) Flush() error { return w.emit(len(w.buf)) }

// Close flushes; it does not close the underlying writer.
func (w *Writer) Close() error { return w.Flush() }
