// SPDX-License-Identifier: MIT

package images

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// emptyProgram is the shortest file that is a program for Linux: a header and nothing to load.
func emptyProgram() string {
	head := make([]byte, 64)
	copy(head, "\x7fELF\x02\x01\x01")
	head[16], head[18], head[20], head[52], head[54], head[58] = 2, 62, 1, 64, 56, 64
	return string(head)
}

// TestGatewayRecipe: the gateway's image takes the program, what says of it which it is, and
// our files, whatever the machine; and of the lock only what its Dockerfile has.
func TestGatewayRecipe(t *testing.T) {
	t.Parallel()
	l, _ := readLock(t)
	program := filepath.Join(t.TempDir(), "program")
	testkit.WriteTree(t, filepath.Dir(program), map[string]string{"program": emptyProgram()})
	o := BuildOptions{Dir: repo, Program: program, Release: "1.2.3", Revision: strings.Repeat("a", 40)}
	dockerfile, data, args, err := o.recipe(l)
	if err != nil || dockerfile != GatewayDockerfilePath {
		t.Fatal(dockerfile, err)
	}
	text, err := os.ReadFile(filepath.Join(repo, dockerfile))
	if err != nil {
		t.Fatal(err)
	}
	defaults, err := Defaults(text)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range args {
		if got, ok := defaults[name]; !ok || got != value {
			t.Errorf("%s: ARG %s is %q, %s says %q", dockerfile, name, got, LockPath, value)
		}
	}
	for name := range defaults {
		if _, ok := args[name]; !ok && name != "VERSION" && name != "REVISION" {
			t.Errorf("%s: ARG %s is pinned by nothing", dockerfile, name)
		}
	}
	seen := map[string]int64{}
	var provenance struct {
		Schema            int
		Version, Revision string
		Kind              string `json:"deployment_kind"`
		Manager           string
	}
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, twice := seen[h.Name]; twice {
			t.Errorf("%s is there twice", h.Name)
		}
		seen[h.Name] = h.Mode
		if !h.ModTime.Equal(l.Created()) || h.Uid != 0 || h.Uname != "" {
			t.Errorf("%s tells of this machine: %+v", h.Name, h)
		}
		if strings.HasSuffix(h.Name, "provenance.json") {
			if err := json.NewDecoder(r).Decode(&provenance); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, mode := range map[string]int64{
		"Dockerfile": 0o644, "dist/image/opt/hermes/bin/hermes-appliance": 0o755, "dist/image/etc/hermes/image-provenance.json": 0o444,
		"dist/image/": 0o755, "images/image/seal/usr/local/lib/hermes-sandbox/seal": 0o755,
	} {
		if got, ok := seen[name]; !ok || got != mode {
			t.Errorf("%s: mode %o, there: %t", name, got, ok)
		}
	}
	if provenance.Schema != 1 || provenance.Version != "1.2.3" || provenance.Revision != o.Revision || provenance.Kind != "image" || provenance.Manager != "docker" {
		t.Errorf("it says of itself: %+v", provenance)
	}
}

func TestGatewayRefuses(t *testing.T) {
	t.Parallel()
	l, _ := readLock(t)
	dir := t.TempDir()
	testkit.WriteTree(t, dir, map[string]string{"script": "#!/bin/sh\n"})
	for name, program := range map[string]string{"no program": filepath.Join(dir, "script"), "nothing": filepath.Join(dir, "none")} {
		if _, _, _, err := (BuildOptions{Dir: repo, Program: program}).recipe(l); err == nil || !strings.Contains(err.Error(), program) {
			t.Errorf("%s: %v", name, err)
		}
	}
	shell, err := filepath.EvalSymlinks("/bin/sh")
	testkit.Need(t, "elf", err == nil, "no /bin/sh")
	if _, _, _, err := (BuildOptions{Dir: repo, Program: shell}).recipe(l); err == nil || !strings.Contains(err.Error(), "CGO_ENABLED=0") {
		t.Errorf("a program that needs an interpreter: %v", err)
	}
	var r *RefusedError
	if err := l.Refuse(BuildOptions{Tag: "x", Program: "p"}); err != nil {
		t.Errorf("a trial build: %v", err)
	}
	if err := l.Refuse(BuildOptions{Tag: "x", Program: "p", Browser: "debian"}); !errors.As(err, &r) {
		t.Errorf("a browser: %v", err)
	}
	if err := l.Refuse(BuildOptions{Tag: "x", Program: "p", Release: "1.2.3", Revision: strings.Repeat("a", 40), Base: "mine"}); !errors.As(err, &r) {
		t.Errorf("a release on another base: %v", err)
	}
}
