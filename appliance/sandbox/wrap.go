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

// The shell around a command. It leads the session that the engine makes for an exec. It
// writes records among the output:
//
//	NONCE:b:PID:TICKS;   on stderr, or the terminal, in front of everything else: it has
//	                     begun; the numbers are its process id and its start time
//	NONCE:d;             on stderr: the directory is not there; nothing else follows
//	NONCE:e:CODE;        on stdout and on stderr: the command has ended, and all that it
//	                     wrote to this stream has come before
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
	// Engines before Docker 23 do not set the size that a terminal begins with.
	wrapTTY = `h=$1 w=$2; shift 2
[ "$h" = 0 ] || stty rows "$h" cols "$w" 2>/dev/null
exec "$@"`
	wrapPipe   = wrapApart + `(exec "$@" 2>&3 3>&-)` + wrapEnd
	wrapMerged = wrapApart + `(exec "$@" 2>&1 3>&-)` + wrapEnd
	// A script of ours runs in the shell itself: it needs no process of its own.
	wrapInline = "exec 3>&2; k=$1; shift; eval \"$k\"" + wrapEnd

	// What the shell has to say of a command that a signal ended is not the command's.
	wrapApart = "exec 3>&2 2>/dev/null; trap : HUP INT QUIT TERM\n"
	wrapEnd   = `
c=$?
printf '%s:e:%s;' "$n" "$c"
printf '%s:e:%s;' "$n" "$c" >&3
exit "$c"`
)

// wrap returns the arguments of the shell around a command.
func wrap(x Exec, nonce string) []string {
	out := []string{"/bin/sh", "-c", wrapHead + wrapPipe, "sh", nonce, x.Dir}
	switch {
	case x.TTY:
		out[2] = wrapHead + wrapTTY
		out = append(out, strconv.FormatUint(uint64(x.Height), 10), strconv.FormatUint(uint64(x.Width), 10))
	case x.inline:
		out[2] = wrapHead + wrapInline
	case x.Merge:
		out[2] = wrapHead + wrapMerged
	}
	return append(out, x.Argv...)
}

// lane is one of the streams of a command.
type lane struct {
	w     io.Writer
	first []byte // what came before the shell began: the engine's words, or the command's own
	hold  []byte // the tail that may be the beginning of a record
	ended bool   // nothing of the command is to come
}

// sorter takes the engine's stream apart: the frames of stdout and stderr, and the records of
// the shell among them.
type sorter struct {
	nonce    string
	out, err lane
	tty      bool
	began    func(pid int, born string)
	ended    func() // the command has ended; others may still write

	begun, exited, noDir bool
	code                 int
	output               error // the first failure of a writer
}

// early returns the engine's words about a command that never began.
func (s *sorter) early() string { return strings.TrimSpace(string(s.out.first) + string(s.err.first)) }

// copy reads the stream to its end. The error is the reader's, nil at its end.
func (s *sorter) copy(r io.Reader) error {
	defer s.flush()
	buf := make([]byte, 32<<10)
	if s.tty {
		for {
			n, err := r.Read(buf)
			s.take(&s.out, buf[:n])
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
		l := &s.out
		switch head[0] {
		case 0, 1:
		case 2:
			l = &s.err
		default:
			return fmt.Errorf("the engine sent a frame of kind %d", head[0])
		}
		for left := int64(binary.BigEndian.Uint32(head[4:])); left > 0; {
			n, err := r.Read(buf[:min(left, int64(len(buf)))])
			left -= int64(n)
			s.take(l, buf[:n])
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

// take delivers output and takes the records out. What could be the beginning of one is held
// until more has come.
func (s *sorter) take(l *lane, b []byte) {
	for !l.ended && (!s.tty || !s.begun) {
		if len(l.hold) > 0 {
			b = append(l.hold, b...)
			l.hold = nil
		}
		i := bytes.Index(b, []byte(s.nonce+":"))
		if i < 0 {
			i = len(b) - partial(b, s.nonce+":")
			l.hold = bytes.Clone(b[i:])
			s.pass(l, b[:i])
			return
		}
		s.pass(l, b[:i])
		stop := bytes.IndexByte(b[i:], ';')
		if stop < 0 {
			l.hold = bytes.Clone(b[i:])
			return
		}
		s.record(l, string(b[i+len(s.nonce)+1:i+stop]))
		b = b[i+stop+1:]
	}
	s.pass(l, b)
}

// pass delivers output. Two streams do not keep each other's order, so what comes on stdout
// before the shell has begun may be the command's; it is kept until that is known.
func (s *sorter) pass(l *lane, b []byte) {
	if !s.begun {
		l.first = append(l.first, b...)
		return
	}
	if len(b) > 0 && s.output == nil {
		_, s.output = l.w.Write(b)
	}
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
func (s *sorter) record(l *lane, r string) {
	parts := strings.Split(r, ":")
	switch {
	case parts[0] == "b" && len(parts) == 3 && !s.begun:
		pid, _ := strconv.Atoi(parts[1]) //nolint:errcheck // the shell's own number
		s.begun = true
		s.began(pid, parts[2])
		for _, l := range []*lane{&s.out, &s.err} {
			s.pass(l, l.first)
			l.first = nil
		}
	case parts[0] == "d" && s.begun:
		s.noDir, s.out.ended = true, true
		s.finish(l, 126)
	case parts[0] == "e" && len(parts) == 2:
		code, _ := strconv.Atoi(parts[1]) //nolint:errcheck // the shell's own number
		s.finish(l, code)
	}
}

// finish notes that a stream has all of the command's output.
func (s *sorter) finish(l *lane, code int) {
	l.ended, s.code = true, code
	if s.begun && s.out.ended && s.err.ended {
		s.exited = true
		s.ended()
	}
}

// flush delivers what was held in vain.
func (s *sorter) flush() {
	for _, l := range []*lane{&s.out, &s.err} {
		s.pass(l, l.hold)
		l.hold = nil
	}
}
