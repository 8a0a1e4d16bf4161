// SPDX-License-Identifier: MIT

package images

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
)

// LockMaterials returns the pins of a lock file as the materials of a provenance, and the
// keys that nobody has resolved yet, which are in no material.
func LockMaterials(path string, data []byte) (out []Material, unresolved []string, err error) {
	var l struct {
		Base struct{ Ref, Digest string }                   `json:"base"`
		Apt  struct{ Snapshot string }                      `json:"apt"`
		Npm  map[string]struct{ Version, Integrity string } `json:"npm"`
		Cua  struct {
			Version string
			SHA256  map[string]string
		} `json:"cua_driver"`
		Chromium struct {
			Revision, Version string
			SHA256            map[string]string
		} `json:"chromium"`
	}
	if err := json.Unmarshal(data, &l); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	// add notes one pin; sum is hexadecimal digits, "" = the pin is in its URI.
	add := func(name, uri, algorithm, sum string) {
		switch {
		case sum == unresolvedPin || strings.Contains(uri, unresolvedPin):
			unresolved = append(unresolved, name)
		case sum == "":
			out = append(out, Material{Name: name, URI: uri})
		default:
			out = append(out, Material{Name: name, URI: uri, Digest: map[string]string{algorithm: sum}})
		}
	}
	add("lock", path, "sha256", DigestOf(data).hex())
	add("base", l.Base.Ref, "sha256", strings.TrimPrefix(l.Base.Digest, "sha256:"))
	add("apt", "https://snapshot.debian.org/archive/debian/"+l.Apt.Snapshot+"/", "", "")
	for name, p := range l.Npm {
		sum := p.Integrity
		if sum != unresolvedPin {
			raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(sum, "sha512-"))
			if err != nil || len(raw) != 64 {
				return nil, nil, fmt.Errorf("%s: npm.%s.integrity is %q, expected sha512-BASE64", path, name, sum)
			}
			sum = hex.EncodeToString(raw)
		}
		add("npm "+name, Component{Kind: "npm", Name: name, Version: p.Version}.purl(""), "sha512", sum)
	}
	for arch, sum := range l.Cua.SHA256 {
		add("cua-driver "+arch, "pkg:generic/cua-driver@"+l.Cua.Version+"?arch="+arch, "sha256", sum)
	}
	for arch, sum := range l.Chromium.SHA256 {
		add("chromium "+arch, "pkg:generic/chromium@"+l.Chromium.Version+"?arch="+arch+"&revision="+l.Chromium.Revision, "sha256", sum)
	}
	return out, unresolved, nil
}

// unresolvedPin stands in a lock for what nobody could learn yet.
const unresolvedPin = "unresolved"
