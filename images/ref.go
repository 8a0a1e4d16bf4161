// SPDX-License-Identifier: MIT

package images

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strings"

	"go.podman.io/image/v5/docker/reference"
)

const (
	// DefaultRepository is where the project publishes, as users write it.
	DefaultRepository = "nousresearch/hermes-sandbox"
	// GatewayRepository is where it publishes the gateway's image, on ghcr.io.
	GatewayRepository = "hermes-appliance/hermes-appliance"
	// RollingTag is the tag of the sandbox image that follows stable releases.
	RollingTag = "desktop"
	// LatestTag is that of the gateway's image.
	LatestTag = "latest"
)

// Labels that publishing reads from an image's config.
const (
	LabelVersion  = "org.opencontainers.image.version"
	LabelRevision = "org.opencontainers.image.revision"
	LabelSource   = "org.opencontainers.image.source"
)

// Digest names content by its SHA-256: "sha256:" and 64 hexadecimal digits in lower case.
type Digest string

var digestPattern = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// ParseDigest checks a digest.
func ParseDigest(s string) (Digest, error) {
	if !digestPattern.MatchString(s) {
		return "", fmt.Errorf("digest %q: expected sha256: and 64 hexadecimal digits in lower case", s)
	}
	return Digest(s), nil
}

// DigestOf returns the digest of data.
func DigestOf(data []byte) Digest {
	sum := sha256.Sum256(data)
	return Digest("sha256:" + hex.EncodeToString(sum[:]))
}

// hex returns the digits alone.
func (d Digest) hex() string { return strings.TrimPrefix(string(d), "sha256:") }

// attached is the tag under which what belongs to d is found where digests cannot be asked
// for: cosign's "sha256-<hex>.sig" and "sha256-<hex>.att".
func (d Digest) attached(suffix string) string { return "sha256-" + d.hex() + "." + suffix }

// Ref names an image in a registry.
type Ref struct {
	Name   string // registry and path, in full: "docker.io/nousresearch/hermes-sandbox"
	Tag    string // empty = none
	Digest Digest // empty = none
}

// ParseRef reads a reference as people write it: a missing registry means docker.io. No tag
// is made up.
func ParseRef(s string) (Ref, error) {
	named, err := reference.ParseNormalizedNamed(s)
	if err != nil {
		return Ref{}, fmt.Errorf("image %q: %w; expected [REGISTRY/]PATH[:TAG][@sha256:…]", s, err)
	}
	r := Ref{Name: named.Name()}
	if t, ok := named.(reference.Tagged); ok {
		r.Tag = t.Tag()
	}
	if d, ok := named.(reference.Digested); ok {
		if r.Digest, err = ParseDigest(d.Digest().String()); err != nil {
			return Ref{}, fmt.Errorf("image %q: %w", s, err)
		}
	}
	return r, nil
}

// ParseRepository reads a reference that must have neither tag nor digest.
func ParseRepository(s string) (Ref, error) {
	r, err := ParseRef(s)
	if err == nil && (r.Tag != "" || r.Digest != "") {
		return Ref{}, fmt.Errorf("repository %q: expected [REGISTRY/]PATH without a tag or digest", s)
	}
	return r, err
}

// String returns the reference in full.
func (r Ref) String() string {
	s := r.Name
	if r.Tag != "" {
		s += ":" + r.Tag
	}
	if r.Digest != "" {
		s += "@" + string(r.Digest)
	}
	return s
}

// Repository returns r without tag and digest.
func (r Ref) Repository() Ref { return Ref{Name: r.Name} }

// WithTag returns the repository of r with a tag alone.
func (r Ref) WithTag(tag string) Ref { return Ref{Name: r.Name, Tag: tag} }

// WithDigest returns the repository of r with a digest alone.
func (r Ref) WithDigest(d Digest) Ref { return Ref{Name: r.Name, Digest: d} }

// Host returns the registry, with its port.
func (r Ref) Host() string {
	host, _, _ := strings.Cut(r.Name, "/")
	return host
}

// path returns the name below the registry.
func (r Ref) path() string {
	_, path, _ := strings.Cut(r.Name, "/")
	return path
}

// Loopback reports whether the registry is on this machine: the only place that plain HTTP
// is spoken with, and stand-ins may go to.
func (r Ref) Loopback() bool { return loopback(r.Host()) }

// loopback reports whether host, with or without a port, is this machine.
func loopback(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && ip.IsLoopback()
}

// Production reports whether r is one of the project's own repositories, on any registry and
// below any prefix, as a mirror has one.
func (r Ref) Production() bool { return r.is(DefaultRepository) || r.gateway() }

// gateway reports whether r is the one of the gateway's image.
func (r Ref) gateway() bool { return r.is(GatewayRepository) }

func (r Ref) is(repository string) bool {
	return r.path() == repository || strings.HasSuffix(r.path(), "/"+repository)
}
