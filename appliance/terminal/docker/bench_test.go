// SPDX-License-Identifier: MIT

package docker_test

import (
	"os/exec"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/appliance/terminal"
	"github.com/hermes-appliance/hermes-appliance/internal/terminaltest"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// BenchmarkCommand is a command in a warm session, beside the bare script and the docker
// command that others start for each.
func BenchmarkCommand(b *testing.B) {
	k := newKit(b, nil)
	s := k.shell(&terminaltest.Vars{})
	run(b, s, "true")
	b.Run("session", func(b *testing.B) {
		for b.Loop() {
			run(b, s, "true")
		}
	})
	b.Run("script", func(b *testing.B) {
		for b.Loop() {
			if out, err := s.Exec(b.Context(), terminal.Script{Text: "true"}); err != nil || out.Code != 0 {
				b.Fatal(err)
			}
		}
	})
	b.Run("docker-exec", func(b *testing.B) {
		path, err := exec.LookPath("docker")
		testkit.Need(b, "docker-cli", err == nil, "the docker command is compared with")
		con, err := k.host.Container(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if out, err := exec.CommandContext(b.Context(), path, "-H", testkit.Docker(b), "exec", con.ID(), "bash", "-c", "true").CombinedOutput(); err != nil {
				b.Fatalf("%v: %s", err, out)
			}
		}
	})
}
