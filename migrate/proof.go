// SPDX-License-Identifier: MIT

package migrate

import (
	"bytes"
	"fmt"

	"github.com/hermes-appliance/hermes-appliance/migrate/yamlspan"
)

// prove checks the edited config against the original before anything is written: the
// library reads from it exactly what the plan says, and the bytes differ only on lines of
// planned keys. A failure is a defect of this program, reported with its place; the home
// stays as it is.
func (w *work) prove() error {
	after, err := yamlspan.ReadTree(w.doc.Bytes())
	if err == nil {
		err = w.doc.Agrees(after)
	}
	if err != nil {
		return w.unproven(0, nil, "the edited file would not be read back: "+err.Error())
	}
	if ok, where := w.model.Equal(after); !ok {
		return w.unproven(0, where, "the edited file would not mean what the plan says")
	}
	return w.proveBytes()
}

// proveBytes checks that the edits, put into the original, give the new file, and that each
// of them stays on lines of a planned key, counted by the library.
func (w *work) proveBytes() error {
	lines := w.before.Lines()
	var out []byte
	at := 0
	for _, e := range w.doc.Edits(len(w.in.Config)) {
		out = append(append(out, w.in.Config[at:e.From]...), e.Text...)
		at = e.To
		if line := w.strayLine(lines, e.From, e.To); line > 0 {
			return w.unproven(line, nil, "an edit would leave the lines of the planned keys")
		}
	}
	if out = append(out, w.in.Config[at:]...); !bytes.Equal(out, w.doc.Bytes()) {
		return w.unproven(0, nil, "the edits do not add up to the edited file")
	}
	return nil
}

// strayLine returns the first line on which the range from:to of the original holds text
// that belongs to no planned key; 0 = none. White space and commas are between keys.
func (w *work) strayLine(lines yamlspan.LineIndex, from, to int) int {
	line := 1 + breaks(w.in.Config[:from])
	for part := range bytes.SplitAfterSeq(w.in.Config[from:to], []byte("\n")) {
		if len(bytes.Trim(part, " \t,\r\n")) > 0 && !w.owned(lines, line) {
			return line
		}
		line += breaks(part)
	}
	return 0
}

// breaks counts line breaks of every kind.
func breaks(b []byte) int {
	return bytes.Count(b, []byte("\n")) + bytes.Count(b, []byte("\r")) - bytes.Count(b, []byte("\r\n"))
}

// owned reports whether a line belongs to a planned key.
func (w *work) owned(lines yamlspan.LineIndex, line int) bool {
	for _, path := range w.touched {
		if first, last := lines.Of(path); line >= first && line <= last {
			return true
		}
	}
	return false
}

func (w *work) unproven(line int, path []string, msg string) error {
	return &Refusal{
		Kind: ErrAmbiguous, File: w.in.Name, Line: line, Path: path,
		Msg: fmt.Sprintf("proof failed: %s", msg), Fix: "nothing was changed; please report this file's shape",
	}
}
