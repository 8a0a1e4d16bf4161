// SPDX-License-Identifier: MIT

package session

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// child is a second program on the same file.
//
//	write|path|session|name|n   appends n messages, each in a turn of its own, then says done
//	turn|path|session|calls     begins a turn, writes calls without results, says ready, waits
//	many|path|n                 n turns append at the same time, and say "session k" when message k is written, for ever
//	probe|path                  says locked or free, of the write lock
//	alone|path                  says locked or free, of the right to be the only one
func child(job []string) error {
	ctx := context.Background()
	switch job[0] {
	case "probe":
		return probeLock(ctx, job[1])
	case "alone":
		return probeAlone(ctx, job[1])
	}
	s, err := Open(ctx, job[1], Options{Role: map[string]string{"turn": "gateway"}[job[0]], Synchronous: "off", BusyTimeout: patience})
	if err != nil {
		return err
	}
	switch job[0] {
	case "write":
		n, err := strconv.Atoi(job[4])
		if err != nil {
			return err
		}
		for i := range n {
			if _, err := s.Append(ctx, job[2], Message{Role: "user", Content: fmt.Sprintf("%s-%d", job[3], i)}); err != nil {
				return err
			}
		}
		fmt.Println("done")
		return s.Close()
	case "many":
		return childMany(ctx, s, job[2])
	case "turn":
		turn, err := s.Begin(ctx, job[2], job[0])
		if err != nil {
			return err
		}
		for _, m := range []Message{{Role: "user", Content: "go"}, calling(strings.Split(job[3], ",")...)} {
			if _, err := turn.Append(ctx, m); err != nil {
				return err
			}
		}
		fmt.Println("ready")
		_, err = bufio.NewReader(os.Stdin).ReadString('\n') // until it is killed
		return err
	}
	return fmt.Errorf("unknown job %q", job)
}

func childMany(ctx context.Context, s *Store, turns string) error {
	n, err := strconv.Atoi(turns)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	failed := make(chan error)
	for range n {
		go func() {
			c, err := s.Create(ctx, Session{Source: "cli"})
			if err != nil {
				failed <- err
				return
			}
			for k := 0; ; k++ {
				if _, err := s.Append(ctx, c.ID, Message{Role: "user", Content: strconv.Itoa(k)}); err != nil {
					failed <- err
					return
				}
				fmt.Printf("%s %d\n", c.ID, k) // one write each: lines do not mix
			}
		}()
	}
	return <-failed
}

func probeLock(ctx context.Context, path string) error {
	db, err := sql.Open("sqlite", fileURL(path)+"?_txlock=immediate")
	if err != nil {
		return err
	}
	defer db.Close()
	tx, err := db.BeginTx(ctx, nil)
	if busy(err) {
		fmt.Println("locked")
		return nil
	}
	if err != nil {
		return err
	}
	fmt.Println("free")
	return tx.Rollback()
}

// probeAlone tries what only a program that is alone with a file may do: to end its WAL mode.
func probeAlone(ctx context.Context, path string) error {
	db, err := sql.Open("sqlite", fileURL(path))
	if err != nil {
		return err
	}
	defer db.Close()
	var mode string
	err = db.QueryRowContext(ctx, "PRAGMA journal_mode = delete").Scan(&mode)
	if busy(err) || mode == "wal" {
		fmt.Println("locked")
		return nil
	}
	fmt.Println("free")
	return err
}

// lockedOutside reports whether another process finds the write lock taken.
func lockedOutside(t testing.TB, path string) bool {
	t.Helper()
	_, line := startChild(t, "probe", path)
	return line == "locked"
}

// startChild starts the second program and waits for the first line that it prints.
func startChild(t testing.TB, job ...string) (cmd *exec.Cmd, line string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	cmd = exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+strings.Join(job, "|"))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close() })
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	line, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Errorf("child %v: %v", job, err)
	}
	return cmd, strings.TrimSpace(line)
}

// kill ends a child as the kernel does when memory is short, and waits until it is gone.
func kill(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
}
