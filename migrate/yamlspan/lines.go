// SPDX-License-Identifier: MIT

package yamlspan

import "math"

// LineIndex tells which lines of a file belong to which key, as the library counts them.
type LineIndex struct {
	root *Tree
	ends map[*Tree]int // key -> last line before the next key of its mapping or an outer one
}

// Lines makes the index of a tree that [ReadTree] returned.
func (t *Tree) Lines() LineIndex {
	x := LineIndex{t, map[*Tree]int{}}
	x.add(t, math.MaxInt)
	return x
}

func (x LineIndex) add(t *Tree, end int) {
	if t == nil {
		return
	}
	for i, v := range t.Values {
		last := end
		if next := i + 1; next < len(t.Values) {
			first := t.Values[next].line
			if t.Kind == Mapping {
				first = t.Keys[next].line
			}
			last = first - 1
			if t.flow {
				last = first // in brackets the next key may share this one's last line
			}
		}
		if t.Kind == Mapping {
			x.ends[t.Keys[i]] = last
		}
		x.add(v, last)
	}
}

// Of returns the first and the last line that belong to the key at path: up to the line
// before the next key, or in brackets to that of the next key. Below a value that is no
// mapping, that value's lines are meant; for a key that is not in a mapping, last is
// smaller than first.
func (x LineIndex) Of(path []string) (first, last int) {
	t := x.root
	for _, key := range path {
		if t == nil || t.Kind != Mapping {
			return first, last
		}
		i := t.index(key)
		if i < 0 {
			return 0, -1
		}
		first = t.Keys[i].line
		last = max(x.ends[t.Keys[i]], first)
		t = t.Values[i]
	}
	return first, last
}
