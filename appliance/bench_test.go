// SPDX-License-Identifier: MIT

package appliance

import (
	"fmt"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// BenchmarkFiftyProfiles opens a snapshot of each of 50 profiles and reports how much of the
// heap stays in use for one of them.
func BenchmarkFiftyProfiles(b *testing.B) {
	dir := b.TempDir()
	files := map[string]string{"config.yaml": "_config_version: 50\ngateway:\n  multiplex_profiles: true\n", ".env": "A_TOKEN=x\n"}
	for i := range 50 {
		p := fmt.Sprintf("profiles/p%d/", i)
		files[p+"config.yaml"] = "_config_version: 50\nterminal:\n  timeout: 120\n"
		for k := range 40 {
			files[p+".env"] += fmt.Sprintf("KEY_%d=value-%d-of-profile-%d\n", k, k, i)
		}
	}
	testkit.WriteTree(b, dir, files)
	launch, err := home.Locate(dir, func(string) string { return "" })
	if err != nil {
		b.Fatal(err)
	}
	profiles, err := launch.Profiles()
	if err != nil || len(profiles) != 50 {
		b.Fatal(len(profiles), err)
	}
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	var grown, n uint64
	for b.Loop() {
		before := heap()
		e, err := NewEnvironments(Options{Launch: launch, Environ: []string{"PATH=/usr/bin", "HOME=" + filepath.Dir(dir)}})
		if err != nil {
			b.Fatal(err)
		}
		for _, p := range profiles {
			if _, err := e.Snapshot(b.Context(), p); err != nil {
				b.Fatal(err)
			}
		}
		grown += max(heap(), before) - before
		n += 50
		runtime.KeepAlive(e)
	}
	b.ReportMetric(float64(grown)/float64(n)/1024, "KB/profile")
}
