// SPDX-License-Identifier: MIT

package session

import (
	"database/sql"
	"os"
	"path/filepath"
	"testing"
)

// filesOf counts the descriptors of this process that lead to a database, by the file's name.
func filesOf(t *testing.T, path string) map[string]int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int{}
	for _, fd := range all {
		to, err := os.Readlink("/proc/self/fd/" + fd.Name())
		if err == nil && filepath.Dir(to) == filepath.Dir(path) {
			out[filepath.Base(to)]++
		}
	}
	return out
}

// TestFilesAreBounded lets readers come and go. SQLite closes no descriptor of a file while the
// writer holds a lock on it, as that would end the lock, but keeps it for the next reader: there
// are never more than one for each connection there may be.
func TestFilesAreBounded(t *testing.T) {
	t.Parallel()
	path, id := filled(t)
	s := openStore(t, path, Options{})
	say(t, s, id, "user", "x")
	for range 20 {
		var at []*sql.Conn
		for range readers {
			c, err := s.r.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := c.QueryRowContext(t.Context(), "SELECT count(*) FROM messages").Scan(new(int)); err != nil {
				t.Fatal(err)
			}
			at = append(at, c)
		}
		say(t, s, id, "user", "y")
		for _, c := range at {
			c.Close()
		}
		s.r.SetMaxIdleConns(0) // as if they had been idle for long
		s.r.SetMaxIdleConns(readers)
	}
	const most = 1 + readers
	files := filesOf(t, path)
	if db, wal, shm := files["state.db"], files["state.db-wal"], files["state.db-shm"]; db < 1 || db > most || wal > most || shm > 1 {
		t.Errorf("open: %v", files)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if files := filesOf(t, path); len(files) > 0 {
		t.Errorf("open after Close: %v", files)
	}
}
