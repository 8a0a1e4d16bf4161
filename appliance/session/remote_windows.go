// SPDX-License-Identifier: MIT

package session

import (
	"path/filepath"
	"strings"

	"golang.org/x/sys/windows"
)

// remoteFS says whether a directory is on another machine.
func remoteFS(dir string) string {
	root := filepath.VolumeName(dir)
	if strings.HasPrefix(root, `\\`) {
		return "network"
	}
	p, err := windows.UTF16PtrFromString(root + `\`)
	if err == nil && windows.GetDriveType(p) == windows.DRIVE_REMOTE {
		return "network"
	}
	return ""
}
