// SPDX-License-Identifier: MIT

package images

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// The provenance is SLSA v1 in an in-toto statement in a signed DSSE envelope.
const (
	statementType   = "https://in-toto.io/Statement/v1"
	provenanceType  = "https://slsa.dev/provenance/v1"
	inTotoType      = "application/vnd.in-toto+json"
	dsseType        = "application/vnd.dsse.envelope.v1+json"
	buildType       = "https://github.com/hermes-appliance/hermes-appliance/blob/main/docs/images.md#what-a-build-takes"
	attestSuffix    = "att"
	predicateTypeOf = "predicateType" // cosign's annotation of a layer
)

// Material is something that went into a build.
type Material struct {
	Name   string            `json:"name"`             // "base", "playwright", "source"
	URI    string            `json:"uri,omitempty"`    // where it came from
	Digest map[string]string `json:"digest,omitempty"` // algorithm to hexadecimal digits: "sha256", "sha512", "gitCommit"
}

// Origin tells how images came to be: what provenance holds beside their digests.
type Origin struct {
	Materials  []Material        // the lock's pins
	Unresolved []string          // pins that nobody resolved; they never leave this machine
	Parameters map[string]string // what the build was asked for: release, base, browser
	Builder    string            // who built, a URI: the workflow and its ref, or where it ran by hand
	Invocation string            // one run of the builder, a URI; "" = unknown
}

type statement struct {
	Type          string     `json:"_type"`
	Subject       []resource `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     predicate  `json:"predicate"`
}

type resource struct {
	Name        string            `json:"name,omitempty"`
	URI         string            `json:"uri,omitempty"`
	Digest      map[string]string `json:"digest,omitempty"`
	MediaType   string            `json:"mediaType,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type predicate struct {
	Definition struct {
		BuildType string            `json:"buildType"`
		External  map[string]string `json:"externalParameters"`
		Resolved  []resource        `json:"resolvedDependencies"`
	} `json:"buildDefinition"`
	Run struct {
		Builder struct {
			ID string `json:"id"`
		} `json:"builder"`
		Metadata struct {
			Invocation string `json:"invocationId,omitempty"`
		} `json:"metadata"`
		Byproducts []resource `json:"byproducts"`
	} `json:"runDetails"`
}

type envelope struct {
	PayloadType string              `json:"payloadType"`
	Payload     string              `json:"payload"`
	Signatures  []envelopeSignature `json:"signatures"`
}

type envelopeSignature struct {
	KeyID string `json:"keyid"`
	Sig   string `json:"sig"`
}

// The kinds of documents that belong to an image; the provenance lists them with their
// digests, and so vouches for them.
const (
	kindSBOM  = "sbom"
	kindSmoke = "smoke"
)

// document belongs to one image of an index.
type document struct {
	kind      string
	platform  Platform
	mediaType string
	data      []byte
}

func (d document) name() string { return d.kind + " " + string(d.platform) }

// provenance makes the statement about an index, its images and their documents.
func provenance(repo Ref, index Digest, imgs []*Image, docs []document, f facts, o Origin) ([]byte, error) {
	if o.Builder == "" {
		return nil, errors.New("provenance: the builder is missing")
	}
	s := statement{Type: statementType, PredicateType: provenanceType}
	s.Subject = append(s.Subject, resource{Name: repo.Name, Digest: sha(index)})
	for _, i := range imgs {
		s.Subject = append(s.Subject, resource{Name: repo.Name, Digest: sha(i.Digest), Annotations: map[string]string{"platform": string(i.Platform)}})
	}
	def := &s.Predicate.Definition
	def.BuildType, def.External = buildType, maps.Clone(o.Parameters)
	if def.External == nil {
		def.External = map[string]string{}
	}
	def.External["version"] = f.version
	def.Resolved = append(def.Resolved, resource{Name: "source", URI: imgs[0].Source, Digest: map[string]string{"gitCommit": f.revision}})
	for _, m := range slices.SortedFunc(slices.Values(o.Materials), func(a, b Material) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.URI, b.URI)) }) {
		def.Resolved = append(def.Resolved, resource{Name: m.Name, URI: m.URI, Digest: m.Digest})
	}
	s.Predicate.Run.Builder.ID, s.Predicate.Run.Metadata.Invocation = o.Builder, o.Invocation
	for _, d := range docs {
		s.Predicate.Run.Byproducts = append(s.Predicate.Run.Byproducts, resource{Name: d.name(), MediaType: d.mediaType, Digest: sha(DigestOf(d.data))})
	}
	return json.Marshal(s)
}

func sha(d Digest) map[string]string { return map[string]string{"sha256": d.hex()} }

// seal signs a statement: https://github.com/secure-systems-lab/dsse.
func (s *Signer) seal(payload []byte) ([]byte, error) {
	sig, err := s.sign(preAuth(inTotoType, payload))
	if err != nil {
		return nil, err
	}
	return json.Marshal(envelope{inTotoType, base64.StdEncoding.EncodeToString(payload), []envelopeSignature{{"", base64.StdEncoding.EncodeToString(sig)}}})
}

// preAuth is what DSSE signs.
func preAuth(kind string, payload []byte) []byte {
	out := append([]byte("DSSEv1 "), strconv.Itoa(len(kind))...)
	out = append(out, " "+kind+" "+strconv.Itoa(len(payload))+" "...)
	return append(out, payload...)
}

// unseal returns the statement in an envelope that key signed.
func (k *Key) unseal(data []byte) (statement, error) {
	var e envelope
	var s statement
	if err := json.Unmarshal(data, &e); err != nil || e.PayloadType != inTotoType {
		return s, fmt.Errorf("%w: not an envelope with %s", ErrNoProvenance, inTotoType)
	}
	payload, err := base64.StdEncoding.DecodeString(e.Payload)
	if err != nil {
		return s, fmt.Errorf("%w: %w", ErrNoProvenance, err)
	}
	ok := slices.ContainsFunc(e.Signatures, func(sig envelopeSignature) bool {
		raw, err := base64.StdEncoding.DecodeString(sig.Sig)
		return err == nil && k.verify(preAuth(e.PayloadType, payload), raw)
	})
	if !ok {
		return s, fmt.Errorf("provenance: %w", ErrWrongKey)
	}
	if err := json.Unmarshal(payload, &s); err != nil || s.Type != statementType || s.PredicateType != provenanceType {
		return s, fmt.Errorf("%w: the statement is %q about %q", ErrNoProvenance, s.Type, s.PredicateType)
	}
	return s, nil
}

// covers reports whether the statement is about d.
func (s statement) covers(d Digest) bool {
	return slices.ContainsFunc(s.Subject, func(r resource) bool { return r.Digest["sha256"] == d.hex() })
}

// byproduct returns the digest of a document, or "".
func (s statement) byproduct(name string) Digest {
	for _, b := range s.Predicate.Run.Byproducts {
		if b.Name == name && b.Digest["sha256"] != "" {
			return Digest("sha256:" + b.Digest["sha256"])
		}
	}
	return ""
}
