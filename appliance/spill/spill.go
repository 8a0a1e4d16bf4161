// SPDX-License-Identifier: MIT

// Package spill keeps tool results that are too big for a conversation in files of a
// profile's home, where upstream keeps them: cache/spillover/<id>.txt. A file holds exactly
// the bytes of the result, or is not there; files of more than a day are removed. It never
// writes outside that directory, whatever the id of a call is, and never follows a link that
// somebody put in the place of a file.
package spill

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
)

const (
	maxAge  = 24 * time.Hour
	maxStem = 120
)

// Dir is the spill directory of one home. Make it with [New]; it is safe for concurrent use.
type Dir struct {
	path  string
	home  string
	now   func() time.Time
	log   *slog.Logger
	write atomicfile.Writer
	prune sync.Once
}

// New makes the spill directory of a home, which exists. Nothing is written before the first
// result comes.
func New(home string, now func() time.Time, log *slog.Logger) *Dir {
	return &Dir{path: filepath.Join(home, "cache", "spillover"), home: home, now: now, log: log}
}

// Spill writes text to a file that is named after id, replaces what was there, and returns
// its path on this machine. The first call also removes old files.
func (d *Dir) Spill(ctx context.Context, id, text string) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	for _, dir := range []string{filepath.Join(d.home, "cache"), d.path} {
		if err := d.write.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", fmt.Errorf("spill: %w", err)
		}
	}
	d.prune.Do(func() { d.Prune(ctx) })
	path := filepath.Join(d.path, name(id))
	if i, err := os.Lstat(path); err == nil && !i.Mode().IsRegular() {
		return "", fmt.Errorf("spill: %s: %w", path, atomicfile.ErrNotRegular)
	}
	if err := d.write.Write(path, []byte(text), atomicfile.Options{Mode: 0o600}); err != nil {
		return "", fmt.Errorf("spill: %w", err)
	}
	i, err := os.Lstat(path)
	if err == nil && i.Size() == int64(len(text)) {
		return path, nil
	}
	if rerr := d.write.Remove(path); rerr != nil {
		d.log.WarnContext(ctx, "broken spill file stays", "path", path, "error", rerr.Error())
	}
	return "", fmt.Errorf("spill: %s does not hold what was written", path)
}

// Prune removes files that are older than a day, and returns how many.
func (d *Dir) Prune(ctx context.Context) int {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return 0
	}
	removed := 0
	for _, e := range entries {
		i, err := e.Info()
		if err != nil || !i.Mode().IsRegular() || d.now().Sub(i.ModTime()) <= maxAge {
			continue
		}
		if err := d.write.Remove(filepath.Join(d.path, e.Name())); err != nil {
			d.log.WarnContext(ctx, "old spill file stays", "name", e.Name(), "error", err.Error())
			continue
		}
		removed++
	}
	return removed
}

var unsafe = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

// name makes a file name of the id of a call: ids that had to be changed carry a digest, so
// that no two share a file.
func name(id string) string {
	stem := strings.Trim(unsafe.ReplaceAllString(id, "_"), "._-")
	if stem == id && len(stem) <= maxStem && stem != "" {
		return stem + ".txt"
	}
	sum := sha256.Sum256([]byte(id))
	stem = strings.TrimRight(stem[:min(len(stem), maxStem)], "._-")
	if stem == "" {
		stem = "tool_result"
	}
	return stem + "_" + hex.EncodeToString(sum[:6]) + ".txt"
}
