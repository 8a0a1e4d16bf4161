// SPDX-License-Identifier: MIT

package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// file is a file of a patch, as it is and as it shall be.
type file struct {
	at     Place
	before string // text; meaningless if it was missing
	text   string
	form   form
	exists bool // shall
	mode   fs.FileMode
	was    []byte // bytes, to undo
	done   bool
}

// plan is what a patch makes of its files; nothing is written before it is complete.
type plan struct {
	fs      *FS
	foreign bool
	files   map[string]*file
	order   []*file
	how     strategy // the loosest that a hunk needed
}

// patchAll checks every operation, then writes, and undoes what it wrote if a write fails.
func (f *FS) patchAll(ctx context.Context, ops []operation, asked []string, foreign bool) (r PatchResult, err error) {
	paths := make([]string, 0, len(asked))
	for _, p := range asked {
		at, err := f.locate(ctx, p)
		if err != nil {
			return r, err
		}
		paths = append(paths, at.Path)
	}
	defer f.lock(paths...)()
	p := &plan{fs: f, foreign: foreign, files: map[string]*file{}}
	var failed []error
	for _, op := range ops {
		if err := p.add(ctx, op); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", op.path, err))
		}
	}
	if len(failed) > 0 {
		return r, fmt.Errorf("no file was changed:\n%w", errors.Join(failed...))
	}
	for _, x := range p.order {
		r.Warning = join(r.Warning, f.stale(x.at))
	}
	if err := p.write(ctx); err != nil {
		return r, err
	}
	p.report(&r)
	r.Matched = string(p.how)
	return r, nil
}

// open returns a file of the patch, as operations before this one left it.
func (p *plan) open(ctx context.Context, asked string) (*file, error) {
	at, err := p.fs.locate(ctx, asked)
	if err != nil {
		return nil, err
	}
	if x := p.files[at.Path]; x != nil {
		return x, nil
	}
	if err := p.fs.guard.Write(p.fs.host, at, p.foreign); err != nil {
		return nil, err
	}
	if err := p.fs.guard.Read(p.fs.host, at); err != nil {
		return nil, err
	}
	x := &file{at: at, mode: at.Mode}
	switch at.Kind {
	case Missing:
	case Regular:
		if x.was, err = p.fs.host.Read(ctx, at, p.fs.limits.EditBytes); err != nil {
			return nil, err
		}
		x.exists = true
		if !isBinary(x.was[:min(len(x.was), sampleSize)]) {
			if x.before, x.form, err = decode(x.was); err != nil {
				return nil, err
			}
		} else {
			x.before = string(x.was)
		}
		x.text = x.before
	case Directory, Other:
		return nil, ErrNotRegular
	}
	p.files[at.Path] = x
	p.order = append(p.order, x)
	return x, nil
}

func (p *plan) add(ctx context.Context, op operation) error {
	x, err := p.open(ctx, op.path)
	if err != nil {
		return err
	}
	if op.verb == addFile {
		if x.exists {
			return errors.New("exists already: use \"*** Update File:\"")
		}
		x.exists, x.text = true, op.text
		return nil
	}
	if !x.exists {
		if x.at.Kind == Missing {
			_, err := p.fs.notFound(ctx, op.path, x.at)
			return err
		}
		return errors.New("was deleted or moved above")
	}
	if op.verb == updateFile && len(op.hunks) > 0 {
		if isBinary([]byte(x.text[:min(len(x.text), sampleSize)])) {
			return errors.New("is a binary file")
		}
		var how strategy
		if x.text, how, err = op.update(x.text); err != nil {
			return err
		}
		p.how = looser(p.how, how)
	}
	switch {
	case op.verb == deleteFile:
		x.exists = false
	case op.to != "":
		to, err := p.open(ctx, op.to)
		if err != nil {
			return err
		}
		if to.exists {
			return fmt.Errorf("%s exists already, and a move does not overwrite", op.to)
		}
		to.exists, to.text, to.form, to.mode = true, x.text, x.form, x.mode
		x.exists = false
	}
	return nil
}

// write makes the files what they shall be: new and changed ones first, deletions last.
func (p *plan) write(ctx context.Context) error {
	for _, deletions := range []bool{false, true} {
		for _, x := range p.order {
			if x.exists == deletions || !x.changed() {
				continue
			}
			if err := p.one(ctx, x); err != nil {
				err = fmt.Errorf("%s: %w", x.at.Path, err)
				if undo := p.undo(context.WithoutCancel(ctx)); undo != nil {
					return fmt.Errorf("%w; and what was written could not be undone: %w", err, undo)
				}
				return fmt.Errorf("%w. Every file is as it was", err)
			}
		}
	}
	return nil
}

func (x *file) changed() bool {
	return x.exists != (x.at.Kind == Regular) || x.exists && x.text != x.before
}

func (p *plan) one(ctx context.Context, x *file) (err error) {
	if !x.exists {
		err = p.fs.host.Remove(ctx, x.at)
		if check, lerr := p.fs.host.Locate(ctx, x.at.Path); err == nil || lerr == nil && check.Kind == Missing {
			x.done = true
			p.fs.show(x.at.Path, "")
		}
		return err
	}
	mode := fs.FileMode(0)
	if x.at.Kind == Missing {
		mode = x.mode // a moved file keeps its own
	}
	now, _, err := p.fs.host.Write(ctx, x.at, x.form.encode(x.text), mode)
	// A write that failed late may have happened: it is undone too if the file is another now.
	if check, lerr := p.fs.host.Locate(ctx, x.at.Path); err == nil || lerr == nil && check.Stamp != x.at.Stamp {
		x.done = true
	}
	if err == nil {
		p.fs.show(now.Path, now.Stamp)
	}
	return err
}

// undo gives every file that was written its old content.
func (p *plan) undo(ctx context.Context) error {
	var errs []error
	for _, x := range p.order {
		if !x.done {
			continue
		}
		now, err := p.fs.host.Locate(ctx, x.at.Path)
		switch {
		case err != nil:
		case now.Path != x.at.Path:
			err = fmt.Errorf("%s: %w", x.at.Path, ErrMoved)
		case x.at.Kind == Missing && now.Kind == Regular:
			err = p.fs.host.Remove(ctx, now)
		case x.at.Kind == Regular:
			_, _, err = p.fs.host.Write(ctx, now, x.was, x.at.Mode)
		}
		p.fs.show(x.at.Path, "")
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// report says what happened, file by file.
func (p *plan) report(r *PatchResult) {
	var diffs strings.Builder
	for _, x := range p.order {
		switch {
		case !x.changed():
			continue
		case !x.exists:
			r.Deleted = append(r.Deleted, x.at.Path)
			diffs.WriteString(diff(x.at.Path, "", x.before, ""))
		case x.at.Kind == Missing:
			r.Created = append(r.Created, x.at.Path)
			diffs.WriteString(diff("", x.at.Path, "", x.text))
		default:
			r.Modified = append(r.Modified, x.at.Path)
			diffs.WriteString(diff(x.at.Path, x.at.Path, x.before, x.text))
		}
	}
	r.Diff = diffs.String()
	if r.Diff == "" && len(r.Created)+len(r.Deleted)+len(r.Modified) == 0 {
		r.NoChange, r.Note = true, "the files have these changes already; nothing was written"
	}
	if all := append(append([]string{}, r.Modified...), r.Created...); len(all) == 1 && len(r.Deleted) == 0 {
		r.Resolved = all[0]
	}
}
