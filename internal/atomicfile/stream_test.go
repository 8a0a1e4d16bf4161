// SPDX-License-Identifier: MIT

package atomicfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// TestStream fails a stream at each of its steps: the file is whole or not there, and nothing
// else is left.
func TestStream(t *testing.T) {
	t.Parallel()
	for fail := 0; ; fail++ {
		dir := t.TempDir()
		steps, broken := 0, errors.New("broken here")
		var at Op
		w := Writer{Before: func(op Op, _ string) error {
			if steps++; steps == fail {
				at = op
				return broken
			}
			return nil
		}}
		err := w.Stream(dir, func(out io.Writer) (string, error) {
			for _, s := range []string{"one ", "two"} {
				if _, err := io.WriteString(out, s); err != nil {
					return "", err
				}
			}
			return "name", nil
		})
		if fail > 0 && fail <= steps && !errors.Is(err, broken) {
			t.Fatalf("step %d (%s): got %v, want the broken step", fail, at, err)
		}
		entries, rerr := os.ReadDir(dir)
		if rerr != nil {
			t.Fatal(rerr)
		}
		data, _ := os.ReadFile(filepath.Join(dir, "name"))
		whole := len(entries) == 1 && string(data) == "one two"
		if err == nil && !whole || err != nil && !whole && len(entries) > 0 || err != nil && whole && at != OpSyncDir {
			t.Errorf("step %d (%s): %v, content %q, error %v", fail, at, entries, data, err)
		}
		if fail > steps {
			if err != nil {
				t.Fatal(err)
			}
			return
		}
	}
}
