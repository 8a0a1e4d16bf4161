// SPDX-License-Identifier: MIT

package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/migrate/yamlspan"
)

// draft is one edit of a file in memory. The document is edited by spans; beside it the
// library's reading of the file gets the same edit as a tree, and both must end up alike.
type draft struct {
	file   File
	path   []string
	state  atomicfile.State
	config *Config        // what the file says before the edit, alone
	before *yamlspan.Tree // the library's reading of it
	doc    *yamlspan.Doc
	wrote  bool               // the edit gives a value
	empty  bool               // the file's first bytes are ours: nothing was in it
	made   atomicfile.Options // how the file is made if it is not there
}

func newDraft(f File, path []string) (*draft, error) {
	c, err := Parse(f, File{})
	if err != nil {
		return nil, err
	}
	d := &draft{file: f, path: path, config: c, doc: c.layers[User].doc}
	if d.before, err = yamlspan.ReadTree(f.Data); err == nil {
		err = d.doc.Agrees(d.before)
	}
	if err != nil {
		return nil, d.refuse(err)
	}
	return d, nil
}

func (d *draft) changed() bool {
	return d.empty || string(d.doc.Bytes()) != string(d.file.Data)
}

// refuse is the error of an edit that would have to guess.
func (d *draft) refuse(err error) error {
	e := unparsable(d.file.Path, err)
	e.Fix = "nothing was changed; mend the file there, then run again"
	return e
}

