// SPDX-License-Identifier: MIT

package files

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"
)

// ReplaceRequest replaces text in a file.
type ReplaceRequest struct {
	Path     string
	Old, New string
	All      bool // every place, not the only one
	Foreign  bool // see [Guard.Write]
}

// PatchResult is what an edit did.
type PatchResult struct {
	Success  bool     `json:"success"`
	NoChange bool     `json:"no_change,omitempty"`
	Note     string   `json:"note,omitempty"`
	Diff     string   `json:"diff,omitempty"`
	Modified []string `json:"files_modified,omitempty"`
	Created  []string `json:"files_created,omitempty"`
	Deleted  []string `json:"files_deleted,omitempty"`
	Resolved string   `json:"resolved_path,omitempty"`
	Strategy string   `json:"match_strategy,omitempty"` // how the text was found, if not exactly
	Warning  string   `json:"_warning,omitempty"`
	Host     string   `json:"host,omitempty"`
	Error    string   `json:"error,omitempty"`

	Matched string `json:"-"` // how the text was found, the loosest way of several; "" = none was looked for
	Err     error  `json:"-"` // what Error says
}

// Replace puts new text in place of old. What fits old but for blanks, typography or escapes is
// found too, if it is only one place.
func (f *FS) Replace(ctx context.Context, q ReplaceRequest) PatchResult {
	return f.patched(f.replace(ctx, q))
}

func (f *FS) patched(r PatchResult, err error) PatchResult {
	if err != nil {
		r = PatchResult{Resolved: r.Resolved, Warning: r.Warning, Error: err.Error(), Err: err}
	}
	r.Success = err == nil
	if !f.host.Local() {
		r.Host = f.host.Name()
	}
	return r
}

func (f *FS) replace(ctx context.Context, q ReplaceRequest) (r PatchResult, err error) {
	at, err := f.locate(ctx, q.Path)
	if err != nil {
		return r, err
	}
	defer f.lock(at.Path)()
	if at, err = f.locate(ctx, q.Path); err != nil {
		return r, err
	}
	r.Resolved = at.Path
	r.Warning = join(f.stale(at), outside(q.Path, at))
	if err := errors.Join(f.guard.Write(f.host, at, q.Foreign)); err != nil {
		return r, err
	}
	if err := f.guard.Read(f.host, at); err != nil { // the diff would show it
		return r, err
	}
	text, form, err := f.load(ctx, q.Path, at)
	if err != nil {
		return r, err
	}
	now, how, err := substitute(text, form, q)
	if err != nil {
		return r, err
	}
	if now == text {
		r.NoChange, r.Note = true, "the file has this text already; nothing was written"
		return r, nil
	}
	done, _, err := f.host.Write(ctx, at, form.encode(now), 0)
	if err != nil {
		return r, f.explain(q.Path, err)
	}
	f.show(done.Path, done.Stamp)
	r.Diff, r.Modified = diff(at.Path, at.Path, text, now), []string{at.Path}
	if r.Matched = string(how); how != exact {
		r.Strategy = string(how)
	}
	return r, nil
}

// substitute returns a text with old replaced. The text itself comes back if the edit is in
// it already.
func substitute(text string, form form, q ReplaceRequest) (string, strategy, error) {
	old, with := q.Old, q.New
	if form.crlf {
		old, with = strings.ReplaceAll(old, "\r\n", "\n"), strings.ReplaceAll(with, "\r\n", "\n")
	}
	switch {
	case old == "":
		return "", "", errors.New("old_string is empty: name the text to replace, or use write_file for a new file")
	case strings.TrimSpace(old) == "":
		return "", "", errors.New("old_string is blank: name text that is in the file")
	case old == with && strings.Contains(text, with):
		return text, exact, nil
	case old == with:
		return "", "", errors.New("old_string and new_string are the same, and the file has neither")
	}
	edits, err := find(text, old, with, q.All, nil)
	var none *NoMatchError
	if errors.As(err, &none) && applied(text, old, with) {
		return text, exact, nil
	}
	if err != nil {
		return "", "", err
	}
	return apply(text, edits), edits[0].how, nil
}

// applied reports whether an edit was made before: models send edits twice.
func applied(text, old, with string) bool {
	return len(strings.TrimSpace(with)) >= 8 && strings.Contains(text, with) && !strings.Contains(text, old)
}

// apply makes edits that do not overlap, in ascending order.
func apply(text string, edits []edit) string {
	var b strings.Builder
	last := 0
	for _, e := range edits {
		b.WriteString(text[last:e.at.from])
		b.WriteString(e.text)
		last = e.at.to
	}
	b.WriteString(text[last:])
	return b.String()
}

// diff is a unified diff with the labels that git gives.
func diff(from, to, was, now string) string {
	label := func(prefix, p string) string {
		if p == "" {
			return "/dev/null"
		}
		return prefix + strings.TrimPrefix(strings.ToValidUTF8(p, "\ufffd"), "/")
	}
	return udiff.Unified(label("a/", from), label("b/", to), strings.ToValidUTF8(was, "\ufffd"), strings.ToValidUTF8(now, "\ufffd"))
}

// Patch applies a V4A patch: all of it or nothing.
func (f *FS) Patch(ctx context.Context, patch string, foreign bool) PatchResult {
	ops, err := parsePatch(patch)
	if err != nil {
		return f.patched(PatchResult{}, err)
	}
	var asked []string
	for _, op := range ops {
		asked = append(asked, op.path)
		if op.to != "" {
			asked = append(asked, op.to)
		}
	}
	for _, p := range asked {
		if slices.Contains(strings.FieldsFunc(p, func(r rune) bool { return r == '/' || r == '\\' }), "..") {
			return f.patched(PatchResult{}, fmt.Errorf("%s: a path in a patch has no \"..\": write it absolute, or from the working directory on", p))
		}
	}
	r, err := f.patchAll(ctx, ops, asked, foreign)
	return f.patched(r, err)
}

// ReplaceText replaces text as [FS.Replace] does, in a text instead of a file, and returns the
// new text and the difference. name is for the difference alone.
func ReplaceText(name, text, old, with string, all bool) (now, unified string, err error) {
	body, form, err := decode([]byte(text))
	if err != nil {
		return "", "", err
	}
	next, _, err := substitute(body, form, ReplaceRequest{Old: old, New: with, All: all})
	if err != nil {
		return "", "", err
	}
	return string(form.encode(next)), diff(name, name, body, next), nil
}
