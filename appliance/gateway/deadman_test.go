// SPDX-License-Identifier: MIT

package gateway

import (
	"bytes"
	"testing"
	"time"
)

func TestDeadman(t *testing.T) {
	t.Parallel()
	acted := make(chan []byte, 2)
	act := func(stacks []byte) { acted <- stacks }
	NewDeadman(time.Millisecond, act)
	if got := <-acted; !bytes.Contains(got, []byte("TestDeadman")) {
		t.Errorf("it does not say what everybody did: %.300s", got)
	}
	d := NewDeadman(time.Hour, act)
	d.Kick(time.Millisecond)
	<-acted
	d.Kick(time.Millisecond) // over is over
	stopped := NewDeadman(time.Hour, act)
	stopped.Stop()
	stopped.Kick(time.Millisecond)
	var none *Deadman
	none.Kick(time.Second)
	none.Stop()
	select {
	case <-acted:
		t.Error("it acted after it was stopped, or twice")
	case <-time.After(60 * time.Millisecond):
	}
}
