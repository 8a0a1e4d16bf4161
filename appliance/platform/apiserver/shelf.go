// SPDX-License-Identifier: MIT

package apiserver

import "sync"

// What is kept of the responses of one profile; then the oldest go. The conversations
// themselves are in the session store.
const (
	mostResponses = 500
	mostBytes     = 8 << 20
)

// kept is a response that can be asked for, and gone on from.
type kept struct {
	id           string
	session      string
	through      int64 // the last message of its turn
	instructions string
	body         []byte // as it was answered
}

// shelf holds responses in memory, for each profile apart.
type shelf struct {
	mu sync.Mutex
	of map[string]*row
}

// row is the responses of one profile, oldest first.
type row struct {
	byID  map[string]*kept
	order []*kept
	bytes int
}

func newShelf() *shelf { return &shelf{of: map[string]*row{}} }

func (s *shelf) put(profile string, k *kept) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.of[profile]
	if r == nil {
		r = &row{byID: map[string]*kept{}}
		s.of[profile] = r
	}
	r.byID[k.id] = k
	r.order = append(r.order, k)
	r.bytes += len(k.body)
	for len(r.order) > 1 && (len(r.order) > mostResponses || r.bytes > mostBytes) {
		r.drop(r.order[0])
	}
}

func (s *shelf) get(profile, id string) (*kept, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.of[profile]
	if r == nil {
		return nil, false
	}
	k, ok := r.byID[id]
	return k, ok
}

func (s *shelf) remove(profile, id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.of[profile]
	if r == nil || r.byID[id] == nil {
		return false
	}
	r.drop(r.byID[id])
	return true
}

// drop forgets a response.
func (r *row) drop(k *kept) {
	delete(r.byID, k.id)
	r.bytes -= len(k.body)
	for i, o := range r.order {
		if o == k {
			r.order = append(r.order[:i], r.order[i+1:]...)
			return
		}
	}
}
