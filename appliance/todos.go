// SPDX-License-Identifier: MIT

package appliance

import (
	"context"
	"encoding/json"
	"strings"
	"sync"

	"github.com/hermes-appliance/hermes-appliance/appliance/tool"
)

// todoList is the task list of a session. It is kept while the session is used; then its last
// state is read from the session's record.
type todoList struct {
	tool.Todo

	mu   sync.Mutex
	read bool
}

// todo returns the list of a session.
func (t *Tenant) todo(session string) *todoList {
	t.opening.Lock()
	defer t.opening.Unlock()
	if t.todos == nil {
		t.todos = map[string]*todoList{}
	}
	l := t.todos[session]
	if l == nil {
		l = &todoList{}
		t.todos[session] = l
	}
	return l
}

// todoTool is the tool that shows and changes the list of this session.
func (w *work) todoTool() tool.Tool {
	l := &tool.Todo{}
	out := l.Tool()
	out.Run = func(ctx context.Context, args tool.Args) (any, error) {
		l := w.t.todo(w.session)
		if err := l.recall(ctx, w); err != nil {
			return nil, err
		}
		return l.Tool().Run(ctx, args)
	}
	return out
}

// recall reads the list from the record of the session, the first time that it is needed.
func (l *todoList) recall(ctx context.Context, w *work) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.read {
		return nil
	}
	store, err := w.t.Sessions(ctx)
	if err != nil {
		return err
	}
	text, err := store.LastResult(ctx, w.session, "todo_list", "todo")
	if err != nil {
		return err
	}
	var was struct {
		Todos    []tool.TodoItem `json:"todos"`
		Revision int             `json:"revision"`
	}
	// Something may follow the object: a text that steered the turn. What is none is no list.
	if json.NewDecoder(strings.NewReader(text)).Decode(&was) == nil {
		l.Restore(was.Todos, was.Revision)
	}
	l.read = true
	return nil
}
