// SPDX-License-Identifier: MIT

package tool

import (
	"context"
	"slices"
	"strings"
	"sync"
)

const (
	maxTodos     = 256
	maxTodoChars = 4000
)

// TodoItem is one task of a session's list.
type TodoItem struct {
	ID      string `json:"id"`
	Content string `json:"content"`
	Status  string `json:"status"` // pending, in_progress, completed or cancelled
	Parent  string `json:"parent,omitempty"`
}

// Todo is the task list of one session. It is safe for concurrent use. The zero value is an
// empty list.
type Todo struct {
	mu       sync.Mutex
	items    []TodoItem
	revision int
}

// Items returns the list, first things first, and how often it was changed.
func (t *Todo) Items() ([]TodoItem, int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.items), t.revision
}

// Restore sets the list to what an earlier part of the session left.
func (t *Todo) Restore(items []TodoItem, revision int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.items, t.revision = tidy(items), max(revision, 0)
}

// Block renders what is still to do, for a conversation whose start was summed up; "" = nothing.
func (t *Todo) Block() string {
	items, _ := t.Items()
	marks := map[string]string{"completed": "[x]", "in_progress": "[>]", "pending": "[ ]", "cancelled": "[~]"}
	open := func(i TodoItem) bool { return i.Status == "pending" || i.Status == "in_progress" }
	keep := map[string]bool{}
	for _, i := range items {
		for at, ok := i, open(i); ok; at, ok = find(items, at.Parent) {
			keep[at.ID] = true
		}
	}
	var lines []string
	var render func(parent, pad string)
	render = func(parent, pad string) {
		for _, i := range items {
			if i.Parent == parent && keep[i.ID] {
				lines = append(lines, pad+"- "+marks[i.Status]+" "+i.ID+". "+i.Content+" ("+i.Status+")")
				render(i.ID, pad+"  ")
			}
		}
	}
	render("", "")
	if len(lines) == 0 {
		return ""
	}
	return "[Your active task list was preserved across context compression]\n" + strings.Join(lines, "\n")
}

func find(items []TodoItem, id string) (TodoItem, bool) {
	i := slices.IndexFunc(items, func(x TodoItem) bool { return x.ID == id && id != "" })
	if i < 0 {
		return TodoItem{}, false
	}
	return items[i], true
}

// tidy makes a list that every reader can show: unique ids, known states, parents that exist
// and no circle of them.
func tidy(items []TodoItem) []TodoItem {
	var out []TodoItem
	for n, i := range items {
		i.ID, i.Content, i.Status, i.Parent = strings.TrimSpace(i.ID), strings.TrimSpace(i.Content), strings.ToLower(strings.TrimSpace(i.Status)), strings.TrimSpace(i.Parent)
		if i.ID != "" && slices.ContainsFunc(items[n+1:], func(x TodoItem) bool { return strings.TrimSpace(x.ID) == i.ID }) {
			continue // the last one counts
		}
		if i.ID == "" {
			i.ID = "?"
		}
		if i.Content == "" {
			i.Content = "(no description)"
		}
		i.Content = clip(i.Content, maxTodoChars)
		if !slices.Contains([]string{"pending", "in_progress", "completed", "cancelled"}, i.Status) {
			i.Status = "pending"
		}
		out = append(out, i)
	}
	out = out[:min(len(out), maxTodos)]
	for n := range out {
		seen := map[string]bool{out[n].ID: true}
		for at, ok := find(out, out[n].Parent); out[n].Parent != ""; at, ok = find(out, at.Parent) {
			if !ok || seen[at.ID] {
				out[n].Parent = ""
				break
			}
			if seen[at.ID] = true; at.Parent == "" {
				break
			}
		}
	}
	return out
}

// write changes the list.
func (t *Todo) write(given []Args, merge bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var next []TodoItem
	if merge {
		next = slices.Clone(t.items)
	}
	for _, g := range given {
		item := TodoItem{strings.TrimSpace(g.String("id")), g.String("content"), g.String("status"), g.String("parent")}
		i := slices.IndexFunc(next, func(x TodoItem) bool { return x.ID == item.ID && merge })
		if i < 0 {
			next = append(next, item)
			continue
		}
		if strings.TrimSpace(item.Content) != "" {
			next[i].Content = item.Content
		}
		if item.Status != "" {
			next[i].Status = item.Status
		}
		if _, given := g["parent"]; given {
			next[i].Parent = item.Parent
		}
	}
	if next = tidy(next); !slices.Equal(next, t.items) {
		t.items = next
		t.revision++
	}
}

// Tool returns the tool "todo_list".
func (t *Todo) Tool() Tool {
	item := object(map[string]Schema{
		"id": text("Short id"), "content": text("The task"), "status": choice("How far it is", "pending", "in_progress", "completed", "cancelled"),
		"parent": text("Id of the task it is a part of; leave out at the top"),
	}, "id")
	return Tool{
		Name: "todo_list", Aliases: []string{"todo"}, Toolset: "todo",
		Description: "A task list for work of three or more steps. Without arguments it shows the list. The order is the priority; one task at a time is in_progress. " +
			"For 'all N things', one task for each. Mark a task completed when its result was checked; cancel what failed and add what is to be done instead. Always returns the whole list.",
		Schema: object(map[string]Schema{
			"todos": list("The tasks", item),
			"merge": flag("true changes tasks by id and adds new ones; false replaces the list"),
		}),
		Run: func(_ context.Context, a Args) (any, error) {
			if a.Has("todos") {
				t.write(a.Objects("todos"), a.Bool("merge"))
			}
			items, revision := t.Items()
			n := map[string]int{"total": len(items), "pending": 0, "in_progress": 0, "completed": 0, "cancelled": 0}
			for _, i := range items {
				n[i.Status]++
			}
			if items == nil {
				items = []TodoItem{}
			}
			return map[string]any{"todos": items, "revision": revision, "summary": n}, nil
		},
	}
}
