// SPDX-License-Identifier: MIT

package buildinfo

import (
	"runtime"
	"testing"
)

func TestRead(t *testing.T) {
	t.Parallel()
	i := Read()
	if i.Version == "" || i.Go != runtime.Version() || i.OS != runtime.GOOS || i.Arch != runtime.GOARCH {
		t.Errorf("got %+v", i)
	}
}
