// SPDX-License-Identifier: MIT

package gateway

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/agent"
	"github.com/hermes-appliance/hermes-appliance/appliance/approval"
	"github.com/hermes-appliance/hermes-appliance/appliance/model"
)

func text(s string) agent.Event { return agent.Event{Kind: agent.TextDelta, Text: s} }

// collect reads a feed to its end.
func collect(t *testing.T, f *Feed) (kinds []string) {
	t.Helper()
	for {
		e, ok, err := f.Next(t.Context())
		if err != nil {
			t.Error(err)
			return kinds
		}
		if !ok {
			return kinds
		}
		kinds = append(kinds, string(e.Kind))
	}
}

func TestEveryFeedSeesEverything(t *testing.T) {
	t.Parallel()
	s := NewTurns(time.Now, nil)
	turn, err := s.Start(t.Context(), "a", Ask{}, 0, func(_ context.Context, t *Turn, emit func(agent.Event)) (agent.Result, error) {
		t.Named("s1")
		for i := range 500 {
			emit(text(fmt.Sprint(i)))
		}
		emit(agent.Event{Kind: agent.Final, Text: "done"})
		return agent.Result{Text: "done"}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			got := collect(t, turn.Feed())
			if len(got) != 502 || got[0] != string(SessionNamed) || got[501] != string(agent.Final) {
				t.Errorf("%d events", len(got))
			}
		})
	}
	wg.Wait()
	if r, err := turn.Result(t.Context()); err != nil || r.Text != "done" || turn.Session() != "s1" {
		t.Errorf("%+v %v %s", r, err, turn.Session())
	}
	if got := collect(t, turn.Feed()); len(got) != 502 { // late, as /v1/runs/{id}/events may be
		t.Errorf("a late feed: %d events", len(got))
	}
}

// TestReportPicoClaw36NoError: whatever happens, whoever follows gets an end.
func TestReportPicoClaw36NoError(t *testing.T) {
	t.Parallel()
	s := NewTurns(time.Now, nil)
	for name, run := range map[string]Runner{
		"an error": func(context.Context, *Turn, func(agent.Event)) (agent.Result, error) {
			return agent.Result{}, errors.New("no provider")
		},
		"a panic": func(context.Context, *Turn, func(agent.Event)) (agent.Result, error) { panic("boom") },
	} {
		turn, err := s.Start(t.Context(), "a", Ask{}, 0, run)
		if err != nil {
			t.Fatal(err)
		}
		if got := collect(t, turn.Feed()); len(got) != 1 || got[0] != string(agent.Failed) {
			t.Errorf("%s: %v", name, got)
		}
		if _, err := turn.Result(t.Context()); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if s.Active() != 0 {
		t.Errorf("%d turns run", s.Active())
	}
}

// asking runs a turn that asks for n approvals at once and reports the answers.
func asking(n int, timeout time.Duration, answers chan<- approval.Answer) Runner {
	return func(ctx context.Context, t *Turn, _ func(agent.Event)) (agent.Result, error) {
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				answers <- t.Permit(ctx, Question{Verdict: approval.Verdict{Shown: fmt.Sprint("cmd ", i), Reason: "dangerous", Grants: []string{"g"}}, Timeout: timeout})
			})
		}
		wg.Wait()
		return agent.Result{}, nil
	}
}

// TestReportB15SecondApproval: several questions wait side by side, each with its id, and one
// answer is for one question (H#81026, PR#4973).
func TestReportB15SecondApproval(t *testing.T) {
	t.Parallel()
	answers := make(chan approval.Answer, 3)
	turn, err := NewTurns(time.Now, nil).Start(t.Context(), "a", Ask{Attended: true}, 0, asking(3, time.Minute, answers))
	if err != nil {
		t.Fatal(err)
	}
	f := turn.Feed()
	var ids []string
	for len(ids) < 3 {
		e, ok, err := f.Next(t.Context())
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		if e.Kind == ApprovalAsked {
			ids = append(ids, e.Approval.ID)
		}
	}
	if got := turn.Approvals(); len(got) != 3 || !got[0].Grants || got[0].Command == "" {
		t.Errorf("%+v", got)
	}
	if err := turn.Answer(ids[1], approval.Once); err != nil {
		t.Fatal(err)
	}
	if got := <-answers; got != approval.Once {
		t.Errorf("got %v", got)
	}
	if err := turn.Answer(ids[1], approval.Always); !errors.Is(err, ErrNoApproval) {
		t.Errorf("answered twice: %v", err)
	}
	if len(answers) != 0 {
		t.Error("one answer was taken for another question")
	}
	for range 2 {
		if err := turn.Answer("", approval.ForSession); err != nil {
			t.Fatal(err)
		}
		if got := <-answers; got != approval.ForSession {
			t.Errorf("got %v", got)
		}
	}
	if err := turn.Answer("", approval.Once); !errors.Is(err, ErrNoApproval) {
		t.Errorf("nothing waits: %v", err)
	}
	collect(t, f)
}

func TestApprovalsThatNobodyAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ask  Ask
		wait time.Duration
		do   func(*Turn)
	}{
		"nobody is there":  {Ask{}, time.Minute, func(*Turn) {}},
		"the time is over": {Ask{Attended: true}, time.Millisecond, func(*Turn) {}},
		"the turn stops":   {Ask{Attended: true}, time.Minute, func(t *Turn) { t.Stop("stop") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answers := make(chan approval.Answer, 2)
			turn, err := NewTurns(time.Now, nil).Start(t.Context(), "a", c.ask, 0, asking(2, c.wait, answers))
			if err != nil {
				t.Fatal(err)
			}
			c.do(turn)
			for range 2 {
				if got := <-answers; got != approval.Deny {
					t.Errorf("got %v", got)
				}
			}
			<-turn.Done()
			if turn.Stopping() || len(turn.Approvals()) != 0 {
				t.Error("something is left")
			}
		})
	}
}

func TestTurnsOfProfiles(t *testing.T) {
	t.Parallel()
	var told atomic.Int32
	now := time.Unix(1_800_000_000, 0)
	var mu sync.Mutex
	s := NewTurns(func() time.Time { mu.Lock(); defer mu.Unlock(); return now }, func(n int) { told.Store(int32(n)) })
	release := make(chan struct{})
	wait := func(context.Context, *Turn, func(agent.Event)) (agent.Result, error) {
		<-release
		return agent.Result{}, nil
	}
	a, err := s.Start(t.Context(), "a", Ask{}, 1, wait)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Start(t.Context(), "a", Ask{}, 1, wait); !errors.Is(err, ErrBusy) {
		t.Errorf("a second turn: %v", err)
	}
	b, err := s.Start(t.Context(), "b", Ask{}, 1, wait)
	if err != nil {
		t.Errorf("another profile is held up: %v", err)
	}
	if _, ok := s.Get("b", a.ID); ok {
		t.Error("a profile finds the turn of another one")
	}
	if got, ok := s.Get("a", a.ID); !ok || got != a {
		t.Error("a profile does not find its own turn")
	}
	if told.Load() != 2 || s.Active() != 2 || len(s.Running("a")) != 1 || len(s.Running("")) != 2 {
		t.Errorf("told %d, active %d", told.Load(), s.Active())
	}
	close(release)
	<-a.Done()
	<-b.Done()
	if err := s.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, ok := s.Get("a", a.ID); !ok {
		t.Error("a turn that just ended is gone")
	}
	mu.Lock()
	now = now.Add(keepTurn + time.Second)
	mu.Unlock()
	s.mu.Lock()
	s.sweep()
	s.mu.Unlock()
	if _, ok := s.Get("a", a.ID); ok {
		t.Error("a turn is kept for ever")
	}
	if _, err := s.Start(t.Context(), "a", Ask{}, 0, wait); !errors.Is(err, ErrDraining) {
		t.Errorf("a turn while draining: %v", err)
	}
}

