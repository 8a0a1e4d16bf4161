// SPDX-License-Identifier: MIT

// Package agent is the turn loop: it asks a model, runs the tools that the model calls, gives
// the results back, and goes on until there is an answer. It gives retries with fallbacks,
// compression of a history that no longer fits, a guard against loops, interrupts and
// steering, and a record that is well formed at every moment: each call is recorded before it
// runs, and has exactly one result, whatever stops the turn.
//
// A turn never ends without an answer or an error for the user. The package never keeps a
// transcript between turns, never decides what a tool may do (approvals are inside the
// tools), and never writes a file or a database itself: it works through the interfaces that
// it declares.
package agent

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/model"
)

// Model answers requests; [model.Client] is one.
type Model interface {
	// Stream gives each piece of an answer to emit, on the calling goroutine, and returns
	// the whole. On failure the answer holds what had come, and the error is a *model.Error
	// or the cause of ctx.
	Stream(ctx context.Context, r model.Route, req model.Request, emit func(model.Delta)) (model.Answer, error)
}

// Traits say how the loop may treat a call.
type Traits struct {
	Name     string // of the tool, for a call by an older name of it; "" = the call's
	Parallel bool   // may run beside other parallel calls
	ReadOnly bool   // changes nothing: the same result again is no progress
	Tolerant bool   // its failures are ordinary work: a failing test run, a page that times out
	Polls    bool   // asking again and again is what it is for
	Inline   bool   // its result is never moved to a file: it is the way to read such files
}

// Output is what a tool brought.
type Output struct {
	Text   string        // a JSON object, by convention {"error": "…"} on failure
	Images []model.Image // shown to models that can see
	Failed bool
}

// Tools are what the model can call.
type Tools interface {
	// Specs are the tools in the order in which the model sees them. Within a session they
	// should not change: the prompt cache of the provider hangs on it.
	Specs() []model.ToolSpec
	Traits(c model.Call) Traits
	// Call runs a call whose arguments are a JSON object. It returns soon after ctx ends. A
	// panic in it is a failed call. It is called concurrently for calls that are Parallel.
	Call(ctx context.Context, c model.Call, args json.RawMessage) Output
}

// Session is the record of a conversation. Its methods are not called concurrently. A change
// is durable when the method returns.
type Session interface {
	ID() string
	// Prompt returns the system prompt that the session began with, "" before that.
	Prompt(ctx context.Context) (string, error)
	SetPrompt(ctx context.Context, text string) error
	History(ctx context.Context) ([]model.Message, error)
	Append(ctx context.Context, m model.Message) error
	// Spend records the tokens of one call of a model.
	Spend(ctx context.Context, s Spending) error
	// Compress ends this session and returns its child, which begins with history.
	Compress(ctx context.Context, history []model.Message) (Session, error)
}

// Spending is one call of a model, for the books.
type Spending struct {
	Provider string
	Model    string // as it was asked for
	Purpose  string // "turn" or "compression"
	Usage    model.Usage
	Took     time.Duration
}

// Clock is the time. The zero value of [Options] has the real one.
type Clock interface {
	Now() time.Time
	After(d time.Duration) <-chan time.Time
}

// Spiller keeps results that are too big for the conversation where the session's file
// tools can read them.
type Spiller interface {
	// Spill writes exactly text and returns the path under which the tools see it. id is
	// the id of the call, which may hold anything.
	Spill(ctx context.Context, id, text string) (path string, err error)
}

// Meter counts what happens, by the names of upstream's counters. It must not block.
type Meter interface {
	Count(name string, dims map[string]string)
}

// Defaults of [Options].
const (
	DefaultMaxSteps  = 90
	DefaultRetries   = 3
	DefaultMaxWait   = 2 * time.Minute
	DefaultToolGrace = 10 * time.Second
	DefaultParallel  = 8
)

// Options are what an agent works with. Model, Routes, Tools and Prompt are required.
type Options struct {
	Model     Model
	Routes    []model.Route // the first is used, the others when it fails (fallback_providers)
	Auxiliary model.Route   // for compression; the zero route = Routes[0]
	Tools     Tools
	// Prompt builds the system prompt. It is asked once a session. See [Prompt.Build].
	Prompt func(ctx context.Context) (string, error)

	Clock  Clock               // nil = the real one
	Spill  Spiller             // nil = big results are cut
	Redact func(string) string // of tool results, before anybody sees them; nil = none
	Meter  Meter               // nil = nothing is counted
	Log    *slog.Logger        // nil = nothing is logged

	Effort    string        // reasoning effort; "" = the provider's default
	MaxSteps  int           // model calls with tools in a turn (agent.max_turns); 0 = DefaultMaxSteps
	Retries   int           // of one route, after the first try; 0 = DefaultRetries, negative = none
	MaxWait   time.Duration // longer than this no provider is waited for; 0 = DefaultMaxWait
	ToolGrace time.Duration // for a tool to end after an interrupt; 0 = DefaultToolGrace
	Parallel  int           // calls that run at the same time; 0 = DefaultParallel

	Compression Compression
	Guard       Guard
	// SpillOver is the size in bytes from which a result is moved to a file; 0 = 100,000.
	SpillOver int
}

// Agent runs turns. It keeps nothing between them and is safe for concurrent use by turns of
// different sessions; turns of one session must follow each other.
type Agent struct{ o Options }

// New makes an agent. Missing required options are a mistake of the program.
func New(o Options) (*Agent, error) {
	if o.Model == nil || len(o.Routes) == 0 || o.Tools == nil || o.Prompt == nil {
		return nil, errors.New("agent: model, routes, tools and prompt are required")
	}
	if o.Clock == nil {
		o.Clock = realClock{}
	}
	if o.Redact == nil {
		o.Redact = func(s string) string { return s }
	}
	if o.Meter == nil {
		o.Meter = noMeter{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	setDefault(&o.MaxSteps, DefaultMaxSteps)
	setDefault(&o.Retries, DefaultRetries)
	setDefault(&o.MaxWait, DefaultMaxWait)
	setDefault(&o.ToolGrace, DefaultToolGrace)
	setDefault(&o.Parallel, DefaultParallel)
	setDefault(&o.SpillOver, 100_000)
	if o.Auxiliary.Provider == "" && o.Auxiliary.Model == "" {
		o.Auxiliary = o.Routes[0]
	}
	o.Compression.defaults()
	o.Guard.defaults()
	return &Agent{o}, nil
}

func setDefault[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

type realClock struct{}

func (realClock) Now() time.Time                         { return time.Now() }
func (realClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

type noMeter struct{}

func (noMeter) Count(string, map[string]string) {}
