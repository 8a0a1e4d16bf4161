// SPDX-License-Identifier: MIT

package nix

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// libEnv is a checkout's lib directory of nixpkgs, or of nix-community/nixpkgs.lib.
const libEnv = "HERMES_NIXPKGS_LIB"

func hexOf(b []byte) string { return hex.EncodeToString(b) }

func needNix(t *testing.T) {
	t.Helper()
	_, err := exec.LookPath("nix-instantiate")
	testkit.Need(t, "nix", err == nil, "no nix (Debian's nix-bin)")
	// Go takes an old result for current unless the test itself has read what changed.
	for _, path := range append(files(t), "unit.json", "legacy.json", "vendor.json") {
		if _, err := os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
}

// nixEnv is an environment for Nix with a store of its own, in dir.
func nixEnv(dir string) []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "NIX_STORE_DIR=" + filepath.Join(dir, "store"), "NIX_STATE_DIR=" + filepath.Join(dir, "state"),
		"NIX_LOG_DIR=" + filepath.Join(dir, "log"), "NIX_CONF_DIR=" + filepath.Join(dir, "conf"), "NIX_REMOTE=local",
		"NIX_CONFIG=experimental-features = nix-command flakes",
	}
}

// runNix runs one of Nix's programs and returns what it prints.
func runNix(t *testing.T, args ...string) []byte {
	t.Helper()
	return runNixIn(t, t.TempDir(), args...)
}

func runNixIn(t *testing.T, dir string, args ...string) []byte {
	t.Helper()
	out, said, err := tryNix(t, dir, args...)
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, said)
	}
	return out
}

func tryNix(t *testing.T, dir string, args ...string) (out []byte, said string, err error) {
	t.Helper()
	needNix(t)
	var errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Env, cmd.Stderr = nixEnv(dir), &errs
	out, err = cmd.Output()
	return out, errs.String(), err
}

// evaluate evaluates an expression in this directory and reads the result.
func evaluate(t *testing.T, dir, expression string, into any) {
	t.Helper()
	out := runNixIn(t, dir, "nix-instantiate", "--eval", "--read-write-mode", "--strict", "--json", "-E", expression)
	if err := json.Unmarshal(out, into); err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
}

// files returns all Nix files of the repository.
func files(t *testing.T) []string {
	t.Helper()
	out := []string{"../flake.nix"}
	err := filepath.WalkDir(".", func(path string, e fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".nix") {
			out = append(out, path)
		}
		return err
	})
	if err != nil || len(out) < 10 {
		t.Fatalf("%d files, %v", len(out), err)
	}
	return out
}

func TestEveryFileParses(t *testing.T) {
	t.Parallel()
	runNix(t, append([]string{"nix-instantiate", "--parse"}, files(t)...)...)
}

// TestFlakeEvaluatesOffline: with a stand-in for nixpkgs the flake has all that it promises, and
// every output evaluates on every system.
func TestFlakeEvaluatesOffline(t *testing.T) {
	t.Parallel()
	needNix(t)
	src, store := t.TempDir(), t.TempDir()
	if err := os.CopyFS(filepath.Join(src, "nix"), os.DirFS(".")); err != nil {
		t.Fatal(err)
	}
	copyFile(t, "../flake.nix", filepath.Join(src, "flake.nix"))
	copyFile(t, "../docs/nix-options.md", filepath.Join(src, "docs", "nix-options.md"))
	stub := "path:" + filepath.Join(src, "nix", "tests", "stub")
	from := time.Now()
	out, said, err := tryNix(t, store, "nix", "flake", "check", "path:"+src, "--no-build", "--no-write-lock-file", "--override-input", "nixpkgs", stub)
	t.Logf("nix flake check --no-build: %s", time.Since(from).Round(10*time.Millisecond))
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, said)
	}
	want := []string{
		"packages default hermes-appliance options-doc", "apps default hermes-appliance", "devShells default", "overlays default",
		"nixosModules default hermes-gateway", "homeManagerModules default hermes-gateway",
		"checks config-merge env-assembly module-eval option-docs package service-argv vm-gateway",
	}
	for _, line := range want {
		words := strings.Fields(line)
		attr := words[0]
		if !slices.Contains([]string{"overlays", "nixosModules", "homeManagerModules"}, attr) {
			attr += ".x86_64-linux"
		}
		var names []string
		text := runNixIn(t, store, "nix", "eval", "--json", "path:"+src+"#"+attr, "--no-write-lock-file", "--override-input", "nixpkgs", stub, "--apply", "builtins.attrNames")
		if err := json.Unmarshal(text, &names); err != nil || !slices.Equal(names, words[1:]) {
			t.Errorf("%s: got %v, want %v (%v)", attr, names, words[1:], err)
		}
	}
	main := runNixIn(t, store, "nix", "eval", "--raw", "path:"+src+"#packages.x86_64-linux.default.meta.mainProgram", "--no-write-lock-file", "--override-input", "nixpkgs", stub)
	if string(main) != "hermes-appliance" {
		t.Errorf("mainProgram %q", main)
	}
}

