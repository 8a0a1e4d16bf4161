// SPDX-License-Identifier: MIT

package service

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// TestPackaged holds the units of the packages to what this package renders.
func TestPackaged(t *testing.T) {
	t.Parallel()
	files, err := Packaged().Systemd()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if strings.Contains(f.Data, "=/home") {
			t.Errorf("%s names somebody's directory", f.Name)
		}
		testkit.Golden(t, filepath.Join("..", "installer", "package", f.Name), []byte(f.Data))
	}
	if len(files) != 2 {
		t.Errorf("%d files: name the new one in installer/package/nfpm.yaml, and here", len(files))
	}
}
