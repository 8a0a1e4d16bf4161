// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/service"
)

// systemdRestart: reload lets a turn finish, exits 75, and the manager brings it back.
func systemdRestart(t *testing.T, s *served) {
	s.fresh()
	old := s.pid()
	answer := make(chan string, 1)
	go func() {
		_, body, err := s.request("/v1/chat/completions", chat("run: touch $HERMES_HOME/begun; until [ -e $HERMES_HOME/go ]; do sleep 0.1; done; echo fin-$((2+3))"))
		answer <- fmt.Sprint(body, err)
	}()
	s.m.Until("the command runs", func() bool { return s.m.Exists(s.spec.Home + "/begun") })
	s.ctl("reload " + s.spec.Name + ".service")
	s.m.Run("root", "touch "+s.spec.Home+"/go")
	if got := <-answer; !strings.Contains(got, "fin-5") {
		t.Errorf("the turn: %s", got)
	}
	s.again(old)
	if got := s.number("NRestarts"); got != 1 {
		t.Errorf("restarts: %d", got)
	}
	// 75 counts as a success, of which systemd says nothing.
	s.said("it asked to be started again", "a restart was asked for", "Scheduled restart job")
}

// journal is what the manager wrote of it and it itself.
func (s *served) journal() string {
	s.t.Helper()
	return s.m.Run("root", "journalctl --no-pager -n 300 -u "+s.spec.Name+".service")
}

// said waits until the journal, which follows in its own time, has some words.
func (s *served) said(what string, words ...string) {
	s.t.Helper()
	s.m.Until(what, func() bool {
		log := s.journal()
		return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(log, w) })
	})
}

// systemdWatchdog: a process that does nothing any more is killed and replaced, with what it ran.
func systemdWatchdog(t *testing.T, s *served) {
	const limit = 15 // in seconds: a machine that is busy may be late by less
	s.dropIn(fmt.Sprintf("[Service]\nWatchdogSec=%d\n", limit))
	defer s.dropIn("")
	s.fresh()
	s.hang("sleep 4001", "sleep 4001")
	old, fed := s.pid(), s.number("WatchdogTimestampMonotonic")
	s.m.Until("it was fed for longer than the watchdog's time", func() bool {
		return s.number("WatchdogTimestampMonotonic")-fed > limit*1e6 || s.pid() != old
	})
	if got := s.pid(); got != old {
		t.Fatalf("a process that works was replaced: %s, %s", old, got)
	}
	s.m.Run("root", "kill -STOP "+old)
	s.again(old)
	if s.alive("sleep 4001") {
		t.Error("a command is left")
	}
	s.said("the manager says why", "Failed with result 'watchdog'")
	if got := s.run("echo back-$((1+1))"); !strings.Contains(got, "back-2") {
		t.Errorf("after it: %s", got)
	}
}

// systemdKill: what a killed gateway ran ends with it, stubborn or not.
func systemdKill(t *testing.T, s *served) {
	s.fresh()
	s.hang("trap '' TERM HUP; sleep 4002; sleep 4003", "sleep 4002")
	old := s.pid()
	s.m.Run("root", "kill -KILL "+old)
	s.again(old)
	for _, sign := range []string{"sleep 4002", "sleep 4003"} {
		if s.alive(sign) {
			t.Errorf("%s is left", sign)
		}
	}
	if got := s.run("echo back-$((1+1))"); !strings.Contains(got, "back-2") {
		t.Errorf("after it: %s", got)
	}
}

// systemdStop: a stubborn command does not keep it from stopping, and nothing is left.
func systemdStop(t *testing.T, s *served) {
	s.fresh()
	s.hang("trap '' TERM HUP INT; sleep 4004; sleep 4005", "sleep 4004")
	s.ctl("stop " + s.spec.Name + ".service")
	if got := s.prop("Result") + " " + s.prop("ActiveState") + " " + s.prop("ExecMainStatus"); got != "success inactive 0" {
		t.Errorf("stopped: %s", got)
	}
	if out, code := s.m.Try("root", "pgrep -u hermes -a"); code == 0 {
		t.Errorf("left: %s", out)
	}
	if log := s.journal(); strings.Contains(log, "timed out") {
		t.Errorf("it had to be killed:\n%s", log)
	}
}

// systemdParked: a home that the program cannot run on is not tried again.
func systemdParked(t *testing.T, s *served) {
	s.ctl("stop " + s.spec.Name + ".service")
	s.m.Run("root", "rm -f /var/lib/hermes/gateway-starts.log; sed -i s/50/46/ /var/lib/hermes/config.yaml")
	if _, code := s.m.Try("root", "systemctl start hermes-gateway.service"); code == 0 {
		t.Error("it started")
	}
	if got := s.prop("ActiveState") + s.prop("ExecMainStatus") + s.prop("NRestarts"); got != "failed780" {
		t.Errorf("parked: %s", got)
	}
	time.Sleep(time.Second) // far longer than RestartSec
	if got := s.prop("ActiveState") + s.prop("NRestarts"); got != "failed0" {
		t.Errorf("it was started again: %s", got)
	}
	s.said("somebody is told what to do", "migrate --home /var/lib/hermes")
	s.m.Run("root", "sed -i s/46/50/ /var/lib/hermes/config.yaml")
	s.ctl("reset-failed " + s.spec.Name + ".service")
}

