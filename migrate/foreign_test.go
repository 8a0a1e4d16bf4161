// SPDX-License-Identifier: MIT

package migrate

import (
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
)

// TestForeignFile: a file of another user is named, with who can help; other errors stay.
func TestForeignFile(t *testing.T) {
	t.Parallel()
	err := unreadable("/srv/h/config.yaml", &fs.PathError{Op: "open", Path: "/srv/h/config.yaml", Err: fs.ErrPermission})
	if exitcode.Of(err) != exitcode.Unparseable || !strings.HasPrefix(err.Error(), "/srv/h/config.yaml: this user may not read it; run as") {
		t.Errorf("exit %d: %v", exitcode.Of(err), err)
	}
	if got := unreadable("x", io.ErrUnexpectedEOF); !errors.Is(got, io.ErrUnexpectedEOF) {
		t.Errorf("another error: %v", got)
	}
	if got := unreadable("x", nil); got != nil {
		t.Errorf("no error: %v", got)
	}
}
