// SPDX-License-Identifier: MIT

package sandbox

import (
	"cmp"
	"context"
	"maps"
	"slices"
)

// Info describes a container of a profile.
type Info struct {
	ID, Name string
	Task     string // as its label has it
	Image    string
	State    string // running, exited, …
	Own      bool   // false: it may be another home's, see package doc
}

// Switch is an open question: the profile has a sandbox of one image, and the default is
// another one. Only a person answers it; a gateway or a cron job logs it.
type Switch struct {
	Current    string // the image of most of the containers below
	Target     string // the image that is the default now
	Containers []Info
}

// Answer is the value of terminal.docker_image that answers the question: yes moves to the
// target, no stays. Both are a pin, which ends the question.
func (s Switch) Answer(yes bool) string {
	if yes {
		return s.Target
	}
	return s.Current
}

// List returns the containers of a profile, of all its tasks.
func (e *Engine) List(ctx context.Context, s Spec) ([]Info, error) {
	items, err := e.list(ctx, labelProfile+"="+s.profileLabel())
	if err != nil {
		return nil, err
	}
	var out []Info
	for _, it := range items {
		in := Info{ID: it.ID, Name: nameOf(it), Task: it.Labels[labelTask], Image: it.Image, State: string(it.State), Own: true}
		if home, ok := it.Labels[labelHome]; ok && home != s.homeLabel() {
			continue
		} else if !ok {
			own := s
			own.Task = in.Task
			if own.Data != "" {
				own.Data = sibling(s.Data, in.Task)
			}
			in.Own, _ = own.owns(it)
		}
		out = append(out, in)
	}
	slices.SortFunc(out, func(a, b Info) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// Pending returns the open question of a profile, nil if there is none: somebody chose the
// image, or every container is of the image that is wanted. Callers that are about to start
// something take an error for none.
func (e *Engine) Pending(ctx context.Context, s Spec) (*Switch, error) {
	if s.Pinned {
		return nil, nil //nolint:nilnil // no question
	}
	all, err := e.List(ctx, s)
	if err != nil {
		return nil, err
	}
	q := Switch{Target: s.Image}
	count := map[string]int{}
	for _, in := range all {
		if in.Own {
			if c, err := e.inspect(ctx, in.ID); err == nil {
				in.Image = c.image
			}
			if !sameImage(in.Image, s.Image) {
				q.Containers = append(q.Containers, in)
				count[in.Image]++
			}
		}
	}
	if len(q.Containers) == 0 {
		return nil, nil //nolint:nilnil // no question
	}
	q.Current = slices.MaxFunc(slices.Sorted(maps.Keys(count)), func(a, b string) int { return cmp.Compare(count[a], count[b]) })
	return &q, nil
}
