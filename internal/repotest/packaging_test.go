// SPDX-License-Identifier: MIT

package repotest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestReport33NoCgo (containers/image#1634): of all that the program is built from nothing but the
// standard library has C in it, so that no header of a system decides whether it builds.
func TestReport33NoCgo(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if and .CgoFiles (not .Standard)}}{{.ImportPath}}{{end}}", "./cmd/hermes-appliance")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if text := strings.TrimSpace(string(out)); text != "" {
		t.Errorf("these need a C compiler:\n%s", text)
	}
}

// TestReport31ComponentPackages (e2b-dev/desktop#52): the images install components, no
// metapackage that brings along what nobody chose, and a service manager's session with it.
func TestReport31ComponentPackages(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join(root, "Dockerfile.sandbox-desktop"))
	if err != nil {
		t.Fatal(err)
	}
	var packages []string
	for _, m := range regexp.MustCompile(`apt-get install([^;]*);`).FindAllStringSubmatch(string(data), -1) {
		words := strings.Fields(strings.ReplaceAll(m[1], "\\\n", " "))
		if !slices.Contains(words, "--no-install-recommends") {
			t.Errorf("what is recommended is installed, too: %v", words)
		}
		packages = append(packages, words...)
	}
	if !slices.Contains(packages, "xfwm4") {
		t.Fatalf("no window manager in %v: the pattern of this test is wrong", packages)
	}
	meta := regexp.MustCompile(`^(xfce4|xfce4-goodies|xorg|x11-apps|build-essential|default-.*|task-.*|.*-desktop|.*-all)$`)
	for _, p := range packages {
		if meta.MatchString(p) {
			t.Errorf("%s is a metapackage", p)
		}
	}
}
