// SPDX-License-Identifier: MIT

package approval

import (
	"container/list"
	"slices"
	"sync"
)

// mostSessions is how many sessions of a profile keep what they were granted; then the one that
// used it longest ago is asked again.
const mostSessions = 1000

// Sessions are the grants and yolo switches of running sessions, in memory only. A session is
// one of one profile: the same id in another profile is another session. The zero value is
// ready; it is safe for concurrent use.
type Sessions struct {
	mu sync.Mutex
	of map[string]*grantees // by home key
}

// grantees are the sessions of one profile that were granted something.
type grantees struct {
	by    map[string]*list.Element // of order, by session
	order list.List                // of *grants, used last in front
}

type grants struct {
	session string
	keys    []string
	yolo    bool
}

// Granted returns what a session was granted, and whether it is in yolo mode.
func (s *Sessions) Granted(home, id string) (keys []string, yolo bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.of[home]
	if p == nil || p.by[id] == nil {
		return nil, false
	}
	p.order.MoveToFront(p.by[id])
	g := p.by[id].Value.(*grants)
	return slices.Clone(g.keys), g.yolo
}

// Grant adds to a session.
func (s *Sessions) Grant(home, id string, keys []string) {
	s.change(home, id, func(g *grants) { g.keys = AddTo(g.keys, keys) })
}

// Revoke takes grants of a session back.
func (s *Sessions) Revoke(home, id string, keys []string) {
	s.change(home, id, func(g *grants) { g.keys = RemoveFrom(g.keys, keys) })
}

// SetYolo switches a session's yolo mode.
func (s *Sessions) SetYolo(home, id string, on bool) {
	s.change(home, id, func(g *grants) { g.yolo = on })
}

// Forget ends a session.
func (s *Sessions) Forget(home, id string) {
	s.change(home, id, func(g *grants) { g.keys, g.yolo = nil, false })
}

// ForgetAll ends all sessions of a profile.
func (s *Sessions) ForgetAll(home string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.of, home)
}

// change does nothing without an id: there is no session that everybody shares.
func (s *Sessions) change(home, id string, f func(*grants)) {
	if home == "" || id == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.of[home]
	if p == nil {
		p = &grantees{by: map[string]*list.Element{}}
		if s.of == nil {
			s.of = map[string]*grantees{}
		}
		s.of[home] = p
	}
	at := p.by[id]
	if at == nil {
		at = p.order.PushFront(&grants{session: id})
		p.by[id] = at
	}
	p.order.MoveToFront(at)
	g := at.Value.(*grants)
	f(g)
	switch {
	case len(g.keys) == 0 && !g.yolo:
		p.drop(at)
	case len(p.by) > mostSessions:
		p.drop(p.order.Back())
	}
	if len(p.by) == 0 {
		delete(s.of, home)
	}
}

func (p *grantees) drop(at *list.Element) {
	delete(p.by, p.order.Remove(at).(*grants).session)
}
