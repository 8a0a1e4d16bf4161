// SPDX-License-Identifier: MIT

package mcp

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/redact"
)

// logWorld is a log and a writer to it, with a clock.
func logWorld(t *testing.T) (w *stderrWriter, path string, now *time.Time) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "logs", "mcp-stderr.log")
	l := newStderrLog(slog.New(slog.DiscardHandler))
	t.Cleanup(l.close)
	clock := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	r := redact.New(true, []string{"canary-secret"})
	return &stderrWriter{
		server: "s", now: func() time.Time { return clock }, secret: func() *redact.Redactor { return r },
		out: func(line []byte) { l.append(path, line) },
	}, path, &clock
}

func write(t *testing.T, w *stderrWriter, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if n, err := w.Write([]byte(p)); n != len(p) || err != nil {
			t.Fatalf("got %d, %v", n, err)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestStderrLines(t *testing.T) {
	t.Parallel()
	w, path, _ := logWorld(t)
	write(t, w, "one\ntw", "o\n\n  \nkey=canary-", "secret \xff\n", "no end")
	if got := w.last(); got != "no end" {
		t.Errorf("got %q", got)
	}
	const stamp = "2026-11-30T12:00:00Z [s] "
	got := read(t, path)
	if !strings.HasPrefix(got, stamp+"one\n"+stamp+"two\n"+stamp) || !strings.HasSuffix(got, stamp+"no end\n") || strings.Count(got, "\n") != 4 {
		t.Errorf("got %q", got)
	}
	hasNot(t, got, "canary")
	info, err := os.Stat(path)
	if err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v", info.Mode(), err)
	}
}

func TestStderrFlood(t *testing.T) {
	t.Parallel()
	w, path, now := logWorld(t)
	line := strings.Repeat("x", 999) + "\n"
	for range 10_000 {
		write(t, w, line)
	}
	got := read(t, path)
	if len(got) > floodSize*2 || len(got) < floodSize/2 {
		t.Errorf("got %d bytes", len(got))
	}
	*now = now.Add(floodTime)
	write(t, w, "calm again\n")
	has(t, read(t, path), "bytes of error output were dropped\n", "calm again\n")
}

func TestStderrLongLine(t *testing.T) {
	t.Parallel()
	w, path, _ := logWorld(t)
	for range 100 {
		write(t, w, strings.Repeat("x", 1000))
	}
	write(t, w, "\nnext\n")
	lines := strings.Split(read(t, path), "\n")
	if len(lines) != 3 || len(lines[0]) > maxLine+100 || !strings.HasSuffix(lines[1], "next") {
		t.Errorf("got %d lines, the first of %d bytes", len(lines), len(lines[0]))
	}
}

func TestLogBound(t *testing.T) {
	t.Parallel()
	_, path, _ := logWorld(t)
	l := newStderrLog(slog.New(slog.DiscardHandler))
	defer l.close()
	for i := range 30_000 {
		l.append(path, fmt.Appendf(nil, "line %06d %s\n", i, strings.Repeat("x", 80)))
	}
	got := read(t, path)
	if len(got) > MaxLog || len(got) < MaxLog/2 {
		t.Errorf("got %d bytes", len(got))
	}
	lines := strings.Split(strings.TrimSuffix(got, "\n"), "\n")
	for i, line := range lines {
		if want := fmt.Sprintf("line %06d ", 30_000-len(lines)+i); !strings.HasPrefix(line, want) {
			t.Fatalf("line %d: got %q, want %q", i, line, want)
		}
	}
}

// Whoever can write to the home must not lead the log elsewhere.
func TestLogLinks(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"link", "dangling", "directory"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path, target := filepath.Join(dir, "mcp-stderr.log"), filepath.Join(dir, "target")
			var err error
			switch kind {
			case "link":
				if err = os.WriteFile(target, []byte("precious\n"), 0o600); err == nil {
					err = os.Symlink(target, path)
				}
			case "dangling":
				err = os.Symlink(target, path)
			case "directory":
				err = os.Mkdir(path, 0o700)
			}
			if err != nil {
				t.Fatal(err)
			}
			var warned bytes.Buffer
			l := newStderrLog(slog.New(slog.NewTextHandler(&warned, nil)))
			defer l.close()
			for range 3 {
				l.append(path, []byte("line\n"))
			}
			if data, err := os.ReadFile(target); kind == "link" && string(data) != "precious\n" || kind != "link" && err == nil {
				t.Errorf("the target holds %q", data)
			}
			if n := strings.Count(warned.String(), "level=WARN"); n != 1 {
				t.Errorf("warned %d times: %s", n, &warned)
			}
		})
	}
}

// A log that somebody rotates is opened again, and one that others can read is closed to them.
func TestLogRotated(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "mcp-stderr.log")
	if err := os.WriteFile(path, []byte("old\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	l := newStderrLog(slog.New(slog.DiscardHandler))
	defer l.close()
	l.append(path, []byte("one\n"))
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	l.append(path, []byte("two\n"))
	if got := read(t, path+".1") + "|" + read(t, path); got != "old\none\n|two\n" {
		t.Errorf("got %q", got)
	}
	info, err := os.Stat(path + ".1")
	if err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v", info.Mode(), err)
	}
}
