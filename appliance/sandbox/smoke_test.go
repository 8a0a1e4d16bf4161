// SPDX-License-Identifier: MIT

package sandbox

import (
	"bytes"
	"crypto/rand"
	"os"
	"testing"
	"time"
)

func TestSmoke(t *testing.T) {
	ctx := t.Context()
	e, err := Dial(ctx, Options{Host: os.Getenv("HERMES_TEST_DOCKER")})
	if err != nil {
		t.Fatal(err)
	}
	s := Spec{Identity: Identity{Home: t.TempDir(), Profile: "default"}, Image: "hermes-test/trixie:base", Keep: true, CPUs: 1, MemoryMB: 512, Shm: "64m", DiskMB: 1000}
	t0 := time.Now()
	c, st, err := e.Ensure(ctx, s)
	t.Logf("%v %+v %v", time.Since(t0), st, err)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { t.Log(c.Remove(ctx)) }()
	t0 = time.Now()
	c, st, err = e.Ensure(ctx, s)
	t.Logf("%v %+v %v", time.Since(t0), st, err)
	var out, errs bytes.Buffer
	in := make([]byte, 1024000)
	rand.Read(in)
	t0 = time.Now()
	code, err := c.Exec(ctx, Exec{Argv: []string{"sh", "-c", "cat; echo err >&2; exit 7"}, Stdin: bytes.NewReader(in), Stdout: &out, Stderr: &errs})
	t.Log(time.Since(t0), code, err, bytes.Equal(in, out.Bytes()), errs.String())
	code, err = c.Exec(ctx, Exec{Argv: []string{"true"}, Dir: "/nope"})
	t.Log(code, err)
	code, err = c.Exec(ctx, Exec{Argv: []string{"nope"}, Stderr: &errs})
	t.Log(code, err, errs.String())
	t0 = time.Now()
	code, err = c.Exec(ctx, Exec{Argv: []string{"sh", "-c", "sleep 100 & echo hi"}, Stdout: &out})
	t.Log(time.Since(t0), code, err)
	for range 5 {
		t0 = time.Now()
		code, err = c.Exec(ctx, Exec{Argv: []string{"true"}})
		t.Log(time.Since(t0), code, err)
	}
	p, err := c.Start(ctx, Exec{Argv: []string{"sh", "-c", `trap "" TERM; setsid sh -c 'trap "" TERM; sleep 1000' & sleep 3600`}})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(p.PID())
	t0 = time.Now()
	err = p.Kill(ctx)
	t.Log(time.Since(t0), err)
	code, err = p.Wait()
	t.Log(code, err)
	out.Reset()
	code, err = c.Exec(ctx, Exec{Argv: []string{"ps", "-ef"}, Stdout: &out, Merge: true})
	t.Log(code, err, out.String())
}
