// SPDX-License-Identifier: MIT

package process

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"unicode/utf8"
)

// Capture is a writer that keeps what a command prints: the first 40 % and the last 60 % of
// a limit, with a line in between that says what is missing. It may be read while it is
// written, and be both outputs of a command.
type Capture struct {
	mu         sync.Mutex
	limit      int // 0 = keep everything
	head, tail []byte
	total      int64

	open     func() (io.Writer, error)
	spill    io.Writer
	spilled  int64
	spillMax int64
	spillErr error
}

// NewCapture returns a Capture that keeps limit bytes; 0 keeps everything, for callers that
// need every byte.
func NewCapture(limit int) *Capture { return &Capture{limit: max(limit, 0)} }

// SpillTo makes everything that is printed, from the first byte and up to most bytes, also
// go to the writer that open returns. It is opened when the limit is first exceeded, not
// before. It stays the caller's to close.
func (c *Capture) SpillTo(open func() (io.Writer, error), most int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open, c.spillMax = open, most
}

// Write never fails and never stops the command: see SpillErr.
func (c *Capture) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.total
	c.total += int64(len(p))
	if c.limit == 0 {
		c.head = append(c.head, p...)
		return len(p), nil
	}
	if c.total > int64(c.limit) {
		if before <= int64(c.limit) {
			c.openSpill()
		}
		c.toSpill(p)
	}
	rest := p
	if room := c.limit*2/5 - len(c.head); room > 0 {
		n := min(room, len(p))
		c.head = append(c.head, p[:n]...)
		rest = p[n:]
	}
	c.keepTail(rest)
	return len(p), nil
}

// tailMax is the last 60 %.
func (c *Capture) tailMax() int { return c.limit - c.limit*2/5 }

func (c *Capture) keepTail(p []byte) {
	most := c.tailMax()
	if len(p) > most {
		c.tail, p = c.tail[:0], p[len(p)-most:]
	}
	c.tail = append(c.tail, p...)
	if len(c.tail) >= 2*most {
		c.tail = c.tail[:copy(c.tail, c.tail[len(c.tail)-most:])]
	}
}

func (c *Capture) openSpill() {
	if c.open == nil {
		return
	}
	c.spill, c.spillErr = c.open()
	c.toSpill(c.head)
	c.toSpill(c.tail)
}

func (c *Capture) toSpill(p []byte) {
	if c.spill == nil || c.spillErr != nil {
		return
	}
	p = p[:min(int64(len(p)), max(c.spillMax-c.spilled, 0))]
	if len(p) == 0 {
		return
	}
	n, err := c.spill.Write(p)
	c.spilled += int64(n)
	c.spillErr = err
}

// SpillErr is the first error of the spill; after it the spill gets nothing more.
func (c *Capture) SpillErr() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.spillErr
}

// Total is how many bytes were printed.
func (c *Capture) Total() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total
}

// Bytes returns what was kept. Nothing is cut within a rune.
func (c *Capture) Bytes() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.limit == 0 || c.total <= int64(c.limit) {
		return slices.Concat(c.head, c.tail)
	}
	head, tail := c.head, c.tail[max(len(c.tail)-c.tailMax(), 0):]
	for i := 1; i <= min(utf8.UTFMax-1, len(head)); i++ {
		if end := head[len(head)-i:]; utf8.RuneStart(end[0]) {
			if !utf8.FullRune(end) {
				head = head[:len(head)-i]
			}
			break
		}
	}
	for i := 0; i < utf8.UTFMax-1 && len(tail) > 0 && !utf8.RuneStart(tail[0]); i++ {
		tail = tail[1:]
	}
	missing := c.total - int64(len(head)+len(tail))
	note := fmt.Appendf(nil, "\n\n... [OUTPUT TRUNCATED - %d bytes omitted out of %d total] ...\n\n", missing, c.total)
	return slices.Concat(head, note, tail)
}

// String is Bytes as a string.
func (c *Capture) String() string { return string(c.Bytes()) }
