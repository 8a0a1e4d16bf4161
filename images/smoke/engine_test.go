// SPDX-License-Identifier: MIT

package smoke

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/images"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// Variables that name the engine for tests and the desktop image in it.
const (
	engineEnv = "HERMES_TEST_DOCKER"
	imageEnv  = "HERMES_TEST_DESKTOP_IMAGE"
)

// desktopImage returns an engine and the desktop image in it.
func desktopImage(t *testing.T) (*images.Engine, string) {
	t.Helper()
	address := os.Getenv(engineEnv)
	testkit.Need(t, "docker", address != "", engineEnv+" names no engine")
	e, err := images.OpenEngine(t.Context(), address)
	if err != nil {
		testkit.Need(t, "docker", false, err.Error())
	}
	t.Cleanup(func() { e.Close() })
	image := os.Getenv(imageEnv)
	testkit.Need(t, "desktop-image", image != "", imageEnv+" names no image")
	if _, err := e.Image(t.Context(), image); err != nil {
		testkit.Need(t, "desktop-image", false, err.Error())
	}
	return e, image
}

// confined starts a container of the image that ends with the test.
func confined(t *testing.T, e *images.Engine, image string) *images.Container {
	t.Helper()
	c, err := e.Confine(t.Context(), image, map[string]string{label: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Remove(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return c
}

// only returns the steps with the names, and what those stand on.
func only(names ...string) []step {
	all := steps()
	for _, s := range slices.Backward(all) {
		if s.needs != "" && slices.Contains(names, s.name) {
			names = append(names, s.needs)
		}
	}
	return slices.DeleteFunc(all, func(s step) bool { return !slices.Contains(names, s.name) })
}

// proofTime is far above what a whole smoke takes, for machines that do more than this.
const proofTime = 30 * time.Minute

// TestSmoke is the whole proof of the real image.
func TestSmoke(t *testing.T) {
	t.Parallel()
	e, image := desktopImage(t)
	ctx, cancel := context.WithTimeout(t.Context(), proofTime)
	defer cancel()
	dir := t.TempDir()
	r, err := Run(ctx, e, image, Options{Artifacts: dir})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range r.Steps {
		if s.Verdict != Pass {
			t.Errorf("%s: %s: %s", s.Name, s.Verdict, s.Detail)
		}
	}
	t.Logf("%.1f s, %v, %v", r.Seconds, r.Figures, r.StandIns)
	if len(r.Steps) != len(steps()) || r.Verdict != Pass || !strings.HasPrefix(r.Digest, "sha256:") {
		t.Errorf("report %+v", r)
	}
	for _, name := range []string{"screen.png", "launcher.log"} {
		if info, err := os.Stat(dir + "/" + name); err != nil || info.Size() == 0 {
			t.Errorf("artefact %s: %v", name, err)
		}
	}
}
