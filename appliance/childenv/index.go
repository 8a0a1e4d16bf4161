// SPDX-License-Identifier: MIT

package childenv

import "hash/maphash"

// index finds an entry by its name: a table with open addressing. It is less than half full,
// because the number of entries is known beforehand; a map of as many names would cost more
// than all the rest of a build.
type index struct {
	seed  maphash.Seed
	slots []int32 // 0 = free, else the entry's position + 1
}

func newIndex(room int) index {
	size := 64
	for size < 2*room {
		size *= 2
	}
	return index{maphash.MakeSeed(), make([]int32, size)}
}

// room is the most entries that a build can have.
func (b *builder) room() int {
	s, t := b.s, b.s.Target
	const fixed = 8 // HERMES_HOME, HOME, PATH, the mark, and some
	return len(s.Inherited) + len(t.Vars) + len(t.Bridge) + len(s.Managed) + len(s.Session) + len(s.Desktop) + len(s.Extra) +
		len(b.k.Defaults) + fixed
}

// place returns where the variable of that name is, or -1 and the slot it would get.
func (b *builder) place(name string) (slot, at int) {
	if b.caseless {
		name = fold(name)
	}
	x := &b.index
	mask := len(x.slots) - 1
	for slot = int(maphash.String(x.seed, name)) & mask; ; slot = (slot + 1) & mask {
		i := int(x.slots[slot]) - 1
		if i < 0 {
			return slot, -1
		}
		e := &b.entries[i]
		if b.caseless && e.folded == name || !b.caseless && e.name() == name {
			return slot, i
		}
	}
}
