// SPDX-License-Identifier: MIT

//go:build linux

package process

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

func TestStreams(t *testing.T) {
	t.Parallel()
	script := `echo 1; echo 2 >&2; echo 3; exec cat`
	for _, tc := range []struct {
		name        string
		merge       bool
		out, errOut string
	}{
		{"separate", false, "1\n3\nin", "2\n"},
		{"merged", true, "1\n2\n3\nin", ""},
	} {
		var out, errOut bytes.Buffer
		c := sh(script)
		c.Stdin, c.Stdout, c.Merge = strings.NewReader("in"), &out, tc.merge
		if !tc.merge {
			c.Stderr = &errOut
		}
		exit, err := newRegistry(t).Run(soon(t), c)
		if err != nil || exit != (Exit{}) || out.String() != tc.out || errOut.String() != tc.errOut {
			t.Errorf("%s: got %q, %q, %+v, %v", tc.name, out.String(), errOut.String(), exit, err)
		}
	}
}

func TestStreamsFiles(t *testing.T) {
	t.Parallel()
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	in, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	c := sh(`echo out; echo err >&2; cat`)
	c.Stdin, c.Stdout, c.Merge = in, f, true
	exit, err := newRegistry(t).Run(soon(t), c)
	if err != nil || exit != (Exit{}) {
		t.Fatalf("%+v, %v", exit, err)
	}
	if err := errors.Join(in.Close(), f.Close()); err != nil { // still the caller's
		t.Fatal(err)
	}
	if data, _ := os.ReadFile(f.Name()); string(data) != "out\nerr\n" {
		t.Errorf("got %q", data)
	}
}

func TestStdinExact(t *testing.T) {
	t.Parallel()
	data := make([]byte, 1<<20+1)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	for _, size := range []int{0, 1, 4096, len(data)} {
		out := NewCapture(0)
		c := sh("exec cat")
		c.Stdin, c.Stdout = bytes.NewReader(data[:size]), out
		exit, err := newRegistry(t).Run(soon(t), c)
		if err != nil || exit != (Exit{}) || !bytes.Equal(out.Bytes(), data[:size]) {
			t.Errorf("%d bytes: got %d, %+v, %v", size, out.Total(), exit, err)
		}
	}
}

func TestStdinTrouble(t *testing.T) {
	t.Parallel()
	never, feed := io.Pipe() // a source that never ends
	t.Cleanup(func() { feed.Close() })
	broken := errors.New("source broke")
	for _, tc := range []struct {
		name   string
		script string
		r      io.Reader
		want   error
	}{
		{"not wanted", "exec true", bytes.NewReader(make([]byte, 1<<20)), nil},
		{"closed early", "exec <&-; sleep 0.01", bytes.NewReader(make([]byte, 1<<20)), nil},
		{"held by a descendant", "sleep 3600 <&0 & exit 0", bytes.NewReader(make([]byte, 1<<20)), nil},
		{"never ends", "exit 0", never, nil},
		{"fails", "exec cat", iotest.ErrReader(broken), broken},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := sh(tc.script)
			c.Stdin = tc.r
			child := startCmd(t, newRegistry(t), c)
			exit := wait(t, child)
			if exit.Code != 0 || !errors.Is(exit.Stdin, tc.want) {
				t.Errorf("got %+v, want input error %v", exit, tc.want)
			}
			if err := child.Kill(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// A server speaks over two pipes and ends when its input does.
func TestPipes(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	c := sh(`while read -r line; do echo "<$line>"; done; echo bye`)
	c.StdinPipe, c.StdoutPipe = true, true
	child := startCmd(t, r, c)
	if _, err := io.WriteString(child.Stdin(), "hello\n"); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 8)
	if _, err := io.ReadFull(child.Stdout(), buf); err != nil || string(buf) != "<hello>\n" {
		t.Fatalf("got %q, %v", buf, err)
	}
	if err := child.Stdin().Close(); err != nil {
		t.Fatal(err)
	}
	wait(t, child) // what was printed can be read after the exit
	rest, err := io.ReadAll(child.Stdout())
	if err != nil || string(rest) != "bye\n" {
		t.Errorf("got %q, %v", rest, err)
	}
	if err := child.Stdout().Close(); err != nil {
		t.Error(err)
	}
	if plain := startCmd(t, r, sh("true")); plain.Stdin() != nil || plain.Stdout() != nil {
		t.Error("pipes that nobody asked for")
	}
}

// Wait does not hang on a descendant that holds the output, and keeps what was printed.
func TestWaitHeld(t *testing.T) {
	t.Parallel()
	needSetsid(t)
	for _, script := range []string{
		`echo text; sleep 3600 & exit 5`,
		`echo text; (setsid sleep 3600 &) ; exit 5`,
		`echo text; sh -c 'while :; do echo noise; done' & exit 5`,
	} {
		out := NewCapture(1000)
		c := sh(script)
		c.Stdout, c.Merge = out, true
		child := startCmd(t, newRegistry(t), c)
		exit := wait(t, child)
		if exit.Code != 5 || !exit.Held || !strings.HasPrefix(out.String(), "text\n") {
			t.Errorf("%s: got %q, %+v", script, out, exit)
		}
		if err := child.Kill(t.Context()); err != nil {
			t.Error(err)
		}
		if left := withEnv(t, child.tree.id); len(left) > 0 {
			t.Errorf("%s: alive: %v", script, left)
		}
	}
}

// gateWriter takes nothing before it is opened.
type gateWriter struct {
	gate <-chan struct{}
	bytes.Buffer
}

func (w *gateWriter) Write(p []byte) (int, error) {
	<-w.gate
	return w.Buffer.Write(p)
}

// A writer slower than DrainTime loses nothing of what the child wrote before its exit.
func TestWaitSlowWriter(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	w := &gateWriter{gate: gate}
	c := sh(`exec head -c 60000 /dev/zero`)
	c.Stdout = w
	child := startCmd(t, newRegistry(t), c)
	<-child.exited
	time.AfterFunc(DrainTime+50*time.Millisecond, func() { close(gate) })
	exit := wait(t, child)
	if exit.Held || w.Len() != 60000 {
		t.Errorf("got %d bytes, %+v", w.Len(), exit)
	}
}

// A writer that fails does not stop the child.
func TestWriterFails(t *testing.T) {
	t.Parallel()
	full := errors.New("disk full")
	c := sh(`head -c 1000000 /dev/zero; exit 6`)
	c.Stdout = writerFunc(func([]byte) (int, error) { return 0, full })
	exit, err := newRegistry(t).Run(soon(t), c)
	if err != nil || exit.Code != 6 || !errors.Is(exit.Output, full) {
		t.Errorf("got %+v, %v, want 6 and %v", exit, err, full)
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
