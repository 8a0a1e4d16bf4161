// SPDX-License-Identifier: MIT

package secret

import "context"

// Get returns a secret for the task of ctx (S3):
//
//  1. a global name is always the process's;
//  2. else what the bound scope has counts, also if it is empty;
//  3. a routed task has nothing else: ok is false and the caller takes its default;
//  4. a task of the launch profile has the process's value;
//  5. without a scope a routed task gets an [*UnscopedError], and the same goes for every task
//     after [Store.Freeze];
//  6. any other task without a scope has the process's value.
func (s *Store) Get(ctx context.Context, name string) (v Value, ok bool, err error) {
	if s.c.Global(name) {
		v, ok = s.process(name)
		return v, ok, nil
	}
	sc := From(ctx)
	if sc == nil {
		if s.isolated(ctx) {
			return Value{}, false, unscoped(name)
		}
		v, ok = s.process(name)
		return v, ok, nil
	}
	if v, ok = sc.Lookup(name); ok || sc.foreign || s.isolated(ctx) {
		return v, ok, nil
	}
	v, ok = s.process(name)
	return v, ok, nil
}

func (s *Store) isolated(ctx context.Context) bool {
	return s.frozen.Load() != nil || s.c.Routed(ctx)
}

func (s *Store) process(name string) (Value, bool) {
	v, ok := s.c.Lookup(name)
	if !ok {
		return Value{}, false
	}
	return Value{name, Wrap(v), Origin{Kind: Launch}}, true
}
