// SPDX-License-Identifier: MIT

package agent

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"github.com/hermes-appliance/hermes-appliance/appliance/model"
)

// Guard says when repeated calls are a loop. Numbers are upstream's; 0 = the default.
type Guard struct {
	WarnOnly bool // never stop a turn

	FailureWarn, FailureStop int // the same call fails; 2, 5
	ToolWarn, ToolStop       int // one tool fails, whatever the arguments; 3, 8
	SameWarn, SameStop       int // a read-only call brings the same again; 2, 5
	StreakWarn, StreakStop   int // the same calls with the same results in a row, or a cycle of up to four; 3, 5
}

func (g *Guard) defaults() {
	for p, v := range map[*int]int{
		&g.FailureWarn: 2, &g.FailureStop: 5, &g.ToolWarn: 3, &g.ToolStop: 8,
		&g.SameWarn: 2, &g.SameStop: 5, &g.StreakWarn: 3, &g.StreakStop: 5,
	} {
		setDefault(p, v)
	}
}

const maxCycle = 4

type digest [sha256.Size]byte

// same is a result that came more than once.
type same struct {
	result digest
	times  int
}

// guard watches the calls of one turn.
type guard struct {
	Guard
	failures map[digest]int // of a call, since the last progress
	tools    map[string]int // failures of a tool
	results  map[digest]same
	trail    []digest // call and result, in order
	counted  map[detector]bool
}

type detector struct{ signal, name string }

// verdict is what the guard makes of a result.
type verdict struct {
	warn      string
	halt      string
	detectors []detector // to be counted: each once a turn
}

func newGuard(g Guard) *guard {
	return &guard{Guard: g, failures: map[digest]int{}, tools: map[string]int{}, results: map[digest]same{}, counted: map[detector]bool{}}
}

// signature is the identity of a call: arguments that differ in space and order are equal.
func signature(c model.Call) digest {
	text := c.Args
	var v any
	if json.Unmarshal([]byte(c.Args), &v) == nil {
		if b, err := json.Marshal(v); err == nil {
			text = string(b)
		}
	}
	return sha256.Sum256([]byte(c.Name + "\x00" + text))
}

// before refuses a call that has failed too often already.
func (g *guard) before(c model.Call, tr Traits) string {
	if n := g.failures[signature(c)]; !g.WarnOnly && n >= g.FailureStop && !tr.Polls {
		return fmt.Sprintf("not run: this very call has failed %d times in this turn; change it or explain what is in the way", n)
	}
	return ""
}

// after takes a result into account.
func (g *guard) after(c model.Call, tr Traits, out Output) verdict {
	sig := signature(c)
	result := sha256.Sum256([]byte(out.Text))
	var v verdict
	if out.Failed {
		g.failures[sig]++
		g.tools[c.Name]++
		if !tr.Polls {
			g.judge(&v, c.Name, "exact_failure", g.failures[sig], g.FailureWarn, g.FailureStop, "%s has failed %d times with the same arguments; look at the error and change something")
		}
		if !tr.Tolerant {
			g.judge(&v, c.Name, "same_tool_failure", g.tools[c.Name], g.ToolWarn, g.ToolStop, "%s has failed %d times in this turn; try another way")
		}
	} else if !tr.ReadOnly {
		// Something changed: what failed before may work now.
		clear(g.failures)
		clear(g.tools)
	}
	if !out.Failed && tr.ReadOnly && !tr.Polls {
		s := g.results[sig]
		if s.result != result {
			s = same{result: result}
		}
		s.times++
		g.results[sig] = s
		g.judge(&v, c.Name, "idempotent_no_progress", s.times, g.SameWarn, g.SameStop, "%s has brought the same result %d times; use it, or ask for something else")
	}
	if tr.Polls {
		g.trail = g.trail[:0]
		return v
	}
	g.trail = append(g.trail, sha256.Sum256(append(sig[:], result[:]...)))
	for period := 1; period <= maxCycle; period++ {
		name := "identical_call_streak"
		if period > 1 {
			name = "identical_cycle"
		}
		laps := g.laps(period)
		g.judge(&v, c.Name, name, laps, g.StreakWarn, g.StreakStop, "the same calls, ending with %s, have brought the same results %d times in a row; do not repeat them")
		if laps >= g.StreakWarn {
			break
		}
	}
	return v
}

// laps counts how often the last calls were the same ones, in cycles of a period.
func (g *guard) laps(period int) int {
	if len(g.trail) < period {
		return 0
	}
	n := len(g.trail)
	i := n - 1 - period
	for i >= 0 && g.trail[i] == g.trail[i+period] {
		i--
	}
	return (n - 1 - i) / period
}

// judge warns or stops; text has places for the tool and the number of times.
func (g *guard) judge(v *verdict, tool, name string, times, warn, stop int, text string) {
	if times < warn {
		return
	}
	d := detector{"repeated_tool_call", name}
	if times >= stop && !g.WarnOnly {
		d.signal = "loop_detected"
		if v.halt == "" {
			v.halt = fmt.Sprintf(text, tool, times)
		}
	}
	if !g.counted[d] {
		g.counted[d] = true
		v.detectors = append(v.detectors, d)
	}
	if v.warn == "" {
		v.warn = fmt.Sprintf(text, tool, times)
	}
}
