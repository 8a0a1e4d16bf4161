// SPDX-License-Identifier: MIT

package terminal

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/process"
)

// Limits of background commands.
const (
	procsMax  = 64               // remembered ones, those that run included
	procsKeep = 30 * time.Minute // a finished one
	tailMax   = 2000             // of output in a notice
)

// Events of a background command.
const (
	EventCompleted = "completion"
	EventMatched   = "watch_match"
	EventSilenced  = "watch_disabled" // its patterns came too often; its end is told instead
)

// Event is news of a background command. Whoever gets it starts a turn, or does not.
type Event struct {
	Type    string
	ID      string
	Owner   string
	Command string
	Output  string // the line that matched, or the end of the output
	Pattern string
	Left    int // matches that were not told since the last one
	Code    int
}

// ProcsConfig is what [Procs] is made of.
type ProcsConfig struct {
	Log *slog.Logger
	// Notify is told of events, one at a time for each command; it must not block. nil = nobody.
	Notify func(Event)
	Now    func() time.Time
}

// Procs knows the background commands of all sessions. A command belongs to the session that
// started it. The end of a turn, or of the agent's part in it, never ends it (#41225): only
// [Procs.EndSession] of its owner does, unless it was started to outlive that, a kill by
// name, or the appliance's own end. It is safe for concurrent use.
type Procs struct {
	c  ProcsConfig
	mu sync.Mutex
	m  map[string]*Proc
}

// NewProcs returns one that knows nothing yet.
func NewProcs(c ProcsConfig) *Procs {
	if c.Notify == nil {
		c.Notify = func(Event) {}
	}
	return &Procs{c: c, m: map[string]*Proc{}}
}

// ProcOptions say what a background command is for.
type ProcOptions struct {
	Owner   string // the session
	Command string
	Persist bool     // it outlives the session
	Notify  bool     // its end is an event
	Watch   []string // a line that holds one of these is an event
}

// Proc is one background command.
type Proc struct {
	ID      string
	Owner   string
	Command string
	Dir     string
	Started time.Time
	Persist bool

	p     *Procs
	r     *Running
	out   *rolling
	watch *watch        // nil = nothing is looked for
	input chan struct{} // held by who writes
	done  chan struct{} // closed when exit is set

	mu     sync.Mutex
	notify bool
	told   bool // its end has been seen by the owner: no event any more
	killed bool
	ended  time.Time
	exit   process.Exit
	err    error
}

// ErrTooMany says that there are as many background commands as there may be.
var ErrTooMany = errors.New("too many background processes are running: kill one first")

// Add takes a running command over. The end of ctx does not end it.
func (p *Procs) Add(ctx context.Context, r *Running, o ProcOptions) (*Proc, error) {
	pr := &Proc{
		ID: "proc_" + randomID(), Owner: o.Owner, Command: o.Command, Persist: o.Persist, Dir: r.Dir(), Started: p.c.Now(),
		p: p, r: r, out: &rolling{}, input: make(chan struct{}, 1), done: make(chan struct{}), notify: o.Notify,
	}
	if len(o.Watch) > 0 {
		pr.watch = &watch{patterns: o.Watch, now: p.c.Now}
		pr.out.saw = pr.saw
	}
	p.mu.Lock()
	p.prune()
	if len(p.m) >= procsMax {
		p.mu.Unlock()
		return nil, ErrTooMany
	}
	p.m[pr.ID] = pr
	p.mu.Unlock()
	r.Follow(pr.out)
	go pr.follow(context.WithoutCancel(ctx))
	return pr, nil
}

// full reports whether Add would refuse.
func (p *Procs) full() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.prune()
	return len(p.m) >= procsMax
}

// prune forgets what finished long ago, and, to make room, the one that finished first.
func (p *Procs) prune() {
	var first *Proc
	for id, pr := range p.m {
		pr.mu.Lock()
		ended := pr.ended
		pr.mu.Unlock()
		switch {
		case ended.IsZero():
		case p.c.Now().Sub(ended) > procsKeep:
			delete(p.m, id)
		case first == nil || ended.Before(first.ended):
			first = pr
		}
	}
	if len(p.m) >= procsMax && first != nil {
		delete(p.m, first.ID)
	}
}

