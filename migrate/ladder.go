// SPDX-License-Identifier: MIT

package migrate

import (
	"fmt"
	"strings"
)

// Floor is the oldest stamp that can be migrated.
const Floor = 12

// Step brings a config from version To-1 to To.
type Step struct {
	To     int
	ID     string // stable: number and name, e.g. "48-sandbox-image"
	Title  string // one line: what it does
	Detail string // when exactly it acts, what it keeps, and why

	// LegacyKey steps act on keys whose presence alone proves what they are; only they run
	// on a file without a stamp.
	LegacyKey bool
	// AnyStamp steps retire a key that no reader knows any more, and run whatever the stamp
	// says: branch builds stamped homes with these numbers without doing the work.
	AnyStamp bool

	run func(*work) error // nil = only the stamp
}

// Ladder is the steps in order, without a gap.
type Ladder struct{ steps []Step }

// NewLadder makes a ladder. Its first step leads to [Floor]; each further one to the next
// number. Gaps, duplicates, disorder and ids that do not start with their number are errors.
func NewLadder(steps ...Step) (Ladder, error) {
	want := Floor
	for _, s := range steps {
		if s.To != want {
			return Ladder{}, fmt.Errorf("step %q leads to %d, expected %d", s.ID, s.To, want)
		}
		if !strings.HasPrefix(s.ID, fmt.Sprintf("%02d-", s.To)) {
			return Ladder{}, fmt.Errorf("step %d has the id %q; expected one that starts with the number", s.To, s.ID)
		}
		if s.Title == "" || s.Detail == "" {
			return Ladder{}, fmt.Errorf("step %q has no description", s.ID)
		}
		want++
	}
	if len(steps) == 0 {
		return Ladder{}, fmt.Errorf("a ladder needs a step to %d", Floor)
	}
	return Ladder{steps}, nil
}

// Latest is the version the ladder leads to.
func (l Ladder) Latest() int { return l.steps[len(l.steps)-1].To }

// Steps returns the steps in order.
func (l Ladder) Steps() []Step { return append([]Step(nil), l.steps...) }

// Step returns the step that leads to a version.
func (l Ladder) Step(to int) (Step, bool) {
	if i := to - Floor; i >= 0 && i < len(l.steps) {
		return l.steps[i], true
	}
	return Step{}, false
}

// Released is the ladder of this binary.
func Released() Ladder {
	l, err := NewLadder(table()...)
	if err != nil {
		panic(err) // a test holds the table to the rules
	}
	return l
}

// Latest is the config version that this binary writes.
func Latest() int { return Released().Latest() }

// table lists every step. A file v0NN_what.go that is not here fails a test.
func table() []Step {
	return []Step{
		v012(), v013(), v014(), v015(), v016(), v017(), v018(), v019(), v020(), v021(),
		v022(), v023(), v024(), v025(), v026(), v027(), v028(), v029(), v030(), v031(),
		v032(), v033(), v034(), v035(), v036(), v037(), v038(), v039(), v040(), v041(),
		v042(), v043(), v044(), v045(), v046(), v047(), v048(), v049(), v050(),
	}
}
