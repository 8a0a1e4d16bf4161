// SPDX-License-Identifier: MIT

package atomicfile

import (
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path/filepath"
)

// Stream makes a file in dir out of what fill writes, for content too large for memory whose
// name is only known at its end: fill returns the name. The file is not there before it is
// whole and flushed. One of that name is replaced, with nothing of it kept: this is for files
// of our own that are named after their content. It has mode 0644, less the umask; after an
// error nothing is left.
func (w Writer) Stream(dir string, fill func(io.Writer) (name string, err error)) error {
	temp := filepath.Join(dir, "."+rand.Text()[:8]+".new")
	if err := w.step(OpCreate, temp); err != nil {
		return err
	}
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // as its contract says
	if err != nil {
		return err
	}
	name, err := fill(stepWriter{w, f, temp})
	if err == nil {
		err = w.step(OpSync, temp)
	}
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	path := filepath.Join(dir, name)
	if err == nil {
		err = w.step(OpRename, path)
	}
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return w.SyncDir(dir)
}

// stepWriter counts as one step a write.
type stepWriter struct {
	w    Writer
	f    *os.File
	temp string
}

func (s stepWriter) Write(p []byte) (int, error) {
	if err := s.w.step(OpWrite, s.temp); err != nil {
		return 0, err
	}
	return s.f.Write(p)
}
