// SPDX-License-Identifier: MIT

package terminal

import (
	"bytes"
	"regexp"
	"strings"
	"sync"
)

// rollingMax is how much of a background command's output is remembered.
const rollingMax = 200_000

// rolling keeps the end of an output. It is safe for concurrent use.
type rolling struct {
	mu    sync.Mutex
	b     []byte
	total int64
	line  []byte            // the last line, as far as it has come
	saw   func(line string) // each line once it is whole; nil = nobody looks
}

// Write never fails.
func (r *rolling) Write(p []byte) (int, error) {
	r.mu.Lock()
	r.total += int64(len(p))
	r.b = append(r.b, p...)
	if len(r.b) > 2*rollingMax {
		r.b = r.b[:copy(r.b, r.b[len(r.b)-rollingMax:])]
	}
	var lines []string
	if r.saw != nil {
		r.line = append(r.line, p...)
		for {
			i := bytes.IndexByte(r.line, '\n')
			if i < 0 {
				break
			}
			lines = append(lines, valid(r.line[:i]))
			r.line = r.line[i+1:]
		}
		if len(r.line) > rollingMax { // no line end for that long
			lines, r.line = append(lines, valid(r.line)), nil
		}
	}
	saw := r.saw
	r.mu.Unlock()
	for _, l := range lines {
		saw(strings.TrimSuffix(l, "\r"))
	}
	return len(p), nil
}

// end tells what is left of the last line.
func (r *rolling) end() {
	r.mu.Lock()
	l, saw := r.line, r.saw
	r.line, r.saw = nil, nil
	r.mu.Unlock()
	if saw != nil && len(l) > 0 {
		saw(valid(l))
	}
}

// text is what is remembered, without colours, and whether something is missing in front.
func (r *rolling) text() (s string, cut bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s = tail(string(r.b), rollingMax)
	return plainText(valid([]byte(s))), r.total > int64(len(s))
}

// tail is the last n bytes of a text, from a whole character on.
func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	s = s[len(s)-n:]
	for i := range len(s) {
		if s[i]&0xC0 != 0x80 {
			return s[i:]
		}
	}
	return ""
}

// plainText takes the control sequences of terminals out: a model would copy them into files.
func plainText(s string) string {
	if !strings.ContainsRune(s, '\x1b') {
		return s
	}
	return regexp.MustCompile(`\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[P^_X][^\x1b]*(?:\x1b\\)?|[ -/]+[0-~]|[0-~])`).ReplaceAllString(s, "")
}
