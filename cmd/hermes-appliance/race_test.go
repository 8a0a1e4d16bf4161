// SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"crypto/sha256"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// raceFound is how the race detector begins a report.
const raceFound = "WARNING: DATA RACE"

// noRace fails a test whose program, run under the race detector, has found one.
func noRace(t testing.TB, output string) {
	t.Helper()
	if _, report, ok := strings.Cut(output, raceFound); ok {
		t.Errorf("the program races:%s", report)
	}
}

// dataRace is a program with a data race.
func dataRace() {
	n := 0
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for range 1000 {
				n++
			}
		})
	}
	wg.Wait()
	os.Exit(n * 0)
}

// TestChildrenAreWatched: the programs that these tests start are this very one, so under -race
// they are watched too, and what is found there is seen here.
func TestChildrenAreWatched(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	sum := func(path string) []byte {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		s := sha256.Sum256(data)
		return s[:]
	}
	program, err := exec.LookPath("hermes-appliance")
	if err != nil || !bytes.Equal(sum(program), sum(self)) {
		t.Errorf("%s is another program than %s: %v", program, self, err)
	}
	cmd := exec.CommandContext(t.Context(), "data-race")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	out, err := cmd.CombinedOutput()
	if found := strings.Contains(string(out), raceFound); found != raceDetector || (err == nil) == raceDetector {
		t.Errorf("found %v, want %v: %v\n%s", found, raceDetector, err, out)
	}
}
