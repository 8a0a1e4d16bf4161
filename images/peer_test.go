// SPDX-License-Identifier: MIT

package images

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.podman.io/image/v5/docker"
	"go.podman.io/image/v5/docker/reference"
	"go.podman.io/image/v5/types"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// tool returns the path of a program that the test needs.
func tool(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	testkit.Need(t, name, err == nil, "the program "+name+" is not on PATH")
	return path
}

// run runs a program in dir and returns its output.
func run(t testing.TB, dir string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "COSIGN_PASSWORD=secret", "TMPDIR=" + t.TempDir()}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// keyFiles writes a key pair and gives the desk its signer.
func (d *desk) keyFiles(t *testing.T) (dir string) {
	t.Helper()
	private, public, err := GenerateKey([]byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	if d.signer, err = ParseSigner(private, []byte("secret")); err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	testkit.WriteTree(t, dir, map[string]string{"cosign.key": string(private), "cosign.pub": string(public)})
	return dir
}

// TestCosign: the real cosign verifies our signature and our provenance, refuses them with
// another key, signs with our key file what we then verify, and adds its signature to ours.
func TestCosign(t *testing.T) {
	t.Parallel()
	cosign := tool(t, "cosign")
	both(t, func(t *testing.T, d *desk) {
		dir := d.keyFiles(t)
		p := d.publish("1.0.0", RollingTag)
		ref := d.repo.WithTag(RollingTag).String()
		verify := []string{cosign, "verify", "--key", "cosign.pub", "--insecure-ignore-tlog=true", ref}
		out, err := run(t, dir, verify...)
		if err != nil || !strings.Contains(out, string(p.Digest)) {
			t.Fatalf("cosign verify: %v\n%s", err, out)
		}
		out, err = run(t, dir, cosign, "verify-attestation", "--key", "cosign.pub", "--insecure-ignore-tlog=true", "--type", "slsaprovenance1", ref)
		if err != nil || !strings.Contains(out, `"payloadType":"application/vnd.in-toto+json"`) {
			t.Errorf("cosign verify-attestation: %v\n%s", err, out)
		}
		if out, err := run(t, dir, cosign, "generate-key-pair", "--output-key-prefix", "other"); err != nil {
			t.Fatalf("cosign generate-key-pair: %v\n%s", err, out)
		}
		if out, err := run(t, dir, cosign, "verify", "--key", "other.pub", "--insecure-ignore-tlog=true", ref); err == nil {
			t.Errorf("cosign verify with another key passed:\n%s", out)
		}
		// cosign's key opens here, and ours opens there.
		data, err := os.ReadFile(filepath.Join(dir, "other.key"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseSigner(data, []byte("secret")); err != nil {
			t.Error(err)
		}
		out, err = run(t, dir, cosign, "sign", "--key", "other.key", "--tlog-upload=false", "--new-bundle-format=false", "--use-signing-config=false", "--yes", d.repo.WithDigest(p.Digest).String())
		if err != nil {
			t.Fatalf("cosign sign: %v\n%s", err, out)
		}
		d.want(RollingTag) // ours is still there
		if l, err := d.signatures(t.Context(), d.repo.WithTag(p.Digest.attached("sig"))); err != nil || len(l) != 2 {
			t.Errorf("%d signatures, %v; want ours and cosign's", len(l), err)
		}
		pub, err := os.ReadFile(filepath.Join(dir, "other.pub"))
		if err != nil {
			t.Fatal(err)
		}
		key, err := ParseKey(pub)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.client().checkSignature(t.Context(), d.repo, p.Digest, key); err != nil {
			t.Errorf("cosign's signature: %v", err)
		}
		if out, err := run(t, dir, verify...); err != nil {
			t.Errorf("cosign verify after cosign signed too: %v\n%s", err, out)
		}
	})
}

// TestSkopeo: an engine's own policy (sigstoreSigned, matchRepository) lets our image in with
// our key, and keeps it out with another one.
func TestSkopeo(t *testing.T) {
	t.Parallel()
	skopeo := tool(t, "skopeo")
	d := newDesk(t, false)
	dir := d.keyFiles(t)
	d.publish("1.0.0", RollingTag)
	_, other, err := GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	policy := func(key string) string {
		return fmt.Sprintf(`{"default":[{"type":"reject"}],"transports":{"docker":{%q:[{"type":"sigstoreSigned","keyPath":%q,"signedIdentity":{"type":"matchRepository"}}]}}}`, d.repo.Name, filepath.Join(dir, key))
	}
	testkit.WriteTree(t, dir, map[string]string{
		"other.pub": string(other), "policy.json": policy("cosign.pub"), "wrong.json": policy("other.pub"),
		"registries.d/default.yaml": "default-docker:\n  use-sigstore-attachments: true\n", "out/": "", "out2/": "",
	})
	copyTo := func(policy, to string) (string, error) {
		return run(t, dir, skopeo, "--policy", policy, "--registries.d", filepath.Join(dir, "registries.d"), "copy", "--all", "--preserve-digests", "--src-tls-verify=false", "docker://"+d.repo.WithTag(RollingTag).String(), "dir:"+to)
	}
	out, err := copyTo("policy.json", "out")
	testkit.Need(t, "skopeo", !strings.Contains(out, "sigstore disabled"), "this skopeo was built without sigstore")
	if err != nil {
		t.Errorf("skopeo copy: %v\n%s", err, out)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "out", "manifest.json"))
	if err != nil || DigestOf(raw) != d.at(RollingTag) {
		t.Errorf("what skopeo copied is %s, %v; want %s", DigestOf(raw), err, d.at(RollingTag))
	}
	if out, err := copyTo("wrong.json", "out2"); err == nil {
		t.Errorf("skopeo copy with another key passed:\n%s", out)
	}
}

// TestEnginesPull: the library that podman, buildah and skopeo pull with reads the same bytes.
func TestEnginesPull(t *testing.T) {
	t.Parallel()
	d := newDesk(t, true)
	p := d.publish("1.0.0", RollingTag)
	named, err := reference.ParseNormalizedNamed(d.repo.WithTag(RollingTag).String())
	if err != nil {
		t.Fatal(err)
	}
	ref, err := docker.NewReference(named)
	if err != nil {
		t.Fatal(err)
	}
	sys := &types.SystemContext{
		DockerInsecureSkipTLSVerify: types.OptionalBoolTrue, SystemRegistriesConfPath: os.DevNull, RegistriesDirPath: t.TempDir(),
		AuthFilePath: filepath.Join(t.TempDir(), "auth.json"),
	}
	src, err := ref.NewImageSource(t.Context(), sys)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	raw, mediaType, err := src.GetManifest(t.Context(), nil)
	if err != nil || DigestOf(raw) != p.Digest || mediaType != imageIndexType {
		t.Fatalf("index: %s %s %v, want %s", DigestOf(raw), mediaType, err, p.Digest)
	}
	for platform, digest := range p.Images {
		g := goDigest(string(digest))
		raw, _, err := src.GetManifest(t.Context(), &g)
		if err != nil || DigestOf(raw) != digest {
			t.Errorf("%s: %s %v", platform, DigestOf(raw), err)
		}
	}
}

// startRegistry runs docker-registry on a port that the kernel picks for it, and waits until it says which.
func startRegistry(t *testing.T, program string) (address string) {
	t.Helper()
	dir := t.TempDir()
	testkit.WriteTree(t, dir, map[string]string{
		"config.yml": "version: 0.1\nlog: {level: info, accesslog: {disabled: true}}\nstorage: {filesystem: {rootdirectory: " + dir + "/data}}\nhttp: {addr: \"127.0.0.1:0\"}\n",
	})
	cmd := exec.CommandContext(t.Context(), program, "serve", filepath.Join(dir, "config.yml"))
	cmd.Env = []string{}
	out, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	listens, ended := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(ended)
		pattern := regexp.MustCompile(`listening on (127\.0\.0\.1:\d+)`)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if m := pattern.FindStringSubmatch(lines.Text()); m != nil {
				listens <- m[1]
			}
		}
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-ended
		cmd.Wait()
	})
	select {
	case address = <-listens:
	case <-ended:
		t.Fatal("docker-registry ended and never said where it listens")
	}
	return address
}

