// SPDX-License-Identifier: MIT

package terminal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/process"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
)

// Limits of overflow files.
const (
	SpillMax  = 5_000_000          // bytes of one
	SpillKeep = 7 * 24 * time.Hour // until one is removed
)

// Spill is the directory, on this machine, of the outputs that are longer than a result may
// be. It is made when the first one comes, for the owner alone.
type Spill struct {
	Dir string // e.g. <home>/cache/terminal-output; its parent's parent exists
	Now func() time.Time
}

// spilled is one overflow file, made when it is needed. nil = there is no place for one.
type spilled struct {
	s    *Spill
	path string
	f    *os.File
}

// open makes a capture keep its overflow.
func (s *Spill) open(c *process.Capture) *spilled {
	if s == nil {
		return nil
	}
	sp := &spilled{s: s}
	c.SpillTo(sp.create, SpillMax)
	return sp
}

// create makes the file. Nobody else's is ever opened, and no link followed.
func (p *spilled) create() (io.Writer, error) {
	if err := p.s.private(); err != nil {
		return nil, err
	}
	now := p.s.Now()
	p.s.prune(now)
	name := fmt.Sprintf("out-%s-%d-%s.log", now.UTC().Format("20060102T150405Z"), os.Getpid(), randomID())
	path := filepath.Join(p.s.Dir, name)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	p.path, p.f = path, f
	return f, nil
}

// private makes the directory, and refuses one that others can write to or that is a link.
func (s *Spill) private() error {
	var w atomicfile.Writer
	for _, d := range []string{filepath.Dir(s.Dir), s.Dir} {
		if err := w.Mkdir(d, 0o700); err != nil {
			return err
		}
	}
	info, err := os.Lstat(s.Dir)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s: a link, not a directory", s.Dir)
	case info.Mode().Perm()&0o077 != 0:
		return os.Chmod(s.Dir, 0o700) //nolint:gosec // a directory
	}
	return nil
}

// prune removes what is too old. What cannot be removed is left.
func (s *Spill) prune(now time.Time) {
	entries, err := os.ReadDir(s.Dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && strings.HasPrefix(e.Name(), "out-") && strings.HasSuffix(e.Name(), ".log") &&
			info.Mode().IsRegular() && now.Sub(info.ModTime()) > SpillKeep {
			_ = os.Remove(filepath.Join(s.Dir, e.Name())) //nolint:errcheck // the next one tries again
		}
	}
}

// name is the path of the file, "" if none was needed.
func (p *spilled) name() string {
	if p == nil {
		return ""
	}
	return p.path
}

func (p *spilled) close(log *slog.Logger) {
	if p == nil || p.f == nil {
		return
	}
	if err := p.f.Close(); err != nil && !errors.Is(err, fs.ErrClosed) {
		log.Warn("overflow of a command's output is incomplete", "error", err)
	}
}
