// SPDX-License-Identifier: MIT

package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestMarkers(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	self, other := Record{PID: 10, StartTime: 5}, Record{PID: 10, StartTime: 6}
	for name, c := range map[string]struct {
		target  Record
		at      time.Time
		taken   bool
		remains bool
	}{
		"for me":               {self, now, true, false},
		"for me, long ago":     {self, now.Add(-2 * time.Minute), false, false},
		"for another process":  {other, now, false, true},
		"of another, long ago": {other, now.Add(-2 * time.Minute), false, false},
		"from the future":      {self, now.Add(time.Hour), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := home.Home{Dir: t.TempDir()}
			if err := PlannedStop.Leave(h, c.target, c.at); err != nil {
				t.Fatal(err)
			}
			if got, err := Takeover.Take(h, self, now); got || err != nil {
				t.Errorf("another marker counts: %v %v", got, err)
			}
			if got, err := PlannedStop.Take(h, self, now); got != c.taken || err != nil {
				t.Errorf("got %v %v", got, err)
			}
			_, err := os.Stat(PlannedStop.path(h))
			if remains := err == nil; remains != c.remains {
				t.Errorf("remains: %v", remains)
			}
			if got, err := PlannedStop.Take(h, self, now); got || err != nil {
				t.Errorf("counts twice: %v %v", got, err)
			}
		})
	}
	h := home.Home{Dir: t.TempDir()}
	testkit.WriteTree(t, h.Dir, map[string]string{string(PlannedStop): "{torn"})
	if got, err := PlannedStop.Take(h, self, now); got || err != nil {
		t.Errorf("torn marker: %v %v", got, err)
	}
}

func TestStateFileKeepsForeignKeys(t *testing.T) {
	t.Parallel()
	h := home.Home{Dir: t.TempDir()}
	testkit.WriteTree(t, h.Dir, map[string]string{"gateway_state.json": `{"desired_state":"running","gateway_state":"stopped","exit_reason":"old","future":[1]}`})
	f := NewStateFile(h, Status{Record: Record{PID: 7, StartTime: 8}, Phase: Starting}, quiet(), time.Now)
	f.SetPlatform("api_server", PlatformState{State: "connected", Listener: "http://127.0.0.1:8642"})
	f.Update(func(s *Status) { s.Phase = Up; s.Profiles = []string{"default"} })
	if err := f.Flush(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(statePath(h))
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]any
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]any{"desired_state": "running", "gateway_state": "running", "exit_reason": nil, "pid": 7.0, "writer_pid": 7.0} {
		if all[key] != want {
			t.Errorf("%s: got %v, want %v", key, all[key], want)
		}
	}
	if all["future"] == nil {
		t.Error("a key of somebody else is gone")
	}
	s, err := ReadStatus(h)
	if err != nil || s.Platforms["api_server"].Listener != "http://127.0.0.1:8642" || s.Platforms["api_server"].Updated == "" {
		t.Errorf("read back: %+v %v", s, err)
	}
	if _, err := ReadStatus(home.Home{Dir: t.TempDir()}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	testkit.WriteTree(t, h.Dir, map[string]string{"gateway_state.json": "{torn"})
	if err := f.Flush(); err != nil {
		t.Errorf("over a torn file: %v", err)
	}
}

// TestStateFileLateTimer: a timer that ran out just before a flush, and comes to write after it,
// writes nothing: the file may be another gateway's by then.
func TestStateFileLateTimer(t *testing.T) {
	t.Parallel()
	h := home.Home{Dir: t.TempDir()}
	f := NewStateFile(h, Status{Phase: Up}, quiet(), time.Now)
	round := func() int { f.mu.Lock(); defer f.mu.Unlock(); return f.round }
	for range 2 {
		f.Update(func(s *Status) { s.Phase = Stopped })
		late := round()
		if err := f.Flush(); err != nil {
			t.Fatal(err)
		}
		testkit.WriteTree(t, h.Dir, map[string]string{"gateway_state.json": `{"gateway_state":"running"}`})
		f.settle(late)
		if s, err := ReadStatus(h); err != nil || s.Phase != Up {
			t.Errorf("the next gateway's file is %+v, %v", s, err)
		}
	}
	f.Update(func(s *Status) { s.Agents = 7 })
	f.settle(round())
	if s, err := ReadStatus(h); err != nil || s.Agents != 7 {
		t.Errorf("not written in time: %+v, %v", s, err)
	}
}

