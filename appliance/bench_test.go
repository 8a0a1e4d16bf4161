// SPDX-License-Identifier: MIT

package appliance

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/appliance/secret"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
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

// BenchmarkChild is all that starting a child of a profile takes here, looks at files
// included, when nothing changed: 300 inherited variables, 40 secrets, 50 neighbours. Within
// a turn the secrets are bound; "alone" is a child outside of one.
func BenchmarkChild(b *testing.B) {
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
	old := time.Now().Add(-time.Hour)
	environ := []string{"PATH=/usr/bin", "HOME=" + filepath.Dir(dir)}
	for i := range 300 {
		environ = append(environ, fmt.Sprintf("INHERITED_%d=%d", i, i))
	}
	for name := range files {
		if err := os.Chtimes(filepath.Join(dir, name), old, old); err != nil {
			b.Fatal(err)
		}
	}
	time.Sleep(atomicfile.Settle) // younger files are read each time
	launch, err := home.Locate(dir, func(string) string { return "" })
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{"routed", "launch", "routed alone"} {
		target := launch
		if name != "launch" {
			if target, err = launch.NamedProfile("p7"); err != nil {
				b.Fatal(err)
			}
		}
		b.Run(name, func(b *testing.B) {
			e, err := NewEnvironments(Options{Launch: launch, Environ: environ})
			if err != nil {
				b.Fatal(err)
			}
			ctx := b.Context()
			if name != "routed alone" {
				scope, err := e.Scope(ctx, target)
				if err != nil {
					b.Fatal(err)
				}
				ctx = secret.Bind(ctx, scope)
			}
			b.ReportAllocs()
			for b.Loop() {
				s, err := e.Snapshot(ctx, target)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := e.Policy().Build("terminal", s); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