// follow sees a command to its end.
func (pr *Proc) follow(ctx context.Context) {
	exit, err := pr.r.Wait(ctx)
	if in := pr.r.Stdin(); in != nil {
		_ = in.Close() //nolint:errcheck // nobody reads it any more; without this its pipe stays open as long as the entry
	}
	pr.out.end()
	pr.mu.Lock()
	pr.exit, pr.err, pr.ended = exit, err, pr.p.c.Now()
	tell := pr.notify && !pr.told && !pr.killed
	pr.mu.Unlock()
	close(pr.done)
	if tell {
		out, _ := pr.out.text()
		pr.p.c.Notify(Event{Type: EventCompleted, ID: pr.ID, Owner: pr.Owner, Command: pr.Command, Output: tail(out, tailMax), Code: exit.Code})
	}
}

// saw is told each line of the output.
func (pr *Proc) saw(line string) {
	s := pr.watch.see(line)
	if s.pattern != "" {
		pr.p.c.Notify(Event{
			Type: EventMatched, ID: pr.ID, Owner: pr.Owner, Command: pr.Command,
			Output: tail(plainText(line), tailMax), Pattern: s.pattern, Left: s.left,
		})
	}
	if s.over {
		pr.mu.Lock()
		pr.notify = true
		pr.mu.Unlock()
		pr.p.c.Notify(Event{Type: EventSilenced, ID: pr.ID, Owner: pr.Owner, Command: pr.Command})
	}
}

// Running reports whether it has not ended yet.
func (pr *Proc) Running() bool {
	select {
	case <-pr.done:
		return false
	default:
		return true
	}
}

// get finds a command of an owner by its name, or by the beginning of it that no other has,
// at least four characters, with or without "proc_".
func (p *Procs) get(owner, id string) *Proc {
	const prefix, least = "proc_", 4
	id = strings.TrimSpace(id)
	if !strings.HasPrefix(id, prefix) {
		id = prefix + id
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var found *Proc
	for name, pr := range p.m {
		switch {
		case pr.Owner != owner:
		case name == id:
			return pr
		case len(id) >= len(prefix)+least && strings.HasPrefix(name, id):
			if found != nil {
				return nil
			}
			found = pr
		}
	}
	return found
}

// List returns the commands of an owner, the oldest first.
func (p *Procs) List(owner string) []*Proc {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.prune()
	var out []*Proc
	for _, pr := range p.m {
		if pr.Owner == owner {
			out = append(out, pr)
		}
	}
	slices.SortFunc(out, func(a, b *Proc) int {
		return cmp.Or(a.Started.Compare(b.Started), strings.Compare(a.ID, b.ID))
	})
	return out
}

// Busy are the owners of commands that run.
func (p *Procs) Busy() map[string]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[string]bool{}
	for _, pr := range p.m {
		if pr.Running() {
			out[pr.Owner] = true
		}
	}
	return out
}

// EndSession kills what a session has left running, but for what was started to outlive it,
// and forgets what has finished. It returns when all are gone.
func (p *Procs) EndSession(ctx context.Context, owner string) error {
	var (
		work sync.WaitGroup
		mu   sync.Mutex
		errs []error
	)
	for _, pr := range p.List(owner) {
		if pr.Running() && pr.Persist {
			continue
		}
		work.Go(func() {
			err := pr.kill(ctx)
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
			if err == nil {
				p.mu.Lock()
				delete(p.m, pr.ID)
				p.mu.Unlock()
			}
		})
	}
	work.Wait()
	return errors.Join(errs...)
}

// kill ends a command. Its end is then no event. What a finished one left behind is killed
// too.
func (pr *Proc) kill(ctx context.Context) error {
	running := pr.Running()
	pr.mu.Lock()
	was := pr.killed
	pr.killed = pr.killed || running
	pr.mu.Unlock()
	if err := pr.r.Kill(ctx); err != nil {
		if running && pr.Running() {
			pr.mu.Lock()
			pr.killed = was
			pr.mu.Unlock()
		}
		return err
	}
	select {
	case <-pr.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
