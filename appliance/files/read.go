// SPDX-License-Identifier: MIT

package files

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ReadRequest asks for lines of a file.
type ReadRequest struct {
	Path   string
	Offset int // first line, 1-based; 0 = 1
	Limit  int // lines; 0 = 500
}

// ReadResult is what a read shows. Error is set when it shows nothing.
type ReadResult struct {
	Content    string   `json:"content"`
	TotalLines int      `json:"total_lines"`
	FileSize   int64    `json:"file_size"`
	Truncated  bool     `json:"truncated,omitempty"`
	Hint       string   `json:"hint,omitempty"`
	IsBinary   bool     `json:"is_binary,omitempty"`
	IsImage    bool     `json:"is_image,omitempty"`
	Similar    []string `json:"similar_files,omitempty"`
	Host       string   `json:"host,omitempty"` // where the file is, if not on the gateway's machine
	Error      string   `json:"error,omitempty"`
}

// utf16Limit is the largest UTF-16 file that is converted for display.
const utf16Limit = 10 << 20

// Read shows lines of a text file as "N|line".
func (f *FS) Read(ctx context.Context, q ReadRequest) ReadResult {
	if q.Offset < 1 {
		q.Offset = 1
	}
	if q.Limit < 1 {
		q.Limit = 500
	}
	q.Limit = min(q.Limit, f.limits.ReadLines)
	r, err := f.read(ctx, q)
	if err != nil {
		r.Error = err.Error()
	}
	if !f.host.Local() {
		r.Host = f.host.Name()
	}
	return r
}

func (f *FS) read(ctx context.Context, q ReadRequest) (ReadResult, error) {
	at, err := f.locate(ctx, q.Path)
	if err != nil {
		return ReadResult{}, err
	}
	if err := f.guard.Read(f.host, at); err != nil {
		return ReadResult{}, err
	}
	switch {
	case at.Kind == Missing:
		names, err := f.notFound(ctx, q.Path, at)
		return ReadResult{Similar: names}, err
	case at.Kind == Directory:
		return ReadResult{}, fmt.Errorf("%s is a directory: list it with search_files and target \"files\"", at.Path)
	case at.Kind != Regular:
		return ReadResult{}, fmt.Errorf("%s: %w (a FIFO, socket or device): reading it could wait for ever", at.Path, ErrNotRegular)
	case isImage(at.Path):
		return ReadResult{IsImage: true, IsBinary: true, FileSize: at.Size, Hint: "an image: look at it with vision_analyze"}, nil
	}
	want := PageRange{From: q.Offset, To: q.Offset + q.Limit - 1, Width: utf8.UTFMax*f.limits.LineChars + 1, Bytes: utf8.UTFMax * f.limits.ReadChars}
	p, err := f.host.Page(ctx, at, want)
	if err != nil {
		return ReadResult{}, f.explain(q.Path, err)
	}
	r := ReadResult{FileSize: p.Size}
	if order, _ := utf16Order(p.Sample); order != nil && p.Size <= utf16Limit {
		return f.readWide(ctx, q, at, r, want)
	}
	if isBinary(p.Sample) {
		r.IsBinary = true
		return r, fmt.Errorf("%s is a binary file (%s): it cannot be shown as text", at.Path, describe(p.Sample, p.Size))
	}
	f.show(at.Path, at.Stamp)
	if q.Offset == 1 && len(p.Lines) > 0 {
		p.Lines[0] = []byte(strings.TrimPrefix(string(p.Lines[0]), "\ufeff"))
	}
	hints := []string{}
	if !validUTF8(p.Sample) {
		hints = append(hints, "not UTF-8: bytes of an older encoding are shown as �; patch keeps them")
	}
	return f.render(r, p, q, hints), nil
}

