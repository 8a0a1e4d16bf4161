// SPDX-License-Identifier: MIT

package files

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// searchLimit is the size from which a file is not searched.
const searchLimit = 64 << 20

// Find implements [Host] without any other program.
func (d *Direct) Find(ctx context.Context, root Place, q Query) (Found, error) {
	w := walker{ctx: ctx, host: d, q: q, root: root.Path}
	if root.Kind == Regular {
		w.add(root.Path, filepath.Base(root.Path), time.Time{})
	} else if err := w.dir(root.Path, "", ignoresAt(root.Path)); err != nil {
		return Found{}, err
	}
	if q.Pattern == "" {
		slices.SortStableFunc(w.files, func(a, b candidate) int { return b.time.Compare(a.time) })
		out := Found{More: w.more}
		for _, c := range w.files {
			out.Files = append(out.Files, FoundFile{Path: c.path})
		}
		return out, nil
	}
	return w.grep()
}

type candidate struct {
	path string
	time time.Time
}

// walker collects the files of a search in the order of their paths.
type walker struct {
	ctx   context.Context //nolint:containedctx // lives as long as the call it belongs to
	host  *Direct
	q     Query
	root  string
	files []candidate
	more  bool
}

func (w *walker) add(p, rel string, mtime time.Time) {
	if rel != "" && !w.q.named(rel) {
		return
	}
	if w.q.Pattern == "" && len(w.files) >= w.q.Max {
		w.more = true
		return
	}
	w.files = append(w.files, candidate{p, mtime})
}

// dir walks a directory; rel is its path below the root, "" for the root.
func (w *walker) dir(dir, rel string, ig *ignores) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		if rel == "" {
			return err
		}
		return nil // what may not be read is left out
	}
	for _, e := range entries {
		p, r := filepath.Join(dir, e.Name()), e.Name()
		if rel != "" {
			r = rel + "/" + e.Name()
		}
		switch {
		case e.Type()&fs.ModeSymlink != 0:
		case e.IsDir():
			if pruned(e.Name()) || volatile(p) || ig.ignored(filepath.ToSlash(p), true) {
				continue
			}
			below := ig
			if ig != nil {
				below = ig.within(p)
			} else if _, err := os.Lstat(filepath.Join(p, ".git")); err == nil {
				below = ignoresAt(p)
			}
			if err := w.dir(p, r, below); err != nil {
				return err
			}
		case e.Type().IsRegular():
			if strings.HasPrefix(e.Name(), ".") && !strings.HasPrefix(w.q.Names, ".") || ig.ignored(filepath.ToSlash(p), false) {
				continue
			}
			var mtime time.Time
			if w.q.Pattern == "" {
				if info, err := e.Info(); err == nil {
					mtime = info.ModTime()
				}
			}
			w.add(p, r, mtime)
		}
	}
	return nil
}

// volatile are trees of the kernel, whose files have no end or answer a read with an action.
func volatile(p string) bool { return p == "/proc" || p == "/sys" || p == "/dev" }

// grep looks into every file, several at a time.
func (w *walker) grep() (Found, error) {
	results := make([]FoundFile, len(w.files))
	var (
		mu    sync.Mutex
		next  int
		count int
		more  bool
		wg    sync.WaitGroup
	)
	take := func() (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		if next >= len(w.files) || w.ctx.Err() != nil {
			return 0, false
		}
		if count >= w.q.Max {
			more = true
			return 0, false
		}
		next++
		return next - 1, true
	}
	for range min(runtime.GOMAXPROCS(0), 8) {
		wg.Go(func() {
			var buf bytes.Buffer
			for i, ok := take(); ok; i, ok = take() {
				results[i] = w.file(w.files[i].path, &buf)
				mu.Lock()
				count += results[i].Count
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	out := Found{More: w.more || more}
	out.Files = slices.DeleteFunc(results, func(x FoundFile) bool { return x.Count == 0 })
	return out, w.ctx.Err()
}

// file looks into one file. What cannot be read, or is binary, has nothing.
func (w *walker) file(p string, buf *bytes.Buffer) FoundFile {
	f, err := os.OpenFile(p, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return FoundFile{}
	}
	defer f.Close() //nolint:errcheck // opened for reading
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > searchLimit {
		return FoundFile{}
	}
	buf.Reset()
	if _, err := buf.ReadFrom(io.LimitReader(f, searchLimit)); err != nil {
		return FoundFile{}
	}
	data := buf.Bytes()
	sample := data[:min(len(data), sampleSize)]
	if isBinary(sample) {
		return FoundFile{}
	}
	if order, _ := utf16Order(sample); order != nil {
		text, _, err := decode(data)
		if err != nil {
			return FoundFile{}
		}
		data = []byte(text)
	}
	// Most files have nothing: one pass without lines tells.
	if w.q.pre != nil && !w.q.pre.Match(data) && bytes.IndexByte(data, '\r') < 0 {
		return FoundFile{}
	}
	return grepLines(p, data, w.q)
}

// grepLines returns the lines that fit, with those around them.
func grepLines(p string, data []byte, q Query) FoundFile {
	out := FoundFile{Path: p}
	var before []FoundLine // the last lines that do not fit
	after := 0
	n := 0
	for line := range bytes.Lines(data) {
		n++
		line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
		fits := q.re.Match(line)
		if !fits && q.Context == 0 {
			continue
		}
		l := FoundLine{n, string(line[:min(len(line), q.Width)]), fits}
		switch {
		case fits:
			if out.Count++; out.Count > q.Max {
				return out
			}
			out.Lines = append(append(out.Lines, before...), l)
			before, after = nil, q.Context
		case after > 0:
			out.Lines = append(out.Lines, l)
			after--
		default:
			if before = append(before, l); len(before) > q.Context {
				before = before[1:]
			}
		}
	}
	return out
}