// TestReportB23EndedTurnsAreBounded: what is kept of turns that are over does not grow with how many
// there were (H#80764), and a busy profile takes nothing from another.
func TestReportB23EndedTurnsAreBounded(t *testing.T) {
	t.Parallel()
	s := NewTurns(time.Now, nil)
	start := func(profile string, a Ask) *Turn {
		t.Helper()
		turn, err := s.Start(t.Context(), profile, a, 0, func(context.Context, *Turn, func(agent.Event)) (agent.Result, error) {
			return agent.Result{}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		<-turn.Done()
		return turn
	}
	quiet, first := start("quiet", Ask{}), start("busy", Ask{})
	for range mostEnded {
		start("busy", Ask{})
	}
	last := start("busy", Ask{})
	nameless := start("busy", Ask{Nameless: true})
	if err := s.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	found := func(turn *Turn) bool { _, ok := s.Get(turn.Profile, turn.ID); return ok }
	if !found(quiet) || !found(last) || found(first) || found(nameless) {
		t.Errorf("quiet %v, last %v, first %v, nameless %v", found(quiet), found(last), found(first), found(nameless))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.turns) != mostEnded+1 {
		t.Errorf("%d turns are kept", len(s.turns))
	}
}

// TestReportB23EventsAreBounded: turns with long answers lose their events early; how they ended
// can be asked for, and is the last event that somebody who follows sees.
func TestReportB23EventsAreBounded(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var mu sync.Mutex
	s := NewTurns(func() time.Time { mu.Lock(); defer mu.Unlock(); return now }, nil)
	const each = mostEvents / 4
	var turns []*Turn
	for range 10 {
		turn, err := s.Start(context.Background(), "a", Ask{}, 0, func(_ context.Context, _ *Turn, emit func(agent.Event)) (agent.Result, error) {
			for range each {
				emit(agent.Event{Kind: agent.TextDelta, Text: "x"})
			}
			emit(agent.Event{Kind: agent.Failed})
			return agent.Result{Text: "result"}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		<-turn.Done()
		turns = append(turns, turn)
	}
	if err := s.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, turn := range turns {
		total += turn.weight().events
	}
	if total > mostEvents+len(turns) {
		t.Errorf("%d events are kept", total)
	}
	for i, want := range map[int]int{0: 1, 9: each + 1} {
		feed, n, last := turns[i].Feed(), 0, agent.Event{}
		for {
			e, ok, err := feed.Next(t.Context())
			if !ok || err != nil {
				break
			}
			n, last = n+1, e.Event
		}
		if n != want || last.Kind != agent.Failed {
			t.Errorf("turn %d: %d events, the last %v; want %d", i, n, last.Kind, want)
		}
		if res, err := turns[i].Result(t.Context()); err != nil || res.Text != "result" {
			t.Errorf("turn %d: %v %v", i, res, err)
		}
	}
	mu.Lock()
	now = now.Add(keepTurn + time.Second)
	mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	if len(s.turns) != 0 || len(s.ended) != 0 {
		t.Errorf("%d turns are kept for ever", len(s.turns))
	}
}

// TestReportB23TextIsBounded: turns with long results of tools lose their events early, too, and no
// turn that is over keeps what its client sent.
func TestReportB23TextIsBounded(t *testing.T) {
	t.Parallel()
	s := NewTurns(time.Now, nil)
	long := strings.Repeat("x", mostText/8)
	ask := Ask{Input: model.Text(model.User, long), History: []model.Message{model.Text(model.User, long)}, Overlay: long}
	var turns []*Turn
	for range 10 {
		turn, err := s.Start(t.Context(), "a", ask, 0, func(_ context.Context, turn *Turn, emit func(agent.Event)) (agent.Result, error) {
			if a := turn.Ask; a.Input.Text() != long || len(a.History) != 1 || a.Overlay != long {
				t.Error("a turn does not know what was asked")
			}
			emit(agent.Event{Kind: agent.ToolStarted, Call: model.Call{Args: long}})
			emit(agent.Event{Kind: agent.ToolFinished, Text: long})
			emit(agent.Event{Kind: agent.Final, Text: "done"})
			return agent.Result{Text: "done", Session: struct{ agent.Session }{}}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		<-turn.Done()
		turns = append(turns, turn)
	}
	if err := s.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	var kept weight
	for _, turn := range turns {
		kept = kept.plus(turn.weight())
		if a := turn.Ask; len(a.Input.Parts) > 0 || a.History != nil || a.Overlay != "" {
			t.Error("what was asked is kept")
		}
		if res, err := turn.Result(t.Context()); err != nil || res.Text != "done" || res.Session != nil {
			t.Errorf("result %v %v", res, err)
		}
	}
	if first, last := turns[0].weight().events, turns[9].weight().events; kept.text > mostText || first != 1 || last != 3 {
		t.Errorf("%d bytes are kept, %d events of the first, %d of the last", kept.text, first, last)
	}
}

func TestStop(t *testing.T) {
	t.Parallel()
	s := NewTurns(time.Now, nil)
	stubborn, err := s.Start(t.Context(), "a", Ask{}, 0, func(ctx context.Context, _ *Turn, _ func(agent.Event)) (agent.Result, error) {
		<-ctx.Done() // does not heed its control
		return agent.Result{}, context.Cause(ctx)
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := s.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("drained with a turn running: %v", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := s.Stop(ctx, "shutdown"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("stopped: %v", err)
	}
	if _, err := stubborn.Result(t.Context()); err == nil || !strings.Contains(err.Error(), "stopping") {
		t.Errorf("its error: %v", err)
	}
	if err := s.Drain(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestSessionKey(t *testing.T) {
	t.Parallel()
	for want, c := range map[string][5]string{
		"agent:main:telegram:dm:1":       {"default", "telegram", "dm", "1", ""},
		"agent:work:telegram:group:1:7":  {"work", "telegram", "group", "1", "7"},
		"agent:main~:webhook:route:push": {"main", "webhook", "route", "push", ""}, // not the default's
	} {
		if got := SessionKey(c[0], c[1], c[2], c[3], c[4]); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
