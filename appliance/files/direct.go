// SPDX-License-Identifier: MIT

package files

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
)

// Direct is this machine: the backend "local".
type Direct struct {
	Dir   func() string // the working directory, absolute
	Home  string        // what ~ means; "" = nothing
	Files atomicfile.Writer
}

// Name implements [Host].
func (*Direct) Name() string { return "local" }

// Local implements [Host].
func (*Direct) Local() bool { return true }

// Locate implements [Host].
func (d *Direct) Locate(_ context.Context, path string) (Place, error) {
	at := Place{Dir: filepath.Clean(d.Dir()), Home: d.Home}
	abs, err := d.expand(path)
	if err != nil {
		return at, err
	}
	if !filepath.IsAbs(abs) {
		abs = filepath.Join(at.Dir, abs)
	}
	at.Abs = filepath.Clean(abs)
	if at.Path, err = resolve(at.Abs); err != nil {
		return at, err
	}
	info, err := os.Lstat(at.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return at, nil
	}
	if err != nil {
		return at, err
	}
	return seen(at, info), nil
}

// seen adds what is known of a file to its place.
func seen(at Place, info fs.FileInfo) Place {
	at.Kind, at.Size, at.Mode, at.Stamp = Other, info.Size(), info.Mode().Perm(), stamp(info)
	switch {
	case info.Mode().IsRegular():
		at.Kind = Regular
	case info.IsDir():
		at.Kind = Directory
	}
	return at
}

func stamp(info fs.FileInfo) string {
	return fmt.Sprintf("%d.%d", info.ModTime().UnixNano(), info.Size())
}

// expand replaces a leading ~ or ~user.
func (d *Direct) expand(path string) (string, error) {
	if !strings.HasPrefix(path, "~") {
		return path, nil
	}
	name, rest := path[1:], ""
	if i := strings.IndexFunc(name, func(r rune) bool { return r < 128 && os.IsPathSeparator(byte(r)) }); i >= 0 {
		name, rest = name[:i], name[i:]
	}
	dir := d.Home
	if name != "" {
		u, err := user.Lookup(name)
		if err != nil {
			return path, nil //nolint:nilerr // a file may be called ~x
		}
		dir = u.HomeDir
	}
	if dir == "" {
		return "", fmt.Errorf("%s: %w", path, ErrNoHome)
	}
	return dir + rest, nil
}

// resolve follows links; parts at the end that do not exist stay as they are.
func resolve(abs string) (string, error) {
	real, err := filepath.EvalSymlinks(abs)
	if err == nil {
		return real, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if _, lerr := os.Lstat(abs); lerr == nil {
		return "", fmt.Errorf("%s: %w", abs, ErrDangling)
	}
	dir := filepath.Dir(abs)
	if dir == abs {
		return "", err
	}
	if dir, err = resolve(dir); err != nil {
		return "", err
	}
	if info, err := os.Lstat(dir); err == nil && !info.IsDir() {
		return "", fmt.Errorf("%s: not a directory", dir)
	}
	return filepath.Join(dir, filepath.Base(abs)), nil
}

// open opens the file at a place and makes sure that it is the one that was judged: no link
// has come into the path, and the opened file is the one there.
func (d *Direct) open(at Place) (*os.File, fs.FileInfo, error) {
	if info, err := os.Lstat(at.Path); err != nil {
		return nil, nil, err
	} else if !info.Mode().IsRegular() {
		return nil, nil, irregular(at, info)
	}
	f, err := os.OpenFile(at.Path, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := same(f, at)
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, info, nil
}

// irregular tells a link that took the file's place from what never was a file.
func irregular(at Place, info fs.FileInfo) error {
	if info.Mode()&fs.ModeSymlink != 0 || at.Kind == Regular {
		return fmt.Errorf("%s: %w", at.Path, ErrMoved)
	}
	return fmt.Errorf("%s: %w", at.Path, ErrNotRegular)
}

func same(f *os.File, at Place) (fs.FileInfo, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: %w", at.Path, ErrNotRegular)
	}
	real, err := filepath.EvalSymlinks(at.Path)
	if err != nil || real != at.Path {
		return nil, fmt.Errorf("%s: %w", at.Path, ErrMoved)
	}
	there, err := os.Lstat(at.Path)
	if err != nil || !os.SameFile(info, there) {
		return nil, fmt.Errorf("%s: %w", at.Path, ErrMoved)
	}
	return info, nil
}

// Read implements [Host].
func (d *Direct) Read(_ context.Context, at Place, limit int64) ([]byte, error) {
	f, info, err := d.open(at)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // opened for reading
	if info.Size() > limit {
		return nil, fmt.Errorf("%s: %w: %s, at most %s", at.Path, ErrTooLarge, bytesText(info.Size()), bytesText(limit))
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s: %w: it grows", at.Path, ErrTooLarge)
	}
	return data, err
}

// Page implements [Host].
func (d *Direct) Page(ctx context.Context, at Place, want PageRange) (Page, error) {
	f, info, err := d.open(at)
	if err != nil {
		return Page{}, err
	}
	defer f.Close() //nolint:errcheck // opened for reading
	p := Page{Size: info.Size()}
	r := bufio.NewReaderSize(f, 1<<18)
	if p.Sample, err = r.Peek(sampleSize); err != nil && !errors.Is(err, io.EOF) {
		return p, err
	}
	p.Sample = bytes.Clone(p.Sample)
	return p, p.scan(ctx, r, want)
}

// scan reads a file to its end: it counts lines and keeps those of the page.
func (p *Page) scan(ctx context.Context, r *bufio.Reader, want PageRange) error {
	var line []byte
	size, total, begun := 0, int64(0), false
	keep := func() {
		if n := p.Newlines + 1; n >= want.From && n <= want.To && size < want.Bytes {
			p.Lines = append(p.Lines, bytes.Clone(line))
			size += len(line) + 1
		}
		line, begun = line[:0], false
	}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		part, err := r.ReadSlice('\n')
		total += int64(len(part))
		if len(part) > 0 {
			begun = true
		}
		body := bytes.TrimSuffix(part, []byte("\n"))
		line = append(line, body[:min(len(body), max(0, want.Width-len(line)))]...)
		switch {
		case err == nil:
			keep()
			p.Newlines++
			p.Ended = true
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			if begun {
				keep()
				p.Ended = false
			}
			p.Size = total
			return nil
		default:
			return err
		}
	}
}

// Names implements [Host].
func (d *Direct) Names(_ context.Context, dir string, limit int) ([]string, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // opened for reading
	names, err := f.Readdirnames(limit)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return names, err
}
