// SPDX-License-Identifier: MIT

package yamlspan

import "strconv"

// meaning says what an edit does to what the document says: it gets the tree before the
// edit, nil for a file without content, and returns the one after it.
type meaning func(before *Tree) (*Tree, error)

// edit returns d with the first of tries, each a set of splices, after which the document
// says what it should and nothing else. Line breaks and comments can be part of a text
// above them, so bytes that look like nothing may not be cut or added everywhere; where no
// try works the edit is refused.
func (d *Doc) edit(at int, path []string, m meaning, tries ...[]splice) (*Doc, error) {
	want, err := m(d.tree().along(path))
	if err != nil {
		return nil, &EditError{d.Line(at), path, err.Error()}
	}
	why := "cannot be edited alone"
	for i, splices := range tries {
		e, err := d.apply(splices...)
		if err != nil {
			if i == 0 {
				why = err.Error()
			}
			continue
		}
		equal, where := want.reads(e.root)
		if equal {
			e.tree = func() *Tree { return want }
			return e, nil
		}
		if i == 0 {
			why = "the edit would change how " + PathString(where) + " is read; separate the two first"
		}
	}
	return nil, &EditError{d.Line(at), path, why}
}

// inherited checks that no merge gives the key at path a value now that its own is gone.
func (d *Doc) inherited(line int, path []string) error {
	if f, ok := d.Find(path...); ok {
		return &EditError{line, path, "a merge gives this key another value, from line " + strconv.Itoa(f.Line) + ", that would come up"}
	}
	return nil
}

// scalarText reads text that is to be one scalar.
func scalarText(text string) (*Tree, error) {
	root, err := parse([]byte(text))
	switch {
	case err != nil:
		return nil, err
	case root == nil:
		return &Tree{Kind: Scalar, Scalar: "null", plain: true}, nil
	case root.Kind != Scalar:
		return nil, errNotScalar
	}
	return ownTree(root), nil
}
