// SPDX-License-Identifier: MIT

package migrate

import "bytes"

// origin returns the 1-based line of the person's file that an offset in the edited config
// comes from: earlier steps may have added and removed lines above it. Text that a step
// added has none: 0.
func (w *work) origin(at int) int {
	shift := 0 // how much longer the edited text is so far
	for _, e := range w.doc.Edits(len(w.in.Config)) {
		from := e.From + shift
		if at < from {
			break
		}
		if at < from+len(e.Text) {
			return 0
		}
		shift += len(e.Text) - (e.To - e.From)
	}
	return 1 + breaks(w.in.Config[:at-shift])
}

// originLine is [work.origin] for a line of the edited config.
func (w *work) originLine(line int) int {
	src := w.doc.Bytes()
	at := 0
	for n := 1; n < line && at < len(src); at++ {
		if src[at] == '\n' || src[at] == '\r' && !bytes.HasPrefix(src[at+1:], []byte("\n")) {
			n++
		}
	}
	return w.origin(at)
}