// systemdStorm: a gateway that waits out a storm is not killed for not being ready.
func systemdStorm(t *testing.T, s *served) {
	s.dropIn("[Service]\nTimeoutStartSec=15\n") // less than it waits, and more than it may take to say so
	defer s.dropIn("")
	s.m.Run("root", "rm -f /var/lib/hermes/gateway-starts.log; for i in 1 2 3 4 5 6; do date +%s.000; done >/var/lib/hermes/gateway-starts.log; chown hermes /var/lib/hermes/gateway-starts.log")
	s.ctl("start " + s.spec.Name + ".service")
	if got := s.number("NRestarts"); got != 0 {
		t.Errorf("restarts: %d", got)
	}
	s.said("it waited", "too many starts")
	if status, _, err := s.request("/health", ""); err != nil || status != http.StatusOK {
		t.Errorf("after it: %d %v", status, err)
	}
}

// systemdLoad: with its listener held by the manager, no request fails while the gateway is
// replaced under load.
func systemdLoad(t *testing.T, s *served) {
	s.ctl("stop " + s.spec.Name + ".service")
	s.spec.Sockets = []service.Socket{{Name: "api_server", Listen: fmt.Sprintf("127.0.0.1:%d", s.port)}}
	s.spec.Before = []string{program, "migrate", "--home", s.spec.Home, "--quiet", "--all-profiles"} // as it is installed
	s.write()
	s.m.Run("root", "rm -f /var/lib/hermes/gateway-starts.log")
	s.ctl("enable --now " + s.spec.Name + ".socket")
	// The socket alone starts it.
	if got := s.run("echo woken-$((1+1))"); !strings.Contains(got, "woken-2") {
		t.Errorf("through the socket: %s", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	var asked, longest atomic.Int64
	for i := range 4 {
		done.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				path, body, want := "/health", "", "ok"
				if i%2 == 0 {
					path, body, want = "/v1/chat/completions", chat(fmt.Sprintf("run: echo n-$((%d+1))", n)), fmt.Sprintf("n-%d", n+1)
				}
				began := time.Now()
				status, text, err := s.request(path, body)
				if took := int64(time.Since(began)); took > longest.Load() {
					longest.Store(took)
				}
				if asked.Add(1); err != nil || status != http.StatusOK || !strings.Contains(text, want) {
					t.Errorf("request %d of client %d: %d %s %v", n, i, status, text, err)
					return
				}
			}
		})
	}
	for range 3 {
		before := asked.Load()
		s.m.Until("there is load", func() bool { return asked.Load() > before+20 || t.Failed() })
		old := s.pid()
		s.ctl("reload " + s.spec.Name + ".service")
		s.again(old)
		t.Log(s.gap())
	}
	before := asked.Load()
	s.m.Until("the last one serves", func() bool { return asked.Load() > before+20 || t.Failed() })
	cancel()
	done.Wait()
	if got := s.number("NRestarts"); got != 3 {
		t.Errorf("restarts: %d", got)
	}
	t.Logf("%d requests over 3 restarts, the slowest took %s", asked.Load(), time.Duration(longest.Load()).Round(time.Millisecond))
	if got := s.m.Run("root", "cat /proc/"+s.pid()+"/net/tcp | grep -c ':21C2 00000000:0000 0A'"); got != "1" {
		t.Errorf("%s listeners on 8642", got)
	}
}

// gap says how long the last start took, by systemd's clock, and the processor's time of the new
// process until now.
func (s *served) gap() string {
	s.t.Helper()
	at := func(prop string) time.Duration { return time.Duration(s.number(prop+"Monotonic")) * time.Microsecond }
	ended, began, run, ready := at("InactiveEnterTimestamp"), at("InactiveExitTimestamp"), at("ExecMainStartTimestamp"), at("ActiveEnterTimestamp")
	return fmt.Sprintf("ended to begun %s, the migration %s, to ready %s; processor, in hundredths of a second: %s", (began - ended).Round(time.Millisecond),
		(run - began).Round(time.Millisecond), (ready - run).Round(time.Millisecond), s.m.Run("root", "cut -d' ' -f14,15 /proc/"+s.pid()+"/stat"))
}

// systemdReboot: both kinds of services come back by themselves, after a clean reboot and after
// a power cut; a user's needs nobody to log in.
func systemdReboot(t *testing.T, s *served) {
	uid := s.m.AddUser("ada")
	s.m.Run("root", "loginctl enable-linger ada")
	s.m.Until("ada's manager runs", func() bool {
		return s.m.Exists(fmt.Sprintf("/run/user/%d/systemd/private", uid))
	})
	mine := serve(t, s.m, &served{user: "ada", port: 8700, spec: service.Spec{
		Name: service.Base, Scope: service.User, Home: "/home/ada/.hermes", Exec: []string{program, "gateway", "run"}, Watchdog: 2 * time.Minute,
	}})
	mine.ctl("enable --now " + mine.spec.Name + ".service")
	if got := mine.run("id -un"); !strings.Contains(got, "ada") {
		t.Errorf("ada's gateway: %s", got)
	}
	s.m.Run("root", "rm -f /var/lib/hermes/gateway-starts.log")
	for name, boot := range map[string]func(){"reboot": s.m.Reboot, "power cut": s.m.PowerCut} {
		s.hang("sleep 4006", "sleep 4006")
		boot()
		for _, g := range []*served{s, mine} {
			g.m.Until("it is up after a "+name, func() bool {
				status, _, err := g.request("/health", "")
				return err == nil && status == http.StatusOK
			})
			if got := g.run("echo up-$((3+4))"); !strings.Contains(got, "up-7") {
				t.Errorf("after a %s: %s", name, got)
			}
			g.m.Until("its manager knows, after a "+name, func() bool { return g.prop("ActiveState") == "active" })
		}
	}
}
