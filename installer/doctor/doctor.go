// SPDX-License-Identifier: MIT

// Package doctor looks for what keeps a home's gateway from working, says what to do about
// each thing, and mends what is safe to mend. Each check is independent: one that fails or
// hangs never hides another. A finding never holds a secret.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Level says how much a finding matters.
type Level string

// The levels.
const (
	OK      Level = "ok"
	Note    Level = "note"    // worth knowing
	Warning Level = "warning" // works today
	Problem Level = "problem" // does not work
)

// Finding is one thing that a check saw.
type Finding struct {
	Check   string `json:"check"`
	Level   Level  `json:"level"`
	Message string `json:"message"`
	Fix     string `json:"fix,omitempty"`   // what to do, a command where there is one
	Fixable bool   `json:"fixable"`         // --fix does it
	Fixed   bool   `json:"fixed,omitempty"` // it was done, and the check was made again

	repair func(context.Context) error
}

// Mended returns f as one that --fix mends with a function.
func (f Finding) Mended(by func(context.Context) error) Finding {
	f.Fixable, f.repair = true, by
	return f
}

// Check is one question. Run may be called from another goroutine, and again after a repair.
type Check struct {
	Name string
	Run  func(context.Context) []Finding
}

// Options of a run.
type Options struct {
	Fix   bool          // mend what is fixable
	Limit time.Duration // for one check; 0 = 15 s
}

// Run makes all checks side by side and returns their findings in the order of the checks. A
// check that is over its time is a problem of its own; what it does afterwards is not waited
// for. With o.Fix the repairs happen one after the other, and all checks are made again.
func Run(ctx context.Context, checks []Check, o Options) []Finding {
	if o.Limit == 0 {
		o.Limit = 15 * time.Second
	}
	results := askAll(ctx, checks, o.Limit)
	if o.Fix {
		results = mend(ctx, checks, results, o.Limit)
	}
	return slices.Concat(results...)
}

func askAll(ctx context.Context, checks []Check, limit time.Duration) [][]Finding {
	results := make([][]Finding, len(checks))
	var wg sync.WaitGroup
	for i, c := range checks {
		wg.Go(func() { results[i] = c.ask(ctx, limit) })
	}
	wg.Wait()
	return results
}

// ask makes one check within its time.
func (c Check) ask(ctx context.Context, limit time.Duration) []Finding {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	done := make(chan []Finding, 1)
	go func() { done <- c.Run(ctx) }()
	select {
	case found := <-done:
		for i := range found {
			found[i].Check = c.Name
		}
		return found
	case <-ctx.Done():
		return []Finding{{Check: c.Name, Level: Problem, Message: fmt.Sprintf("no answer within %s", limit)}}
	}
}

// mend repairs what can be, and looks at everything again: what one repair changed, another
// check may have complained about.
func mend(ctx context.Context, checks []Check, found [][]Finding, limit time.Duration) [][]Finding {
	failed := make([]error, len(checks))
	tried := false
	for i := range checks {
		for _, f := range found[i] {
			if f.repair != nil {
				tried = true
				failed[i] = errors.Join(failed[i], f.repair(ctx))
			}
		}
	}
	if !tried {
		return found
	}
	again := askAll(ctx, checks, limit)
	for i, c := range checks {
		var out []Finding
		for _, f := range found[i] {
			gone := !slices.ContainsFunc(again[i], func(now Finding) bool { return now.Message == f.Message })
			if f.repair != nil && gone {
				f.Fixed = true
				out = append(out, f)
			}
		}
		if failed[i] != nil {
			out = append(out, Finding{Check: c.Name, Level: Problem, Message: "mending failed: " + failed[i].Error()})
		}
		again[i] = append(out, again[i]...)
	}
	return again
}

// Worst returns the highest level among findings that were not mended.
func Worst(found []Finding) Level {
	worst := OK
	rank := map[Level]int{OK: 0, Note: 1, Warning: 2, Problem: 3}
	for _, f := range found {
		if !f.Fixed && rank[f.Level] > rank[worst] {
			worst = f.Level
		}
	}
	return worst
}

// Count returns how many findings of a level were not mended.
func Count(found []Finding, l Level) int {
	n := 0
	for _, f := range found {
		if f.Level == l && !f.Fixed {
			n++
		}
	}
	return n
}
