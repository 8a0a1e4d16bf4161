// SPDX-License-Identifier: MIT

package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/hermes-appliance/hermes-appliance/images"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
)

// imageOf writes an OCI layout with one image and its smoke report.
func imageOf(t *testing.T, arch, version string) (dir, proof, digest string) {
	t.Helper()
	img, err := random.Image(1000, 2)
	if err != nil {
		t.Fatal(err)
	}
	img = mutate.ConfigMediaType(mutate.MediaType(img, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err = mutate.ConfigFile(img, configOf(t, img, arch, version))
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	p, err := layout.Write(dir, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.AppendImage(img); err != nil {
		t.Fatal(err)
	}
	d, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	proof = filepath.Join(t.TempDir(), "report.json")
	if err := os.WriteFile(proof, fmt.Appendf(nil, `{"schema":1,"digest":%q,"verdict":"pass","stand_ins":[]}`, d), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir, proof, d.String()
}

func configOf(t *testing.T, img v1.Image, arch, version string) *v1.ConfigFile {
	t.Helper()
	c, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c = c.DeepCopy()
	c.OS, c.Architecture = "linux", arch
	c.Config.Labels = map[string]string{images.LabelVersion: version, images.LabelRevision: "0123456789012345678901234567890123456789"}
	return c
}

// publishArgs makes two images and the command line that publishes them.
func publishArgs(t *testing.T, dir, repo, version string, more ...string) []string {
	t.Helper()
	args := []string{"images", "publish", "--repository", repo, "--key", filepath.Join(dir, "cosign.key")}
	for _, arch := range []string{"amd64", "arm64"} {
		layout, proof, digest := imageOf(t, arch, version)
		args = append(args, digest, "--layout", layout, "--proof", proof)
	}
	return append(args, more...)
}

// TestImages goes through a release's life on the command line.
func TestImages(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	repo, dir := strings.TrimPrefix(server.URL, "http://")+"/me/sandbox", t.TempDir()
	env := map[string]string{"COSIGN_PASSWORD": "secret", "HOME": t.TempDir()}
	pub := filepath.Join(dir, "cosign.pub")
	ok := func(want string, args ...string) string {
		t.Helper()
		code, stdout, stderr := run(t, env, args...)
		if code != exitcode.OK || !strings.Contains(stdout, want) {
			t.Fatalf("%v: exit %d\n%s%s\nwant %q", args, code, stdout, stderr, want)
		}
		return stdout
	}
	no := func(want exitcode.Code, text string, args ...string) {
		t.Helper()
		code, stdout, stderr := run(t, env, args...)
		if code != want || stdout != "" || !strings.Contains(stderr, text) {
			t.Errorf("%v: exit %d\n%s%s\nwant %d and %q", args, code, stdout, stderr, want, text)
		}
	}
	ok("cosign.key", "images", "keygen", "--output-key-prefix", filepath.Join(dir, "cosign"))
	no(exitcode.Error, "not replaced", "images", "keygen", "--output-key-prefix", filepath.Join(dir, "cosign"))

	first := publishArgs(t, dir, repo, "1.0.0", "--tag", "desktop")
	ok("desktop is new", first...)
	ok("desktop was there already", first...)
	ok("moved from sha256:", publishArgs(t, dir, repo, "1.1.0", "--tag", "desktop")...)
	no(exitcode.Error, "never moves backwards", publishArgs(t, dir, repo, "1.0.5", "--tag", "desktop")...)
	no(exitcode.Error, "release tag never moves", publishArgs(t, dir, repo, "1.1.0", "--tag", "1.1.0-desktop")...)
	no(exitcode.Error, "stable releases only", publishArgs(t, dir, repo, "2.0.0-rc.1", "--tag", "desktop")...)
	ok("2.0.0-rc.1-desktop is new", publishArgs(t, dir, repo, "2.0.0-rc.1", "--tag", "2.0.0-rc.1-desktop")...)
	no(exitcode.Error, "release run only", publishArgs(t, dir, "nousresearch/hermes-sandbox", "1.0.0", "--tag", "desktop")...)
	no(exitcode.Usage, "--key is missing", "images", "publish", "sha256:"+strings.Repeat("0", 64), "--repository", repo)
	no(exitcode.Usage, "takes DIGEST..., and there is none", "images", "publish")

	var doc struct {
		Command string
		Result  images.Verified
	}
	if err := json.Unmarshal([]byte(ok("", "images", "verify", repo+":desktop", "--key", pub, "--blobs", "--json")), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Command != "images verify" || doc.Result.Version != "1.1.0" || len(doc.Result.Images) != 2 {
		t.Errorf("%+v", doc)
	}
	env["PUB"] = string(read(t, pub))
	ok("version     1.1.0", "images", "verify", repo+":desktop", "--key", "env://PUB")
	no(exitcode.Error, "NOTHING is not set", "images", "verify", repo+":desktop", "--key", "env://NOTHING")
	no(exitcode.Usage, "expected a tag or a digest", "images", "verify", repo, "--key", pub)
	no(exitcode.Usage, "--key is missing", "images", "verify", repo+":desktop")
	no(exitcode.Error, `"kind": "error"`, "images", "verify", repo+":none", "--key", pub, "--json")

	ok(`"spdxVersion": "SPDX-2.3"`, "images", "sbom", repo+":desktop", "--key", pub, "--of", "linux/arm64")
	layoutDir, _, digest := imageOf(t, "amd64", "1.0.0")
	ok(`"documentNamespace"`, "images", "sbom", digest, "--layout", layoutDir)

	ok("from sha256:", "images", "rollback", repo+":desktop", "--key", pub)
	ok("version     1.0.0", "images", "verify", repo+":desktop", "--key", pub)
	no(exitcode.Error, "no earlier release", "images", "rollback", repo+":desktop", "--key", pub)
	no(exitcode.Error, "release run only", "images", "rollback", "nousresearch/hermes-sandbox:desktop", "--key", pub)
	no(exitcode.Usage, "--steps 0", "images", "rollback", repo+":desktop", "--key", pub, "--steps", "0")
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestReleaseRun: what GitHub's runner says is what the guard hears.
func TestReleaseRun(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		env  map[string]string
		want images.Run
	}{
		{nil, images.Run{}},
		{map[string]string{"GITHUB_ACTIONS": "true", "GITHUB_EVENT_NAME": "release"}, images.Run{CI: true, Event: "release"}},
		{map[string]string{"GITHUB_ACTIONS": "true", "GITHUB_EVENT_NAME": "workflow_dispatch", "HERMES_IMAGES_PUBLISH": "true"}, images.Run{CI: true, Event: "workflow_dispatch", Publish: true, Named: "true"}},
		{map[string]string{"GITHUB_ACTIONS": "true", "GITHUB_EVENT_NAME": "push", "GITHUB_REF_TYPE": "tag"}, images.Run{CI: true, Event: "push", Tag: true}},
		{map[string]string{"HERMES_IMAGES_PUBLISH": "ghcr.io/x/y"}, images.Run{Named: "ghcr.io/x/y"}},
		{map[string]string{"GITHUB_ACTIONS": "1", "HERMES_IMAGES_PUBLISH": "false"}, images.Run{Named: "false"}},
	} {
		if got := releaseRun(Env{Getenv: func(n string) string { return tt.env[n] }}); got != tt.want {
			t.Errorf("%v: got %+v, want %+v", tt.env, got, tt.want)
		}
	}
	o := origin(Env{Getenv: func(n string) string {
		return map[string]string{"GITHUB_ACTIONS": "true", "GITHUB_SERVER_URL": "https://github.com", "GITHUB_WORKFLOW_REF": "o/r/.github/workflows/w.yml@refs/tags/v1", "GITHUB_REPOSITORY": "o/r", "GITHUB_RUN_ID": "7"}[n]
	}})
	if o.Builder != "https://github.com/o/r/.github/workflows/w.yml@refs/tags/v1" || o.Invocation != "https://github.com/o/r/actions/runs/7" {
		t.Errorf("%+v", o)
	}
}
