// SPDX-License-Identifier: MIT

package images

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// ErrUnproven says that no smoke report vouches for an image.
var ErrUnproven = errors.New("not proven")

// Proof is what publishing needs of a smoke report: which bytes were proven, and how it
// ended. It is read from the report's JSON, whose other fields are free.
type Proof struct {
	// Digest is that of the image's manifest, or of its config (the image ID that an engine
	// without a content store gives it). Both bind every byte of the image: a manifest names
	// its config, and a config names its uncompressed layers.
	Digest   Digest
	Verdict  string   // PassVerdict, or anything else for a failure
	StandIns []string // what stood in for a part that a release has; empty for a release
	Path     string   // where the report was read from; empty = not from a file
	JSON     []byte   // the whole report, byte for byte
}

// PassVerdict is the verdict of a report that proves something.
const PassVerdict = "pass"

// ParseProof reads a smoke report: an object with "schema" 1, "digest", "verdict" and
// "stand_ins". path is for messages.
func ParseProof(path string, data []byte) (Proof, error) {
	var doc struct {
		Schema   int       `json:"schema"`
		Digest   string    `json:"digest"`
		Verdict  string    `json:"verdict"`
		StandIns *[]string `json:"stand_ins"`
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return Proof{}, fmt.Errorf("smoke report %s: %w; make one with \"images smoke --json\"", path, err)
	}
	if doc.Schema != 1 {
		return Proof{}, fmt.Errorf("smoke report %s: schema is %d, expected 1; make it again with this version's \"images smoke --json\"", path, doc.Schema)
	}
	d, err := ParseDigest(doc.Digest)
	if err != nil {
		return Proof{}, fmt.Errorf("smoke report %s: %w", path, err)
	}
	if doc.StandIns == nil {
		return Proof{}, fmt.Errorf("smoke report %s: stand_ins is missing, expected a list (empty when nothing stood in)", path)
	}
	return Proof{Digest: d, Verdict: doc.Verdict, StandIns: *doc.StandIns, Path: path, JSON: data}, nil
}

// proofOf returns the proof of an image among proofs. A failed proof never counts, not even
// beside one that passed.
func proofOf(img *Image, proofs []Proof, repo Ref) (Proof, error) {
	var found *Proof
	for i, p := range proofs {
		if p.Digest != img.Digest && p.Digest != img.ConfigDigest {
			continue
		}
		if p.Verdict != PassVerdict {
			return Proof{}, fmt.Errorf("%s %s: %w: the smoke report %s says %q", img.Platform, img.Digest, ErrUnproven, p.Path, p.Verdict)
		}
		if len(p.StandIns) > 0 && !repo.Loopback() {
			return Proof{}, fmt.Errorf("%s %s: %w: built with stand-ins for %s, which never leave this machine; build a release", img.Platform, img.Digest, ErrUnproven, strings.Join(p.StandIns, ", "))
		}
		found = &proofs[i]
	}
	if found == nil {
		return Proof{}, fmt.Errorf("%s %s: %w: no smoke report given is of this digest (or of its image ID %s); run \"images smoke\" on it", img.Platform, img.Digest, ErrUnproven, img.ConfigDigest)
	}
	return *found, nil
}