// set gives the key a value, in the first way of writing it that does nothing else.
func (d *draft) set(v newValue) error {
	v, err := d.config.fit(d.path, v)
	if err != nil {
		return err
	}
	d.wrote = true
	f, found := d.doc.Find(d.path...)
	if found && slices.ContainsFunc(v.texts, func(text string) bool { return d.same(f.Node, text) }) {
		return nil
	}
	if err := d.sections(v); err != nil {
		return err
	}
	texts := v.texts
	if d.doc.Root() != nil && d.doc.Root().Style == yamlspan.Flow && !v.scalar() {
		texts = append(jsonText(v.texts[0]), texts...)
	}
	var first error
	for _, text := range texts {
		doc, err := d.put(text)
		if err == nil {
			err = d.valid(doc)
		}
		if err == nil {
			d.doc = doc
			return nil
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// sections refuses a value that would replace a section with keys in it, or take the place
// of one that this program reads.
func (d *draft) sections(v newValue) error {
	bad := func(msg, fix string) error {
		return &Error{Kind: ErrUsage, File: d.file.Path, Path: d.path, Msg: msg, Fix: fix}
	}
	f, ok := d.doc.Find(d.path...)
	if ok && f.Node.Kind == yamlspan.Mapping && len(f.Node.Pairs) > 0 {
		return bad("is a section with keys in it", "set its keys one by one, or unset it first")
	}
	id, _ := join(d.path)
	_, isKnown := d.config.known(d.path)
	if d.config.sections[id] && v.node.Kind != yamlspan.Mapping && !isKnown {
		return bad("is a section of keys", "set one of its keys")
	}
	return nil
}

// put returns the document with a value at the key.
func (d *draft) put(text string) (*yamlspan.Doc, error) {
	return d.putValue(yamlspan.Value{Scalar: text})
}

// putValue is put for what may be a section.
func (d *draft) putValue(value yamlspan.Value) (*yamlspan.Doc, error) {
	tree, err := value.Tree()
	if err != nil {
		return nil, d.refuse(err)
	}
	want := d.before.Clone()
	if want == nil {
		want = &yamlspan.Tree{Kind: yamlspan.Mapping}
	}
	f, ok := d.doc.Find(d.path...)
	var doc *yamlspan.Doc
	switch {
	case !ok || f.Shared > 0:
		doc, err = d.doc.Insert(d.path, value)
	case f.Node.Kind == yamlspan.Scalar && tree.Kind == yamlspan.Scalar:
		doc, err = d.doc.SetScalar(d.path, value.Scalar)
	default:
		doc, err = d.replace(value)
		if err == nil {
			err = want.Remove(d.path...)
		}
	}
	if err != nil {
		return nil, d.refuse(err)
	}
	want.Put(tree, d.path...)
	return doc, d.proof(doc, want)
}

// same reports whether a node says already what a text says.
func (d *draft) same(n *yamlspan.Node, text string) bool {
	w := walker{layer: d.config.layers[User], left: maxValues}
	old, err := w.decode(n, Lookup(nil).expand, 0)
	if err != nil {
		return false
	}
	now, ok := decodeText(text)
	return ok && reflect.DeepEqual(old, now)
}

// replace puts a value in the place of one of another shape: the old one steps aside under
// another name until the new one is there, so that its section is never empty.
func (d *draft) replace(v yamlspan.Value) (*yamlspan.Doc, error) {
	aside := slices.Clone(d.path)
	last := len(aside) - 1
	for n := 0; ; n++ {
		aside[last] = fmt.Sprintf("replaced%d", n)
		if _, taken := d.doc.Find(aside...); !taken {
			break
		}
	}
	doc, err := d.doc.RenameKey(d.path, aside[last])
	if err != nil {
		return nil, err
	}
	if doc, err = doc.Insert(d.path, v); err != nil {
		return nil, err
	}
	return doc.Delete(aside)
}

// unset takes the key out of the file.
func (d *draft) unset() error {
	if _, ok := d.doc.Find(d.path...); !ok {
		return nil
	}
	doc, err := d.doc.Delete(d.path)
	if err != nil {
		return d.refuse(err)
	}
	want := d.before.Clone()
	if err := want.Remove(d.path...); err != nil {
		return d.refuse(err)
	}
	if err := d.proof(doc, want); err != nil {
		return err
	}
	d.doc = doc
	return nil
}

// proof checks that the edited file is read as it was meant, by both parsers.
func (d *draft) proof(doc *yamlspan.Doc, want *yamlspan.Tree) error {
	got, err := yamlspan.ReadTree(doc.Bytes())
	if err == nil {
		err = doc.Agrees(got)
	}
	if err != nil {
		return d.refuse(err)
	}
	if ok, where := want.Equal(got); !ok {
		return &Error{
			Kind: ErrUnreadable, File: d.file.Path, Path: where, Msg: "the edited file would mean something else than was asked for",
			Fix: "nothing was changed; please report this file's shape",
		}
	}
	return nil
}

// valid checks the values of the known keys at, above and below the edited one.
func (d *draft) valid(doc *yamlspan.Doc) error {
	c, err := Parse(File{d.file.Path, doc.Bytes()}, File{})
	if err != nil {
		return err
	}
	for _, p := range c.knownPaths() {
		if n := min(len(p), len(d.path)); !hasPrefix(p[:n], d.path[:n]) {
			continue
		}
		if e := c.With(nil).fault(p); e != nil {
			return &Error{Kind: ErrUsage, Path: p, Msg: "the new value " + e.Msg, Fix: e.Fix}
		}
	}
	return nil
}

// decodeText reads a value as a command line gives it.
func decodeText(text string) (x any, ok bool) {
	l, err := newLayer("", []byte("v: "+text), User)
	if err != nil {
		return nil, false
	}
	w := walker{layer: l, left: maxValues}
	m, err := w.decode(l.doc.Root(), Lookup(nil).expand, 0)
	if err != nil {
		return nil, false
	}
	x, ok = m.(map[string]any)["v"]
	return x, ok
}

// jsonText writes a bracketed value as JSON, for a file that is JSON; nil if it cannot.
func jsonText(text string) []string {
	x, ok := decodeText(text)
	if _, err := json.Marshal(x); !ok || err != nil { // it has no word for infinity
		return nil
	}
	return []string{toJSON(x)}
}
