// SPDX-License-Identifier: MIT

// Package mcp hosts the MCP servers that profiles are configured for: it starts or reaches
// them, lists their tools, calls them, and brings them back when they die. A server, its
// process, its connections and its tools belong to exactly one profile; two profiles that
// configure the same server have two of them, with nothing in common. It never builds an
// environment (the caller does, for each start), never reads a config file, never hands one
// profile's server to another, never repeats a call that may have been carried out, and
// never lets a server name a tool outside its own prefix.
//
// # Processes
//
// A server on standard input and output is a child of [process.Registry], in a session of
// its own. It is asked to end by closing its input, then its whole tree is killed, and only
// when it is gone is another one started: at any time a server has one process tree or
// none. It ends with [Host.Close], with the exit fence of the registry, and, if it reads its
// input, with this process however that ends; a server that ignores the end of its input
// outlives a SIGKILL of this process and is left to the service's cgroup.
//
// # Names
//
// A tool is called mcp__SERVER__TOOL, each part with every character but A-Z a-z 0-9 and _
// replaced by _, as upstream does. SERVER has no double and no trailing underscore, so that
// no tool of one server can have the name of another's. Of several that would share a name
// the one that is spelled so keeps it; the others get a hash of their real name, whatever
// connected first. Names are at most 64 bytes, the least that providers allow.
//
// # Logins
//
// A server with auth: oauth gets the access token of the profile's own login, renewed in time.
// A host never logs in, as nobody is there: [LogIn] does, for a command.
//
// # What is left out
//
// The old HTTP+SSE transport, roots, completions, resource subscriptions and progress.
package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/process"
	"github.com/hermes-appliance/hermes-appliance/appliance/redact"
)

// Config is what all servers of a host share.
type Config struct {
	Processes *process.Registry
	Log       *slog.Logger
	Version   string // of this program, as servers are told it

	// Backoff is the time before a server is brought back; zero fields take the defaults.
	Backoff Backoff

	// Elicit answers a server that asks the user something; nil = servers are told that this
	// client cannot. It is called with a context that ends with the connection or the time
	// the server has (Server.AskTimeout), and may be called concurrently.
	Elicit func(ctx context.Context, q Question) (Answer, error)
	// Sample lets a server ask the model, within its Server.Sampling; nil = servers are told that
	// this client cannot. The context ends with the connection or the time that the server has.
	Sample func(ctx context.Context, r SampleRequest) (Sample, error)
}

// Backoff says how long a server that failed is left alone: First, doubling up to Max. One
// that was up for Max is brought back at once.
type Backoff struct{ First, Max time.Duration }

// Profile is what the servers of one profile get of it. Its functions may be called at any
// time until the profile is removed or applied again, and concurrently.
type Profile struct {
	Key string // home key

	// Env builds the complete environment of a stdio server, at each start. After an error the
	// server is not started; it is tried again later, like after any other failure.
	Env func(ctx context.Context, s Server) ([]string, error)
	Dir string // where stdio servers start; "" = where this process did

	Tokens string // directory of the logins to servers, e.g. <home>/mcp-tokens
	Login  string // the command that logs in to a server, less the server's name

	// StderrLog is where stdio servers' error output goes, e.g. <home>/logs/mcp-stderr.log;
	// "" = nowhere. It is kept below MaxLog.
	StderrLog string
	// Redactor hides the profile's credentials in that log and in errors; nil hides nothing.
	Redactor *redact.Redactor
}

// ErrClosed says that the host is closed.
var ErrClosed = errors.New("mcp host is closed")

// Host holds the servers of all profiles. It is safe for concurrent use.
type Host struct {
	cfg     Config
	waits   waits
	runners sync.WaitGroup
	end     context.CancelFunc                // ends every server
	run     func(f func(ctx context.Context)) // runs f until the host ends
	mu      sync.Mutex                        // guards what follows
	ledger  map[string]*ledger                // by home key
	closed  bool
}

// waits are how long a host waits for others before it goes on without them.
type waits struct {
	ping   time.Duration // for the answer to a ping
	reason time.Duration // from the end of a process's output to its exit, which explains it
	stream time.Duration // for the headers of a stream of notifications
	bye    time.Duration // for the end of an HTTP session
}

// ledger is what belongs to one profile.
type ledger struct {
	applying sync.Mutex // one change at a time
	log      *stderrLog

	mu      sync.Mutex
	profile Profile
	servers map[string]*server
}

// New returns a host without servers. Everything it starts ends with ctx, if Close does not
// come first.
func New(ctx context.Context, c Config) *Host {
	if c.Backoff.First <= 0 {
		c.Backoff.First = time.Second
	}
	if c.Backoff.Max < c.Backoff.First {
		c.Backoff.Max = max(time.Minute, c.Backoff.First)
	}
	ctx, end := context.WithCancel(ctx)
	h := &Host{cfg: c, end: end, ledger: map[string]*ledger{}, waits: waits{
		ping: 30 * time.Second, reason: 500 * time.Millisecond, stream: streamWait, bye: 2 * time.Second,
	}}
	h.run = func(f func(context.Context)) { h.runners.Go(func() { f(ctx) }) }
	return h
}

