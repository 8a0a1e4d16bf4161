// SPDX-License-Identifier: MIT

package files

import (
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// SearchRequest looks for text in files, or for files by name.
type SearchRequest struct {
	Pattern string // regular expression, or glob for files
	Files   bool   // look for files by name
	Path    string // directory or file; "" = the working directory
	Glob    string // only in files whose name fits
	Mode    string // "content", "files_only" or "count"; "" = content
	Limit   int    // results; 0 = 50
	Offset  int
	Context int // lines around each match
}

// SearchResult is what was found.
type SearchResult struct {
	Total      int            `json:"total_count"`
	Matches    []Match        `json:"matches,omitempty"`
	Format     string         `json:"matches_format,omitempty"`
	Text       string         `json:"matches_text,omitempty"` // many matches, grouped by file
	Files      []string       `json:"files,omitempty"`
	Counts     map[string]int `json:"counts,omitempty"`
	Truncated  bool           `json:"truncated,omitempty"`
	LowerBound bool           `json:"total_count_is_lower_bound,omitempty"`
	Omitted    string         `json:"_omitted,omitempty"`
	Hint       string         `json:"hint,omitempty"`
	Warning    string         `json:"warning,omitempty"`
	Host       string         `json:"host,omitempty"`
	Error      string         `json:"error,omitempty"`
}

// Match is a line that fits, or one beside it.
type Match struct {
	Path    string `json:"path"`
	Line    int    `json:"line"`
	Content string `json:"content"`
}

// Query is what a host looks for.
type Query struct {
	Pattern string         // regular expression in RE2 syntax; "" = files by name
	re      *regexp.Regexp // the same, compiled, for one line
	pre     *regexp.Regexp // for a whole file; nil = it could miss what re finds in a line
	Names   string         // glob: a name, or with a slash a path below the root; "" = all
	names   *regexp.Regexp // Names, for a name or a path
	deep    *regexp.Regexp // Names with a slash, in any directory; nil = it has none
	Context int
	Max     int // matches or files after which it stops
	Width   int // bytes of a line that are kept
}

// Found is what a host found: files in the order of their paths, or, by name, newest first.
type Found struct {
	Files []FoundFile
	More  bool // it stopped at Query.Max, or could not look everywhere
}

// FoundFile is a file and its lines.
type FoundFile struct {
	Path  string
	Lines []FoundLine
	Count int // lines that fit, without context
}

// FoundLine is one line. Fits is false for context.
type FoundLine struct {
	Number int
	Text   string
	Fits   bool
}

const (
	maxSearchLimit = 1000
	maxContext     = 50
	maxFound       = 20_000 // matches that are counted
)

// Search looks for text or files. Hidden and ignored files, and those that a read refuses, are
// left out.
func (f *FS) Search(ctx context.Context, q SearchRequest) SearchResult {
	r, err := f.search(ctx, q)
	if err != nil {
		r.Error = err.Error()
	}
	if !f.host.Local() {
		r.Host = f.host.Name()
	}
	return r
}

func (f *FS) search(ctx context.Context, q SearchRequest) (r SearchResult, err error) {
	if q.Path == "" {
		q.Path = "."
	}
	if q.Limit < 1 {
		q.Limit = 50
	}
	q.Limit, q.Offset, q.Context = min(q.Limit, maxSearchLimit), max(q.Offset, 0), min(max(q.Context, 0), maxContext)
	hq, err := query(q, f.limits)
	if err != nil {
		return r, err
	}
	root, err := f.locate(ctx, q.Path)
	if err != nil {
		return r, err
	}
	if err := f.guard.Read(f.host, root); err != nil {
		return r, err
	}
	switch root.Kind {
	case Missing:
		_, err := f.notFound(ctx, q.Path, root)
		return r, err
	case Other:
		return r, fmt.Errorf("%s: %w", root.Path, ErrNotRegular)
	case Regular, Directory:
	}
	found, err := f.host.Find(ctx, root, hq)
	if err != nil {
		return r, f.explain(q.Path, err)
	}
	all := len(found.Files)
	found.Files = slices.DeleteFunc(found.Files, func(x FoundFile) bool {
		return f.guard.Read(f.host, Place{Path: x.Path, Home: root.Home}) != nil
	})
	if n := all - len(found.Files); n > 0 {
		r.Omitted = fmt.Sprintf("%d files left out: they hold credentials", n)
	}
	r.fill(found, q, f.limits)
	if r.Total == 0 && strings.Contains(q.Pattern, `\n`) {
		r.Warning = `nothing found: the search goes line by line, so \n in a pattern fits nothing; use context to see the lines around`
	}
	return r, nil
}

// query checks a request and makes of it what a host understands.
func query(q SearchRequest, l Limits) (Query, error) {
	hq := Query{Names: q.Glob, Context: q.Context, Max: maxFound, Width: 4 * l.MatchChars}
	if q.Pattern == "" {
		return hq, errors.New("pattern is empty")
	}
	if q.Files {
		hq.Names = q.Pattern
	} else {
		re, err := regexp.Compile(q.Pattern)
		if err != nil {
			return hq, fmt.Errorf("pattern is no regular expression: %w. Write %q to look for the text itself", err, regexp.QuoteMeta(q.Pattern))
		}
		hq.Pattern, hq.re = q.Pattern, re
		if !strings.Contains(q.Pattern, `\A`) && !strings.Contains(q.Pattern, `\z`) && !strings.Contains(q.Pattern, "(?") {
			hq.pre = regexp.MustCompile("(?m:" + q.Pattern + ")")
		}
	}
	hq.Names = strings.TrimPrefix(hq.Names, "./")
	var err error
	if hq.names, err = glob(hq.Names, true); err != nil {
		return hq, fmt.Errorf("%q is no glob: %w", hq.Names, err)
	}
	if strings.Contains(hq.Names, "/") {
		if hq.deep, err = glob("**/"+hq.Names, true); err != nil {
			return hq, fmt.Errorf("%q is no glob: %w", hq.Names, err)
		}
	}
	switch q.Mode {
	case "", "content", "files_only", "count":
	default:
		return hq, fmt.Errorf("output_mode is %q: it is content, files_only or count", q.Mode)
	}
	return hq, nil
}

// named reports whether a file fits the glob: its name, or its path below the root.
func (q Query) named(rel string) bool {
	if q.Names == "" {
		return true
	}
	if q.deep == nil {
		return q.names.MatchString(path.Base(rel))
	}
	return q.names.MatchString(rel) || q.deep.MatchString(rel)
}

// fill puts one page of what was found into the shape that was asked for.
func (r *SearchResult) fill(found Found, q SearchRequest, l Limits) {
	r.LowerBound = found.More
	page := func(n int) (from, to int) {
		r.Total = n
		from = min(q.Offset, n)
		to = min(from+q.Limit, n)
		if r.Truncated = to < n || found.More; to < n {
			r.Hint = fmt.Sprintf("showing %d to %d of %d: go on with offset=%d, or narrow the pattern", from+1, to, n, to)
		}
		return from, to
	}
	switch {
	case q.Files || q.Mode == "files_only":
		from, to := page(len(found.Files))
		for _, x := range found.Files[from:to] {
			r.Files = append(r.Files, x.Path)
		}
	case q.Mode == "count":
		from, to := page(len(found.Files))
		r.Total = 0
		for _, x := range found.Files {
			r.Total += x.Count
		}
		r.Counts = map[string]int{}
		for _, x := range found.Files[from:to] {
			r.Counts[x.Path] = x.Count
		}
	default:
		var all []Match
		for _, x := range found.Files {
			for _, line := range x.Lines {
				text := strings.TrimRight(strings.ToValidUTF8(line.Text, "\ufffd"), " \t\r")
				all = append(all, Match{x.Path, line.Number, clip(text, l.MatchChars)})
			}
		}
		from, to := page(len(all))
		r.group(all[from:to])
	}
}

// group writes many matches by file: each path once.
func (r *SearchResult) group(matches []Match) {
	const few = 5
	if len(matches) < few {
		r.Matches = matches
		return
	}
	var b strings.Builder
	last := ""
	for _, m := range matches {
		if m.Path != last {
			fmt.Fprintf(&b, "%s\n", m.Path)
			last = m.Path
		}
		fmt.Fprintf(&b, "  %d: %s\n", m.Line, m.Content)
	}
	r.Format = "each file's path on a line of its own, below it \"  LINE: TEXT\" for each match in it"
	r.Text = strings.TrimSuffix(b.String(), "\n")
}

// pruned are the directories that no search goes into by itself, beside hidden ones.
func pruned(name string) bool {
	return name == "node_modules" || name == "__pycache__" || strings.HasPrefix(name, ".")
}
