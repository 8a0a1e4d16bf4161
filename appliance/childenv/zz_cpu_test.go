// SPDX-License-Identifier: MIT

package childenv

import (
	"syscall"
	"testing"
)

func cpuNow() int64 {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return r.Utime.Nano() + r.Stime.Nano()
}

func BenchmarkCPU(b *testing.B) {
	p := load(b)
	for _, routed := range []bool{false, true} {
		s := Snapshot{Inherited: manyVars(300), Launch: Launch{Key: "/h", Dotenv: []string{"A", "B", "C"}}, Target: &Profile{Key: "/h", Dir: "/h"}, Multiplexed: true}
		name := "plain"
		if routed {
			s.Target = &Profile{Key: "/h/profiles/b", Dir: "/h/profiles/b"}
			name = "routed"
		}
		b.Run(name, func(b *testing.B) {
			start := cpuNow()
			for b.Loop() {
				if _, err := p.Build("terminal", s); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(cpuNow()-start)/float64(b.N), "cpu-ns/op")
		})
	}
}
