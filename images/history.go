// SPDX-License-Identifier: MIT

package images

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// historyPrefix begins the tags that note what a rolling tag pointed at: one for each
// move, numbered, written before the move, never moved themselves. They keep every index
// that was ever current reachable, also those that others made.
func historyPrefix(rolling string) string { return rolling + "-history-" }

// history is where the rolling tag has been, oldest first. Read as a log: what is noted
// again was gone back to, and withdraws everything noted since.
type history struct {
	rolling string // the tag
	last    int    // the highest number; 0 = empty
	entries []Digest
}

// stack returns the releases that count, oldest first.
func (h history) stack() []Digest {
	var out []Digest
	for _, d := range h.entries {
		if n := slices.Index(out, d); n >= 0 {
			out = out[:n]
		}
		out = append(out, d)
	}
	return out
}

// withdrawn reports whether d was current and was gone back from.
func (h history) withdrawn(d Digest) bool {
	return slices.Contains(h.entries, d) && !slices.Contains(h.stack(), d)
}

// before returns what is steps before cur. If cur is not in the history, the newest entry is
// one step before it.
func (h history) before(cur Digest, steps int) (Digest, error) {
	stack := h.stack()
	at := slices.Index(stack, cur)
	if at < 0 {
		at = len(stack)
	}
	if steps < 1 || at-steps < 0 {
		return "", fmt.Errorf("%d steps back: %w: the history has %d before %s", steps, ErrNoHistory, at, cur)
	}
	return stack[at-steps], nil
}

// ErrNoHistory says that there is nothing that far back.
var ErrNoHistory = errors.New("there is no earlier release")

// history reads the history tags of a rolling tag.
func (r *Registry) history(ctx context.Context, repo Ref, rolling string) (h history, err error) {
	h.rolling = rolling
	tags, err := r.tags(ctx, repo)
	if err != nil {
		return h, err
	}
	numbers := map[int]string{}
	var order []int
	for _, t := range tags {
		digits, ok := strings.CutPrefix(t, historyPrefix(rolling))
		n, err := strconv.Atoi(digits)
		if !ok || err != nil || n < 1 || historyTag(rolling, n) != t {
			continue
		}
		numbers[n], order = t, append(order, n)
	}
	slices.Sort(order)
	for _, n := range order {
		m, err := r.manifest(ctx, repo.WithTag(numbers[n]))
		if err != nil {
			return h, err
		}
		h.last, h.entries = n, append(h.entries, m.digest)
	}
	return h, nil
}

func historyTag(rolling string, n int) string {
	return fmt.Sprintf("%s%04d", historyPrefix(rolling), n)
}

// note adds a manifest to the history, unless it is the newest entry.
func (r *Registry) note(ctx context.Context, repo Ref, h *history, m rawManifest) error {
	d := DigestOf(m.data)
	if len(h.entries) > 0 && h.entries[len(h.entries)-1] == d {
		return nil
	}
	if err := r.move(ctx, repo.WithTag(historyTag(h.rolling, h.last+1)), m); err != nil {
		return err
	}
	h.last++
	h.entries = append(h.entries, d)
	return nil
}
