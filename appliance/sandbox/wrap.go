// SPDX-License-Identifier: MIT

package sandbox

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// The shell around a command. It leads the session that the engine makes for an exec. Its
// record goes to stderr, or to a terminal, in front of everything else:
//
//	NONCE:b:PID:TICKS;   it has begun; the numbers are its process id and its start time
//	NONCE:d;             the directory is not there; nothing else follows
//	NONCE:e:CODE;        the command has ended
//
// With a terminal it becomes the command, so that no other process answers the keyboard. A
// signal to the session must not end the shell before the command: its traps do nothing,
// and a command does not inherit such a trap.
const (
	wrapHead = `n=$1 d=$2; shift 2
s=; IFS= read -r s </proc/$$/stat
f() { printf '%s:b:%s:%s;' "$n" "$$" "${20}"; }
f ${s##*) } >&2
case $d in -) d=./-;; esac
cd -- "$d" 2>/dev/null || { printf '%s:d;' "$n" >&2; exit 126; }
`
	wrapTTY  = `exec "$@"`
	wrapPipe = `trap : HUP INT QUIT TERM
"$@"
c=$?
printf '%s:e:%s;' "$n" "$c" >&2
exit "$c"`
	wrapMerged = `trap : HUP INT QUIT TERM
"$@" 2>&1
c=$?
printf '%s:e:%s;' "$n" "$c" >&2
exit "$c"`
)

// wrap returns the arguments of the shell around a command.
func wrap(x Exec, nonce string) []string {
	script := wrapHead + wrapPipe
	switch {
	case x.TTY:
		script = wrapHead + wrapTTY
	case x.Merge:
		script = wrapHead + wrapMerged
	}
	return append([]string{"/bin/sh", "-c", script, "sh", nonce, x.Dir}, x.Argv...)
}

// sorter takes the engine's stream apart: the frames of stdout and stderr, and the records of
// the shell among them.
type sorter struct {
	nonce      string
	out, err   io.Writer
	tty, merge bool
	began      func(pid int, born string)
	ended      func()

	begun, exited bool
	code          int
	output        error // the first failure of a writer
	noDir         bool

	first bytes.Buffer // what came before the shell began: the engine's words
	hold  []byte       // the tail of stderr that may be the beginning of a record
}

// most is how much of the engine's words is kept.
const mostWords = 4096

// early returns the engine's words.
func (s *sorter) early() string { return strings.TrimSpace(s.first.String()) }

// copy reads the stream to its end. The error is the reader's, nil at its end.
func (s *sorter) copy(r io.Reader) error {
	defer s.flush()
	buf := make([]byte, 32<<10)
	if s.tty {
		for {
			n, err := r.Read(buf)
			s.records(buf[:n], s.out)
			if err != nil {
				return end(err)
			}
		}
	}
	var head [8]byte
	for {
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return end(err)
		}
		if head[0] > 2 {
			return fmt.Errorf("the engine sent a frame of kind %d", head[0])
		}
		for left := int64(binary.BigEndian.Uint32(head[4:])); left > 0; {
			n, err := r.Read(buf[:min(left, int64(len(buf)))])
			left -= int64(n)
			if head[0] == 2 {
				s.records(buf[:n], s.err)
			} else {
				s.plain(buf[:n], s.out)
			}
			if err != nil && left > 0 {
				return end(err)
			}
		}
	}
}

func end(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// plain delivers output in which no records are. Before the shell began it is the engine's:
// stdout and stderr are two pipes, but the command begins only after the record is written,
// so what of the command overtakes it is kept and delivered when it arrives.
func (s *sorter) plain(b []byte, w io.Writer) {
	if !s.begun {
		s.first.Write(b)
		return
	}
	s.write(w, b)
}

func (s *sorter) write(w io.Writer, b []byte) {
	if len(b) == 0 || s.output != nil {
		return
	}
	_, s.output = w.Write(b)
}

// records delivers output and takes the records out. What could be the beginning of one is
// held until more has come.
func (s *sorter) records(b []byte, w io.Writer) {
	b = append(s.hold, b...)
	s.hold = nil
	for {
		i := bytes.Index(b, []byte(s.nonce+":"))
		if i < 0 {
			break
		}
		stop := bytes.IndexByte(b[i:], ';')
		if stop < 0 {
			s.pass(b[:i], w)
			s.hold = append([]byte(nil), b[i:]...)
			return
		}
		s.pass(b[:i], w)
		s.record(string(b[i+len(s.nonce)+1 : i+stop]))
		b = b[i+stop+1:]
		if s.tty && s.begun {
			break // the shell is gone; what follows is the command's alone
		}
	}
	if s.exited || s.tty && s.begun {
		s.pass(b, w)
		return
	}
	keep := partial(b, s.nonce+":")
	s.pass(b[:len(b)-keep], w)
	s.hold = append([]byte(nil), b[len(b)-keep:]...)
}

func (s *sorter) pass(b []byte, w io.Writer) {
	if !s.begun {
		s.first.Write(b)
		return
	}
	s.write(w, b)
}

// partial returns how many bytes at the end of b are a beginning of the text.
func partial(b []byte, text string) int {
	for n := min(len(b), len(text)-1); n > 0; n-- {
		if string(b[len(b)-n:]) == text[:n] {
			return n
		}
	}
	return 0
}

// record takes one record in.
func (s *sorter) record(r string) {
	parts := strings.Split(r, ":")
	switch {
	case parts[0] == "b" && len(parts) == 3 && !s.begun:
		pid, _ := strconv.Atoi(parts[1]) //nolint:errcheck // the shell's own number
		s.begun = true
		s.began(pid, parts[2])
		early := s.first.Bytes()
		s.write(s.out, early) // the command's output that came faster than the record
		s.first = bytes.Buffer{}
	case parts[0] == "d" && s.begun:
		s.noDir = true
		s.exit(126)
	case parts[0] == "e" && len(parts) == 2 && s.begun && !s.exited:
		code, _ := strconv.Atoi(parts[1]) //nolint:errcheck // the shell's own number
		s.exit(code)
	}
}

func (s *sorter) exit(code int) {
	s.exited, s.code = true, code
	s.ended()
}

// flush delivers what was held in vain.
func (s *sorter) flush() {
	s.pass(s.hold, s.err)
	s.hold = nil
}
