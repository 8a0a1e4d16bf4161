// SPDX-License-Identifier: MIT

package session

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"modernc.org/sqlite"

	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
)

// copyPages is how many pages one step of a copy takes; between steps others may write.
const copyPages = 256

// keepCopy copies a damaged file once. If a copy that is newer than the last change is there
// already, of an earlier start, that one is it: a restart loop must not fill the disk.
func (s *Store) keepCopy(ctx context.Context) {
	s.mu.Lock()
	todo := s.health.Damage != nil && !s.backup
	s.backup = s.backup || todo
	s.mu.Unlock()
	if !todo {
		return
	}
	b := s.earlierCopy()
	if b.Path == "" {
		b.Path = s.path + ".damaged-" + s.opts.Now().UTC().Format("20060102-150405")
		if err := s.Copy(ctx, b.Path); err != nil {
			b = Backup{Error: err.Error()}
		}
	}
	if b.Path != "" {
		var err error
		if b.Sound, err = soundFile(ctx, b.Path); err != nil {
			b.Error = "the copy could not be checked: " + err.Error()
		}
	}
	s.know(func(h *Health) { h.Backup = &b })
}

func (s *Store) earlierCopy() Backup {
	names, err := filepath.Glob(globQuote(s.path) + ".damaged-????????-??????")
	now, serr := os.Stat(s.path)
	if err != nil || serr != nil {
		return Backup{}
	}
	for _, name := range names {
		if info, err := os.Stat(name); err == nil && info.Size() > 0 && info.ModTime().After(now.ModTime()) {
			return Backup{Path: name}
		}
	}
	return Backup{}
}

// globQuote takes the meaning from the characters of a path that Glob knows.
func globQuote(path string) string {
	var out []rune
	for _, r := range path {
		switch r {
		case '*', '?', '[':
			out = append(out, '[', r, ']')
		default:
			out = append(out, r)
		}
	}
	return string(out)
}

// Copy copies the database into a new file with mode 0600, while others go on writing, page by
// page: a damaged file gives a copy that is damaged in the same way. An error leaves no file.
func (s *Store) Copy(ctx context.Context, to string) (err error) {
	if _, err := os.Lstat(to); err == nil {
		return fmt.Errorf("%s exists", to)
	}
	var w atomicfile.Writer
	if err := w.Touch(to, 0o600); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Remove(to))
		}
	}()
	c, err := s.r.Conn(ctx)
	if err != nil {
		return fault(err)
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	return fault(c.Raw(func(raw any) error {
		source, ok := raw.(interface {
			NewBackup(to string) (*sqlite.Backup, error)
		})
		if !ok {
			return errors.New("the database driver cannot copy")
		}
		b, err := source.NewBackup(fileURL(to))
		if err != nil {
			return err
		}
		for more := true; more && err == nil; {
			if more, err = b.Step(copyPages); err == nil {
				err = ctx.Err()
			}
		}
		return errors.Join(err, b.Finish())
	}))
}

// soundFile checks a database that nobody else has open.
func soundFile(ctx context.Context, path string) (sound bool, err error) {
	db, err := sql.Open("sqlite", fileURL(path)+"?immutable=1")
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var first string
	err = db.QueryRowContext(ctx, "PRAGMA integrity_check(1)").Scan(&first)
	if corrupt(err) {
		return false, nil
	}
	return first == "ok", err
}
