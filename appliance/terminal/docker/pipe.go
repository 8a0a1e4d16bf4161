// SPDX-License-Identifier: MIT

package docker

import "io"

// pipe is the input of a command that is written to as it runs.
type pipe struct {
	r   *io.PipeReader
	w   *io.PipeWriter
	tty bool
}

func newPipe(tty bool) *pipe {
	r, w := io.Pipe()
	return &pipe{r, w, tty}
}

// Write returns when the connection has taken the bytes.
func (p *pipe) Write(b []byte) (int, error) { return p.w.Write(b) }

// Close ends the input; at a terminal it types ^D.
func (p *pipe) Close() error {
	if p.tty {
		_, err := p.w.Write([]byte{4})
		return err
	}
	return p.w.Close()
}

// close makes every later write fail: the command is gone.
func (p *pipe) close() {
	if p != nil {
		p.r.CloseWithError(io.ErrClosedPipe)
	}
}