// readWide shows a UTF-16 file.
func (f *FS) readWide(ctx context.Context, q ReadRequest, at Place, r ReadResult, want PageRange) (ReadResult, error) {
	data, err := f.host.Read(ctx, at, utf16Limit)
	if err != nil {
		return r, f.explain(q.Path, err)
	}
	text, form, err := decode(data)
	if err != nil || isBinary([]byte(text[:min(len(text), sampleSize)])) {
		r.IsBinary = true
		return r, fmt.Errorf("%s is a binary file (%s): it cannot be shown as text", at.Path, describe(data, r.FileSize))
	}
	f.show(at.Path, at.Stamp)
	p := Page{Size: int64(len(text)), Newlines: strings.Count(text, "\n"), Ended: strings.HasSuffix(text, "\n")}
	lines := strings.Split(text, "\n")[:p.Total()]
	for _, l := range lines[min(len(lines), want.From-1):min(len(lines), want.To)] {
		p.Lines = append(p.Lines, []byte(l))
	}
	return f.render(r, p, q, []string{form.String() + ", converted for display; patch and write_file keep it"}), nil
}

// render numbers the lines of a page and says how to go on.
func (f *FS) render(r ReadResult, p Page, q ReadRequest, hints []string) ReadResult {
	r.TotalLines = p.Total()
	var b strings.Builder
	chars, shown, cr := 0, 0, 0
	for _, l := range p.Lines {
		if strings.HasSuffix(string(l), "\r") {
			cr++
		}
	}
	crlf := cr == len(p.Lines) && cr > 0 || cr > 0 && cr == len(p.Lines)-1 && q.Offset-1+len(p.Lines) == r.TotalLines && !p.Ended
	for i, l := range p.Lines {
		text := strings.ToValidUTF8(string(l), "\ufffd")
		if crlf {
			text = strings.TrimSuffix(text, "\r")
		}
		if n := utf8.RuneCountInString(text); n > f.limits.LineChars {
			text = string([]rune(text)[:f.limits.LineChars]) + "... [truncated]"
		}
		line := strconv.Itoa(q.Offset+i) + "|" + text
		if chars += utf8.RuneCountInString(line) + 1; chars > f.limits.ReadChars && i > 0 {
			break
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(line)
		shown++
	}
	r.Content = b.String()
	if crlf {
		hints = append(hints, "CR LF line ends; patch and write_file keep them")
	}
	last := q.Offset - 1 + shown
	switch {
	case p.Size == 0:
		hints = append(hints, "the file is empty (0 bytes)")
	case q.Offset > r.TotalLines:
		hints = append(hints, fmt.Sprintf("offset %d is behind the end: the file has %d lines", q.Offset, r.TotalLines))
	case last < r.TotalLines:
		r.Truncated = true
		hints = append(hints, fmt.Sprintf("showing lines %d to %d of %d: go on with offset=%d", q.Offset, last, r.TotalLines, last+1))
	}
	r.Hint = strings.Join(hints, ". ")
	return r
}

// load reads a text file for an edit. A file that does not exist gives fs.ErrNotExist.
func (f *FS) load(ctx context.Context, asked string, at Place) (string, form, error) {
	switch at.Kind {
	case Regular:
	case Missing:
		names, err := f.notFound(ctx, asked, at)
		if len(names) > 0 {
			err = fmt.Errorf("%w. Did you mean %s?", err, strings.Join(names, ", "))
		}
		return "", form{}, err
	case Directory, Other:
		return "", form{}, fmt.Errorf("%s: %w", at.Path, ErrNotRegular)
	}
	data, err := f.host.Read(ctx, at, f.limits.EditBytes)
	if err != nil {
		return "", form{}, f.explain(asked, err)
	}
	if isBinary(data[:min(len(data), sampleSize)]) {
		return "", form{}, fmt.Errorf("%s is a binary file (%s): it cannot be edited as text", at.Path, describe(data, at.Size))
	}
	text, form, err := decode(data)
	if err != nil {
		err = fmt.Errorf("%s: %w", at.Path, err)
	}
	return text, form, err
}
