// SPDX-License-Identifier: MIT

package images

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// engine returns the engine for tests.
func engine(t *testing.T) *Engine {
	t.Helper()
	address := os.Getenv("HERMES_TEST_DOCKER")
	testkit.Need(t, "docker", address != "", "HERMES_TEST_DOCKER names no engine")
	e, err := OpenEngine(t.Context(), address)
	if err != nil {
		testkit.Need(t, "docker", false, err.Error())
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// fresh is a name that no other run has, for the engine may serve several.
func fresh(name string) string {
	return "hermes-test/images:" + name + "-" + strings.ToLower(rand.Text())
}

// imported makes an image of one file that goes with the test.
func imported(t *testing.T, e *Engine, name, content string) string {
	t.Helper()
	ref := fresh(name)
	if err := e.Import(t.Context(), bytes.NewReader(layerTar(t, "file", content)), ref); err != nil {
		t.Fatal(err)
	}
	forget(t, e, ref)
	return ref
}

func forget(t *testing.T, e *Engine, ref string) {
	t.Cleanup(func() {
		if err := e.Untag(context.WithoutCancel(t.Context()), ref); err != nil {
			t.Error(err)
		}
	})
}

// TestLoadSettled gives an exported image back to a real engine under its settled config: as
// one that has the layers, and as one that has not.
func TestLoadSettled(t *testing.T) {
	t.Parallel()
	e := engine(t)
	from := imported(t, e, "from", rand.Text())
	archive, err := e.save(t.Context(), from)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	tag := fresh("settled")
	x, err := export(t.Context(), archive, time.Unix(1_796_000_000, 0), dir, tag)
	if err = errors.Join(err, archive.Close()); err != nil {
		t.Fatal(err)
	}
	slim := dir
	if strings.HasPrefix(e.Version, "Docker ") {
		slim = "" // it takes a config alone when it has the layers
	}
	if err := x.load(t.Context(), e, tag, slim); err != nil {
		t.Fatalf("the engine has the layers: %v", err)
	}
	for _, ref := range []string{tag, from} {
		if err := e.Untag(t.Context(), ref); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := e.Image(t.Context(), x.ID); !errors.Is(err, ErrNoImage) {
		t.Fatalf("the image is still there: %v", err)
	}
	if err := x.load(t.Context(), e, tag, ""); err == nil {
		t.Error("an engine without the layers takes a config alone")
	}
	forget(t, e, tag)
	if err := x.load(t.Context(), e, tag, dir); err != nil {
		t.Fatalf("from the layout: %v", err)
	}
	got, err := e.Image(t.Context(), tag)
	if err != nil || got.ID != x.ID || got.DiffIDs[0] != x.Layers[0].DiffID {
		t.Errorf("got %+v, %v; want %s", got, err, x.ID)
	}
}

// TestCompare prints the first path in which two images of a real engine differ.
func TestCompare(t *testing.T) {
	t.Parallel()
	e := engine(t)
	a, b := imported(t, e, "a", "one"), imported(t, e, "b", "two")
	d, err := e.Compare(t.Context(), a, b)
	if err != nil || d == nil || d.String() != "layer 0: /file: the content differs" {
		t.Errorf("got %v, %v", d, err)
	}
	if d, err := e.Compare(t.Context(), a, a); err != nil || d != nil {
		t.Errorf("the same image: %v, %v", d, err)
	}
	if _, err := e.Compare(t.Context(), a, "hermes-test/images:none"); !errors.Is(err, ErrNoImage) {
		t.Errorf("got %v, want ErrNoImage", err)
	}
}

// TestBuildFails says what the builder said, with both builders.
func TestBuildFails(t *testing.T) {
	t.Parallel()
	e := engine(t)
	base := imported(t, e, "base", "x")
	for _, kit := range []bool{false, true} {
		var progress bytes.Buffer
		_, err := e.build(t.Context(), buildRequest{
			dockerfile: "Dockerfile", tag: fresh("never"), kit: kit,
			context: bytes.NewReader(pack(t, archived{name: "Dockerfile", data: []byte("FROM " + base + "\nCOPY missing /\n")})),
		}, &progress)
		if err == nil || !strings.Contains(err.Error(), "missing") || progress.Len() == 0 {
			t.Errorf("BuildKit %v: got %v after %q, want an error about the missing file", kit, err, progress.String())
		}
	}
}

// TestConfineNeedsImage starts nothing and leaves nothing.
func TestConfineNeedsImage(t *testing.T) {
	t.Parallel()
	if _, err := engine(t).Confine(t.Context(), "hermes-test/images:none", nil); !errors.Is(err, ErrNoImage) {
		t.Errorf("got %v, want ErrNoImage", err)
	}
}
