// SPDX-License-Identifier: MIT

package images

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// SPDXType is the media type of an SBOM.
const SPDXType = "application/spdx+json"

// Component is one thing that is in an image.
type Component struct {
	Kind    string // "deb", "pypi", "npm" or "golang"
	Name    string
	Version string
	Arch    string // "" = none or any
	Path    string // where in the image it was read
}

// purl is the package URL: https://github.com/package-url/purl-spec.
func (c Component) purl(distro string) string {
	switch c.Kind {
	case "deb":
		q := url.Values{}
		if c.Arch != "" {
			q.Set("arch", c.Arch)
		}
		if distro != "" {
			q.Set("distro", distro)
		}
		s := "pkg:deb/debian/" + url.PathEscape(c.Name) + "@" + purlEscape(c.Version)
		if len(q) > 0 {
			s += "?" + q.Encode()
		}
		return s
	case "npm":
		name := strings.Replace(c.Name, "@", "%40", 1)
		return "pkg:npm/" + name + "@" + purlEscape(c.Version)
	case "pypi":
		name := strings.ReplaceAll(strings.ToLower(c.Name), "_", "-")
		return "pkg:pypi/" + url.PathEscape(name) + "@" + purlEscape(c.Version)
	}
	return "pkg:" + c.Kind + "/" + c.Name + "@" + purlEscape(c.Version)
}

// purlEscape escapes what a version may hold and a package URL may not.
func purlEscape(s string) string {
	return strings.NewReplacer(":", "%3A", "+", "%2B").Replace(url.PathEscape(s))
}

// The parts of SPDX 2.3 that are written: https://spdx.github.io/spdx-spec/v2.3/.
type spdxDocument struct {
	Version       string             `json:"spdxVersion"`
	License       string             `json:"dataLicense"`
	ID            string             `json:"SPDXID"`
	Name          string             `json:"name"`
	Namespace     string             `json:"documentNamespace"`
	Creation      spdxCreation       `json:"creationInfo"`
	Packages      []spdxPackage      `json:"packages"`
	Relationships []spdxRelationship `json:"relationships"`
}

type spdxCreation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type spdxPackage struct {
	ID           string         `json:"SPDXID"`
	Name         string         `json:"name"`
	Version      string         `json:"versionInfo,omitempty"`
	Location     string         `json:"downloadLocation"`
	Analyzed     bool           `json:"filesAnalyzed"`
	Concluded    string         `json:"licenseConcluded"`
	Declared     string         `json:"licenseDeclared"`
	Copyright    string         `json:"copyrightText"`
	Purpose      string         `json:"primaryPackagePurpose,omitempty"`
	Source       string         `json:"sourceInfo,omitempty"`
	Checksums    []spdxChecksum `json:"checksums,omitempty"`
	ExternalRefs []spdxRef      `json:"externalRefs,omitempty"`
}

type spdxChecksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type spdxRef struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type spdxRelationship struct {
	From string `json:"spdxElementId"`
	Type string `json:"relationshipType"`
	To   string `json:"relatedSpdxElement"`
}

const noAssertion = "NOASSERTION"

// SBOM reads every layer of an image, verifies it, and returns what is installed in it as
// SPDX 2.3 JSON: Debian's packages, Python distributions, npm packages and the modules of
// Go programs. name is the image's, tool names the program and its version. The same image,
// name and tool give the same bytes.
func (i *Image) SBOM(ctx context.Context, name, tool string) ([]byte, error) {
	inv, err := i.inventory(ctx)
	if err != nil {
		return nil, err
	}
	const imageID = "SPDXRef-Image"
	image := spdxPackage{
		ID: imageID, Name: name, Version: string(i.Digest), Location: noAssertion, Concluded: noAssertion, Declared: noAssertion, Copyright: noAssertion,
		Purpose: "CONTAINER", Checksums: []spdxChecksum{{"SHA256", i.Digest.hex()}},
	}
	if len(inv.skipped) > 0 {
		image.Source = "not looked into for Go modules, being too large: " + strings.Join(inv.skipped, ", ")
	}
	doc := spdxDocument{
		Version: "SPDX-2.3", License: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: name + "@" + string(i.Digest),
		Namespace: "https://spdx.org/spdxdocs/" + url.PathEscape(name) + "-" + i.Digest.hex(),
		Creation:  spdxCreation{i.Created.UTC().Format(time.RFC3339), []string{"Tool: " + tool}},
		Packages:  []spdxPackage{image}, Relationships: []spdxRelationship{{"SPDXRef-DOCUMENT", "DESCRIBES", imageID}},
	}
	for n, c := range inv.components {
		p := spdxPackage{
			ID: fmt.Sprintf("SPDXRef-%s-%d", c.Kind, n), Name: c.Name, Version: c.Version, Location: noAssertion, Concluded: noAssertion,
			Declared: noAssertion, Copyright: noAssertion, Source: "read from /" + c.Path,
			ExternalRefs: []spdxRef{{"PACKAGE-MANAGER", "purl", c.purl(inv.distro)}},
		}
		doc.Packages = append(doc.Packages, p)
		doc.Relationships = append(doc.Relationships, spdxRelationship{imageID, "CONTAINS", p.ID})
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	err = enc.Encode(doc)
	return b.Bytes(), err
}

// Components returns what is installed in an image, sorted.
func (i *Image) Components(ctx context.Context) ([]Component, error) {
	inv, err := i.inventory(ctx)
	return inv.components, err
}

func sortComponents(c []Component) []Component {
	slices.SortFunc(c, func(a, b Component) int {
		return slices.Compare([]string{a.Kind, a.Name, a.Version, a.Arch, a.Path}, []string{b.Kind, b.Name, b.Version, b.Arch, b.Path})
	})
	return slices.CompactFunc(c, func(a, b Component) bool {
		a.Path = b.Path
		return a == b
	})
}
