// SPDX-License-Identifier: MIT

package testkit

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// TestWriteTreeRuns: what was written can be executed at once, whatever other tests start meanwhile.
func TestWriteTreeRuns(t *testing.T) {
	t.Parallel()
	dir, stop := t.TempDir(), make(chan struct{})
	var others sync.WaitGroup
	for range 4 {
		others.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := exec.Command("/bin/true").Run(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	defer others.Wait()
	defer close(stop)
	for i := range 40 {
		name := fmt.Sprint("program", i)
		WriteTree(t, dir, map[string]string{name: "#!/bin/sh\n"})
		path := filepath.Join(dir, name)
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(path).CombinedOutput(); err != nil {
			t.Fatalf("%d: %v %s", i, err, out)
		}
	}
}
