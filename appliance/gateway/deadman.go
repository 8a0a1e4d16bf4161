// SPDX-License-Identifier: MIT

package gateway

import (
	"sync"
	"time"
)

// Deadman calls act, once, unless it is stopped within its time. It needs nothing that a stuck
// process could hold. It is safe for concurrent use.
type Deadman struct {
	mu    sync.Mutex
	timer *time.Timer
	over  bool
}

// NewDeadman starts the time. act is given what all goroutines were doing when it ran out.
func NewDeadman(limit time.Duration, act func(stacks []byte)) *Deadman {
	d := &Deadman{}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.timer = time.AfterFunc(limit, func() {
		d.mu.Lock()
		over := d.over
		d.over = true
		d.mu.Unlock()
		if !over {
			act(stacks())
		}
	})
	return d
}

// Kick gives it a time anew. One that is over stays so. A nil Deadman takes it, too.
func (d *Deadman) Kick(limit time.Duration) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.over {
		d.timer.Reset(limit)
	}
}

// Stop ends it. A nil Deadman takes it, too.
func (d *Deadman) Stop() {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.over = true
	d.timer.Stop()
}
