// SPDX-License-Identifier: MIT

package yamlspan

import (
	"slices"
	"strconv"
)

// along returns a copy of t that may be changed along path: what stands beside it is shared
// with t.
func (t *Tree) along(path []string) *Tree {
	if t == nil {
		return nil
	}
	c := *t
	c.Keys, c.Values = slices.Clone(t.Keys), slices.Clone(t.Values)
	if len(path) > 0 {
		for i, k := range c.Keys {
			if k.Kind == Scalar && k.text == path[0] {
				c.Values[i] = c.Values[i].along(path[1:])
			}
		}
	}
	return &c
}

// reads reports whether a node says what t does, like [Tree.Equal] with the node's tree but
// without making that.
func (t *Tree) reads(n *Node) (equal bool, where []string) {
	if t == nil || n == nil || n.Kind == Scalar && n.Empty() {
		return t.Equal(ownTree(n))
	}
	if t.Kind != n.Kind || t.Anchor != n.Anchor {
		return false, nil
	}
	switch n.Kind {
	case Scalar:
		same := t.text == n.Value && t.plain == (n.Style == Plain) && !t.typed && n.Tag == ""
		if !same {
			same, _ = t.Equal(ownTree(n))
		}
		return same, nil
	case Mapping:
		if len(t.Keys) != len(n.Pairs) || t.tag != "" || n.Tag != "" {
			return t.Equal(ownTree(n))
		}
		for i, p := range n.Pairs {
			if ok, _ := t.Keys[i].reads(p.Key); !ok {
				return false, []string{t.Keys[i].label()}
			}
			if ok, w := t.Values[i].reads(p.Value); !ok {
				return false, append([]string{t.Keys[i].label()}, w...)
			}
		}
		return true, nil
	case Sequence:
		if len(t.Values) != len(n.Items) || t.tag != "" || n.Tag != "" {
			return t.Equal(ownTree(n))
		}
		for i, it := range n.Items {
			if ok, w := t.Values[i].reads(it); !ok {
				return false, append([]string{strconv.Itoa(i)}, w...)
			}
		}
		return true, nil
	}
	return t.Equal(ownTree(n))
}
