// SPDX-License-Identifier: MIT

// Package buildinfo says which build this is. It reads only what the linker and the Go
// toolchain put into the binary; it never asks a file, git or the network.
package buildinfo

import (
	"runtime"
	"runtime/debug"
)

// version and revision are set by a release build, which .ci/release is: -ldflags "-X
// …/internal/buildinfo.version=1.2.3". A build from an archive of the source knows no commit.
//
//nolint:gochecknoglobals // the linker can set nothing else
var version, revision = "", ""

// releaseKey is set by a release build: the public key of releases, base64 of its PKIX form in
// one line, as the middle of cosign.pub without its line breaks.
var releaseKey = "" //nolint:gochecknoglobals // the linker sets nothing else

// ReleaseKey returns the public key that releases of this program are signed with, base64 of
// its PKIX form; "" = this is no release build.
func ReleaseKey() string { return releaseKey }

// Info describes the running binary.
type Info struct {
	Version  string `json:"version"`            // "1.2.3", or "devel" for a build from a checkout
	Revision string `json:"revision,omitempty"` // commit, empty when unknown
	Modified bool   `json:"modified,omitempty"` // built from a tree with uncommitted changes
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

// Read returns the description.
func Read() Info {
	i := Info{Version: version, Revision: revision, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	bi, ok := debug.ReadBuildInfo()
	if !ok {
		bi = &debug.BuildInfo{}
	}
	for _, s := range bi.Settings {
		switch s.Key {
		case "vcs.revision":
			if i.Revision == "" {
				i.Revision = s.Value
			}
		case "vcs.modified":
			i.Modified = s.Value == "true"
		}
	}
	if i.Version == "" {
		i.Version = "devel"
		if v := bi.Main.Version; v != "" && v != "(devel)" && i.Revision == "" {
			i.Version = v // go install module@version
		}
	}
	return i
}
