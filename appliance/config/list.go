// SPDX-License-Identifier: MIT

package config

import (
	"context"
	"slices"

	"github.com/hermes-appliance/hermes-appliance/migrate/yamlspan"
)

// EditList changes a list of texts item by item: items that edit leaves out are cut, those it
// adds at the end are appended, and every other item keeps its place, its quotes and its
// comments. edit gets the list as the file has it when it is locked, may be called more than
// once, and must not reorder. The error is that of [Editor.Set].
func (e Editor) EditList(ctx context.Context, path []string, edit func([]string) []string) (Change, error) {
	return e.edit(ctx, path, func(d *draft) error { return d.items(edit) })
}

// List returns a list of texts as the file of the user has it, nil for none.
func (e Editor) List(path []string) ([]string, error) {
	d, err := e.draft(path, func(*draft) error { return nil })
	if err != nil {
		return nil, err
	}
	return d.texts()
}

// texts reads the list at the draft's key.
func (d *draft) texts() ([]string, error) {
	f, ok := d.doc.Find(d.path...)
	if !ok || isNull(f.Node) {
		return nil, nil
	}
	bad := func(line int, msg string) error {
		return &Error{Kind: ErrType, File: d.file.Path, Line: line, Path: d.path, Msg: msg, Fix: "make it a list of texts"}
	}
	if f.Node.Kind != yamlspan.Sequence {
		return nil, bad(f.Line, "is "+kindOf(f.Node)+"; expected a list")
	}
	var out []string
	for _, item := range f.Node.Items {
		s, ok := yamlspan.Resolve(item).(string)
		if !ok {
			return nil, bad(d.doc.Line(item.Start), "has an item that is no text")
		}
		out = append(out, s)
	}
	return out, nil
}

// items applies an edit of the list.
func (d *draft) items(edit func([]string) []string) error {
	old, err := d.texts()
	if err != nil {
		return err
	}
	now := edit(slices.Clone(old))
	kept := slices.DeleteFunc(slices.Clone(old), func(s string) bool { return !slices.Contains(now, s) })
	if len(now) < len(kept) || !slices.Equal(now[:len(kept)], kept) {
		return &Error{Kind: ErrUsage, File: d.file.Path, Path: d.path, Msg: "the items of a list cannot be put in another order", Fix: "edit the file"}
	}
	added := now[len(kept):]
	if len(kept) == len(old) && len(added) == 0 {
		return nil
	}
	d.wrote = true
	doc, want := d.doc, d.before.Clone()
	if want == nil {
		want = &yamlspan.Tree{Kind: yamlspan.Mapping}
	}
	if len(kept) < len(old) {
		gone := func(s string) bool { return !slices.Contains(now, s) }
		if doc, _, err = doc.RemoveItems(d.path, gone); err != nil {
			return d.refuse(err)
		}
		list := want.At(d.path...)
		list.Values = slices.DeleteFunc(list.Values, func(t *yamlspan.Tree) bool { return gone(t.Text()) })
	}
	if len(added) > 0 {
		if doc, err = d.appended(doc, want, added); err != nil {
			return err
		}
	}
	if err := d.proof(doc, want); err != nil {
		return err
	}
	d.doc = doc
	return nil
}

// appended adds items to the list, or makes it.
func (d *draft) appended(doc *yamlspan.Doc, want *yamlspan.Tree, items []string) (*yamlspan.Doc, error) {
	value := yamlspan.Value{}
	for _, s := range items {
		value.List = append(value.List, yamlspan.Quote(s))
	}
	f, ok := doc.Find(d.path...)
	if ok && f.Node.Kind == yamlspan.Sequence {
		list := want.At(d.path...)
		for _, text := range value.List {
			var err error
			if doc, err = doc.AppendItem(d.path, text); err != nil {
				return nil, d.refuse(err)
			}
			item, err := yamlspan.ScalarTree(text)
			if err != nil {
				return nil, d.refuse(err)
			}
			list.Values = append(list.Values, item)
		}
		return doc, nil
	}
	tree, err := value.Tree()
	if err != nil {
		return nil, d.refuse(err)
	}
	if ok { // "key:" without a value
		if doc, err = d.replace(value); err == nil {
			err = want.Remove(d.path...)
		}
	} else {
		doc, err = doc.Insert(d.path, value)
	}
	if err != nil {
		return nil, d.refuse(err)
	}
	want.Put(tree, d.path...)
	return doc, nil
}
