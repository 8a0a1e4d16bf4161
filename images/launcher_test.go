// SPDX-License-Identifier: MIT

package images

import (
	"context"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// launcherInputs are complete, below dir.
func launcherInputs(dir string) map[string]string {
	return map[string]string{
		"HERMES_BD_PROFILE": "p", "HERMES_BD_DISPLAY_NUM": "20", "HERMES_BD_SOCKET": dir + "/rfb.sock", "HERMES_BD_XAUTH": dir + "/Xauthority",
		"HERMES_BD_ENV_FILE": dir + "/env", "HERMES_BD_CONFIG_HOME": dir + "/xdg", "HERMES_BD_SEED_ONLY": "1",
	}
}

// launch runs the launcher as it is embedded, with nothing in the environment but env. The
// PATH has no X program.
func launch(t *testing.T, env map[string]string) (code int, stderr string) {
	t.Helper()
	bash, err := exec.LookPath("bash")
	testkit.Need(t, "bash", err == nil, "the launcher is a bash script")
	script := filepath.Join(t.TempDir(), "launcher.sh")
	testkit.WriteFile(t, script, []byte(Launcher()), 0o700)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := exec.CommandContext(ctx, bash, script)
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	for k, v := range env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	var errs strings.Builder
	cmd.Stderr = &errs
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), errs.String()
	}
	if err != nil {
		t.Fatal(err)
	}
	return 0, errs.String()
}

func TestLauncherNeedsItsInputs(t *testing.T) {
	t.Parallel()
	for name := range launcherInputs("") {
		if name == "HERMES_BD_SEED_ONLY" {
			continue
		}
		dir := t.TempDir()
		env := launcherInputs(dir)
		env[name] = ""
		code, stderr := launch(t, env)
		if code != 2 || !strings.Contains(stderr, name) {
			t.Errorf("without %s: exit %d, %q; want 2 and its name", name, code, stderr)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
			t.Errorf("without %s it wrote %v (%v)", name, entries, err)
		}
	}
	for name, value := range map[string]string{"HERMES_BD_DISPLAY_NUM": "20; id", "HERMES_BD_GEOMETRY": "large"} {
		env := launcherInputs(t.TempDir())
		env[name] = value
		if code, stderr := launch(t, env); code != 2 || !strings.Contains(stderr, value) {
			t.Errorf("%s=%q: exit %d, %q; want 2 and the value", name, value, code, stderr)
		}
	}
}

// TestLauncherSeeds writes the configuration with no X program near, in a place whose name
// needs quoting everywhere.
func TestLauncherSeeds(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), `a b & "c" <d> $e`)
	browser := filepath.Join(dir, "my browser")
	testkit.WriteTree(t, dir, map[string]string{"my browser": "#!/bin/sh\n", "wall & paper.png": ""})
	if err := os.Chmod(browser, 0o700); err != nil {
		t.Fatal(err)
	}
	env := launcherInputs(dir)
	env["HERMES_BD_WALLPAPER"] = filepath.Join(dir, "wall & paper.png")
	env["HERMES_BD_BROWSER_EXEC"] = browser
	env["HERMES_BD_BROWSER_EXEC_LINE"] = `"` + browser + `" --user-data-dir="/home/a b" %U`
	if code, stderr := launch(t, env); code != 0 || stderr != "" {
		t.Fatalf("exit %d, %q", code, stderr)
	}
	files := testkit.ReadTree(t, filepath.Join(dir, "xdg"))
	channels, masked := 0, 0
	for name, text := range files {
		switch {
		case strings.HasSuffix(name, ".xml"):
			channels++
			for dec := xml.NewDecoder(strings.NewReader(text)); ; {
				if _, err := dec.Token(); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Errorf("%s: %v\n%s", name, err, text)
					break
				}
			}
		case strings.HasPrefix(name, "autostart/"):
			masked++
			if !strings.Contains(text, "Hidden=true") {
				t.Errorf("%s masks nothing: %q", name, text)
			}
		}
	}
	if channels != 5 || masked != 13 {
		t.Errorf("%d channels and %d masked programs, want 5 and 13: %v", channels, masked, files)
	}
	xmlDir := "xfce4/xfconf/xfce-perchannel-xml/"
	if text := files[xmlDir+"xfce4-desktop.xml"]; !strings.Contains(text, `wall &amp; paper.png`) || !strings.Contains(text, "monitorVNC-0") {
		t.Errorf("wallpaper: %s", text)
	}
	if !strings.Contains(browserEntry(files), "\nExec="+env["HERMES_BD_BROWSER_EXEC_LINE"]+"\n") {
		t.Errorf("the browser's entry is %q", browserEntry(files))
	}
	seededOnce(t, env, dir, xmlDir)
}

// browserEntry returns the desktop entry of the dock's browser.
func browserEntry(files map[string]string) string {
	for name, text := range files {
		if strings.HasSuffix(name, "/hermes-Browser.desktop") {
			return text
		}
	}
	return ""
}

// seededOnce runs the launcher again: what the user changed stays, and only taking the panel
// away pins the browser of today.
func seededOnce(t *testing.T, env map[string]string, dir, xmlDir string) {
	t.Helper()
	changed := filepath.Join(dir, "xdg", xmlDir, "xfwm4.xml")
	if err := os.WriteFile(changed, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	env["HERMES_BD_BROWSER_EXEC_LINE"] = "other"
	read := func() map[string]string {
		if code, stderr := launch(t, env); code != 0 {
			t.Fatalf("exit %d, %q", code, stderr)
		}
		return testkit.ReadTree(t, filepath.Join(dir, "xdg"))
	}
	files := read()
	if files[xmlDir+"xfwm4.xml"] != "mine" || strings.Contains(browserEntry(files), "Exec=other") {
		t.Error("the second start wrote over what is there")
	}
	if err := os.Remove(filepath.Join(dir, "xdg", xmlDir, "xfce4-panel.xml")); err != nil {
		t.Fatal(err)
	}
	if files = read(); !strings.Contains(browserEntry(files), "\nExec=other\n") {
		t.Errorf("without its panel file the dock has %q", browserEntry(files))
	}
}

// TestScriptsAreClean runs shellcheck where it is.
func TestScriptsAreClean(t *testing.T) {
	t.Parallel()
	path, err := exec.LookPath("shellcheck")
	testkit.Need(t, "shellcheck", err == nil, "shellcheck is not installed")
	for _, script := range []string{"desktop" + LauncherPath, "seal/usr/local/lib/hermes-sandbox/seal"} {
		out, err := exec.CommandContext(t.Context(), path, filepath.Join("image", filepath.FromSlash(script))).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", script, err, out)
		}
	}
}
