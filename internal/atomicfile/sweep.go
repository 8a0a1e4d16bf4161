// SPDX-License-Identifier: MIT

package atomicfile

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
)

// randomName is the name of a staged file that the caller did not name.
func randomName(target string) string {
	return "." + filepath.Base(target) + "." + rand.Text()[:8] + ".new"
}

// Sweep removes the staged files that writes of a file left beside it because their process was
// killed. It is for whoever is the only one to write that file now, and leaves the names that a
// caller gave alone. It is no error if the directory is not there.
func (w Writer) Sweep(path string) error {
	dir := filepath.Dir(path)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	left := regexp.MustCompile(`^\.` + regexp.QuoteMeta(filepath.Base(path)) + `\.[A-Z2-7]{8}\.new$`)
	for _, e := range entries {
		if e.Type().IsRegular() && left.MatchString(e.Name()) {
			err = errors.Join(err, w.Remove(filepath.Join(dir, e.Name())))
		}
	}
	return err
}