// TestDockerRegistry: all of it against Debian's docker-registry, which has no referrers API.
func TestDockerRegistry(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("docker-registry")
	testkit.Need(t, "registry", err == nil, "the program docker-registry is not on PATH")
	address := startRegistry(t, program)
	d := &desk{t: t, signer: newSigner(t), repo: Ref{Name: address + "/me/hermes-sandbox"}}
	d.Registry = d.client()
	one := d.publish("1.0.0", RollingTag)
	two := d.publish("1.1.0", RollingTag)
	if v := d.want(RollingTag); v.Digest != two.Digest {
		t.Errorf("desktop is %s, want %s", v.Digest, two.Digest)
	}
	if _, err := d.Rollback(t.Context(), RollbackOptions{Tag: d.repo.WithTag(RollingTag), Key: d.signer.Key()}); err != nil {
		t.Fatal(err)
	}
	if v := d.want(RollingTag); v.Digest != one.Digest {
		t.Errorf("rolled back to %s, want %s", v.Digest, one.Digest)
	}
	sbom, err := d.SBOM(t.Context(), VerifyOptions{Ref: d.repo.WithTag(RollingTag), Key: d.signer.Key()}, "linux/arm64")
	if err != nil || !json.Valid(sbom) {
		t.Errorf("sbom: %v", err)
	}
}
