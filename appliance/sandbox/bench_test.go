// SPDX-License-Identifier: MIT

package sandbox

import (
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// BenchmarkExec measures a command through the Engine API beside the docker command, in
// turns, so that both see the same machine; it reports the medians and their ratio.
func BenchmarkExec(b *testing.B) {
	docker, err := exec.LookPath("/usr/bin/docker") // the distribution's, of the engine's own version
	testkit.Need(b, "docker-cli", err == nil, "the docker command is not here")
	host := testkit.Docker(b)
	c := ensure(b, dial(b, Options{}), wanted(b))
	var api, cli []time.Duration
	for b.Loop() {
		start := time.Now()
		if code, err := c.Exec(b.Context(), Exec{Argv: []string{"true"}}); code != 0 || err != nil {
			b.Fatal(code, err)
		}
		api = append(api, time.Since(start))
		start = time.Now()
		cmd := exec.CommandContext(b.Context(), docker, "-H", host, "exec", c.ID(), "true")
		cmd.Env = os.Environ()
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
		cli = append(cli, time.Since(start))
	}
	slices.Sort(api)
	slices.Sort(cli)
	a, d := api[len(api)/2], cli[len(cli)/2]
	b.ReportMetric(float64(a.Microseconds())/1000, "api-ms")
	b.ReportMetric(float64(d.Microseconds())/1000, "cli-ms")
	b.ReportMetric(float64(a)/float64(d), "ratio")
}

// BenchmarkReuse measures how long it takes to find the container that is there.
func BenchmarkReuse(b *testing.B) {
	e, s := dial(b, Options{}), wanted(b)
	ensure(b, e, s)
	for b.Loop() {
		ensure(b, e, s)
	}
}

// BenchmarkKill measures the start and the kill of a command that ends when it is asked to.
func BenchmarkKill(b *testing.B) {
	c := ensure(b, dial(b, Options{}), wanted(b))
	for b.Loop() {
		p, err := c.Start(b.Context(), Exec{Argv: []string{"sleep", "3600"}})
		if err != nil {
			b.Fatal(err)
		}
		p.PID()
		if err := p.Kill(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
