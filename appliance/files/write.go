// SPDX-License-Identifier: MIT

package files

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// WriteRequest replaces or makes a file.
type WriteRequest struct {
	Path    string
	Content string
	Foreign bool // see [Guard.Write]
}

// WriteResult is what a write did.
type WriteResult struct {
	BytesWritten int      `json:"bytes_written"`
	DirsCreated  bool     `json:"dirs_created,omitempty"`
	Verified     *bool    `json:"verified,omitempty"` // true = the file was read back and is what was written
	Resolved     string   `json:"resolved_path,omitempty"`
	Modified     []string `json:"files_modified,omitempty"`
	Note         string   `json:"note,omitempty"`
	Warning      string   `json:"_warning,omitempty"`
	Host         string   `json:"host,omitempty"`
	Error        string   `json:"error,omitempty"`
}

// Write replaces a file whole. An existing text file keeps its encoding, its byte order mark
// and CR LF line ends, which a model cannot see; all else is written as given.
func (f *FS) Write(ctx context.Context, q WriteRequest) WriteResult {
	r, err := f.write(ctx, q)
	if err != nil {
		r = WriteResult{Resolved: r.Resolved, Warning: r.Warning, Error: err.Error()}
	}
	if !f.host.Local() {
		r.Host = f.host.Name()
	}
	return r
}

func (f *FS) write(ctx context.Context, q WriteRequest) (r WriteResult, err error) {
	if displayed(q.Content) {
		return r, errors.New("the content is read_file's display with its line numbers: write the file's own text, without the \"N|\" prefixes")
	}
	if int64(len(q.Content)) > f.limits.EditBytes {
		return r, fmt.Errorf("%s: %w: at most %s", q.Path, ErrTooLarge, bytesText(f.limits.EditBytes))
	}
	at, err := f.locate(ctx, q.Path)
	if err != nil {
		return r, err
	}
	defer f.lock(at.Path)()
	if at, err = f.locate(ctx, q.Path); err != nil { // what it is now that nobody else of us writes
		return r, err
	}
	r.Resolved = at.Path
	r.Warning = join(f.stale(at), outside(q.Path, at))
	if err := f.guard.Write(f.host, at, q.Foreign); err != nil {
		return r, err
	}
	data := []byte(q.Content)
	switch at.Kind {
	case Directory, Other:
		return r, fmt.Errorf("%s: %w", at.Path, ErrNotRegular)
	case Regular:
		if text, form, err := f.load(ctx, q.Path, at); err == nil && text != "" && form.String() != "" {
			if data = form.encode(strings.TrimPrefix(q.Content, "\ufeff")); string(data) != q.Content {
				r.Note = "kept from the file that was there: " + form.String()
			}
		}
	case Missing:
		r.DirsCreated = f.parentMissing(ctx, at)
	}
	now, ok, err := f.host.Write(ctx, at, data, 0)
	if err != nil {
		return r, f.explain(q.Path, err)
	}
	f.show(now.Path, now.Stamp)
	r.BytesWritten, r.Verified, r.Modified = len(data), &ok, []string{now.Path}
	return r, nil
}

func (f *FS) parentMissing(ctx context.Context, at Place) bool {
	i := strings.LastIndexAny(at.Path, `/\`)
	if i <= 0 {
		return false
	}
	dir, err := f.host.Locate(ctx, at.Path[:i])
	return err == nil && dir.Kind == Missing
}

var numbered = regexp.MustCompile(`^\s*(\d+)\|`)

// displayed reports whether text is read_file's display and no file: most lines start with
// numbers that count up.
func displayed(text string) bool {
	lines, found, last, steps := 0, 0, 0, 0
	for l := range strings.Lines(text) {
		if strings.TrimSpace(l) == "" {
			continue
		}
		lines++
		m := numbered.FindStringSubmatch(l)
		if m == nil {
			continue
		}
		n, err := strconv.Atoi(m[1])
		if err != nil {
			continue
		}
		if found > 0 && n == last+1 {
			steps++
		}
		found, last = found+1, n
	}
	return found >= 2 && found*10 >= lines*6 && steps >= found-1
}