func TestStateFileInParallel(t *testing.T) {
	t.Parallel()
	h := home.Home{Dir: t.TempDir()}
	f := NewStateFile(h, Status{Phase: Up}, quiet(), time.Now)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 50 {
				f.Update(func(s *Status) { s.Agents++ })
				if i == 0 {
					if err := f.Flush(); err != nil {
						t.Error(err)
					}
				}
				f.Status()
			}
		})
	}
	wg.Wait()
	if err := f.Flush(); err != nil {
		t.Fatal(err)
	}
	if s, err := ReadStatus(h); err != nil || s.Agents != 400 {
		t.Errorf("got %d, %v", s.Agents, err)
	}
}

func TestStorm(t *testing.T) {
	t.Parallel()
	h := home.Home{Dir: t.TempDir()}
	testkit.WriteTree(t, h.Dir, map[string]string{"gateway-starts.log": "not a time\n1.0\n"})
	at := time.Unix(1_800_000_000, 0)
	want := []time.Duration{0, 0, 0, 0, 0, 10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second, 300 * time.Second, 300 * time.Second}
	for i, w := range want {
		got, err := Storm{}.Start(h, at.Add(time.Duration(i)*time.Second))
		if got != w || err != nil {
			t.Errorf("start %d: got %v, %v, want %v", i+1, got, err, w)
		}
	}
	if got, err := (Storm{}).Start(h, at.Add(time.Hour)); got != 0 || err != nil {
		t.Errorf("an hour later: %v %v", got, err)
	}
	if got, err := (Storm{}).Start(home.Home{Dir: "/nonexistent"}, at); got != 0 || err == nil {
		t.Errorf("no home: %v %v", got, err)
	}
}

func TestLiveness(t *testing.T) {
	t.Parallel()
	good := Probe{"good", func(context.Context) error { return nil }}
	t.Run("a part that hangs", func(t *testing.T) {
		t.Parallel()
		l := Liveness{Every: time.Millisecond, Timeout: 5 * time.Millisecond, Strikes: 2, Log: quiet()}
		stuck := make(chan struct{})
		defer close(stuck)
		err := l.Run(t.Context(), []Probe{good, {"stuck", func(context.Context) error { <-stuck; return nil }}})
		var wedged *WedgedError
		if !errors.As(err, &wedged) || !strings.Contains(string(wedged.Stack), "goroutine") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a part that recovers", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		var asked, alive atomic.Int32
		flaky := Probe{"flaky", func(context.Context) error {
			if asked.Add(1)%3 != 0 { // two strikes, then an answer
				return errors.New("busy")
			}
			return nil
		}}
		l := Liveness{Every: time.Millisecond, Strikes: 3, Log: quiet(), Alive: func() {
			if alive.Add(1) == 5 {
				cancel()
			}
		}}
		if err := l.Run(ctx, []Probe{good, flaky}); err != nil {
			t.Errorf("got %v", err)
		}
	})
	t.Run("which part", func(t *testing.T) {
		t.Parallel()
		l := Liveness{Every: time.Millisecond, Strikes: 1, Log: quiet()}
		err := l.Run(t.Context(), []Probe{good, {"listener", func(context.Context) error { return errors.New("refused") }}})
		if err == nil || !strings.Contains(err.Error(), "listener does not answer: refused") {
			t.Errorf("got %v", err)
		}
	})
}