// libs are the libs that the modules are evaluated with: ours, and nixpkgs' own where there is one.
func libs(t *testing.T, run func(t *testing.T, lib string)) {
	t.Helper()
	t.Run("own", func(t *testing.T) { t.Parallel(); run(t, "import ./tests/stub/lib.nix") })
	t.Run("nixpkgs", func(t *testing.T) {
		t.Parallel()
		dir := os.Getenv(libEnv)
		testkit.Need(t, "nixpkgs-lib", dir != "", libEnv+" names no lib of nixpkgs")
		run(t, "import "+dir)
	})
}

// TestModules runs the table of ./tests.
func TestModules(t *testing.T) {
	t.Parallel()
	libs(t, func(t *testing.T, lib string) {
		var r struct {
			Count    int
			Failures []struct {
				Name      string
				Got, Want any
			}
		}
		evaluate(t, t.TempDir(), fmt.Sprintf("let t = import ./tests { lib = %s; }; in { inherit (t) count failures; }", lib), &r)
		if r.Count < 60 {
			t.Errorf("only %d checks", r.Count)
		}
		for _, f := range r.Failures {
			t.Errorf("%s: got %v, want %v", f.Name, f.Got, f.Want)
		}
	})
}

// TestOptionDocsCurrent: docs/nix-options.md is what the options say.
func TestOptionDocsCurrent(t *testing.T) {
	t.Parallel()
	libs(t, func(t *testing.T, lib string) {
		var text string
		evaluate(t, t.TempDir(), fmt.Sprintf("import ./docs.nix { lib = %s; }", lib), &text)
		testkit.Golden(t, "../docs/nix-options.md", []byte(text))
	})
}

// TestDocsNameOptions: what docs/nix.md sets are options that there are.
func TestDocsNameOptions(t *testing.T) {
	t.Parallel()
	read := func(path string) string {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	options, guide := read("../docs/nix-options.md"), read("../docs/nix.md")
	blocks := regexp.MustCompile("(?s)```nix\n(.*?)```").FindAllStringSubmatch(guide, -1)
	// The names behind services.hermes-gateway: after a dot, or first in a line of its braces.
	name := regexp.MustCompile(`(?m)^\s*services\.hermes-gateway\.([A-Za-z]+)`)
	inBraces := regexp.MustCompile(`(?m)^\s+([A-Za-z]+)(?:\.[A-Za-z."]+)? = `)
	seen := 0
	for _, b := range blocks {
		text := b[1]
		if !strings.HasPrefix(text, "{") {
			text = "{ config, hermes, ... }: {\n" + text + "}"
		}
		runNix(t, "nix-instantiate", "--parse", "-E", text)
		used := name.FindAllStringSubmatch(text, -1)
		if _, body, ok := strings.Cut(text, "services.hermes-gateway = {\n"); ok {
			body, _, _ = strings.Cut(body, "\n          };\n")
			used = append(used, inBraces.FindAllStringSubmatch(body, -1)...)
		}
		for _, m := range used {
			seen++
			if !strings.Contains(options, "## `"+m[1]) {
				t.Errorf("docs/nix.md: services.hermes-gateway.%s is no option", m[1])
			}
		}
	}
	if len(blocks) < 5 || seen < 12 {
		t.Errorf("%d examples with %d options found in docs/nix.md", len(blocks), seen)
	}
}
