// SPDX-License-Identifier: MIT

//go:build linux

package local_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/appliance/terminal"
	"github.com/hermes-appliance/hermes-appliance/internal/terminaltest"
)

func benchShell(b *testing.B, prepare string) *terminal.Shell {
	b.Helper()
	var c terminal.Config
	maker(b, &c, &terminaltest.Vars{})
	c.Log = discard()
	s := terminal.New(c)
	if res, err := s.Run(b.Context(), terminal.Command{Text: prepare}); err != nil || res.Code != 0 {
		b.Fatalf("%+v, %v", res, err)
	}
	return s
}

// BenchmarkCommand is a command in a warm session.
func BenchmarkCommand(b *testing.B) {
	for name, prepare := range map[string]string{
		"empty":     "true",
		"functions": functions(200),
	} {
		for _, cmd := range []string{"true", "export N=$((N+1))"} {
			b.Run(name+"/"+strings.Fields(cmd)[0], func(b *testing.B) {
				s := benchShell(b, prepare)
				for b.Loop() {
					if res, err := s.Run(b.Context(), terminal.Command{Text: cmd}); err != nil || res.Code != 0 {
						b.Fatalf("%+v, %v", res, err)
					}
				}
			})
		}
	}
}

// functions defines as many as a version manager does.
func functions(n int) string {
	var sb strings.Builder
	for i := range n {
		fmt.Fprintf(&sb, "f%d() { local a=$1; if [ -n \"$a\" ]; then echo \"$a\" | sed s/x/y/; else return 1; fi; }\n", i)
	}
	return sb.String()
}

// BenchmarkBash is what bash itself takes.
func BenchmarkBash(b *testing.B) {
	for b.Loop() {
		cmd := exec.CommandContext(b.Context(), "bash", "-c", "true")
		cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
		if err := cmd.Run(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkExecMegabyte(b *testing.B) {
	s := benchShell(b, "true")
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		out, err := s.Exec(context.WithoutCancel(b.Context()), terminal.Script{Text: "cat", Stdin: data})
		if err != nil || len(out.Stdout) != len(data) {
			b.Fatal(err, len(out.Stdout))
		}
	}
}
