// SPDX-License-Identifier: MIT

package images

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Sources are where pins are learned from. The zero value is of no use; see [PublicSources].
type Sources struct {
	Client   *http.Client
	Npm      string // the npm registry
	Registry string // "" = https and the host that the base's reference names
	Snapshot string // Debian's archive of its past
	GitHub   string
	CDN      string // Playwright's
}

// PublicSources returns the places that everybody uses.
func PublicSources(client *http.Client) Sources {
	return Sources{
		Client: client, Npm: "https://" + npmHost, Snapshot: "http://snapshot.debian.org",
		GitHub: "https://github.com", CDN: "https://cdn.playwright.dev",
	}
}

// Learned is what an update of a lock found.
type Learned struct {
	Lock    Lock
	New     []string // keys that have a value now
	Missing []string // keys that have none, with the reason
}

// ErrPinned says that a source has something else under a name than what is pinned.
var ErrPinned = errors.New("the source has something else than what is pinned")

// Update learns the values that a lock says are [Unresolved], each from where it comes from. A
// value that is there stays: what npm has under a pinned version is compared, and an
// [ErrPinned] if it is another. A source that cannot be reached leaves its values unresolved.
func (l Lock) Update(ctx context.Context, s Sources) (out Learned, err error) {
	out.Lock = l
	learn := func(key, have string, set func(string), ask func() (string, error)) {
		if have != Unresolved {
			return
		}
		value, err := ask()
		if err != nil {
			out.Missing = append(out.Missing, key+": "+err.Error())
			return
		}
		set(value)
		out.New = append(out.New, key)
	}
	n := &out.Lock
	learn("base.digest", l.Base.Digest, func(v string) { n.Base.Digest = v }, func() (string, error) { return s.index(ctx, l.Base.Ref) })
	learn("apt.snapshot", l.Apt.Snapshot, func(v string) { n.Apt.Snapshot = v }, func() (string, error) {
		return s.snapshot(ctx, l.Created().Format("20060102T150405Z"))
	})
	n.Npm = maps.Clone(l.Npm)
	for _, name := range slices.Sorted(maps.Keys(l.Npm)) {
		p := l.Npm[name]
		got, err := s.integrity(ctx, name, p.Version)
		if err == nil && p.Integrity != Unresolved && got != p.Integrity {
			return out, fmt.Errorf("npm %s %s: %w: %s, not %s", name, p.Version, ErrPinned, got, p.Integrity)
		}
		learn("npm."+name+".integrity", p.Integrity, func(v string) { n.Npm[name] = NpmLock{p.Version, v} }, func() (string, error) { return got, err })
	}
	n.Cua.SHA256, n.Chromium.SHA256 = maps.Clone(l.Cua.SHA256), maps.Clone(l.Chromium.SHA256)
	for _, arch := range Arches() {
		learn("cua_driver.sha256."+arch, l.Cua.SHA256[arch], func(v string) { n.Cua.SHA256[arch] = v }, func() (string, error) {
			return s.hash(ctx, s.GitHub+l.Cua.path(arch))
		})
		learn("chromium.sha256."+arch, l.Chromium.SHA256[arch], func(v string) { n.Chromium.SHA256[arch] = v }, func() (string, error) {
			return s.hash(ctx, s.CDN+l.Chromium.path(arch))
		})
	}
	return out, errors.Join(ctx.Err(), n.check())
}

func (c CuaLock) path(arch string) string {
	if arch == "amd64" {
		arch = "x86_64"
	}
	return fmt.Sprintf("/trycua/cua/releases/download/cua-driver-rs-v%s/cua-driver-rs-%s-linux-%s-binary.tar.gz", c.Version, c.Version, arch)
}

func (c ChromiumLock) path(arch string) string {
	if arch == "amd64" {
		return "/builds/cft/" + c.Version + "/linux64/chrome-linux64.zip"
	}
	return "/builds/cft/" + c.Version + "/linux-arm64/chrome-linux-arm64.zip"
}

// get asks for a URL and hands on what is there.
func (s Sources) get(ctx context.Context, method, address string, header http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, address, nil)
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, header)
	return s.Client.Do(req)
}

// read asks for a URL and reads all of it, at most limit bytes, into w.
func (s Sources) read(ctx context.Context, address string, w io.Writer, limit int64) (err error) {
	res, err := s.get(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, res.Body.Close()) }()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", address, res.Status)
	}
	n, err := io.Copy(w, io.LimitReader(res.Body, limit+1))
	if err == nil && n > limit {
		err = fmt.Errorf("%s: more than %d bytes", address, limit)
	}
	return err
}