// of returns the ledger of a profile, nil if it has none.
func (h *Host) of(key string) *ledger {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ledger[key]
}

// open returns the ledger of a profile, made if there is none, with its applying held.
func (h *Host) open(key string) (*ledger, error) {
	for {
		h.mu.Lock()
		l, closed := h.ledger[key], h.closed
		if l == nil && !closed {
			l = &ledger{servers: map[string]*server{}, log: newStderrLog(h.cfg.Log)}
			h.ledger[key] = l
		}
		h.mu.Unlock()
		if closed {
			return nil, ErrClosed
		}
		l.applying.Lock()
		h.mu.Lock()
		same := h.ledger[key] == l && !h.closed
		h.mu.Unlock()
		if same {
			return l, nil
		}
		l.applying.Unlock() // the profile was removed, or the host closed, in between
	}
}

func (l *ledger) current() Profile {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.profile
}

func (l *ledger) find(name string) *server {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.servers[name]
}

// sorted returns the servers by name.
func (l *ledger) sorted() []*server {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]*server, 0, len(l.servers))
	for _, name := range sortedKeys(l.servers) {
		out = append(out, l.servers[name])
	}
	return out
}

// Remove ends all servers of a profile and forgets it. It returns when their processes are
// gone; when ctx ends they are killed without grace.
func (h *Host) Remove(ctx context.Context, key string) error {
	l := h.of(key)
	if l == nil {
		return nil
	}
	l.applying.Lock()
	defer l.applying.Unlock()
	err := l.stop(ctx, l.sorted())
	l.log.close()
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.ledger, key)
	return err
}

// Close ends every server of every profile at the same time and returns when their
// processes are gone; when ctx ends they are killed without grace. Nothing can be started
// afterwards. Calling it again is harmless.
func (h *Host) Close(ctx context.Context) error {
	h.mu.Lock()
	h.closed = true
	var all []*ledger
	for _, l := range h.ledger {
		all = append(all, l)
	}
	h.mu.Unlock()
	errs := make([]error, len(all))
	var work sync.WaitGroup
	for i, l := range all {
		work.Go(func() {
			l.applying.Lock() // a change under way comes to its end first
			defer l.applying.Unlock()
			errs[i] = l.stop(ctx, l.sorted())
			l.log.close()
		})
	}
	work.Wait()
	h.end()
	h.runners.Wait()
	return errors.Join(errs...)
}

// stop ends servers at the same time and takes them out of the ledger.
func (l *ledger) stop(ctx context.Context, servers []*server) error {
	errs := make([]error, len(servers))
	var work sync.WaitGroup
	for i, s := range servers {
		work.Go(func() { errs[i] = s.stop(ctx) })
	}
	work.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range servers {
		if l.servers[s.cfg.Name] == s {
			delete(l.servers, s.cfg.Name)
		}
	}
	return errors.Join(errs...)
}

// Tool is what a server offers, ready for a model.
type Tool struct {
	Name        string          // mcp__server__tool
	Description string          // at most MaxDescription bytes
	Schema      json.RawMessage // a JSON schema of type object

	Server   string // as configured
	Original string // the server's own name of it; "" = one of ours (resources, prompts)
	ReadOnly bool   // the server claims that it changes nothing
	// Untrusted says that the config does not trust the server: whatever is not ReadOnly
	// needs the user's approval.
	Untrusted bool
	Parallel  bool // calls of this server's tools may overlap
}

// Tools returns what the profile's servers offer now, sorted by name. Servers that are
// configured as lazy are connected by it, and it waits for every server that has not yet
// come to its first result; when ctx ends first, it returns what there is. A server that is
// being brought back keeps its tools.
func (h *Host) Tools(ctx context.Context, key string) []Tool {
	l := h.of(key)
	if l == nil {
		return nil
	}
	servers := l.sorted()
	for _, s := range servers {
		s.wake()
	}
	var out []Tool
	for _, s := range servers {
		s.settle(ctx)
		out = append(out, s.offered()...)
	}
	sortTools(out)
	return out
}

// Call calls a tool of the profile. args is a JSON object; empty = no arguments. Result.JSON
// is always set, also for an error, and is what the model is told. A server that is being
// brought back is waited for, and one that waits for its next try is tried at once. When ctx
// ends or the time is over the server is told that the call is cancelled.
func (h *Host) Call(ctx context.Context, key, name string, args json.RawMessage) (Result, error) {
	l := h.of(key)
	if l != nil {
		for _, s := range l.sorted() {
			if t, ok := s.tool(name); ok {
				r, err := s.call(ctx, t, args)
				if err != nil {
					r = failed(err)
				}
				return r, err
			}
		}
	}
	err := error(&UnknownToolError{Tool: name})
	return failed(err), err
}
