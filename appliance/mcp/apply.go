// SPDX-License-Identifier: MIT

package mcp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"time"
)

// Change is what [Host.Apply] did, by the names of servers, sorted.
type Change struct {
	Started   []string
	Restarted []string // their entry changed
	Stopped   []string
	Kept      []string         // untouched, whatever they were doing
	Refused   map[string]error // not started, and why
}

// Apply makes the servers of a profile those given and leaves alone every other profile and
// every server whose entry has not changed: its process, its connection and its calls go on.
// It returns when servers that are gone from the config have ended; it does not wait for new
// ones to connect. When ctx ends what is to stop is killed without grace. The error is about
// what could not be ended, or [ErrClosed].
func (h *Host) Apply(ctx context.Context, p Profile, servers []Server) (Change, error) {
	if p.Key == "" || p.Env == nil {
		return Change{}, errors.New("mcp: a profile needs a key and a way to build environments")
	}
	l, err := h.open(p.Key)
	if err != nil {
		return Change{}, err
	}
	defer l.applying.Unlock()
	l.mu.Lock()
	l.profile = p
	l.mu.Unlock()

	ch := Change{Refused: map[string]error{}}
	wanted, names := map[string]Server{}, []string{}
	for _, s := range servers {
		if _, twice := wanted[s.Name]; twice {
			return Change{}, fmt.Errorf("mcp server %s is configured twice", s.Name)
		}
		wanted[s.Name] = s
		names = append(names, s.Name)
	}
	var ending []*server
	for _, s := range l.sorted() {
		want, ok := wanted[s.cfg.Name]
		switch {
		case !ok:
			ch.Stopped = append(ch.Stopped, s.cfg.Name)
			ending = append(ending, s)
		case reflect.DeepEqual(want, s.cfg):
			ch.Kept = append(ch.Kept, s.cfg.Name)
		default:
			ch.Restarted = append(ch.Restarted, s.cfg.Name)
			ending = append(ending, s)
		}
	}
	err = l.stop(ctx, ending)
	h.fill(l, wanted, slugs(names), &ch)
	return ch, err
}

// fill starts what is not there yet, under the name it has among the others.
func (h *Host) fill(l *ledger, wanted map[string]Server, spelled map[string]string, ch *Change) {
	restarted := map[string]bool{}
	for _, name := range ch.Restarted {
		restarted[name] = true
	}
	for _, name := range sortedKeys(wanted) {
		if s := l.find(name); s != nil {
			s.rename(spelled[name])
			if s.end == nil && s.err != nil { // it never ran: nobody else changes it
				ch.Refused[name] = s.err
			}
			continue
		}
		s := newServer(h, l, wanted[name])
		s.slug = spelled[name]
		refusal := s.cfg.Check()
		switch {
		case s.cfg.Disabled:
			s.state = Disabled
		case refusal != nil:
			s.state, s.err = Failed, refusal
			ch.Refused[name] = refusal
		}
		l.mu.Lock()
		l.servers[name] = s
		l.mu.Unlock()
		if s.state != Connecting {
			continue
		}
		if !restarted[name] {
			ch.Started = append(ch.Started, name)
		}
		s.start()
	}
}

// Status is one server as health reports it. Error holds no credential.
type Status struct {
	Profile, Server string
	Transport       string // stdio or http
	State           State
	Since           time.Time
	PID             int // 0 = no process of ours
	Tools           int
	Connects        int // successful ones
	Tries           int // all
	Error           string
}

// Counts are the numbers of a host.
type Counts struct{ Servers, Ready, Processes int }

// Health returns every server, by profile and name.
func (h *Host) Health() ([]Status, Counts) {
	h.mu.Lock()
	keys, all := sortedKeys(h.ledger), maps.Clone(h.ledger)
	h.mu.Unlock()
	var (
		out []Status
		n   Counts
	)
	for _, k := range keys {
		for _, s := range all[k].sorted() {
			st := s.status()
			st.Profile = k
			out = append(out, st)
			n.Servers++
			if st.State == Ready {
				n.Ready++
			}
			if st.PID != 0 {
				n.Processes++
			}
		}
	}
	return out, n
}

func (s *server) status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Status{
		Server: s.cfg.Name, Transport: "stdio", State: s.state, Since: s.since,
		PID: s.pid, Tools: len(s.tools), Connects: s.connects, Tries: s.tries,
	}
	if s.cfg.URL != "" {
		st.Transport = "http"
	}
	if s.err != nil {
		st.Error = s.err.Error()
	}
	return st
}