// hash fetches a file and returns its SHA-256.
func (s Sources) hash(ctx context.Context, address string) (string, error) {
	h := sha256.New()
	if err := s.read(ctx, address, h, 1<<30); err != nil {
		return "", err
	}
	return strings.TrimPrefix(sum(h.Sum(nil)), "sha256:"), nil
}

func (s Sources) integrity(ctx context.Context, name, version string) (string, error) {
	var doc strings.Builder
	if err := s.read(ctx, s.Npm+"/"+name+"/"+version, &doc, maxDocument); err != nil {
		return "", err
	}
	var p struct{ Dist struct{ Integrity string } }
	if err := json.Unmarshal([]byte(doc.String()), &p); err != nil {
		return "", fmt.Errorf("npm %s %s: %w", name, version, err)
	}
	if _, err := (NpmLock{Integrity: p.Dist.Integrity}).sum(); err != nil {
		return "", fmt.Errorf("npm %s %s: %w", name, version, err)
	}
	return p.Dist.Integrity, nil
}

var snapshotInPath = regexp.MustCompile(`/archive/debian/(\d{8}T\d{6}Z)/`)

// snapshot returns the time of the state of Debian's archive that counted at a time: the
// server leads there.
func (s Sources) snapshot(ctx context.Context, at string) (string, error) {
	res, err := s.get(ctx, http.MethodHead, s.Snapshot+"/archive/debian/"+at+"/dists/trixie/InRelease", nil)
	if err != nil {
		return "", err
	}
	if err := res.Body.Close(); err != nil {
		return "", err
	}
	m := snapshotInPath.FindStringSubmatch(res.Request.URL.Path)
	if res.StatusCode != http.StatusOK || m == nil {
		return "", fmt.Errorf("%s: %s", res.Request.URL, res.Status)
	}
	return m[1], nil
}

var challenge = regexp.MustCompile(`(\w+)="([^"]*)"`)

// index asks a registry for the digest of a tag's index, as anybody may.
func (s Sources) index(ctx context.Context, ref string) (string, error) {
	name, tag, _ := strings.Cut(ref[strings.LastIndex(ref, "/"):], ":")
	host, path, _ := strings.Cut(strings.TrimSuffix(ref, name+":"+tag)+name, "/")
	registry := s.Registry
	if registry == "" {
		registry = "https://" + strings.Replace(host, "docker.io", "registry-1.docker.io", 1)
	}
	address := registry + "/v2/" + path + "/manifests/" + tag
	header := http.Header{"Accept": {typeIndex, "application/vnd.docker.distribution.manifest.list.v2+json"}}
	for try := range 2 {
		res, err := s.get(ctx, http.MethodHead, address, header)
		if err != nil {
			return "", err
		}
		if err := res.Body.Close(); err != nil {
			return "", err
		}
		if res.StatusCode == http.StatusUnauthorized && try == 0 {
			token, err := s.token(ctx, res.Header.Get("WWW-Authenticate"))
			if err != nil {
				return "", err
			}
			header.Set("Authorization", "Bearer "+token)
			continue
		}
		digest := res.Header.Get("Docker-Content-Digest")
		if res.StatusCode != http.StatusOK || !strings.HasPrefix(digest, "sha256:") {
			return "", fmt.Errorf("%s: %s", address, res.Status)
		}
		if kind := res.Header.Get("Content-Type"); !slices.Contains(header["Accept"], kind) {
			return "", fmt.Errorf("%s: is %s, expected the index of all architectures", address, kind)
		}
		return digest, nil
	}
	return "", fmt.Errorf("%s: not allowed", address)
}

// token gets what anybody gets from the place that a registry names.
func (s Sources) token(ctx context.Context, ask string) (string, error) {
	part := map[string]string{}
	for _, m := range challenge.FindAllStringSubmatch(ask, -1) {
		part[m[1]] = m[2]
	}
	u, err := url.Parse(part["realm"])
	if err != nil || u.Host == "" {
		return "", fmt.Errorf("the registry asks for %q", ask)
	}
	u.RawQuery = url.Values{"service": {part["service"]}, "scope": {part["scope"]}}.Encode()
	var doc strings.Builder
	if err := s.read(ctx, u.String(), &doc, maxDocument); err != nil {
		return "", err
	}
	var t struct{ Token string }
	err = json.Unmarshal([]byte(doc.String()), &t)
	return t.Token, err
}
